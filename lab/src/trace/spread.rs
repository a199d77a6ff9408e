use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::time::Duration;

use super::{Packet, Record};

/// Packets of flow records, which come in the order of their beginnings.
///
/// The packets of a record are spread evenly from its beginning to its end; those of a second are taken
/// together.
#[derive(Debug)]
pub struct Spread<R: Iterator<Item = Record>> {
    records: Peekable<R>,
    /// Records that have begun, by the time of their next packet.
    open: BinaryHeap<Reverse<(Duration, usize)>>,
    slots: Vec<Open>,
    free: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    record: Record,
    sent: u64,
    of: u64,
}

impl<R: Iterator<Item = Record>> Spread<R> {
    /// Of these.
    pub fn new(records: R) -> Self {
        Self {
            records: records.peekable(),
            open: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    fn begin(&mut self, record: Record) {
        let seconds = record.duration.as_secs().saturating_add(1);
        let open = Open { record, sent: 0, of: record.packets.clamp(1, seconds + 1) };
        let at = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(at) {
            Some(slot) => *slot = open,
            None => self.slots.push(open),
        }
        self.open.push(Reverse((record.start, at)));
    }
}

impl<R: Iterator<Item = Record>> Iterator for Spread<R> {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let first = self.open.peek().map(|Reverse((at, _))| *at);
        while let Some(record) =
            self.records.next_if(|record| first.is_none_or(|first| record.start <= first))
        {
            let is_first = first.is_none();
            self.begin(record);
            if is_first {
                break;
            }
        }
        let Reverse((at, slot)) = self.open.pop()?;
        let open = self.slots.get_mut(slot)?;
        let packet = open.packet(at);
        match open.next_time() {
            Some(next) => self.open.push(Reverse((next, slot))),
            None => self.free.push(slot),
        }
        Some(packet)
    }
}

impl Open {
    fn packet(&mut self, at: Duration) -> Packet {
        let Record { source, destination, protocol, octets, packets, .. } = self.record;
        let share = |all: u64| all / self.of + u64::from(self.sent < all % self.of);
        let packet = Packet {
            at,
            source,
            destination,
            protocol,
            octets: share(octets),
            packets: u32::try_from(share(packets)).unwrap_or(u32::MAX),
        };
        self.sent += 1;
        packet
    }

    fn next_time(&self) -> Option<Duration> {
        let gaps = self.of.checked_sub(1).filter(|gaps| self.sent <= *gaps)?;
        let nanos = self.record.duration.as_nanos() * u128::from(self.sent) / u128::from(gaps);
        let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(self.record.start.saturating_add(after))
    }
}
