use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair};
use moorline_wire::{Message, Opt, Options, R1bis};
use rand_core::RngCore;

use crate::consts::{EARLY_USE, R1BIS_LEN};
use crate::context::{Context, Echo, Established, Handshake, Takes};
use crate::event::{Event, Incoming, Used, Via};
use crate::machine::Machine;
use crate::validator::Bound;

/// Recovery: one end has lost a context that the other end uses (RFC 5533 s7.5), with R1bis and I2bis.
impl Machine {
    /// Takes payload with a tag that the data plane does not know (RFC 5533 s12.2).
    ///
    /// # Errors
    /// Always, because this payload is lost. [`UnknownTag`](DropReason::UnknownTag): an R1bis is on its way, unless the
    /// payload is shorter than the R1bis.
    pub fn handle_payload(&mut self, used: Used, now: Instant) -> Result<(), DropReason> {
        //= rfc5533#12.2
        //= rfc5533#12.2-1
        match self.table.by_tag(used.tag).map(|context| context.id) {
            Some(id) => {
                self.on_used_early(id, used, now);
                Err(DropReason::NotEstablished)
            }
            None => Err(self.refer_to_r1bis(used, now)),
        }
    }

    /// Answers a packet for a context that does not exist (s7.17), if the limit for its source allows. The answer keeps
    /// no state. A packet that is shorter than the answer gets none, so nobody can make this host send more to an address
    /// than came in its name (decision 225).
    pub(crate) fn refer_to_r1bis(&mut self, used: Used, now: Instant) -> DropReason {
        //= rfc5533#7.17
        let Used { tag: packet_tag, locators, len } = used;
        if len < R1BIS_LEN {
            return DropReason::UnknownTag;
        }
        if self.take_answer(locators.peer, now).is_err() {
            return DropReason::RateLimited;
        }
        let (responder_nonce, validator) =
            self.make_validator(&Bound::R1bis { locators, packet_tag }, now);
        let options = Options::from(alloc::vec![validator]);
        let r1bis = R1bis { packet_tag, responder_nonce, options };
        self.push_transmit(Via::Pair(locators), Message::R1bis(r1bis));
        DropReason::UnknownTag
    }

    /// Makes nonce and validator of an R1 or R1bis.
    pub(crate) fn make_validator(&mut self, bound: &Bound, now: Instant) -> (u32, Opt) {
        let hash = |nonce, hasher: &mut _| bound.hash(nonce, hasher);
        let (nonce, validator) = self.validators.make(&mut self.rng, now, hash);
        (nonce, Opt::Validator(validator.to_vec()))
    }

    /// The established context of an R1bis, by its CT(peer) and locators (s7.18).
    #[must_use]
    pub fn by_peer_tag(&self, tag: ContextTag, locators: LocatorPair) -> Option<&Context> {
        self.table.by_peer_tag(tag).find(|context| context.has_locators(locators))
    }

    /// R1bis: the peer has lost the context, so this host makes it again (s7.18). The caller has already checked that
    /// this host has sent a message that the R1bis can answer.
    ///
    /// RFC 5533 s7.18 discards an R1bis in I2BIS-SENT. Here another R1bis shows that the I2bis was lost, or that the
    /// I2bis has a validator from a past life of the peer. So after [`EARLY_USE`] one I2bis answers the R1bis before
    /// the retransmission is due, by the pair that works. It does so even if use of the context has already hastened an
    /// I2bis by the pair of the first R1bis. The R2 for an earlier I2bis, by the earlier pair, may still come, and
    /// counts.
    pub(crate) fn on_r1bis(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#7.18
        let &Incoming { packet, locators, now } = came;
        let tag = packet.packet_tag().ok_or(DropReason::Truncated)?;
        let context = self.by_peer_tag(tag, locators).ok_or(DropReason::UnknownTag)?;
        let id = context.id;
        let established = context.established().cloned();
        let took = established.as_ref().map_or(Takes::Unknown, |known| known.takes);
        let established = established.map(|known| Established { takes: Takes::Unknown, ..known });
        let again = context.handshake().cloned();
        if again.as_ref().is_some_and(|h| h.is_referred || now.since(h.sent) < EARLY_USE) {
            return Err(DropReason::Replayed);
        }
        let Message::R1bis(r1bis) = packet.message()? else { return Err(DropReason::UnknownType) };
        let echo = Some(Echo::of(r1bis.responder_nonce, &r1bis.options)?);
        let asked = match again {
            None => {
                let nonce = self.rng.next_u32();
                // An earlier I2bis, given up meanwhile, may still be on its way with earlier content.
                let is_retold = established.as_ref().is_some_and(|known| known.update.is_some());
                let begun = Handshake::new(locators, now);
                Handshake { nonce, echo, established, took, is_retold, ..begun }
            }
            Some(again) => {
                let is_other = again.via != locators;
                let former_via = if is_other { Some(again.via) } else { again.former_via };
                let again = Handshake { echo, established, former_via, referred: now, ..again };
                Handshake { via: locators, is_referred: true, ..again }
            }
        };
        self.send_i2(id, asked, now);
        Ok(())
    }

    /// When the last R1bis came for a context that waits for the R2.
    #[must_use]
    pub fn recovers_since(&self, id: ContextId) -> Option<Instant> {
        let asked = self.table.get(id)?.handshake()?;
        asked.established.as_ref().map(|_| asked.referred)
    }

    /// The peer has answered a message of the context that left after the last R1bis came. So the peer has the context,
    /// and the R1bis was forged or old. The peer refuses the I2bis, so the machine does not send it again, and the
    /// context is as before (decision 154).
    pub fn handle_kept(&mut self, id: ContextId, now: Instant) {
        let Some(asked) = self.table.get(id).and_then(Context::handshake) else { return };
        let (Some(established), took) = (asked.established.clone(), asked.took) else { return };
        self.table.establish(id, established);
        self.confirm(id);
        if took.is_after_plain() {
            self.table.change_established(id, |known| known.takes = took);
        }
        self.events.push_back(Event::Renewed { context: id });
        self.update_if_outdated(id, now);
    }

    /// An update came in I2BIS-SENT. An R2 on its way says less than the update. So the R2 must answer a new I2bis.
    pub(crate) fn renonce_i2bis(&mut self, id: ContextId, now: Instant) {
        let asked = self.table.get(id).and_then(|context| context.handshake().cloned());
        if let Some(asked) = asked {
            let nonce = self.rng.next_u32();
            self.send_i2(id, Handshake { nonce, former_via: None, ..asked }, now);
        }
    }
}
