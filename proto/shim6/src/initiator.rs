use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair};
use moorline_wire::{I1, I2, Message, Opt, Options, Packet};
use rand_core::RngCore;

use crate::consts::{
    EARLY_USE, I1_RETRIES_MAX, I2_RETRIES_MAX, MAX_PEER_VALIDATOR_LEN, PREFERENCES_RETRIES_MAX,
};
use crate::context::{Context, Crossing, Established, I1Sent, I2Sent, Role, State, Told};
use crate::event::{Event, Failure, Via};
use crate::key::Key;
use crate::machine::Machine;

/// The initiator's half: I1, R1, I2, R2 as seen by the side that wants the context.
impl Machine {
    pub(crate) fn initiate(&mut self, key: Key, now: Instant) -> Result<ContextId, DropReason> {
        let ways = self.table.ways(key, None, &mut self.rng);
        let via = self.first_pair(key.ulids);
        let state = State::I1Sent(Box::new(I1Sent {
            nonce: 0,
            asked_at: 0,
            via,
            is_retold: false,
            retries: 0,
            is_late: false,
            crossing: Crossing::No,
            sent: now,
            deadline: now,
        }));
        let id = self.table.insert(key, ways, state)?;
        self.push_event(Event::Initiated { context: id, ulids: key.ulids });
        self.send_i1(id, (via, Crossing::No), false, 0, now);
        Ok(id)
    }

    /// R1: echo its validator in an I2 (RFC 5533 s7.11).
    pub(crate) fn on_r1(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#7.11
        let nonce = packet.initiator_nonce().ok_or(DropReason::Truncated)?;
        let context = self.table.by_nonce(nonce, locators).ok_or(DropReason::BadNonce)?;
        //= rfc5533#7.11-2
        let State::I1Sent(state) = &context.state else { return Err(DropReason::Unasked) };
        let (id, via, i1_retries, is_retold, crossing) =
            (context.id, state.via, state.retries, state.is_retold, state.crossing);
        let Message::R1(r1) = packet.message()? else { return Err(DropReason::UnknownType) };
        let validator = r1.options.validator().ok_or(DropReason::MissingOption)?;
        if validator.len() > MAX_PEER_VALIDATOR_LEN {
            return Err(DropReason::TooMany);
        }
        let state = I2Sent {
            nonce: self.rng.next_u32(),
            asked_at: 0,
            via,
            responder_nonce: r1.responder_nonce,
            validator: validator.to_vec(),
            is_retold,
            retries: 0,
            i1_retries,
            is_late: context.is_half_open(),
            crossing,
            is_hastened: false,
            sent: now,
            deadline: now,
        };
        self.send_i2(id, state, now);
        Ok(())
    }

    /// R2: the peer has the context; take tag and locators (RFC 5533 s7.16).
    pub(crate) fn on_r2(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#7.16
        let nonce = packet.initiator_nonce().ok_or(DropReason::Truncated)?;
        let context = self.table.by_nonce(nonce, locators).ok_or(DropReason::BadNonce)?;
        let (id, key) = (context.id, context.key);
        let (role, asked_at, was_established) = match &context.state {
            State::I1Sent(state) => (Role::Initiator, state.asked_at, false),
            State::I2Sent(state) => (Role::Initiator, state.asked_at, false),
            State::I2bisSent(state) => (state.established.role, state.asked_at, true),
            State::Established(_) => return Err(DropReason::Unasked),
        };
        let asked = match &context.state {
            State::I1Sent(state) => {
                Some((state.crossing, state.via, state.is_retold, state.retries))
            }
            State::I2Sent(state) => {
                Some((state.crossing, state.via, state.is_retold, state.i1_retries))
            }
            State::I2bisSent(_) | State::Established(_) => None,
        };
        let is_confirmed = !matches!(context.state, State::I1Sent(_));
        let told = self.told_to(context, locators);
        let Message::R2(r2) = packet.message()? else { return Err(DropReason::UnknownType) };
        if self.table.is_crowded(r2.responder_tag) {
            return Err(DropReason::TableFull);
        }
        let peer = self.offered(key.ulids.peer, packet, &r2.options, locators, now)?;
        if !peer.locators.contains(&locators.peer) {
            return Err(DropReason::WrongLocators);
        }
        // The peer has named another tag: one of the two is of a life of the peer's that is over, or the I1
        // was none of its. It knows, and answers a nonce that no earlier life of it was ever sent.
        if let Some((Crossing::Named(named), via, is_retold, retries)) = asked
            && named.tag != r2.responder_tag
        {
            let retries = (retries + 1).min(I1_RETRIES_MAX);
            self.send_i1(id, (via, Crossing::AskedAgain(named)), is_retold, retries, now);
            return Err(DropReason::StaleNonce);
        }
        let mut established = Established::with((r2.responder_tag, asked_at), told, peer, role);
        established.is_confirmed = is_confirmed;
        self.table.set_state(id, State::Established(established));
        self.negatives.remove(key.ulids);
        self.push_event(if was_established {
            Event::Renewed { context: id }
        } else {
            Event::Established { context: id, role, locators }
        });
        //= rfc5533#7.16-4
        self.resolve_confusion(id, locators.peer);
        self.update_if_outdated(id, now);
        Ok(())
    }

    pub(crate) fn on_i1_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(State::I1Sent(state)) = self.table.get(id).map(|context| &context.state) else {
            return;
        };
        let (via, retries, crossing) = (state.via, state.retries, state.crossing);
        if retries < I1_RETRIES_MAX {
            let is_retold = state.is_retold;
            self.send_i1(id, (via, crossing), is_retold, retries + 1, now);
        } else {
            self.fail(id, Failure::NoAnswer, now);
        }
    }

    pub(crate) fn on_i2_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(State::I2Sent(state)) = self.table.get(id).map(|context| &context.state) else {
            return;
        };
        let mut state = I2Sent::clone(state);
        //= rfc5533#7.12-1
        if state.retries < I2_RETRIES_MAX {
            state.retries += 1;
            state.is_hastened = false;
            self.send_i2(id, state, now);
        } else if state.i1_retries < I1_RETRIES_MAX {
            //= rfc5533#7.12
            //= rfc5533#7.12-2
            // The validator may be too old by now.
            let via = (state.via, state.crossing);
            self.send_i1(id, via, state.is_retold, state.i1_retries + 1, now);
        } else {
            self.fail(id, Failure::NoAnswer, now);
        }
    }

    /// The peer uses the context while the R2 is late: the I2 goes out once more before its time, and so no
    /// more often than twice as often as by its timer, however much the peer sends. If that was in vain, or the R2 answers
    /// an I1, the pair of the handshake may have failed: R1bis goes by the pair that the peer uses (decision 120).
    pub(crate) fn on_used_early(
        &mut self,
        id: ContextId,
        (tag, locators): (ContextTag, LocatorPair),
        now: Instant,
    ) {
        let sent = match self.table.get(id).map(|context| &context.state) {
            Some(State::I2Sent(state)) if !state.is_hastened => {
                let state = I2Sent { is_hastened: true, ..I2Sent::clone(state) };
                return self.send_i2(id, state, now);
            }
            Some(State::I2bisSent(_)) => return self.hasten_i2bis(id, now),
            Some(State::I1Sent(state)) => state.sent,
            Some(State::I2Sent(state)) => state.sent,
            Some(State::Established(_)) | None => return,
        };
        if now.since(sent) >= EARLY_USE {
            self.refer_to_r1bis(tag, locators, now);
        }
    }

    pub(crate) fn fail(&mut self, id: ContextId, failure: Failure, now: Instant) {
        if let Some(context) = self.give_up(id, failure, now) {
            let ulids = context.key.ulids;
            self.push_event(Event::Failed { context: id, ulids, failure });
        }
    }

    /// Forgets a context in whatever state, and remembers why for as long as it is worth not to try again.
    pub fn give_up(&mut self, id: ContextId, failure: Failure, now: Instant) -> Option<Context> {
        let context = self.table.remove(id)?;
        let ulids = context.key.ulids;
        //= rfc5533#7.8
        let holddown = match failure {
            Failure::NoAnswer | Failure::NotTaken => self.config.no_r1_holddown,
            Failure::NoSupport => self.config.icmp_holddown,
        };
        if context.key == Key::of(ulids) {
            self.negatives.insert(ulids, failure, now + holddown);
        }
        Some(context)
    }

    /// What the peer is sure to know of us when an R2 goes out or has come in.
    pub(crate) fn told_to(&self, context: &Context, via: LocatorPair) -> Told {
        let ulid = context.key.ulids.local;
        let told = self.telling(ulid);
        let (is_retold, retries) = match &context.state {
            State::I1Sent(state) => (state.is_retold, 0),
            State::I2Sent(state) => (state.is_retold, state.retries),
            State::I2bisSent(state) => (state.is_retold, state.retries),
            State::Established(state) => {
                let locators = state.local_locators.clone();
                return Told { locators, edition: state.edition };
            }
        };
        if is_retold {
            told.uncertain(ulid, via)
        } else if retries > PREFERENCES_RETRIES_MAX {
            self.without_preferences(told, ulid)
        } else {
            told
        }
    }

    /// By `via` while we can send from there.
    pub(crate) fn send_i1(
        &mut self,
        id: ContextId,
        (via, crossing): (LocatorPair, Crossing),
        is_retold: bool,
        retries: u8,
        now: Instant,
    ) {
        //= rfc5533#7.8
        let deadline = now + self.backed_off(self.config.i1_timeout, retries);
        let is_late = self.table.get(id).is_some_and(Context::is_half_open);
        self.send_i1_until(
            id,
            I1Sent {
                nonce: 0,
                asked_at: 0,
                via,
                is_retold,
                retries,
                is_late,
                crossing,
                sent: now,
                deadline,
            },
        );
    }

    /// The same with the deadline that the state has, and a nonce of its own.
    pub(crate) fn send_i1_until(&mut self, id: ContextId, mut state: I1Sent) {
        state.nonce = self.rng.next_u32();
        state.asked_at = self.validators.latest();
        let Some(context) = self.table.get(id) else { return };
        let key = context.key;
        let is_usable = self.usable.is_empty() || self.usable.contains(&state.via.local);
        state.via = if is_usable { state.via } else { self.first_pair(key.ulids) };
        let via = state.via;
        let i1 = I1 {
            initiator_tag: context.local_tag,
            initiator_nonce: state.nonce,
            options: key.options(via).collect::<Vec<_>>().into(),
        };
        self.table.set_state(id, State::I1Sent(Box::new(state)));
        self.push_transmit(Via::Pair(via), Message::I1(i1));
    }

    fn send_i2(&mut self, id: ContextId, mut state: I2Sent, now: Instant) {
        (state.sent, state.deadline) =
            (now, now + self.backed_off(self.config.i2_timeout, state.retries));
        let Some(context) = self.table.get(id) else { return };
        let (key, initiator_tag, via) = (context.key, context.local_tag, state.via);
        state.asked_at = self.validators.latest();
        let i2 = I2 {
            initiator_tag,
            initiator_nonce: state.nonce,
            responder_nonce: state.responder_nonce,
            options: self.options_with(&state.validator, key, via, state.retries),
        };
        self.table.set_state(id, State::I2Sent(Box::new(state)));
        self.push_transmit(Via::Pair(via), Message::I2(i2));
    }

    /// The options of I2 and I2bis: the peer's validator, which context it is, and what we tell of us.
    pub(crate) fn options_with(
        &self,
        validator: &[u8],
        key: Key,
        via: LocatorPair,
        retries: u8,
    ) -> Options {
        //= rfc5533#5.6-4 rfc5533#5.6-5
        let mut options = alloc::vec![Opt::Validator(validator.to_vec())];
        options.extend(key.options(via));
        options.extend(self.options_for(key.ulids.local, retries <= PREFERENCES_RETRIES_MAX));
        options.into()
    }

    /// Binary backoff, then a random factor of 0.5 to 1.5 (RFC 5533 s14).
    //= rfc5533#14
    pub(crate) fn backed_off(&mut self, nominal: Duration, retries: u8) -> Duration {
        self.randomized(backoff(nominal, u32::from(retries)))
    }

    pub(crate) fn randomized(&mut self, nominal: Duration) -> Duration {
        let per_mille = 500 + self.rng.next_u32() % 1001;
        nominal * per_mille / 1000
    }
}

/// Doubled for each retransmission.
pub(crate) fn backoff(nominal: Duration, retries: u32) -> Duration {
    nominal.saturating_mul(1 << retries.min(16))
}
