use alloc::boxed::Box;

use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair};
use moorline_wire::{I2bis, Message, Opt, Options, Packet, R1bis};
use rand_core::RngCore;

use crate::consts::{EARLY_USE, I2BIS_RETRIES_MAX, MAX_PEER_VALIDATOR_LEN};
use crate::context::{Context, Crossing, Established, I2bisSent, State};
use crate::event::{Event, Via};
use crate::key::Key;
use crate::machine::Machine;
use crate::responder::Offer;
use crate::validator::Bound;

/// One end has lost a context that the other uses (RFC 5533 s7.5): R1bis and I2bis.
impl Machine {
    /// Payload whose tag the data plane does not know (RFC 5533 s12.2).
    ///
    /// # Errors
    /// Always: this payload is lost. With [`UnknownTag`](DropReason::UnknownTag) an R1bis is on its way.
    pub fn handle_payload(
        &mut self,
        tag: ContextTag,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#12.2
        //= rfc5533#12.2-1
        match self.table.by_tag(tag).map(|context| context.id) {
            Some(id) => {
                self.on_used_early(id, (tag, locators), now);
                Err(DropReason::NotEstablished)
            }
            None => Err(self.refer_to_r1bis(tag, locators, now)),
        }
    }

    /// Answers what refers to a context that is not there (s7.17), if the limit for its source lets it
    /// through: without state, and no longer than the packet but for the validator.
    pub(crate) fn refer_to_r1bis(
        &mut self,
        packet_tag: ContextTag,
        locators: LocatorPair,
        now: Instant,
    ) -> DropReason {
        //= rfc5533#7.17
        if self.answers.take(locators.peer.prefix(), now).is_err() {
            return DropReason::RateLimited;
        }
        let bound = Bound::R1bis { locators, packet_tag };
        let (responder_nonce, validator) = self.validators.make(&bound, &mut self.rng, now);
        let options = Options::from(alloc::vec![Opt::Validator(validator.to_vec())]);
        let r1bis = R1bis { packet_tag, responder_nonce, options };
        self.push_transmit(Via::Pair(locators), Message::R1bis(r1bis));
        DropReason::UnknownTag
    }

    /// The established context that an R1bis is about: CT(peer) and locators are its own (s7.18).
    #[must_use]
    pub fn by_peer_tag(&self, tag: ContextTag, locators: LocatorPair) -> Option<&Context> {
        self.table.by_peer_tag(tag).find(|context| context.has_locators(locators))
    }

    /// R1bis: the peer has lost the context, make it anew (s7.18). Whether we have sent anything that it
    /// can be the answer to is for the caller to say.
    ///
    /// In I2BIS-SENT, where RFC 5533 s7.18 discards it, another R1bis says that the I2bis was lost or has the validator of a
    /// life of the peer that is over. After [`EARLY_USE`] one I2bis answers it before the retransmission is due, by the pair that works, and
    /// whether or not use of the context has hastened one by the pair of the first R1bis. The R2 for the I2bis of before may be on
    /// its way all the same, by the pair of before, and counts.
    pub(crate) fn on_r1bis(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#7.18
        let tag = packet.packet_tag().ok_or(DropReason::Truncated)?;
        let context = self.by_peer_tag(tag, locators).ok_or(DropReason::UnknownTag)?;
        let id = context.id;
        let (established, is_retold, again) = match &context.state {
            // An I2bis of before, given up meanwhile, may still be on its way with what it said.
            State::Established(state) => (state, state.update.is_some(), None),
            State::I2bisSent(state) if !state.is_referred && now.since(state.sent) >= EARLY_USE => {
                (&state.established, state.is_retold, Some(state))
            }
            State::I1Sent(_) | State::I2Sent(_) | State::I2bisSent(_) => {
                return Err(DropReason::Replayed);
            }
        };
        let established = Established { is_confirmed: false, ..established.clone() };
        let former_via =
            again.and_then(
                |state| {
                    if state.via == locators { state.former_via } else { Some(state.via) }
                },
            );
        let again = again.map(|state| (state.nonce, state.retries, state.is_hastened));
        let Message::R1bis(r1bis) = packet.message()? else { return Err(DropReason::UnknownType) };
        let validator = r1bis.options.validator().ok_or(DropReason::MissingOption)?;
        if validator.len() > MAX_PEER_VALIDATOR_LEN {
            return Err(DropReason::TooMany);
        }
        let (nonce, retries, is_hastened) =
            again.unwrap_or_else(|| (self.rng.next_u32(), 0, false));
        let state = I2bisSent {
            established,
            nonce,
            asked_at: 0,
            via: locators,
            former_via,
            responder_nonce: r1bis.responder_nonce,
            validator: validator.to_vec(),
            is_retold,
            retries,
            is_hastened,
            is_referred: again.is_some(),
            sent: now,
            deadline: now,
        };
        self.send_i2bis(id, state, now);
        Ok(())
    }

    pub(crate) fn on_i2bis_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(State::I2bisSent(state)) = self.table.get(id).map(|context| &context.state) else {
            return;
        };
        let mut state = I2bisSent::clone(state);
        //= rfc5533#7.19-1
        if state.retries < I2BIS_RETRIES_MAX {
            state.retries += 1;
            (state.is_hastened, state.is_referred) = (false, false);
            self.send_i2bis(id, state, now);
        } else {
            //= rfc5533#7.19
            //= rfc5533#7.19-2
            self.start_anew(id, state.via, state.is_retold, now);
        }
    }

    pub(crate) fn hasten_i2bis(&mut self, id: ContextId, now: Instant) {
        if let Some(State::I2bisSent(state)) = self.table.get(id).map(|context| &context.state)
            && !state.is_hastened
        {
            let state = I2bisSent { is_hastened: true, ..I2bisSent::clone(state) };
            self.send_i2bis(id, state, now);
        }
    }

    /// An update came in I2BIS-SENT: an R2 that was on its way says less, so it must answer another I2bis.
    pub(crate) fn renonce_i2bis(&mut self, id: ContextId, now: Instant) {
        if let Some(State::I2bisSent(state)) = self.table.get(id).map(|context| &context.state) {
            let nonce = self.rng.next_u32();
            let state = I2bisSent { nonce, former_via: None, ..I2bisSent::clone(state) };
            self.send_i2bis(id, state, now);
        }
    }

    /// Back to I1-SENT, where there is no CT(peer) and payload goes untouched.
    pub(crate) fn start_anew(
        &mut self,
        id: ContextId,
        via: LocatorPair,
        is_retold: bool,
        now: Instant,
    ) {
        self.push_event(Event::Lapsed { context: id });
        self.send_i1(id, (via, Crossing::No), is_retold, 0, now);
    }

    fn send_i2bis(&mut self, id: ContextId, mut state: I2bisSent, now: Instant) {
        (state.sent, state.deadline) =
            (now, now + self.backed_off(self.config.i2bis_timeout, state.retries));
        let Some(context) = self.table.get(id) else { return };
        let (key, initiator_tag, via) = (context.key, context.local_tag, state.via);
        state.asked_at = self.validators.latest();
        let i2bis = I2bis {
            initiator_tag,
            initiator_nonce: state.nonce,
            responder_nonce: state.responder_nonce,
            packet_tag: state.established.peer_tag,
            options: self.options_with(&state.validator, key, via, state.retries),
        };
        self.table.set_state(id, State::I2bisSent(Box::new(state)));
        self.push_transmit(Via::Pair(via), Message::I2bis(i2bis));
    }

    /// I2bis: as I2, with a validator that is bound to the packet we had no context for (s7.20).
    pub(crate) fn on_i2bis(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#7.20
        let packet_tag = packet.packet_tag().ok_or(DropReason::Truncated)?;
        let bound = Bound::R1bis { locators, packet_tag };
        let responder_nonce = self.check_validator(&bound, packet, now)?;
        let key = Key::read(packet, locators)?;
        let Message::I2bis(i2bis) = packet.message()? else { return Err(DropReason::UnknownType) };
        let offer = Offer {
            key,
            initiator_tag: i2bis.initiator_tag,
            initiator_nonce: i2bis.initiator_nonce,
            responder_nonce,
            options: &i2bis.options,
        };
        self.admit(packet, &offer, locators, now)
    }
}
