use alloc::sync::Arc;
use alloc::vec::Vec;

use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_reap as reap;
use moorline_shim6 as shim6;
use moorline_shim6::Via;
use moorline_types::{ContextId, Instant, LocatorPair, UlidPair};
use moorline_wire::{LocatorPreference, Message};
use rand_core::RngCore;

use crate::active::{self, Active};
use crate::asked::Request;
use crate::control;
use crate::event::{Cause, Event, EventKind, Removal};
use crate::machine::{Contexts, is_beside, is_ours_now};
use crate::reply::Reply;
use crate::tally::Class;

/// Executes the decisions of context establishment and reachability detection.
impl Contexts {
    pub(crate) fn drain_shim6(&mut self, now: Instant) {
        while let Some(transmit) = self.shim6.poll_transmit() {
            self.transmit(transmit.via, &transmit.message, now);
        }
        while let Some(event) = self.shim6.poll_event() {
            self.on_shim6_event(event, now);
        }
        while let Some(transmit) = self.shim6.poll_transmit() {
            self.transmit(transmit.via, &transmit.message, now);
        }
    }

    fn transmit(&mut self, via: Via, message: &Message, now: Instant) {
        let (locators, context) = match via {
            Via::Pair(locators) => (locators, None),
            Via::Reply(id, locators) => (locators, Some(id)),
            Via::Current(id) => {
                let Some(locators) = self.way_of(id) else { return };
                (locators, Some(id))
            }
        };
        if !self.may_send_by(locators) {
            return;
        }
        if let (Some(id), Message::UpdateRequest(request)) = (context, message) {
            let before = &mut self.notes.entry(id).or_default().request;
            *before = Some(Request::after(*before, request.request_nonce, locators));
        }
        self.transmits.push_back(control::emit(locators, message));
        //= rfc5534#6.2
        if let Some(id) = context
            && let Some(active) = self.active.get_mut(&id)
        {
            active.note_control_sent(now);
            active.reap.handle_control_sent(now);
            let is_current = active.reap.current_pair() == locators;
            if is_current && matches!(message, Message::UpdateRequest(_)) {
                active.reap.handle_request_sent(now);
            }
            self.drain_reap(id, now);
        }
    }

    /// The pair for a message without a given pair: the current pair while it works. If it does not, nobody knows which
    /// pair works, and each repetition takes another one. For each locator of the peer, the locators of ours that the
    /// peer does not know come first: by the others REAP finds a path without a request. A peer that takes no request
    /// from an unknown source asks by R1bis at once.
    fn way_of(&self, id: ContextId) -> Option<LocatorPair> {
        let active = self.active.get(&id)?;
        let current = active.reap.current_pair();
        let is_there = self.may_send_by(current);
        if is_there && active.reap.state() == reap::State::Operational {
            return Some(current);
        }
        let established = self.shim6.context(id)?.established()?;
        let own = established.told().iter();
        let peers = &established.peer.locators;
        let pairs = own.flat_map(|&local| peers.iter().map(move |&p| LocatorPair::new(local, p)));
        let mut pairs: Vec<_> = pairs.filter(|pair| self.can_send_by(*pair)).collect();
        pairs.sort_by_key(|pair| {
            (pair.peer != current.peer, pair.peer, established.local_locators.contains(&pair.local))
        });
        let nth = usize::try_from(established.update_tries().saturating_sub(1)).unwrap_or(0);
        let in_turn = pairs.get(nth % pairs.len().max(1)).copied();
        in_turn.or(is_there.then_some(current))
    }

    fn on_shim6_event(&mut self, event: shim6::Event, now: Instant) {
        match event {
            shim6::Event::Initiated { context, ulids } => {
                self.tell(context, ulids, EventKind::Initiated);
            }
            shim6::Event::Established { context, role, locators } => {
                if let Some(ulids) = self.ulids(context) {
                    self.activate(context, locators, now);
                    self.tell(context, ulids, EventKind::Established { role });
                }
            }
            shim6::Event::Renewed { context } => {
                self.contests.end(context);
                if let Some(notes) = self.notes.get_mut(&context) {
                    notes.refusals = None;
                }
                if let Some(ulids) = self.ulids(context) {
                    self.tell(context, ulids, EventKind::Renewed);
                }
                if self.established(context).is_some_and(|established| !established.is_confirmed())
                {
                    self.on_peer_lost(context, now);
                }
                self.refresh_candidates(context, now);
            }
            shim6::Event::Announced { context } => self.refresh_candidates(context, now),
            shim6::Event::Confirmed { context } => self.on_confirmed(context, now),
            shim6::Event::Lapsed { context } => self.deactivate(context),
            shim6::Event::Confused { context, ulids } => {
                self.on_removed(context, ulids, Removal::Confused);
            }
            shim6::Event::Evicted { context, ulids } => {
                self.on_removed(context, ulids, Removal::Evicted);
            }
            shim6::Event::Failed { context, ulids, failure } => {
                self.steering.forget_rules(context);
                self.tell(context, ulids, EventKind::Failed { failure });
            }
            shim6::Event::HolddownOver { ulids } => self.updates.push_back(Update::Rearm { ulids }),
        }
    }

    /// Starts reachability detection of an established context, and tells the data plane.
    pub(crate) fn activate(&mut self, id: ContextId, current: LocatorPair, now: Instant) {
        let Some(context) = self.shim6.context(id) else { return };
        let Some(established) = context.established() else { return };
        let mut seed = [0; 16];
        self.rng.fill_bytes(&mut seed);
        let mut reap = reap::Machine::new(Arc::clone(&self.reap_config), current, seed, now);
        reap.handle_keepalive_timeout(established.peer.send_timeout.into());
        if !established.is_confirmed() {
            reap.handle_unconfirmed(now);
        }
        // Prefer the ULIDs: with this pair nothing is added to a packet.
        reap.handle_preferred(Some(context.key.ulids.as_locators()), now);
        reap.handle_ulids(context.key.ulids.as_locators());
        reap.handle_deprecated(&self.deprecated, now);
        let entry = self.entry_by(context, established, &reap);
        let told = active::digest(self.digest, &entry);
        let key = context.key;
        let place = self.tally.add(Class::of(key.ulids, &reap));
        self.active.insert(id, Active::new(reap, told, place, now));
        if self.steering.spreads_new {
            self.notes.entry(id).or_default().is_spread = true;
        }
        self.add_to_plane(entry, key);
        self.refresh_candidates(id, now);
    }

    /// Stops reachability detection and removes the context from the data plane.
    pub(crate) fn deactivate(&mut self, id: ContextId) {
        if let Some(active) = self.active.remove(&id) {
            self.tally.remove(active.place);
            self.deadlines.set(id.0, None);
            self.questions.forget(id);
            self.contests.end(id);
            self.notes.remove(&id);
            self.updates.push_back(Update::Remove { context: id });
        }
    }

    /// A context is gone. Its traffic is plain IPv6, and may trigger another context.
    pub(crate) fn on_removed(&mut self, id: ContextId, ulids: UlidPair, removal: Removal) {
        self.deactivate(id);
        self.steering.forget_rules(id);
        self.updates.push_back(Update::Rearm { ulids });
        self.tell(id, ulids, EventKind::Removed { removal });
    }

    pub(crate) fn refresh_candidates(&mut self, id: ContextId, now: Instant) {
        self.hint(id, now);
        let Some(context) = self.shim6.context(id) else { return };
        let Some(established) = context.established() else { return };
        let (ulids, known) = (context.key.ulids, established.local_locators.clone());
        let peer = established.peer.locators.clone();
        let local = self.local_toward(&known, &peer);
        let unrouted = self.unrouted(ulids, &local, &peer);
        let current = self.active.get(&id).map(|active| active.reap.current_pair());
        // The link of the current pair has lost its default route, and leads to another locator of the peer.
        let is_stranded =
            current.is_some_and(|pair| local.contains(&pair.local) && !self.can_send_by(pair));
        let context = self.shim6.context(id);
        let Some(established) = context.and_then(shim6::Context::established) else { return };
        let peer = &established.peer;
        let locators = peer.oldest_first();
        let ulids = context.map(|context| context.key.ulids.as_locators());
        let Some(active) = self.active.get_mut(&id) else { return };
        let ranks: Vec<_> = if peer.has_preferences() {
            locators.iter().map(|locator| rank(peer.preference_of(*locator))).collect()
        } else {
            Vec::new()
        };
        let had_ranks = active.reap.has_ranks();
        active.reap.handle_keepalive_timeout(peer.send_timeout.into());
        active.reap.handle_candidates(&local, &locators, &ranks, &unrouted, now);
        ulids.into_iter().for_each(|ulids| active.reap.handle_ulids(ulids));
        if is_stranded {
            active.reap.handle_local_failure(now);
        }
        if had_ranks || !ranks.is_empty() {
            self.go_home(id, now);
        }
        self.consider(id, now);
        self.drain_reap(id, now);
    }

    /// Gives a context the knowledge of other contexts, before any input that may begin an exploration.
    pub(crate) fn hint(&mut self, id: ContextId, now: Instant) {
        if let Some(active) = self.active.get_mut(&id)
            && active.reap.state() == reap::State::Operational
        {
            let learned = self.learned.recall(active.reap.current_pair(), now);
            active.reap.handle_hint(learned);
        }
    }

    /// Tells the data plane of a new context. Among contexts with the same ULIDs, the data plane finds the latest by
    /// the ULIDs, and the others by their tags only. So the context that is no fork must come last.
    fn add_to_plane(&mut self, entry: ContextEntry, key: shim6::Key) {
        let first = self.shim6.by_key(shim6::Key::of(key.ulids));
        let first = first.filter(|first| first.id != entry.id).and_then(|first| self.entry(first));
        if let Some(first) = &first {
            self.updates.push_back(Update::Remove { context: first.id });
        }
        for entry in [Some(entry), first].into_iter().flatten() {
            self.updates.push_back(Update::Upsert(entry));
        }
    }

    pub(crate) fn entry(&self, context: &shim6::Context) -> Option<ContextEntry> {
        let active = self.active.get(&context.id)?;
        Some(self.entry_by(context, context.established()?, &active.reap))
    }

    /// Executes the decisions that a context's REAP machine has made without a request.
    pub(crate) fn drain_reap(&mut self, id: ContextId, now: Instant) {
        self.drain_reap_by(id, Pace::Own, now);
    }

    /// Sends the messages of a REAP machine, as the pace allows.
    fn transmit_reap(&mut self, id: ContextId, pace: Pace, now: Instant) {
        if let Pace::Answer(waiting) = pace {
            let drawn = |own: &mut Self| own.active.get_mut(&id)?.reap.poll_drawn(waiting);
            while let Some(transmit) = drawn(self) {
                self.send_reap(id, transmit, now);
            }
        }
        let mut is_paid = pace == Pace::Paid;
        while self.take_room(id, &mut is_paid, now) {
            let transmit = self.active.get_mut(&id).and_then(|one| one.reap.poll_transmit());
            let Some(transmit) = transmit else { return };
            self.send_reap(id, transmit, now);
        }
    }

    /// Takes room for the next message of a REAP machine, and returns whether it may leave. A probe without room has its
    /// context wait for its turn, and checks without room are refused. `is_paid`: the turn of a probe has come.
    fn take_room(&mut self, id: ContextId, is_paid: &mut bool, now: Instant) -> bool {
        let Some(active) = self.active.get_mut(&id) else { return false };
        let Some(context) = self.shim6.context(id) else { return false };
        if context.established().is_none() {
            return false;
        }
        if active.reap.has_probe() {
            if core::mem::take(is_paid) {
                active.reap.handle_room(now);
            } else if !self.pacer.take(now) {
                if !core::mem::replace(&mut active.is_waiting, true) {
                    self.pacer.wait(context.key.ulids.peer.prefix(), id);
                }
                return false;
            }
        }
        if active.reap.has_check() {
            let has_room = if active.reap.can_wait() {
                self.pacer.take_comparison(now)
            } else {
                self.pacer.take_standby(now)
            };
            if !has_room {
                active.reap.handle_checks_refused(now);
            }
        }
        true
    }

    fn send_reap(&mut self, id: ContextId, transmit: reap::Transmit, now: Instant) {
        let Some(active) = self.active.get_mut(&id) else { return };
        let established = self.shim6.context(id).and_then(shim6::Context::established);
        let Some(established) = established else { return };
        let is_ours = is_ours_now(&self.usable, &self.gone, &self.shim6, transmit.pair.local);
        if is_ours || is_beside(&self.beside, &self.routes, transmit.pair) {
            let message = control::reap_message(established.peer_tag, transmit.message);
            active.note_control_sent(now);
            self.transmits.push_back(control::emit(transmit.pair, &message));
        }
    }

    /// Sends the waiting probes, as far as the pace allows.
    pub(crate) fn send_waiting(&mut self, now: Instant) {
        while let Some(id) = self.pacer.pop(now) {
            let Some(active) = self.active.get_mut(&id) else { continue };
            active.is_waiting = false;
            // The state that the probe was for may have passed meanwhile.
            if active.reap.has_probe() {
                self.pacer.pay_turn(now);
                self.drain_reap_by(id, Pace::Paid, now);
            }
        }
    }

    /// Executes the decisions of a context's REAP machine.
    pub(crate) fn drain_reap_by(&mut self, id: ContextId, pace: Pace, now: Instant) {
        self.answer_standby_question(id, now);
        self.transmit_reap(id, pace, now);
        let Some(active) = self.active.get(&id) else { return };
        let Some(context) = self.shim6.context(id) else { return };
        let Some(established) = context.established() else { return };
        let ulids = context.key.ulids;
        let entry = self.entry_by(context, established, &active.reap);
        let told = active::digest(self.digest, &entry);
        let Some(active) = self.active.get_mut(&id) else { return };
        active.place = self.tally.change(active.place, Class::of(ulids, &active.reap));
        if told != active.told {
            active.told = told;
            self.updates.push_back(Update::Upsert(entry));
        }
        self.deadlines.set(id.0, active.reap.poll_timeout().map(|(at, _)| at));
        while let Some(event) = self.active.get_mut(&id).and_then(|a| a.reap.poll_event()) {
            self.on_reap_event(id, ulids, event, now);
        }
    }

    fn on_reap_event(
        &mut self,
        context: ContextId,
        ulids: UlidPair,
        event: reap::Event,
        now: Instant,
    ) {
        let Some(active) = self.active.get_mut(&context) else { return };
        let kind = match event {
            reap::Event::StateChanged { from, to, cause } => {
                if to == reap::State::Operational && is_answer(cause) {
                    self.pacer.on_answer();
                }
                EventKind::StateChanged { from, to, cause }
            }
            reap::Event::Moved { from, to, cause } => {
                active.since = now;
                active.cause = Some(cause);
                self.shim6.handle_traffic(context);
                // The ULIDs have not answered, if the cause is that no pair does.
                if !matches!(cause, Cause::FailBack | Cause::Unanswered) {
                    self.learned.note(from, to, now);
                }
                if cause != Cause::FailBack {
                    self.on_pair_left(context, from, cause, now);
                }
                self.on_steered(context, to, cause, now);
                EventKind::Moved { from, to, cause }
            }
            reap::Event::Unreachable { probes } => EventKind::Unreachable { probes },
            reap::Event::Suspected { hint } => {
                EventKind::Suspected { locators: active.reap.current_pair(), hint }
            }
            reap::Event::Cleared { hint, after } => EventKind::Cleared { hint, after },
            reap::Event::Answered { pair, rtt } => {
                return self.steering.note_answer(pair, rtt, now);
            }
            reap::Event::Worse { than, cause, .. } => {
                // A pinned context stays.
                _ = self.switch(context, than, cause, now);
                return;
            }
            reap::Event::Unanswered { pair, cause } => EventKind::Unanswered { pair, cause },
            reap::Event::Replied { pair, at } => {
                return self.replies.push_back(Reply { context, pair, at });
            }
            reap::Event::Missed { pair } => return self.on_missed(context, pair),
            reap::Event::Checked { pair, at, rtt } => {
                return self.on_standby_checked(context, pair, (at, rtt), now);
            }
        };
        self.tell(context, ulids, kind);
    }

    /// Queues an event.
    pub(crate) fn tell(&mut self, context: ContextId, ulids: UlidPair, kind: EventKind) {
        self.events.push_back(Event { context, ulids, kind });
    }
}

/// The messages that a context may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Messages that an incoming one has drawn, and then probes without a request. The drawn probes are those behind the
    /// one with this nonce.
    Answer(Option<u32>),
    /// One probe whose turn has come, and more if there is room.
    Paid,
    /// Probes without a request, if there is room.
    Own,
}

/// Whether an exploration that ends with this cause has had a probe answered.
fn is_answer(cause: Cause) -> bool {
    matches!(cause, Cause::ProbeInboundOk | Cause::ProbeOperational)
}

/// A peer's preference for a locator, in the form of REAP: less is better.
pub(crate) fn rank(preference: LocatorPreference) -> reap::Rank {
    reap::Rank {
        is_broken: preference.is_broken(),
        is_transient: preference.is_transient(),
        priority: preference.priority.unwrap_or(0),
    }
}
