//! Tests of the programs on real interfaces: two hosts with two ISPs each, contexts set by hand.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod capture;
mod direct;
mod filters;
mod gather;
mod hint;
mod icmp;
mod ilnp;
mod net;
mod pins;
mod stalled;
mod triggers;
mod tun;

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use std::io::{Read, Write};
use std::net::{SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use capture::{Capture, next_header};
use moorline_bpf::{AttachMode, Datapath, Settings};
use moorline_datapath::shim6::{ContextEntry, ReapTimers, Report, Update};
use moorline_types::{ContextId, ContextTag, Instant, Locator, LocatorPair, Path, Ulid, UlidPair};
use net::{Namespace, Net, address};
use rustix::event::{PollFd, PollFlags, poll};

const SHIM6: u8 = 140;
const ID: ContextId = ContextId(3);

/// Whether the tests can run; prints a message if not.
fn can_run(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: needs root for network namespaces and eBPF");
    }
    root
}

fn tag_of(end: &str) -> ContextTag {
    ContextTag::from_bits(if end == "a" { 0x0a0a_0a0a_0a0a } else { 0x7b0b_0b0b_0b0b })
}

/// A host with its data plane.
struct Host {
    end: &'static str,
    peer: &'static str,
    namespace: Namespace,
    plane: Datapath,
}

impl Host {
    fn new(net: &Net, end: &'static str, settings: &Settings) -> Self {
        let (namespace, peer) = if end == "a" { (&net.a, "b") } else { (&net.b, "a") };
        let plane = open(namespace, end, settings);
        Self { end, peer, namespace: namespace.clone(), plane }
    }

    fn ulids(&self) -> UlidPair {
        UlidPair::new(Ulid(address(self.end, 1)), Ulid(address(self.peer, 1)))
    }

    fn path(&self, local: Locator, peer: Locator) -> Path {
        Path::of(self.ulids(), LocatorPair::new(local, peer))
    }

    fn entry(&self, isp: u8) -> ContextEntry {
        ContextEntry {
            id: ID,
            ulids: self.ulids(),
            local_tag: tag_of(self.end),
            peer_tag: tag_of(self.peer),
            current: self.path(Locator(address(self.end, isp)), Locator(address(self.peer, isp))),
            peer_locators: vec![Locator(address(self.peer, 1)), Locator(address(self.peer, 2))]
                .into(),
            timers: None,
            watch: 0,
            idle: Duration::ZERO,
            suspects: false,
            congestion: false,
            paths: Arc::default(),
            spread: false,
        }
    }

    fn upsert(&mut self, entry: ContextEntry) {
        self.plane.apply(&Update::Upsert(entry), now()).unwrap();
    }

    /// Waits for a report. Returns all reports that are there.
    fn wait_for_reports(&mut self) -> Vec<Report> {
        let fd = self.plane.poll_fd();
        let limit = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).unwrap();
        assert_ne!(ready, 0, "no report within 20 s");
        self.reports()
    }

    fn reports(&mut self) -> Vec<Report> {
        self.plane.take_reports().unwrap()
    }

    /// Sends one datagram between the addresses of ISP 1, from a port of ours.
    fn send_datagram(&self, octets: usize) {
        let from = SocketAddrV6::new(address(self.end, 1), 0, 0, 0);
        let to = SocketAddrV6::new(address(self.peer, 1), 9, 0, 0);
        let socket = self.namespace.run(|| UdpSocket::bind(from).unwrap());
        socket.send_to(&vec![7; octets], to).unwrap();
    }
}

fn open(namespace: &Namespace, end: &str, settings: &Settings) -> Datapath {
    let mut settings = settings.clone();
    if settings.pin_dir.as_os_str().is_empty() {
        settings.pin_dir = namespace.pin_dir();
    }
    namespace.run(|| {
        let mut plane = Datapath::open(&settings).unwrap();
        for isp in 1..=2 {
            let ifindex = namespace.ifindex(&format!("up{isp}"));
            plane.attach_uplink(ifindex).unwrap();
            plane.set_local(address(end, isp), ifindex).unwrap();
        }
        let gathers = std::env::var_os("NO_GATHER").is_none();
        plane.attach_moor(namespace.ifindex("moor0"), namespace.ifindex("moor1"), gathers).unwrap();
        plane
    })
}

/// A TCP connection from `a` to `b`, with addresses of ISP 1.
fn connect(net: &Net) -> (TcpStream, TcpStream) {
    let there = SocketAddrV6::new(address("b", 1), 7, 0, 0);
    let listener = net.b.run(|| TcpListener::bind(there).unwrap());
    let client = net.a.run(|| TcpStream::connect(there).unwrap());
    let (server, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), address("a", 1));
    for end in [&client, &server] {
        // A failure is reported; the test does not wait for it.
        end.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        end.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    (client, server)
}

/// Sends octets in one direction and checks each of them.
fn transfer(from: &mut TcpStream, to: &mut TcpStream, octets: usize) {
    let sent: Vec<u8> = (0..=250).cycle().take(octets).collect();
    let mut received = vec![0; octets];
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&sent).unwrap());
        to.read_exact(&mut received).unwrap();
    });
    assert!(sent == received, "octets arrived changed");
}

fn settings(attach: AttachMode) -> Settings {
    Settings { max_contexts: 64, attach, ..Settings::default() }
}

fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap();
    Instant::from_nanos(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap())
}

fn connection_survives_a_move(attach: AttachMode, tag: &str) {
    let net = Net::new(tag);
    let mut a = Host::new(&net, "a", &settings(attach));
    let mut b = Host::new(&net, "b", &settings(attach));
    let (mut client, mut server) = connect(&net);

    // Not moved: packets have not one octet more.
    for host in [&mut a, &mut b] {
        let entry = host.entry(1);
        host.upsert(entry);
    }
    let capture = Capture::begin(&net.r, "a1");
    transfer(&mut client, &mut server, 200_000);
    let plain = capture.end();
    assert!(plain.iter().any(|packet| next_header(packet) == 6), "nothing seen");
    assert!(plain.iter().all(|packet| next_header(packet) != SHIM6));
    let counters = a.plane.counters(ID).unwrap();
    assert!(counters.tx_bytes > 200_000 && counters.rx_packets > 0, "{counters:?}");

    // Moved, and ISP 1 is cut.
    for host in [&mut a, &mut b] {
        Net::route_over_moor(&host.namespace, address(host.end, 1), address(host.peer, 1));
        let entry = host.entry(2);
        host.upsert(entry);
    }
    net.r.sh("ip link set a1 down; ip link set b1 down");
    let capture = Capture::begin(&net.r, "a2");
    transfer(&mut client, &mut server, 3_000_000);
    transfer(&mut server, &mut client, 3_000_000);
    let moved = capture.end();
    check_moved(&moved, "a", "b");
    check_moved(&moved, "b", "a");
    for host in [&a, &b] {
        assert_eq!(host.plane.drops().unwrap(), [], "{}", host.end);
    }
    assert_eq!(a.plane.mode(), if attach == AttachMode::Tc { "tc" } else { "tcx" });
}

/// Checks that each packet between the hosts has the locators of ISP 2 and the tag of the receiver.
fn check_moved(packets: &[Vec<u8>], from: &str, to: &str) {
    let source = address(from, 2).octets();
    let sent: Vec<_> = packets.iter().filter(|packet| packet[8..24] == source).collect();
    // The capture may miss some packets when the machine is busy.
    assert!(sent.len() > 50, "{} packets from {from}", sent.len());
    let mut header = [0; 8];
    header[0] = 6;
    header[2..].copy_from_slice(&tag_of(to).octets());
    header[2] |= 0x80;
    for packet in sent.iter().filter(|packet| next_header(packet) != 58) {
        assert_eq!(next_header(packet), SHIM6);
        assert_eq!(packet[24..40], address(to, 2).octets());
        assert_eq!(packet[40..48], header);
    }
}

//= rfc5533#11.1-1 (test)
#[test]
fn a_tcp_connection_survives_a_move_with_tcx() {
    if can_run("a_tcp_connection_survives_a_move_with_tcx") {
        connection_survives_a_move(AttachMode::Auto, "x");
    }
}

#[test]
fn a_tcp_connection_survives_a_move_with_classic_tc() {
    if can_run("a_tcp_connection_survives_a_move_with_classic_tc") {
        connection_survives_a_move(AttachMode::Tc, "t");
    }
}

//= rfc5534#6.4 (test)
#[test]
fn send_timer_tells_of_the_first_unanswered_packet_once() {
    if !can_run("send_timer_tells_of_the_first_unanswered_packet_once") {
        return;
    }
    let net = Net::new("s");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    net.r.sh("ip -6 route add blackhole 2001:db8:b1::1/128");
    let send = Duration::from_secs(1);
    let timers = ReapTimers {
        send,
        keepalive_interval: Duration::from_millis(100),
        keepalive_timeout: Duration::from_millis(300),
    };
    let entry = ContextEntry { timers: Some(timers), ..a.entry(1) };
    a.upsert(entry);
    a.send_datagram(10);
    let first = a.plane.counters(ID).unwrap().last_tx;
    a.send_datagram(10);
    let reports = a.wait_for_reports();
    assert_eq!(reports, [Report::SendExpired { context: ID, since: first }]);
    assert!(now().since(first) >= send);

    // A control message ends a new period; another period then expires.
    a.send_datagram(10);
    a.plane.apply(&Update::Heard { context: ID, at: now() }, now()).unwrap();
    a.send_datagram(10);
    let since = a.plane.counters(ID).unwrap().last_tx;
    assert_eq!(a.wait_for_reports(), [Report::SendExpired { context: ID, since }]);
}

//= rfc5534#4.1-3 rfc5534#6.1-2 (test)
#[test]
fn keepalives_are_due_until_the_timeout_and_idle_is_told() {
    if !can_run("keepalives_are_due_until_the_timeout_and_idle_is_told") {
        return;
    }
    let net = Net::new("k");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let b = Host::new(&net, "b", &settings(AttachMode::Auto));
    // `a` gives no answer, not even an ICMPv6 error, which would be payload.
    let sink = SocketAddrV6::new(address("a", 1), 9, 0, 0);
    let sink = net.a.run(|| UdpSocket::bind(sink).unwrap());
    let timers = ReapTimers {
        send: Duration::from_secs(30),
        keepalive_interval: Duration::from_millis(100),
        keepalive_timeout: Duration::from_millis(350),
    };
    let entry = ContextEntry {
        timers: Some(timers),
        idle: Duration::from_millis(900),
        watch: 1,
        ..a.entry(1)
    };
    a.upsert(entry);
    b.send_datagram(10);
    let mut octets = [0; 16];
    assert_eq!(sink.recv(&mut octets).unwrap(), 10);
    let mut reports = Vec::new();
    while !matches!(reports.last(), Some(Report::Idle { .. })) {
        reports.extend(a.wait_for_reports());
    }
    let at = a.plane.counters(ID).unwrap().last_rx;
    assert_eq!(reports.remove(0), Report::Received { context: ID, at });
    assert_eq!(reports.pop(), Some(Report::Idle { context: ID, since: at }));
    // At 100, 200 and 300 ms. There are fewer if this machine slept through one.
    assert!((1..=3).contains(&reports.len()), "{reports:?}");
    assert!(reports.iter().all(|report| *report == Report::KeepaliveDue { context: ID }));
}

#[test]
fn traffic_triggers_once() {
    if !can_run("traffic_triggers_once") {
        return;
    }
    let net = Net::new("g");
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    let ulids = a.ulids();
    a.send_datagram(1000);
    assert_eq!(a.reports(), []);
    a.send_datagram(1000);
    assert_eq!(a.wait_for_reports(), [Report::Trigger { ulids }]);
    a.send_datagram(1000);
    a.send_datagram(1000);
    assert_eq!(a.reports(), []);
    a.plane.apply(&Update::Rearm { ulids }, now()).unwrap();
    a.send_datagram(1000);
    a.send_datagram(1000);
    a.send_datagram(1000);
    assert_eq!(a.wait_for_reports(), [Report::Trigger { ulids }]);
}
