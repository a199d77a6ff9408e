use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_ip::PacketBuf;
use moorline_ip::icmp::MAX_QUOTE;
use moorline_types::Instant;

use super::incoming::{Incoming, assemble};
use super::table::Key;
use super::{Arrival, Expired, MAX_RANGES, Whole};
use crate::Drop;
use crate::chain::Position;

/// A datagram that is not complete.
#[derive(Clone, Debug)]
pub(super) struct Datagram<W> {
    pub(super) key: Key<W>,
    pub(super) deadline: Instant,
    /// Octets for which the table has counted the datagram.
    pub(super) charged: usize,
    state: State<W>,
}

//= rfc5722#4-2
#[derive(Clone, Debug)]
enum State<W> {
    Gathering(Parts<W>),
    /// RFC 5722 s4: all constituent fragments are discarded, including those not yet received.
    Refused(Drop),
}

#[derive(Clone, Debug)]
struct Parts<W> {
    /// Ranges that do not overlap, in the order of their offsets. Two that touch may be apart.
    ranges: Vec<Range>,
    first: Option<Box<First<W>>>,
    /// Octets of the datagram behind its per-fragment headers, if the last fragment has come.
    total: Option<usize>,
    received: usize,
    /// ECN codepoints that came: bit n for codepoint n.
    ecn: u8,
}

/// Octets of fragments that followed each other.
#[derive(Clone, Debug)]
struct Range {
    start: usize,
    octets: Vec<u8>,
    /// Offsets at which fragments begin, but for the first one.
    starts: Vec<u16>,
}

/// Facts of the fragment with offset zero.
//= rfc8200#4.5-23
#[derive(Clone, Debug)]
struct First<W> {
    /// Headers up to and with the Fragment header.
    headers: Box<[u8]>,
    /// Octets behind them.
    len: usize,
    position: Position,
    arrival: Arrival<W>,
}

impl<W: Copy> Datagram<W> {
    pub(super) const fn new(key: Key<W>, deadline: Instant) -> Self {
        let parts = Parts { ranges: Vec::new(), first: None, total: None, received: 0, ecn: 0 };
        Self { key, deadline, charged: 0, state: State::Gathering(parts) }
    }

    pub(super) const fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused(_))
    }

    /// Adds a fragment. Returns whether the datagram is complete. After an error the datagram is refused.
    //= rfc8200#4.5-20
    pub(super) fn add(
        &mut self,
        fragment: &Incoming<'_>,
        arrival: Arrival<W>,
    ) -> Result<bool, Drop> {
        let added = match &mut self.state {
            State::Refused(reason) => Err(*reason),
            State::Gathering(parts) => parts.add(fragment, arrival),
        };
        if let Err(reason) = added {
            self.state = State::Refused(reason);
        }
        added
    }

    /// The packet, of a datagram that is complete.
    pub(super) fn whole(&self) -> Result<Whole, Drop> {
        match &self.state {
            State::Refused(reason) => Err(*reason),
            State::Gathering(parts) => parts.whole(),
        }
    }

    /// The first fragment, if it came.
    //= rfc8200#4.5-21
    pub(super) fn expired(&self) -> Option<Expired<W>> {
        match &self.state {
            State::Refused(_) => None,
            State::Gathering(parts) => parts.expired(),
        }
    }

    /// Octets on the heap, besides the datagram itself.
    pub(super) fn heap(&self) -> usize {
        match &self.state {
            State::Refused(_) => 0,
            State::Gathering(parts) => parts.heap(),
        }
    }
}

impl<W: Copy> Parts<W> {
    fn add(&mut self, fragment: &Incoming<'_>, arrival: Arrival<W>) -> Result<bool, Drop> {
        let behind = self.ranges.partition_point(|range| range.start <= fragment.start());
        if self.is_duplicate(fragment, behind) {
            return Ok(false);
        }
        self.check(fragment, behind)?;
        self.ecn |= 1 << ecn(fragment.headers);
        self.received += fragment.data.len();
        if !fragment.fields.has_more {
            self.total = Some(fragment.end());
        }
        if fragment.start() == 0 {
            self.first = Some(Box::new(First::of(fragment, arrival)));
        }
        self.insert(fragment, behind)?;
        Ok(self.total == Some(self.received))
    }

    /// RFC 8200 s4.5: exact duplicates may be dropped. `behind`: number of ranges that begin at or in front of the
    /// fragment.
    //= rfc8200#4.5-22
    fn is_duplicate(&self, fragment: &Incoming<'_>, behind: usize) -> bool {
        let range = behind.checked_sub(1).and_then(|index| self.ranges.get(index));
        let is_last = self.total == Some(fragment.end());
        is_last != fragment.fields.has_more
            && range.is_some_and(|range| range.has_fragment(fragment.start(), fragment.data))
    }

    //= rfc8504#5.1-7
    //= rfc5722#4-2 rfc5722#4-3
    //= rfc8200#4.5-19
    fn check(&self, fragment: &Incoming<'_>, behind: usize) -> Result<(), Drop> {
        let before = behind.checked_sub(1).and_then(|index| self.ranges.get(index));
        let reaches_in = before.is_some_and(|range| range.end() > fragment.start());
        let next = self.ranges.get(behind);
        if reaches_in || next.is_some_and(|range| range.start < fragment.end()) {
            return Err(Drop::FragmentOverlap);
        }
        // A second fragment without the M flag ends in front of the first one, or behind it.
        let last = self.ranges.last().map_or(0, Range::end);
        let is_beyond = self.total.is_some_and(|total| fragment.end() > total);
        let is_short = !fragment.fields.has_more && last > fragment.end();
        if fragment.data.is_empty() || is_beyond || is_short {
            return Err(Drop::FragmentLength);
        }
        Ok(())
    }

    fn insert(&mut self, fragment: &Incoming<'_>, behind: usize) -> Result<(), Drop> {
        let before = behind.checked_sub(1).and_then(|index| self.ranges.get_mut(index));
        if let Some(range) = before.filter(|range| range.end() == fragment.start()) {
            range.octets.extend_from_slice(fragment.data);
            range.starts.push(fragment.fields.offset);
            return Ok(());
        }
        if self.ranges.len() == MAX_RANGES {
            return Err(Drop::FragmentLimit);
        }
        if self.ranges.is_empty() {
            self.ranges.reserve_exact(1);
        }
        let range =
            Range { start: fragment.start(), octets: fragment.data.into(), starts: Vec::new() };
        self.ranges.insert(behind, range);
        Ok(())
    }

    fn whole(&self) -> Result<Whole, Drop> {
        let first = self.first.as_ref().ok_or(Drop::FragmentLength)?;
        let class = first.headers.first_chunk().map_or(0, |[high, low]| high << 4 | low >> 4);
        let class = self.traffic_class(class)?;
        let data: Vec<&[u8]> = self.ranges.iter().map(|range| &*range.octets).collect();
        let whole = assemble(&first.headers, first.position, Some(class), &data);
        whole.ok_or(Drop::FragmentLength)
    }

    /// RFC 3168 s5.3: if a fragment has CE, then the packet has CE. It is dropped if another one has Not-ECT.
    //= rfc8200#4.5-25
    const fn traffic_class(&self, of_first: u8) -> Result<u8, Drop> {
        match (self.ecn & 1 << CE > 0, self.ecn & 1 << NOT_ECT > 0) {
            (true, true) => Err(Drop::Malformed),
            (true, false) => Ok(of_first | CE),
            (false, _) => Ok(of_first),
        }
    }

    fn expired(&self) -> Option<Expired<W>> {
        let first = self.first.as_ref()?;
        let data = self.ranges.first()?.octets.get(..first.len.min(MAX_QUOTE))?;
        let mut quote = PacketBuf::with_capacity(first.headers.len() + data.len());
        quote.extend(&first.headers);
        quote.extend(data);
        Some(Expired { quote, arrival: first.arrival })
    }

    fn heap(&self) -> usize {
        let ranges = self.ranges.iter().map(Range::heap).sum::<usize>();
        let first = self
            .first
            .as_ref()
            .map_or(0, |it| size_of::<First<W>>() + 2 * BLOCK + it.headers.len());
        BLOCK + self.ranges.capacity() * size_of::<Range>() + ranges + first
    }
}

impl Range {
    fn end(&self) -> usize {
        self.start + self.octets.len()
    }

    /// Whether one of the fragments of the range began at `start` and had exactly this data.
    fn has_fragment(&self, start: usize, data: &[u8]) -> bool {
        let Some(index) = self.index_of(start) else { return false };
        let end = self.starts.get(index).map_or(self.end(), |&next| next.into());
        self.octets.get(start - self.start..end - self.start) == Some(data)
    }

    /// Number of the fragment that began at `start`.
    fn index_of(&self, start: usize) -> Option<usize> {
        if start == self.start {
            return Some(0);
        }
        let start = u16::try_from(start).ok()?;
        self.starts.binary_search(&start).ok().map(|index| index + 1)
    }

    const fn heap(&self) -> usize {
        2 * BLOCK + self.octets.capacity() + self.starts.capacity() * size_of::<u16>()
    }
}

impl<W> First<W> {
    fn of(fragment: &Incoming<'_>, arrival: Arrival<W>) -> Self {
        let len = fragment.data.len();
        Self { headers: fragment.headers.into(), len, position: fragment.position, arrival }
    }
}

/// ECN codepoint of a packet (RFC 3168 s5).
fn ecn(packet: &[u8]) -> u8 {
    packet.get(1).map_or(0, |octet| octet >> 4 & 3)
}

/// Octets that an allocator adds to an allocation.
pub(super) const BLOCK: usize = 16;
const CE: u8 = 3;
const NOT_ECT: u8 = 0;
