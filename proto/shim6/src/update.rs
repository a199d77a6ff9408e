use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_types::{ContextId, DropReason, Instant, LocatorPair};
use moorline_wire::{Message, Options, Packet, UpdateAck, UpdateRequest};
use rand_core::RngCore;

use crate::consts::MAX_UPDATE_TIMEOUT;
use crate::context::{Established, State, Update};
use crate::event::{Event, Via};
use crate::machine::Machine;

/// Telling the peer of another locator list, and being told (RFC 5533 s10).
impl Machine {
    /// Tells the peers of all contexts whose ULID the present set proves. A newer list takes the place
    /// of one that is not acknowledged yet (s10.3).
    pub(crate) fn update_all(&mut self, now: Instant) {
        let ids: Vec<ContextId> = self.table.iter().map(|context| context.id).collect();
        for id in ids {
            self.update_if_outdated(id, now);
        }
    }

    /// Tells the peer of a context, unless it knows or will when what is under way arrives: for
    /// contexts that were restored, the others are told by themselves.
    pub fn update_if_outdated(&mut self, id: ContextId, now: Instant) {
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let under_way = established.update.as_ref().map(|update| &update.local_locators);
        let told = under_way.unwrap_or(&established.local_locators);
        let ulid = context.ulids.local;
        if self.proves(ulid) && self.locators_for(ulid) != *told {
            let nonce = self.rng.next_u32();
            self.send_update(id, nonce, 0, now);
        }
    }

    pub(crate) fn on_update_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(established) = self.table.get(id).and_then(|context| context.established()) else {
            return;
        };
        // For ever, s10.2: what ends it is that the context is torn down.
        if let Some(update) = &established.update {
            let (nonce, retries) = (update.nonce, update.retries.saturating_add(1));
            self.send_update(id, nonce, retries, now);
        }
    }

    fn send_update(&mut self, id: ContextId, nonce: u32, retries: u8, now: Instant) {
        let timeout = self.backed_off(self.config.update_timeout, retries);
        let deadline = now + timeout.min(MAX_UPDATE_TIMEOUT);
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let ulid = context.ulids.local;
        let mut established = established.clone();
        let local_locators = self.locators_for(ulid);
        established.update = Some(Box::new(Update { nonce, local_locators, retries, deadline }));
        let request = UpdateRequest {
            receiver_tag: established.peer_tag,
            request_nonce: nonce,
            options: Options::from(self.options_for(ulid)),
        };
        self.table.set_state(id, State::Established(established));
        self.push_transmit(Via::Current(id), Message::UpdateRequest(request));
    }

    /// Update Request: verify, take over, acknowledge (s10.4).
    pub(crate) fn on_update_request(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let (id, established) = self.established_of(packet, locators)?;
        let Message::UpdateRequest(request) = packet.message()? else {
            return Err(DropReason::UnknownType);
        };
        if request.options.locator_preferences().is_some() {
            return Err(DropReason::Unsupported);
        }
        let generation = request.options.locator_list().map(|list| list.generation);
        let known = established.peer.generation;
        let is_repetition = generation.is_some() && generation == known;
        if let (Some(generation), Some(known)) = (generation, known)
            && !is_repetition
            && !is_newer(generation, known)
        {
            return Err(DropReason::Replayed);
        }
        if !is_repetition {
            let ulid = self.table.get(id).ok_or(DropReason::UnknownTag)?.ulids.peer;
            // Parameters are verified whether or not a list comes with them.
            let peer = self.verify_peer(ulid, &request.options, locators.peer, now)?;
            if generation.is_some() {
                let established = Established { peer, ..established };
                self.table.set_state(id, State::Established(established));
                self.push_event(Event::Renewed { context: id });
            }
        }
        let ack = UpdateAck {
            receiver_tag: self.peer_tag(id)?,
            request_nonce: request.request_nonce,
            options: Options::default(),
        };
        self.push_transmit(Via::Pair(locators), Message::UpdateAck(ack));
        Ok(())
    }

    /// Update Acknowledgement: the peer can verify what it was told (s10.5).
    pub(crate) fn on_update_ack(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
    ) -> Result<(), DropReason> {
        let (id, mut established) = self.established_of(packet, locators)?;
        let nonce = packet.request_nonce().ok_or(DropReason::Truncated)?;
        match established.update.take_if(|update| update.nonce == nonce) {
            None => Err(DropReason::BadNonce),
            Some(update) => {
                established.local_locators = update.local_locators;
                self.table.set_state(id, State::Established(established));
                self.push_event(Event::Announced { context: id });
                Ok(())
            }
        }
    }

    fn established_of(
        &self,
        packet: &Packet<'_>,
        locators: LocatorPair,
    ) -> Result<(ContextId, Established), DropReason> {
        let tag = packet.receiver_tag().ok_or(DropReason::Truncated)?;
        let context = self.table.by_tag(tag).ok_or(DropReason::UnknownTag)?;
        let established = context.established().ok_or(DropReason::UnexpectedState)?;
        if !context.has_locators(locators) {
            return Err(DropReason::WrongLocators);
        }
        Ok((context.id, established.clone()))
    }
}

/// Whether a generation comes after another, in serial arithmetic (design s6).
pub(crate) const fn is_newer(generation: u32, known: u32) -> bool {
    let ahead = generation.wrapping_sub(known);
    ahead != 0 && ahead < 1 << 31
}
