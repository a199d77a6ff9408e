//! What the RFCs demand of a host as a whole, if no test of a machine shows it. The markers say which sentence it is.

use moorline_ip::address::solicited_node;
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::header::LEN;
use moorline_ip::icmp::Icmp;
use moorline_ip::ip6::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING, TCP};
use moorline_ip::nd::Message;
use moorline_ip::{Header, PacketBuf};

use super::link::{HOST_MAC, ROUTER_MAC};
use super::*;
use crate::Drop;
use crate::socket;
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

//= rfc8504#5.3-3 (test)
//= rfc3810#5-1 rfc3810#5.2.13-1 (test)
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

//= rfc8504#5.8-1 (test)
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

//= rfc8504#5.8-1 (test)
//= rfc8201#5.2-8 (test)
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

//= rfc3810#5-2 (test)
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

//= rfc4861#7.2.2-12 (test)
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

//= rfc4862#5.4.2-4 (test)
#[test]
fn a_probe_of_another_node_counts_before_the_first_own_one() {
    let mut link = Link::new(Config::default());
    let target = address("fe80::ff:fe00:2");
    let first = link.stack.poll_timeout().expect("a delay");
    assert!(first > link.now, "the interface has not joined the group yet");
    let mut probe = vec![];
    let message = Message { body: Body::NeighborSolicitation { target }, options: vec![] };
    let (source, group) = (Ipv6Addr::UNSPECIFIED, solicited_node(target));
    message.emit(source, group, &mut probe);
    link.give(source, group, ICMPV6, &probe);
    assert!(link.events().contains(&Event::AddressDuplicate(WireId(0), target)));
}

//= rfc4862#5.5.4-1 rfc4862#5.5.4-3 rfc4862#5.5.4-7 rfc4862#5.5.4-8 (test)
#[test]
fn a_deprecated_address_answers_and_an_invalid_one_does_not() {
    let mut link = configured();
    let state = |link: &Link| {
        let rows = link.stack.netstat(link.now).addresses;
        rows.into_iter().find(|row| row.address == host()).map(|row| row.state)
    };
    let socket = link.stack.udp_bind(Some(host()), None).expect("socket");
    let to = Some((address("2001:db8:1::77"), 9));
    let send = |link: &mut Link| {
        link.frames.clear();
        link.stack.udp_send_to(socket, b"x", to, Default::default(), link.now).is_ok()
    };
    link.run(Duration::from_secs(3600));
    assert_eq!(state(&link), Some(crate::address::State::Deprecated));
    give(&mut link, from_router(ICMPV6, 64), &echo_request(8));
    assert_eq!(message(&mut link).0.source, host());
    assert!(send(&mut link), "the socket goes on");
    link.run(Duration::from_secs(3600));
    assert_eq!(state(&link), None);
    let before = dropped(&link, Drop::NotOurs);
    give(&mut link, from_router(ICMPV6, 64), &echo_request(8));
    assert!(link.packets(ICMPV6).is_empty());
    assert_eq!(dropped(&link, Drop::NotOurs), before + 1);
    assert!(!send(&mut link), "nothing is sent from an address that is gone");
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

// RFC 4191 s3.2.
//= rfc4191#3.2-1 (test)
#[test]
fn without_a_route_a_program_hears_that_the_network_is_unreachable() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    let far = address("2001:db8:ffff::9");
    let socket = link.stack.udp_bind(None, None).expect("socket");
    let sent = link.stack.udp_send_to(socket, b"x", Some((far, 9)), Default::default(), link.now);
    assert_eq!(sent, Err(socket::Error::NetworkUnreachable));
    let connected = link.stack.tcp_connect((far, 80), link.now).map(|_| ());
    assert_eq!(connected, Err(socket::Error::NetworkUnreachable));
}

/// Sends a datagram from this source by this wire.
fn send_from(
    stack: &mut Stack,
    to: Ipv6Addr,
    source: Ipv6Addr,
    wire: Option<u32>,
    now: Instant,
) -> Result<(), socket::Error> {
    let socket = stack.udp_bind(None, None).expect("socket");
    let options =
        crate::udp::Options { source: Some(source), wire, ..crate::udp::Options::default() };
    stack.udp_send_to(socket, b"x", Some((to, 9)), options, now)
}

// RFC 6724 s4.
//= rfc6724#4-8 (test)
#[test]
fn a_source_that_the_host_does_not_have_is_an_error() {
    let mut link = configured();
    let other =
        WireConfig { mtu: 1500, addressing: crate::address::Config::new(ROUTER_MAC), ip4: None };
    let other = link.stack.add_wire(other, link.now);
    link.run(Duration::from_secs(3));
    let now = link.now;
    let foreign = address("2001:db8:1::77");
    let far = address("2001:db8:ffff::9");
    let result = send_from(&mut link.stack, far, foreign, None, now);
    assert_eq!(result, Err(socket::Error::AddrNotAvailable));
    assert_eq!(link.stack.udp_bind(Some(foreign), None), Err(socket::Error::AddrNotAvailable));
    // An address of another link is no source for link-local destinations and groups.
    for to in [address("fe80::77"), address("ff02::77")] {
        let result = send_from(&mut link.stack, to, host(), Some(other.0), now);
        assert_eq!(result, Err(socket::Error::NetworkUnreachable), "{to}");
        assert_eq!(send_from(&mut link.stack, to, host(), Some(0), now), Ok(()), "{to}");
    }
}

// RFC 6724 s4.
//= rfc6724#4-9 (test)
#[test]
fn a_source_that_a_program_states_is_used() {
    let mut link = configured();
    let far = address("2001:db8:ffff::9");
    // The host would choose the other one.
    for source in [address("fe80::ff:fe00:2"), host()] {
        link.frames.clear();
        let now = link.now;
        send_from(&mut link.stack, far, source, None, now).expect("sent");
        let (header, _) = link.packets(UDP).pop().expect("a datagram");
        assert_eq!(header.source, source);
    }
}

// RFC 6724 s8.
//= rfc6724#8-2 (test)
#[test]
fn the_order_of_destinations_follows_the_addresses_at_once() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    let [far, neighbor] = [address("2001:db8:ffff::9"), address("fe80::77")];
    let mut found = [far, neighbor];
    link.stack.order_destinations(&mut found, link.now);
    assert_eq!(found, [neighbor, far], "the host has a link-local address only");
    link.advertise(Duration::from_secs(1800));
    link.run(Duration::from_secs(3));
    // A private label: without a global source, far would stay behind.
    let ula = address("fd00::9");
    let mut found = [ula, far];
    link.stack.order_destinations(&mut found, link.now);
    assert_eq!(found, [far, ula]);
}

/// Gives the host a message of MLD with a hop limit of 1 and a Router Alert option.
fn give_mld(link: &mut Link, destination: Ipv6Addr, kind: Kind, body: &[u8]) {
    let mut octets = vec![];
    Icmp { kind, code: 0, body }.emit(ROUTER, destination, &mut octets);
    let payload = [&moorline_ip::mld::HOP_BY_HOP_ROUTER_ALERT[..], &octets].concat();
    give(link, Header::new(ROUTER, destination, HOP_BY_HOP, 1, 0), &payload);
}

/// A General Query of version 2 with a Maximum Response Delay of a second.
fn general_query() -> Vec<u8> {
    let mut query = vec![0; 24];
    query[..2].copy_from_slice(&1000_u16.to_be_bytes());
    query
}

//= rfc3810#5.1.15-1 (test)
#[test]
fn a_query_to_any_address_of_the_interface_is_answered() {
    for destination in ["ff02::1", "fe80::ff:fe00:2", "2001:db8:1:0:0:ff:fe00:2"] {
        let mut link = configured();
        give_mld(&mut link, address(destination), Kind::MLD_QUERY, &general_query());
        assert!(link.reports().is_empty(), "not at once");
        link.run(Duration::from_secs(1));
        assert_eq!(link.reports().len(), 1, "{destination}");
    }
}

//= rfc3810#5.1.12-1 rfc3810#5.1.12-2 (test)
#[test]
fn additional_octets_of_a_query_count_for_the_checksum_only() {
    let mut link = configured();
    let query = [&general_query()[..], &[0xff; 5]].concat();
    give_mld(&mut link, address("ff02::1"), Kind::MLD_QUERY, &query);
    link.run(Duration::from_secs(1));
    assert_eq!(link.reports().len(), 1);
}

//= rfc3810#8.1-1 (test)
#[test]
fn queries_of_other_lengths_are_ignored() {
    let mut link = configured();
    for len in [19, 21, 22, 23] {
        let mut query = general_query();
        query.truncate(len);
        give_mld(&mut link, address("ff02::1"), Kind::MLD_QUERY, &query);
        link.run(Duration::from_secs(5));
        assert!(link.reports().is_empty(), "{len} octets behind the checksum");
    }
    assert_eq!(dropped(&link, Drop::Truncated), 4);
}

//= rfc3810#5.2.14-1 (test)
#[test]
fn a_report_of_version_1_counts_wherever_it_is_sent_to() {
    let group = solicited_node(host());
    let answers = |destination: Option<Ipv6Addr>| {
        let mut link = configured();
        // A General Query of version 1: 20 octets behind the checksum.
        let query = &general_query()[..20];
        give_mld(&mut link, address("ff02::1"), Kind::MLD_QUERY, query);
        if let Some(destination) = destination {
            let report = [&[0; 4][..], &group.octets()].concat();
            give_mld(&mut link, destination, Kind::MLD_REPORT, &report);
        }
        link.run(Duration::from_secs(1));
        let sent = link.packets(HOP_BY_HOP);
        sent.iter().filter(|(header, _)| header.destination == group).count()
    };
    assert_eq!(answers(None), 1);
    for destination in [group, address("ff02::1"), host()] {
        assert_eq!(answers(Some(destination)), 0, "{destination}");
    }
}
