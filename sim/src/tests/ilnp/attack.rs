use moorline_types::{Ilv, IlvPair, L64, Nid, Nonce};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    ChecksumDelta, L64Entry, LocatorUpdate, NonceHeader, Operation, OptionsHeader,
    transport_checksum,
};

use super::host::DESTINATION_OPTIONS;
use super::sockets::{Numbers, ip6, packet, read};
use crate::packet::{ICMPV6, TCP, UDP};
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

/// A SYN to a port where the kernels listen.
pub(crate) fn syn(pair: IlvPair, rng: &mut Rng) -> Vec<u8> {
    let [.., a, b] = rng.below(1 << 16).to_be_bytes();
    without_data(pair, [[a, b], LISTENS], SYN)
}

/// The answer of a kernel that listens (RFC 9293 s3.5).
pub(crate) fn syn_ack(packet: &[u8]) -> Option<Vec<u8>> {
    let (pair, TCP, upper) = read(packet)? else { return None };
    let ([a, b, c, d, ..], Some(&SYN)) = (upper, upper.get(13)) else { return None };
    ([*c, *d] == LISTENS).then(|| without_data(pair.reversed(), [LISTENS, [*a, *b]], SYN | ACK))
}

/// A segment without data, with a wrong checksum: no socket of a plan takes it.
fn without_data(pair: IlvPair, ports: [[u8; 2]; 2], flags: u8) -> Vec<u8> {
    let rest = [0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    let mut segment = [ports.as_flattened(), &rest].concat();
    let sum = transport_checksum(pair.local, pair.remote, TCP, &segment) ^ 1;
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    ip6(pair, TCP, &segment)
}

/// Whether a packet is a Locator Update that an attacker can repeat.
pub(crate) fn is_locator_update(packet: &[u8]) -> bool {
    let Some((_, DESTINATION_OPTIONS, rest)) = read(packet) else { return false };
    let Ok(options) = OptionsHeader::parse(rest) else { return false };
    options.next_header == ICMPV6 && rest.get(options.len) == Some(&156)
}

/// The port where the kernels listen, 443.
const LISTENS: [u8; 2] = [1, 187];
const SYN: u8 = 2;
const ACK: u8 = 16;
/// The nonce of a namesake.
const NAMESAKE: [u8; 4] = *b"evil";

fn guessed(rng: &mut Rng) -> Nonce {
    let [.., a, b, c, d] = rng.below(u64::MAX).to_be_bytes();
    Nonce::Short([a, b, c, d])
}
