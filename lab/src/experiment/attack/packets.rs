//! Packets of attackers, written from the octets in the RFCs: a fault in the wire crate cannot hide here.

/// A control message of Shim6 (RFC 5533 s5.3). `body` is what stands behind the checksum. The message is padded to a
/// multiple of 8 octets.
pub(super) fn control(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![NO_NEXT_HEADER, 0, kind, 0, 0, 0];
    message.extend(body);
    message.resize(message.len().next_multiple_of(8), 0);
    message[1] = u8::try_from(message.len() / 8 - 1).unwrap_or(u8::MAX);
    seal(&mut message);
    message
}

/// Writes the checksum of a control message: the sum covers the message alone, without a pseudo-header (RFC 5533 s5.3).
pub(super) fn seal(message: &mut [u8]) {
    message[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
    let sum = complement(sum(message));
    message[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum);
}

/// Sum of the words of 16 bits. The number of octets is even.
fn sum(octets: &[u8]) -> u32 {
    octets.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

/// The checksum field for a sum of words.
fn complement(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap_or_default()).to_be_bytes()
}

/// An I1 (RFC 5533 s5.4) without options.
pub(super) fn i1(nonce: u32) -> Vec<u8> {
    control(I1, &[&tag_of(nonce)[..], &nonce.to_be_bytes()].concat())
}

/// An I1 of another forked instance for each nonce.
pub(super) fn forked_i1(nonce: u32) -> Vec<u8> {
    control(I1, &[&tag_of(nonce)[..], &nonce.to_be_bytes(), &instance(nonce)].concat())
}

/// The Forked Instance Identifier option (RFC 5533 s5.15.7).
fn instance(number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_be_bytes();
    [0, FORKED_INSTANCE << 1, 0, 4, a, b, c, d]
}

/// The I2 (RFC 5533 s5.6) that answers an R1, with the Responder Validator as its only option. If `is_forked`, the R1
/// answers a [`forked_i1`], and the I2 has its instance.
pub(super) fn i2(r1: &R1, is_forked: bool) -> Vec<u8> {
    let tag = tag_of(r1.initiator_nonce);
    let (nonce, responder_nonce) =
        (r1.initiator_nonce.to_be_bytes(), r1.responder_nonce.to_be_bytes());
    let fork = if is_forked { &instance(r1.initiator_nonce)[..] } else { &[] };
    control(I2, &[&tag[..], &nonce, &responder_nonce, &[0; 4], &r1.validator, fork].concat())
}

/// An R1bis (RFC 5533 s5.8) with a made-up validator.
pub(super) fn r1bis(nonce: u32) -> Vec<u8> {
    let validator = [&[0, RESPONDER_VALIDATOR_AND_CRITICAL, 0, 16][..], &[7; 16], &[0; 4]].concat();
    control(R1BIS, &[&tag_of(nonce)[..], &nonce.to_be_bytes(), &validator].concat())
}

/// A keepalive (RFC 5534 s5.1) for a made-up tag.
pub(super) fn keepalive(number: u32) -> Vec<u8> {
    control(KEEPALIVE, &[&tag_of(number)[..], &[0; 4]].concat())
}

/// An Error message (RFC 5533 s5.14), code 0, about a keepalive with a made-up tag from `ends[0]` to `ends[1]`.
pub(super) fn error(number: u32, ends: [[u8; 16]; 2]) -> Vec<u8> {
    let keepalive = keepalive(number);
    let length = u8::try_from(keepalive.len()).unwrap_or(u8::MAX);
    let header = [0x60, 0, 0, 0, 0, length, SHIM6, 64];
    let pointer = [0, IP6_LEN + 2];
    control(ERROR, &[&pointer[..], &header, &ends[0], &ends[1], &keepalive].concat())
}

/// The fields of an R1 (RFC 5533 s5.5) that its I2 needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct R1 {
    initiator_nonce: u32,
    responder_nonce: u32,
    /// The Responder Validator option, with its type, length and padding.
    validator: Vec<u8>,
}

impl R1 {
    /// Reads an R1. `None` for another message, or for an R1 without a validator.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*message.get(at..)?.first_chunk()?));
        if *message.get(2)? != R1 {
            return None;
        }
        let (initiator_nonce, responder_nonce) = (word(8)?, word(12)?);
        let mut options = message.get(16..)?;
        // RFC 5533 s5.15: 15 bits of type, the critical bit, the length of the contents, contents, padding.
        while let Some([kind, kind_and_critical, high, low]) = options.first_chunk() {
            let contents = usize::from(u16::from_be_bytes([*high, *low]));
            let (option, others) = options.split_at_checked((4 + contents).next_multiple_of(8))?;
            if u16::from_be_bytes([*kind, *kind_and_critical]) >> 1 == RESPONDER_VALIDATOR {
                return Some(Self { initiator_nonce, responder_nonce, validator: option.to_vec() });
            }
            options = others;
        }
        None
    }
}

/// The 47 bits of a context tag, behind a reserved bit. The tag follows from the nonce, so that I1 and I2 have the same.
pub(super) fn tag_of(nonce: u32) -> [u8; 6] {
    let mixed = mix(nonce).to_be_bytes();
    [mixed[0] & 0x7f, mixed[1], mixed[2], mixed[3], mixed[4], mixed[5]]
}

/// Octets that look random. Equal numbers give equal octets.
fn mix(number: u32) -> u64 {
    u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A payload header (RFC 5533 s5.1) without payload.
pub(super) fn payload_header(number: u32) -> [u8; 8] {
    let [first, rest @ ..] = tag_of(number);
    let [a, b, c, d, e] = rest;
    [NO_NEXT_HEADER, 0, P | first, a, b, c, d, e]
}

/// A Destination Options header (RFC 8200 s4.6) with a Nonce option of 32 bits (RFC 6744 s2), and no payload.
pub(super) fn nonce_header(nonce: u32) -> [u8; 8] {
    let [a, b, c, d] = nonce.to_be_bytes();
    [NO_NEXT_HEADER, 0, NONCE, 4, a, b, c, d]
}

/// A Destination Options header with a Nonce option and the number of the Locator Update behind it (decision 072).
pub(super) fn numbered_nonce_header(nonce: &[u8], number: u32) -> Vec<u8> {
    let length = u8::try_from(nonce.len()).unwrap_or(u8::MAX);
    let units = (length + 12) / 8 - 1;
    let sequence = [0x1e, 6, b'M', b'L'];
    [&[ICMPV6, units, NONCE, length][..], nonce, &sequence, &number.to_be_bytes()].concat()
}

/// A Locator Update Advertisement (RFC 6743 s2) without its checksum. The preferences are in the order of the locators.
pub(super) fn locator_update(locators: &[[u8; 8]]) -> Vec<u8> {
    let count = u8::try_from(locators.len()).unwrap_or(u8::MAX);
    let mut message = vec![LOCATOR_UPDATE, 0, 0, 0, count, ADVERTISEMENT, 0, 0];
    for (preference, locator) in (0_u16..).zip(locators) {
        message.extend(locator);
        message.extend(preference.to_be_bytes());
        message.extend(LIFETIME_S.to_be_bytes());
    }
    message
}

/// An acknowledgement of TCP (RFC 9293 s3.1) without payload and without its checksum.
pub(super) fn segment([from, to]: [u16; 2], number: u32) -> Vec<u8> {
    let mixed = mix(number).to_be_bytes();
    let (offset, ack, window) = (5 << 4, 1 << 4, [0x10, 0]);
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &mixed, &[offset, ack], &window, &[0; 4]].concat()
}

/// A datagram of UDP to the echo service, with so many octets behind the IPv6 header, without its checksum.
pub(super) fn datagram_to_echo(octets: u16) -> Vec<u8> {
    let ports = [STRANGERS_PORT, ECHO].map(u16::to_be_bytes).concat();
    let mut datagram = [&ports[..], &octets.to_be_bytes(), &[0; 2]].concat();
    datagram.resize(octets.into(), 0);
    datagram
}

/// A Router Advertisement (RFC 4861 s4.2) without its checksum. Hosts make addresses in its prefix, and use the router
/// as a default router if `is_default`.
pub(super) fn router_advertisement(prefix: [u8; 8], is_default: bool) -> Vec<u8> {
    let lifetime = LIFETIME_S.to_be_bytes();
    let of_router = if is_default { lifetime } else { [0; 2] };
    let header = [&[ROUTER_ADVERTISEMENT, 0, 0, 0, 64, 0][..], &of_router, &[0; 8]].concat();
    let times = [0, 0, lifetime[0], lifetime[1]];
    // RFC 4861 s4.6.2: on-link and autonomous.
    let option = [&[3, 4, 64, 0xc0][..], &times, &times, &[0; 4], &prefix, &[0; 8]].concat();
    [header, option].concat()
}

/// Writes the checksum of an upper layer of an IPv6 packet (RFC 8200 s8.1): the layer begins at `at`, its checksum is
/// `checksum_at` behind that. The number of octets is even.
pub(super) fn seal_upper(packet: &mut [u8], protocol: u8, at: usize, checksum_at: usize) {
    let checksum_at = at + checksum_at;
    packet[checksum_at..checksum_at + 2].fill(0);
    let length = u32::try_from(packet.len() - at).unwrap_or_default();
    let pseudo_header = sum(&packet[SOURCE_AT..IP6_LEN.into()]) + length + u32::from(protocol);
    let sum = complement(pseudo_header + sum(&packet[at..]));
    packet[checksum_at..checksum_at + 2].copy_from_slice(&sum);
}

/// The protocol of Shim6 (RFC 5533 s5).
pub(super) const SHIM6: u8 = 140;
/// No Next Header (RFC 8200 s4.7): the receiver ignores the octets behind the header.
pub(super) const NO_NEXT_HEADER: u8 = 59;
pub(super) const DESTINATION_OPTIONS: u8 = 60;
pub(super) const ICMPV6: u8 = 58;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// Offsets of the checksums in ICMPv6, TCP and UDP.
pub(super) const OF_ICMPV6: usize = 2;
pub(super) const OF_TCP: usize = 16;
pub(super) const OF_UDP: usize = 6;
/// The echo service (RFC 862).
pub(super) const ECHO: u16 = 7;
/// First of the types that trigger an R1bis (RFC 5533 s5.3).
pub(super) const FIRST_OF_CONTEXTS: u8 = 64;
/// Offset of the context tag in messages of these types (RFC 5533 s5.10 to s5.12).
pub(super) const TAG_AT: usize = 6;
pub(super) const TYPE_AT: usize = 2;
/// A Destination Options header with padding alone, in front of a message of Shim6.
pub(super) const PADDING_TO_SHIM6: [u8; 8] = [SHIM6, 0, 1, 4, 0, 0, 0, 0];
/// The bit in front of a context tag that tells payload from control messages.
const P: u8 = 0x80;
const I1: u8 = 1;
const R1: u8 = 2;
const I2: u8 = 3;
const R1BIS: u8 = 5;
const KEEPALIVE: u8 = 66;
const ERROR: u8 = 68;
const FORKED_INSTANCE: u8 = 7;
const RESPONDER_VALIDATOR: u16 = 1;
/// Second octet of the option's type field: the type, and a critical bit of zero.
const RESPONDER_VALIDATOR_AND_CRITICAL: u8 = 2;
const NONCE: u8 = 0x8b;
const CHECKSUM_AT: usize = 4;
const LOCATOR_UPDATE: u8 = 156;
const ADVERTISEMENT: u8 = 1;
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Lifetime of locators, routers and prefixes.
const LIFETIME_S: u16 = 1800;
const STRANGERS_PORT: u16 = 4000;
const IP6_LEN: u8 = 40;
/// Offset of the source address in an IPv6 header.
const SOURCE_AT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_parser_takes_the_messages() {
        use moorline_wire::{Message, Opt, Packet};
        let [from, to] = ["a", "b"].map(|host| crate::topology::host_address(host, 1));
        let i1 = i1(7);
        let parsed = Packet::parse(&i1, from, to).unwrap();
        assert_eq!((parsed.initiator_nonce(), i1.len()), (Some(7), 16));
        assert!(matches!(parsed.message(), Ok(Message::I1(_))));
        let validator = vec![0, 2, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0];
        let r1 = R1 { initiator_nonce: 7, responder_nonce: 9, validator };
        let i2 = i2(&r1, false);
        let parsed = Packet::parse(&i2, from, to).unwrap();
        assert_eq!((parsed.initiator_nonce(), parsed.responder_nonce()), (Some(7), Some(9)));
        assert!(matches!(parsed.message(), Ok(Message::I2(_))));
        let i2 = super::i2(&r1, true);
        let Ok(Message::I2(i2)) = Packet::parse(&i2, from, to).unwrap().message() else { panic!() };
        assert!(i2.options.iter().any(|option| *option == Opt::ForkedInstance(7)));
        let Ok(Message::I1(i1)) = Packet::parse(&forked_i1(7), from, to).unwrap().message() else {
            panic!()
        };
        assert!(i1.options.iter().any(|option| *option == Opt::ForkedInstance(7)));
        let r1bis = r1bis(7);
        let parsed = Packet::parse(&r1bis, from, to).unwrap();
        let Ok(Message::R1bis(r1bis)) = parsed.message() else { panic!("{parsed:?}") };
        assert_eq!((r1bis.responder_nonce, r1bis.options.validator()), (7, Some(&[7; 16][..])));
        let options =
            moorline_wire::ilnp::OptionsHeader::parse(&nonce_header(0x0102_0304)).unwrap();
        assert_eq!(options.nonce, Some(moorline_types::Nonce::Short([1, 2, 3, 4])));
    }

    #[test]
    fn the_daemons_parser_takes_messages_of_a_context() {
        use moorline_wire::{Message, Packet};
        let [from, to] = ["a", "b"].map(|host| crate::topology::host_address(host, 1));
        let keepalive = keepalive(7);
        let parsed = Packet::parse(&keepalive, from, to).unwrap();
        assert!(matches!(parsed.message(), Ok(Message::Keepalive(_))), "{parsed:?}");
        let error = error(7, [to, from].map(|address| address.octets()));
        let parsed = Packet::parse(&error, from, to).unwrap();
        let Ok(Message::Error(error)) = parsed.message() else { panic!("{parsed:?}") };
        assert_eq!((error.packet[6], &error.packet[40..56]), (SHIM6, &keepalive[..]));
    }

    #[test]
    fn the_daemons_parser_takes_a_locator_update() {
        use moorline_wire::ilnp::{LocatorUpdate, Operation, OptionsHeader};
        let [from, to] = ["a", "b"].map(|host| crate::topology::host_address(host, 1));
        let options = OptionsHeader::parse(&numbered_nonce_header(&[1, 2, 3, 4], 9)).unwrap();
        let nonce = Some(moorline_types::Nonce::Short([1, 2, 3, 4]));
        assert_eq!((options.nonce, options.sequence, options.len), (nonce, Some(9), 16));
        let update = locator_update(&[[7; 8], [8; 8]]);
        let mut packet = moorline_wire::ip6::packet(ICMPV6, from, to, &update);
        seal_upper(&mut packet, ICMPV6, 40, OF_ICMPV6);
        let update = LocatorUpdate::parse(&packet[40..], from, to).unwrap();
        assert_eq!((update.operation, update.locators.len()), (Operation::ADVERTISEMENT, 2));
        assert_eq!((update.locators[1].preference, update.locators[1].l64.0 & 0xff), (1, 8));
    }

    #[test]
    fn an_r1_gives_its_validator_behind_another_option() {
        let (other, validator) = ([0, 99, 0, 1, 5, 0, 0, 0], [0, 2, 0, 3, 7, 8, 9, 0]);
        let body = [&[0, 0][..], &[0, 0, 0, 1], &[0, 0, 0, 2], &other, &validator].concat();
        let r1 = R1::parse(&control(2, &body)).unwrap();
        let expected = R1 { initiator_nonce: 1, responder_nonce: 2, validator: validator.into() };
        assert_eq!(r1, expected);
        assert_eq!(R1::parse(&control(1, &body)), None, "an I1");
        assert_eq!(R1::parse(&control(2, &body[..18])), None, "without a validator");
        assert_eq!(R1::parse(&[]), None);
    }
}
