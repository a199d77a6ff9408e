use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::time::Duration;

use super::{Packet, Record};

/// Distributes flow records, sorted by start, into packets.
///
/// The packets of a record are spread evenly from its start to its end. All packets of one second make one [`Packet`].
#[derive(Debug)]
pub struct Spread<R: Iterator<Item = Record>> {
    records: Peekable<R>,
    /// Records with packets left to send.
    open: BinaryHeap<Reverse<Open>>,
}

/// A started record. Records sort by the time of their next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    next: Duration,
    record: Record,
    sent: u64,
    of: u64,
}

impl<R: Iterator<Item = Record>> Spread<R> {
    /// Takes these records.
    pub fn new(records: R) -> Self {
        Self { records: records.peekable(), open: BinaryHeap::new() }
    }
}

impl<R: Iterator<Item = Record>> Iterator for Spread<R> {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let is_next = |record: &Record, open: &BinaryHeap<Reverse<Open>>| {
            open.peek().is_none_or(|Reverse(open)| record.start <= open.next)
        };
        while let Some(record) = self.records.next_if(|record| is_next(record, &self.open)) {
            self.open.push(Reverse(Open::of(record)));
        }
        let Reverse(mut open) = self.open.pop()?;
        let packet = open.packet();
        self.open.extend(open.moved_on().map(Reverse));
        Some(packet)
    }
}

impl Open {
    fn of(record: Record) -> Self {
        let seconds = record.duration.as_secs().saturating_add(1);
        let of = record.packets.clamp(1, seconds + 1);
        Self { next: record.start, record, sent: 0, of }
    }

    fn packet(&mut self) -> Packet {
        let Record { source, destination, protocol, octets, packets, .. } = self.record;
        let share = |all: u64| all / self.of + u64::from(self.sent < all % self.of);
        let packet = Packet {
            at: self.next,
            source,
            destination,
            protocol,
            octets: share(octets),
            packets: u32::try_from(share(packets)).unwrap_or(u32::MAX),
        };
        self.sent += 1;
        packet
    }

    /// The record with the time of its next packet. `None` if all are sent.
    fn moved_on(self) -> Option<Self> {
        let gaps = self.of.checked_sub(1).filter(|gaps| self.sent <= *gaps)?;
        let nanos = self.record.duration.as_nanos() * u128::from(self.sent) / u128::from(gaps);
        let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(Self { next: self.record.start.saturating_add(after), ..self })
    }
}
