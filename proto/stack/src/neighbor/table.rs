use alloc::collections::{BTreeMap, BTreeSet};
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::Mac;
use moorline_types::Instant;

use super::entry::Entry;
use super::{MAX_INCOMPLETE, MAX_NEIGHBORS};
use crate::Drop;

/// The entries of a wire, ordered by timer and by worth. The table is bounded by [`MAX_NEIGHBORS`] and [`MAX_INCOMPLETE`].
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<Ipv6Addr, Entry>,
    timers: BTreeSet<(Instant, Ipv6Addr)>,
    worths: BTreeSet<(Worth, Instant, Ipv6Addr)>,
    /// Entries in the state INCOMPLETE, the oldest first.
    incomplete: BTreeSet<(Instant, Ipv6Addr)>,
}

/// Keys of an entry in the indexes of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    timer: Option<Instant>,
    worth: Option<(Worth, Instant)>,
    incomplete: Option<Instant>,
}

/// Worth of an entry to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// The host has never sent a packet to the neighbor.
    Unused,
    /// The host has sent packets, and nothing proves that the neighbor exists.
    Unproven,
    /// The neighbor exists, or the host has it as a router.
    Proven,
}

impl Table {
    pub(super) fn get(&self, neighbor: Ipv6Addr) -> Option<&Entry> {
        self.entries.get(&neighbor)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ipv6Addr, &Entry)> {
        self.entries.iter().map(|(address, entry)| (*address, entry))
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.entries.into_values()
    }

    /// Changes an entry, and moves it in the indexes if need be.
    pub(super) fn update<R>(
        &mut self,
        neighbor: Ipv6Addr,
        change: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let entry = self.entries.get_mut(&neighbor)?;
        let result = change(entry);
        let (old, new) = (entry.keys, Keys::of(entry));
        entry.keys = new;
        self.reindex(neighbor, old, new);
        Some(result)
    }

    /// The link-layer address of a reachable neighbor that gets a packet.
    pub(super) fn use_reachable(&mut self, neighbor: Ipv6Addr, now: Instant) -> Option<Mac> {
        let entry = self.entries.get_mut(&neighbor)?;
        let mac = entry.reachable_station(now)?;
        // Uses count in whole seconds: seldom the entry has another place in the index.
        let is_same = entry.used.is_some_and(|used| end_of_second(used) == end_of_second(now));
        entry.used = Some(now);
        if !is_same {
            self.update(neighbor, |_| {});
        }
        Some(mac)
    }

    /// Adds an entry, and returns the number of entries that had to go. The table must have no entry with the address.
    ///
    /// # Errors
    /// [`Drop::NeighborLimit`] if all entries are in use.
    pub(super) fn insert(
        &mut self,
        neighbor: Ipv6Addr,
        mut entry: Entry,
        now: Instant,
    ) -> Result<usize, Drop> {
        let victim = self.victim(&entry, now)?;
        let evicted = victim.and_then(|victim| self.remove(victim));
        entry.keys = Keys::of(&entry);
        self.reindex(neighbor, Keys::default(), entry.keys);
        self.entries.insert(neighbor, entry);
        Ok(evicted.into_iter().count())
    }

    pub(super) fn remove(&mut self, neighbor: Ipv6Addr) -> Option<Entry> {
        let entry = self.entries.remove(&neighbor)?;
        self.reindex(neighbor, entry.keys, Keys::default());
        Some(entry)
    }

    /// Number of entries in the state INCOMPLETE.
    pub(super) fn incomplete(&self) -> usize {
        self.incomplete.len()
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The neighbor whose timer is due first, if it is due.
    pub(super) fn due(&self, now: Instant) -> Option<Ipv6Addr> {
        self.timers.first().filter(|(at, _)| *at <= now).map(|(_, neighbor)| *neighbor)
    }

    /// The entry that must go for a new one, if one must.
    fn victim(&self, newcomer: &Entry, now: Instant) -> Result<Option<Ipv6Addr>, Drop> {
        if newcomer.is_incomplete() && self.incomplete.len() >= MAX_INCOMPLETE {
            return Ok(self.incomplete.first().map(|(_, neighbor)| *neighbor));
        }
        if self.entries.len() < MAX_NEIGHBORS {
            return Ok(None);
        }
        let is_idle = |(at, _): &(Instant, Ipv6Addr)| *at <= now - IN_USE;
        self.oldest(Worth::Unused)
            .or_else(|| self.oldest(Worth::Proven).filter(is_idle))
            .or_else(|| self.oldest(Worth::Unproven))
            .map(|(_, neighbor)| Some(neighbor))
            .ok_or(Drop::NeighborLimit)
    }

    fn oldest(&self, worth: Worth) -> Option<(Instant, Ipv6Addr)> {
        let first = (worth, Instant::ZERO, Ipv6Addr::UNSPECIFIED);
        let (found, at, neighbor) = *self.worths.range(first..).next()?;
        (found == worth).then_some((at, neighbor))
    }

    fn reindex(&mut self, neighbor: Ipv6Addr, old: Keys, new: Keys) {
        let with = |at| (at, neighbor);
        replace(&mut self.timers, old.timer.map(with), new.timer.map(with));
        replace(&mut self.incomplete, old.incomplete.map(with), new.incomplete.map(with));
        let with = |(worth, at)| (worth, at, neighbor);
        replace(&mut self.worths, old.worth.map(with), new.worth.map(with));
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.entries.len() <= MAX_NEIGHBORS && self.incomplete.len() <= MAX_INCOMPLETE);
        assert_eq!(self.worths.len(), self.entries.len());
        let timers = self.entries.values().filter(|entry| entry.timer.is_some()).count();
        assert_eq!(self.timers.len(), timers);
        let incomplete = self.entries.values().filter(|entry| entry.is_incomplete()).count();
        assert_eq!(self.incomplete.len(), incomplete);
        for (neighbor, entry) in &self.entries {
            assert_eq!(entry.keys, Keys::of(entry), "{neighbor}");
        }
    }
}

impl Keys {
    fn of(entry: &Entry) -> Self {
        let incomplete = entry.is_incomplete().then_some(entry.created);
        Self { timer: entry.timer, worth: Some(Worth::of(entry)), incomplete }
    }
}

impl Worth {
    /// The worth of an entry, and the time by which entries of equal worth are ordered: the last use of an entry whose
    /// neighbor exists, and the creation of others.
    fn of(entry: &Entry) -> (Self, Instant) {
        match entry.used {
            Some(used) if entry.is_proven || entry.is_kept => (Self::Proven, end_of_second(used)),
            Some(_) => (Self::Unproven, entry.created),
            None if entry.is_incomplete() => (Self::Unproven, entry.created),
            None => (Self::Unused, entry.created),
        }
    }
}

/// The next whole second. Uses count in whole seconds, so that a packet seldom moves its entry in the index.
fn end_of_second(at: Instant) -> Instant {
    const SECOND: u64 = 1_000_000_000;
    Instant::from_nanos(at.as_nanos().checked_next_multiple_of(SECOND).unwrap_or(u64::MAX))
}

fn replace<K: Ord>(index: &mut BTreeSet<K>, old: Option<K>, new: Option<K>) {
    if old == new {
        return;
    }
    if let Some(old) = old {
        index.remove(&old);
    }
    index.extend(new);
}

/// Time for which an entry with a neighbor that exists is in use after a packet.
pub const IN_USE: Duration = Duration::from_secs(60);
