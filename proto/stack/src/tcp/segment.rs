use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::ops::Add;

use moorline_ip::ip6::TCP;
use moorline_ip::{Header, PacketBuf, fill, upper_layer_checksum};

use crate::Drop;

/// Sequence number. Numbers are compared within half of their circle (RFC 9293 s3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Octets from `earlier` to this number.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this number comes before the other one.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) > u32::MAX / 2
    }

    /// The later of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, octets: u32) -> Self {
        Self(self.0.wrapping_add(octets))
    }
}

/// Control bits of a segment (RFC 9293 s3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all of these bits are set.
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These bits and those.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// These bits without those.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

/// A segment. Its urgent pointer is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: Seq,
    /// Acknowledgment number.
    pub acknowledgment: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Window, as the header has it.
    pub window: u16,
    /// Options with their padding.
    pub options: &'a [u8],
    /// Payload.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment. Does not check the checksum.
    ///
    /// # Errors
    /// [`Drop::Truncated`] if the header is longer than the octets; [`Drop::Malformed`] if it is too short for
    /// its fixed part, or if a port is zero.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Drop> {
        let (fixed, _) = octets.split_first_chunk::<HEADER_LEN>().ok_or(Drop::Truncated)?;
        let &[a, b, c, d, s0, s1, s2, s3, k0, k1, k2, k3, offset, flags, w0, w1, ..] = fixed;
        let header_len = usize::from(offset >> 4) * 4;
        let (header, payload) = octets.split_at_checked(header_len).ok_or(Drop::Truncated)?;
        let options = header.get(HEADER_LEN..).ok_or(Drop::Malformed)?;
        let [source_port, destination_port] = [[a, b], [c, d]].map(u16::from_be_bytes);
        if source_port == 0 || destination_port == 0 {
            return Err(Drop::Malformed);
        }
        Ok(Self {
            source_port,
            destination_port,
            sequence: Seq(u32::from_be_bytes([s0, s1, s2, s3])),
            acknowledgment: Seq(u32::from_be_bytes([k0, k1, k2, k3])),
            flags: Flags(flags),
            window: u16::from_be_bytes([w0, w1]),
            options,
            payload,
        })
    }

    /// Octets of sequence space: the payload, SYN and FIN.
    #[must_use]
    pub fn sequence_len(&self) -> u32 {
        let controls = [Flags::SYN, Flags::FIN].map(|flag| u32::from(self.flags.has(flag)));
        let payload = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        controls.iter().fold(payload, |sum, control| sum.saturating_add(*control))
    }

    /// The segment with room in front. Its checksum is zero. The octets of options are a multiple of four, up to 40.
    #[must_use]
    pub fn to_packet(&self) -> PacketBuf {
        let mut packet =
            PacketBuf::with_capacity(HEADER_LEN + self.options.len() + self.payload.len());
        packet.append_with(|out| self.emit(out));
        packet
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let words = u8::try_from((HEADER_LEN + self.options.len()) / 4).unwrap_or_default();
        out.extend(self.source_port.to_be_bytes());
        out.extend(self.destination_port.to_be_bytes());
        out.extend(self.sequence.0.to_be_bytes());
        out.extend(self.acknowledgment.0.to_be_bytes());
        out.extend([words << 4, self.flags.0]);
        out.extend(self.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend_from_slice(self.options);
        out.extend_from_slice(self.payload);
    }
}

/// Options of a SYN that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Maximum Segment Size (RFC 9293 s3.2).
    pub mss: Option<u16>,
    /// Shift of the window, at most 14 (RFC 7323 s2).
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgments are permitted (RFC 2018).
    pub is_sack_permitted: bool,
}

impl SynOptions {
    /// Reads options. Options behind one with a wrong length are ignored.
    #[must_use]
    pub fn parse(options: &[u8]) -> Self {
        let mut found = Self::default();
        for (kind, value) in Iter(options) {
            match (kind, value) {
                (MSS, &[high, low]) => found.mss = Some(u16::from_be_bytes([high, low])),
                // RFC 7323 s2.3: a shift above 14 counts as 14.
                (WINDOW_SCALE, &[shift]) => found.window_scale = Some(shift.min(14)),
                (SACK_PERMITTED, []) => found.is_sack_permitted = true,
                _ => {}
            }
        }
        found
    }

    /// The octets of the options, a multiple of four.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        if let Some(mss) = self.mss {
            out.extend([MSS, 4]);
            out.extend(mss.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            out.extend([NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        if self.is_sack_permitted {
            out.extend([NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
        }
        out
    }
}

/// Options as kind and value, until the end or an option with a wrong length.
struct Iter<'a>(&'a [u8]);

impl<'a> Iterator for Iter<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0 {
                [] | [END, ..] => return None,
                [NO_OPERATION, ref rest @ ..] => self.0 = rest,
                [kind, len, ref rest @ ..] => {
                    let (value, rest) = rest.split_at_checked(usize::from(len).checked_sub(2)?)?;
                    self.0 = rest;
                    return Some((kind, value));
                }
                [_] => return None,
            }
        }
    }
}

/// Lowers the MSS that a SYN announces to `mss`. Does not write the checksum. Other segments stay as they are.
pub fn clamp_mss(segment: &mut [u8], mss: u16) {
    let Ok(parsed) = Segment::parse(segment) else { return };
    if !parsed.flags.has(Flags::SYN) {
        return;
    }
    let mut options = Iter(parsed.options);
    while let Some((kind, value)) = options.next() {
        let &[high, low] = value else { continue };
        if kind == MSS && u16::from_be_bytes([high, low]) > mss {
            let at = HEADER_LEN + parsed.options.len() - options.0.len() - value.len();
            return segment[at..at + 2].copy_from_slice(&mss.to_be_bytes());
        }
    }
}

/// Whether the checksum of a segment is right (RFC 9293 s3.1).
#[must_use]
pub fn is_checksum_right(header: &Header, segment: &[u8]) -> bool {
    upper_layer_checksum(header.source, header.destination, TCP, segment) == 0
}

/// Writes the checksum of a segment into it.
pub fn fill_checksum(segment: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let sum = |octets: &[u8]| upper_layer_checksum(source, destination, TCP, octets);
    fill(segment, CHECKSUM_AT, sum);
}

/// The RST that answers a segment for which there is no connection, from the destination of `header` to its source, with its
/// checksum. Returns `None` if the segment has no answer.
#[must_use]
pub fn reset_for(header: &Header, segment: &[u8]) -> Option<PacketBuf> {
    let segment = Segment::parse(segment).ok()?;
    // RFC 9293 s3.10.7.1: "An incoming segment containing a RST is discarded". s3.9.2.3 (MUST-57): no answer to a group.
    let is_group = header.destination.is_multicast() || header.source.is_multicast();
    if segment.flags.has(Flags::RST) || is_group || header.source.is_unspecified() {
        return None;
    }
    let is_ack = segment.flags.has(Flags::ACK);
    let sequence = if is_ack { segment.acknowledgment } else { Seq(0) };
    let acknowledgment = if is_ack { Seq(0) } else { segment.sequence + segment.sequence_len() };
    let reset = Segment {
        source_port: segment.destination_port,
        destination_port: segment.source_port,
        sequence,
        acknowledgment,
        flags: if is_ack { Flags::RST } else { Flags::RST.with(Flags::ACK) },
        window: 0,
        options: &[],
        payload: &[],
    };
    let mut packet = reset.to_packet();
    fill_checksum(&mut packet, header.destination, header.source);
    Some(packet)
}

/// Octets of the header without options.
pub(super) const HEADER_LEN: usize = 20;
/// Offset of the checksum in the header.
pub(super) const CHECKSUM_AT: usize = 16;
/// Offset of the control bits in the header.
pub(super) const FLAGS_AT: usize = 13;
/// Offset of the acknowledgment number in the header.
pub(super) const ACKNOWLEDGMENT_AT: usize = 8;
/// Offset of the sequence number in the header.
pub(super) const SEQUENCE_AT: usize = 4;

// Kinds of options.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;

#[cfg(test)]
mod tests;
