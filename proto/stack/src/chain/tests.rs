use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::Header;
use moorline_ip::icmp::Cause;
use moorline_ip::ip6::{
    DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, ROUTING, TCP, UDP, packet,
};

use moorline_ip::extension::ROUTER_ALERT;

use super::*;

const US: &str = "2001:db8::2";
const GROUP: &str = "ff02::1";
const DEST: u8 = DESTINATION_OPTIONS;

/// A packet to `destination`. Each header is its own number and its octets without the Next Header field.
fn built(destination: &str, headers: &[(u8, &[u8])], upper: u8, payload: &[u8]) -> Vec<u8> {
    let numbers = headers.iter().map(|header| header.0).chain([upper]);
    let mut octets = Vec::new();
    for ((_, contents), next) in headers.iter().zip(numbers.clone().skip(1)) {
        octets.push(next);
        octets.extend(*contents);
    }
    octets.extend(payload);
    let first = numbers.into_iter().next().expect("number");
    let destination = destination.parse().expect("address");
    packet(first, Ipv6Addr::from_bits(0x2001 << 112 | 1), destination, &octets)
}

fn walked(packet: &[u8]) -> Result<Step, Verdict> {
    let header = Header::parse(packet).expect("header");
    walk(packet, &header, Position::start(&header))
}

fn discard(reason: Drop) -> Result<Step, Verdict> {
    Err(Verdict::Discard(reason))
}

fn report(reason: Drop, code: u8, pointer: u32) -> Result<Step, Verdict> {
    Err(Verdict::Report(reason, Cause::ParameterProblem(code, pointer)))
}

fn upper(packet: &[u8]) -> Position {
    match walked(packet) {
        Ok(Step::Upper(position)) => position,
        other => panic!("{other:?}"),
    }
}

/// The verdict about a packet with one Destination Options header of these contents.
fn options(destination: &str, contents: &[u8]) -> Result<Step, Verdict> {
    walked(&built(destination, &[(DEST, contents)], UDP, &[0; 8]))
}

// RFC 8200 s4.1: extension headers are accepted in any order, but for the Hop-by-Hop Options header.
//= rfc8504#5.2-2 (test)
//= rfc8200#4-2 rfc8200#4.1-4 (test)
#[test]
fn the_walk_ends_at_the_upper_layer() {
    let pad: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let segments_done: &[u8] = &[0, 0, 0, 0, 0, 0, 0];
    let position = upper(&built(US, &[], TCP, &[0; 20]));
    assert_eq!((position.protocol, position.at, position.field), (TCP, 40, 6));
    let headers = [(HOP_BY_HOP, pad), (DEST, pad), (ROUTING, segments_done), (DEST, pad)];
    let position = upper(&built(US, &headers, UDP, &[0; 8]));
    assert_eq!((position.protocol, position.at, position.field), (UDP, 72, 64));
    assert_eq!((position.headers, position.has_router_alert), (4, false));
}

// RFC 8200 s4, s4.7.
//= rfc8504#5.2-1 (test)
//= rfc8200#4-4 rfc8200#4.7-1 (test)
#[test]
fn an_unknown_next_header_is_reported_and_no_next_header_is_not() {
    let pad: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let unknown = upper(&built(US, &[(HOP_BY_HOP, pad)], 253, &[0; 8]));
    let verdict = Verdict::Report(Drop::UnknownProtocol, Cause::ParameterProblem(1, 40));
    assert_eq!(unknown.unrecognized(), verdict);
    assert_eq!(verdict.reason(), Drop::UnknownProtocol);
    let nothing = built(US, &[(HOP_BY_HOP, pad)], 59, &[1, 2, 3]);
    assert_eq!(walked(&nothing), Ok(Step::NoNextHeader));
}

// RFC 8200 s4: "if a node encounters a Next Header value of zero in any header other than an IPv6 header".
//= rfc8200#4-1 rfc8200#4-5 (test)
#[test]
fn hop_by_hop_options_are_behind_the_ipv6_header_only() {
    let pad: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    for first in [HOP_BY_HOP, DEST] {
        let again = built(US, &[(first, pad), (HOP_BY_HOP, pad)], UDP, &[0; 8]);
        assert_eq!(walked(&again), report(Drop::UnknownProtocol, 1, 40));
    }
    // Behind a Fragment header that reassembly has taken out, it is at the same place and still not allowed.
    let packet = built(US, &[(HOP_BY_HOP, pad)], UDP, &[0; 8]);
    let header = Header::parse(&packet).expect("header");
    let position = Position { headers: 1, ..Position::start(&header) };
    assert_eq!(walk(&packet, &header, position), report(Drop::UnknownProtocol, 1, 6));
}

// RFC 8200 s4.2: the two highest bits of the Option Type.
//= rfc8504#5.2-1 (test)
//= rfc8200#4.2-3 (test)
#[test]
fn unknown_options_do_what_their_highest_bits_say() {
    for (kind, to_us, to_group) in [
        (0x1e, None, None),
        (0x5e, Some(discard(Drop::UnknownOption)), Some(discard(Drop::UnknownOption))),
        (0x9e, Some(report(Drop::UnknownOption, 2, 45)), Some(report(Drop::UnknownOption, 2, 45))),
        (0xde, Some(report(Drop::UnknownOption, 2, 45)), Some(discard(Drop::UnknownOption))),
    ] {
        for (destination, expected) in [(US, to_us), (GROUP, to_group)] {
            // PadN of 3 octets, and the option at 5.
            let result = options(destination, &[0, 1, 1, 0, kind, 1, 9]);
            match expected {
                Some(verdict) => assert_eq!(result, verdict, "{kind:#x} to {destination}"),
                None => assert!(matches!(result, Ok(Step::Upper(_))), "{kind:#x}"),
            }
        }
    }
}

// RFC 8200 s4.2: options are processed strictly in their order.
//= rfc8200#4.2-1 rfc8200#4.2-2 (test)
#[test]
fn the_first_option_with_a_verdict_decides() {
    let result = options(US, &[0, 0x5e, 0, 0x9e, 0, 0, 0]);
    assert_eq!(result, discard(Drop::UnknownOption));
    let result = options(US, &[0, 0x9e, 0, 0x5e, 0, 0, 0]);
    assert_eq!(result, report(Drop::UnknownOption, 2, 42));
}

// RFC 8200 s4: headers are processed strictly in their order.
//= rfc8200#4-3 (test)
#[test]
fn the_first_header_with_a_verdict_decides() {
    let unknown: (u8, &[u8]) = (DEST, &[0, 0x9e, 4, 0, 0, 0, 0]);
    let routing: (u8, &[u8]) = (ROUTING, &[0, 0, 1, 0, 0, 0, 0]);
    let options_first = walked(&built(US, &[unknown, routing], UDP, &[0; 8]));
    assert_eq!(options_first, report(Drop::UnknownOption, 2, 42));
    let routing_first = walked(&built(US, &[routing, unknown], UDP, &[0; 8]));
    assert_eq!(routing_first, report(Drop::RoutingHeader, 0, 42));
}

//= rfc4443#3.4-1 rfc4443#3.4-2 (test)
#[test]
fn an_option_that_leaves_its_header_is_an_erroneous_field() {
    assert_eq!(options(US, &[0, 0x1e, 5, 0, 0, 0, 0]), report(Drop::Malformed, 0, 43));
    assert_eq!(options(US, &[0, 1, 2, 0, 0, 0x1e, 1]), report(Drop::Malformed, 0, 47));
    assert_eq!(options(US, &[0, 1, 3, 0, 0, 0, 0x1e]), report(Drop::Malformed, 0, 47));
}

// RFC 8504 s5.3.
//= rfc8504#5.3-1 rfc8504#5.3-2 rfc8504#5.3-4 rfc8504#5.3-5 rfc8504#5.3-9 rfc8504#5.3-11 (test)
//= rfc8504#5.3-12 (test)
//= rfc8200#4.2-6 (test)
#[test]
fn options_and_their_padding_have_limits() {
    let contents = |octets: &[u8], units: u8| {
        let mut contents = vec![units];
        contents.extend(octets);
        contents
    };
    let is_accepted = |octets: &[u8], units| match options(US, &contents(octets, units)) {
        Ok(_) => true,
        Err(verdict) => {
            assert_eq!(verdict, Verdict::Discard(Drop::TooManyHeaders), "{octets:?}");
            false
        }
    };
    // Options of 2 octets each; the last one fills the header.
    let unknown = |count: usize, rest: u8| {
        let mut octets = [0x1e, 0].repeat(count - 1);
        octets.extend([0x1e, rest]);
        octets.resize(octets.len() + usize::from(rest), 7);
        octets
    };
    assert!(is_accepted(&unknown(MAX_OPTIONS, 6), 2));
    assert!(!is_accepted(&unknown(MAX_OPTIONS + 1, 4), 2));
    let pad1 = |count: usize| {
        let mut octets = vec![0; count];
        octets.extend([0x1e, u8::try_from(12 - count).expect("length")]);
        octets.resize(14, 7);
        octets
    };
    assert!(is_accepted(&pad1(MAX_PAD1), 1));
    assert!(!is_accepted(&pad1(MAX_PAD1 + 1), 1));
    let padn = |len: usize| {
        let mut octets = vec![1, u8::try_from(len).expect("length")];
        octets.resize(2 + len, 0);
        octets.extend([0x1e, u8::try_from(10 - len).expect("length")]);
        octets.resize(14, 7);
        octets
    };
    assert!(is_accepted(&padn(MAX_PADN), 1));
    assert!(!is_accepted(&padn(MAX_PADN + 1), 1));
    assert_eq!(options(US, &[0, 1, 4, 0, 0, 1, 0]), discard(Drop::Malformed));
}

// RFC 5095 s3, RFC 8200 s4.4.
//= rfc8504#5.2-3 (test)
//= rfc4443#3.4-1 (test)
//= rfc8200#4.4-1 rfc8200#4.4-2 (test)
#[test]
fn routing_headers_that_are_not_at_their_end_are_refused() {
    for kind in [0, 2, 3, 4, 253] {
        let routing = |left| built(US, &[(ROUTING, &[0, kind, left, 0, 0, 0, 0])], UDP, &[0; 8]);
        assert_eq!(walked(&routing(1)), report(Drop::RoutingHeader, 0, 42), "type {kind}");
        assert_eq!(upper(&routing(0)).at, 48, "type {kind}");
    }
}

//= rfc8200#4.1-4 (test)
#[test]
fn a_packet_has_eight_extension_headers_at_most() {
    let pad: (u8, &[u8]) = (DEST, &[0, 1, 4, 0, 0, 0, 0]);
    let limit = usize::from(MAX_HEADERS);
    assert_eq!(upper(&built(US, &vec![pad; limit], UDP, &[0; 8])).headers, MAX_HEADERS);
    let over = built(US, &vec![pad; limit + 1], UDP, &[0; 8]);
    assert_eq!(walked(&over), discard(Drop::TooManyHeaders));
    let over = built(US, &vec![pad; limit], FRAGMENT, &[0; 8]);
    assert_eq!(walked(&over), discard(Drop::TooManyHeaders));
    let over = built(US, &vec![pad; limit], ROUTING, &[0; 8]);
    assert_eq!(walked(&over), discard(Drop::TooManyHeaders));
}

#[test]
fn a_truncated_header_is_discarded() {
    for number in [HOP_BY_HOP, DEST, ROUTING] {
        for octets in [&[UDP, 1, 1, 4, 0, 0, 0, 0][..], &[UDP], &[]] {
            assert_eq!(walked(&built(US, &[], number, octets)), discard(Drop::Truncated));
        }
    }
    // The octets behind the payload are padding of the link, not part of the chain.
    let mut padded = built(US, &[], HOP_BY_HOP, &[UDP, 1, 1, 4, 0, 0, 0, 0]);
    padded.extend([1, 6, 0, 0, 0, 0, 0, 0]);
    assert_eq!(walked(&padded), discard(Drop::Truncated));
}

// RFC 2711.
#[test]
fn a_router_alert_counts_in_hop_by_hop_options() {
    let alert: &[u8] = &[0, ROUTER_ALERT, 2, 0, 0, 1, 0];
    let mld = built(GROUP, &[(HOP_BY_HOP, alert)], ICMPV6, &[130; 8]);
    assert!(upper(&mld).has_router_alert);
    let elsewhere = built(GROUP, &[(DEST, alert)], ICMPV6, &[130; 8]);
    assert!(!upper(&elsewhere).has_router_alert);
}

// RFC 6980 s5.
//= rfc8504#5.4-15 (test)
//= rfc6980#5-3 (test)
#[test]
fn neighbor_discovery_in_fragments_is_ignored() {
    for kind in 0..=255 {
        let packet = built(US, &[], ICMPV6, &[kind; 8]);
        let header = Header::parse(&packet).expect("header");
        let position = Position { was_fragmented: true, headers: 1, ..Position::start(&header) };
        let is_discovery = (133..=137).contains(&kind) || kind == 148;
        let expected = discard(Drop::FragmentedDiscovery);
        assert_eq!(walk(&packet, &header, position) == expected, is_discovery, "type {kind}");
        assert_eq!(upper(&packet).protocol, ICMPV6, "type {kind} in no fragment");
    }
}

#[test]
fn the_walk_stops_at_a_fragment_header_and_goes_on_behind_it() {
    let pad: &[u8] = &[0, 1, 4, 0, 0, 0, 0];
    let later = built(US, &[(HOP_BY_HOP, pad)], FRAGMENT, &[UDP, 0, 0, 9, 0, 0, 0, 1, 1, 2]);
    let Ok(Step::Fragment(position)) = walked(&later) else { panic!("no fragment") };
    assert_eq!((position.at, position.field, position.headers), (48, 40, 1));
}

// RFC 7112 s3: the chain ends with the header of the upper layer.
#[test]
fn the_end_of_a_chain_is_behind_the_upper_layers_header() {
    let mut tcp = [0; 40];
    tcp[12] = 0x80;
    for (protocol, octets, len) in [
        (TCP, &tcp[..], 32),
        (TCP, &[0; 20][..], 20),
        (UDP, &[0; 8][..], 8),
        (ICMPV6, &[0; 9][..], 8),
        (50, &[0; 8][..], 8),
        (41, &[0; 40][..], 40),
        (132, &[0; 12][..], 12),
        (253, &[0; 1][..], 1),
        (59, &[][..], 0),
        (51, &[UDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1][..], 20),
        (140, &[UDP, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1][..], 16),
    ] {
        assert_eq!(skim(octets, protocol, 0).end(octets), Some(len), "{protocol}");
        if let Some(short) = octets.get(..len.saturating_sub(1)).filter(|_| len > 0) {
            assert_eq!(skim(short, protocol, 0).end(short), None, "{protocol}");
        }
    }
}
