use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;

use moorline_contexts::{Contexts, Incoming, Key, Removal};
use moorline_datapath as datapath;
use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_ilnp::consts::{MAX_PROPOSALS, MAX_SESSIONS};
use moorline_ilnp::{Event, Machine as Sessions, MoveCause, Question};
use moorline_types::{DropReason, Ilv, IlvPair, Instant, Locator, LocatorPair, Retry, UlidPair};
use moorline_wire::{MessageType, Packet};

use crate::batch::Batch;
use crate::doubts::Doubts;
use crate::effect::Effect;
use crate::flaps::Flaps;
use crate::following::Following;
use crate::health::Health;
use crate::moved::MovedPairs;
use crate::refused::Refused;
use crate::routing::Routing;

/// The protocols of a host, and the routes and addresses that these need.
///
/// After each input the caller executes the effects until [`poll_effect`](Self::poll_effect) gives none, and sleeps
/// until [`poll_timeout`](Self::poll_timeout). Equal seeds and inputs give equal effects.
#[derive(Clone, Debug)]
pub struct Host {
    pub(crate) shim6: Contexts,
    pub(crate) ilnp: Option<Sessions>,
    pub(crate) moved: MovedPairs,
    pub(crate) routing: Routing,
    pub(crate) following: Following,
    pub(crate) health: Health,
    pub(crate) doubts: Doubts,
    pub(crate) flaps: Flaps,
    /// Number by which peers take turns to be asked about uplinks.
    pub(crate) turns: usize,
    /// Whether other uplinks fail than before, and nobody has been told yet.
    pub(crate) is_health_due: bool,
    /// Time when [`Effect::PreferRoute`] sets its route again, if there is one.
    pub(crate) preferred: Option<Instant>,
    /// Time until which the route of [`Effect::PreferRoute`] of a run before stays.
    pub(crate) left_until: Option<Instant>,
    /// Timer for addresses, rules and the node that could not be set.
    pub(crate) retry: Retry,
    pub(crate) refused: Refused,
    /// Pairs whose traffic has earned a context while ILNP has them, or asks the peer for them.
    triggered: BTreeSet<UlidPair>,
    /// The newest I1 of each peer that has sent one while ILNP asks it. An answer to an older I1 would have a nonce
    /// that the peer has forgotten.
    i1s: BTreeMap<UlidPair, (Vec<u8>, LocatorPair)>,
    /// Updates of the host itself, which go before those of the contexts.
    updates: VecDeque<datapath::shim6::Update>,
    /// Effects to execute next.
    pub(crate) effects: VecDeque<Effect>,
    /// Effects to execute when there are no others.
    pub(crate) last_effects: VecDeque<Effect>,
}

impl Host {
    /// Makes a host with these machines, which have no state yet.
    #[must_use]
    pub fn new(shim6: Contexts, ilnp: Option<Sessions>) -> Self {
        Self {
            shim6,
            ilnp,
            moved: MovedPairs::new(),
            routing: Routing::default(),
            following: Following::default(),
            health: Health::new(Vec::new(), [0; 32]),
            doubts: Doubts::default(),
            flaps: Flaps::default(),
            turns: 0,
            is_health_due: false,
            preferred: None,
            left_until: None,
            retry: Retry::default(),
            refused: Refused::default(),
            last_effects: VecDeque::new(),
            triggered: BTreeSet::new(),
            i1s: BTreeMap::new(),
            updates: VecDeque::new(),
            effects: VecDeque::new(),
        }
    }

    /// The contexts of Shim6.
    #[must_use]
    pub const fn shim6(&self) -> &Contexts {
        &self.shim6
    }

    /// The contexts, for inputs to Shim6 alone. Their effects come out of [`poll_effect`](Self::poll_effect).
    pub const fn shim6_mut(&mut self) -> &mut Contexts {
        &mut self.shim6
    }

    /// The sessions of ILNP, if the host speaks it.
    #[must_use]
    pub const fn ilnp(&self) -> Option<&Sessions> {
        self.ilnp.as_ref()
    }

    /// The sessions, for inputs to ILNP alone. Their effects come out of [`poll_effect`](Self::poll_effect).
    pub const fn ilnp_mut(&mut self) -> Option<&mut Sessions> {
        self.ilnp.as_mut()
    }

    /// Whether Shim6 has moved the payload of this pair, so that ILNP leaves it alone. A context of a run before that
    /// waits to be taken over counts.
    #[must_use]
    pub fn has_moved(&self, pair: UlidPair) -> bool {
        self.moved.contains(pair) || self.shim6.waiting().has_moved(pair)
    }

    /// Takes a control packet of protocol 140, from its Next Header octet on.
    ///
    /// The host drops a message to an address of no uplink, because the data plane takes no payload there: if the
    /// host acknowledged a probe, the peer would send payload there. The host does not answer an I1 whose ULIDs have
    /// a session, or an I1 to an address that it has for sessions alone. If ILNP asks the peer about the ULIDs of an
    /// I1, the I1 waits for the answer.
    pub fn handle_shim6(&mut self, octets: &[u8], locators: LocatorPair, now: Instant) {
        if !self.takes_payload_at(locators.local) {
            return self.shim6.count_drop(DropReason::NotOurs);
        }
        let ulids = self.ilnp.as_ref().and_then(|_| ulids_of_i1(octets, locators, now));
        match ulids {
            Some(_) if self.is_for_sessions(locators.local) => {}
            Some(pair) if self.has_agreed_session(pair) => {
                // The peer may have lost the session, and may not have reached this host with a proposal.
                if let Some(ilnp) = &mut self.ilnp {
                    ilnp.handle_rival(IlvPair::of(pair), now);
                }
            }
            Some(pair) if self.is_taken(pair) => self.keep_i1(pair, octets, locators),
            Some(_) | None => self.shim6.handle_control(octets, locators, now),
        }
    }

    /// Takes a report of the data plane of Shim6. If ILNP has a pair, or asks its peer, the pair's traffic earns no
    /// context.
    pub fn handle_shim6_report(&mut self, report: datapath::shim6::Report, now: Instant) {
        if let datapath::shim6::Report::Trigger { ulids } = report
            && self.is_taken(ulids)
        {
            if self.triggered.len() < MAX_TRIGGERED {
                self.triggered.insert(ulids);
            }
        } else {
            self.shim6.handle_report(report, now);
        }
    }

    /// Takes a whole control packet of ILNP.
    pub fn handle_ilnp(&mut self, packet: &[u8], now: Instant) {
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.handle_control(packet, now);
        }
    }

    /// Answers a question of [`Effect::AskSockets`].
    pub fn answer(&mut self, question: Question, sockets: &dyn Sockets, now: Instant) {
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.answer(question, sockets, now);
        }
    }

    /// Answers all waiting questions before the other effects. If many control packets come at once, each of them is
    /// answered.
    pub fn answer_all(&mut self, sockets: &dyn Sockets, now: Instant) {
        while let Some(question) = self.poll_question(now) {
            self.answer(question, sockets, now);
        }
    }

    /// Takes a report of the data plane of ILNP. The host ignores traffic of a pair that Shim6 has moved.
    pub fn handle_ilnp_report(&mut self, report: datapath::ilnp::Report, now: Instant) {
        let is_of_shim6 = matches!(
            report,
            datapath::ilnp::Report::Candidate { pair, .. } if self.has_moved(pair.ulids())
        );
        if let Some(ilnp) = self.ilnp.as_mut().filter(|_| !is_of_shim6) {
            ilnp.handle_report(report, now);
        }
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.shim6.poll_timeout().is_some_and(|(at, _)| at <= now) {
            self.shim6.handle_timeout(now);
        }
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.handle_timeout(now);
        }
        self.handle_route_timeouts(now);
    }

    /// Time when [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let shim6 = self.shim6.poll_timeout().map(|(at, _)| at);
        let ilnp = self.ilnp.as_ref().and_then(Sessions::poll_timeout);
        [shim6, ilnp, self.poll_route_timeout()].into_iter().flatten().min()
    }

    /// The next effect; `None` until the next input.
    #[must_use]
    pub fn poll_effect(&mut self, now: Instant) -> Option<Effect> {
        while self.effects.is_empty() {
            self.plan_effects(now);
            if !self.effects.is_empty() || !self.follow_on(now) {
                break;
            }
        }
        self.effects.pop_front().or_else(|| self.last_effects.pop_front())
    }

    /// Adds all present outputs of the protocols behind the waiting effects.
    pub(crate) fn plan_effects(&mut self, now: Instant) {
        let mut batch = Batch::default();
        let mut is_empty = true;
        while self.take_ilnp(&mut batch, now) || self.take_shim6(&mut batch, now) {
            is_empty = false;
        }
        if !is_empty {
            self.order(batch, now);
        }
        if mem::take(&mut self.is_health_due) {
            self.on_health(now);
        }
    }

    /// The next output of ILNP, if there is one.
    fn take_ilnp(&mut self, batch: &mut Batch, now: Instant) -> bool {
        if let Some(question) = self.poll_question(now) {
            batch.socket_questions.push(question);
            return true;
        }
        let Some(ilnp) = &mut self.ilnp else { return false };
        if let Some(update) = ilnp.poll_update() {
            batch.session_updates.push(update);
        } else if let Some(transmit) = ilnp.poll_transmit() {
            batch.ilnp_transmits.push(transmit);
        } else if let Some(event) = ilnp.poll_event() {
            self.on_session_event(&event, now);
            batch.session_events.push(event);
        } else {
            return false;
        }
        true
    }

    /// The next output of Shim6, if there is one.
    fn take_shim6(&mut self, batch: &mut Batch, now: Instant) -> bool {
        if let Some(transmit) = self.shim6.poll_transmit() {
            batch.shim6_transmits.push(transmit);
        } else if let Some(update) = self.updates.pop_front() {
            batch.add_context_update(update);
        } else if let Some(update) = self.shim6.poll_datapath() {
            self.note_owner(&update);
            batch.add_context_update(update);
        } else if let Some(event) = self.shim6.poll_event() {
            self.on_context_event(&event, now);
            batch.context_events.push(event);
        } else if let Some(reply) = self.shim6.poll_reply() {
            self.on_reply(reply, now);
        } else if let Some((context, standby)) = self.shim6.poll_missed() {
            self.on_missed(context, standby, now);
        } else if let Some(question) = self.shim6.poll_question() {
            batch.usage_questions.push(question);
        } else {
            return false;
        }
        true
    }

    fn on_session_event(&mut self, event: &Event, now: Instant) {
        match *event {
            Event::Established { pair, .. } => self.on_session(pair.ulids()),
            Event::Classic { pair, .. }
            | Event::Forgotten { pair, .. }
            | Event::GivenUp { pair } => {
                self.on_no_session(pair.ulids(), now);
            }
            Event::Moved { from, wire, cause: MoveCause::Suspicion, .. } => {
                self.on_silent_locators(from, wire, now);
            }
            Event::Moved { .. }
            | Event::Regained { .. }
            | Event::UpdateAcknowledged { .. }
            | Event::UpdateUnanswered { .. } => {}
        }
    }

    /// The next question to the sockets. For a pair that Shim6 has moved, the answer to ILNP is "no socket".
    fn poll_question(&mut self, now: Instant) -> Option<Question> {
        loop {
            let question = self.ilnp.as_mut()?.poll_question()?;
            let Question::Socket { id, pair, .. } = question else { return Some(question) };
            if !self.has_moved(pair.ulids()) {
                return Some(question);
            }
            self.ilnp.as_mut()?.handle_socket(id, Socket::None, now);
        }
    }

    /// Handles a pair that has a session now. A context that has not moved gives way, also one that waits for the
    /// answer to its I1. If the session ends, the traffic counts for Shim6 again.
    fn on_session(&mut self, pair: UlidPair) {
        self.forget_waiting(pair);
        for id in self.shim6.of_pair(pair).collect::<Vec<_>>() {
            self.shim6.remove(id, Removal::Requested);
        }
        self.updates.push_back(datapath::shim6::Update::Rearm { ulids: pair });
    }

    /// Handles a pair that has no session, or none any more: Shim6 takes the I1 and the trigger that have waited.
    fn on_no_session(&mut self, pair: UlidPair, now: Instant) {
        if self.is_taken(pair) {
            return;
        }
        if let Some((octets, locators)) = self.i1s.remove(&pair) {
            self.shim6.handle_control(&octets, locators, now);
        }
        if self.triggered.remove(&pair) {
            self.shim6.handle_report(datapath::shim6::Report::Trigger { ulids: pair }, now);
        }
    }

    /// Notes the pairs that Shim6 has moved. If ILNP has a session of the pair, a new context goes. If the
    /// correspondent has not shown that it knows the session, the session goes instead. A session that is not agreed
    /// on yet goes when a context moves.
    fn note_owner(&mut self, update: &datapath::shim6::Update) {
        let entry = match update {
            datapath::shim6::Update::Upsert(entry) => entry,
            datapath::shim6::Update::Remove { context } => return self.moved.remove(*context),
            datapath::shim6::Update::Heard { .. } | datapath::shim6::Update::Rearm { .. } => return,
        };
        if let Some(ilnp) = self.ilnp.as_mut().filter(|_| entry.is_moved()) {
            ilnp.withdraw(IlvPair::of(entry.ulids));
            self.forget_waiting(entry.ulids);
        }
        let is_there = self.shim6.context(entry.id).is_some_and(|one| one.ulids == entry.ulids);
        if let Some(ilnp) = self.ilnp.as_mut().filter(|_| is_there) {
            ilnp.handle_context(IlvPair::of(entry.ulids));
        }
        if self.has_session(entry.ulids) {
            self.shim6.remove(entry.id, Removal::Requested);
        } else if entry.is_moved() || self.shim6.sends_by_ulids(entry.id) {
            self.moved.insert(entry.id, entry.ulids);
        } else {
            self.moved.remove(entry.id);
        }
    }

    /// Whether an address joins an identifier and a locator of ILNP, and the host has it for sessions alone.
    fn is_for_sessions(&self, address: Locator) -> bool {
        let Ilv { l64, nid } = Ilv::of(address.0);
        let has = |ilnp: &Sessions| {
            ilnp.nids().contains(&nid) && ilnp.locators().iter().any(|local| local.l64 == l64)
        };
        let is_made = self.is_session_address(address.0);
        (is_made || self.ilnp.as_ref().is_some_and(has)) && !self.shim6.usable().contains(&address)
    }

    /// Keeps an I1 in place of an older one of the same pair.
    fn keep_i1(&mut self, pair: UlidPair, octets: &[u8], locators: LocatorPair) {
        if octets.len() <= MAX_I1 && (self.i1s.len() < MAX_I1S || self.i1s.contains_key(&pair)) {
            self.i1s.insert(pair, (octets.to_vec(), locators));
        }
    }

    fn forget_waiting(&mut self, pair: UlidPair) {
        self.triggered.remove(&pair);
        self.i1s.remove(&pair);
    }

    #[cfg(test)]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.triggered.is_empty() || !self.i1s.is_empty()
    }

    fn has_agreed_session(&self, pair: UlidPair) -> bool {
        self.ilnp.as_ref().is_some_and(|ilnp| ilnp.has_agreed_session(IlvPair::of(pair)))
    }

    fn has_session(&self, pair: UlidPair) -> bool {
        self.ilnp.as_ref().is_some_and(|ilnp| ilnp.has_session(IlvPair::of(pair)))
    }

    fn is_taken(&self, pair: UlidPair) -> bool {
        self.ilnp.as_ref().is_some_and(|ilnp| ilnp.is_taken(IlvPair::of(pair)))
    }
}

/// The ULIDs of an I1, which may come from another locator; `None` if the message is no I1 or cannot be read.
fn ulids_of_i1(octets: &[u8], locators: LocatorPair, now: Instant) -> Option<UlidPair> {
    let is_i1 = MessageType::new(*octets.get(TYPE_AT)?) == MessageType::I1;
    let LocatorPair { local, peer } = locators;
    let packet = is_i1.then(|| Packet::parse(octets, peer.0, local.0))?.ok()?;
    Some(Key::read(&Incoming { packet: &packet, locators, now }).ok()?.ulids)
}

/// Offset of the type in a Shim6 control message (RFC 5533 s5.3).
const TYPE_AT: usize = 2;
/// Largest number of kept I1s: enough for all pairs that ILNP can ask about at a time, and for some sessions that are
/// not agreed on yet.
const MAX_I1S: usize = 2 * MAX_PROPOSALS;
/// Largest number of pairs whose traffic waits: as many as ILNP can have and ask about.
const MAX_TRIGGERED: usize = MAX_SESSIONS + MAX_PROPOSALS;
/// Largest length of a kept I1, octets: that of a packet of the smallest MTU.
const MAX_I1: usize = moorline_wire::ip6::MIN_MTU as usize;
