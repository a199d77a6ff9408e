use core::net::Ipv6Addr;

use moorline_ip::PacketBuf;

use super::segment::{FLAGS_AT, Flags, SEQUENCE_AT, Segment, Seq, fill_checksum};

/// Cuts a super-segment into segments of at most `mss` octets of options and payload (RFC 6691 s2), each with its
/// sequence number and checksum. FIN and PSH stay on the last segment, CWR on the first one (RFC 3168 s6.1.2). The other
/// fields and the options are the same in all of them. Octets that are no segment yield nothing.
///
/// A segment that is short enough comes out in the buffer in which it came in.
#[must_use]
pub fn cut(segment: PacketBuf, mss: u16, source: Ipv6Addr, destination: Ipv6Addr) -> Segments {
    let Ok(parsed) = Segment::parse(&segment) else { return Segments::empty(source, destination) };
    let header_len = segment.len() - parsed.payload.len();
    // A header with more options than the MSS has room for leaves one octet a segment.
    let step = usize::from(mss).saturating_sub(parsed.options.len()).max(1);
    let (sequence, flags) = (parsed.sequence, parsed.flags);
    let (rest, spent) = (Some(segment), None);
    Segments { rest, spent, at: header_len, header_len, step, sequence, flags, source, destination }
}

/// Iterator over the segments of a super-segment.
#[derive(Debug)]
pub struct Segments {
    /// The super-segment; `None` at the end.
    rest: Option<PacketBuf>,
    /// The memory of the super-segment, at the end.
    spent: Option<PacketBuf>,
    /// Where the payload of the next segment starts.
    at: usize,
    header_len: usize,
    /// Octets of payload in a segment.
    step: usize,
    sequence: Seq,
    flags: Flags,
    source: Ipv6Addr,
    destination: Ipv6Addr,
}

impl Iterator for Segments {
    type Item = PacketBuf;

    fn next(&mut self) -> Option<PacketBuf> {
        self.next_behind(&[])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = |whole: &PacketBuf| (whole.len() - self.at).div_ceil(self.step).max(1);
        let len = self.rest.as_ref().map_or(0, left);
        (len, Some(len))
    }
}

impl ExactSizeIterator for Segments {}

impl Segments {
    /// The next segment, behind these octets.
    pub fn next_behind(&mut self, headers: &[u8]) -> Option<PacketBuf> {
        let whole = self.rest.as_ref()?;
        let end = whole.len().min(self.at + self.step);
        let [is_first, is_last] = [self.at == self.header_len, end == whole.len()];
        if is_first && is_last {
            let mut whole = self.rest.take()?;
            fill_checksum(&mut whole, self.source, self.destination);
            whole.prepend(headers);
            return Some(whole);
        }
        let mut packet = PacketBuf::with_capacity(headers.len() + self.header_len + end - self.at);
        packet.extend(headers);
        packet.extend(&whole[..self.header_len]);
        packet.extend(&whole[self.at..end]);
        let segment = &mut packet[headers.len()..];
        self.number(segment, is_first, is_last);
        fill_checksum(segment, self.source, self.destination);
        self.at = end;
        if is_last {
            self.spent = self.rest.take();
        }
        Some(packet)
    }

    /// The memory of the super-segment, if it has been cut to its end. Another super-segment can use it.
    #[must_use]
    pub fn into_spent(self) -> Option<PacketBuf> {
        self.spent
    }

    const fn empty(source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        let (sequence, flags) = (Seq(0), Flags(0));
        Self {
            rest: None,
            spent: None,
            at: 0,
            header_len: 0,
            step: 1,
            sequence,
            flags,
            source,
            destination,
        }
    }

    fn number(&self, segment: &mut [u8], is_first: bool, is_last: bool) {
        let offset = u32::try_from(self.at - self.header_len).unwrap_or(u32::MAX);
        let sequence = (self.sequence + offset).0.to_be_bytes();
        segment[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&sequence);
        let mut flags = self.flags;
        if !is_last {
            flags = flags.without(Flags::FIN.with(Flags::PSH));
        }
        if !is_first {
            flags = flags.without(Flags::CWR);
        }
        segment[FLAGS_AT] = flags.0;
    }
}

#[cfg(test)]
mod tests;
