use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::LocatorClaim;
use moorline_index::Round;
use moorline_types::{ContextId, DropReason, Instant, Locator, LocatorPair, Ulid};
use moorline_wire::{ErrorCode, Message, OptionType, Options, UpdateAck, UpdateRequest};
use rand_core::RngCore;

use crate::acknowledged::wording;
use crate::consts::{
    MAX_STRANDED_TIMEOUT, MAX_UPDATE_TIMEOUT, STRANDED_INITIAL, STRANDED_TIMEOUT, UPDATE_BURST,
    UPDATE_INTERVAL, UPDATE_TIMEOUT,
};
use crate::context::{Context, Established, Handshake, Takes, Update};
use crate::event::{Event, Incoming, Via};
use crate::initiator::backoff;
use crate::machine::Machine;
use crate::peer::{PeerSet, peer_send_timeout};

/// A walk over the contexts whose peers may have to be told of a change.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    gained: Vec<Locator>,
    lost: Vec<Locator>,
    round: Round,
    /// Number of peers that have their turn already.
    turn: u32,
    pub(crate) began: Instant,
}

/// Exchange of locator lists: this host tells its own, and takes those of peers (RFC 5533 s10).
impl Machine {
    /// Tells the peers of all contexts whose ULID the present set proves. A newer list replaces one that is not
    /// acknowledged yet (s10.3).
    pub(crate) fn update_all(&mut self, now: Instant) {
        self.mark_retold();
        self.tell_all(&[], &[], now);
    }

    /// Tells the peers of all contexts that have outdated information. There are two more cases. If a peer was told of
    /// locators from which this host can send only now, an earlier Update Request may have found no way out. If this
    /// host has lost the last locator that a peer knows, the next repetition may be minutes away.
    ///
    /// The first [`slice`](Self::slice) of the contexts is looked at now, and each further one with a timeout. A change
    /// during the walk makes the walk begin anew where it is, so all contexts get their turn, however fast changes come.
    pub(crate) fn tell_all(&mut self, gained: &[Locator], lost: &[Locator], now: Instant) {
        let before = self.telling.take();
        let (mut gained, mut lost, mut place) = (gained.to_vec(), lost.to_vec(), 0);
        if let Some(before) = before {
            place = before.round.place();
            gained.extend(before.gained.iter().filter(|own| self.usable.contains(own)));
            lost.extend(before.lost.iter().filter(|own| !self.usable.contains(own)));
        }
        let round = Round::at(place, self.table.slots());
        self.tell_slice(Telling { gained, lost, round, turn: 0, began: now }, now);
    }

    pub(crate) fn on_telling_due(&mut self, now: Instant) {
        if let Some(telling) = self.telling.take() {
            self.tell_slice(telling, now);
        }
    }

    fn tell_slice(&mut self, mut telling: Telling, now: Instant) {
        let slots = telling.round.take(self.slice);
        let is_to_tell = |context: &&Context| {
            self.is_outdated(context)
                || is_waiting_for(context, &telling.gained)
                || self.is_stranded_by(context, &telling.lost)
        };
        let slice = self.table.between(slots).filter(is_to_tell);
        let ids: Vec<_> = slice.map(|context| context.id).collect();
        for id in ids {
            self.tell_in_turn(id, telling.turn, now);
            telling.turn += 1;
        }
        self.telling = Some(telling).filter(|telling| !telling.round.is_over());
    }

    /// Tells the peers of restored contexts, in turn: this run does not know what the earlier run has told the peers.
    pub fn tell_restored(&mut self, now: Instant) {
        self.tell_all(&[], &[], now);
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

    /// Notes, for each unfinished handshake, that the information about this host has changed: either version may have
    /// reached the peer.
    pub(crate) fn mark_retold(&mut self) {
        let unsettled = self.table.iter().filter_map(|context| {
            Some((context.id, Handshake { is_retold: true, ..context.handshake()?.clone() }))
        });
        let unsettled: Vec<_> = unsettled.collect();
        for (id, asked) in unsettled {
            self.table.ask(id, asked);
        }
    }

    /// Tells the peer of a context, unless the peer knows or will know when the request under way arrives.
    pub(crate) fn update_if_outdated(&mut self, id: ContextId, now: Instant) {
        if self.table.get(id).is_some_and(|context| self.is_outdated(context)) {
            let nonce = self.rng.next_u32();
            self.send_update(id, nonce, 0, now);
        }
    }

    /// Tells the peer again, even if it knows: a peer that has the context acknowledges.
    pub fn ask(&mut self, id: ContextId, now: Instant) {
        let established = self.table.get(id).and_then(Context::established);
        if established.is_some_and(|established| established.update_tries() == 0) {
            let nonce = self.rng.next_u32();
            self.send_update(id, nonce, 0, now);
        }
    }

    fn is_outdated(&self, context: &Context) -> bool {
        let Some(established) = context.settled() else { return false };
        let (locators, edition) = match &established.update {
            Some(update) => (&update.told.locators, update.told.edition),
            None => (&established.local_locators, established.edition),
        };
        let ulid = context.key.ulids.local;
        let to_tell = self.locators_that(established.takes, ulid);
        edition != self.edition || self.is_provable(ulid) && to_tell != *locators
    }

    pub(crate) fn on_update_timeout(&mut self, id: ContextId, now: Instant) {
        let settled = self.table.get(id).and_then(Context::settled);
        //= rfc5533#10.2
        // There is no limit. Only the removal of the context ends the retransmissions.
        if let Some(update) = settled.and_then(|settled| settled.update.as_ref()) {
            self.send_update(id, update.nonce, update.sent, now);
        }
    }

    /// Sends an Update Request. `sent`: how often it went out before.
    pub(crate) fn send_update(&mut self, id: ContextId, nonce: u32, sent: u32, now: Instant) {
        let Some(context) = self.table.get(id) else { return };
        //= rfc5533#10.2
        // The backoff "stops at MAX_UPDATE_TIMEOUT", the nominal value that is randomized (s14).
        let nominal = if self.is_stranded(context) {
            stranded_timeout(sent)
        } else {
            backoff(UPDATE_TIMEOUT, sent).min(MAX_UPDATE_TIMEOUT)
        };
        let deadline = now + self.randomized(nominal);
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let wording = wording(established.takes, sent);
        let options = self.options_for(context.key.ulids.local, wording, established.takes);
        let request = UpdateRequest {
            receiver_tag: established.peer_tag,
            request_nonce: nonce,
            options: Options::from(options),
        };
        self.set_update(id, nonce, sent.saturating_add(1), deadline);
        self.push_transmit(Via::Current(id), Message::UpdateRequest(request));
    }

    /// Whether the peer knows no locator from which this host could send. Then no probe can leave, and the Update
    /// Request finds out which pair works.
    fn is_stranded(&self, context: &Context) -> bool {
        context.established().is_some_and(|established| {
            !self.usable.is_empty()
                && !established.local_locators.iter().any(|own| self.usable.contains(own))
        })
    }

    /// Whether this host has lost the last locator that the peer knows, and has told the peer of others.
    fn is_stranded_by(&self, context: &Context, lost: &[Locator]) -> bool {
        context.settled().is_some_and(|established| {
            established.update_tries() > 0
                && established.local_locators.iter().any(|own| lost.contains(own))
                && self.is_stranded(context)
        })
    }

    fn set_update(&mut self, id: ContextId, nonce: u32, sent: u32, deadline: Instant) {
        let settled = self.table.get(id).filter(|context| context.settled().is_some());
        let Some(context) = settled else { return };
        //= rfc5533#10.3
        let mut told = self.telling(context.key.ulids.local);
        let takes = context.established().map_or(Takes::Unknown, |established| established.takes);
        told.locators = self.locators_that(takes, context.key.ulids.local);
        let update = Some(Box::new(Update { nonce, told, sent, deadline }));
        self.table.change_established(id, |established| established.update = update);
    }

    /// Update Request: verifies it, takes it over, and acknowledges it (s10.4).
    pub(crate) fn on_update_request(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let &Incoming { packet, locators, now } = came;
        let Message::UpdateRequest(request) = packet.message()? else {
            return Err(DropReason::UnknownType);
        };
        let comes_from = |established: &Established| {
            established.has_locators(locators) || announces(&request.options, established, locators)
        };
        let id = self.addressed_if(came, comes_from)?;
        let ulid = self.table.get(id).ok_or(DropReason::UnknownTag)?.key.ulids.peer;
        let established = self.established_of(id)?;
        let (receiver_tag, known) = (established.peer_tag, established.peer.clone());
        let is_strange = !established.has_locators(locators);
        let peer = self.updated(&request.options, &known, ulid, came).inspect_err(|reason| {
            self.ask_for_proof(*reason, is_strange, came);
        })?;
        if peer != known {
            self.table.change_established(id, |established| established.peer = peer);
            self.renonce_i2bis(id, now);
            self.events.push_back(Event::Renewed { context: id });
        }
        self.confirm(id);
        let (request_nonce, options) = (request.request_nonce, Options::default());
        let ack = UpdateAck { receiver_tag, request_nonce, options };
        self.push_transmit(Via::Reply(id, locators), Message::UpdateAck(ack));
        Ok(())
    }

    /// The known data cannot settle the peer's claim. Another host may have sent us the known list, or may send this
    /// one, or the parameters have been forgotten. An I2bis makes the peer prove everything again.
    fn ask_for_proof(&mut self, reason: DropReason, is_strange: bool, came: &Incoming<'_>) {
        let is_of_proof = matches!(
            reason,
            DropReason::Replayed | DropReason::MissingOption | DropReason::Disbelieved
        );
        let is_to_prove = is_strange || is_of_proof;
        if let (true, Some(used)) = (is_to_prove, came.used()) {
            let _ = self.refer_to_r1bis(used, came.now);
        }
    }

    /// The data about the peer after an Update Request.
    fn updated(
        &mut self,
        options: &Options,
        known: &PeerSet,
        ulid: Ulid,
        came: &Incoming<'_>,
    ) -> Result<PeerSet, DropReason> {
        let is_strange = !known.locators.contains(&came.locators.peer);
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
            (Some(list), _) => {
                //= rfc5533#10.4
                if is_strange {
                    // Unverified sources all use the allowance of the ULID's prefix, so many sources gain an attacker
                    // nothing.
                    self.signatures.take(Locator(ulid.0).prefix(), came.now)?;
                }
                let verified = self.verify_peer(ulid, options, came)?;
                if known.is_shortened_unsigned_by(list, ulid) {
                    return Err(DropReason::Disbelieved);
                }
                peer = PeerSet { send_timeout: peer.send_timeout, ..verified };
            }
            // Parameters without a list serve later messages that lack them.
            (None, _) => {
                self.verify_peer(ulid, options, came)?;
            }
        }
        //= rfc5534#5.3
        //= rfc5534#5.3-3
        peer.send_timeout = peer_send_timeout(options).unwrap_or(peer.send_timeout);
        if let Some(preferences) = options.locator_preferences()
            && let Err(code) = peer.prefer(preferences)
        {
            let option = came.packet.options().map_while(Result::ok);
            let mut option = option.filter(|raw| raw.kind == OptionType::LOCATOR_PREFERENCES);
            let at = if code == ErrorCode::GENERATION { CONTENTS_AT } else { LENGTH_AT };
            let pointer = option.next().map_or(0, |raw| raw.offset.saturating_add(at));
            self.complain(came, code, pointer);
            return Err(DropReason::BadFormat);
        }
        Ok(peer)
    }

    /// The context that a message names by its Receiver Context Tag, if the message comes by its locators. Otherwise
    /// this host sends an R1bis (RFC 5533 s12.4), unless the message is shorter than the R1bis.
    ///
    /// # Errors
    /// [`UnknownTag`](DropReason::UnknownTag) and [`WrongLocators`](DropReason::WrongLocators): an R1bis is on its way, or
    /// the message is too short for one. [`RateLimited`](DropReason::RateLimited): no R1bis was sent.
    /// [`NotEstablished`](DropReason::NotEstablished): the context is in I1-SENT or I2-SENT.
    //= rfc5533#10.4-2 rfc5533#10.4-3 rfc5533#10.5-2 rfc5533#10.5-3
    pub fn addressed(&mut self, came: &Incoming<'_>) -> Result<ContextId, DropReason> {
        let id = self.addressed_if(came, |own| own.has_locators(came.locators))?;
        self.on_sent_to(id, came.locators.local);
        self.confirm(id);
        Ok(id)
    }

    /// The peer sends to a locator of this host, so the peer knows it, with or without an acknowledgement. The peer may
    /// know it from an earlier list than the newest, so the other locators wait for the acknowledgement.
    fn on_sent_to(&mut self, id: ContextId, local: Locator) {
        let Ok(established) = self.established_of(id) else { return };
        if !established.local_locators.contains(&local) {
            let locators = established.local_locators.iter().copied().chain([local]).collect();
            self.table.change_established(id, |known| known.local_locators = locators);
            self.events.push_back(Event::Announced { context: id });
        }
    }

    pub(crate) fn confirm(&mut self, id: ContextId) {
        if let Ok(established) = self.established_of(id)
            && !established.is_confirmed()
        {
            self.table.change_established(id, |established| established.takes = Takes::All);
            self.events.push_back(Event::Confirmed { context: id });
        }
    }

    pub(crate) fn addressed_if(
        &mut self,
        came: &Incoming<'_>,
        has_locators: impl FnOnce(&Established) -> bool,
    ) -> Result<ContextId, DropReason> {
        //= rfc5533#12.4
        let used = came.used().ok_or(DropReason::Truncated)?;
        let Some(context) = self.table.by_tag(used.tag) else {
            return Err(self.refer_to_r1bis(used, came.now));
        };
        let id = context.id;
        let has_locators = context.established().map(has_locators);
        if has_locators == Some(false) {
            let _ = self.refer_to_r1bis(used, came.now);
            return Err(DropReason::WrongLocators);
        }
        self.on_used_early(id, used, came.now);
        if has_locators.is_some() { Ok(id) } else { Err(DropReason::NotEstablished) }
    }

    pub(crate) fn established_of(&self, id: ContextId) -> Result<&Established, DropReason> {
        let established = self.table.get(id).and_then(Context::established);
        established.ok_or(DropReason::NotEstablished)
    }
}

/// Whether an Update Request comes from a locator in its own list (decision 103). A host that has lost all other
/// locators can send from no known one. The list is verified later.
fn announces(options: &Options, known: &Established, locators: LocatorPair) -> bool {
    let is_newer = |generation| known.peer.generation.is_none_or(|old| is_newer(generation, old));
    known.may_know(locators.local)
        && options.locator_list().is_some_and(|list| {
            is_newer(list.generation)
                && list.entries.iter().any(|entry| entry.locator == locators.peer)
        })
}

/// Whether the peer was told of one of these locators and has not acknowledged the request.
fn is_waiting_for(context: &Context, gained: &[Locator]) -> bool {
    let is_told = |known: &Established| gained.iter().any(|locator| known.told().contains(locator));
    context.settled().is_some_and(|known| known.update_tries() > 0 && is_told(known))
}

/// Nominal time until a repeated Update Request that takes the place of probes: the interval between probes (RFC 5534
/// s4.3).
fn stranded_timeout(sent: u32) -> Duration {
    let doublings = sent.saturating_add(2).saturating_sub(STRANDED_INITIAL);
    backoff(STRANDED_TIMEOUT, doublings).min(MAX_STRANDED_TIMEOUT)
}

/// Checks that the parameters belong to the ULID, whatever comes with them (s10.4).
fn check_parameters(ulid: Ulid, options: &Options) -> Result<(), DropReason> {
    if let Some(pds) = options.pds() {
        LocatorClaim { ulid, pds, list: None, signature: None }.check()?;
    }
    Ok(())
}

/// Whether a generation comes after another one, in serial arithmetic (design s6).
pub(crate) const fn is_newer(generation: u32, known: u32) -> bool {
    let ahead = generation.wrapping_sub(known);
    ahead != 0 && ahead < 1 << 31
}

/// Offsets of Length and contents in an option.
const LENGTH_AT: u16 = 2;
const CONTENTS_AT: u16 = 4;
