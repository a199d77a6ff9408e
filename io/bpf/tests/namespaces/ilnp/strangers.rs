//! Sockets of correspondents from which no packet has come yet.

use moorline_datapath::Plane as _;
use std::net::{SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use moorline_bpf::AttachMode;
use moorline_datapath::ilnp::Report;
use moorline_types::{Ilv, IlvPair};

use super::Node;
use crate::can_run;
use crate::net::{Namespace, Net, address};

fn connected(namespace: &Namespace, ours: SocketAddrV6, theirs: SocketAddrV6) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind(ours).unwrap());
    socket.connect(theirs).unwrap();
    socket
}

/// After a look, the next one waits, by the clock of the kernel that runs (unit tests set their own).
#[test]
fn a_socket_that_only_hears_is_found_again_and_again() {
    if !can_run("a_socket_that_only_hears_is_found_again_and_again") {
        return;
    }
    let net = Net::new("is");
    let mut b = Node::new(&net, "b", AttachMode::Auto);
    for isp in 1..=2 {
        // No port is bound twice: a program that another test starts holds a copy of a closed socket until it is
        // executed.
        let at = |end, of| SocketAddrV6::new(address(end, of), 4240 + u16::from(isp), 0, 0);
        let (ours, theirs) = (at("b", 1), at("a", isp));
        let _hears = connected(&net.b, ours, theirs);
        let sends = connected(&net.a, theirs, ours);
        let pair = IlvPair::new(Ilv::of(address("b", 1)), Ilv::of(address("a", isp)));
        let begin = Instant::now();
        let mut is_found = false;
        while !is_found {
            assert!(begin.elapsed() < Duration::from_secs(30), "{pair:?} is not found");
            sends.send(b"to one who only hears").unwrap();
            std::thread::sleep(Duration::from_millis(10));
            let is_it = |report: &Report| matches!(report, Report::Candidate { pair: of, .. } if *of == pair);
            is_found = b.plane.take_reports().unwrap().iter().any(is_it);
        }
    }
    b.check_drops();
}
