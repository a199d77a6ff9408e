//! TCP segments that come in a row become one, as with the receive offload of a network adapter.
//!
//! A segment waits until another packet comes or the caller polls. If the next one continues it, both are one segment for the
//! engine: its work is the same for one segment and for many. Nothing waits for a timer.

use moorline_ip::{Header, PacketBuf};
use moorline_types::Instant;

use super::Stack;
use crate::Drop;
use crate::tcp::{self, Engine as _, Flags, LARGEST, Segment, Seq, Spares};

/// Segments that wait for their continuation.
pub(super) struct Gathered {
    header: Header,
    /// All of them but the last one.
    segment: PacketBuf,
    /// The last one, if there is more than one. It stays for itself: smoltcp acknowledges two segments at once, and one
    /// after a delay.
    last: Option<PacketBuf>,
    /// The number of the octet that continues them.
    next: Seq,
}

impl Gathered {
    /// Whether this segment continues the others.
    fn is_continued_by(&self, header: &Header, octets: &[u8]) -> bool {
        let [Some(first), Some(more)] =
            [&*self.segment, octets].map(|octets| octets.first_chunk::<HEADER>())
        else {
            return false;
        };
        let len = self.segment.len() + self.last.as_ref().map_or(0, |last| last.len());
        let addresses = |header: &Header| (header.source, header.destination, header.traffic_class);
        len <= MAX_GATHERED
            && addresses(&self.header) == addresses(header)
            && more[SEQUENCE] == self.next.0.to_be_bytes()
            && [PORTS, ACKNOWLEDGMENT, WINDOW]
                .into_iter()
                .all(|field| first[field.clone()] == more[field])
    }

    /// Appends a segment that continues the others.
    fn push(&mut self, segment: PacketBuf, next: Seq, spares: &mut Spares) {
        self.next = next;
        let Some(last) = self.last.replace(segment) else { return };
        if self.segment.capacity() < MAX_GATHERED {
            let mut large = spares.take_or_new();
            large.reset(0);
            large.extend(&self.segment);
            self.segment = large;
        }
        if let Some((header, payload)) = last.split_first_chunk::<HEADER>() {
            self.segment[FLAGS] |= header[FLAGS];
            self.segment.extend(payload);
        }
    }
}

/// The number that continues a segment, if others can: a segment with octets, but not with so many that a copy of them takes longer
/// than the engine does, and without options and flags other than ACK and PSH.
fn continuation(octets: &[u8]) -> Option<Seq> {
    let segment = Segment::parse(octets).ok()?;
    let is_plain = segment.flags.without(Flags::PSH) == Flags::ACK;
    let is_small = (1..=MAX_PART).contains(&segment.payload.len());
    let can = is_plain && segment.options.is_empty() && is_small;
    can.then(|| segment.sequence + segment.sequence_len())
}

impl Stack {
    /// Takes a TCP segment whose checksum is right.
    pub(super) fn gather(
        &mut self,
        header: &Header,
        segment: PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let next = continuation(&segment);
        let waiting = self.gathered.as_mut().filter(|one| one.is_continued_by(header, &segment));
        if let (Some(waiting), Some(next)) = (waiting, next) {
            waiting.push(segment, next, self.tcp.spares());
            return Ok(());
        }
        self.release(now);
        let Some(next) = next else { return self.segment_in(header, segment, now) };
        self.gathered = Some(Gathered { header: *header, segment, last: None, next });
        Ok(())
    }

    /// Hands the engine the segments that wait, if there are any.
    pub(super) fn release(&mut self, now: Instant) {
        let Some(Gathered { header, segment, last, .. }) = self.gathered.take() else { return };
        for segment in [Some(segment), last].into_iter().flatten() {
            let result = self.segment_in(&header, segment, now);
            self.count(result);
        }
    }

    fn segment_in(
        &mut self,
        header: &Header,
        mut segment: PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let result = self.tcp.handle_segment(header, &mut segment, now);
        if result == Err(Drop::NoSocket)
            && let Some(reset) = tcp::reset_for(header, &segment)
        {
            let (source, destination) = (header.destination, header.source);
            let path = self.path(destination, source, None, now).ok_or(Drop::NoRoute)?;
            self.send_segment((source, destination), reset, path, now)?;
        }
        self.tcp.spares().give(segment);
        result
    }
}

/// Octets of the header of a TCP segment without options.
const HEADER: usize = 20;
/// Octets of payload of a jumbo frame at most: larger segments go to the engine one by one.
const MAX_PART: usize = 9_216;
/// Octets of the largest segment that is made of others, with its header. An IPv6 header fits in front.
const MAX_GATHERED: usize = LARGEST - 40;
// Fields of the TCP header (RFC 9293 s3.1).
const PORTS: core::ops::Range<usize> = 0..4;
const SEQUENCE: core::ops::Range<usize> = 4..8;
const ACKNOWLEDGMENT: core::ops::Range<usize> = 8..12;
const FLAGS: usize = 13;
const WINDOW: core::ops::Range<usize> = 14..16;
