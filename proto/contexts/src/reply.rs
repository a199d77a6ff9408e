use alloc::vec::Vec;
use core::time::Duration;

use moorline_index::Round;
use moorline_reap::State;
use moorline_types::{ContextId, Instant, LocatorPair};

use crate::machine::Contexts;

/// An answer to a check of the host, or to another check of the same context at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The context.
    pub context: ContextId,
    /// The pair of the check.
    pub pair: LocatorPair,
    /// When the check left.
    pub at: Instant,
}

/// A context whose peer knows checks, so the host can ask the peer whether an uplink carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The context.
    pub context: ContextId,
    /// Whether the context is Operational. Otherwise it sends no checks for the host now.
    pub is_ready: bool,
    /// When the host last heard the peer. Payload that was not watched does not count.
    pub heard: Instant,
}

/// Checks for the host, which wants to know whether an uplink carries packets.
impl Contexts {
    /// Makes a context check a pair of its locators. Returns false if it sends no check now. A context sends such
    /// checks only to a peer that has shown that it knows checks, and sends none while it explores. It leaves three
    /// quarters of a burst to the checks that contexts need themselves.
    pub fn send_one_check(&mut self, id: ContextId, pair: LocatorPair, now: Instant) -> bool {
        let mut is_sent = false;
        if self.pacer.has_room_for_comparison(now) {
            self.change(id, now, |reap| is_sent = reap.send_one_check(pair, now));
        }
        is_sent
    }

    /// Round-trip time of the last answered check by this pair, while the machine remembers it.
    #[must_use]
    pub fn rtt_of(&self, pair: LocatorPair) -> Option<Duration> {
        self.steering.rtt_of(pair)
    }

    /// Contexts whose peers have shown that they know checks: `first`, and those in `LOOKED_AT` slices. In a larger
    /// table, calls look at the slots in turn.
    #[must_use]
    pub fn witnesses(&mut self, first: Option<ContextId>) -> Vec<Witness> {
        let count = self.slice.saturating_mul(LOOKED_AT);
        let mut round = Round::at(self.looked.0, self.active.len());
        let end = round.take(count);
        let begin = round.take(count.saturating_sub(end.end - end.start));
        self.looked = ContextId(round.place());
        let is_other = |id: &ContextId| !end.contains(&id.0) && !begin.contains(&id.0);
        let first = first.filter(is_other);
        let mut ids = self.active.slice(end);
        ids.extend(self.active.slice(begin));
        ids.extend(first);
        let witness = |context| {
            let reap = &self.active.get(&context)?.reap;
            let is_ready = reap.state() == State::Operational;
            reap.knows_checks().then_some(Witness { context, is_ready, heard: reap.heard() })
        };
        ids.into_iter().filter_map(witness).collect()
    }

    pub(crate) fn on_missed(&mut self, context: ContextId, standby: LocatorPair) {
        if self.missed.len() < MAX_MISSED {
            self.missed.push_back((context, standby));
        }
    }

    /// Gives the next context that has had no answer to a round of checks by its standby path, and the path. `None`
    /// holds until the next `handle_*`.
    #[must_use]
    pub fn poll_missed(&mut self) -> Option<(ContextId, LocatorPair)> {
        self.missed.pop_front()
    }

    /// Gives the next answer. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }
}

/// Largest number of waiting results of [`Contexts::poll_missed`].
const MAX_MISSED: usize = 64;
/// Slices in which a search for witnesses looks: 16,384 slots, a millisecond.
const LOOKED_AT: u32 = 8;
