//! ICMPv6 errors about moved packets, from a router and from the peer, and the reaction of the sockets.

use moorline_datapath::Plane as _;
use moorline_types::Path;
use std::io::ErrorKind;
use std::net::{SocketAddrV6, UdpSocket};
use std::time::Duration;

use moorline_bpf::AttachMode;
use moorline_datapath::shim6::ContextEntry;

use super::capture::Capture;
use super::net::{Net, address};
use super::{Host, SHIM6, can_run, connect, settings, tag_of, transfer};

const ICMPV6: u8 = 58;
const PACKET_TOO_BIG: u8 = 2;
/// MTU of the router's link to `b` on ISP 2.
const SMALLER: u16 = 1400;

/// Both hosts, moved to ISP 2.
fn moved(net: &Net) -> [Host; 2] {
    ["a", "b"].map(|end| {
        let mut host = Host::new(net, end, &settings(AttachMode::Auto));
        Net::route_over_moor(&host.namespace, address(host.end, 1), address(host.peer, 1));
        let entry = host.entry(2);
        host.upsert(entry);
        host
    })
}

fn length(packet: &[u8]) -> u16 {
    40 + u16::from_be_bytes([packet[4], packet[5]])
}

//= rfc5533#8 (test)
#[test]
fn a_moved_tcp_connection_finds_the_mtu_of_its_new_path() {
    if !can_run("a_moved_tcp_connection_finds_the_mtu_of_its_new_path") {
        return;
    }
    let net = Net::new("mt");
    let (mut client, mut server) = connect(&net);
    let hosts = moved(&net);
    net.r.sh(&format!("ip link set b2 mtu {SMALLER}"));
    let from = address("a", 2);
    // The capture ends at 200 packets; 300,000 octets take 215 at least.
    let sent = format!("src {from} and ip6 proto 140");
    let sent = Capture::begin_counted(&net.r, "a2", &sent, 200);
    let too_big = format!("icmp6 and ip6[40] == {PACKET_TOO_BIG}");
    let errors = Capture::begin_counted(&net.r, "a2", &too_big, 1);
    // The transfer succeeds only if the errors of the router reach the socket.
    transfer(&mut client, &mut server, 300_000);
    let (sent, errors) = (sent.all(), errors.all());

    let source = from.octets();
    let lengths: Vec<u16> = sent.iter().map(|packet| length(packet)).collect();
    assert!(lengths.contains(&1500), "nothing was too big: {lengths:?}");
    assert!(lengths.contains(&SMALLER), "no packet as large as the path allows: {lengths:?}");
    // The error of the router: the packet as the router saw it, with the tag of the peer, and the MTU of the router.
    let error = errors.first().expect("an error of the router");
    assert_eq!(error[24..40], source);
    assert_eq!(error[44..48], u32::from(SMALLER).to_be_bytes());
    assert_eq!(error[54], SHIM6);
    assert_eq!(error[90..96], {
        let mut tag = tag_of("b").octets();
        tag[0] |= 0x80;
        tag
    });
    // The result in the kernel.
    let (local, peer) = (address("a", 1), address("b", 1));
    let route = hosts[0].namespace.sh(&format!("ip -6 route get {peer} from {local}"));
    assert!(route.contains("mtu 1392"), "{route}");
    for host in &hosts {
        assert_eq!(host.plane.drops().unwrap(), [], "{}", host.end);
    }
}

//= rfc5533#8-1 rfc5533#8-2 (test)
#[test]
fn sockets_are_told_what_is_unreachable_by_router_and_peer() {
    if !can_run("sockets_are_told_what_is_unreachable_by_router_and_peer") {
        return;
    }
    let net = Net::new("un");
    let mut hosts = moved(&net);
    // Otherwise the kernel would not send a second error within a second.
    net.b.sh("sysctl -qw net.ipv6.icmp.ratelimit=0");
    let from = SocketAddrV6::new(address("a", 1), 0, 0, 0);
    let socket = net.a.run(|| UdpSocket::bind(from).unwrap());
    socket.connect(SocketAddrV6::new(address("b", 1), 9, 0, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let told = || {
        socket.send(b"anybody there?").unwrap();
        socket.recv(&mut [0; 16]).unwrap_err().kind()
    };
    // The stack of `b` quotes ULIDs, and its error travels as payload of the context.
    let capture = Capture::begin_shim6(&net.r, "b2", 2);
    assert_eq!(told(), ErrorKind::ConnectionRefused);
    let packets = capture.all();
    let source = address("b", 2).octets();
    let error = packets.iter().find(|packet| packet[8..24] == source && packet[6] == SHIM6);
    let error = error.expect("the error of b on the wire");
    // Payload header, then ICMPv6, then the packet of the socket.
    assert_eq!((error[40], error[48], error[49]), (ICMPV6, 1, 4));
    assert_eq!(error[56 + 8..56 + 24], address("a", 1).octets());
    assert_eq!(error[56 + 24..56 + 40], address("b", 1).octets());

    net.r.sh("ip -6 route add prohibit 2001:db8:b2::1/128");
    assert_eq!(told(), ErrorKind::PermissionDenied);
    // Only `b` has moved back: its error comes without a header, and is understood.
    net.r.sh("ip -6 route del prohibit 2001:db8:b2::1/128");
    let ulids = hosts[1].ulids();
    let current = Path::of(ulids, ulids.as_locators());
    let entry = ContextEntry { current, ..hosts[1].entry(1) };
    hosts[1].upsert(entry);
    assert_eq!(told(), ErrorKind::ConnectionRefused);
}
