//! ILNP sessions on real interfaces, set by hand, beside the programs of Shim6.

mod errors;
mod forwarded;
mod merged;
mod stacked;
mod strangers;

use moorline_datapath::Plane as _;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use moorline_bpf::ilnp::{IlnpDatapath, IlnpSettings};
use moorline_bpf::{AttachMode, Datapath};
use moorline_datapath::ilnp::ROOM_IN_TCP;
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Update};
use moorline_types::{Ilv, IlvPair, L64, Nonce, SessionId};
use moorline_wire::ilnp::transport_checksum;

use super::capture::{Capture, next_header};
use super::net::{Namespace, Net, address};
use super::{can_run, connect, now, open, settings, transfer};

const TCP: u8 = 6;
const UDP: u8 = 17;
const DESTINATION_OPTIONS: u8 = 60;
const ID: SessionId = SessionId(5);

/// A host with both data planes.
pub(crate) struct Node {
    end: &'static str,
    peer: &'static str,
    namespace: Namespace,
    pub(crate) plane: IlnpDatapath,
    shim6: Datapath,
}

impl Node {
    pub(crate) fn new(net: &Net, end: &'static str, attach: AttachMode) -> Self {
        let (namespace, peer) = if end == "a" { (&net.a, "b") } else { (&net.b, "a") };
        let shim6 = open(namespace, end, &settings(attach));
        let plane = namespace.run(|| {
            let pin_dir = namespace.pin_dir();
            let settings =
                IlnpSettings { max_sessions: 64, pin_dir, attach, ..IlnpSettings::default() };
            let mut plane = IlnpDatapath::open(&settings).unwrap();
            for isp in 1..=2 {
                let ifindex = namespace.ifindex(&format!("up{isp}"));
                plane.attach_uplink(ifindex).unwrap();
                plane.set_locator(l64(end, isp), ifindex).unwrap();
            }
            plane.attach_moor(namespace.ifindex("moor0"), namespace.ifindex("moor1")).unwrap();
            plane.set_nids(&[Ilv::of(address(end, 1)).nid].into()).unwrap();
            plane
        });
        Self { end, peer, namespace: namespace.clone(), plane, shim6 }
    }

    /// The session of connections over ISP 1, whose packets use the ISPs `ours` and `theirs`.
    pub(crate) fn entry(&self, ours: u8, theirs: u8) -> SessionEntry {
        SessionEntry {
            id: ID,
            pair: IlvPair::new(Ilv::of(address(self.end, 1)), Ilv::of(address(self.peer, 1))),
            wire: (l64(self.end, ours), l64(self.peer, theirs)),
            send_nonce: nonce(self.end),
            attach: false,
            always: false,
            maps_tcp: true,
            settled: true,
            receive_nonce: Some(nonce(self.peer)),
            remote: [l64(self.peer, 1), l64(self.peer, 2)].into(),
            checksum: ChecksumMode::NidOnly,
            confirming: false,
            watch: false,
        }
    }

    pub(crate) fn upsert(&mut self, entry: SessionEntry) {
        self.plane.apply(&Update::Upsert(entry), now()).unwrap();
    }

    pub(crate) fn route_over_moor(&self) {
        Net::route_over_moor(&self.namespace, address(self.end, 1), address(self.peer, 1));
    }

    /// A connected socket between the hosts, with addresses of ISP 1.
    fn socket(&self) -> UdpSocket {
        let at = |end| SocketAddrV6::new(address(end, 1), 4242, 0, 0);
        let socket = self.namespace.run(|| UdpSocket::bind(at(self.end)).unwrap());
        socket.connect(at(self.peer)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket
    }

    fn check_drops(&self) {
        assert_eq!(self.plane.drops().unwrap(), [], "{}", self.end);
        assert_eq!(self.shim6.drops().unwrap(), [], "{}, Shim6", self.end);
    }
}

fn l64(end: &str, isp: u8) -> L64 {
    Ilv::of(address(end, isp)).l64
}

fn nonce(end: &str) -> Nonce {
    Nonce::Short(if end == "a" { *b"aaaa" } else { *b"bbbb" })
}

/// Gives the session to both hosts, and moves `a` to ISP 2.
pub(crate) fn hand_off(a: &mut Node, b: &mut Node) {
    a.route_over_moor();
    let (of_a, of_b) = (a.entry(2, 1), b.entry(1, 2));
    b.upsert(of_b);
    a.upsert(of_a);
}

/// Makes senders finish checksums in software, so that receivers check all of them.
fn without_checksum_offload(net: &Net) {
    for namespace in [&net.a, &net.b] {
        namespace.sh("ethtool -K up1 tx off >/dev/null; ethtool -K up2 tx off >/dev/null");
    }
}

fn connection_survives_a_hand_off(attach: AttachMode, tag: &str, offloads: bool) {
    let net = Net::new(tag);
    let (mut a, mut b) = (Node::new(&net, "a", attach), Node::new(&net, "b", attach));
    if !offloads {
        without_checksum_offload(&net);
    }
    let (mut client, mut server) = connect(&net);
    for node in [&mut a, &mut b] {
        let entry = node.entry(1, 1);
        node.upsert(entry);
    }
    // No move: packets have not one octet more, and the checksum covers only identifiers.
    let capture = Capture::begin(&net.r, "a1");
    transfer(&mut client, &mut server, 300_000);
    transfer(&mut server, &mut client, 300_000);
    let steady = tcp_of(&capture.end(), ("a", 1), ("b", 1));
    if !offloads {
        check_sums(&steady, TCP);
    }
    hand_off(&mut a, &mut b);
    net.r.sh("ip link set a1 down");
    let capture = Capture::begin(&net.r, "a2");
    transfer(&mut client, &mut server, 3_000_000);
    transfer(&mut server, &mut client, 3_000_000);
    let moved = tcp_of(&capture.end(), ("a", 2), ("b", 1));
    if !offloads {
        check_sums(&moved, TCP);
    }
    for node in [&a, &b] {
        node.check_drops();
        assert!(node.shim6.contexts().unwrap().is_empty());
    }
    // Sessions trigger no context of Shim6.
    let triggers = a.shim6.take_reports().unwrap();
    assert_eq!(triggers, [], "Shim6 counted packets of a session");
    let reports = a.plane.take_reports().unwrap();
    let is_used = |report: &Report| matches!(report, Report::Used { session: ID, .. });
    assert!(reports.iter().any(is_used), "{reports:?}");
}

/// The packets from one host to the other, all of which are TCP.
fn tcp_of(packets: &[Vec<u8>], from: (&str, u8), to: (&str, u8)) -> Vec<Vec<u8>> {
    let (source, destination) = (address(from.0, from.1).octets(), address(to.0, to.1).octets());
    let is_of = |packet: &&Vec<u8>| packet[8..24] == source && packet[24..40] == destination;
    let of: Vec<_> = packets.iter().filter(is_of).cloned().collect();
    // The capture may miss some packets when the machine is busy.
    assert!(of.len() > 10, "{} packets", of.len());
    assert!(of.iter().all(|packet| next_header(packet) == TCP));
    of
}

/// Checks that packets that were captured as a whole have the checksum of RFC 6741 s4.2.
fn check_sums(packets: &[Vec<u8>], protocol: u8) {
    let mut checked = 0;
    for packet in packets {
        let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        let Some(upper) = packet.get(40..).filter(|upper| upper.len() == len) else { continue };
        let end = |at: usize| {
            let octets: [u8; 16] = packet[at..at + 16].try_into().unwrap();
            Ilv::of(octets.into()).at(L64(0))
        };
        assert_eq!(transport_checksum(end(8), end(24), protocol, upper), 0, "{packet:02x?}");
        checked += 1;
    }
    assert!(checked > 0, "none was whole");
}

//= rfc6744#4-2 (test)
#[test]
fn a_tcp_session_survives_a_hand_off() {
    if can_run("a_tcp_session_survives_a_hand_off") {
        connection_survives_a_hand_off(AttachMode::Auto, "ix", true);
    }
}

#[test]
fn a_tcp_session_survives_a_hand_off_with_checksums_in_software() {
    if can_run("a_tcp_session_survives_a_hand_off_with_checksums_in_software") {
        connection_survives_a_hand_off(AttachMode::Auto, "is", false);
    }
}

#[test]
fn a_tcp_session_survives_a_hand_off_with_classic_tc() {
    if can_run("a_tcp_session_survives_a_hand_off_with_classic_tc") {
        connection_survives_a_hand_off(AttachMode::Tc, "it", true);
    }
}

/// If a correspondent needs the nonce in all packets, super-packets have smaller segments, and no packet is too
/// large.
#[test]
fn super_packets_take_the_nonce() {
    if !can_run("super_packets_take_the_nonce") {
        return;
    }
    let net = Net::new("ig");
    let auto = AttachMode::Auto;
    let (mut a, mut b) = (Node::new(&net, "a", auto), Node::new(&net, "b", auto));
    without_checksum_offload(&net);
    for node in [&mut a, &mut b] {
        let entry = SessionEntry { attach: true, maps_tcp: false, ..node.entry(1, 1) };
        node.upsert(entry);
    }
    let (mut client, mut server) = connect(&net);
    let capture = Capture::begin(&net.r, "a1");
    transfer(&mut client, &mut server, 1_000_000);
    let seen = capture.end();
    let with_nonce = seen.iter().filter(|packet| next_header(packet) == DESTINATION_OPTIONS);
    assert!(with_nonce.count() > 10, "of {}", seen.len());
    for node in [&a, &b] {
        node.check_drops();
    }
}

/// Both hosts have a session in which all packets have the nonce for good.
fn with_all_nonces(net: &Net) -> [Node; 2] {
    ["a", "b"].map(|end| {
        let mut node = Node::new(net, end, AttachMode::Auto);
        let entry = SessionEntry { attach: true, always: true, ..node.entry(1, 1) };
        node.upsert(entry);
        node
    })
}

/// Both hosts also have a route that leaves room for the nonce.
fn with_room_for_nonces(net: &Net) -> [Node; 2] {
    with_all_nonces(net).map(|node| {
        let (local, peer) = (address(node.end, 1), address(node.peer, 1));
        let router = Ipv6Addr::from(u128::from(local) + 0xfd);
        let way = format!("via {router} dev up1 mtu {}", 1500 - ROOM_IN_TCP);
        node.namespace.sh(&format!("ip -6 route add {peer} from {local} {way} table 900"));
        node
    })
}

/// Full segments and super-packets have the nonce too. A router may take the octets at the place of a TCP header for
/// one. These are octets of the nonce, and the router does not find the packet too long (decision 088).
#[test]
fn where_all_packets_have_the_nonce_large_ones_have_it_too() {
    if !can_run("where_all_packets_have_the_nonce_large_ones_have_it_too") {
        return;
    }
    let net = Net::new("ia");
    let nodes = with_room_for_nonces(&net);
    let seen = seen_of_transfers(&net);
    let has_nonce = |packet: &&Vec<u8>| next_header(packet) == DESTINATION_OPTIONS;
    for end in ["a", "b"] {
        let source = address(end, 1).octets();
        let large = |packet: &&Vec<u8>| len(packet) > 1400 && packet[8..24] == source;
        assert!(seen.iter().filter(large).filter(has_nonce).count() > 16, "of {}", seen.len());
    }
    // Packets that fit a path with 1,280 octets without the nonce, and not with it.
    let goes_without = |packet: &&Vec<u8>| (1273..=1280).contains(&len(packet));
    let tcp = seen.iter().filter(|packet| next_header(packet) == TCP);
    assert_eq!(tcp.filter(|packet| !goes_without(packet)).count(), 0, "of {}", seen.len());
    assert_eq!(refused_by_router(&net), 0);
    nodes.iter().for_each(Node::check_drops);
}

/// As the segments of a program that asks for a route before it has a source address.
#[test]
fn where_all_packets_are_to_have_the_nonce_segments_without_room_go_without() {
    if !can_run("where_all_packets_are_to_have_the_nonce_segments_without_room_go_without") {
        return;
    }
    let net = Net::new("iw");
    let nodes = with_all_nonces(&net);
    let seen = seen_of_transfers(&net);
    let full = seen.iter().filter(|packet| next_header(packet) == TCP && len(packet) > 1460);
    assert!(full.count() > 100, "of {}", seen.len());
    let small = |packet: &&Vec<u8>| len(packet) <= 1272;
    let bare = seen.iter().filter(small).filter(|packet| next_header(packet) == TCP);
    assert_eq!(bare.count(), 0, "of {}", seen.len());
    assert_eq!(refused_by_router(&net), 0);
    nodes.iter().for_each(Node::check_drops);
}

/// The packets of 16 connections at the first router of A, each with a transfer in both directions.
fn seen_of_transfers(net: &Net) -> Vec<Vec<u8>> {
    let capture = Capture::begin(&net.r, "a1");
    for _ in 0..16 {
        let (mut client, mut server) = connect(net);
        transfer(&mut client, &mut server, 200_000);
        transfer(&mut server, &mut client, 200_000);
    }
    capture.end()
}

/// Length of a packet on the wire.
fn len(packet: &[u8]) -> usize {
    40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
}

/// Number of packets that were too big for the router.
fn refused_by_router(net: &Net) -> u64 {
    let counts = net.r.sh("cat /proc/net/snmp6");
    let refused = counts.lines().find_map(|line| line.strip_prefix("Icmp6OutPktTooBigs"));
    refused.unwrap().trim().parse().unwrap()
}

//= rfc6744#2-4 rfc6744#8-1 (test)
#[test]
fn datagrams_of_a_moved_session_have_the_nonce() {
    if !can_run("datagrams_of_a_moved_session_have_the_nonce") {
        return;
    }
    let net = Net::new("iu");
    let auto = AttachMode::Auto;
    let (mut a, mut b) = (Node::new(&net, "a", auto), Node::new(&net, "b", auto));
    without_checksum_offload(&net);
    let (ours, theirs) = (a.socket(), b.socket());
    hand_off(&mut a, &mut b);
    let capture = Capture::begin_counted(&net.r, "a2", "ip6 and not icmp6", 5);
    ours.send(b"there").unwrap();
    let mut buffer = [0; 1500];
    assert_eq!(theirs.recv(&mut buffer).unwrap(), 5);
    theirs.send(b"back").unwrap();
    assert_eq!(ours.recv(&mut buffer).unwrap(), 4);
    // The kernel has to segment this super-packet before the nonce is inserted.
    set_segment_size(&ours, 1000);
    ours.send(&[7; 2500]).unwrap();
    for octets in [1000, 1000, 500] {
        assert_eq!(theirs.recv(&mut buffer).unwrap(), octets);
    }
    let packets = capture.all();
    assert_eq!(packets.len(), 5);
    for packet in &packets {
        let is_ours = packet[8..24] == address("a", 2).octets();
        let nonce = if is_ours { b"aaaa" } else { b"bbbb" };
        assert_eq!(next_header(packet), DESTINATION_OPTIONS);
        assert_eq!(packet[40..48], [&[UDP, 0, 0x8b, 4][..], nonce].concat());
    }
    for node in [&a, &b] {
        node.check_drops();
    }
}

fn set_segment_size(socket: &UdpSocket, octets: libc::c_int) {
    // SAFETY: the value is live and of the length that is passed; the kernel only reads it.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            core::ptr::from_ref(&octets).cast(),
            4,
        )
    };
    assert_eq!(status, 0);
}
