//! Faults in messages, and the extension headers and fragments that carry them (RFC 8200 s4).

use moorline_wire::ip6::DESTINATION_OPTIONS;
use moorline_wire::{PROTOCOL, fill_checksum};

use super::dice::Dice;

/// The payload of an IPv6 packet and the Next Header of the IPv6 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) next_header: u8,
    pub(super) octets: Vec<u8>,
}

/// Changes some octets of a control message of Shim6, or its length or type. Mostly, the checksum stays right.
pub(super) fn mutate(dice: &mut Dice, message: &mut Vec<u8>) {
    match dice.below(6) {
        0 => message.extend(dice.octets(8)),
        1 => message.truncate(message.len().saturating_sub(8).max(8)),
        2 => message[TYPE_AT] = dice.octet() & 0x7f,
        _ => {
            for _ in 0..=dice.below(3) {
                let at = dice.below(message.len());
                message[at] = dice.octet();
            }
        }
    }
    if dice.chance(80) {
        message[LENGTH_AT] = u8::try_from(message.len() / 8 - 1).unwrap_or(u8::MAX);
    }
    if dice.chance(90) {
        fill_checksum(message);
    }
}

/// Puts extension headers in front of one of three payloads, and makes fragments of some of them.
pub(super) fn wrap(dice: &mut Dice, mut payload: Payload) -> Vec<Payload> {
    if dice.chance(67) {
        return vec![payload];
    }
    // A receiver takes Hop-by-Hop Options directly behind the IPv6 header only.
    let headers = if dice.chance(5) { 6 } else { dice.below(3) };
    for _ in 0..headers {
        let kind = dice.pick(&[DESTINATION_OPTIONS, DESTINATION_OPTIONS, ROUTING]);
        payload = behind(dice, kind, payload);
    }
    let mut all = if dice.chance(30) { fragments(dice, &payload) } else { vec![payload] };
    if dice.chance(40) {
        all = all.into_iter().map(|one| behind(dice, HOP_BY_HOP, one)).collect();
    }
    all
}

/// An extension header with padding, or with an option that a receiver may ignore.
fn behind(dice: &mut Dice, kind: u8, payload: Payload) -> Payload {
    let Payload { next_header, octets } = payload;
    let header = match kind {
        // A routing header of an unknown type with no segment left: the receiver ignores it (RFC 8200 s4.4).
        ROUTING => [next_header, 0, 253, 0, 0, 0, 0, 0],
        _ if dice.chance(50) => [next_header, 0, IGNORED_OPTION, 4, 1, 2, 3, 4],
        _ => [next_header, 0, PAD_N, 4, 0, 0, 0, 0],
    };
    Payload { next_header: kind, octets: [&header[..], &octets].concat() }
}

/// The fragments of a payload: an only one, two in order or not, or a first one alone.
fn fragments(dice: &mut Dice, payload: &Payload) -> Vec<Payload> {
    let Payload { next_header, octets } = payload;
    let identification = dice.word().to_be_bytes();
    let fragment = |start: usize, part: &[u8], has_more: bool| {
        let place = u16::try_from(start).unwrap_or(u16::MAX) | u16::from(has_more);
        let mut header = vec![*next_header, 0];
        header.extend(place.to_be_bytes());
        header.extend(identification);
        Payload { next_header: FRAGMENT, octets: [&header, part].concat() }
    };
    let units = octets.len() / 8;
    if units < 2 || dice.chance(30) {
        return vec![fragment(0, octets, false)];
    }
    let at = 8 * (1 + dice.below(units - 1));
    let mut both = vec![fragment(0, &octets[..at], true), fragment(at, &octets[at..], false)];
    match dice.below(4) {
        0 => both.reverse(),
        1 => both.truncate(1),
        _ => {}
    }
    both
}

/// The payload of a Shim6 message.
pub(super) fn shim6(octets: Vec<u8>) -> Payload {
    Payload { next_header: PROTOCOL, octets }
}

const LENGTH_AT: usize = 1;
const TYPE_AT: usize = 2;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const PAD_N: u8 = 1;
/// An option for experiments that a receiver skips if it does not know it (RFC 4727 s3.3).
const IGNORED_OPTION: u8 = 0x1e;

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_wire::ip6::{IP6_LEN, MAX_CHAIN, Upper, packet};

    #[test]
    fn a_message_behind_as_many_headers_as_a_receiver_reads_is_found_whole() {
        let message = shim6(vec![0x55; 64]);
        let (mut headers_seen, mut fragments_seen) = ([0; 8], 0);
        for seed in 0..2000 {
            let all = wrap(&mut Dice::new(seed), message.clone());
            let [Payload { next_header, octets }] = all.as_slice() else {
                fragments_seen += 1;
                continue;
            };
            if !octets.ends_with(&message.octets) {
                continue;
            }
            let headers = (octets.len() - message.octets.len()) / 8;
            headers_seen[headers.min(7)] += 1;
            if headers <= MAX_CHAIN {
                let whole = packet(*next_header, [1; 16].into(), [2; 16].into(), octets);
                let upper = Upper::read(&whole, *next_header, IP6_LEN);
                assert_eq!(upper.protocol, PROTOCOL, "seed {seed}");
                assert_eq!(whole[upper.at.unwrap()..], message.octets, "seed {seed}");
            }
        }
        assert!(headers_seen[..4].iter().chain(&headers_seen[6..]).all(|seen| *seen > 0));
        assert!(fragments_seen > 50, "{fragments_seen}");
    }

    #[test]
    fn two_fragments_have_all_octets_once() {
        let message = shim6((0..80).collect());
        let mut seen = 0;
        for seed in 0..200 {
            let mut all = fragments(&mut Dice::new(seed), &message);
            let place = |one: &Payload| u16::from_be_bytes([one.octets[2], one.octets[3]]);
            all.sort_by_key(place);
            if place(all.last().unwrap()) & 1 == 0 {
                let octets: Vec<_> = all.iter().flat_map(|one| &one.octets[8..]).copied().collect();
                assert_eq!(octets, message.octets);
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn mutated_messages_keep_whole_headers() {
        for seed in 0..2000 {
            let mut message = vec![59, 1, 1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
            mutate(&mut Dice::new(seed), &mut message);
            assert!(message.len() >= 8 && message.len().is_multiple_of(8));
        }
    }
}
