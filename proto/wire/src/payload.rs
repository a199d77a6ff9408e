use crate::consts::PAYLOAD_HEADER_LEN;
use moorline_types::{ContextTag, DropReason};

/// Payload extension header, in front of an upper-layer packet whose addresses are not the ULIDs (RFC 5533 s5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHeader {
    /// Protocol number of the header behind this one.
    pub next_header: u8,
    /// Tag that the receiver has allocated for the context.
    pub tag: ContextTag,
}

impl PayloadHeader {
    /// Reads the header at the start of `octets`. The upper layer begins behind it.
    ///
    /// # Errors
    /// [`DropReason::Truncated`]; [`DropReason::BadFormat`] if the P bit is clear (a control message);
    /// [`DropReason::BadLength`] if Hdr Ext Len is not zero.
    //= rfc5533#5.2
    pub fn parse(octets: &[u8]) -> Result<Self, DropReason> {
        let &[next_header, ext_len, tag @ ..] =
            octets.first_chunk::<PAYLOAD_HEADER_LEN>().ok_or(DropReason::Truncated)?;
        if tag[0] & P_BIT == 0 {
            return Err(DropReason::BadFormat);
        }
        if ext_len != 0 {
            return Err(DropReason::BadLength);
        }
        Ok(Self { next_header, tag: ContextTag::from_octets(tag) })
    }

    /// The 8 octets of the header.
    #[must_use]
    pub const fn emit(self) -> [u8; PAYLOAD_HEADER_LEN] {
        let [a, b, c, d, e, f] = self.tag.octets();
        [self.next_header, 0, a | P_BIT, b, c, d, e, f]
    }

    /// Whether the Shim6 header at the start of `octets` has the P bit. Then it is a payload header, otherwise a
    /// control message.
    #[must_use]
    pub fn is_payload(octets: &[u8]) -> bool {
        octets.get(2).is_some_and(|octet| octet & P_BIT != 0)
    }
}

const P_BIT: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [u8; 8] = [6, 0, 0xe0, 0xbd, 0x47, 0xf6, 0x09, 0x2d];

    //= rfc5533#5.2 (test)
    #[test]
    fn golden_both_ways() {
        let header = PayloadHeader { next_header: 6, tag: ContextTag::from_bits(0x60bd_47f6_092d) };
        assert_eq!(header.emit(), GOLDEN);
        assert_eq!(PayloadHeader::parse(&GOLDEN), Ok(header));
    }

    #[test]
    fn extreme_tags_keep_all_47_bits() {
        for bits in [0, 1, ContextTag::MASK, 1 << 46] {
            let header = PayloadHeader { next_header: 17, tag: ContextTag::from_bits(bits) };
            assert_eq!(PayloadHeader::parse(&header.emit()).map(|h| h.tag.bits()), Ok(bits));
        }
    }

    #[test]
    fn what_is_no_payload_header_is_refused() {
        for len in 0..PAYLOAD_HEADER_LEN {
            assert_eq!(PayloadHeader::parse(&GOLDEN[..len]), Err(DropReason::Truncated));
        }
        let control = [59, 0, 0x40, 0, 0, 0, 0, 0];
        assert_eq!(PayloadHeader::parse(&control), Err(DropReason::BadFormat));
        assert!(!PayloadHeader::is_payload(&control) && PayloadHeader::is_payload(&GOLDEN));
        let long = [6, 1, 0xe0, 0, 0, 0, 0, 0];
        assert_eq!(PayloadHeader::parse(&long), Err(DropReason::BadLength));
    }
}
