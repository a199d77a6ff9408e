use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::{ContextId, DropReason, Instant, LocatorPair, UlidPair};
use moorline_wire::{I1, I2, I2bis, Message, Opt, Options};
use rand_core::RngCore;

use crate::announce::Wording;
use crate::consts::{
    EARLY_USE, I1_RETRIES_MAX, I1_TIMEOUT, I2_RETRIES_MAX, I2_TIMEOUT, ICMP_HOLDDOWN_TIME,
    NO_R1_HOLDDOWN_TIME, NO_ROOM_HOLDDOWN_TIME,
};
use crate::context::{
    Context, Crossing, Echo, Established, Handshake, Role, Stand, State, Takes, Told,
};
use crate::event::{Event, Failure, Incoming, Used, Via};
use crate::key::Key;
use crate::machine::Machine;

/// The initiator's side: I1, R1, I2 and R2 of the host that wants the context, and I2bis of the host that still has it.
impl Machine {
    /// Sends I1. Strangers can have this host begin contexts, by connections to a server here. So once half of the
    /// table is in use, a site gets no more than its share.
    pub(crate) fn initiate(&mut self, key: Key, now: Instant) -> Result<ContextId, DropReason> {
        if self.table.is_half_full() && self.table.is_share_taken(key.ulids.peer) {
            return Err(DropReason::TableFull);
        }
        self.make_room(true, now);
        let ways = self.table.ways(key, None, &mut self.rng);
        let asked = Handshake::new(self.first_pair(key.ulids), now);
        let stand = Stand::Handshake(Box::new(asked.clone()));
        let id = self.table.insert((key, ways), stand, true)?;
        self.events.push_back(Event::Initiated { context: id, ulids: key.ulids });
        self.send_i1(id, asked, now);
        Ok(id)
    }

    /// R1: echoes its validator in an I2 (RFC 5533 s7.11).
    pub(crate) fn on_r1(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#7.11
        let nonce = came.packet.initiator_nonce().ok_or(DropReason::Truncated)?;
        let context = self.table.by_nonce(nonce, came.locators).ok_or(DropReason::Unasked)?;
        //= rfc5533#7.11-2
        let asked = context.handshake().filter(|_| context.state() == State::I1Sent);
        let (id, mut asked) = (context.id, asked.ok_or(DropReason::Unasked)?.clone());
        let Message::R1(r1) = came.packet.message()? else { return Err(DropReason::UnknownType) };
        let echo = Echo::of(r1.responder_nonce, &r1.options)?;
        asked.echo = Some(Echo { initiator_nonce: Some(nonce), ..echo });
        asked.nonce = self.rng.next_u32();
        self.send_i2(id, asked, came.now);
        Ok(())
    }

    /// R2: the peer has the context. Takes tag and locators (RFC 5533 s7.16).
    pub(crate) fn on_r2(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#7.16
        let &Incoming { packet, locators, now } = came;
        let nonce = packet.initiator_nonce().ok_or(DropReason::Truncated)?;
        let context = self.table.by_nonce(nonce, locators).ok_or(DropReason::Unasked)?;
        let (id, key) = (context.id, context.key);
        let asked = context.handshake().cloned().ok_or(DropReason::Unasked)?;
        let former_role = context.established().map(|established| established.role);
        let takes = match (context.state() == State::I1Sent, asked.took.is_after_plain()) {
            (true, _) => Takes::Unknown,
            (false, true) => Takes::AllAgain,
            (false, false) => Takes::All,
        };
        let told = self.told_to(context, locators);
        let Message::R2(r2) = packet.message()? else { return Err(DropReason::UnknownType) };
        if self.table.is_crowded(r2.responder_tag) {
            return Err(DropReason::TableFull);
        }
        let peer = match self.offered(key.ulids.peer, &r2.options, came) {
            // The limit of signatures, and parameters that this host has forgotten, say nothing about the locators.
            Err(reason)
                if !matches!(reason, DropReason::RateLimited | DropReason::MissingOption) =>
            {
                self.table.ask(id, Handshake { is_unverified: true, ..asked });
                return Err(reason);
            }
            peer => peer?,
        };
        if !peer.locators.contains(&locators.peer) {
            return Err(DropReason::WrongLocators);
        }
        let is_named = asked.named().is_none_or(|named| named.tag == r2.responder_tag);
        if !is_named && self.ask_who_named(id, now) {
            return Err(DropReason::StaleNonce);
        }
        let role = former_role.unwrap_or(Role::Initiator);
        let tag = (r2.responder_tag, asked.asked_at);
        let established = Established { takes, ..Established::with(tag, told, peer, role) };
        self.table.establish(id, established);
        self.negatives.forgive(key.ulids);
        self.events.push_back(if former_role.is_some() {
            Event::Renewed { context: id }
        } else {
            Event::Established { context: id, role, locators }
        });
        //= rfc5533#7.16-4
        self.resolve_confusion(id, locators.peer);
        self.update_if_outdated(id, now);
        Ok(())
    }

    /// The peer has named one tag in an I1, and another one in this message. Either one of the two is from a past life of
    /// the peer, or the I1 was forged. The peer itself knows, so this host asks it with a new nonce, which no past life of
    /// it has seen. It does so once in an establishment; returns false if it has done so before.
    pub(crate) fn ask_who_named(&mut self, id: ContextId, now: Instant) -> bool {
        let asked = self.table.get(id).and_then(Context::handshake).cloned();
        let Some(asked) = asked else { return false };
        let Crossing::Named(named) = asked.crossing else { return false };
        let i1_retries = (asked.i1_retries + 1).min(I1_RETRIES_MAX);
        let crossing = Crossing::AskedAgain(named);
        self.send_i1(id, Handshake { i1_retries, crossing, ..asked }, now);
        true
    }

    /// The answer has not come in time.
    pub(crate) fn on_handshake_timeout(&mut self, id: ContextId, now: Instant) {
        let Some(context) = self.table.get(id) else { return };
        let Some(mut asked) = context.handshake().cloned() else { return };
        //= rfc5533#7.12-1 rfc5533#7.19-1
        if asked.echo.is_some() && asked.retries < I2_RETRIES_MAX {
            asked.retries += 1;
            // RFC 5533 s7.13: some responders bind the validator to the nonce of the I1 (decision 004).
            let of_i1 = asked.echo.as_ref().and_then(|echo| echo.initiator_nonce);
            asked.nonce = of_i1.unwrap_or(asked.nonce);
            (asked.is_hastened, asked.is_referred) = (false, false);
            self.send_i2(id, asked, now);
        } else if asked.established.is_some() {
            //= rfc5533#7.19
            //= rfc5533#7.19-2
            self.start_anew(id, &asked, now);
        } else if asked.i1_retries < I1_RETRIES_MAX {
            //= rfc5533#7.12
            //= rfc5533#7.12-2
            // The validator may be too old by now.
            self.send_i1(id, Handshake { i1_retries: asked.i1_retries + 1, ..asked }, now);
        } else {
            self.fail(id, Failure::NoAnswer, now);
        }
    }

    /// The peer uses the context while the R2 is late. I2 or I2bis goes out once more before its time. So it goes out
    /// at most twice as often as by its timer, however much the peer sends. If that was in vain, or if the R2 answers
    /// an I1, the pair of the handshake may have failed. Then R1bis goes by the pair that the peer uses (decision 120).
    pub(crate) fn on_used_early(&mut self, id: ContextId, used: Used, now: Instant) {
        let Some(context) = self.table.get(id) else { return };
        let Some(asked) = context.handshake() else { return };
        if asked.echo.is_some() && !asked.is_hastened {
            self.send_i2(id, Handshake { is_hastened: true, ..asked.clone() }, now);
        } else if asked.established.is_none() && now.since(asked.sent) >= EARLY_USE {
            self.refer_to_r1bis(used, now);
        }
    }

    /// Removes the context with the least claim, if another one needs its place.
    pub(crate) fn make_room(&mut self, is_half_open: bool, now: Instant) {
        let Some(id) = self.table.victim(is_half_open) else { return };
        let is_established = self.table.get(id).is_some_and(|one| one.established().is_some());
        if !is_established {
            self.fail(id, Failure::NoRoom, now);
        } else if let Some(context) = self.table.remove(id) {
            self.events.push_back(Event::Evicted { context: id, ulids: context.key.ulids });
        }
    }

    pub(crate) fn fail(&mut self, id: ContextId, failure: Failure, now: Instant) {
        if let Some(context) = self.give_up(id, failure, now) {
            let ulids = context.key.ulids;
            self.events.push_back(Event::Failed { context: id, ulids, failure });
        }
    }

    /// Removes a context in any state. Remembers the failure for the time in which another try is useless.
    pub fn give_up(&mut self, id: ContextId, failure: Failure, now: Instant) -> Option<Context> {
        let context = self.table.remove(id)?;
        let ulids = context.key.ulids;
        //= rfc5533#7.8
        let holddown = match failure {
            Failure::NoAnswer | Failure::NotTaken => NO_R1_HOLDDOWN_TIME,
            // The daemon of the peer may have stopped for a restart, so this time is short at first.
            Failure::NoSupport if context.has_spoken() || self.negatives.has_lapsed(ulids, now) => {
                self.negatives.lapse(ulids, now)
            }
            Failure::NoSupport => ICMP_HOLDDOWN_TIME,
            Failure::NoRoom => NO_ROOM_HOLDDOWN_TIME,
        };
        if context.key == Key::of(ulids) {
            self.remember(ulids, failure, now + holddown);
        }
        Some(context)
    }

    /// Tries a pair no more before this time.
    fn remember(&mut self, ulids: UlidPair, failure: Failure, until: Instant) {
        if let Some(ulids) = self.negatives.insert(ulids, failure, until) {
            self.events.push_back(Event::HolddownOver { ulids });
        }
    }

    /// A trigger found no room. The data plane reports a pair only once, so the pair needs another try.
    pub(crate) fn refuse(&mut self, ulids: UlidPair, now: Instant) {
        self.remember(ulids, Failure::NoRoom, now + NO_ROOM_HOLDDOWN_TIME);
    }

    /// The information that the peer certainly has when an R2 goes out or has come in.
    pub(crate) fn told_to(&self, context: &Context, via: LocatorPair) -> Told {
        let ulid = context.key.ulids.local;
        let told = self.telling(ulid);
        match &context.stand {
            Stand::Established(established) => {
                let locators = established.local_locators.clone();
                Told { locators, edition: established.edition }
            }
            Stand::Handshake(asked) if asked.is_retold => told.uncertain(ulid, via),
            Stand::Handshake(asked) if asked.wording() == Wording::Plain => self.plain(told, ulid),
            Stand::Handshake(_) => told,
        }
    }

    /// Goes back to I1-SENT. That state has no CT(peer), and payload leaves unchanged.
    pub(crate) fn start_anew(&mut self, id: ContextId, asked: &Handshake, now: Instant) {
        self.events.push_back(Event::Lapsed { context: id });
        let is_retold = asked.is_retold;
        let anew = Handshake { is_retold, is_anew: true, ..Handshake::new(asked.via, now) };
        self.send_i1(id, anew, now);
    }

    /// Sends an I1 by the earlier pair, while this host can send from there.
    pub(crate) fn send_i1(&mut self, id: ContextId, asked: Handshake, now: Instant) {
        //= rfc5533#7.8
        let deadline = now + self.backed_off(I1_TIMEOUT, asked.i1_retries);
        let is_late = asked.is_half_open();
        let Handshake { is_retold, is_anew, is_unverified, i1_retries, crossing, via, .. } = asked;
        let begun = Handshake::new(via, now);
        let begun = Handshake { is_retold, is_anew, is_unverified, i1_retries, crossing, ..begun };
        self.send_i1_until(id, Handshake { is_late, deadline, ..begun });
    }

    /// Sends an I1 with a new nonce. The deadline of the handshake stays.
    pub(crate) fn send_i1_until(&mut self, id: ContextId, mut asked: Handshake) {
        asked.nonce = self.rng.next_u32();
        asked.asked_at = self.validators.latest();
        let Some(context) = self.table.get(id) else { return };
        let key = context.key;
        let is_usable = self.usable.is_empty() || self.usable.contains(&asked.via.local);
        let via = if is_usable { asked.via } else { self.first_pair(key.ulids) };
        let i1 = I1 {
            initiator_tag: context.local_tag,
            initiator_nonce: asked.nonce,
            options: key.options(via).collect::<Vec<_>>().into(),
        };
        self.table.ask(id, Handshake { via, ..asked });
        self.push_transmit(Via::Pair(via), Message::I1(i1));
    }

    /// Sends an I2, or an I2bis if the context exists.
    pub(crate) fn send_i2(&mut self, id: ContextId, mut asked: Handshake, now: Instant) {
        (asked.sent, asked.deadline) = (now, now + self.backed_off(I2_TIMEOUT, asked.retries));
        asked.asked_at = self.validators.latest();
        let Some(context) = self.table.get(id) else { return };
        let Some(Echo { responder_nonce, validator, .. }) = &asked.echo else { return };
        let (initiator_tag, via) = (context.local_tag, asked.via);
        let (initiator_nonce, responder_nonce) = (asked.nonce, *responder_nonce);
        //= rfc5533#5.6-4 rfc5533#5.6-5
        let mut options = alloc::vec![Opt::Validator(validator.clone())];
        options.extend(context.key.options(via));
        options.extend(self.options_for(context.key.ulids.local, asked.wording(), asked.took));
        let options = Options::from(options);
        let message = match asked.established.as_ref().map(|established| established.peer_tag) {
            None => Message::I2(I2 { initiator_tag, initiator_nonce, responder_nonce, options }),
            Some(packet_tag) => Message::I2bis(I2bis {
                initiator_tag,
                initiator_nonce,
                responder_nonce,
                packet_tag,
                options,
            }),
        };
        self.table.ask(id, asked);
        self.push_transmit(Via::Pair(via), message);
    }

    /// Binary backoff with a random factor of 0.5 to 1.5 (RFC 5533 s14).
    //= rfc5533#14
    pub(crate) fn backed_off(&mut self, nominal: Duration, retries: u8) -> Duration {
        self.randomized(backoff(nominal, u32::from(retries)))
    }

    pub(crate) fn randomized(&mut self, nominal: Duration) -> Duration {
        let per_mille = 500 + self.rng.next_u32() % 1001;
        nominal * per_mille / 1000
    }
}

/// The nominal time, doubled for each retransmission.
pub(crate) fn backoff(nominal: Duration, retries: u32) -> Duration {
    nominal.saturating_mul(1 << retries.min(16))
}
