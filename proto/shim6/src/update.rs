use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_cga::LocatorClaim;
use moorline_types::{ContextId, DropReason, Instant, LocatorPair, Ulid};
use moorline_wire::{ErrorCode, Message, OptionType, Options, Packet, UpdateAck, UpdateRequest};
use rand_core::RngCore;

use crate::consts::{MAX_UPDATE_TIMEOUT, PREFERENCES_RETRIES_MAX, UPDATE_BURST, UPDATE_INTERVAL};
use crate::context::{Context, Established, State, Update};
use crate::event::{Event, Via};
use crate::initiator::backoff;
use crate::machine::Machine;
use crate::peer::{PeerSet, peer_send_timeout};

/// Telling the peer of another locator list, and being told (RFC 5533 s10).
impl Machine {
    /// Tells the peers of all contexts whose ULID the present set proves. A newer list takes the place
    /// of one that is not acknowledged yet (s10.3).
    pub(crate) fn update_all(&mut self, now: Instant) {
        self.mark_retold();
        let is_outdated = |context: &&Context| self.is_outdated(context);
        let ids: Vec<_> = self.table.iter().filter(is_outdated).map(|context| context.id).collect();
        for (turn, id) in (0u32..).zip(ids) {
            self.tell_in_turn(id, turn, now);
        }
    }

    /// Tells the peer of a context that an earlier run has left, in its turn with those restored before: what
    /// that run has told besides locators is not known.
    pub fn tell_restored(&mut self, id: ContextId, now: Instant) {
        if self.table.get(id).is_some_and(|context| self.is_outdated(context)) {
            let turn = self.restored;
            self.restored = turn.saturating_add(1);
            self.tell_in_turn(id, turn, now);
        }
    }

    fn tell_in_turn(&mut self, id: ContextId, turn: u32, now: Instant) {
        let nonce = self.rng.next_u32();
        match turn.checked_sub(UPDATE_BURST) {
            None => self.send_update(id, nonce, 0, now),
            Some(later) => {
                let at = now + UPDATE_INTERVAL * later.saturating_add(1);
                self.set_update(id, nonce, 0, at);
            }
        }
    }

    /// The peers of contexts that are being made will have been told one thing or another.
    fn mark_retold(&mut self) {
        let is_unsettled = |context: &&Context| !matches!(context.state, State::Established(_));
        let ids: Vec<_> =
            self.table.iter().filter(is_unsettled).map(|context| context.id).collect();
        for id in ids {
            let Some(context) = self.table.get(id) else { continue };
            let mut state = context.state.clone();
            match &mut state {
                State::I1Sent(state) => state.is_retold = true,
                State::I2Sent(state) => state.is_retold = true,
                State::I2bisSent(state) => state.is_retold = true,
                State::Established(_) => {}
            }
            self.table.set_state(id, state);
        }
    }

    /// Tells the peer of a context, unless it knows or will when what is under way arrives.
    pub(crate) fn update_if_outdated(&mut self, id: ContextId, now: Instant) {
        if self.table.get(id).is_some_and(|context| self.is_outdated(context)) {
            let nonce = self.rng.next_u32();
            self.send_update(id, nonce, 0, now);
        }
    }

    /// Tells the peer again, though it knows: who has the context acknowledges.
    pub fn ask(&mut self, id: ContextId, now: Instant) {
        let has_asked = |established: &Established| {
            established.update.as_ref().is_some_and(|update| update.sent > 0)
        };
        let context = self.table.get(id).and_then(|context| context.established());
        if context.is_some_and(|established| !has_asked(established)) {
            let nonce = self.rng.next_u32();
            self.send_update(id, nonce, 0, now);
        }
    }

    fn is_outdated(&self, context: &Context) -> bool {
        let State::Established(established) = &context.state else { return false };
        let (locators, edition) = match &established.update {
            Some(update) => (&update.told.locators, update.told.edition),
            None => (&established.local_locators, established.edition),
        };
        let ulid = context.key.ulids.local;
        edition != self.edition || self.proves(ulid) && self.locators_for(ulid) != *locators
    }

    pub(crate) fn on_update_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(State::Established(established)) = self.table.get(id).map(|c| &c.state) else {
            return;
        };
        //= rfc5533#10.2
        // For ever: what ends it is that the context is torn down.
        if let Some(update) = &established.update {
            self.send_update(id, update.nonce, update.sent, now);
        }
    }

    /// `sent`: how often it went out before.
    fn send_update(&mut self, id: ContextId, nonce: u32, sent: u8, now: Instant) {
        //= rfc5533#10.2
        // The backoff "stops at MAX_UPDATE_TIMEOUT", the nominal value that is randomized (s14).
        let nominal = backoff(self.config.update_timeout, sent).min(MAX_UPDATE_TIMEOUT);
        let deadline = now + self.randomized(nominal);
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let options = self.options_for(context.key.ulids.local, sent <= PREFERENCES_RETRIES_MAX);
        let request = UpdateRequest {
            receiver_tag: established.peer_tag,
            request_nonce: nonce,
            options: Options::from(options),
        };
        self.set_update(id, nonce, sent.saturating_add(1), deadline);
        self.push_transmit(Via::Current(id), Message::UpdateRequest(request));
    }

    fn set_update(&mut self, id: ContextId, nonce: u32, sent: u8, deadline: Instant) {
        let Some(context) = self.table.get(id) else { return };
        let State::Established(established) = &context.state else { return };
        //= rfc5533#10.3
        let told = self.telling(context.key.ulids.local);
        let update = Some(Box::new(Update { nonce, told, sent, deadline }));
        let established = Established { update, ..established.clone() };
        self.table.set_state(id, State::Established(established));
    }

    /// Update Request: verify, take over, acknowledge (s10.4).
    pub(crate) fn on_update_request(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let id = self.addressed(packet, locators, now)?;
        let ulid = self.table.get(id).ok_or(DropReason::UnknownTag)?.key.ulids.peer;
        let Message::UpdateRequest(request) = packet.message()? else {
            return Err(DropReason::UnknownType);
        };
        let mut established = self.established_of(id)?.clone();
        let peer = self
            .updated(packet, &request.options, &established.peer, ulid, locators, now)
            .inspect_err(|reason| self.ask_for_proof(*reason, packet, locators, now))?;
        let ack = UpdateAck {
            receiver_tag: established.peer_tag,
            request_nonce: request.request_nonce,
            options: Options::default(),
        };
        if peer != established.peer {
            established.peer = peer;
            self.set_established(id, established);
            self.renonce_i2bis(id, now);
            self.push_event(Event::Renewed { context: id });
        }
        self.push_transmit(Via::Reply(id, locators), Message::UpdateAck(ack));
        Ok(())
    }

    /// What the peer says of itself cannot be held against what is known of it: somebody else may have told us of
    /// the list that is, or the parameters have been forgotten. By I2bis it proves everything anew.
    fn ask_for_proof(
        &mut self,
        reason: DropReason,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) {
        if let (DropReason::Replayed | DropReason::MissingOption, Some(tag)) =
            (reason, packet.receiver_tag())
        {
            let _ = self.refer_to_r1bis(tag, locators, now);
        }
    }

    /// What is known of the peer after an Update Request.
    fn updated(
        &mut self,
        packet: &Packet<'_>,
        options: &Options,
        known: &PeerSet,
        ulid: Ulid,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<PeerSet, DropReason> {
        let mut peer = known.clone();
        match (options.locator_list(), known.generation) {
            (Some(list), Some(generation)) if list.generation == generation => {
                //= rfc5533#10.4-4
                check_parameters(ulid, options)?;
                peer = known.confirmed_by(list, ulid).ok_or(DropReason::Replayed)?;
            }
            (Some(list), Some(known)) if !is_newer(list.generation, known) => {
                return Err(DropReason::Replayed);
            }
            (Some(_), _) => {
                //= rfc5533#10.4
                let verified = self.verify_peer(ulid, packet, options, locators, now)?;
                peer = PeerSet { send_timeout: peer.send_timeout, ..verified };
            }
            // Parameters by themselves serve messages that leave them out.
            (None, _) => {
                self.verify_peer(ulid, packet, options, locators, now)?;
            }
        }
        //= rfc5534#5.3
        //= rfc5534#5.3-3
        peer.send_timeout = peer_send_timeout(options).unwrap_or(peer.send_timeout);
        if let Some(preferences) = options.locator_preferences()
            && let Err(code) = peer.prefer(preferences)
        {
            let option = packet.options().map_while(Result::ok);
            let mut option = option.filter(|raw| raw.kind == OptionType::LOCATOR_PREFERENCES);
            let at = if code == ErrorCode::GENERATION { CONTENTS_AT } else { LENGTH_AT };
            let pointer = option.next().map_or(0, |raw| raw.offset.saturating_add(at));
            self.complain(packet, locators, code, pointer, now);
            return Err(DropReason::BadFormat);
        }
        Ok(peer)
    }

    /// Update Acknowledgement: the peer can verify what it was told (s10.5).
    pub(crate) fn on_update_ack(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let id = self.addressed(packet, locators, now)?;
        let nonce = packet.request_nonce().ok_or(DropReason::Truncated)?;
        let mut established = self.established_of(id)?.clone();
        //= rfc5533#10.5
        let is_for = |update: &mut Box<Update>| update.nonce == nonce && update.sent > 0;
        let update = established.update.take_if(is_for).ok_or(DropReason::BadNonce)?;
        let told = if update.sent > PREFERENCES_RETRIES_MAX + 1 {
            let context = self.table.get(id).ok_or(DropReason::UnknownTag)?;
            self.without_preferences(update.told, context.key.ulids.local)
        } else {
            update.told
        };
        established.local_locators = told.locators;
        established.edition = told.edition;
        self.set_established(id, established);
        self.push_event(Event::Announced { context: id });
        Ok(())
    }

    /// The context that a message names by its Receiver Context Tag and comes by the locators of. If
    /// there is none, an R1bis says so (RFC 5533 s12.4).
    ///
    /// # Errors
    /// [`UnknownTag`](DropReason::UnknownTag) and [`WrongLocators`](DropReason::WrongLocators) with an
    /// R1bis, [`RateLimited`](DropReason::RateLimited) without. In I1-SENT and I2-SENT
    /// [`UnexpectedState`](DropReason::UnexpectedState).
    //= rfc5533#10.4-2 rfc5533#10.4-3 rfc5533#10.5-2 rfc5533#10.5-3
    pub fn addressed(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<ContextId, DropReason> {
        //= rfc5533#12.4
        let tag = packet.receiver_tag().ok_or(DropReason::Truncated)?;
        let Some(context) = self.table.by_tag(tag) else {
            return Err(self.refer_to_r1bis(tag, locators, now));
        };
        let id = context.id;
        let has_locators = context.has_locators(locators);
        match &context.state {
            State::I1Sent(_) => return Err(DropReason::UnexpectedState),
            State::I2Sent(_) => {
                self.hasten_i2(id, now);
                return Err(DropReason::UnexpectedState);
            }
            State::I2bisSent(_) if has_locators => self.hasten_i2bis(id, now),
            State::I2bisSent(_) | State::Established(_) => {}
        }
        if has_locators {
            return Ok(id);
        }
        let _ = self.refer_to_r1bis(tag, locators, now);
        Err(DropReason::WrongLocators)
    }

    fn established_of(&self, id: ContextId) -> Result<&Established, DropReason> {
        let established = self.table.get(id).and_then(Context::established);
        established.ok_or(DropReason::UnexpectedState)
    }

    /// In the state that the context is in.
    fn set_established(&mut self, id: ContextId, established: Established) {
        let state = match self.table.get(id).map(|context| &context.state) {
            Some(State::I2bisSent(state)) => {
                let mut state = state.clone();
                state.established = established;
                State::I2bisSent(state)
            }
            Some(State::Established(_)) => State::Established(established),
            Some(State::I1Sent(_) | State::I2Sent(_)) | None => return,
        };
        self.table.set_state(id, state);
    }
}

/// Parameters must be those of the ULID, whatever comes with them (s10.4).
fn check_parameters(ulid: Ulid, options: &Options) -> Result<(), DropReason> {
    if let Some(pds) = options.pds() {
        LocatorClaim { ulid, pds, list: None, signature: None }.check()?;
    }
    Ok(())
}

/// Whether a generation comes after another, in serial arithmetic (design s6).
pub(crate) const fn is_newer(generation: u32, known: u32) -> bool {
    let ahead = generation.wrapping_sub(known);
    ahead != 0 && ahead < 1 << 31
}

/// Octets into an option where its Length and its contents are.
const LENGTH_AT: u16 = 2;
const CONTENTS_AT: u16 = 4;
