//! ILNPv6: octets written by hand from RFC 6742 to 6744 and decision 070, and packets of the St Andrews kernel.

use moorline_types::{DropReason, Ilv, L64, Nonce};
use moorline_wire::ilnp::{
    Accept, Admission, AdmissionFlags, AdmissionTypes, ChecksumDelta, Confirm, Flow, L64Entry,
    LocatorUpdate, NonceHeader, OlderLocatorUpdate, Operation, OptionsHeader, Refusal, checksum_at,
    transport_checksum,
};
use std::net::Ipv6Addr;

const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xa);
const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0xb);
const TYPES: AdmissionTypes = AdmissionTypes { initiator: 200, responder: 201 };

//= rfc6744#2-5 rfc6744#2-6 (test)
#[test]
fn nonces_of_both_lengths_with_and_without_a_number() {
    let header = |nonce, sequence| NonceHeader { next_header: 17, nonce, sequence };
    let short = Nonce::Short([1, 2, 3, 4]);
    let long = Nonce::Long([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    both_ways(&header(short, None), "1100 8b04 01020304");
    both_ways(&header(short, Some(7)), "1101 8b04 01020304 1e06 4d4c 00000007");
    both_ways(&header(long, None), "1101 8b0c 0102030405060708090a0b0c");
    both_ways(
        &header(long, Some(u32::MAX)),
        "1102 8b0c 0102030405060708090a0b0c 1e06 4d4c ffffffff",
    );
}

#[test]
fn other_options_are_seen_and_the_nonce_can_be_blotted_out() {
    let mut octets = of_hex("3a01 0000 1e02 aabb 8b04 09080706 0000");
    let header = OptionsHeader::parse(&octets).expect("parses");
    assert_eq!(header.nonce, Some(Nonce::Short([9, 8, 7, 6])));
    assert!(header.has_others, "somebody else's experiment");
    header.void_nonce(&mut octets);
    assert_eq!(octets, of_hex("3a01 0000 1e02 aabb 1e04 00000000 0000"));
    assert_eq!(OptionsHeader::parse(&octets).expect("parses").nonce, None);
}

//= rfc6744#2-1 (test)
#[test]
fn options_that_are_no_proof_are_refused() {
    let refused = |hex: &str| OptionsHeader::parse(&of_hex(hex)).expect_err("refused");
    // Two nonces are refused: RFC 6744 s2.
    assert_eq!(refused("1101 8b04 01020304 8b04 01020304 0100"), DropReason::DuplicateOption);
    assert_eq!(
        refused("1102 8b04 01020304 1e06 4d4c 00000001 1e06 4d4c 00000001"),
        DropReason::DuplicateOption
    );
    assert_eq!(refused("1100 8b03 010203 00"), DropReason::BadLength);
    assert_eq!(refused("1100 8b05 01020304"), DropReason::BadLength);
    assert_eq!(refused("1100 8b00 01020000"), DropReason::BadLength);
    assert_eq!(refused("1100 0103 000000 8b"), DropReason::BadLength);
    assert_eq!(refused("1101 8b04 01020304"), DropReason::Truncated);
    assert_eq!(refused("11"), DropReason::Truncated);
    assert_eq!(
        refused("1102 8b04 01020304 00000000 00000000 00000000 00000000"),
        DropReason::TooMany
    );
}

#[test]
fn as_many_options_are_read_as_there_may_be() {
    let full = of_hex("1102 8b04 01020304 00000000 00000000 00000000 0000 0100");
    let header = OptionsHeader::parse(&full).expect("parses");
    assert_eq!(header.nonce, Some(Nonce::Short([1, 2, 3, 4])));
}

//= rfc6743#2-4 (test)
#[test]
fn locator_update_and_its_acknowledgement() {
    let entry = |l64, preference, lifetime| L64Entry { preference, l64: L64(l64), lifetime };
    let update = LocatorUpdate {
        operation: Operation::ADVERTISEMENT,
        locators: vec![
            entry(0x2001_0db8_0001_0000, 10, 30),
            entry(0x2001_0db8_0003_0000, 0x1234, 0xffff),
        ],
    };
    let golden = |operation, checksum| {
        format!(
            "9c00 {checksum} 02 {operation} 0000
             20010db800010000 000a 001e 20010db800030000 1234 ffff"
        )
    };
    update_both_ways(&update, &golden("01", "9847"));
    update_both_ways(&update.acknowledgement(), &golden("02", "9846"));
}

//= rfc6743#2-3 (test)
#[test]
fn locator_updates_that_contradict_themselves_are_refused() {
    let refused = |hex: &str| {
        let mut octets = of_hex(hex);
        octets[2..4].fill(0);
        let sum = transport_checksum(Ilv::of(SRC), Ilv::of(DST), 58, &octets);
        octets[2..4].copy_from_slice(&sum.to_be_bytes());
        LocatorUpdate::parse(&octets, SRC, DST).expect_err("refused")
    };
    assert_eq!(refused("9c000000 00010000"), DropReason::BadFormat);
    assert_eq!(refused("9c010000 01010000 20010db800010000 000a001e"), DropReason::BadFormat);
    assert_eq!(refused("9c000000 02010000 20010db800010000 000a001e"), DropReason::Truncated);
    assert_eq!(refused("9c000000 01010000 20010db800010000 000a001e 00"), DropReason::BadLength);
    assert_eq!(refused("9b000000 01010000 20010db800010000 000a001e"), DropReason::UnknownType);
    let good = of_hex("9c000000 01010000 20010db800010000 000a001e");
    assert_eq!(LocatorUpdate::parse(&good, SRC, DST), Err(DropReason::BadChecksum));
    let link_local = "fe80::1".parse().expect("an address");
    assert_eq!(LocatorUpdate::parse(&good, link_local, DST), Err(DropReason::BadAddress));
}

#[test]
fn the_four_messages_of_the_handshake() {
    let flow = Flow {
        protocol: 17,
        initiator_port: 0xc000,
        responder_port: 7,
        transaction: 0x0102_0304,
        flags: AdmissionFlags::CONNECTED.with(AdmissionFlags::SEQUENCE, true),
    };
    let accept = Accept {
        flow,
        flags: AdmissionFlags::SEQUENCE,
        number: 0x1122_3344,
        validator: *b"sixteen octets!!",
        responder_nonce: Nonce::Short([5, 6, 7, 8]),
    };
    let confirm = Confirm { accept, initiator_nonce: Nonce::Long([9; 12]) };
    let fields = "c000 0007 01020304";
    let accepted = "11223344 7369787465656e206f63746574732121 05060708 0000000000000000";
    let zeros = "00".repeat(32);
    let admission_both_ways = |message: Admission, golden: String| {
        let golden = of_hex(&golden);
        assert_eq!(hex::encode(message.emit(TYPES, SRC, DST)), hex::encode(&golden));
        assert_eq!(Admission::parse(&golden, TYPES, SRC, DST), Ok(message));
    };
    admission_both_ways(
        Admission::Propose(flow),
        format!("c800 05f4 01050000 11000000 {fields} {zeros}"),
    );
    admission_both_ways(
        Admission::Accept(accept),
        format!("c900 73be 01050400 11000400 {fields} {accepted}"),
    );
    admission_both_ways(
        Admission::Refuse(flow, Refusal::NOT_CONNECTED),
        format!("c901 0511 01050002 11000000 {fields}"),
    );
    admission_both_ways(
        Admission::Confirm(confirm),
        format!("c801 3e6f 01050400 110c0400 {fields} {accepted} {}", "09".repeat(12)),
    );
}

#[test]
fn no_answer_of_the_handshake_is_longer_than_the_question() {
    let flow = Flow {
        protocol: 6,
        initiator_port: 1,
        responder_port: 2,
        transaction: 3,
        flags: AdmissionFlags::default(),
    };
    let propose = Admission::Propose(flow).emit(TYPES, SRC, DST);
    let accept = Accept {
        flow,
        flags: AdmissionFlags::default(),
        number: 0,
        validator: [0; 16],
        responder_nonce: Nonce::Long([0; 12]),
    };
    assert!(Admission::Accept(accept).emit(TYPES, SRC, DST).len() <= propose.len());
    // A shorter Propose gets no answer.
    for len in 0..propose.len() {
        assert!(Admission::parse(&propose[..len], TYPES, SRC, DST).is_err());
    }
}

//= rfc6744#3-1 (test)
#[test]
fn the_echo_reply_of_st_andrews_leaves_the_locators_out_of_its_checksum() {
    let (src, dst, payload) = capture("udp-echo-reply");
    let header = OptionsHeader::parse(&payload).expect("parses");
    assert_eq!((header.nonce, header.next_header), (Some(Nonce::Short([1, 2, 3, 4])), 17));
    assert!(!header.has_others);
    let udp = &payload[header.len..];
    let (from, to) = (Ilv::of(src), Ilv::of(dst));
    assert_eq!(transport_checksum(from.at(L64(0)), to.at(L64(0)), 17, udp), 0);
    assert_ne!(transport_checksum(from, to, 17, udp), 0);
    // The checksum that the socket would compute.
    let at = checksum_at(17).expect("has one");
    let field = u16::from_be_bytes([udp[at], udp[at + 1]]);
    let restored = ChecksumDelta::to_nid_only([from.l64, to.l64]).inverse().apply(17, field);
    let mut udp = udp.to_vec();
    udp[at..at + 2].copy_from_slice(&restored.to_be_bytes());
    assert_eq!(transport_checksum(from, to, 17, &udp), 0);
}

/// The Locator Update of the St Andrews kernel has 16 octets for a locator, some of them in another byte order, and
/// another checksum.
#[test]
fn the_locator_update_of_st_andrews_is_not_that_of_the_rfc() {
    let (src, dst, payload) = capture("locator-update");
    let header = OptionsHeader::parse(&payload).expect("parses");
    assert_eq!(header.nonce, Some(Nonce::Short([0xe8, 0x6c, 0x23, 0x76])));
    let update = LocatorUpdate::parse(&payload[header.len..], src, dst);
    assert_eq!(update, Err(DropReason::BadLength));
}

#[test]
fn the_locator_update_of_st_andrews_is_read_and_acknowledged_in_its_own_form() {
    let (src, dst, payload) = capture("locator-update");
    let message = &payload[OptionsHeader::parse(&payload).expect("parses").len..];
    assert!(OlderLocatorUpdate::is_it(message));
    let older = OlderLocatorUpdate::parse(message, src, dst).expect("the older form");
    assert_eq!(older.emit(src, dst), message);
    let locators = vec![L64Entry { preference: 10, l64: L64(0x2001_0002_0000_00ee), lifetime: 30 }];
    assert_eq!(older.update(), LocatorUpdate { operation: Operation::ADVERTISEMENT, locators });
    let answer = older.acknowledgement().emit(dst, src);
    // If the Operation increases by one, the checksum decreases by one.
    let mut expected = message.to_vec();
    (expected[3], expected[5]) = (expected[3] - 1, 2);
    assert_eq!(hex::encode(answer), hex::encode(expected));
    // No checksum covers locators; the checksum covers identifiers.
    let elsewhere = Ipv6Addr::from_bits(dst.to_bits() ^ 1 << 64);
    assert_eq!(OlderLocatorUpdate::parse(message, src, elsewhere), Ok(older));
    let other = Ipv6Addr::from_bits(dst.to_bits() ^ 1);
    assert_eq!(OlderLocatorUpdate::parse(message, src, other), Err(DropReason::BadChecksum));
    let far = OlderLocatorUpdate { preference: 1 << 16, lifetime: u32::MAX, ..older };
    let far = far.update().locators[0];
    assert_eq!((far.preference, far.lifetime), (u16::MAX, u16::MAX));
}

#[test]
fn an_older_locator_update_with_another_length_count_code_or_address_is_refused() {
    let (src, dst, payload) = capture("locator-update");
    let good = payload[OptionsHeader::parse(&payload).expect("parses").len..].to_vec();
    let parse = |octets: &[u8]| OlderLocatorUpdate::parse(octets, src, dst);
    for len in 0..good.len() {
        assert_eq!(parse(&good[..len]), Err(DropReason::Truncated));
    }
    assert_eq!(parse(&[&good[..], &[0; 16]].concat()), Err(DropReason::BadLength));
    // The checksum is corrected after the change.
    let changed = |at: usize, by: u16| {
        let mut octets = good.clone();
        octets[at] += 1;
        let sum = u16::from_be_bytes([octets[2], octets[3]]) - by;
        octets[2..4].copy_from_slice(&sum.to_be_bytes());
        octets
    };
    assert_eq!(parse(&changed(1, 1)), Err(DropReason::BadFormat), "the code");
    assert_eq!(parse(&changed(4, 0x100)), Err(DropReason::BadFormat), "the count");
    assert_eq!(parse(&changed(0, 0x100)), Err(DropReason::UnknownType));
    assert_eq!(parse(&changed(1, 0)), Err(DropReason::BadChecksum));
    let link_local = Ipv6Addr::from_bits(0xfe80 << 112 | src.to_bits() & u128::from(u64::MAX));
    let refused = OlderLocatorUpdate::parse(&good, link_local, dst);
    assert_eq!(refused, Err(DropReason::BadAddress));
}

#[track_caller]
fn both_ways(header: &NonceHeader, golden: &str) {
    let golden = of_hex(golden);
    assert_eq!(hex::encode(header.emit()), hex::encode(&golden));
    let read = OptionsHeader::parse(&golden).expect("parses");
    assert_eq!(read.len, golden.len());
    let NonceHeader { next_header, nonce, sequence } = *header;
    let found = (read.next_header, read.nonce, read.sequence, read.has_others);
    assert_eq!(found, (next_header, Some(nonce), sequence, false));
}

#[track_caller]
fn update_both_ways(update: &LocatorUpdate, golden: &str) {
    let golden = of_hex(golden);
    assert_eq!(hex::encode(update.emit(SRC, DST)), hex::encode(&golden));
    assert_eq!(LocatorUpdate::parse(&golden, SRC, DST).as_ref(), Ok(update));
}

fn of_hex(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).expect("hex")
}

/// Addresses of a packet of the St Andrews kernel, and the octets behind its IPv6 header.
fn capture(name: &str) -> (Ipv6Addr, Ipv6Addr, Vec<u8>) {
    let json = include_str!("../../../tests/vectors/ilnp_packets.json");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let packets = json["packets"].as_array().expect("packets");
    let packet = packets.iter().find(|packet| packet["name"] == name).expect("is there");
    let octets = of_hex(packet["hex"].as_str().expect("hex"));
    let address = |at: usize| {
        let octets: [u8; 16] = octets[at..at + 16].try_into().expect("16 octets");
        Ipv6Addr::from(octets)
    };
    (address(8), address(24), octets[40..].to_vec())
}
