use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use std::collections::BTreeSet;

use moorline_ip::extension::{FRAGMENT_LEN, Fragment};
use moorline_ip::header::LEN;
use moorline_ip::ip6::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING, TCP, UDP};
use moorline_ip::{Header, PacketBuf};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{Identifications, Unfit, fragments};

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("address")
}

/// A packet with these extension headers of 8 octets each, and `len` octets of `upper` behind them.
fn packet(extensions: &[u8], upper: u8, len: usize) -> Vec<u8> {
    let numbers: Vec<u8> = extensions.iter().copied().chain([upper]).collect();
    let payload_len = u16::try_from(extensions.len() * 8 + len).expect("length");
    let (source, destination) = (address("2001:db8::1"), address("2001:db8::2"));
    let mut header = Header::new(source, destination, numbers[0], 64, payload_len);
    header.flow_label = 0x000a_bcde;
    let mut packet = Vec::from(header.octets());
    for next in &numbers[1..] {
        packet.extend([*next, 0, 1, 4, 0, 0, 0, 0]);
    }
    // A TCP header that is 20 octets long.
    packet.extend((0..len).map(|at| if at == 12 { 0x50 } else { at.to_le_bytes()[0] }));
    packet
}

fn cut(packet: &[u8], mtu: u32) -> Vec<PacketBuf> {
    fragments(packet, mtu, 0x0102_0304).expect("fragments").collect()
}

fn fragment_of(packet: &[u8], at: usize) -> Fragment {
    Fragment::parse(&packet[at..]).expect("fragment header")
}

// RFC 8200 s4.5: the octets of a first and a last fragment.
#[test]
fn a_packet_is_cut_in_multiples_of_eight() {
    let whole = packet(&[], UDP, 1500);
    let pieces = cut(&whole, 1280);
    assert_eq!(pieces.len(), 2);
    // 1280 - 48 = 1232 is a multiple of 8.
    assert_eq!(pieces[0].len(), 1280);
    assert_eq!(pieces[0][..8], [0x60, 0x0a, 0xbc, 0xde, 0x04, 0xd8, FRAGMENT, 64]);
    assert_eq!(pieces[0][LEN..48], [UDP, 0, 0, 1, 1, 2, 3, 4]);
    assert_eq!(pieces[1][4..8], [0x01, 0x14, FRAGMENT, 64]);
    assert_eq!(pieces[1][LEN..48], [UDP, 0, 0x04, 0xd0, 1, 2, 3, 4]);
    let data: Vec<u8> = pieces.iter().flat_map(|piece| piece[48..].to_vec()).collect();
    assert_eq!(data, whole[LEN..]);
}

// RFC 8200 s4.5: the per-fragment headers are all up to the Routing header, else the Hop-by-Hop Options header.
//= rfc8504#5.2-6 rfc8504#5.2-7 (test)
//= rfc8200#4.1-1 rfc8200#4.1-2 rfc8200#4.1-3 rfc8200#4.5-3 rfc8200#4.5-4 (test)
#[test]
fn the_headers_that_routers_process_are_in_each_fragment() {
    for (extensions, kept) in [
        (vec![HOP_BY_HOP], 1),
        (vec![DESTINATION_OPTIONS], 0),
        (vec![HOP_BY_HOP, DESTINATION_OPTIONS], 1),
        (vec![HOP_BY_HOP, DESTINATION_OPTIONS, ROUTING], 3),
        (vec![DESTINATION_OPTIONS, ROUTING, DESTINATION_OPTIONS], 2),
    ] {
        let whole = packet(&extensions, UDP, 3000);
        let numbers: Vec<u8> = extensions.iter().copied().chain([UDP]).collect();
        let pieces = cut(&whole, 1280);
        for piece in &pieces {
            let chain = Header::parse(piece).expect("header").next_header;
            let mut seen = vec![chain];
            for index in 0..kept {
                seen.push(piece[LEN + 8 * index]);
            }
            let (last, in_front) = seen.split_last().expect("headers");
            assert_eq!((in_front, *last), (&numbers[..kept], FRAGMENT), "{extensions:?}");
            let header = fragment_of(piece, LEN + 8 * kept);
            assert_eq!(header.next_header, numbers[kept], "{extensions:?}");
        }
        let at = LEN + 8 * kept;
        let data = pieces.iter().flat_map(|piece| piece[at + FRAGMENT_LEN..].to_vec());
        assert_eq!(data.collect::<Vec<_>>(), whole[at..]);
    }
}

// RFC 8021: no atomic fragments.
//= rfc8504#5.1-8 (test)
#[test]
fn a_packet_that_fits_has_no_fragment_header() {
    let whole = packet(&[HOP_BY_HOP], UDP, 1232);
    assert_eq!(cut(&whole, 1280), [PacketBuf::copy_of(&whole)]);
    // The packet is one octet too long.
    let whole = packet(&[HOP_BY_HOP], UDP, 1233);
    let pieces = cut(&whole, 1280);
    assert_eq!(pieces.len(), 2);
    assert!(pieces.iter().all(|piece| !fragment_of(piece, LEN + 8).is_atomic()));
}

// RFC 7112 s5.
//= rfc8504#5.2-5 (test)
//= rfc7112#5-1 (test)
//= rfc8200#4.5-6 (test)
#[test]
fn the_first_fragment_has_the_whole_chain_or_there_is_none() {
    let chain = [HOP_BY_HOP, DESTINATION_OPTIONS, DESTINATION_OPTIONS];
    let whole = packet(&chain, TCP, 1000);
    // Behind the per-fragment headers the chain has 36 octets, so the first fragment needs 40.
    let least = 48 + 8 + 40;
    assert_eq!(fragments(&whole, least, 1).map(|_| ()), Ok(()));
    assert_eq!(fragments(&whole, least - 1, 1).map(|_| ()), Err(Unfit::Chain));
    assert_eq!(fragments(&whole, 0, 1).map(|_| ()), Err(Unfit::Chain));
    // The chain is longer than the packet.
    let mut truncated = packet(&[DESTINATION_OPTIONS], UDP, 1500);
    truncated[LEN + 1] = 255;
    assert_eq!(fragments(&truncated, 1280, 1).map(|_| ()), Err(Unfit::Malformed));
    assert_eq!(fragments(&truncated[..39], 1280, 1).map(|_| ()), Err(Unfit::Malformed));
}

#[test]
fn the_longest_packet_is_cut() {
    let whole = packet(&[], UDP, 65_535);
    let pieces = cut(&whole, 1280);
    let last = fragment_of(&pieces[pieces.len() - 1], LEN);
    assert_eq!((pieces.len(), last.offset, last.has_more), (54, 65_296, false));
}

// RFC 7739 s5.3.
//= rfc7739#5.3 (test)
//= rfc8200#4.5-2 (test)
#[test]
fn a_pair_of_addresses_uses_no_identification_twice() {
    let mut numbers = Identifications::new(ChaCha20Rng::seed_from_u64(1));
    let (source, destination) = (address("2001:db8::1"), address("2001:db8:1::2"));
    let used: BTreeSet<u32> = (0..100_000).map(|_| numbers.next(source, destination)).collect();
    assert_eq!(used.len(), 100_000);
}

// RFC 7739 s4: neither another destination nor another host shows the values of a pair.
//= rfc8504#5.1-9 (test)
//= rfc7739#5.3 (test)
#[test]
fn identifications_of_other_destinations_and_hosts_are_unrelated() {
    let first = |seed, destination: &str| {
        let mut numbers = Identifications::new(ChaCha20Rng::seed_from_u64(seed));
        numbers.next(address("2001:db8::1"), address(destination))
    };
    let values: BTreeSet<u32> = (0..1000)
        .flat_map(|n| [first(1, &std::format!("2001:db8:1::{n:x}")), first(n + 2, "2001:db8::2")])
        .collect();
    assert_eq!(values.len(), 2000);
    let close = values.iter().zip(values.iter().skip(1)).filter(|(a, b)| *b - *a < 1000);
    assert!(close.count() < 20, "values that follow each other");
    assert_eq!(first(1, "2001:db8::2"), first(1, "2001:db8::2"), "equal seeds");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Fragments fit, do not overlap, leave no gap, and hold the packet.
    //= rfc8504#5.1-6 rfc8504#5.7.1-2 (test)
    //= rfc5722#4-1 (test)
    //= rfc8200#4.5-5 rfc8200#4.5-7 (test)
    #[test]
    fn fragments_hold_the_packet(len in 1233_usize..20_000, mtu in 1280_u32..4000) {
        let whole = packet(&[HOP_BY_HOP], UDP, len);
        let mut data: Vec<u8> = Vec::new();
        let pieces = cut(&whole, mtu);
        for (index, piece) in pieces.iter().enumerate() {
            prop_assert!(piece.len() <= usize::try_from(mtu).expect("mtu"));
            prop_assert_eq!(Header::parse(piece).expect("header").packet_len(), piece.len());
            if pieces.len() > 1 {
                let header = fragment_of(piece, LEN + 8);
                prop_assert_eq!(usize::from(header.offset), data.len());
                prop_assert_eq!(header.has_more, index + 1 < pieces.len());
                data.extend(&piece[LEN + 8 + FRAGMENT_LEN..]);
            }
        }
        if pieces.len() > 1 {
            prop_assert_eq!(&data[..], &whole[LEN + 8..]);
        }
    }
}
