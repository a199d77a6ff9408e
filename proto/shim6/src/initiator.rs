use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::{ContextId, DropReason, Instant, LocatorPair, UlidPair};
use moorline_wire::{I1, I2, Message, Opt, Options, Packet};
use rand_core::RngCore;

use crate::consts::{I1_RETRIES_MAX, I2_RETRIES_MAX, MAX_PEER_VALIDATOR_LEN};
use crate::context::{Established, I1Sent, I2Sent, Role, State};
use crate::event::{Event, Failure, Via};
use crate::machine::{Machine, as_ulids};

/// The initiator's half: I1, R1, I2, R2 as seen by the side that wants the context.
impl Machine {
    pub(crate) fn initiate(&mut self, ulids: UlidPair, now: Instant) -> Result<(), DropReason> {
        let local_tag = self.table.unused_tag(&mut self.rng);
        let state = State::I1Sent(I1Sent { nonce: 0, retries: 0, deadline: now });
        let id = self.table.insert(ulids, local_tag, state)?;
        self.push_event(Event::Initiated { context: id, ulids });
        self.send_i1(id, 0, now);
        Ok(())
    }

    /// R1: echo its validator in an I2 (RFC 5533 s7.11).
    pub(crate) fn on_r1(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let context = self.table.by_ulids(as_ulids(locators)).ok_or(DropReason::UnexpectedState)?;
        let State::I1Sent(state) = &context.state else { return Err(DropReason::UnexpectedState) };
        let (id, nonce, retries) = (context.id, state.nonce, state.retries);
        let Message::R1(r1) = packet.message()? else { return Err(DropReason::UnknownType) };
        if r1.initiator_nonce != nonce {
            return Err(DropReason::BadNonce);
        }
        let validator = r1.options.validator().ok_or(DropReason::MissingOption)?;
        if validator.len() > MAX_PEER_VALIDATOR_LEN {
            return Err(DropReason::TooMany);
        }
        let state = I2Sent {
            nonce: self.rng.next_u32(),
            responder_nonce: r1.responder_nonce,
            validator: validator.to_vec(),
            local_locators: Vec::new(),
            retries: 0,
            i1_retries: retries,
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
        let ulids = as_ulids(locators);
        let context = self.table.by_ulids(ulids).ok_or(DropReason::UnexpectedState)?;
        let (nonce, local_locators) = match &context.state {
            // Crossing I1s: our R2 has told, or is about to tell, what we have now.
            State::I1Sent(state) => (state.nonce, self.locators_for(ulids.local)),
            State::I2Sent(state) => (state.nonce, state.local_locators.clone()),
            State::Established(_) => return Err(DropReason::UnexpectedState),
        };
        let id = context.id;
        let Message::R2(r2) = packet.message()? else { return Err(DropReason::UnknownType) };
        if r2.initiator_nonce != nonce {
            return Err(DropReason::BadNonce);
        }
        let peer = self.verify_peer(ulids.peer, &r2.options, locators.peer, now)?;
        let established = Established::new(r2.responder_tag, local_locators, peer, Role::Initiator);
        self.table.set_state(id, State::Established(established));
        self.negatives.remove(ulids);
        self.push_event(Event::Established { context: id, role: Role::Initiator });
        self.update_if_outdated(id, now);
        Ok(())
    }

    pub(crate) fn on_i1_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(State::I1Sent(state)) = self.table.get(id).map(|context| &context.state) else {
            return;
        };
        let retries = state.retries;
        if retries < I1_RETRIES_MAX {
            self.send_i1(id, retries + 1, now);
        } else {
            self.fail(id, Failure::NoAnswer, now);
        }
    }

    pub(crate) fn on_i2_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(State::I2Sent(state)) = self.table.get(id).map(|context| &context.state) else {
            return;
        };
        let mut state = state.clone();
        if state.retries < I2_RETRIES_MAX {
            state.retries += 1;
            self.send_i2(id, state, now);
        } else if state.i1_retries < I1_RETRIES_MAX {
            // RFC 5533 s7.12: the validator may be too old by now, start over.
            self.send_i1(id, state.i1_retries + 1, now);
        } else {
            self.fail(id, Failure::NoAnswer, now);
        }
    }

    pub(crate) fn send_i2_again(&mut self, id: ContextId, now: Instant) {
        if let Some(State::I2Sent(state)) = self.table.get(id).map(|context| &context.state) {
            let state = state.clone();
            self.send_i2(id, state, now);
        }
    }

    pub(crate) fn fail(&mut self, id: ContextId, failure: Failure, now: Instant) {
        let Some(context) = self.table.remove(id) else { return };
        let holddown = match failure {
            Failure::NoAnswer => self.config.no_r1_holddown,
            Failure::NoSupport => self.config.icmp_holddown,
        };
        self.negatives.insert(context.ulids, failure, now + holddown);
        self.push_event(Event::Failed { context: id, ulids: context.ulids, failure });
    }

    fn send_i1(&mut self, id: ContextId, retries: u8, now: Instant) {
        let nonce = self.rng.next_u32();
        let deadline = now + self.backed_off(self.config.i1_timeout, retries);
        let Some(context) = self.table.get(id) else { return };
        let i1 = I1 {
            initiator_tag: context.local_tag,
            initiator_nonce: nonce,
            options: Options::default(),
        };
        let locators = context.ulids.as_locators();
        self.table.set_state(id, State::I1Sent(I1Sent { nonce, retries, deadline }));
        self.push_transmit(Via::Pair(locators), Message::I1(i1));
    }

    fn send_i2(&mut self, id: ContextId, mut state: I2Sent, now: Instant) {
        state.deadline = now + self.backed_off(self.config.i2_timeout, state.retries);
        let Some(context) = self.table.get(id) else { return };
        let ulids = context.ulids;
        state.local_locators = self.locators_for(ulids.local);
        let mut options = alloc::vec![Opt::Validator(state.validator.clone())];
        options.extend(self.options_for(ulids.local));
        let i2 = I2 {
            initiator_tag: context.local_tag,
            initiator_nonce: state.nonce,
            responder_nonce: state.responder_nonce,
            options: Options::from(options),
        };
        self.table.set_state(id, State::I2Sent(state));
        self.push_transmit(Via::Pair(ulids.as_locators()), Message::I2(i2));
    }

    /// Binary backoff, then a random factor of 0.5 to 1.5 (RFC 5533 s14).
    pub(crate) fn backed_off(&mut self, nominal: Duration, retries: u8) -> Duration {
        let per_mille = 500 + self.rng.next_u32() % 1001;
        nominal.saturating_mul(1 << retries.min(16)) * per_mille / 1000
    }
}
