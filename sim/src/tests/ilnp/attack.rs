use moorline_types::{Ilv, IlvPair, L64, Nid, Nonce};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    ChecksumDelta, L64Entry, LocatorUpdate, NonceHeader, Operation, OptionsHeader,
};

use super::host::DESTINATION_OPTIONS;
use super::sockets::{Numbers, ip6, packet, read};
use crate::packet::{ICMPV6, UDP};
use crate::rng::Rng;

/// Locator to which an attacker tries to redirect traffic.
pub(crate) const EVIL: L64 = L64(0x2001_0db8_6666_0000);

/// The first packet of an invented correspondent: a random identifier, a nonce, the right ILNP checksum, and the
/// server's port, as the generator of the ILCC study sends it.
pub(crate) fn made_up(to: Ilv, port: u16, rng: &mut Rng) -> Vec<u8> {
    let from = Ilv::new(EVIL, Nid::from_random(rng.below(u64::MAX)));
    let pair = IlvPair::new(from, to);
    let mut plain = packet(pair, UDP, (4000, port), Numbers::default(), 0);
    let delta = ChecksumDelta::to_nid_only([from.l64, to.l64]);
    let sum = u16::from_be_bytes([plain[46], plain[47]]);
    plain[46..48].copy_from_slice(&delta.apply(UDP, sum).to_be_bytes());
    let nonce = guessed(rng);
    let mut payload = NonceHeader { next_header: UDP, nonce, sequence: None }.emit();
    payload.extend(&plain[40..]);
    ip6(pair, DESTINATION_OPTIONS, &payload)
}

/// A packet of a node elsewhere with the identifier of a correspondent: the first packet of a session, the answer to
/// an Echo Request, or a Locator Update.
pub(crate) fn namesake(
    pair: IlvPair,
    ports: (u16, u16),
    asked: Option<&[u8]>,
    rng: &mut Rng,
) -> Vec<u8> {
    let pair = IlvPair::new(pair.local.at(EVIL), pair.remote);
    let (next_header, upper) = match asked.filter(|_| rng.below(2) == 0) {
        Some(request) => {
            let mut reply = [&[129, 0, 0, 0], &request[4..]].concat();
            fill_icmp_checksum(&mut reply, pair.local.address(), pair.remote.address());
            (ICMPV6, reply)
        }
        None if rng.below(2) == 0 => return guessed_update(pair, rng),
        None => (UDP, packet(pair, UDP, ports, Numbers::default(), 0)[40..].to_vec()),
    };
    let nonce = Nonce::Short(NAMESAKE);
    let mut payload = NonceHeader { next_header, nonce, sequence: None }.emit();
    payload.extend(upper);
    ip6(pair, DESTINATION_OPTIONS, &payload)
}

/// A Locator Update that redirects traffic, with a guessed nonce or without one.
pub(crate) fn guessed_update(pair: IlvPair, rng: &mut Rng) -> Vec<u8> {
    let entry = L64Entry { preference: 0, l64: EVIL, lifetime: u16::MAX };
    let update = LocatorUpdate { operation: Operation::ADVERTISEMENT, locators: vec![entry] };
    let message = update.emit(pair.local.address(), pair.remote.address());
    if rng.below(4) == 0 {
        return ip6(pair, ICMPV6, &message);
    }
    let nonce = guessed(rng);
    let sequence = u32::try_from(rng.below(1 << 32)).ok();
    let mut payload = NonceHeader { next_header: ICMPV6, nonce, sequence }.emit();
    payload.extend(message);
    ip6(pair, DESTINATION_OPTIONS, &payload)
}

/// An Echo Request in the name of `pair.local`.
pub(crate) fn echo_request(pair: IlvPair) -> Vec<u8> {
    let mut message = [128, 0, 0, 0, 0x5e, 0xed, 0, 1];
    fill_icmp_checksum(&mut message, pair.local.address(), pair.remote.address());
    ip6(pair, ICMPV6, &message)
}

/// A packet with the ports of a connection, guessed numbers and a wrong checksum.
pub(crate) fn guessed_packet(
    pair: IlvPair,
    protocol: u8,
    ports: (u16, u16),
    rng: &mut Rng,
) -> Vec<u8> {
    let numbers = Numbers { number: rng.below(1 << 32), next: rng.below(1 << 32), label: 0 };
    let mut packet = packet(pair, protocol, ports, numbers, 0);
    if let Some(last) = packet.last_mut() {
        *last ^= 0x80;
    }
    packet
}

/// Whether a packet is a Locator Update that an attacker can repeat.
pub(crate) fn is_locator_update(packet: &[u8]) -> bool {
    let Some((_, DESTINATION_OPTIONS, rest)) = read(packet) else { return false };
    let Ok(options) = OptionsHeader::parse(rest) else { return false };
    options.next_header == ICMPV6 && rest.get(options.len) == Some(&156)
}

/// The nonce of a namesake.
const NAMESAKE: [u8; 4] = *b"evil";

fn guessed(rng: &mut Rng) -> Nonce {
    let [.., a, b, c, d] = rng.below(u64::MAX).to_be_bytes();
    Nonce::Short([a, b, c, d])
}
