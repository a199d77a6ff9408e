//! Answers to strangers, packet by packet: no answer has more octets than the packet that draws it, whatever the type and the
//! length of that packet. Only R1 has its validator besides, as RFC 5533 s7.10 wants.

use moorline_wire::fill_checksum;

use super::*;

/// A control message of this type and length behind the IPv6 header, about this tag, with these octets behind the tag.
fn message(kind: u8, len: usize, tag: ContextTag, filling: u8) -> Vec<u8> {
    let units = u8::try_from(len / 8 - 1).expect("short");
    let mut octets = Vec::from([59, units, kind, 0, 0, 0]);
    octets.extend(tag.octets());
    octets.resize(len, filling);
    // Behind 16 octets, options that nobody has to know fill the rest.
    for unit in octets.get_mut(16..).into_iter().flat_map(|rest| rest.chunks_exact_mut(8)) {
        unit.copy_from_slice(&[0xff, 0xfe, 0, 4, 0, 0, 0, 0]);
    }
    fill_checksum(&mut octets);
    octets
}

/// Octets of the answers to a packet of a stranger, and the type of each.
fn answers(pair: &mut Pair, octets: &[u8], locators: LocatorPair) -> Vec<(u8, usize)> {
    let (host, now) = (&mut pair.hosts[0], pair.now);
    host.handle_control(octets, locators, now);
    let sent = core::iter::from_fn(|| host.poll_transmit());
    let to_stranger = sent.filter(|sent| sent.locators.peer == locators.peer);
    to_stranger.map(|sent| (sent.octets[2], sent.octets.len())).collect()
}

/// Checks that all answers are no longer than the packet. Returns their number.
fn check(pair: &mut Pair, octets: &[u8], locators: LocatorPair) -> usize {
    let all = answers(pair, octets, locators);
    assert!(all.len() <= 1, "{octets:?}: {all:?}");
    for &(kind, len) in &all {
        let free = if MessageType::new(kind) == MessageType::R1 { VALIDATOR_OPTION } else { 0 };
        assert!(len - free <= octets.len(), "type {kind} of {len} for {octets:?}");
    }
    all.len()
}

#[test]
fn no_answer_to_a_stranger_is_longer_than_its_question_whatever_type_and_length_that_has() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let known = pair.entries[0][0].local_tag;
    let mut number = 0;
    let mut drawn = 0;
    for tag in [known, ContextTag::from_bits(5)] {
        for len in (8..=160).step_by(8) {
            let packets = (0..128).flat_map(|kind| [0, 0x11].map(|f| message(kind, len, tag, f)));
            let header = PayloadHeader { next_header: 6, tag }.emit();
            let payload = [&header[..], &[0; 160][..len - 8]].concat();
            for octets in packets.chain([payload]) {
                // Each packet has a source and a time of its own, so no limit hides an answer.
                number += 1;
                pair.now = pair.now + Duration::from_millis(1);
                let stranger = Ipv6Addr::new(0x2001, 0xdb8, 0xbad, number, 0, 0, 0, 1);
                let locators = LocatorPair::new(pair.locators[0][0], stranger.into());
                drawn += check(&mut pair, &octets, locators);
            }
        }
    }
    assert!(drawn > 1000, "R1, R1bis and Errors: {drawn}");
}

/// Option header, validator of 16 octets, padding.
const VALIDATOR_OPTION: usize = (4_usize + 16).next_multiple_of(8);
