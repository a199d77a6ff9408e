use alloc::collections::{BTreeMap, BTreeSet};

use core::time::Duration;

use moorline_types::{Instant, UlidPair};

use crate::consts::{ICMP_HOLDDOWN_TIME, LAPSE_HOLDDOWN_TIME, MAX_NEGATIVES};
use crate::event::Failure;

/// Pairs that the host does not try for a while (RFC 5533 s7.8), at most [`MAX_NEGATIVES`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Negatives {
    entries: BTreeMap<UlidPair, (Instant, Failure)>,
    by_end: BTreeSet<(Instant, UlidPair)>,
    /// Pairs whose peer has spoken Shim6 and then refused it, with the last holddown and the end of the entry. At most
    /// [`MAX_NEGATIVES`].
    lapses: BTreeMap<UlidPair, (Duration, Instant)>,
    /// Time of the last sweep of ended entries, which visits all of them.
    swept: Option<Instant>,
}

impl Negatives {
    pub(crate) fn insert(&mut self, ulids: UlidPair, failure: Failure, until: Instant) {
        self.remove(ulids);
        if self.entries.len() >= MAX_NEGATIVES
            && let Some((_, first)) = self.by_end.pop_first()
        {
            self.entries.remove(&first);
        }
        self.entries.insert(ulids, (until, failure));
        self.by_end.insert((until, ulids));
    }

    /// A peer that has spoken Shim6 refuses it. Returns the holddown, which doubles each time up to the holddown of a
    /// peer that has never spoken Shim6.
    pub(crate) fn lapse(&mut self, ulids: UlidPair, now: Instant) -> Duration {
        let before = self.lapses.get(&ulids).filter(|(_, end)| *end > now);
        let wait = before.map_or(LAPSE_HOLDDOWN_TIME, |(wait, _)| *wait * 2);
        let wait = wait.min(ICMP_HOLDDOWN_TIME);
        let is_full = self.lapses.len() >= MAX_NEGATIVES;
        if is_full && self.swept.is_none_or(|at| now.since(at) >= LAPSE_HOLDDOWN_TIME) {
            self.swept = Some(now);
            self.lapses.retain(|_, (_, end)| *end > now);
        }
        if self.lapses.len() < MAX_NEGATIVES || self.lapses.contains_key(&ulids) {
            self.lapses.insert(ulids, (wait, now + wait + ICMP_HOLDDOWN_TIME));
        }
        wait
    }

    /// Whether the peer has recently spoken Shim6 and then refused it.
    pub(crate) fn has_lapsed(&self, ulids: UlidPair, now: Instant) -> bool {
        self.lapses.get(&ulids).is_some_and(|(_, end)| *end > now)
    }

    /// The peer has shown that it speaks Shim6: drops its negative entries.
    pub(crate) fn forgive(&mut self, ulids: UlidPair) {
        self.lapses.remove(&ulids);
        self.remove(ulids);
    }

    fn remove(&mut self, ulids: UlidPair) {
        if let Some((until, _)) = self.entries.remove(&ulids) {
            self.by_end.remove(&(until, ulids));
        }
    }

    pub(crate) fn contains(&self, ulids: UlidPair) -> bool {
        self.entries.contains_key(&ulids)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (UlidPair, Failure, Instant)> + '_ {
        self.entries.iter().map(|(ulids, (until, failure))| (*ulids, *failure, *until))
    }

    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.by_end.first().map(|(until, _)| *until)
    }

    /// Takes one entry whose time is over.
    pub(crate) fn pop_over(&mut self, now: Instant) -> Option<UlidPair> {
        let (until, ulids) = *self.by_end.first()?;
        if until > now {
            return None;
        }
        self.remove(ulids);
        Some(ulids)
    }
}
