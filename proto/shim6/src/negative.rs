use alloc::collections::{BTreeMap, BTreeSet};

use core::time::Duration;

use moorline_types::{Instant, UlidPair};

use crate::consts::{
    ICMP_HOLDDOWN_TIME, LAPSE_HOLDDOWN_TIME, MAX_NEGATIVES, MAX_WITHOUT_ROOM, NO_ROOM_INTERVAL,
};
use crate::event::Failure;

/// Pairs that the host does not try for a while (RFC 5533 s7.8).
///
/// Each pair that [`insert`](Self::insert) takes comes out again as a pair to be tried: by
/// [`pop_over`](Self::pop_over), or before its time if another pair needs its place. The data plane reports a pair only
/// once, so a pair that vanished would never be tried again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Negatives {
    /// Pairs whose handshake has failed. At most [`MAX_NEGATIVES`].
    failed: Marks,
    /// Pairs without room in the table. At most [`MAX_WITHOUT_ROOM`]. Made-up sources fill these marks at no cost, so
    /// they push out no mark of a failure.
    without_room: Marks,
    /// Earliest time when the next pair without room may be tried again.
    turn: Instant,
    /// Pairs whose peer has spoken Shim6 and then refused it, with the last holddown and the end of the entry. At most
    /// [`MAX_NEGATIVES`].
    lapses: BTreeMap<UlidPair, (Duration, Instant)>,
    /// Time of the last sweep of ended entries, which visits all of them.
    swept: Option<Instant>,
}

impl Negatives {
    /// Remembers a pair. Returns the pair that has lost its place, which may be tried again now.
    #[must_use]
    pub(crate) fn insert(
        &mut self,
        ulids: UlidPair,
        failure: Failure,
        until: Instant,
    ) -> Option<UlidPair> {
        self.remove(ulids);
        match failure {
            Failure::NoRoom => self.without_room.insert(ulids, failure, until, MAX_WITHOUT_ROOM),
            Failure::NoAnswer | Failure::NoSupport | Failure::NotTaken => {
                self.failed.insert(ulids, failure, until, MAX_NEGATIVES)
            }
        }
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
        self.failed.remove(ulids);
        self.without_room.remove(ulids);
    }

    pub(crate) fn contains(&self, ulids: UlidPair) -> bool {
        self.failed.entries.contains_key(&ulids) || self.without_room.entries.contains_key(&ulids)
    }

    /// The pairs, with the failure and the end of the holddown. At most [`MAX_NEGATIVES`] of the pairs without room.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (UlidPair, Failure, Instant)> + '_ {
        let without_room = self.without_room.entries.iter().take(MAX_NEGATIVES);
        let entries = self.failed.entries.iter().chain(without_room);
        entries.map(|(ulids, (until, failure))| (*ulids, *failure, *until))
    }

    pub(crate) fn next_end(&self) -> Option<Instant> {
        let without_room = self.without_room.first().map(|(until, _)| until.max(self.turn));
        self.failed.first().map(|(until, _)| until).into_iter().chain(without_room).min()
    }

    /// Takes one pair whose time is over. Pairs without room come one in [`NO_ROOM_INTERVAL`], so a host with very many
    /// silent peers does not ask all of them again and again.
    pub(crate) fn pop_over(&mut self, now: Instant) -> Option<UlidPair> {
        if let Some(ulids) = self.failed.pop_over(now) {
            return Some(ulids);
        }
        let (until, _) = self.without_room.first()?;
        let due = until.max(self.turn);
        if due > now {
            return None;
        }
        self.turn = due + NO_ROOM_INTERVAL;
        self.without_room.pop_over(now)
    }
}

/// Pairs with the end of a holddown and its cause.
#[derive(Clone, Debug, Default)]
struct Marks {
    entries: BTreeMap<UlidPair, (Instant, Failure)>,
    by_end: BTreeSet<(Instant, UlidPair)>,
}

impl Marks {
    /// Adds a pair. Returns the pair with the first end if there are `max` pairs already.
    fn insert(
        &mut self,
        ulids: UlidPair,
        failure: Failure,
        until: Instant,
        max: usize,
    ) -> Option<UlidPair> {
        let is_full = self.entries.len() >= max;
        let first = if is_full { self.first().map(|(_, first)| first) } else { None };
        if let Some(first) = first {
            self.remove(first);
        }
        self.entries.insert(ulids, (until, failure));
        self.by_end.insert((until, ulids));
        first
    }

    fn remove(&mut self, ulids: UlidPair) {
        if let Some((until, _)) = self.entries.remove(&ulids) {
            self.by_end.remove(&(until, ulids));
        }
    }

    fn first(&self) -> Option<(Instant, UlidPair)> {
        self.by_end.first().copied()
    }

    fn pop_over(&mut self, now: Instant) -> Option<UlidPair> {
        let (_, ulids) = self.first().filter(|(until, _)| *until <= now)?;
        self.remove(ulids);
        Some(ulids)
    }
}
