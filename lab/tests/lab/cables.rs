//! Cables with delay, jitter, loss and a rate. Needs root. Prints a message if it skips.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::common::{
    endpoint, eventually, is_skipped, namespaces_of, programs_for, restore_carrier,
};
use moorline_lab::topology::{self, Impairment};
use moorline_lab::workload::{Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Failure, Lab, preflight};

/// The network of the demo with such cables at host A. `None` if a lab cannot run here.
fn lab_with(test: &str, plan: Impairment) -> Option<Lab> {
    let topology = topology::two_by_two(true).with_cables_of("a", plan);
    if is_skipped(test, &preflight::check(programs_for(plan))) {
        return None;
    }
    Some(Lab::build(topology).unwrap())
}

/// Connected sockets of A and B at ISP 1, after a first datagram and its answer.
fn talk(lab: &Lab) -> [UdpSocket; 2] {
    let sockets = ["a", "b"].map(|host| {
        let end = endpoint(lab, host, 1);
        let socket = end.namespace.enter(|| Ok(UdpSocket::bind((end.address, 0))?)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket
    });
    let [a, b] = &sockets;
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    let mut octets = [0; 8];
    eventually("a first answer", || {
        a.send(b"hello").is_ok()
            && b.recv(&mut octets).is_ok()
            && b.send(b"hello").is_ok()
            && a.recv(&mut octets).is_ok()
    });
    // Drop repeated datagrams.
    for socket in &sockets {
        while socket.recv(&mut octets).is_ok() {}
    }
    sockets
}

#[test]
fn delay_and_jitter_are_on_every_round_trip_and_order_is_kept() {
    let delay = Duration::from_millis(20);
    let plan = Impairment { jitter: Duration::from_millis(4), seed: 5, ..Impairment::delay(delay) };
    let Some(lab) = lab_with("delay", plan) else { return };
    assert_eq!(namespaces_of(lab.name()).len(), 5, "nodes and wires");
    let [a, b] = talk(&lab);
    let mut octets = [0; 8];
    let mut sum = Duration::ZERO;
    for _ in 0..20 {
        let begin = Instant::now();
        a.send(b"ping").unwrap();
        b.recv(&mut octets).unwrap();
        b.send(b"pong").unwrap();
        a.recv(&mut octets).unwrap();
        sum += begin.elapsed();
    }
    // A lower bound only, because a busy machine adds delay: 40 ms minus four standard errors of the mean.
    assert!(sum / 20 > Duration::from_millis(34), "{sum:?}");

    for number in 0..200_u64 {
        a.send(&number.to_be_bytes()).unwrap();
    }
    for number in 0..200_u64 {
        b.recv(&mut octets).unwrap();
        assert_eq!(u64::from_be_bytes(octets), number);
    }
    let name = lab.name().to_owned();
    drop(lab);
    assert_eq!(namespaces_of(&name), [""; 0]);
}

#[test]
fn a_lossy_cable_loses_its_part_and_tcp_does_not_mind() {
    let plan = Impairment { loss_ppm: 100_000, seed: 9, ..Impairment::default() };
    let Some(lab) = lab_with("loss", plan) else { return };
    let [a, b] = talk(&lab);
    b.set_nonblocking(true).unwrap();
    let (mut octets, mut received) = ([0; 8], 0);
    for _ in 0..10 {
        for _ in 0..100 {
            a.send(b"payload").unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        while b.recv(&mut octets).is_ok() {
            received += 1;
        }
    }
    assert!((850..950).contains(&received), "{received} of 1000");
    transfer(&lab, 60_000);
}

#[test]
fn segments_and_checksums_pass_a_cable_with_a_rate_and_one_without() {
    for rate in [None, Some(10_000_000)] {
        let plan =
            Impairment { rate, queue: 100_000, ..Impairment::delay(Duration::from_millis(1)) };
        let Some(lab) = lab_with("segments", plan) else { return };
        let begin = Instant::now();
        transfer(&lab, 3_000_000);
        if rate.is_some() {
            assert!(begin.elapsed() > Duration::from_millis(280), "{:?}", begin.elapsed());
        }
    }
}

fn transfer(lab: &Lab, bytes: u64) {
    for sender in [Sender::Client, Sender::Server] {
        let (client, server) = (endpoint(lab, "a", 1), endpoint(lab, "b", 1));
        let options = TcpOptions { client, server, sender, bytes, rate: 1_000_000_000 };
        let outcome = TcpTransfer::start(&options).unwrap().finish().unwrap();
        assert!(outcome.complete, "{sender:?}");
    }
}

#[test]
fn a_host_sees_the_carrier_go_through_a_wire() {
    let plan = Impairment::delay(Duration::from_millis(1));
    let Some(lab) = lab_with("carrier of a wire", plan) else { return };
    let [a, b] = talk(&lab);
    let host = lab.namespace("a").unwrap();
    let shows = |what: &str| host.ip(&["link", "show", "isp1"]).unwrap().contains(what);
    lab.fail(Failure::CarrierDown { node: "a".into(), interface: "isp1".into() }).unwrap();
    eventually("no carrier", || shows("NO-CARRIER"));
    restore_carrier(&lab, "a", "isp1");
    eventually("carrier", || shows("LOWER_UP"));
    let mut octets = [0; 8];
    eventually("datagrams again", || a.send(b"again").is_ok() && b.recv(&mut octets).is_ok());
}
