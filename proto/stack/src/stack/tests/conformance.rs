//! What the RFCs demand of a host as a whole, if no test of a machine shows it. The markers say which sentence it is.

use moorline_ip::PacketBuf;
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::header::LEN;
use moorline_ip::icmp::Icmp;
use moorline_ip::ip6::{ROUTING, TCP};

use super::link::{HOST_MAC, ROUTER_MAC};
use super::*;
use crate::Drop;
use crate::tcp::{Segment, SynOptions};

/// Gives the host a packet from the router's station with this header.
pub(super) fn give(link: &mut Link, header: Header, payload: &[u8]) {
    let payload_len = u16::try_from(payload.len()).expect("short");
    let ethernet =
        Ethernet { destination: HOST_MAC, source: ROUTER_MAC, ether_type: ethernet::IPV6 };
    let mut frame = PacketBuf::copy_of(payload);
    frame.prepend(&Header { payload_len, ..header }.octets());
    frame.prepend(&ethernet.octets());
    link.frames.clear();
    link.stack.handle_frame(WireId(0), frame, link.now);
}

pub(super) fn from_router(next_header: u8, hop_limit: u8) -> Header {
    Header::new(ROUTER, host(), next_header, hop_limit, 0)
}

pub(super) fn echo_request(size: usize) -> Vec<u8> {
    let mut request = vec![];
    let data = vec![1; size];
    Echo { identifier: 1, sequence: 1, data: &data }.emit(
        Kind::ECHO_REQUEST,
        ROUTER,
        host(),
        &mut request,
    );
    request
}

/// The only ICMPv6 message that the host has sent: its header, type and code, and what follows the checksum.
pub(super) fn message(link: &mut Link) -> (Header, (Kind, u8), Vec<u8>) {
    let mut sent = link.packets(ICMPV6);
    assert_eq!(sent.len(), 1);
    let (header, octets) = sent.remove(0);
    let message = Icmp::parse(header.source, header.destination, &octets).expect("checksum");
    (header, (message.kind, message.code), message.body.to_vec())
}

pub(super) fn dropped(link: &Link, reason: Drop) -> u64 {
    let rows = link.stack.netstat(link.now).drops;
    rows.into_iter().find(|(one, _)| *one == reason).map_or(0, |(_, count)| count)
}

//= rfc8200#3-1 rfc8200#3-2 (test)
#[test]
fn a_packet_with_a_hop_limit_of_zero_is_processed() {
    let mut link = configured();
    give(&mut link, from_router(ICMPV6, 0), &echo_request(8));
    assert_eq!(message(&mut link).1, (Kind::ECHO_REPLY, 0));
}

//= rfc4443#3.4-2 (test)
//= rfc8200#4-4 (test)
#[test]
fn an_unknown_next_header_draws_an_error_from_the_host() {
    let mut link = configured();
    give(&mut link, from_router(253, 64), &[0; 8]);
    let (header, kind, body) = message(&mut link);
    assert_eq!((header.source, header.destination), (host(), ROUTER));
    assert_eq!(kind, (Kind::PARAMETER_PROBLEM, icmp::UNKNOWN_NEXT_HEADER));
    // The pointer is the offset of the Next Header field of the IPv6 header.
    assert_eq!(body[..4], [0, 0, 0, 6]);
}

//= rfc8200#4.5-12 (test)
#[test]
fn the_source_of_a_first_fragment_hears_that_the_time_is_over() {
    let mut link = configured();
    let fields = Fragment { next_header: UDP, offset: 0, has_more: true, identification: 1 };
    let payload = [&fields.octets()[..], &[0; 16]].concat();
    give(&mut link, from_router(FRAGMENT, 64), &payload);
    link.run(Duration::from_secs(59));
    let is_error = |(_, octets): &(Header, Vec<u8>)| octets[0] == Kind::TIME_EXCEEDED.0;
    assert!(!link.packets(ICMPV6).iter().any(is_error));
    link.run(Duration::from_secs(1));
    let (header, error) = link.packets(ICMPV6).into_iter().find(is_error).expect("an error");
    assert_eq!((header.destination, error[1]), (ROUTER, icmp::REASSEMBLY));
}

//= rfc8200#5-2 (test)
#[test]
fn the_mtu_of_a_wire_is_1280_at_least() {
    let mut stack = Stack::new(Config::default(), [7; 32], Instant::ZERO);
    let addressing = crate::address::Config::new(HOST_MAC);
    let wire = WireConfig { mtu: 576, addressing, ip4: None };
    stack.add_wire(wire, Instant::ZERO);
    assert_eq!(stack.wires[0].routers.mtu(), 1280);
}

//= rfc8200#5-4 (test)
#[test]
fn packets_as_large_as_the_link_are_answered_whole() {
    let mut link = configured();
    give(&mut link, from_router(ICMPV6, 64), &echo_request(1500 - LEN - 8));
    let (header, kind, body) = message(&mut link);
    assert_eq!((header.packet_len(), kind), (1500, (Kind::ECHO_REPLY, 0)));
    assert_eq!(body[4..], vec![1; 1500 - LEN - 8]);
}

//= rfc8200#8.1-5 (test)
#[test]
fn a_datagram_without_a_checksum_is_counted() {
    let mut link = configured();
    let socket = link.stack.udp_bind(None, Some(2000)).expect("socket");
    give(&mut link, from_router(UDP, 64), &[0, 9, 0x07, 0xd0, 0, 9, 0, 0, 1]);
    assert_eq!(dropped(&link, Drop::BadChecksum), 1);
    assert!(link.stack.udp_recv(socket).is_err());
}

//= rfc8200#8.3-1 rfc8200#8.3-2 (test)
#[test]
fn the_mss_is_the_mtu_without_60_octets() {
    let mut link = configured();
    link.frames.clear();
    link.stack.tcp_connect((ROUTER, 80), link.now).expect("connection");
    let (_, syn) = link.packets(TCP).pop().expect("a SYN");
    let options = SynOptions::parse(Segment::parse(&syn).expect("segment").options);
    assert_eq!(options.mss, Some(1500 - 60));
}

//= rfc8200#8.4-1 (test)
#[test]
fn the_answer_to_a_packet_with_a_routing_header_has_none() {
    let mut link = configured();
    let routing = [ICMPV6, 2, 0, 0, 0, 0, 0, 0];
    let address = ROUTER.octets();
    let payload = [&routing[..], &address, &echo_request(8)].concat();
    give(&mut link, from_router(ROUTING, 64), &payload);
    assert_eq!(message(&mut link).1, (Kind::ECHO_REPLY, 0));
    assert!(link.packets(ROUTING).is_empty());
}

//= rfc8504#5.4-14 (test)
//= rfc6980#5-1 (test)
#[test]
fn no_message_of_discovery_is_sent_in_fragments() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(30));
    link.advertise(Duration::from_secs(1800));
    link.stack.ping(address("2001:db8:1::77"), (1, 1), &[], link.now).expect("a route");
    link.run(Duration::from_secs(30));
    assert!(link.packets(FRAGMENT).is_empty());
    assert!(link.sent_discovery().len() > 8);
}
