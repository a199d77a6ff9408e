//! What a host refuses, with its counter.

use core::net::Ipv4Addr;

use super::*;
use moorline_ip::ip6::packet;
use proptest::prelude::*;

const LINK_HEADER: usize = 14;

/// Frames that are wrong, each with the reason of the drop. An Echo Request is in each, so that an answer would show.
fn refused() -> Vec<(&'static str, Vec<u8>, Drop)> {
    let request = echo_request(b"data");
    let good = header(1, request.len());
    let with = |ip: Ip4| framed(ip, &request);
    let from = |source: [u8; 4]| with(Ip4 { source: source.into(), ..good });
    let to = |destination: [u8; 4]| with(Ip4 { destination: destination.into(), ..good });
    let changed = |at: usize, octet: u8| {
        let mut frame = with(good);
        frame[at] = octet;
        frame
    };
    let summed = |at: usize, octet: u8| {
        let mut frame = changed(LINK_HEADER + at, octet);
        moorline_ip::fill(&mut frame[LINK_HEADER..LINK_HEADER + 20], 10, moorline_ip::checksum);
        frame
    };
    let mut short = with(good);
    short.pop();
    let mut to_all = with(good);
    to_all[..6].fill(0xff);
    vec![
        ("checksum of the header", changed(LINK_HEADER + 8, 63), Drop::BadChecksum),
        ("checksum of ICMP", changed(LINK_HEADER + 20 + 8, 0x55), Drop::BadChecksum),
        ("packet cut", short, Drop::Truncated),
        ("header cut", with(good)[..30].to_vec(), Drop::Truncated),
        ("version", summed(0, 0x55), Drop::Malformed),
        ("header too short", summed(0, 0x44), Drop::Truncated),
        ("header longer than the packet", summed(3, 19), Drop::Truncated),
        ("source: limited broadcast", from([255; 4]), Drop::BadSource),
        ("source: broadcast of the link", from([192, 0, 2, 255]), Drop::BadSource),
        ("source: the prefix", from([192, 0, 2, 0]), Drop::BadSource),
        ("source: group", from([224, 0, 0, 1]), Drop::BadSource),
        ("source: reserved", from([240, 0, 0, 1]), Drop::BadSource),
        ("source: loopback", from([127, 0, 0, 1]), Drop::BadSource),
        ("source: this network", from([0, 0, 0, 0]), Drop::BadSource),
        ("source: the host itself", from([192, 0, 2, 2]), Drop::BadSource),
        ("destination: loopback", to([127, 0, 0, 1]), Drop::BadSource),
        ("destination: another host", to([192, 0, 2, 3]), Drop::NotOurs),
        ("destination: group", to([224, 0, 0, 1]), Drop::NotOurs),
        ("Echo to the link (smurf)", to([192, 0, 2, 255]), Drop::NotOurs),
        ("Echo to all", to([255; 4]), Drop::NotOurs),
        ("frame to all stations", to_all, Drop::NotOurs),
    ]
}

#[test]
fn each_wrong_packet_is_dropped_with_its_reason_and_draws_no_answer() {
    for (name, frame, reason) in refused() {
        let mut host = Octets::new();
        let before = host.drops(reason);
        assert_eq!(host.give_octets(&frame), Vec::<String>::new(), "{name}");
        assert_eq!(host.drops(reason) - before, 1, "{name}");
    }
    let request = echo_request(b"data");
    assert_eq!(Octets::new().packet(header(1, request.len()), &request).len(), 1, "the right one");
}

/// An Echo Request with options.
fn with_options(options: &[u8]) -> Vec<u8> {
    let request = echo_request(&[]);
    let len = u8::try_from(20 + options.len()).expect("short");
    let ip = Ip4 { total_len: u16::from(len) + 8, ..header(1, 8) };
    let mut packet = Vec::from(ip.octets());
    packet[0] = 0x40 | (len / 4);
    packet.extend(options);
    moorline_ip::fill(&mut packet, 10, moorline_ip::checksum);
    packet.extend(request);
    let mut frame = framed(ip, &[])[..LINK_HEADER].to_vec();
    frame.extend(packet);
    frame
}

#[test]
fn source_routes_are_refused_silently_and_wrong_lengths_with_an_error() {
    let mut host = Octets::new();
    for kind in [131, 137] {
        // To 10.0.0.1, and one that has come to its end.
        for pointer in [4, 8] {
            let frame = with_options(&[1, kind, 7, pointer, 10, 0, 0, 1]);
            assert_eq!(host.give_octets(&frame), Vec::<String>::new());
        }
    }
    assert_eq!(host.drops(Drop::RoutingHeader), 4);
    // RFC 1122 s3.2.2.5: Parameter Problem, pointing to the length.
    let error = host.give_octets(&with_options(&[148, 0, 0, 0]));
    assert_eq!([&error[0][68..72], &error[0][76..78]], ["0c00", "15"]);
    assert_eq!(host.drops(Drop::Malformed), 1);
    assert_eq!(host.give_octets(&with_options(&[7, 3, 4, 1])).len(), 1, "Record Route is skipped");
}

#[test]
fn an_unknown_protocol_draws_an_error_and_not_from_a_broadcast_or_a_later_fragment() {
    let mut host = Octets::new();
    let error = host.packet(header(132, 8), &[0; 8]);
    assert_eq!(error[0][68..72], *"0302", "protocol unreachable");
    let to_all = Ip4 { destination: Ipv4Addr::BROADCAST, ..header(132, 8) };
    assert_eq!(host.packet(to_all, &[0; 8]), Vec::<String>::new());
    let later = Ip4 { offset: 8, ..header(132, 8) };
    assert_eq!(host.packet(later, &[0; 8]), Vec::<String>::new());
    assert_eq!(host.drops(Drop::UnknownProtocol), 3);
}

#[test]
fn a_broadcast_reaches_sockets_of_all_addresses_and_draws_no_error() {
    let mut host = Octets::new();
    let payload = |destination: Ipv4Addr| {
        let mut out = vec![];
        let datagram = udp::Datagram { source_port: 1, destination_port: 67, payload: b"all" };
        datagram.emit(mapped(A), mapped(destination), &mut out).expect("short");
        (Ip4 { destination, ..header(UDP, out.len()) }, out)
    };
    for destination in [Ipv4Addr::BROADCAST, Ipv4Addr::new(192, 0, 2, 255)] {
        let (ip, octets) = payload(destination);
        assert_eq!(host.packet(ip, &octets), Vec::<String>::new());
    }
    let socket = host.stack.udp_bind(None, Some(67)).expect("socket");
    let (ip, octets) = payload(Ipv4Addr::BROADCAST);
    host.packet(ip, &octets);
    assert_eq!(*host.stack.udp_recv(socket).expect("a datagram").payload, *b"all");
    // TCP to a broadcast address: silence (RFC 1122 s4.2.3.10).
    let syn = Ip4 { destination: Ipv4Addr::BROADCAST, ..header(6, 20) };
    assert_eq!(host.packet(syn, &[1; 20]), Vec::<String>::new());
    assert_eq!(host.drops(Drop::NotOurs), 1);
}

#[test]
fn overlapping_fragments_drop_the_datagram() {
    let mut host = Octets::new();
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let whole = datagram((1000, 2000), &[9; 40]);
    let parts = [(0, true, 0..24), (16, true, 16..40), (40, false, 40..48), (24, true, 24..40)];
    for (offset, more_fragments, range) in parts {
        let part = &whole[range];
        host.packet(Ip4 { offset, more_fragments, ..header(UDP, part.len()) }, part);
    }
    assert!(host.stack.udp_recv(socket).is_err());
    assert_eq!(host.drops(Drop::FragmentOverlap), 3, "and what follows the overlap");
}

#[test]
fn fragments_with_wrong_lengths_are_dropped() {
    let mut host = Octets::new();
    // Not a multiple of eight octets; beyond 65,535 octets.
    host.packet(Ip4 { more_fragments: true, ..header(UDP, 12) }, &[0; 12]);
    host.packet(Ip4 { offset: 65_528, ..header(UDP, 16) }, &[0; 16]);
    assert_eq!(host.drops(Drop::FragmentLength), 2);
    // RFC 1858: a first fragment without the whole header of TCP.
    host.packet(Ip4 { more_fragments: true, ..header(6, 8) }, &[0; 8]);
    assert_eq!(host.drops(Drop::FragmentChain), 1);
    assert_eq!(host.sent(), Vec::<String>::new());
}

#[test]
fn a_flood_of_fragments_of_one_address_leaves_the_datagram_of_another() {
    let mut host = Octets::new();
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let whole = datagram((1000, 2000), &[9; 40]);
    host.packet(Ip4 { more_fragments: true, ..header(UDP, 24) }, &whole[..24]);
    let source = Ipv4Addr::new(192, 0, 2, 50);
    for identification in 0..5_000 {
        let ip = Ip4 { source, identification, more_fragments: true, ..header(UDP, 1400) };
        host.packet(ip, &[0; 1400]);
    }
    host.packet(Ip4 { offset: 24, ..header(UDP, 24) }, &whole[24..]);
    assert!(host.stack.udp_recv(socket).is_ok());
    assert!(host.drops(Drop::FragmentLimit) >= 5_000 - 64);
}

#[test]
fn errors_have_a_rate() {
    let mut host = Octets::new();
    let octets = datagram((1000, 2000), b"");
    let sent = (0..1000).map(|_| host.packet(header(UDP, octets.len()), &octets).len());
    assert!((1..=50).contains(&sent.sum::<usize>()));
    assert!(host.drops(Drop::ErrorRate) >= 950);
}

#[test]
fn mapped_addresses_are_on_no_wire_of_ipv6() {
    let mut link = Octets::new();
    let own = address("fe80::0:ff:fe00:2");
    link.run(Duration::from_secs(5));
    let mut give = |source, destination| {
        let mut echo = vec![];
        let request = Echo { identifier: 1, sequence: 1, data: &[] };
        request.emit(Kind::ECHO_REQUEST, source, destination, &mut echo);
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        frame.extend(packet(ICMPV6, source, destination, &echo));
        let before = link.drops(Drop::BadSource);
        link.stack.handle_frame(WireId(0), PacketBuf::copy_of(&frame), link.now);
        link.drops(Drop::BadSource) - before
    };
    assert_eq!(give(mapped(A), own), 1);
    assert_eq!(give(mapped(A), mapped(B)), 1);
    assert_eq!(give(ROUTER, mapped(B)), 1);
    assert_eq!(give(ROUTER, own), 0);
    // The same out of another packet.
    let arrival = Arrival { wire: WireId(0), is_link_multicast: false };
    let before = link.drops(Drop::BadSource);
    let inner = PacketBuf::from(packet(UDP, mapped(A), own, &datagram((1, 2), b"")));
    link.stack.handle_inbound(arrival, inner, link.now);
    assert_eq!(link.drops(Drop::BadSource) - before, 1);
}

#[test]
fn an_icmpv6_error_cannot_speak_of_an_ipv4_connection() {
    let mut host = Octets::new();
    host.run(Duration::from_secs(5));
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let to = Some((mapped(A), 9));
    let options = crate::udp::Options::default();
    host.stack.udp_send_to(socket, b"x", to, options, host.now).expect("sent");
    let ip4 = Vec::from_hex(&host.sent()[0]).expect("hex").split_off(LINK_HEADER);
    let ip6 = packet(UDP, mapped(B), mapped(A), &ip4[20..]);
    let own = address("fe80::0:ff:fe00:2");
    for quote in [ip4, ip6] {
        let before = host.drops(Drop::ForeignError);
        let mut error = vec![];
        let cause = Cause::Unreachable(icmp::PORT_UNREACHABLE);
        Error { cause, quote: &quote }.emit(ROUTER, own, &mut error);
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        frame.extend(packet(ICMPV6, ROUTER, own, &error));
        host.give_octets(&frame);
        assert_eq!(host.drops(Drop::ForeignError) - before, 1);
    }
    let is_told = core::iter::from_fn(|| host.stack.poll_event())
        .any(|event| matches!(event, Event::UdpError { .. }));
    assert!(!is_told);
}

#[test]
fn no_error_is_sent_about_an_error_and_redirects_are_ignored() {
    let mut host = Octets::new();
    // Time Exceeded with wrong options in its own header.
    let mut frame = with_options(&[148, 0, 0, 0]);
    frame[LINK_HEADER + 24] = 11;
    assert_eq!(host.give_octets(&frame), Vec::<String>::new());
    let mut redirect = vec![5, 1, 0, 0, 192, 0, 2, 66];
    moorline_ip::fill(&mut redirect, 2, moorline_ip::checksum);
    assert_eq!(host.packet(header(1, 8), &redirect), Vec::<String>::new());
    assert_eq!(host.drops(Drop::Redirect), 1);
}

#[test]
fn a_socket_of_one_version_sends_nothing_of_the_other() {
    let mut host = Octets::new();
    host.run(Duration::from_secs(5));
    host.sent();
    let socket = host.stack.udp_bind(Some(mapped(B)), Some(2000)).expect("socket");
    let options = crate::udp::Options::default();
    let to = Some((ROUTER, 9));
    let refused = host.stack.udp_send_to(socket, b"x", to, options, host.now);
    assert_eq!(refused, Err(crate::socket::Error::NetworkUnreachable));
    let any = host.stack.udp_bind(None, Some(2001)).expect("socket");
    let options = crate::udp::Options { source: Some(address("fe80::0:ff:fe00:2")), ..options };
    let refused = host.stack.udp_send_to(any, b"x", Some((mapped(A), 9)), options, host.now);
    assert_eq!(refused, Err(crate::socket::Error::NetworkUnreachable));
    assert!(host.stack.poll_frame().is_none());
    let large = vec![0; 65_508];
    let to = Some((mapped(A), 9));
    let refused = host.stack.udp_send_to(any, &large, to, crate::udp::Options::default(), host.now);
    assert_eq!(refused, Err(crate::socket::Error::MessageSize(65_507)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any octets behind a header whose checksum is right: no panic, and all that comes out is valid.
    #[test]
    fn any_packets_leave_the_host_in_order(
        packets in proptest::collection::vec(
            (proptest::sample::select(vec![1_u8, 6, 17, 99]), 0_u16..0x4000, 0_u8..12,
             proptest::collection::vec(any::<u8>(), 0..64)), 0..40)
    ) {
        let mut host = Octets::new();
        for (protocol, flags, words, mut payload) in packets {
            let options = usize::from(words) * 4;
            payload.resize(payload.len().max(options + 8), 1);
            if protocol == 1 {
                moorline_ip::fill(&mut payload[options..], 2, moorline_ip::checksum);
            }
            let ip = Ip4 {
                offset: flags << 3, more_fragments: flags & 0x2000 != 0, identification: flags & 3,
                ..header(protocol, payload.len())
            };
            let mut frame = framed(ip, &payload);
            let len = 20 + options.min(40);
            frame[LINK_HEADER] = 0x40 | u8::try_from(len / 4).expect("short");
            if let Some(header) = frame.get_mut(LINK_HEADER..LINK_HEADER + len) {
                moorline_ip::fill(header, 10, moorline_ip::checksum);
            }
            for sent in host.give_octets(&frame) {
                let sent = Vec::from_hex(sent).expect("hex");
                prop_assert_eq!(Ip4::parse(&sent[LINK_HEADER..]).map(|ip| ip.source), Ok(B));
            }
        }
    }
}
