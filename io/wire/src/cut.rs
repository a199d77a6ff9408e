//! The work of a network adapter: checksums are completed, and large segments are cut.

use moorline_ip::ip6::{TCP, UDP, Upper};
use moorline_ip::{PacketBuf, checksum, ethernet, fold};

use crate::vnet::{Kind, Notes, PartialChecksum, Segmentation};

/// Completes a checksum. Returns `false` if the notes do not fit the frame; then the frame is unchanged.
pub(crate) fn complete(frame: &mut [u8], partial: PartialChecksum) -> bool {
    let start = usize::from(partial.start);
    let field = start + usize::from(partial.offset);
    if frame.len() < field + 2 {
        return false;
    }
    // RFC 768: a computed checksum of zero is sent as all ones. For TCP both are the same number.
    let sum = match checksum(&frame[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    put(frame, field, sum);
    true
}

/// A frame from which segments are cut, one at a time.
#[derive(Debug)]
pub(crate) struct Cutter {
    frame: Vec<u8>,
    layout: Layout,
    /// Octets of payload of each segment but the last; not zero.
    size: usize,
    /// Octets of payload that were cut off before.
    done: usize,
    /// Sum of the pseudo-header of the frame, without the length of the upper layer; `None` if the frame has none.
    begun: Option<u16>,
}

/// Where the headers of a frame are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    is_ip6: bool,
    is_tcp: bool,
    /// Octet at which the upper layer begins.
    upper: usize,
    /// Octet at which the payload begins.
    payload: usize,
}

impl Cutter {
    /// Prepares a frame. `None` if the notes do not fit the frame.
    pub(crate) fn new(frame: &[u8], notes: Notes) -> Option<Self> {
        let segmentation = notes.segmentation?;
        let layout = Layout::of(frame)?;
        let is_right = match segmentation.kind {
            Kind::Tcp4 => layout.is_tcp && !layout.is_ip6,
            Kind::Tcp6 => layout.is_tcp && layout.is_ip6,
            Kind::Udp => !layout.is_tcp,
        };
        let size = usize::from(segmentation.size);
        let partial = notes.checksum.filter(|partial| usize::from(partial.start) == layout.upper);
        let begun = partial.map(|_| layout.begun_checksum(frame));
        (is_right && size > 0).then(|| Self { frame: frame.to_vec(), layout, size, done: 0, begun })
    }

    /// Cuts the next segment off. Each segment has headers and checksums of its own.
    pub(crate) fn next_segment(&mut self) -> Option<PacketBuf> {
        let Layout { payload, .. } = self.layout;
        let rest = self.frame.get(payload + self.done..).filter(|rest| !rest.is_empty())?;
        let len = rest.len().min(self.size);
        let is_last = len == rest.len();
        let mut segment = PacketBuf::with_capacity(payload + len);
        segment.extend(&self.frame[..payload]);
        segment.extend(&rest[..len]);
        self.finish(&mut segment, is_last);
        self.done += len;
        Some(segment)
    }

    fn finish(&self, segment: &mut [u8], is_last: bool) {
        let Layout { is_tcp, upper, .. } = self.layout;
        if is_tcp {
            self.finish_tcp(&mut segment[upper..], is_last);
        } else {
            put(segment, upper + UDP_LENGTH_AT, short(segment.len() - upper));
        }
        self.finish_ip(segment);
        let partial = match self.begun {
            Some(begun) => self.layout.go_on_with_checksum(segment, begun),
            None => self.layout.begin_checksum(segment),
        };
        complete(segment, partial);
    }

    /// Writes the fields of TCP that differ between segments. FIN and PSH belong to the last segment, CWR to the first one
    /// (RFC 3168 s6.1.2).
    fn finish_tcp(&self, tcp: &mut [u8], is_last: bool) {
        if let Some(sequence) = tcp.get_mut(4..8).and_then(|field| field.first_chunk_mut::<4>()) {
            let done = u32::try_from(self.done).unwrap_or_default();
            *sequence = u32::from_be_bytes(*sequence).wrapping_add(done).to_be_bytes();
        }
        if !is_last {
            tcp[TCP_FLAGS_AT] &= !(FIN | PSH);
        }
        if self.done > 0 {
            tcp[TCP_FLAGS_AT] &= !CWR;
        }
    }

    fn finish_ip(&self, segment: &mut [u8]) {
        let len = segment.len() - ethernet::LEN;
        if self.layout.is_ip6 {
            put(segment, ethernet::LEN + 4, short(len - IP6_LEN));
            return;
        }
        let index = short(self.done / self.size);
        let identification = take(segment, ethernet::LEN + 4).wrapping_add(index);
        put(segment, ethernet::LEN + 2, short(len));
        put(segment, ethernet::LEN + 4, identification);
        put(segment, ethernet::LEN + 10, 0);
        let sum = checksum(&segment[ethernet::LEN..self.layout.upper]);
        put(segment, ethernet::LEN + 10, sum);
    }
}

/// Prepares a TCP segment for an adapter: puts the sum of the pseudo-header into the checksum field. `None` if the frame is no TCP segment
/// over IPv4 or IPv6; then the frame is unchanged.
pub(crate) fn prepare(frame: &mut [u8], size: u16) -> Option<Notes> {
    let layout = Layout::of(frame).filter(|layout| layout.is_tcp)?;
    let kind = if layout.is_ip6 { Kind::Tcp6 } else { Kind::Tcp4 };
    let header_len = u16::try_from(layout.payload).ok()?;
    let checksum = Some(layout.begin_checksum(frame));
    Some(Notes { checksum, segmentation: Some(Segmentation { kind, size, header_len }) })
}

impl Layout {
    fn of(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(ethernet::LEN..)?;
        let (is_ip6, protocol, offset) = match take(frame, ethernet::LEN - 2) {
            ethernet::IPV6 => {
                let upper = upper(ip)?;
                (true, upper.protocol, upper.at?)
            }
            ethernet::IPV4 => (false, *ip.get(9)?, usize::from(*ip.first()? & 15) * 4),
            _ => return None,
        };
        let upper = ethernet::LEN + offset;
        let header_len = match protocol {
            TCP => usize::from(*frame.get(upper + 12)? >> 4) * 4,
            UDP => UDP_LEN,
            _ => return None,
        };
        let least = if protocol == TCP { TCP_LEN } else { UDP_LEN };
        let payload = upper + header_len;
        let is_whole =
            header_len >= least && payload <= frame.len() && (is_ip6 || offset >= IP4_LEN);
        is_whole.then_some(Self { is_ip6, is_tcp: protocol == TCP, upper, payload })
    }

    /// Writes the sum of the pseudo-header (RFC 8200 s8.1, RFC 9293 s3.1) into the field of the checksum.
    fn begin_checksum(&self, frame: &mut [u8]) -> PartialChecksum {
        let addresses = if self.is_ip6 { 8..IP6_LEN } else { 12..IP4_LEN };
        let addresses = &frame[ethernet::LEN..][addresses];
        let protocol = if self.is_tcp { TCP } else { UDP };
        let begun = fold(u64::from(!checksum(addresses)) + u64::from(protocol));
        self.go_on_with_checksum(frame, begun)
    }

    /// The sum of the pseudo-header in a frame, without the length. Its addresses need not be those of the frame: Shim6 and ILNP have
    /// changed the addresses of a packet and not the checksum of its upper layer.
    fn begun_checksum(&self, frame: &[u8]) -> u16 {
        let len = short(frame.len() - self.upper);
        let sum = take(frame, self.upper + self.checksum_at());
        fold(u64::from(sum) + u64::from(!len))
    }

    /// Writes the sum of the pseudo-header, which has everything but the length of the upper layer.
    fn go_on_with_checksum(&self, frame: &mut [u8], begun: u16) -> PartialChecksum {
        let (len, offset) = (frame.len() - self.upper, self.checksum_at());
        put(frame, self.upper + offset, fold(u64::from(begun) + len as u64));
        PartialChecksum { start: short(self.upper), offset: short(offset) }
    }

    const fn checksum_at(&self) -> usize {
        if self.is_tcp { TCP_CHECKSUM_AT } else { UDP_CHECKSUM_AT }
    }
}

/// The upper layer of a packet of IPv6, behind a payload header of Shim6 too (RFC 5533 s5.1).
fn upper(ip: &[u8]) -> Option<Upper> {
    let upper = Upper::read(ip, *ip.get(6)?, IP6_LEN);
    match (upper.protocol, upper.at?) {
        (SHIM6, at) if *ip.get(at + 2)? & IS_PAYLOAD != 0 => {
            Some(Upper::read(ip, *ip.get(at)?, at + PAYLOAD_HEADER_LEN))
        }
        _ => Some(upper),
    }
}

fn take(octets: &[u8], at: usize) -> u16 {
    octets.get(at..at + 2).map_or(0, |field| u16::from_be_bytes([field[0], field[1]]))
}

fn put(octets: &mut [u8], at: usize, field: u16) {
    octets[at..at + 2].copy_from_slice(&field.to_be_bytes());
}

/// Lengths of frames fit: a frame has at most [`MAX_FRAME`](crate::MAX_FRAME) octets, and no length includes the headers in front.
fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

const IP6_LEN: usize = 40;
const IP4_LEN: usize = 20;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const UDP_LENGTH_AT: usize = 4;
/// Protocol number of Shim6 (RFC 5533 s5).
const SHIM6: u8 = 140;
/// Bit of the payload header, and its length (RFC 5533 s5.1).
const IS_PAYLOAD: u8 = 0x80;
const PAYLOAD_HEADER_LEN: usize = 8;
const UDP_CHECKSUM_AT: usize = 6;
const TCP_CHECKSUM_AT: usize = 16;
const TCP_FLAGS_AT: usize = 13;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests;
