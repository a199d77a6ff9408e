use super::*;
use alloc::vec;
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
fn only_global_unicast_is_routed() {
    let is_routed = |source: &str, destination: &str| {
        Ip6::read(&ip6(6, source, destination, &[])).unwrap().is_routed()
    };
    assert!(is_routed("2001:db8::1", "fd00::1"));
    for other in ["ff02::1", "ff0e::1", "fe80::1", "febf::1", "::", "::1"] {
        assert!(!is_routed("2001:db8::1", other), "{other}");
        assert!(!is_routed(other, "2001:db8::1"), "{other}");
    }
    assert!(is_routed("::2", "fec0::1"), "odd, but neither of a link nor of a host");
}

#[test]
fn icmpv6_is_found_behind_four_headers_and_no_more() {
    assert!(is_icmpv6(58, &[128, 0, 0, 0]));
    assert!(!is_icmpv6(6, &[58; 20]));
    // Routing, destination options, fragment, hop-by-hop: the second one is 16 octets long.
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
fn ports_are_those_of_tcp_and_udp_in_whole_packets_and_first_fragments() {
    let upper = |next_header, payload: &[u8]| {
        let packet = ip6(next_header, "2001:db8::1", "2001:db8::2", payload);
        Ip6::read(&packet).unwrap().upper(&packet)
    };
    let ports = Some((0x1234, 0x5678));
    for protocol in [6, 17] {
        let upper = upper(protocol, &[0x12, 0x34, 0x56, 0x78]);
        assert_eq!(upper, Upper { protocol, ports });
        assert_eq!(upper.reversed().ports, Some((0x5678, 0x1234)));
    }
    assert_eq!(upper(6, &[0x12, 0x34, 0x56]).ports, None);
    assert_eq!(upper(132, &[0x12, 0x34, 0x56, 0x78]).ports, None);
    let mut fragment = vec![17, 0, 0, 1, 0, 0, 0, 9, 0x12, 0x34, 0x56, 0x78];
    assert_eq!(upper(44, &fragment), Upper { protocol: 17, ports });
    fragment[3] = 9;
    assert_eq!(upper(44, &fragment), Upper { protocol: 17, ports: None });
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
    //= rfc5533#11.1-1 (test)
    #[test]
    fn strip_undoes_insert(
        header in proptest::array::uniform8(any::<u8>()),
        addresses in proptest::array::uniform32(any::<u8>()),
        locators in proptest::array::uniform32(any::<u8>()),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        tag in any::<u64>(),
    ) {
        let mut packet = header.to_vec();
        packet[0] = 0x60 | (packet[0] & 0x0f);
        packet[4..6].copy_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
        packet.extend(addresses);
        packet.extend(&payload);
        let original = packet.clone();
        let tag = ContextTag::from_bits(tag);
        let (local, peer) = locators.split_at(16);
        let local = Locator::from(<[u8; 16]>::try_from(local).unwrap());
        let peer = Locator::from(<[u8; 16]>::try_from(peer).unwrap());

        let before = Ip6::read(&packet).unwrap();
        before.insert(&mut packet, tag, LocatorPair::new(local, peer)).unwrap();
        prop_assert_eq!(packet.len(), original.len() + 8);
        let moved = Ip6::read(&packet).unwrap();
        prop_assert_eq!((moved.source, moved.destination), (local.0, peer.0));
        prop_assert_eq!(moved.next_header, PROTOCOL);
        // Class, flow label and hop limit stay.
        prop_assert_eq!((&packet[..4], packet[7]), (&original[..4], original[7]));
        prop_assert_eq!(&packet[48..], &payload[..]);

        let payload_header = PayloadHeader::parse(moved.payload(&packet)).unwrap();
        prop_assert_eq!(payload_header, PayloadHeader { next_header: original[6], tag });
        let ours = before.outbound();
        moved.strip(&mut packet, payload_header, UlidPair::new(ours.peer, ours.local));
        prop_assert_eq!(packet, original);
    }

    #[test]
    fn nothing_panics(packet in proptest::collection::vec(any::<u8>(), 0..120)) {
        let Some(ip6) = Ip6::read(&packet) else { return Ok(()) };
        ip6.upper(&packet);
        ip6.is_neighbour_discovery(&packet);
        let mut moved = packet.clone();
        let pair = ip6.outbound().as_locators();
        if ip6.insert(&mut moved, ContextTag::from_bits(0), pair).is_some() {
            prop_assert_eq!(moved.len(), packet.len() + 8);
        }
    }
}
