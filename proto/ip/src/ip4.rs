//! The IPv4 header (RFC 791 s3.1), and its options.

use core::net::Ipv4Addr;

use crate::reader::Reader;
use crate::{Malformed, checksum};

/// The IPv4 header without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip4 {
    /// Type of Service: DSCP (RFC 2474) and ECN (RFC 3168).
    pub tos: u8,
    /// Octets of the header with its options: 20 to 60.
    pub header_len: u8,
    /// Octets of the packet.
    pub total_len: u16,
    /// Identification, which the fragments of a datagram share.
    pub identification: u16,
    /// Whether routers may not fragment the packet.
    pub dont_fragment: bool,
    /// Whether more fragments of the datagram follow.
    pub more_fragments: bool,
    /// Offset of the fragment in the datagram, in octets.
    pub offset: u16,
    /// Time to Live.
    pub ttl: u8,
    /// Protocol of the upper layer.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ip4 {
    /// Reads the header at the start of a packet, and checks its checksum. Octets behind the packet, such as padding of
    /// the link, are no error.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], also if the packet is shorter than its length; [`Malformed::Version`];
    /// [`Malformed::Length`] if the header is shorter than 20 octets or longer than the packet; [`Malformed::Checksum`].
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let header = Self::read(packet)?;
        if header.total_len < header.header_len.into() {
            return Err(Malformed::Length);
        }
        if packet.len() < header.total_len.into() {
            return Err(Malformed::Truncated);
        }
        // RFC 1122 s3.2.1.2: "A host MUST verify the IP header checksum on every received datagram".
        let octets = packet.get(..header.header_len.into()).ok_or(Malformed::Truncated)?;
        if checksum(octets) != 0 { Err(Malformed::Checksum) } else { Ok(header) }
    }

    /// Reads the header of a packet that an ICMP error quotes: the packet may be cut behind its header. Does not check the
    /// checksum, because some routers change the header before they quote it.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::Version`]; [`Malformed::Length`] if the header is shorter than 20 octets.
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(packet);
        let [version, tos] = reader.array()?;
        let [total_len, identification, flags] = [reader.u16()?, reader.u16()?, reader.u16()?];
        let [ttl, protocol, _, _] = reader.array()?;
        let [source, destination] = [reader.array::<4>()?, reader.array()?].map(Ipv4Addr::from);
        let header_len = (version & 0x0f) * 4;
        if version >> 4 != 4 {
            return Err(Malformed::Version);
        }
        if usize::from(header_len) < LEN {
            return Err(Malformed::Length);
        }
        if packet.len() < header_len.into() {
            return Err(Malformed::Truncated);
        }
        Ok(Self {
            tos,
            header_len,
            total_len,
            identification,
            dont_fragment: flags & DONT_FRAGMENT != 0,
            more_fragments: flags & MORE_FRAGMENTS != 0,
            offset: flags << 3,
            ttl,
            protocol,
            source,
            destination,
        })
    }

    /// Whether the packet is a part of a datagram.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.offset > 0
    }

    /// The octets of the header without options, with its checksum. The length field of the header counts 20 octets, whatever
    /// `header_len` is.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let df = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let mf = if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let [len, id, flags] =
            [self.total_len, self.identification, df | mf | self.offset >> 3].map(u16::to_be_bytes);
        let mut octets = [0; LEN];
        octets[..2].copy_from_slice(&[0x45, self.tos]);
        octets[2..8].copy_from_slice([len, id, flags].as_flattened());
        octets[8..10].copy_from_slice(&[self.ttl, self.protocol]);
        octets[12..16].copy_from_slice(&self.source.octets());
        octets[16..].copy_from_slice(&self.destination.octets());
        let sum = checksum(&octets).to_be_bytes();
        octets[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum);
        octets
    }

    /// The options of a packet with this header.
    #[must_use]
    pub fn options<'a>(&self, packet: &'a [u8]) -> Options<'a> {
        let octets = packet.get(LEN..self.header_len.into()).unwrap_or_default();
        Options { octets, at: LEN }
    }
}

/// Iterator over the kinds of the options of a header. The end of the list and the padding between options do not count. An error is the
/// offset, in the packet, of a length that is wrong; no option follows it.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    octets: &'a [u8],
    at: usize,
}

impl Iterator for Options<'_> {
    type Item = Result<u8, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (kind, skipped) = match *self.octets {
                [] | [END, ..] => return None,
                [NO_OPERATION, ..] => (None, Some(1)),
                [kind, len, ..] => (Some(kind), Some(usize::from(len)).filter(|len| *len >= 2)),
                [kind] => (Some(kind), None),
            };
            let rest = skipped.and_then(|len| self.octets.get(len..));
            let at = self.at;
            self.octets = rest.unwrap_or_default();
            self.at += skipped.unwrap_or_default();
            match (kind, rest) {
                (Some(kind), Some(_)) => return Some(Ok(kind)),
                (Some(_), None) => return Some(Err(at + 1)),
                (None, _) => {}
            }
        }
    }
}

/// Octets of the header without options.
pub const LEN: usize = 20;
/// Octets of a datagram that each host takes, also in fragments (RFC 791 s3.1).
pub const MIN_REASSEMBLY: u16 = 576;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Option: loose source route.
pub const LOOSE_SOURCE_ROUTE: u8 = 131;
/// Option: strict source route.
pub const STRICT_SOURCE_ROUTE: u8 = 137;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const CHECKSUM_AT: usize = 10;

#[cfg(test)]
mod tests;
