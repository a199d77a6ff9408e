use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use moorline_types::{DropReason, IlvPair, Instant, L64, SessionId};
use moorline_wire::ilnp::{AdmissionFlags, L64Entry, LocatorUpdate, Operation};

use crate::advertisement::{Advertisement, Question};
use crate::config::{LocalLocator, LocalState};
use crate::consts::{HEARD_TURNS, MAX_REMOTE_LOCATORS, NONCE_AFTER_AGREEMENT, NONCE_ROUND_TRIPS};
use crate::event::Event;
use crate::machine::Machine;
use crate::paths::Came;
use crate::received::Received;
use crate::session::{Opening, Session};
use moorline_index::Class;
use moorline_wire::ilnp::Control;

impl Machine {
    /// Takes the present identifiers, locators and routes of this node. If the locators or preferences have changed,
    /// the machine tells the correspondents: [`PACED_BATCH`](crate::consts::PACED_BATCH) at once, and as many in each
    /// [`PACED_INTERVAL`](crate::consts::PACED_INTERVAL). Sessions that have moved come first, then those that were used last.
    pub fn handle_local(&mut self, state: &LocalState, now: Instant) {
        self.nids = state.nids.iter().copied().filter(|nid| !nid.is_group()).collect();
        let locators = self.best_of(&state.locators);
        let is_rerouted = self.routes != state.routes;
        if locators == self.locators && !is_rerouted {
            return;
        }
        self.routes.clone_from(&state.routes);
        let told = self.told_to_all();
        let named = |all: &[LocalLocator]| -> BTreeSet<_> {
            all.iter().map(|local| (local.l64, local.preference)).collect()
        };
        let is_news = named(&locators) != named(&self.locators);
        self.locators = locators;
        self.follow_slots();
        if self.locators.is_empty() || !is_news && !is_rerouted {
            return;
        }
        self.tell_sessions(&told, is_news, now);
    }

    /// The best of these locators, as many as a correspondent keeps, and those of the others that sessions use: preferred
    /// ones first, then those that the host names first. Any node on a link can advertise prefixes. So sessions, which any
    /// node can begin, put no locator before another one.
    fn best_of(&self, all: &[LocalLocator]) -> Vec<LocalLocator> {
        let mut seen = BTreeSet::new();
        let is_new = |one: &&LocalLocator| one.l64.is_global_unicast() && seen.insert(one.l64);
        let mut locators: Vec<_> = all.iter().filter(is_new).copied().collect();
        locators.sort_by_key(|one| one.preference);
        if locators.len() > MAX_REMOTE_LOCATORS {
            let used: BTreeSet<_> = self.ilcc.iter().map(|(.., session)| session.wire.0).collect();
            let others = locators.split_off(MAX_REMOTE_LOCATORS);
            locators.extend(others.into_iter().filter(|one| used.contains(&one.l64)));
        }
        locators
    }

    /// The locators that all correspondents are told. If there are more locators than a correspondent keeps, the place of
    /// the last one is for the locator that a session uses.
    pub(crate) fn told_to_all(&self) -> BTreeSet<L64> {
        let is_cut = self.locators.len() > MAX_REMOTE_LOCATORS;
        let all = self.locators.iter().take(MAX_REMOTE_LOCATORS - usize::from(is_cut));
        all.map(|local| local.l64).collect()
    }

    /// Has all sessions follow our locators and routes. `is_news`: the correspondents have to be told the locators.
    fn tell_sessions(&mut self, told: &BTreeSet<L64>, is_news: bool, now: Instant) {
        let sessions: Vec<_> = self.ilcc.iter().map(|(id, _, _)| id).collect();
        let mut due = Vec::new();
        for id in sessions {
            let is_moved = self.follow_routes(id, told, now);
            self.prove(id, now);
            let Some(session) = self.ilcc.get_mut(id) else { continue };
            if (is_news || is_moved && !session.agreed) && session.owe_update() {
                due.push((!is_moved, Reverse(session.last_used), id));
            }
            if is_news || is_moved {
                self.tell(id, now);
                self.schedule(id);
            }
        }
        due.sort_unstable();
        self.tell_in_turn(due.into_iter().map(|(_, _, id)| id).collect(), now);
    }

    /// Sends a Locator Update after the handshake, if we have another locator than the handshake has shown.
    pub(crate) fn advertise_if_of_use(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let known = self.locators.iter().all(|local| local.l64 == pair.local.l64);
        let is_agreed = self.ilcc.get(id).is_some_and(|session| session.agreed);
        if is_agreed && !known {
            self.advertise(id, now);
        }
    }

    /// Tells the correspondent all our locators, repeatedly until it acknowledges them (RFC 6743 s4).
    //= rfc6743#4-1 rfc6743#2-5
    pub(crate) fn advertise(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get_mut(id) else { return };
        if self.locators.is_empty() {
            return;
        }
        session.sent = session.sent.wrapping_add(1);
        session.owes_update = true;
        self.say_locators(id, now);
        self.tell(id, now);
    }

    /// Our locators, as a Locator Update of this session names them. A correspondent that did no handshake goes by
    /// preferences alone, whatever source our packets have, and a locator that the session does not use may have
    /// failed. So the locator in use is better than others with the same preference.
    pub(crate) fn told_locators(&self, session: &Session) -> Vec<L64Entry> {
        let used = session.wire.0;
        let preferred = self.locators.iter().find(|local| local.l64 == used);
        let preferred = preferred.map(|local| local.preference);
        let preference = |local: &LocalLocator| match local.preference {
            as_set if session.agreed || local.l64 == used => as_set,
            _ if session.failed.has_left(local.l64, used) => u16::MAX,
            as_set if Some(as_set) == preferred => as_set.saturating_add(1),
            as_set => as_set,
        };
        let entry = |local: &LocalLocator| L64Entry {
            preference: preference(local),
            l64: local.l64,
            lifetime: local.lifetime,
        };
        let (told, others) = self.locators.split_at(self.locators.len().min(MAX_REMOTE_LOCATORS));
        let mut told: Vec<_> = told.iter().map(entry).collect();
        if let Some(local) = others.iter().find(|local| local.l64 == used) {
            told.pop();
            told.push(entry(local));
        }
        told
    }

    /// Begins to send the Locator Update with the last number.
    pub(crate) fn say_locators(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        let locators = self.told_locators(session);
        let is_question = !session.owes_update;
        let mut question =
            if is_question { self.begin_question(id, now) } else { Question::default() };
        let Some(session) = self.ilcc.get_mut(id) else { return };
        question.on_used(session.last_used);
        question.heard = session.advertisement.as_ref().and_then(|sent| sent.question.heard);
        let turns = session.advertisement.as_ref().map(|sent| sent.question.unheard_turns);
        question.unheard_turns = turns.unwrap_or(HEARD_TURNS);
        let retry = session.retry(now).or_sooner(session.retry_of_update(now));
        session.advertisement =
            Some(Box::new(Advertisement { locators, question, retry, confirmed_at: None }));
        self.send_advertisement(id, now);
        self.schedule(id);
    }

    /// Handles a Locator Update. Without the right nonce it changes nothing (RFC 6743 s6).
    //= rfc6743#6-3 rfc6743#6-4 rfc6743#6-5 rfc6744#7-3 rfc6744#7-5 rfc6744#7-6
    //= rfc6741#11.1-7 rfc6741#11.1-8
    pub(crate) fn on_locator_update(
        &mut self,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let nonce = control.nonce.ok_or(DropReason::MissingOption)?;
        let (local, remote) = control.pair.nids();
        let id = self.ilcc.find_nonce(local, remote, nonce);
        let received = self.read_update(control, id);
        let Some(id) = id else {
            if received.is_ok_and(|one| one.update.operation == Operation::ADVERTISEMENT) {
                self.deny(control, now);
            }
            return Err(DropReason::BadNonce);
        };
        let received = received?;
        let (update, local_at) = (&received.update, control.pair.local.l64);
        match update.operation {
            Operation::ADVERTISEMENT => {
                self.on_advertisement(id, &received, control, now)?;
                for sibling in self.siblings(id).into_iter().skip(1) {
                    self.take_locators(sibling, update, control, now)?;
                    self.tell(sibling, now);
                }
                Ok(())
            }
            Operation::ACKNOWLEDGEMENT => {
                let mut result = Err(DropReason::Replayed);
                for sibling in self.siblings(id) {
                    result = self.on_acknowledgement(sibling, update, control, now).or(result);
                }
                if result.is_ok() {
                    self.note_heard(id, local_at);
                }
                result
            }
            _ => Err(DropReason::UnknownType),
        }
    }

    /// Takes the locators of an update that is news. Returns whether the update is news.
    fn take_locators(
        &mut self,
        id: SessionId,
        update: &LocatorUpdate,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<bool, DropReason> {
        let proven = self.proven_locators(id);
        let session = self.ilcc.get_mut(id).ok_or(DropReason::Gone)?;
        let is_news = session.is_news(control.sequence)?;
        if is_news {
            if !session.set_remote(&update.locators, &proven, now) {
                return Err(DropReason::BadAddress);
            }
            session.taken = control.sequence.or(session.taken);
            session.note_update((control.pair.local.l64, control.pair.remote.l64), now);
            self.follow_correspondent(id, (control.pair.remote, control.pair.local.l64), now);
        } else {
            session.renew_remote(&update.locators, now);
        }
        Ok(is_news)
    }

    //= rfc6743#2-6 rfc6743#4-2
    fn on_advertisement(
        &mut self,
        id: SessionId,
        received: &Received,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let (pair, _) = self.ilcc.key(id).ok_or(DropReason::Gone)?;
        let came_to = control.pair.local;
        let is_here = self.has_locator(came_to.l64);
        let is_news = self.take_locators(id, &received.update, control, now)?;
        self.earn(id, control, now);
        let session = self.ilcc.get_mut(id).ok_or(DropReason::Gone)?;
        if let Opening::Confirming(confirming) = &session.opening {
            let retry = confirming.retry;
            session.on_answered(retry, now);
        }
        let was_settled = core::mem::replace(&mut session.settled, true);
        if !was_settled {
            // If our acknowledgement gets lost, the correspondent repeats the update in this time.
            session.attach_until(now + NONCE_AFTER_AGREEMENT);
        }
        let wire = session.wire_pair(pair);
        session.last_used = session.last_used.max(now);
        // A locator that is not ours is no source. It may have been ours before.
        let local = if is_here { came_to } else { wire.local };
        let back = IlvPair::new(local, control.pair.remote);
        let message = received.acknowledgement(local.address(), back.remote.address());
        self.send_of(id, back, &message, control.sequence, now);
        self.prove(id, now);
        self.on_shown(id, now);
        self.renew_if_due(id, now);
        if is_news || !was_settled {
            self.tell(id, now);
            self.schedule(id);
        }
        if is_here {
            let came = if is_news { Came::News } else { Came::Question };
            self.on_reached_by(id, (came_to.l64, control.pair.remote.l64), came, now);
        }
        Ok(())
    }

    fn on_acknowledgement(
        &mut self,
        id: SessionId,
        update: &LocatorUpdate,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let session = self.ilcc.get_mut(id).ok_or(DropReason::Gone)?;
        let sent = session.advertisement.as_ref().ok_or(DropReason::Replayed)?;
        let is_its_number = !session.numbers() || control.sequence == Some(session.sent);
        if !is_its_number || sent.locators != update.locators {
            return Err(DropReason::Replayed);
        }
        let by = (control.pair.local.l64, control.pair.remote.l64);
        // An optimistic correspondent acknowledges what it has not seen (RFC 9000 s21.4 has the attack).
        if session.needs_proof(by.1) && (!session.owes_update || session.is_silent()) {
            self.earn(id, control, now);
            self.ask_at(id, by, now);
            return Err(DropReason::Disbelieved);
        }
        let retry = sent.retry;
        let round_trips = now.since(retry.begun).saturating_mul(NONCE_ROUND_TRIPS);
        let until = retry.begun + round_trips;
        // Without numbers, the acknowledgement may be that of an earlier update with the same locators.
        if session.numbers() {
            session.on_answered(retry, now);
        }
        let sent = session.advertisement.take().ok_or(DropReason::Replayed)?;
        session.renew_at = sent.half_of_lifetimes();
        (session.has_acknowledged, session.is_mute) = (true, false);
        if by == session.wire {
            if session.all_silent() {
                self.events.push_back(Event::Regained { session: id });
            }
            session.on_answered_by_wire(now);
        }
        if session.settled && !session.owes_update {
            self.on_shown(id, now);
            if !self.on_answer_by(id, by, &sent, now) {
                self.schedule(id);
            }
            return Ok(());
        }
        let is_silent =
            session.all_silent() || session.is_guess() || sent.finds_silent(session.wire);
        session.owes_update = false;
        session.settled = true;
        if session.nonce_until.is_some() {
            session.nonce_until = Some(until.max(now));
        }
        session.last_used = session.last_used.max(now);
        self.ilcc.promote(id, Class::Unproven);
        self.events.push_back(Event::UpdateAcknowledged { session: id });
        if !(is_silent && self.on_answer_by(id, by, &sent, now)) {
            self.settle_on_best(id, now + round_trips);
        }
        self.on_shown(id, now);
        self.tell(id, now);
        self.schedule(id);
        Ok(())
    }
}

impl Session {
    /// Notes that the correspondent has to be told our present locators. Returns false if the session is not confirmed
    /// yet: its correspondent is told once it is.
    //= rfc6743#2-5 rfc6744#4-1 rfc6744#4-3
    fn owe_update(&mut self) -> bool {
        let is_confirmed = !matches!(self.opening, Opening::Confirming(_));
        if is_confirmed {
            // The Locator Update under way names other locators.
            (self.owes_update, self.advertisement) = (true, None);
        }
        is_confirmed
    }

    /// Whether both ends number their Locator Updates (decision 072).
    pub(crate) fn numbers(&self) -> bool {
        self.agreed && self.peer.has(AdmissionFlags::SEQUENCE)
    }

    /// Whether a Locator Update with this number is newer than the last one that we took. A repetition of the last
    /// one is no news and no error.
    fn is_news(&self, number: Option<u32>) -> Result<bool, DropReason> {
        let (true, taken) = (self.numbers(), self.taken) else { return Ok(true) };
        let number = number.ok_or(DropReason::MissingOption)?;
        let Some(taken) = taken else { return Ok(true) };
        match number.wrapping_sub(taken) {
            0 => Ok(false),
            ahead if ahead < 1 << 31 => Ok(true),
            _ => Err(DropReason::Replayed),
        }
    }
}
