//! What the RFCs demand of a host as a whole, if no test of a machine shows it. The markers say which sentence it is.

use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::header::LEN;
use moorline_ip::icmp::Icmp;
use moorline_ip::ip6::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING, TCP};
use moorline_ip::{Header, PacketBuf};

use super::link::{HOST_MAC, ROUTER_MAC};
use super::*;
use crate::Drop;
use crate::tcp::{Segment, SynOptions};

/// Gives the host a packet from the router's station with this header.
fn give(link: &mut Link, header: Header, payload: &[u8]) {
    let payload_len = u16::try_from(payload.len()).expect("short");
    let ethernet =
        Ethernet { destination: HOST_MAC, source: ROUTER_MAC, ether_type: ethernet::IPV6 };
    let mut frame = PacketBuf::copy_of(payload);
    frame.prepend(&Header { payload_len, ..header }.octets());
    frame.prepend(&ethernet.octets());
    link.frames.clear();
    link.stack.handle_frame(WireId(0), frame, link.now);
}

fn from_router(next_header: u8, hop_limit: u8) -> Header {
    Header::new(ROUTER, host(), next_header, hop_limit, 0)
}

fn echo_request(size: usize) -> Vec<u8> {
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
fn message(link: &mut Link) -> (Header, (Kind, u8), Vec<u8>) {
    let mut sent = link.packets(ICMPV6);
    assert_eq!(sent.len(), 1);
    let (header, octets) = sent.remove(0);
    let message = Icmp::parse(header.source, header.destination, &octets).expect("checksum");
    (header, (message.kind, message.code), message.body.to_vec())
}

fn dropped(link: &Link, reason: Drop) -> u64 {
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

//= rfc8200#4-1 rfc8200#4.2-5 rfc8200#4.2-7 (test)
#[test]
fn frames_have_the_octets_that_rfc_3810_demands() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    let reports = link.packets(HOP_BY_HOP);
    assert!(!reports.is_empty());
    for (header, octets) in reports {
        assert_eq!((header.next_header, header.hop_limit), (HOP_BY_HOP, 1));
        assert!(header.source.is_unspecified() || header.source.is_unicast_link_local());
        // The Router Alert option, and PadN for the two octets that are left.
        assert_eq!(octets[..8], [ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
    }
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

//= rfc4443#2.2-2 rfc4443#4.1-1 rfc4443#4.2-1 rfc4443#4.2-3 rfc4443#4.2-6 (test)
#[test]
fn an_echo_reply_returns_the_data_from_the_address_that_was_asked() {
    let mut link = configured();
    let link_local = address("fe80::ff:fe00:2");
    for asked in [host(), link_local] {
        let mut request = vec![];
        let echo = Echo { identifier: 7, sequence: 9, data: &[3, 1, 4, 1, 5] };
        echo.emit(Kind::ECHO_REQUEST, ROUTER, asked, &mut request);
        give(&mut link, Header::new(ROUTER, asked, ICMPV6, 64, 0), &request);
        let (header, kind, body) = message(&mut link);
        assert_eq!((header.source, header.destination), (asked, ROUTER));
        assert_eq!(kind, (Kind::ECHO_REPLY, 0));
        assert_eq!(Echo::parse(&body), Ok(echo));
    }
}

//= rfc4443#4.2-5 (test)
#[test]
fn an_echo_reply_to_a_group_comes_from_an_address_of_the_host() {
    let mut config = Config::default();
    config.limits.answers_multicast_echo = true;
    let mut link = Link::new(config);
    link.run(Duration::from_secs(3));
    let group = address("ff02::1");
    let mut request = vec![];
    Echo { identifier: 7, sequence: 9, data: &[3] }.emit(
        Kind::ECHO_REQUEST,
        ROUTER,
        group,
        &mut request,
    );
    // The host knows the link-layer address of the router.
    link.advertise(Duration::from_secs(1800));
    give(&mut link, Header::new(ROUTER, group, ICMPV6, 64, 0), &request);
    let (header, kind, _) = message(&mut link);
    assert_eq!((header.source, kind), (address("fe80::ff:fe00:2"), (Kind::ECHO_REPLY, 0)));
}

//= rfc4443#2.2-3 rfc4443#2.2-4 (test)
#[test]
fn an_error_about_a_packet_to_a_group_comes_from_an_address_of_the_host() {
    let mut link = configured();
    // An unknown option with the highest bits 10 draws an error about a packet to a group too.
    let options = [UDP, 0, 0x9e, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let header = Header::new(ROUTER, address("ff02::1"), DESTINATION_OPTIONS, 64, 0);
    give(&mut link, header, &options);
    let (header, kind, _) = message(&mut link);
    assert_eq!(kind, (Kind::PARAMETER_PROBLEM, icmp::UNKNOWN_OPTION));
    assert_eq!((header.source, header.destination), (address("fe80::ff:fe00:2"), ROUTER));
}

//= rfc4443#2.4-1 rfc4443#2.4-2 rfc4443#3.1-6 rfc4443#3.2-2 rfc4443#3.3-2 rfc4443#3.4-3 (test)
#[test]
fn errors_of_all_kinds_are_told_to_the_socket_that_sent_the_packet() {
    let mut link = configured();
    let socket = link.stack.udp_bind(None, Some(2000)).expect("socket");
    link.frames.clear();
    let options = crate::udp::Options { source: Some(host()), ..crate::udp::Options::default() };
    let sent = link.stack.udp_send_to(socket, b"x", Some((ROUTER, 9)), options, link.now);
    sent.expect("sent");
    let (header, datagram) = link.packets(UDP).pop().expect("a datagram");
    let quote = [&header.octets()[..], &datagram].concat();
    for cause in [
        Cause::Unreachable(icmp::PROHIBITED),
        Cause::PacketTooBig(1400),
        Cause::TimeExceeded(icmp::HOP_LIMIT),
        Cause::ParameterProblem(icmp::ERRONEOUS_FIELD, 7),
        Cause::Unknown(Kind(100), 3),
    ] {
        link.events();
        let mut error = vec![];
        Error { cause, quote: &quote }.emit(ROUTER, host(), &mut error);
        give(&mut link, from_router(ICMPV6, 64), &error);
        let is_told =
            |event: &Event| matches!(event, Event::UdpError { cause: told, .. } if *told == cause);
        assert!(link.events().iter().any(is_told), "{cause:?}");
    }
}

//= rfc4443#2.4-3 (test)
#[test]
fn an_informational_message_of_an_unknown_type_is_discarded_silently() {
    let mut link = configured();
    let mut octets = vec![];
    Icmp { kind: Kind(200), code: 0, body: &[0; 4] }.emit(ROUTER, host(), &mut octets);
    give(&mut link, from_router(ICMPV6, 64), &octets);
    link.run(Duration::from_secs(1));
    assert!(link.packets(ICMPV6).is_empty());
    assert_eq!(dropped(&link, Drop::UnknownProtocol), 1);
}

//= rfc4443#3.1-2 (test)
#[test]
fn a_full_queue_draws_no_error() {
    let mut link = configured();
    link.stack.udp_bind(None, Some(2000)).expect("socket");
    link.frames.clear();
    while dropped(&link, Drop::SocketFull) == 0 {
        link.datagram(ROUTER, host(), (1000, 2000), &[1; 1000]);
    }
    assert!(link.packets(ICMPV6).is_empty());
}

//= rfc4443#3.1-1 (test)
#[test]
fn a_datagram_to_a_neighbor_that_is_not_there_is_told_as_unreachable() {
    let mut link = configured();
    let socket = link.stack.udp_bind(None, Some(2000)).expect("socket");
    let nobody = address("2001:db8:1::dead");
    let sent =
        link.stack.udp_send_to(socket, b"x", Some((nobody, 9)), Default::default(), link.now);
    sent.expect("it waits for the link-layer address");
    link.events();
    link.run(Duration::from_secs(5));
    let unreachable = Cause::Unreachable(icmp::ADDRESS_UNREACHABLE);
    let is_told =
        |event: &Event| matches!(event, Event::UdpError { cause, .. } if *cause == unreachable);
    assert!(link.events().iter().any(is_told));
}
