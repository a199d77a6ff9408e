use alloc::collections::{BTreeMap, BTreeSet};

use moorline_types::{Instant, UlidPair};

use crate::consts::MAX_NEGATIVES;
use crate::event::Failure;

/// Pairs not to be tried again for a while (RFC 5533 s7.8), at most [`MAX_NEGATIVES`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Negatives {
    entries: BTreeMap<UlidPair, (Instant, Failure)>,
    by_end: BTreeSet<(Instant, UlidPair)>,
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

    /// The peer has shown that it can: forget what was held against it.
    pub(crate) fn remove(&mut self, ulids: UlidPair) {
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
