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

#[test]
fn only_global_unicast_is_routed() {
    let is_routed = |source: &str, destination: &str| {
        is_routed(&Ip6::read(&ip6(6, source, destination, &[])).unwrap())
    };
    assert!(is_routed("2001:db8::1", "fd00::1"));
    for other in ["ff02::1", "ff0e::1", "fe80::1", "febf::1", "::", "::1"] {
        assert!(!is_routed("2001:db8::1", other), "{other}");
        assert!(!is_routed(other, "2001:db8::1"), "{other}");
    }
    assert!(is_routed("::2", "fec0::1"), "odd, but neither of a link nor of a host");
}

fn moved_to(pair: LocatorPair) -> Path {
    Path { pair, encapsulation: Encapsulation::PayloadHeader }
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
        insert(&before, &mut packet, tag, moved_to(LocatorPair::new(local, peer))).unwrap();
        prop_assert_eq!(packet.len(), original.len() + 8);
        let moved = Ip6::read(&packet).unwrap();
        prop_assert_eq!((moved.source, moved.destination), (local.0, peer.0));
        prop_assert_eq!(moved.next_header, PROTOCOL);
        // Traffic class, flow label and hop limit stay.
        prop_assert_eq!((&packet[..4], packet[7]), (&original[..4], original[7]));
        prop_assert_eq!(&packet[48..], &payload[..]);

        let payload_header = PayloadHeader::parse(moved.payload(&packet)).unwrap();
        prop_assert_eq!(payload_header, PayloadHeader { next_header: original[6], tag });
        let ours = outbound(&before);
        strip(&moved, &mut packet, payload_header, UlidPair::new(ours.peer, ours.local));
        prop_assert_eq!(packet, original);
    }

    #[test]
    fn nothing_panics(packet in proptest::collection::vec(any::<u8>(), 0..120)) {
        let Some(ip6) = Ip6::read(&packet) else { return Ok(()) };
        is_neighbour_discovery(&ip6, &packet);
        let mut moved = packet.clone();
        let path = moved_to(outbound(&ip6).as_locators());
        if insert(&ip6, &mut moved, ContextTag::from_bits(0), path).is_some() {
            prop_assert_eq!(moved.len(), packet.len() + 8);
        }
    }
}
