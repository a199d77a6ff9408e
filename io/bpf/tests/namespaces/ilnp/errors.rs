//! ICMPv6 errors of a router about packets of a session that has moved, and the reaction of the sockets.

use std::io::ErrorKind;
use std::net::{SocketAddrV6, UdpSocket};
use std::time::Duration;

use moorline_bpf::AttachMode;

use super::super::net::{Net, address};
use super::super::{can_run, connect, transfer};
use super::{Node, hand_off, with_room_for_nonces};

/// MTU of the router's link to `b` on ISP 1.
const SMALLER: u16 = 1400;

fn moved(net: &Net) -> [Node; 2] {
    let mut nodes = ["a", "b"].map(|end| Node::new(net, end, AttachMode::Auto));
    let [a, b] = &mut nodes;
    hand_off(a, b);
    nodes
}

/// The MTU that the route of the connection has.
fn mtu_of(net: &Net) -> String {
    net.a.sh(&format!("ip -6 route get {} from {}", address("b", 1), address("a", 1)))
}

/// Without a nonce, the socket is the proof.
#[test]
fn a_moved_tcp_session_finds_the_mtu_of_its_new_path() {
    if !can_run("a_moved_tcp_session_finds_the_mtu_of_its_new_path") {
        return;
    }
    let net = Net::new("ie");
    let (mut client, mut server) = connect(&net);
    let nodes = moved(&net);
    net.r.sh(&format!("ip link set b1 mtu {SMALLER}"));
    // The transfer succeeds only if the errors of the router reach the socket.
    transfer(&mut client, &mut server, 300_000);
    let route = mtu_of(&net);
    assert!(route.contains(&format!("mtu {SMALLER}")), "{route}");
    nodes.iter().for_each(Node::check_drops);
}

/// The MTU of the router includes the nonce, and that of the socket does not. On a path with the least MTU, full
/// segments have no nonce.
#[test]
fn where_all_packets_have_the_nonce_tcp_finds_the_mtu_of_its_path() {
    if !can_run("where_all_packets_have_the_nonce_tcp_finds_the_mtu_of_its_path") {
        return;
    }
    for (tag, path, found) in [("iy", SMALLER, 1360), ("iz", 1280, 1280)] {
        let net = Net::new(tag);
        let nodes = with_room_for_nonces(&net);
        let (mut client, mut server) = connect(&net);
        net.r.sh(&format!("ip link set b1 mtu {path}"));
        transfer(&mut client, &mut server, 300_000);
        let route = mtu_of(&net);
        assert!(route.contains(&format!("mtu {found}")), "{route}");
        nodes.iter().for_each(Node::check_drops);
    }
}

/// The router sends from its only address on the link, a link-local one. The quote is as in other errors.
#[test]
fn a_router_that_has_an_address_of_the_link_alone_is_heard() {
    if !can_run("a_router_that_has_an_address_of_the_link_alone_is_heard") {
        return;
    }
    let net = Net::new("ij");
    let (mut client, mut server) = connect(&net);
    let nodes = moved(&net);
    without_global_addresses(&net);
    net.r.sh(&format!("ip link set b1 mtu {SMALLER}"));
    transfer(&mut client, &mut server, 300_000);
    let route = mtu_of(&net);
    assert!(route.contains(&format!("mtu {SMALLER}")), "{route}");
    nodes.iter().for_each(Node::check_drops);
}

/// The router has only link-local addresses, and the hosts use these as next hops.
fn without_global_addresses(net: &Net) {
    for (host, end) in [(&net.a, "a"), (&net.b, "b")] {
        for isp in 1..=2 {
            let link = format!("{end}{isp}");
            net.r.sh(&format!("ip addr flush dev {link} scope global"));
            net.r.sh(&format!("ip -6 route add {}/64 dev {link}", address(end, isp))
                .replace("::1/64", "::/64"));
            let shown = net.r.sh(&format!("ip -o -6 addr show dev {link} scope link"));
            let router = shown.split_whitespace().nth(3).unwrap().trim_end_matches("/64");
            let way = format!("default via {router} dev up{isp}");
            host.sh(&format!("ip -6 route replace {way} table 10{isp}"));
            if isp == 1 {
                host.sh(&format!("ip -6 route replace {way}"));
            }
        }
    }
}

/// Datagrams have a nonce, and the socket does not know of its octets.
#[test]
fn a_socket_is_told_that_its_datagrams_are_too_large_or_not_wanted() {
    if !can_run("a_socket_is_told_that_its_datagrams_are_too_large_or_not_wanted") {
        return;
    }
    let net = Net::new("iw");
    let nodes = moved(&net);
    net.r.sh("sysctl -qw net.ipv6.icmp.ratelimit=0");
    let socket =
        net.a.run(|| UdpSocket::bind(SocketAddrV6::new(address("a", 1), 0, 0, 0)).unwrap());
    socket.connect(SocketAddrV6::new(address("b", 1), 9, 0, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();

    net.r.sh("ip -6 route add prohibit 2001:db8:b1::1/128");
    socket.send(b"anybody there?").unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::PermissionDenied);
    net.r.sh("ip -6 route del prohibit 2001:db8:b1::1/128");

    net.r.sh(&format!("ip link set b1 mtu {SMALLER}"));
    socket.send(&[7; 1400]).unwrap();
    let mut route = mtu_of(&net);
    for _ in 0..1000 {
        if route.contains("mtu 1392") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        route = mtu_of(&net);
    }
    assert!(route.contains("mtu 1392"), "{route}");
    nodes.iter().for_each(Node::check_drops);
}

/// The error quotes as much as fits into 1,280 octets, with a nonce in front.
#[test]
fn a_socket_of_a_session_that_has_not_moved_is_told_of_a_large_datagram() {
    if !can_run("a_socket_of_a_session_that_has_not_moved_is_told_of_a_large_datagram") {
        return;
    }
    let net = Net::new("il");
    let mut nodes = ["a", "b"].map(|end| Node::new(&net, end, AttachMode::Auto));
    for node in &mut nodes {
        let entry = node.entry(1, 1);
        node.upsert(entry);
    }
    let socket = nodes[0].socket();
    socket.send(&[7; 1300]).unwrap();
    assert_eq!(socket.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    nodes.iter().for_each(Node::check_drops);
}
