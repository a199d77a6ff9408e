//! UDP (RFC 768, RFC 8200 s8.1).
//!
//! Datagrams over IPv4 have v4-mapped addresses here. Their checksum is the one of IPv4: both pseudo-headers have equal sums.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::ip6::UDP;
use crate::reader::Reader;
use crate::{Malformed, upper_layer_checksum};

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram and checks its checksum. Octets behind the length of the datagram are ignored.
    ///
    /// # Errors
    /// [`Malformed::Length`] if the length is shorter than the header or longer than the octets;
    /// [`Malformed::Checksum`] if the checksum is wrong, or zero over IPv6 (RFC 8200 s8.1).
    //= rfc8200#8.1-4
    #[inline]
    pub fn parse(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        octets: &'a [u8],
    ) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let [source_port, destination_port] = [reader.u16()?, reader.u16()?];
        let [len, sum] = [reader.u16()?, reader.u16()?];
        let datagram = octets.get(..len.into()).ok_or(Malformed::Length)?;
        let payload = datagram.get(LEN..).ok_or(Malformed::Length)?;
        // RFC 768: zero "means that the transmitter generated no checksum". RFC 8200 s8.1: "IPv6 receivers must discard UDP
        // packets containing a zero checksum".
        let has_none = sum == 0 && source.to_ipv4_mapped().is_some();
        let is_wrong = || sum == 0 || upper_layer_checksum(source, destination, UDP, datagram) != 0;
        if !has_none && is_wrong() {
            return Err(Malformed::Checksum);
        }
        Ok(Self { source_port, destination_port, payload })
    }

    /// Appends the datagram to `out`, with its checksum.
    ///
    /// # Errors
    /// [`Malformed::Length`] if the payload has more than [`MAX_PAYLOAD`] octets; then nothing is appended.
    //= rfc8200#8.1-2 rfc8200#8.1-3
    pub fn emit(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let len = u16::try_from(LEN + self.payload.len()).map_err(|_| Malformed::Length)?;
        let start = out.len();
        for field in [self.source_port, self.destination_port, len, 0] {
            out.extend(field.to_be_bytes());
        }
        out.extend_from_slice(self.payload);
        // RFC 8200 s8.1: a checksum of zero is sent as all ones.
        let sum = match upper_layer_checksum(source, destination, UDP, &out[start..]) {
            0 => u16::MAX,
            sum => sum,
        };
        out[start + CHECKSUM_AT..start + LEN].copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }
}

/// Octets of the header.
pub const LEN: usize = 8;
/// Largest number of octets of the payload.
pub const MAX_PAYLOAD: usize = u16::MAX as usize - LEN;
const CHECKSUM_AT: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::net::Ipv4Addr;

    const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

    fn datagram() -> Vec<u8> {
        let mut out = Vec::new();
        let datagram = Datagram { source_port: 1, destination_port: 2, payload: b"abc" };
        datagram.emit(A, B, &mut out).expect("datagram");
        out
    }

    //= rfc8200#8.1-2 (test)
    #[test]
    fn a_datagram_round_trips_and_padding_is_ignored() {
        let mut octets = datagram();
        octets.extend([0; 5]);
        let read = Datagram::parse(A, B, &octets).expect("datagram");
        assert_eq!((read.source_port, read.destination_port, read.payload), (1, 2, &b"abc"[..]));
    }

    //= rfc8200#8.1-1 rfc8200#8.1-4 (test)
    #[test]
    fn wrong_lengths_and_checksums_are_refused() {
        let mut octets = datagram();
        assert_eq!(Datagram::parse(A, A, &octets), Err(Malformed::Checksum));
        assert_eq!(Datagram::parse(A, B, &octets[..10]), Err(Malformed::Length));
        assert_eq!(Datagram::parse(A, B, &octets[..7]), Err(Malformed::Truncated));
        octets[4..6].copy_from_slice(&[0, 7]);
        assert_eq!(Datagram::parse(A, B, &octets), Err(Malformed::Length));
        let mut octets = datagram();
        octets[6..8].fill(0);
        assert_eq!(Datagram::parse(A, B, &octets), Err(Malformed::Checksum));
        let large = vec![0; MAX_PAYLOAD + 1];
        let datagram = Datagram { source_port: 1, destination_port: 2, payload: &large };
        let mut out = Vec::new();
        assert_eq!(datagram.emit(A, B, &mut out), Err(Malformed::Length));
        assert!(out.is_empty());
    }

    #[test]
    fn over_ipv4_a_checksum_of_zero_is_none_and_others_are_those_of_ipv4() {
        let [a, b] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|it| Ipv4Addr::from(it).to_ipv6_mapped());
        let mut out = Vec::new();
        let datagram = Datagram { source_port: 1, destination_port: 2, payload: &[] };
        datagram.emit(a, b, &mut out).expect("datagram");
        // RFC 768, by hand: 0xc000 + 0x0201 + 0xc000 + 0x0202 + 17 + 8 + 1 + 2 + 8 = 0x1 8427, folded 0x8428.
        assert_eq!(out[6..8], [0x7b, 0xd7]);
        assert_eq!(Datagram::parse(a, b, &out), Ok(datagram));
        out[6..8].fill(0);
        assert_eq!(Datagram::parse(a, b, &out), Ok(datagram));
        out[7] = 1;
        assert_eq!(Datagram::parse(a, b, &out), Err(Malformed::Checksum));
    }

    //= rfc8200#8.1-3 (test)
    #[test]
    fn a_sum_of_zero_is_sent_as_ones() {
        let mut out = Vec::new();
        for filler in 0..=u16::MAX {
            out.clear();
            let payload = filler.to_be_bytes();
            let datagram = Datagram { source_port: 0, destination_port: 0, payload: &payload };
            datagram.emit(A, B, &mut out).expect("datagram");
            assert_ne!(out[6..8], [0, 0]);
            assert!(Datagram::parse(A, B, &out).is_ok(), "{filler}");
        }
    }
}
