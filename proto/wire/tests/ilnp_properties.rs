//! ILNPv6: round trips are equal, no input makes the parsers panic, and a checksum that was moved to other locators
//! equals the sum over the whole packet.

use moorline_types::{Ilv, L64, Nid, Nonce};
use moorline_wire::ilnp::consts::MAX_UPDATE_LOCATORS;
use moorline_wire::ilnp::{
    Accept, Admission, AdmissionFlags, AdmissionTypes, ChecksumDelta, Confirm, Flow, L64Entry,
    LocatorUpdate, NonceHeader, Operation, OptionsHeader, Refusal, checksum_at, transport_checksum,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::Ipv6Addr;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_checksum_moved_is_the_one_computed(
        locators in any::<[u64; 4]>(),
        nids in any::<[u64; 2]>(),
        protocol in prop::sample::select(vec![6, 17, 33, 136]),
        mut packet in vec(any::<u8>(), 20..80),
    ) {
        let [from, to] = [[locators[0], locators[1]], [locators[2], locators[3]]];
        let [from, to] = [from, to].map(|pair| pair.map(L64));
        let before = filled(&mut packet, protocol, from, nids);
        let expected = filled(&mut packet, protocol, to, nids);
        let delta = ChecksumDelta::new(from, to);
        prop_assert_eq!(delta.apply(protocol, before), expected);
        prop_assert_eq!(delta.inverse().apply(protocol, expected), before);
        let nid_only = filled(&mut packet, protocol, [L64(0); 2], nids);
        prop_assert_eq!(ChecksumDelta::to_nid_only(from).apply(protocol, before), nid_only);
        let there_and_on = ChecksumDelta::to_nid_only(to).inverse().apply(protocol, nid_only);
        prop_assert_eq!(there_and_on, expected);
    }

    #[test]
    fn a_checksum_of_another_identifier_is_the_one_computed(
        locators in any::<[u64; 2]>(),
        nids in any::<[u64; 3]>(),
        protocol in prop::sample::select(vec![6, 17, 33, 136]),
        mut packet in vec(any::<u8>(), 20..80),
    ) {
        let [from, to, other] = nids;
        let locators = locators.map(L64);
        let before = filled(&mut packet, protocol, locators, [from, other]);
        let expected = filled(&mut packet, protocol, locators, [to, other]);
        let delta = ChecksumDelta::of_identifier(Nid(from), Nid(to));
        prop_assert_eq!(delta.apply(protocol, before), expected);
    }

    #[test]
    fn no_change_of_locators_is_no_change(pair in any::<[u64; 2]>(), field: u16) {
        let pair = pair.map(L64);
        let there = ChecksumDelta::new(pair, pair).apply(6, field);
        // 0 and 0xffff are the same sum.
        prop_assert_eq!(there % 0xffff, field % 0xffff);
    }

    #[test]
    fn nonce_headers_come_back(header in nonce_header()) {
        let octets = header.emit();
        prop_assert_eq!(octets.len(), header.wire_len());
        prop_assert_eq!(octets.len() % 8, 0);
        let read = OptionsHeader::parse(&octets).expect("emitted");
        prop_assert_eq!(read.nonce, Some(header.nonce));
        prop_assert_eq!(read.sequence, header.sequence);
        prop_assert_eq!(read.next_header, header.next_header);
        prop_assert!(!read.has_others);
    }

    #[test]
    fn locator_updates_come_back(update in locator_update()) {
        let octets = update.emit(SRC, DST);
        prop_assert_eq!(LocatorUpdate::parse(&octets, SRC, DST), Ok(update.clone()));
        prop_assert_eq!(update.acknowledgement().emit(SRC, DST).len(), octets.len());
    }

    #[test]
    fn handshakes_come_back(message in admission(), types in types()) {
        let octets = message.emit(types, SRC, DST);
        prop_assert_eq!(Admission::parse(&octets, types, SRC, DST), Ok(message));
        let damaged = Admission::parse(&octets, types, DST, OTHER);
        prop_assert!(damaged.is_err());
    }

    #[test]
    fn arbitrary_octets_never_panic(octets in vec(any::<u8>(), 0..120)) {
        if let Ok(header) = OptionsHeader::parse(&octets) {
            prop_assert!(header.len <= octets.len());
            header.void_nonce(&mut octets.clone());
        }
        let _ = LocatorUpdate::parse(&octets, SRC, DST);
        let _ = Admission::parse(&octets, AdmissionTypes::default(), SRC, DST);
    }
}

#[test]
fn a_udp_without_checksum_keeps_none_and_none_becomes_one_without() {
    let delta = ChecksumDelta::new([L64(1), L64(2)], [L64(3), L64(4)]);
    assert_eq!(delta.apply(17, 0), 0);
    // The value whose sum would become zero.
    let zero = delta.inverse().apply(6, 0);
    assert_eq!((delta.apply(6, zero), delta.apply(17, zero)), (0, 0xffff));
}

/// Writes the right checksum into a packet.
fn filled(packet: &mut [u8], protocol: u8, [src, dst]: [L64; 2], nids: [u64; 2]) -> u16 {
    let at = checksum_at(protocol).expect("has one");
    packet[at..at + 2].fill(0);
    let [src, dst] = [Ilv::new(src, Nid(nids[0])), Ilv::new(dst, Nid(nids[1]))];
    let sum = match transport_checksum(src, dst, protocol, packet) {
        // RFC 768, RFC 3828 s3.1: zero means that there is no checksum.
        0 if matches!(protocol, 17 | 136) => 0xffff,
        sum => sum,
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    sum
}

fn nonce() -> impl Strategy<Value = Nonce> {
    prop_oneof![any::<[u8; 4]>().prop_map(Nonce::Short), any::<[u8; 12]>().prop_map(Nonce::Long)]
}

fn nonce_header() -> impl Strategy<Value = NonceHeader> {
    (any::<u8>(), nonce(), any::<Option<u32>>())
        .prop_map(|(next_header, nonce, sequence)| NonceHeader { next_header, nonce, sequence })
}

fn locator_update() -> impl Strategy<Value = LocatorUpdate> {
    let entry = (any::<u16>(), any::<u64>(), any::<u16>())
        .prop_map(|(preference, l64, lifetime)| L64Entry { preference, l64: L64(l64), lifetime });
    (any::<u8>(), vec(entry, 1..=MAX_UPDATE_LOCATORS)).prop_map(|(operation, locators)| {
        LocatorUpdate { operation: Operation::new(operation), locators }
    })
}

fn flow() -> impl Strategy<Value = Flow> {
    any::<(u8, u16, u16, u32, u8)>().prop_map(
        |(protocol, initiator_port, responder_port, transaction, flags)| Flow {
            protocol,
            initiator_port,
            responder_port,
            transaction,
            flags: AdmissionFlags(flags),
        },
    )
}

fn accept() -> impl Strategy<Value = Accept> {
    (flow(), any::<(u8, u32, [u8; 16])>(), nonce()).prop_map(
        |(flow, (flags, number, validator), responder_nonce)| Accept {
            flow,
            flags: AdmissionFlags(flags),
            number,
            validator,
            responder_nonce,
        },
    )
}

fn admission() -> impl Strategy<Value = Admission> {
    prop_oneof![
        flow().prop_map(Admission::Propose),
        accept().prop_map(Admission::Accept),
        (flow(), any::<u8>())
            .prop_map(|(flow, reason)| { Admission::Refuse(flow, Refusal::new(reason)) }),
        (accept(), nonce()).prop_map(|(accept, initiator_nonce)| {
            Admission::Confirm(Confirm { accept, initiator_nonce })
        }),
    ]
}

fn types() -> impl Strategy<Value = AdmissionTypes> {
    (128_u8..=254).prop_map(|initiator| AdmissionTypes { initiator, responder: initiator + 1 })
}

const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xa);
const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0xb);
const OTHER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0xc);
