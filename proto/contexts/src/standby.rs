use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_reap as reap;
use moorline_types::{ContextId, Instant, LocatorPair, Locators};

use crate::event::Cause;
use crate::machine::Contexts;
use crate::sweep::Input;

/// Knowledge about standby paths that contexts with the same peer share, so that one of them checks for all.
///
/// An answer to one context counts for another only if both have the same locators of the peer, each verified by its
/// own context. Then the same host has proved the set to both contexts, and the answer shows return routability of that
/// host (decision 045). A peer cannot make a pair of another peer look as if it worked, because it cannot prove the
/// locators of that peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandbyPaths {
    by_pair: BTreeMap<LocatorPair, Entry>,
    /// Start of the second in which contexts are told of failed pairs, and how often that happened in it.
    told: (Option<Instant>, u32),
}

#[derive(Clone, Debug)]
struct Entry {
    /// All verified locators of the peer.
    peer: Locators,
    /// When a context was last told to check the pair.
    asked: Instant,
    /// When the last answered check left, and its round-trip time.
    answered: Option<(Instant, Duration)>,
}

impl StandbyPaths {
    /// The knowledge about a pair that is not older than `fresh`, for a context whose peer has these locators. A
    /// context that gets `Nothing` will check the pair.
    fn recall(
        &mut self,
        pair: LocatorPair,
        peer: &Locators,
        fresh: Duration,
        now: Instant,
    ) -> reap::Known {
        match self.by_pair.get_mut(&pair).filter(|entry| entry.peer == *peer) {
            Some(Entry { answered: Some((at, rtt)), .. }) if now.since(*at) < fresh => {
                reap::Known::Verified { at: *at, rtt: *rtt }
            }
            Some(entry) if now.since(entry.asked) <= PATIENCE => reap::Known::Asked,
            Some(entry) => {
                entry.asked = now;
                reap::Known::Nothing
            }
            None => {
                self.insert(pair, Entry { peer: peer.clone(), asked: now, answered: None }, now);
                reap::Known::Nothing
            }
        }
    }

    fn note(
        &mut self,
        pair: LocatorPair,
        peer: &Locators,
        answered: (Instant, Duration),
        now: Instant,
    ) {
        let entry = Entry { peer: peer.clone(), asked: now, answered: Some(answered) };
        self.insert(pair, entry, now);
    }

    /// The pair no longer works, at least for one context.
    fn forget(&mut self, pair: LocatorPair) {
        self.by_pair.remove(&pair);
    }

    /// Forgets all pairs with this peer that have one of the locators of `failed` in the same place.
    fn forget_beside(&mut self, failed: LocatorPair, peer: &Locators) {
        self.by_pair.retain(|pair, entry| entry.peer != *peer || pair.shared_ends(failed) == 0);
    }

    /// Whether contexts may be told of another failed pair now. The search for them visits all contexts.
    fn may_tell(&mut self, now: Instant) -> bool {
        let (since, count) = &mut self.told;
        if since.is_none_or(|since| now.since(since) >= TELL_INTERVAL) {
            (*since, *count) = (Some(now), 0);
        }
        *count += 1;
        *count <= TELL_LIMIT
    }

    /// Stores an entry. If there is no room, nothing is shared, and each context checks for itself.
    fn insert(&mut self, pair: LocatorPair, entry: Entry, now: Instant) {
        if self.by_pair.len() >= MAX_SHARED {
            self.by_pair.retain(|_, entry| now.since(entry.asked) <= LIFETIME);
        }
        if self.by_pair.len() < MAX_SHARED || self.by_pair.contains_key(&pair) {
            self.by_pair.insert(pair, entry);
        }
    }
}

impl Contexts {
    /// A context is about to check its standby path, unless another context has done so.
    pub(crate) fn answer_standby_question(&mut self, id: ContextId, now: Instant) {
        let Some(active) = self.active.get_mut(&id) else { return };
        let Some(pair) = active.reap.question() else { return };
        let context = self.shim6.context(id);
        let Some(established) = context.and_then(|context| context.established()) else { return };
        let fresh = active.reap.round_interval();
        let known = self.standby.recall(pair, &established.peer.locators, fresh, now);
        active.reap.handle_known(known, now);
    }

    pub(crate) fn on_standby_checked(
        &mut self,
        id: ContextId,
        pair: LocatorPair,
        answered: (Instant, Duration),
        now: Instant,
    ) {
        self.steering.note_answer(pair, Some(answered.1), now);
        if let Some(peer) = self.peer_locators(id) {
            self.standby.note(pair, &peer, answered, now);
        }
    }

    /// The peer has lost a context. Its earlier answers do not show that it takes payload by another pair.
    pub(crate) fn on_peer_lost(&mut self, id: ContextId, now: Instant) {
        let Some(active) = self.active.get_mut(&id) else { return };
        active.reap.handle_request_answered(now);
        if let Some(standby) = active.reap.handle_standby_suspected(now) {
            self.standby.forget(standby);
        }
        self.drain_reap(id, now);
    }

    pub(crate) fn on_confirmed(&mut self, id: ContextId, now: Instant) {
        self.change(id, now, |reap| reap.handle_confirmed(now));
    }

    /// A context has left a pair because this host has found that the pair fails. An ISP of either end may have failed
    /// with it. So the earlier knowledge about standby paths by one of the two locators does not count any more, and
    /// other contexts with the same peer check them again. Contexts on the failed pair have no time for checks, and
    /// take their standby paths as soon as they notice the failure. Contexts with other peers are not affected, because
    /// a peer can make its own contexts move.
    pub(crate) fn on_pair_left(
        &mut self,
        id: ContextId,
        pair: LocatorPair,
        cause: Cause,
        now: Instant,
    ) {
        self.standby.forget(pair);
        let is_found_here = matches!(cause, Cause::Suspicion | Cause::SendTimeout);
        let Some(peer) = self.peer_locators(id).filter(|_| is_found_here) else { return };
        if !self.standby.may_tell(now) {
            return;
        }
        self.standby.forget_beside(pair, &peer);
        self.sweep(Input::PairLeft(pair, peer), now);
    }

    /// A context with the peer that has these locators has left `pair`. If this context has the same peer, and its
    /// standby path begins or ends where `pair` does, it checks the path again.
    pub(crate) fn suspect_standby(
        &mut self,
        id: ContextId,
        pair: LocatorPair,
        peer: &Locators,
        now: Instant,
    ) {
        let reap = self.active.get(&id).map(|active| &active.reap);
        let standby = reap.filter(|reap| reap.current_pair() != pair);
        let standby = standby.and_then(reap::Machine::standby);
        let is_beside = standby.is_some_and(|standby| standby.shared_ends(pair) > 0);
        if is_beside && self.peer_locators(id).is_some_and(|of_other| of_other == *peer) {
            self.change(id, now, |reap| _ = reap.handle_standby_suspected(now));
        }
    }

    /// All verified locators of the peer of an established context.
    fn peer_locators(&self, id: ContextId) -> Option<Locators> {
        Some(self.established(id)?.peer.locators.clone())
    }
}

/// In this time contexts are told of at most [`TELL_LIMIT`] failed pairs.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
const TELL_LIMIT: u32 = 16;
/// Limit of the pairs in the shared knowledge.
const MAX_SHARED: usize = 4096;
/// Age at which an entry makes room.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time for a context that was told to check a pair.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use moorline_types::Locator;

    const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
    const FRESH: Duration = LIFETIME;
    const RTT: Duration = Duration::from_millis(7);

    fn locator(host: u16) -> Locator {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host).into()
    }

    #[test]
    fn what_one_has_found_out_counts_for_others_with_the_same_peer_alone() {
        let mut standby = StandbyPaths::default();
        let pair = LocatorPair::new(locator(1), locator(2));
        let peer = Locators::from(&[locator(2), locator(3)]);
        let other = Locators::from(&[locator(2), locator(4)]);
        assert_eq!(standby.recall(pair, &peer, FRESH, NOW), reap::Known::Nothing);
        assert_eq!(standby.recall(pair, &peer, FRESH, NOW), reap::Known::Asked);
        standby.note(pair, &peer, (NOW, RTT), NOW);
        let verified = reap::Known::Verified { at: NOW, rtt: RTT };
        assert_eq!(standby.recall(pair, &peer, FRESH, NOW + RTT), verified);
        assert_eq!(
            standby.recall(pair, &other, FRESH, NOW + RTT),
            reap::Known::Nothing,
            "who is that?"
        );
        let peer_again = Locators::from(&[locator(2), locator(3)]);
        standby.note(pair, &peer, (NOW, RTT), NOW);
        assert_eq!(standby.recall(pair, &peer_again, FRESH, NOW + RTT), verified);
        assert_eq!(
            standby.recall(pair, &peer, FRESH, NOW + FRESH + RTT),
            reap::Known::Nothing,
            "old"
        );
        standby.note(pair, &peer, (NOW, RTT), NOW);
        standby.forget(pair);
        assert_eq!(standby.recall(pair, &peer, FRESH, NOW), reap::Known::Nothing);
    }

    #[test]
    fn there_is_a_cap() {
        let mut standby = StandbyPaths::default();
        let peer = Locators::from(&[locator(2)]);
        for n in 0..10_000 {
            standby.recall(LocatorPair::new(locator(n), locator(2)), &peer, FRESH, NOW);
        }
        assert_eq!(standby.by_pair.len(), MAX_SHARED);
        let late = NOW + FRESH + RTT;
        standby.recall(LocatorPair::new(locator(9), locator(9)), &peer, FRESH, late);
        assert_eq!(standby.by_pair.len(), 1);
    }
}
