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
    let words =
        message.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !u16::try_from(sum).unwrap_or_default();
    message[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
}

/// An I1 (RFC 5533 s5.4) without options.
pub(super) fn i1(nonce: u32) -> Vec<u8> {
    control(I1, &[&tag_of(nonce)[..], &nonce.to_be_bytes()].concat())
}

/// The I2 (RFC 5533 s5.6) that answers an R1, with the Responder Validator as its only option.
pub(super) fn i2(r1: &R1) -> Vec<u8> {
    let tag = tag_of(r1.initiator_nonce);
    let (nonce, responder_nonce) =
        (r1.initiator_nonce.to_be_bytes(), r1.responder_nonce.to_be_bytes());
    control(I2, &[&tag[..], &nonce, &responder_nonce, &[0; 4], &r1.validator].concat())
}

/// An R1bis (RFC 5533 s5.8) with a made-up validator.
pub(super) fn r1bis(nonce: u32) -> Vec<u8> {
    let validator = [&[0, RESPONDER_VALIDATOR_AND_CRITICAL, 0, 16][..], &[7; 16], &[0; 4]].concat();
    control(R1BIS, &[&tag_of(nonce)[..], &nonce.to_be_bytes(), &validator].concat())
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
    let mixed = u64::from(nonce).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [mixed[0] & 0x7f, mixed[1], mixed[2], mixed[3], mixed[4], mixed[5]]
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

/// The protocol of Shim6 (RFC 5533 s5).
pub(super) const SHIM6: u8 = 140;
/// No Next Header (RFC 8200 s4.7): the receiver ignores the octets behind the header.
pub(super) const NO_NEXT_HEADER: u8 = 59;
pub(super) const DESTINATION_OPTIONS: u8 = 60;
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
const RESPONDER_VALIDATOR: u16 = 1;
/// Second octet of the option's type field: the type, and a critical bit of zero.
const RESPONDER_VALIDATOR_AND_CRITICAL: u8 = 2;
const NONCE: u8 = 0x8b;
const CHECKSUM_AT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_parser_takes_the_messages() {
        use moorline_wire::{Message, Packet};
        let [from, to] = ["a", "b"].map(|host| crate::topology::host_address(host, 1));
        let i1 = i1(7);
        let parsed = Packet::parse(&i1, from, to).unwrap();
        assert_eq!((parsed.initiator_nonce(), i1.len()), (Some(7), 16));
        assert!(matches!(parsed.message(), Ok(Message::I1(_))));
        let validator = vec![0, 2, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0];
        let r1 = R1 { initiator_nonce: 7, responder_nonce: 9, validator };
        let i2 = i2(&r1);
        let parsed = Packet::parse(&i2, from, to).unwrap();
        assert_eq!((parsed.initiator_nonce(), parsed.responder_nonce()), (Some(7), Some(9)));
        assert!(matches!(parsed.message(), Ok(Message::I2(_))));
        let r1bis = r1bis(7);
        let parsed = Packet::parse(&r1bis, from, to).unwrap();
        let Ok(Message::R1bis(r1bis)) = parsed.message() else { panic!("{parsed:?}") };
        assert_eq!((r1bis.responder_nonce, r1bis.options.validator()), (7, Some(&[7; 16][..])));
        let options =
            moorline_wire::ilnp::OptionsHeader::parse(&nonce_header(0x0102_0304)).unwrap();
        assert_eq!(options.nonce, Some(moorline_types::Nonce::Short([1, 2, 3, 4])));
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
