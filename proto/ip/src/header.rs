//! The whole IPv6 header, for a host (RFC 8200 s3).

use core::net::Ipv6Addr;

use crate::Malformed;
use crate::reader::Reader;

/// The IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Traffic Class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow Label, 20 bits.
    pub flow_label: u32,
    /// Payload Length: octets behind the header.
    pub payload_len: u16,
    /// Next Header.
    pub next_header: u8,
    /// Hop Limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Header {
    /// Creates a header without traffic class and flow label.
    #[inline]
    #[must_use]
    pub const fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: u8,
        hop_limit: u8,
        payload_len: u16,
    ) -> Self {
        Self {
            traffic_class: 0,
            flow_label: 0,
            payload_len,
            next_header,
            hop_limit,
            source,
            destination,
        }
    }

    /// Reads the header at the start of a packet. Octets behind the payload, such as padding of the link, are no error.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], also if the payload is shorter than its length; [`Malformed::Version`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(packet);
        let word = reader.u32()?;
        if word >> 28 != 6 {
            return Err(Malformed::Version);
        }
        let [payload_len, rest] = [reader.u16()?, reader.u16()?];
        let [next_header, hop_limit] = rest.to_be_bytes();
        let header = Self {
            traffic_class: u8::try_from(word >> 20 & 0xff).unwrap_or_default(),
            flow_label: word & FLOW_LABEL,
            payload_len,
            next_header,
            hop_limit,
            source: reader.address()?,
            destination: reader.address()?,
        };
        reader.octets(payload_len.into())?;
        Ok(header)
    }

    /// The octets of the header.
    #[inline]
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL;
        let mut octets = [0; LEN];
        octets[..4].copy_from_slice(&word.to_be_bytes());
        octets[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        octets[6] = self.next_header;
        octets[7] = self.hop_limit;
        octets[8..24].copy_from_slice(&self.source.octets());
        octets[24..].copy_from_slice(&self.destination.octets());
        octets
    }

    /// Octets of the packet: header and payload.
    #[inline]
    #[must_use]
    pub fn packet_len(&self) -> usize {
        LEN + usize::from(self.payload_len)
    }
}

/// Octets of the header.
pub const LEN: usize = 40;
/// Next Header value in front of nothing (RFC 8200 s4.7).
pub const NO_NEXT_HEADER: u8 = 59;
const FLOW_LABEL: u32 = 0x000f_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_header_round_trips() {
        let header = Header {
            traffic_class: 0xa5,
            flow_label: 0x000b_cdef,
            payload_len: 3,
            next_header: 17,
            hop_limit: 61,
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::from_bits(7 << 120),
        };
        let mut packet = Vec::from(header.octets());
        assert_eq!(packet[..8], [0x6a, 0x5b, 0xcd, 0xef, 0, 3, 17, 61]);
        packet.extend([1, 2, 3]);
        assert_eq!(Header::parse(&packet), Ok(header));
        packet.push(0);
        assert_eq!(Header::parse(&packet), Ok(header), "padding of the link");
        for len in 0..43 {
            assert_eq!(Header::parse(&packet[..len]), Err(Malformed::Truncated), "{len}");
        }
        packet[0] = 0x45;
        assert_eq!(Header::parse(&packet), Err(Malformed::Version));
    }
}
