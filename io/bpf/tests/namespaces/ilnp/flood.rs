//! A flood of made-up identifiers beside an established session, told and not asserted but for what must not be lost:
//! `cargo test -p moorline-bpf -- --ignored --nocapture ilnp_flood`.

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use moorline_bpf::AttachMode;
use moorline_datapath::ilnp::Report;
use moorline_types::{Ilv, L64, Nid};
use moorline_wire::ilnp::transport_checksum;

use super::{DESTINATION_OPTIONS, Node, UDP};
use crate::can_run;
use crate::net::{Namespace, Net, address};
use crate::throughput::tell_programs;

const SECONDS: u64 = 5;

#[test]
#[ignore = "a measurement"]
fn ilnp_flood() {
    if !can_run("ilnp_flood") {
        return;
    }
    let net = Net::new("if");
    let auto = AttachMode::Auto;
    let (mut a, mut b) = (Node::new(&net, "a", auto), Node::new(&net, "b", auto));
    for node in [&mut a, &mut b] {
        let entry = node.entry(1, 1);
        node.upsert(entry);
    }
    let (ours, theirs) = (a.socket(), b.socket());
    tell("quiet", exchange(&ours, &theirs));
    let (ends, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    tell_programs("flood", || {
        std::thread::scope(|scope| {
            scope.spawn(|| flood(&net, &ends, &sent));
            let round_trips = exchange(&ours, &theirs);
            ends.store(true, Ordering::Relaxed);
            tell("flood", round_trips);
        });
    });
    eprintln!("{} packets a second of made-up identifiers", sent.load(Ordering::Relaxed) / SECONDS);
    // Nothing of it made anything happen.
    let mut candidates = 0;
    let mut count = |report: Report| {
        candidates += u32::from(matches!(report, Report::Candidate { .. }));
    };
    b.plane.drain_reports(&mut count).unwrap();
    assert_eq!(candidates, 0);
    assert_eq!(b.plane.session_count(), 1);
    b.check_drops();
}

/// Datagrams there and back, one after the other, and how long each took; panics if one is lost.
fn exchange(ours: &UdpSocket, theirs: &UdpSocket) -> Vec<Duration> {
    let begin = Instant::now();
    let mut buffer = [0; 64];
    let mut round_trips = Vec::new();
    while begin.elapsed() < Duration::from_secs(SECONDS) {
        let sent = Instant::now();
        ours.send(&[1; 32]).unwrap();
        theirs.recv(&mut buffer).unwrap();
        theirs.send(&[2; 32]).unwrap();
        ours.recv(&mut buffer).unwrap();
        round_trips.push(sent.elapsed());
    }
    round_trips
}

fn tell(what: &str, mut round_trips: Vec<Duration>) {
    round_trips.sort_unstable();
    let at = |share: usize| round_trips[round_trips.len() * share / 100];
    eprintln!(
        "{what}: {} round trips, none lost, median {:?}, 99 of 100 within {:?}",
        round_trips.len(),
        at(50),
        at(99)
    );
}

/// From the router to `b`, as fast as one thread can.
fn flood(net: &Net, ends: &AtomicBool, sent: &AtomicU64) {
    let socket = packet_socket(&net.r, "b1");
    let mac = net.b.sh("cat /sys/class/net/up1/address");
    let mac: Vec<u8> =
        mac.trim().split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    let mut nid: u64 = 1;
    while !ends.load(Ordering::Relaxed) {
        nid = nid.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let packet = made_up(Nid(nid));
        let frame = [&mac, &[2, 0, 0, 0, 0, 9, 0x86, 0xdd][..], &packet].concat();
        // SAFETY: the frame is live and of the length that is passed; the kernel only reads it.
        let status =
            unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if status > 0 {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// With a nonce, and the right checksum.
fn made_up(nid: Nid) -> Vec<u8> {
    let source = Ilv::new(Ilv::of(address("a", 1)).l64, nid);
    let destination = Ilv::of(address("b", 1));
    let [a, b, ..] = nid.octets();
    let mut upper = vec![a, b, b, a, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let sum = transport_checksum(source.at(L64(0)), destination.at(L64(0)), UDP, &upper);
    upper[6..8].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, DESTINATION_OPTIONS, 64];
    packet.extend(source.address().octets());
    packet.extend(destination.address().octets());
    packet.extend([UDP, 0, 0x8b, 4, a, a, b, b]);
    packet.extend(upper);
    packet
}

fn packet_socket(namespace: &Namespace, interface: &str) -> OwnedFd {
    let ifindex = namespace.ifindex(interface);
    namespace.run(|| {
        let protocol = libc::c_int::from(0x86dd_u16.to_be());
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(fd >= 0);
        // SAFETY: all zeros is a valid address of this kind: integers and arrays of them.
        let mut to: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        to.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
        to.sll_protocol = u16::try_from(protocol).unwrap();
        to.sll_ifindex = i32::try_from(ifindex).unwrap();
        let len = u32::try_from(size_of_val(&to)).unwrap();
        // SAFETY: the address is live and of the length that is passed; the kernel only reads it.
        assert_eq!(unsafe { libc::bind(fd, (&raw const to).cast(), len) }, 0);
        // SAFETY: just opened, and nobody else's.
        unsafe { OwnedFd::from_raw_fd(fd) }
    })
}
