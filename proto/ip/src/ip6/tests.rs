use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// An IPv6 packet with these contents behind the header.
fn ip6(next_header: u8, source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x6a, 0xbc, 0xde, 0xf0, 0, 0, next_header, 61];
    packet[4..6].copy_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    for address in [source, destination] {
        packet.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    packet.extend(payload);
    packet
}

fn is_icmpv6(next_header: u8, payload: &[u8]) -> bool {
    let packet = ip6(next_header, "2001:db8::1", "2001:db8::2", payload);
    Ip6::read(&packet).unwrap().upper(&packet).protocol == ICMPV6
}

#[test]
fn what_is_no_ipv6_header_is_not_read() {
    let packet = ip6(6, "2001:db8::1", "2001:db8::2", &[]);
    assert!(Ip6::read(&packet).is_some());
    for len in 0..packet.len() {
        assert!(Ip6::read(&packet[..len]).is_none());
    }
    let mut ip4 = packet;
    ip4[0] = 0x45;
    assert!(Ip6::read(&ip4).is_none());
}

#[test]
fn icmpv6_is_found_behind_four_headers_and_no_more() {
    assert!(is_icmpv6(58, &[128, 0, 0, 0]));
    assert!(!is_icmpv6(6, &[58; 20]));
    // Routing, Destination Options, Fragment, Hop-by-Hop: the second header has 16 octets.
    let mut chain = vec![60, 0, 0, 0, 0, 0, 0, 0];
    chain.extend([44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    chain.extend([0, 7, 0, 0, 0, 0, 0, 0]);
    chain.extend([58, 0, 0, 0, 0, 0, 0, 0]);
    assert!(is_icmpv6(43, &chain));
    let at = chain.len() - 8;
    chain[at] = 60;
    chain.extend([58, 0, 0, 0, 0, 0, 0, 0]);
    assert!(!is_icmpv6(43, &chain));
}

#[test]
fn a_chain_that_is_cut_off_is_not_icmpv6() {
    assert!(!is_icmpv6(43, &[58, 0, 0]));
    assert!(is_icmpv6(43, &[58, 0, 0, 0]));
    assert!(!is_icmpv6(43, &[60, 255, 0, 0]));
}

#[test]
fn ports_are_those_of_transports_in_whole_packets_and_first_fragments() {
    let upper = |next_header, payload: &[u8]| {
        let packet = ip6(next_header, "2001:db8::1", "2001:db8::2", payload);
        Ip6::read(&packet).unwrap().upper(&packet)
    };
    let ports = Some((0x1234, 0x5678));
    for protocol in [6, 17, 33, 136] {
        let upper = upper(protocol, &[0x12, 0x34, 0x56, 0x78]);
        assert_eq!(upper, Upper { protocol, at: Some(40), ports });
        assert_eq!(upper.reversed().ports, Some((0x5678, 0x1234)));
    }
    assert_eq!(upper(6, &[0x12, 0x34, 0x56]).ports, None);
    assert_eq!(upper(132, &[0x12, 0x34, 0x56, 0x78]).ports, None);
    let mut fragment = vec![17, 0, 0, 1, 0, 0, 0, 9, 0x12, 0x34, 0x56, 0x78];
    assert_eq!(upper(44, &fragment), Upper { protocol: 17, at: Some(48), ports });
    fragment[3] = 9;
    assert_eq!(upper(44, &fragment), Upper { protocol: 17, at: None, ports: None });
}

#[test]
fn a_later_fragment_has_nothing_of_an_upper_layer_whatever_its_octets_look_like() {
    // The payload of the fragment looks like Destination Options in front of ICMPv6.
    let fragment = [60, 0, 0, 9, 0, 0, 0, 9, 58, 0, 0, 0, 0, 0, 0, 0, 128];
    let packet = ip6(44, "2001:db8::1", "2001:db8::2", &fragment);
    let upper = Ip6::read(&packet).unwrap().upper(&packet);
    assert_eq!(upper, Upper { protocol: 60, at: None, ports: None });
}

#[test]
fn octets_are_those_of_the_length_field_unless_it_is_zero() {
    let mut packet = ip6(6, "2001:db8::1", "2001:db8::2", &[1; 100]);
    packet.extend([0; 6]);
    assert_eq!(Ip6::read(&packet).unwrap().octets(&packet), 140);
    packet[4..6].copy_from_slice(&[0, 0]);
    assert_eq!(Ip6::read(&packet).unwrap().octets(&packet), 146);
}

proptest! {
    #[test]
    fn nothing_panics(packet in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Some(ip6) = Ip6::read(&packet) {
            let upper = ip6.upper(&packet);
            prop_assert!(upper.at.is_none_or(|at| at >= IP6_LEN));
            let _ = (upper.icmp(&packet), upper.is_within_tcp(&packet), ip6.payload(&packet));
        }
    }
}
