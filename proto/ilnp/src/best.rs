//! Choice of the locators that a session uses: the best locators by preference, of those that reach each other.
//!
//! Two nodes on the same links are neighbors on each link by one address each. Packets to a locator of the
//! correspondent leave by the link of that locator, and no node on another link answers for it (decision 136).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use moorline_types::{Ilv, Instant, L64, Locator, SessionId};

use crate::config::LocalLocator;
use crate::consts::{MAX_FAILED_PAIRS, NONCE_AFTER_CHANGE};
use crate::event::{Event, MoveCause};
use crate::machine::Machine;
use crate::paths::{Failed, Locators};
use crate::session::{RemoteLocator, Session, Sign};
use moorline_datapath::ilnp::USED_INTERVAL;

/// Place of a locator among the locators of a correspondent; less is better.
pub(crate) type Rank = (bool, bool, u16, bool, bool, bool);

impl Machine {
    /// The locator of a correspondent to send to: the best one that has a proof. `None` if no locator that the
    /// correspondent names has one.
    fn best_remote(
        &self,
        session: &Session,
        correspondent: Ilv,
        likely: Option<L64>,
        now: Instant,
    ) -> Option<L64> {
        let proven = session.remote.iter().filter(|remote| session.is_proven(remote.l64));
        let rank = |remote: &&RemoteLocator| self.rank(session, correspondent, likely, remote, now);
        proven.min_by_key(rank).map(|remote| remote.l64)
    }

    /// The criteria for a locator of a correspondent; less is better. The locator has not aged, one of ours reaches
    /// it, it is preferred, a specific route leads to it, it is `likely`, it is in use.
    pub(crate) fn rank(
        &self,
        session: &Session,
        correspondent: Ilv,
        likely: Option<L64>,
        remote: &RemoteLocator,
        now: Instant,
    ) -> Rank {
        let at = correspondent.at(remote.l64);
        let is_led = self.routes.are_specific_to(Locator(at.address()));
        let is_likely = Some(remote.l64) == likely;
        let is_used = remote.l64 == session.wire.1;
        let is_aged = remote.is_aged(now);
        (is_aged, !self.is_reached(at), remote.preference, !is_led, !is_likely, !is_used)
    }

    /// The locator of ours to send to `remote` from, for a session that uses `current`.
    pub(crate) fn best_local(&self, current: L64, remote: Ilv) -> Option<L64> {
        let rank = |local: &&LocalLocator| {
            (self.leads_elsewhere(local.l64, remote), local.preference, local.l64 != current)
        };
        self.locators.iter().min_by_key(rank).map(|local| local.l64)
    }

    /// As [`best_local`](Self::best_local), but the locator in use if the session has left the best one as silent.
    pub(crate) fn local_that_works(
        &self,
        session: &Session,
        current: L64,
        remote: Ilv,
    ) -> Option<L64> {
        let used = session.wire.0;
        let is_usable = self.has_locator(used) && !self.leads_elsewhere(used, remote);
        let best = self.best_local(current, remote)?;
        Some(if is_usable && session.failed.has_left(best, used) { used } else { best })
    }

    /// Chooses the locators of a session anew after a change of our locators or routes. Another locator of the
    /// correspondent is used if our locator is gone, or if none of ours reaches the correspondent's. Returns whether
    /// the session has moved.
    pub(crate) fn follow_routes(
        &mut self,
        id: SessionId,
        told: &BTreeSet<L64>,
        now: Instant,
    ) -> bool {
        let Some((pair, _)) = self.ilcc.key(id) else { return false };
        let Some(session) = self.ilcc.get(id) else { return false };
        let (local, mut remote) = session.wire;
        let has_current = self.has_locator(local);
        let cause = if has_current { MoveCause::Preferred } else { MoveCause::LocatorGone };
        if !has_current || !self.is_reached(pair.remote.at(remote)) {
            remote = self.best_remote(session, pair.remote, None, now).unwrap_or(remote);
        }
        let is_restored = told.is_empty() && has_current && remote == session.wire.1;
        let left = if is_restored { self.left_before((local, remote)) } else { Vec::new() };
        if let Some(session) = self.ilcc.get_mut(id) {
            session.failed = Failed::default();
            if let [best, others @ ..] = &left[..] {
                session.failed.leave(*best, others, now);
            }
        }
        self.send_to(id, (None, remote), told, cause, now)
    }

    /// The pairs with better locators of ours than a session uses that an earlier run has left in `used`; the best first.
    /// They may have failed, and nothing else tells this run. If they answer, the session goes back to them (decision
    /// 156).
    fn left_before(&self, (used, remote): Locators) -> Vec<Locators> {
        let preferred = self.locators.iter().take_while(|local| local.l64 != used);
        let of_used = self.locators.iter().find(|local| local.l64 == used);
        let better = preferred
            .filter(|local| of_used.is_some_and(|used| local.preference < used.preference));
        better.map(|local| (local.l64, remote)).take(MAX_FAILED_PAIRS).collect()
    }

    /// Has a session send to `remote`, from the best of our locators. Of equal locators the best is `likely`, where
    /// the correspondent has reached us. If the correspondent has been told of all our earlier locators, it knows
    /// those in `told`. A correspondent discards packets without a nonce from a locator that it does not know.
    /// Returns whether the session has moved.
    //= rfc6740#3.2.2-1 rfc6740#3.4-2
    fn send_to(
        &mut self,
        id: SessionId,
        (likely, remote): (Option<L64>, L64),
        told: &BTreeSet<L64>,
        cause: MoveCause,
        now: Instant,
    ) -> bool {
        let Some((pair, _)) = self.ilcc.key(id) else { return false };
        let Some(session) = self.ilcc.get(id) else { return false };
        let current = session.wire.0;
        let is_read = |local: L64| {
            local == pair.local.l64
                || Some(local) == likely
                || session.is_told() && told.contains(&local)
        };
        let at = pair.remote.at(remote);
        let is_usable = self.has_locator(current) && !self.leads_elsewhere(current, at);
        let local = self.local_that_works(session, likely.unwrap_or(current), at);
        let local = local.filter(|local| !is_usable || is_read(*local)).unwrap_or(current);
        // RFC 6744 s4: the nonce is in all packets for three round trips at least.
        self.send_by(id, (local, remote), now + NONCE_AFTER_CHANGE, cause)
    }

    /// Follows a correspondent that has sent an update from `source` to `came_to`, which may not be our locator any
    /// more. If no locator that the correspondent names has a proof, payload stays where it is.
    pub(crate) fn follow_correspondent(
        &mut self,
        id: SessionId,
        (source, came_to): (Ilv, L64),
        now: Instant,
    ) {
        let Some(session) = self.ilcc.get(id) else { return };
        let Some(remote) = self.best_remote(session, source, Some(source.l64), now) else { return };
        let told = self.told_to_all();
        // A correspondent repeats a Locator Update to our other locators, because a copy may be lost (RFC 6743 s4). So
        // the locator that it came to says nothing against locators that have just brought an answer.
        let works = remote == session.wire.1 && session.is_answered(now);
        let likely = (!works && self.has_locator(came_to)).then_some(came_to);
        let is_unanswered = session.is_unanswered();
        let local = session.wire.0;
        let has_moved = self.send_to(id, (likely, remote), &told, MoveCause::LocatorUpdate, now);
        if let Some(session) = self.ilcc.get_mut(id).filter(|_| has_moved && is_unanswered)
            && session.wire.0 == local
        {
            session.sign = Sign::Doubted;
        }
    }

    /// Follows a correspondent that has shown to be at another locator. The update that named it came from `source`, and the
    /// answer has come by `by`. If payload goes to where the answer has come from, it goes from where the answer has
    /// come to. If the locator of the correspondent in use is still the best one, the answer says nothing about ours.
    pub(crate) fn follow_proof(&mut self, id: SessionId, source: Ilv, by: Locators, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        let Some(remote) = self.best_remote(session, source, Some(source.l64), now) else { return };
        if remote == session.wire.1 {
            return;
        }
        let local = match remote == by.1 && self.has_locator(by.0) {
            true => Some(by.0),
            false => self.local_that_works(session, session.wire.0, source.at(remote)),
        };
        let Some(local) = local else { return };
        let until = now + NONCE_AFTER_CHANGE;
        self.send_by(id, (local, remote), until, MoveCause::LocatorUpdate);
    }

    /// Takes our best locator into use, once the correspondent has read all our locators.
    pub(crate) fn settle_on_best(&mut self, id: SessionId, nonce_until: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let (current, remote) = session.wire;
        if let Some(best) = self.local_that_works(session, current, pair.remote.at(remote)) {
            self.send_by(id, (best, remote), nonce_until, MoveCause::Preferred);
        }
    }

    /// Goes back to the locator of the sockets, which the correspondent knows, if this host has it again. The
    /// correspondent has not acknowledged the locator in use after many Locator Updates, and has sent none by it lately.
    /// Returns whether the session has moved.
    pub(crate) fn go_back(&mut self, id: SessionId, now: Instant) -> bool {
        let Some((pair, _)) = self.ilcc.key(id) else { return false };
        let Some(session) = self.ilcc.get(id) else { return false };
        let remote = session.wire.1;
        let (first, to) = (pair.local.l64, pair.remote.at(remote));
        let is_usable = self.has_locator(first) && !self.leads_elsewhere(first, to);
        // Our Locator Updates may have gone by other locators, before the correspondent led payload to these.
        let is_reached = session.without_sign(now).is_some_and(|time| time < USED_INTERVAL);
        let (until, cause) = (now + NONCE_AFTER_CHANGE, MoveCause::UpdateUnanswered);
        session.owes_update
            && is_usable
            && !is_reached
            && self.send_by(id, (first, remote), until, cause)
    }

    /// The locator of ours that the `nth` Locator Update goes from, to one of the correspondent's `remotes`: by turns
    /// the locator in use, which the correspondent knows, and the best one.
    pub(crate) fn source_of_update(
        &self,
        (current, remote): (L64, Ilv),
        nth: usize,
        remotes: usize,
    ) -> L64 {
        let is_turn = (nth / remotes.max(1)).is_multiple_of(2);
        let is_usable = self.has_locator(current) && !self.leads_elsewhere(current, remote);
        match self.best_local(current, remote) {
            Some(best) if !(is_turn && is_usable) => best,
            _ => current,
        }
    }

    /// Has a session send by these locators, if the correspondent's has a proof. If our locator changes, all packets
    /// have the nonce until `nonce_until`. Returns whether the session has moved.
    pub(crate) fn send_by(
        &mut self,
        id: SessionId,
        wire: Locators,
        nonce_until: Instant,
        cause: MoveCause,
    ) -> bool {
        let has_current = self.ilcc.get(id).is_some_and(|one| self.has_locator(one.wire.0));
        let Some((pair, _)) = self.ilcc.key(id) else { return false };
        let Some(session) = self.ilcc.get_mut(id) else { return false };
        let is_out = has_current && session.failed.has(wire) || !session.is_proven(wire.1);
        if session.wire == wire || is_out {
            return false;
        }
        if session.wire.0 != wire.0 {
            session.attach_until(nonce_until);
        }
        let from = session.wire_pair(pair);
        session.on_moved(wire, cause);
        let wire = session.wire_pair(pair);
        self.events.push_back(Event::Moved { session: id, from, wire, cause });
        true
    }

    fn is_reached(&self, remote: Ilv) -> bool {
        self.locators.iter().any(|local| !self.leads_elsewhere(local.l64, remote))
    }

    /// Whether packets from our locator to the correspondent would have to leave by another link than the link of the
    /// locator.
    pub(crate) fn leads_elsewhere(&self, local: L64, remote: Ilv) -> bool {
        let own = self.routes.toward(Locator(remote.address()));
        own.is_some_and(|own| own.iter().all(|own| Ilv::of(own.0).l64 != local))
    }
}
