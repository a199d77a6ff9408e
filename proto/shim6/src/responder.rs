use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair, UlidPair};
use moorline_wire::{I2, Message, Opt, OptionType, Options, Packet, R1, R2};

use crate::context::{Context, Established, Role, State};
use crate::event::{Event, Via};
use crate::machine::{Machine, as_ulids};
use crate::peer::PeerSet;
use crate::update::is_newer;
use crate::validator::Bound;

/// The responder's half: stateless answers to I1, state only by a valid I2.
impl Machine {
    /// I1: R1 without state, or R2 where we have the context or want it too (RFC 5533 s7.9).
    pub(crate) fn on_i1(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        Self::refuse_unsupported(packet)?;
        let Message::I1(i1) = packet.message()? else { return Err(DropReason::UnknownType) };
        let ulids = as_ulids(locators);
        let answer_with = match self.table.by_ulids(ulids) {
            None => None,
            Some(context) => match &context.state {
                // Crossing I1s (s7.4): each side answers with its tag.
                State::I1Sent(_) | State::I2Sent(_) => Some(context.id),
                // The R2 was lost.
                State::Established(state) if state.peer_tag == i1.initiator_tag => Some(context.id),
                // The peer has lost the context and makes it anew.
                State::Established(_) => None,
            },
        };
        match answer_with {
            Some(id) => self.send_r2(id, i1.initiator_nonce),
            None => self.send_r1(locators, i1.initiator_tag, i1.initiator_nonce, now),
        }
        Ok(())
    }

    /// I2: nonce and validator before anything else, then the locators (RFC 5533 s7.13).
    pub(crate) fn on_i2(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let ulids = as_ulids(locators);
        let initiator_tag = packet.sender_tag().ok_or(DropReason::Truncated)?;
        let responder_nonce = packet.responder_nonce().ok_or(DropReason::Truncated)?;
        let validator =
            packet.raw_option(OptionType::RESPONDER_VALIDATOR).ok_or(DropReason::MissingOption)?;
        let bound = Bound { ulids, initiator_tag };
        self.validators.check(&bound, responder_nonce, validator, &mut self.rng, now)?;
        Self::refuse_unsupported(packet)?;
        let Message::I2(i2) = packet.message()? else { return Err(DropReason::UnknownType) };
        let peer = self.verify_peer(ulids.peer, &i2.options, locators.peer, now)?;
        let id = match self.table.by_ulids(ulids) {
            None => self.accept(ulids, &i2, peer)?,
            Some(context) => {
                let id = context.id;
                self.renew(id, &i2, peer);
                id
            }
        };
        self.negatives.remove(ulids);
        self.send_r2(id, i2.initiator_nonce);
        Ok(())
    }

    fn accept(&mut self, ulids: UlidPair, i2: &I2, peer: PeerSet) -> Result<ContextId, DropReason> {
        let local_tag = self.table.unused_tag(&mut self.rng);
        let state = State::Established(self.established(ulids, i2, peer, Role::Responder));
        let context = self.table.insert(ulids, local_tag, state)?;
        self.push_event(Event::Established { context, role: Role::Responder });
        Ok(context)
    }

    /// An I2 for a context that is there: crossed with ours, sent again, or the peer starts anew.
    fn renew(&mut self, id: ContextId, i2: &I2, peer: PeerSet) {
        let Some(context) = self.table.get(id) else { return };
        let (role, was_established) = match &context.state {
            State::Established(state) => (state.role, true),
            State::I1Sent(_) | State::I2Sent(_) => (Role::Responder, false),
        };
        let mut new = self.established(context.ulids, i2, peer, role);
        if let Some(old) = context.established() {
            // A repeated I2 takes nothing back that an update has told since.
            new.local_locators.clone_from(&old.local_locators);
            new.update.clone_from(&old.update);
            // With the same tag it is the same context, and only a newer list is news: an I2 that was
            // overheard and comes again, its list cut off, takes nothing away.
            let is_news = match (new.peer.generation, old.peer.generation) {
                (Some(new), Some(old)) => is_newer(new, old),
                (new, None) => new.is_some(),
                (None, Some(_)) => false,
            };
            if old.peer_tag == new.peer_tag && !is_news {
                return;
            }
        }
        self.table.set_state(id, State::Established(new));
        self.push_event(if was_established {
            Event::Renewed { context: id }
        } else {
            Event::Established { context: id, role }
        });
    }

    fn send_r1(
        &mut self,
        locators: LocatorPair,
        initiator_tag: ContextTag,
        initiator_nonce: u32,
        now: Instant,
    ) {
        let bound = Bound { ulids: as_ulids(locators), initiator_tag };
        let (responder_nonce, validator) = self.validators.make(&bound, &mut self.rng, now);
        let options = Options::from(alloc::vec![Opt::Validator(validator.to_vec())]);
        let r1 = R1 { initiator_nonce, responder_nonce, options };
        self.push_transmit(Via::Pair(locators), Message::R1(r1));
    }

    fn send_r2(&mut self, id: ContextId, initiator_nonce: u32) {
        let Some(Context { ulids, local_tag, .. }) = self.table.get(id) else { return };
        let options = Options::from(self.options_for(ulids.local));
        let r2 = R2 { responder_tag: *local_tag, initiator_nonce, options };
        self.push_transmit(Via::Pair(ulids.as_locators()), Message::R2(r2));
    }

    fn established(&self, ulids: UlidPair, i2: &I2, peer: PeerSet, role: Role) -> Established {
        let local_locators = self.locators_for(ulids.local);
        Established::new(i2.initiator_tag, local_locators, peer, role)
    }
}
