//! ICMPv6 messages that the whole host gets and sends (RFC 4443).

use moorline_ip::icmp::Icmp;
use moorline_ip::ip6::DESTINATION_OPTIONS;

use super::conformance::{dropped, from_router, give, message};
use super::*;
use crate::Drop;

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

// RFC 4443 s3.1, RFC 4861 s7.2.2.
//= rfc4443#3.1-1 (test)
#[test]
fn a_connection_to_a_neighbor_that_is_not_there_is_told_as_unreachable() {
    let mut link = configured();
    link.stack.tcp_connect((address("2001:db8:1::77"), 80), link.now).expect("connection");
    link.run(Duration::from_millis(2_999));
    let is_of_tcp = |event: &Event| matches!(event, Event::Tcp(_));
    assert!(!link.events().iter().any(is_of_tcp));
    link.run(Duration::from_millis(1));
    assert!(link.events().iter().any(is_of_tcp), "at the end of address resolution");
}
