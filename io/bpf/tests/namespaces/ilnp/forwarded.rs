//! A router with its own ILNP, between hosts that use ILNP.

use moorline_datapath::Plane as _;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use moorline_bpf::Datapath;
use moorline_bpf::ilnp::{IlnpDatapath, IlnpSettings};
use moorline_types::Ilv;
use moorline_wire::ilnp::NonceHeader;
use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketType};

use super::{DESTINATION_OPTIONS, UDP, nonce};
use crate::can_run;
use crate::capture::{Capture, next_header};
use crate::net::{Namespace, Net, address};

const ICMPV6: u8 = 58;
const LOCATOR_UPDATE: u8 = 156;

/// A packet with a nonce in front.
fn packet(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut payload =
        NonceHeader { next_header: protocol, nonce: nonce("b"), sequence: None }.emit();
    payload.extend(upper);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([DESTINATION_OPTIONS, 64]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

/// Sends a packet without changes.
fn send(namespace: &Namespace, packet: &[u8], to: Ipv6Addr) {
    let whole = Protocol::from_raw(RawProtocol::new(255).unwrap());
    let socket = namespace
        .run(|| rustix::net::socket(AddressFamily::INET6, SocketType::RAW, Some(whole)).unwrap());
    let to = SocketAddrV6::new(to, 0, 0, 0);
    assert_eq!(rustix::net::sendto(socket, packet, SendFlags::empty(), &to), Ok(packet.len()));
}

fn controls(plane: &IlnpDatapath) -> Vec<Vec<u8>> {
    let mut controls = Vec::new();
    plane.drain_control(&mut |packet| controls.push(packet.to_vec())).unwrap();
    controls
}

#[test]
fn a_router_leaves_nonces_and_messages_of_others_alone() {
    if !can_run("a_router_leaves_nonces_and_messages_of_others_alone") {
        return;
    }
    let net = Net::new("if");
    let router: Ipv6Addr = "2001:db8:b1::fe".parse().unwrap();
    let plane = net.r.run(|| {
        let settings = IlnpSettings { pin_dir: net.r.pin_dir(), ..IlnpSettings::default() };
        Datapath::make_pin_dir(&settings.pin_dir).unwrap();
        let mut plane = IlnpDatapath::open(&settings).unwrap();
        for interface in ["a1", "b1"] {
            plane.attach_uplink(net.r.ifindex(interface)).unwrap();
        }
        plane.set_nids(&[Ilv::of(router).nid].into()).unwrap();
        plane
    });
    let (from, to) = (address("b", 1), address("a", 1));
    let mut update = [0; 24];
    update[0] = LOCATOR_UPDATE;
    let sent = [packet(from, to, UDP, &[0x10; 20]), packet(from, to, ICMPV6, &update)];
    let last = net.a.run(|| UdpSocket::bind((to, 4243)).unwrap());
    last.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let capture = Capture::begin(&net.a, "up1");
    for packet in &sent {
        send(&net.b, packet, to);
    }
    let sender = net.b.run(|| UdpSocket::bind((from, 0)).unwrap());
    sender.send_to(b"the last", (to, 4243)).unwrap();
    last.recv(&mut [0; 8]).unwrap();
    let is_ours = |packet: &Vec<u8>| {
        packet[8..24] == from.octets() && next_header(packet) == DESTINATION_OPTIONS
    };
    let mut arrived: Vec<_> = capture.end().into_iter().filter(is_ours).collect();
    // The packet has passed one hop.
    arrived.iter_mut().for_each(|packet| packet[7] += 1);
    assert_eq!(arrived, sent);
    assert!(controls(&plane).is_empty());
    // The router takes a packet for itself.
    let own = packet(from, router, ICMPV6, &update);
    send(&net.b, &own, router);
    sender.send_to(b"the last", (to, 4243)).unwrap();
    last.recv(&mut [0; 8]).unwrap();
    assert_eq!(controls(&plane), [own]);
    assert_eq!(plane.drops().unwrap(), []);
}
