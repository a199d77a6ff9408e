//! Failure hints from real TCP and UDP on a failed path; congestion; paths.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use std::net::{SocketAddrV6, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use moorline_bpf::AttachMode;
use moorline_datapath::shim6::{ContextEntry, FailureHint, ReapTimers, Report, Update};
use moorline_plane::shim6::{Outbound, Plane};
use moorline_types::Locator;

use super::capture::Capture;
use super::net::{Net, address};
use super::{Host, ID, can_run, connect, now, settings, transfer};

/// Cuts both ISPs toward `b`: no packet gets through, and no error comes back.
const CUT: &str = "ip -6 route add blackhole 2001:db8:b1::1/128";
const MEND: &str = "ip -6 route del blackhole 2001:db8:b1::1/128";

/// A context that has not moved, and that reports hints.
fn suspecting(host: &Host) -> ContextEntry {
    let timers = ReapTimers {
        send: Duration::from_secs(60),
        keepalive_interval: Duration::from_secs(20),
        keepalive_timeout: Duration::ZERO,
    };
    ContextEntry { timers: Some(timers), suspects: true, ..host.entry(1) }
}

#[test]
fn tcp_that_is_not_answered_is_doubted_and_again_after_an_answer() {
    if !can_run("tcp_that_is_not_answered_is_doubted_and_again_after_an_answer") {
        return;
    }
    let net = Net::new("dt");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let (mut client, mut server) = connect(&net);
    let entry = suspecting(&a);
    a.upsert(entry);
    for _ in 0..2 {
        transfer(&mut client, &mut server, 300_000);
        // A busy machine may have caused hints; an answer ends their cause.
        a.reports();
        net.r.sh(CUT);
        let before = now();
        std::io::Write::write_all(&mut client, b"anybody there?").unwrap();
        let reports = a.wait_for_reports();
        let [Report::Suspected { context: ID, since, .. }] = reports[..] else {
            panic!("{reports:?}");
        };
        assert!(since + Duration::from_millis(1) > before, "{since:?} {before:?}");
        net.r.sh(MEND);
        std::io::Read::read_exact(&mut server, &mut [0; 14]).unwrap();
    }
}

#[test]
fn a_syn_that_is_sent_again_is_doubt() {
    if !can_run("a_syn_that_is_sent_again_is_doubt") {
        return;
    }
    let net = Net::new("ds");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let entry = suspecting(&a);
    a.upsert(entry);
    net.r.sh(CUT);
    let to = SocketAddrV6::new(address("b", 1), 7, 0, 0);
    let namespace = net.a.clone();
    let client = std::thread::spawn(move || {
        namespace.run(|| TcpStream::connect_timeout(&to.into(), Duration::from_secs(20)))
    });
    let reports = a.wait_for_reports();
    let of_syn = |report: &Report| {
        matches!(report, Report::Suspected { hint: FailureHint::Retransmission, .. })
    };
    assert!(reports.len() == 1 && of_syn(&reports[0]), "{reports:?}");
    net.r.sh(MEND);
    // The connection is refused: no socket has the port.
    client.join().unwrap().unwrap_err();
}

#[test]
fn datagrams_both_ways_are_missed_and_an_unreachable_is_told() {
    if !can_run("datagrams_both_ways_are_missed_and_an_unreachable_is_told") {
        return;
    }
    let net = Net::new("du");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let entry = suspecting(&a);
    a.upsert(entry);
    let [here, there] = ["a", "b"].map(|end| SocketAddrV6::new(address(end, 1), 5004, 0, 0));
    let ours = net.a.run(|| UdpSocket::bind(here).unwrap());
    let theirs = net.b.run(|| UdpSocket::bind(there).unwrap());
    for socket in [&ours, &theirs] {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    let mut octets = [0; 64];
    for _ in 0..50 {
        ours.send_to(&[1; 20], there).unwrap();
        theirs.recv(&mut octets).unwrap();
        theirs.send_to(&[2; 20], here).unwrap();
        ours.recv(&mut octets).unwrap();
    }
    a.reports();
    net.r.sh(CUT);
    ours.send_to(&[1; 20], there).unwrap();
    let reports = a.wait_for_reports();
    let is_silence =
        |report: &Report| matches!(report, Report::Suspected { hint: FailureHint::Silence, .. });
    assert!(reports.len() == 1 && is_silence(&reports[0]), "{reports:?}");

    a.plane.apply(&Update::Heard { context: ID, at: now() }, now()).unwrap();
    net.r.sh(MEND);
    net.r.sh("ip -6 route add prohibit 2001:db8:b1::1/128");
    ours.send_to(&[1; 20], there).unwrap();
    let is_unreachable = |report: &Report| {
        matches!(report, Report::Suspected { hint: FailureHint::Unreachable, .. })
    };
    let reports = a.wait_for_reports();
    assert!(reports.iter().any(is_unreachable), "{reports:?}");
}

#[test]
fn congestion_that_a_router_marks_is_counted_at_both_ends() {
    if !can_run("congestion_that_a_router_marks_is_counted_at_both_ends") {
        return;
    }
    let net = Net::new("dc");
    let mut hosts = ["a", "b"].map(|end| Host::new(&net, end, &settings(AttachMode::Auto)));
    for host in &mut hosts {
        host.namespace.sh("sysctl -qw net.ipv4.tcp_ecn=1");
        let entry = ContextEntry { congestion: true, ..host.entry(1) };
        host.upsert(entry);
    }
    let (mut client, mut server) = connect(&net);
    // A router that is congested now and then.
    net.r.sh("nft add table ip6 t");
    net.r.sh("nft add chain ip6 t f { type filter hook forward priority 0\\; }");
    let every = "ip6 ecn != not-ect numgen inc mod 20 == 0 ip6 ecn set ce";
    net.r.sh(&format!("nft add rule ip6 t f oifname b1 {every}"));
    transfer(&mut client, &mut server, 3_000_000);
    let [a, b] = hosts.map(|mut host| {
        let reports = host.reports();
        assert!(reports.iter().any(|report| matches!(report, Report::Congested { .. })));
        host.plane.path_counters(ID).unwrap().unwrap()
    });
    assert!(b.ce > 0 && b.received > b.ce, "{b:?}");
    assert!(a.ece > 0 && a.cwr > 0 && a.ce == 0, "{a:?}");
    assert!(a.segments >= 2000 && a.rtt.is_some(), "{a:?}");
}

/// Sends datagrams from these ports, with this mark.
fn send_marked(net: &Net, ports: core::ops::Range<u16>, mark: u32) {
    for port in ports {
        let from = SocketAddrV6::new(address("a", 1), port, 0, 0);
        let socket = net.a.run(|| UdpSocket::bind(from).unwrap());
        set_mark(&socket, mark);
        socket.send_to(&[7; 20], SocketAddrV6::new(address("b", 1), 9, 0, 0)).unwrap();
    }
}

#[test]
fn flows_of_one_pair_take_the_paths_that_marks_or_ports_say() {
    if !can_run("flows_of_one_pair_take_the_paths_that_marks_or_ports_say") {
        return;
    }
    let net = Net::new("dp");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let isp2 = a.path(Locator(address("a", 2)), Locator(address("b", 2)));
    let entry = ContextEntry { paths: vec![isp2].into(), ..a.entry(1) };
    a.upsert(entry.clone());
    Net::route_over_moor(&net.a, address("a", 1), address("b", 1));
    // The user-space plane tells how many packets each path will have: a capture ends when it has that many.
    let spread = ContextEntry { spread: true, ..entry };
    let moved = 10 + (120..160).filter(|&port| takes_a_path(&spread, port)).count();
    assert!((20..40).contains(&moved), "{moved}");
    let moved = u32::try_from(moved).unwrap();
    let capture = [
        Capture::begin_counted(&net.r, "a1", "udp and src host 2001:db8:a1::1", 60 - moved),
        Capture::begin_shim6(&net.r, "a2", moved),
    ];
    send_marked(&net, 100..110, 0);
    send_marked(&net, 110..120, 1);
    a.upsert(spread.clone());
    send_marked(&net, 120..160, 0);
    let [unmoved, moved] = capture.map(Capture::all);
    let expected = |are_moved: bool, marked: core::ops::Range<u16>| {
        let spread = (120..160).filter(|&port| takes_a_path(&spread, port) == are_moved);
        marked.chain(spread).collect::<Vec<_>>()
    };
    assert_eq!(ports(&unmoved, 40), expected(false, 100..110));
    assert_eq!(ports(&moved, 48), expected(true, 110..120));
    assert_eq!(a.plane.counters(ID).unwrap().tx_packets, 60);
    assert_eq!(a.plane.drops().unwrap(), []);
}

/// Whether the flow from this port takes a path other than the current one.
fn takes_a_path(entry: &ContextEntry, port: u16) -> bool {
    let mut plane = Plane::new(moorline_plane::shim6::Settings::default());
    entry.all_paths().for_each(|path| plane.set_local(path.pair.local));
    plane.handle_update(&Update::Upsert(entry.clone()), now());
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    packet.extend(entry.ulids.local.octets());
    packet.extend(entry.ulids.peer.octets());
    packet.extend(port.to_be_bytes());
    packet.extend([0, 9, 0, 8, 0, 0]);
    matches!(plane.handle_outbound(&mut packet, now()), Outbound::Send { .. })
}

/// Source ports of datagrams whose header begins at this octet.
fn ports(packets: &[Vec<u8>], at: usize) -> Vec<u16> {
    packets.iter().map(|packet| u16::from_be_bytes([packet[at], packet[at + 1]])).collect()
}

fn set_mark(socket: &UdpSocket, mark: u32) {
    let len = libc::socklen_t::try_from(size_of_val(&mark)).unwrap();
    let value = (&raw const mark).cast();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MARK);
    // SAFETY: the value is a live u32, which is what this option wants, and its size is told.
    let status = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}
