use alloc::collections::VecDeque;

use moorline_cga::{LocalProof, ParameterMemory};
use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair, UlidPair};
use moorline_wire::{Message, MessageType, OptionType, Packet};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::config::Config;
use crate::consts::{MAX_QUEUED, MAX_REMEMBERED_PARAMETERS};
use crate::context::{Context, State};
use crate::event::{Event, Failure, Transmit, Via};
use crate::limit::RateLimit;
use crate::negative::Negatives;
use crate::table::Table;
use crate::validator::Validators;

/// All Shim6 contexts of a host.
///
/// After each `handle_*` the caller drains [`poll_transmit`](Self::poll_transmit) and
/// [`poll_event`](Self::poll_event), then sleeps until [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) validators: Validators,
    /// What peers are told; `None` before the first [`set_local`](Self::set_local).
    pub(crate) local: Option<LocalProof>,
    pub(crate) table: Table,
    pub(crate) negatives: Negatives,
    /// Parameters that peers have proved themselves with.
    pub(crate) parameters: ParameterMemory,
    /// RSA verifications.
    pub(crate) signatures: RateLimit,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

impl Machine {
    /// An empty host. `seed` must be secret and never used before: tags and validators come of it.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        Self {
            table: Table::new(config.max_contexts),
            config,
            validators: Validators::new(&mut rng, now),
            rng,
            local: None,
            negatives: Negatives::default(),
            parameters: ParameterMemory::new(MAX_REMEMBERED_PARAMETERS),
            signatures: RateLimit::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// What to tell peers about ourselves from now on, and those of our contexts at once. A proof of
    /// the present generation is taken for the one that is there.
    pub fn set_local(&mut self, proof: &LocalProof, now: Instant) {
        let is_known =
            self.local.as_ref().is_some_and(|known| known.generation() == proof.generation());
        if !is_known {
            self.local = Some(proof.clone());
            self.update_all(now);
        }
    }

    /// Traffic between these addresses deserves a context: sends I1 unless there is one, or the
    /// peer was found not to answer.
    pub fn handle_trigger(&mut self, ulids: UlidPair, now: Instant) -> Result<(), DropReason> {
        if !is_global_unicast(ulids.local.0) || !is_global_unicast(ulids.peer.0) {
            return Err(DropReason::BadAddress);
        }
        if self.table.by_ulids(ulids).is_some() || self.negatives.contains(ulids) {
            return Ok(());
        }
        self.initiate(ulids, now)
    }

    /// A control message whose header has been checked. Messages of contexts (Keepalive, Probe) are
    /// not for this machine: the caller finds their context by [`by_tag`](Self::by_tag).
    pub fn handle_message(
        &mut self,
        packet: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !is_global_unicast(locators.peer.0) || !is_global_unicast(locators.local.0) {
            return Err(DropReason::BadAddress);
        }
        match packet.kind() {
            MessageType::I2 => self.on_i2(packet, locators, now),
            MessageType::I1 => self.on_i1(packet, locators, now),
            MessageType::R1 => self.on_r1(packet, locators, now),
            MessageType::R2 => self.on_r2(packet, locators, now),
            MessageType::UPDATE_REQUEST => self.on_update_request(packet, locators, now),
            MessageType::UPDATE_ACK => self.on_update_ack(packet, locators),
            _ => Err(DropReason::Unsupported),
        }
    }

    /// Payload whose tag the data plane does not know (RFC 5533 s12.2). In I2-SENT the R2 is late or
    /// lost, so the I2 goes out again; the answer to other tags, R1bis, is not given yet.
    pub fn handle_payload(&mut self, tag: ContextTag, now: Instant) -> Result<(), DropReason> {
        let context = self.table.by_tag(tag).ok_or(DropReason::UnknownTag)?;
        if matches!(context.state, State::I2Sent(_)) {
            let id = context.id;
            self.send_i2_again(id, now);
        }
        Err(DropReason::UnexpectedState)
    }

    /// ICMPv6 "unrecognized next header" that quotes an I1 (RFC 5533 s7.8): believed if the I1 is
    /// one of ours to the letter, tag and nonce included.
    pub fn handle_no_support(
        &mut self,
        quoted: &Packet<'_>,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let Message::I1(i1) = quoted.message()? else { return Err(DropReason::UnknownType) };
        let ulids = as_ulids(locators);
        let context = self.table.by_ulids(ulids).ok_or(DropReason::UnknownTag)?;
        match &context.state {
            State::I1Sent(state)
                if state.nonce == i1.initiator_nonce && context.local_tag == i1.initiator_tag =>
            {
                let id = context.id;
                self.fail(id, Failure::NoSupport, now);
                Ok(())
            }
            State::I1Sent(_) => Err(DropReason::BadNonce),
            State::I2Sent(_) | State::Established(_) => Err(DropReason::UnexpectedState),
        }
    }

    /// Sends again what is due, gives up what had its retries.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(context) = self.table.due(now) {
            let id = context.id;
            match context.state {
                State::I1Sent(_) => self.on_i1_timeout(id, now),
                State::I2Sent(_) => self.on_i2_timeout(id, now),
                State::Established(_) => self.on_update_timeout(id, now),
            }
        }
        while let Some(ulids) = self.negatives.pop_over(now) {
            self.push_event(Event::HolddownOver { ulids });
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; changes with each `handle_*`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.table.next_deadline(), self.negatives.next_end()].into_iter().flatten().min()
    }

    /// The next message to send; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next event; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Forgets a context without a word to the peer (RFC 5533 s11).
    pub fn remove(&mut self, id: ContextId) -> Option<Context> {
        self.table.remove(id)
    }

    /// Takes a context over that an earlier run of this host had established.
    pub fn restore(&mut self, context: Context) -> Result<(), DropReason> {
        self.table.restore(context)
    }

    /// The context in this slot.
    #[must_use]
    pub fn context(&self, id: ContextId) -> Option<&Context> {
        self.table.get(id)
    }

    /// The context with this CT(local).
    #[must_use]
    pub fn by_tag(&self, tag: ContextTag) -> Option<&Context> {
        self.table.by_tag(tag)
    }

    /// All contexts, by slot.
    pub fn contexts(&self) -> impl Iterator<Item = &Context> + '_ {
        self.table.iter()
    }

    /// Pairs in E-FAILED and NO-SUPPORT, with the time when that is forgotten.
    pub fn negatives(&self) -> impl Iterator<Item = (UlidPair, Failure, Instant)> + '_ {
        self.negatives.iter()
    }

    /// Refuses what this version has no procedure for, before it costs anything.
    pub(crate) fn refuse_unsupported(packet: &Packet<'_>) -> Result<(), DropReason> {
        let asks_more = packet.raw_option(OptionType::ULID_PAIR).is_some()
            || packet.raw_option(OptionType::FORKED_INSTANCE).is_some();
        if asks_more { Err(DropReason::Unsupported) } else { Ok(()) }
    }

    pub(crate) fn peer_tag(&self, id: ContextId) -> Result<ContextTag, DropReason> {
        let established = self.table.get(id).and_then(Context::established);
        established.map(|established| established.peer_tag).ok_or(DropReason::UnexpectedState)
    }

    pub(crate) fn push_transmit(&mut self, via: Via, message: Message) {
        if self.transmits.len() < MAX_QUEUED {
            self.transmits.push_back(Transmit { via, message });
        }
    }

    pub(crate) fn push_event(&mut self, event: Event) {
        self.events.push_back(event);
    }
}

/// In context establishment without the ULID-pair option the locators are the ULIDs.
pub(crate) fn as_ulids(locators: LocatorPair) -> UlidPair {
    UlidPair::new(locators.local.as_ulid(), locators.peer.as_ulid())
}

/// RFC 5533 s12.3 and more: link-local and loopback addresses are no locators either.
pub(crate) fn is_global_unicast(address: core::net::Ipv6Addr) -> bool {
    !(address.is_multicast()
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local())
}
