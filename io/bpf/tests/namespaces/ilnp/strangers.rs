//! Sockets of those whose packets nobody has seen yet.

use moorline_datapath::Plane as _;
use std::net::{SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use moorline_bpf::AttachMode;
use moorline_datapath::ilnp::Report;
use moorline_types::{Ilv, IlvPair};

use super::Node;
use crate::can_run;
use crate::net::{Namespace, Net, address};

fn connected(namespace: &Namespace, end: &str, isp: u8, peer: &str, peer_isp: u8) -> UdpSocket {
    let at = |end, isp| SocketAddrV6::new(address(end, isp), 4242, 0, 0);
    let socket = namespace.run(|| UdpSocket::bind(at(end, isp)).unwrap());
    socket.connect(at(peer, peer_isp)).unwrap();
    socket
}

/// One look takes the time of the next, by the clocks of the kernel that runs (unit tests have one of their own).
#[test]
fn a_socket_that_only_hears_is_found_again_and_again() {
    if !can_run("a_socket_that_only_hears_is_found_again_and_again") {
        return;
    }
    let net = Net::new("is");
    let mut b = Node::new(&net, "b", AttachMode::Auto);
    for isp in 1..=2 {
        let _hears = connected(&net.b, "b", 1, "a", isp);
        let sends = connected(&net.a, "a", isp, "b", 1);
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
