//! Preferences of the peer, and locators that it calls broken (RFC 5533 s5.15.3, decision 164).
//!
//! Preferences need no proof. Whoever knows the context tag and the generation of the peer's list can forge them. So the
//! flag BROKEN is a reason to ask, and counts until the peer answers a check by that locator.

use moorline_types::{Instant, Locator, LocatorPair};

use super::rounds::RETRY;
use super::{Machine, cut};
use crate::monitor::Check;
use crate::order::Rank;

impl Machine {
    pub(super) fn is_current_broken(&self) -> bool {
        self.is_broken(self.current())
    }

    pub(super) fn is_broken(&self, pair: LocatorPair) -> bool {
        self.rank_of(pair).is_broken
    }

    /// The peer's preference for its locator of the pair, as far as answers do not refute it.
    pub(super) fn rank_of(&self, pair: LocatorPair) -> Rank {
        let Some(extra) = &self.extra else { return Rank::default() };
        let Some(place) = self.peer_place(pair.peer) else { return Rank::default() };
        let rank = extra.ranks.get(place).copied().unwrap_or_default();
        Rank { is_broken: rank.is_broken && extra.refuted & bit(place) == 0, ..rank }
    }

    /// Whether the peer has stated preferences for its locators.
    #[must_use]
    pub fn has_ranks(&self) -> bool {
        !self.ranks().is_empty()
    }

    pub(super) fn ranks(&self) -> &[Rank] {
        self.extra.as_ref().map_or(&[], |extra| &extra.ranks)
    }

    /// The peer has stated preferences, or its locators have changed.
    ///
    /// Answers refute the preferences that the peer has stated within a second for the same locators: forged preferences
    /// may change faster than the peer can answer.
    pub(super) fn note_ranks(&mut self, ranks: &[Rank], has_same_peers: bool, now: Instant) {
        let since = if ranks.is_empty() { Instant::ZERO } else { now };
        self.change_extra(|extra| {
            extra.ranks = cut(ranks);
            if !has_same_peers || now.since(extra.ranked) >= RETRY {
                (extra.ranked, extra.refuted) = (since, 0);
            }
        });
    }

    /// If the peer calls its locator of the standby path broken, the next traffic begins a round of checks, whose
    /// answers may refute this. There is one such round a second.
    pub(super) fn doubt_broken_standby(&mut self, now: Instant) {
        let is_broken = self.standby().is_some_and(|standby| self.is_broken(standby));
        let is_old = |at: Option<Instant>| at.is_none_or(|at| now.since(at) >= RETRY);
        if let Some(monitor) = self.monitor.as_mut().filter(|one| is_broken && is_old(one.verified))
        {
            monitor.end_rest();
        }
    }

    /// The peer has answered a check. If the check left after the preferences came, the locator is not broken.
    pub(super) fn refute_broken_by(&mut self, check: Check) {
        if self.extra.as_ref().is_some_and(|extra| check.at >= extra.ranked) {
            self.refute_broken(check.pair.peer);
        }
    }

    /// The peer can be reached at its locator `peer`.
    pub(super) fn refute_broken(&mut self, peer: Locator) {
        let place = self
            .peer_place(peer)
            .filter(|place| self.ranks().get(*place).is_some_and(|rank| rank.is_broken));
        if let Some(place) = place {
            self.change_extra(|extra| extra.refuted |= bit(place));
        }
    }

    fn peer_place(&self, peer: Locator) -> Option<usize> {
        self.peer.iter().position(|known| *known == peer)
    }
}

/// The bit of a place below [`MAX_LOCATORS`](crate::config::MAX_LOCATORS).
fn bit(place: usize) -> u32 {
    u32::try_from(place).ok().and_then(|place| 1_u32.checked_shl(place)).unwrap_or(0)
}
