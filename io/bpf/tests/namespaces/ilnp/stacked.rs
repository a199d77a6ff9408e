//! An uplink on top of another, such as a VLAN or a macvlan: its packets pass the programs of both.

use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use moorline_bpf::AttachMode;
use moorline_datapath::ilnp::SessionEntry;
use moorline_types::{Ilv, IlvPair, SessionId};
use rustix::net::{AddressFamily, SocketType};

use super::super::net::{Namespace, Net, address};
use super::super::{can_run, transfer};
use super::{Node, l64, without_checksum_offload};

/// Number of the ISP whose prefix the upper uplink has.
const OVER: u8 = 3;
const LIMIT: Duration = Duration::from_secs(30);

/// `over1` on `up1`, an uplink with its own programs.
fn stack(net: &Net, node: &mut Node) {
    let (end, own) = (node.end, address(node.end, OVER));
    let router = Ipv6Addr::from(u128::from(own) + 0xfd);
    net.r.sh(&format!("ip addr add {router}/64 dev {end}1 nodad"));
    let host = &node.namespace;
    host.sh("ip link add link up1 name over1 type macvlan; ip link set over1 up");
    host.sh(&format!("ip addr add {own}/64 dev over1 nodad"));
    host.sh(&format!("ip -6 route add default via {router} dev over1 table 103"));
    host.sh(&format!("ip -6 rule add from {own} lookup 103 pref 203"));
    host.sh("ip -6 rule add pref 99 oif over1 goto 201");
    host.sh("ethtool -K over1 tx off >/dev/null");
    let ifindex = host.ifindex("over1");
    host.run(|| node.plane.attach_uplink(ifindex).unwrap());
    node.plane.set_locator(l64(end, OVER), ifindex).unwrap();
    host.run(|| node.shim6.attach_uplink(ifindex).unwrap());
    node.shim6.set_local(own, ifindex).unwrap();
}

/// The session of connections over this uplink, whose packets use the ISPs `ours` and `theirs`.
fn entry(node: &Node, ours: u8, theirs: u8) -> SessionEntry {
    let ends = [node.end, node.peer].map(|end| Ilv::of(address(end, OVER)));
    SessionEntry {
        id: SessionId(6),
        pair: IlvPair::new(ends[0], ends[1]),
        wire: (l64(node.end, ours), l64(node.peer, theirs)),
        remote: [OVER, 2].map(|isp| l64(node.peer, isp)).into(),
        ..node.entry(1, 1)
    }
}

fn at(end: &str) -> SocketAddrV6 {
    SocketAddrV6::new(address(end, OVER), 4242, 0, 0)
}

fn socket(namespace: &Namespace, end: &str, peer: &str) -> UdpSocket {
    let socket = namespace.run(|| UdpSocket::bind(at(end)).unwrap());
    socket.connect(at(peer)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

fn connect(net: &Net) -> [TcpStream; 2] {
    let listener = net.b.run(|| TcpListener::bind(at("b")).unwrap());
    let client = net.a.run(|| {
        let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &at("a")).unwrap();
        rustix::net::connect(&socket, &at("b")).unwrap();
        socket
    });
    let ends = [client.into(), listener.accept().unwrap().0];
    for end in &ends {
        end.set_read_timeout(Some(LIMIT)).unwrap();
        end.set_write_timeout(Some(LIMIT)).unwrap();
    }
    ends
}

fn exchange(sockets: [&UdpSocket; 2]) {
    let mut buffer = [0; 16];
    for [from, to] in [sockets, [sockets[1], sockets[0]]] {
        from.send(b"by both").unwrap();
        assert_eq!(to.recv(&mut buffer).unwrap(), 7);
    }
}

#[test]
fn a_packet_that_comes_by_two_uplinks_is_taken_once() {
    if !can_run("a_packet_that_comes_by_two_uplinks_is_taken_once") {
        return;
    }
    let net = Net::new("iv");
    let auto = AttachMode::Auto;
    let (mut a, mut b) = (Node::new(&net, "a", auto), Node::new(&net, "b", auto));
    without_checksum_offload(&net);
    for node in [&mut a, &mut b] {
        stack(&net, node);
    }
    let [mut client, mut server] = connect(&net);
    for node in [&mut a, &mut b] {
        node.upsert(entry(node, OVER, OVER));
    }
    let (ours, theirs) = (socket(&net.a, "a", "b"), socket(&net.b, "b", "a"));
    exchange([&ours, &theirs]);
    transfer(&mut client, &mut server, 100_000);
    transfer(&mut server, &mut client, 100_000);
    // The first packet has the nonce.
    let (own, peer) = (address("a", OVER), address("b", OVER));
    Net::route_over_moor(&net.a, own, peer);
    b.upsert(entry(&b, OVER, 2));
    a.upsert(entry(&a, 2, OVER));
    exchange([&ours, &theirs]);
    transfer(&mut client, &mut server, 100_000);
    transfer(&mut server, &mut client, 100_000);
    for node in [&a, &b] {
        node.check_drops();
    }
}
