use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::Hasher as _;

use moorline_cga::{LocalProof, ParameterMemory};
use moorline_index::{FloodLimit, Validators};
use moorline_types::{ContextId, ContextTag, DropReason, Instant, Locator, UlidPair};
use moorline_wire::{LocatorPreference, Message, MessageType};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::claim::Neighbors;
use crate::config::Config;
use crate::consts::{
    ALL_ANSWERS_BURST, ALL_ANSWERS_INTERVAL, ANSWER_BURST, ANSWER_INTERVAL, MAX_QUEUED,
    MAX_REMEMBERED_PARAMETERS, R1_BURST, R1_INTERVAL, SIGNATURE_BURST, SIGNATURE_INTERVAL, SLICE,
    VALIDATOR_MIN_LIFETIME,
};
use crate::context::{Context, Established, Role, Stand, State};
use crate::event::{Event, Failure, Incoming, Transmit, Via};
use crate::key::Key;
use crate::negative::Negatives;
use crate::resume::Resumption;
use crate::table::Table;
use crate::update::Telling;

/// All Shim6 contexts of a host.
///
/// After each `handle_*` the caller drains [`poll_transmit`](Self::poll_transmit) and
/// [`poll_event`](Self::poll_event), then sleeps until [`poll_timeout`](Self::poll_timeout).
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) rng: ChaCha20Rng,
    /// Responder Nonces and their secrets. A nonce is valid for 30 to 60 s.
    pub(crate) validators: Validators,
    /// Our locators with their proof, for peers. `None` before the first [`set_addresses`](Self::set_addresses).
    pub(crate) local: Option<LocalProof>,
    /// Addresses that this host can send from. Empty: the caller has not set them.
    pub(crate) usable: Vec<Locator>,
    /// Preferences for our locators, for peers.
    pub(crate) preferences: Vec<(Locator, LocatorPreference)>,
    /// Number of changes of preferences and Send Timeout.
    pub(crate) edition: u32,
    pub(crate) resumption: Resumption,
    /// Peers that are told of a change.
    pub(crate) telling: Option<Telling>,
    /// Slots that one turn looks at: [`SLICE`]. Tests have fewer.
    pub(crate) slice: u32,
    pub(crate) table: Table,
    pub(crate) negatives: Negatives,
    /// Parameters with which peers have proved their locators.
    pub(crate) parameters: ParameterMemory,
    /// Limit of RSA verifications.
    pub(crate) signatures: FloodLimit,
    /// Limits of R1bis and Error messages, and of R2s to who has proved nothing: by prefix, and to everybody together.
    answers: FloodLimit,
    all_answers: FloodLimit,
    /// Limit of R1s.
    pub(crate) welcomes: FloodLimit,
    transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
}

impl Machine {
    /// Makes a host without contexts. `seed` must be secret and never used before: tags and validators are derived from
    /// it.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let limit =
            |label, interval, burst| FloodLimit::new(derived_key(&seed, label), interval, burst);
        Self {
            table: Table::new(config.max_contexts, &mut rng),
            config,
            validators: Validators::new(VALIDATOR_MIN_LIFETIME, &mut rng, now),
            rng,
            local: None,
            usable: Vec::new(),
            preferences: Vec::new(),
            edition: 0,
            resumption: Resumption::default(),
            telling: None,
            slice: SLICE,
            negatives: Negatives::default(),
            parameters: ParameterMemory::new(MAX_REMEMBERED_PARAMETERS),
            signatures: limit(SIGNATURE_LABEL, SIGNATURE_INTERVAL, SIGNATURE_BURST),
            answers: limit(ANSWER_LABEL, ANSWER_INTERVAL, ANSWER_BURST),
            all_answers: limit(ANSWER_LABEL, ALL_ANSWERS_INTERVAL, ALL_ANSWERS_BURST),
            welcomes: limit(FLOOD_LABEL, R1_INTERVAL, R1_BURST),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes an answer to a source that has proved nothing from the allowances. Requests beyond the allowance of a
    /// prefix use up nothing of the common allowance.
    pub(crate) fn take_answer(&mut self, to: Locator, now: Instant) -> Result<(), DropReason> {
        self.answers.take(to.prefix(), now)?;
        self.all_answers.take([0; 8], now)
    }

    /// Traffic between these addresses deserves a context. Sends I1, unless there is a context, or the host still
    /// remembers a negative answer for these addresses. If there is no room, [`Event::HolddownOver`] follows later.
    pub fn handle_trigger(&mut self, ulids: UlidPair, now: Instant) -> Result<(), DropReason> {
        if !ulids.is_global_unicast() {
            return Err(DropReason::BadAddress);
        }
        let key = Key::of(ulids);
        if let Some(context) = self.table.by_key(key) {
            self.handle_traffic(context.id);
            return Ok(());
        }
        if self.negatives.contains(ulids) {
            return Ok(());
        }
        let outcome = self.initiate(key, now);
        if outcome.is_err() {
            self.refuse(ulids, now);
        }
        outcome.map(|_| ())
    }

    /// Makes another context between two ULIDs, with paths of its own (RFC 5533 s4.2). Its Forked Instance Identifier
    /// is random.
    pub fn fork(&mut self, ulids: UlidPair, now: Instant) -> Result<ContextId, DropReason> {
        if !ulids.is_global_unicast() {
            return Err(DropReason::BadAddress);
        }
        loop {
            let key = Key { ulids, forked_instance: self.rng.next_u32() };
            if key != Key::of(ulids) && self.table.by_key(key).is_none() {
                return self.initiate(key, now);
            }
        }
    }

    /// Takes a control message with a valid header. Keepalives and Probes are not for this machine; the caller finds
    /// their context by [`by_tag`](Self::by_tag).
    pub fn handle_message(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        if !came.locators.is_global_unicast() {
            return Err(DropReason::BadAddress);
        }
        match came.packet.kind() {
            MessageType::I2 | MessageType::I2BIS => self.on_offer(came),
            MessageType::I1 => self.on_i1(came),
            MessageType::R1 => self.on_r1(came),
            MessageType::R2 => self.on_r2(came),
            MessageType::UPDATE_REQUEST => self.on_update_request(came),
            MessageType::UPDATE_ACK => self.on_update_ack(came),
            MessageType::R1BIS => self.on_r1bis(came),
            MessageType::ERROR => self.on_error(came),
            _ => Err(DropReason::UnknownType),
        }
    }

    /// Takes an ICMPv6 "unrecognized next header" that quotes an I1 (RFC 5533 s7.8). The machine believes it only if
    /// the I1 is one of ours, with tag and nonce.
    pub fn handle_no_support(&mut self, quoted: &Incoming<'_>) -> Result<(), DropReason> {
        let Message::I1(i1) = quoted.packet.message()? else { return Err(DropReason::UnknownType) };
        //= rfc5533#7.8
        let context = self.table.by_nonce(i1.initiator_nonce, quoted.locators);
        let context = context.ok_or(DropReason::BadNonce)?;
        if context.state() != State::I1Sent {
            return Err(DropReason::Unasked);
        }
        if context.local_tag != i1.initiator_tag {
            return Err(DropReason::BadNonce);
        }
        self.fail(context.id, Failure::NoSupport, quoted.now);
        Ok(())
    }

    /// Sends due messages again, and ends handshakes without a retry left.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.on_telling_due(now);
        self.on_resumption_due(now);
        while let Some(context) = self.table.due(now) {
            let id = context.id;
            match context.stand {
                Stand::Handshake(_) => self.on_handshake_timeout(id, now),
                Stand::Established(_) => self.on_update_timeout(id, now),
            }
        }
        while let Some(ulids) = self.negatives.pop_over(now) {
            self.events.push_back(Event::HolddownOver { ulids });
        }
    }

    /// The time when [`handle_timeout`](Self::handle_timeout) is due. Each `handle_*` can change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let turn = self.resumption.next_turn();
        let slice = self.telling.as_ref().map(|telling| telling.began);
        let others = [self.negatives.next_end(), turn, slice];
        others.into_iter().chain([self.table.next_deadline()]).flatten().min()
    }

    /// Gives the next message to send. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Gives the next event. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Notes that traffic needs a context. If the table needs room, a context that the peer has made goes unless this
    /// is noted.
    pub fn handle_traffic(&mut self, id: ContextId) {
        if self.table.get(id).is_some_and(|context| !context.has_traffic) {
            self.table.note_traffic(id);
        }
    }

    /// Removes a context. The peer is not told (RFC 5533 s11).
    pub fn remove(&mut self, id: ContextId) -> Option<Context> {
        self.table.remove(id)
    }

    /// Keeps these slots, in ascending order, for contexts that the caller will [`restore`](Self::restore) later.
    pub fn reserve(&mut self, slots: impl Iterator<Item = ContextId>) {
        self.table.reserve(slots);
    }

    /// Frees a reserved slot whose context is not restored.
    pub fn release(&mut self, id: ContextId) {
        self.table.release(id);
    }

    /// Takes over a context that an earlier run of this host had established. [`tell_restored`](Self::tell_restored)
    /// tells the peers what has changed since.
    pub fn restore(
        &mut self,
        id: ContextId,
        key: Key,
        local_tag: ContextTag,
        established: Established,
    ) -> Result<(), DropReason> {
        // The earlier run may have told a Send Timeout other than the default. Before the first edition the default is
        // not told, so the edition begins at one.
        self.edition = self.edition.max(1);
        let has_traffic = established.role == Role::Initiator;
        let (told_at, edition) = (self.validators.latest(), self.edition.wrapping_sub(1));
        let stand = Stand::Established(Established { told_at, edition, ..established });
        let neighbors = Neighbors::default();
        self.table.restore(Context { id, key, local_tag, stand, neighbors, has_traffic })
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

    /// The context between these ULIDs with this Forked Instance Identifier.
    #[must_use]
    pub fn by_key(&self, key: Key) -> Option<&Context> {
        self.table.by_key(key)
    }

    /// The context between these ULIDs and the contexts forked from it.
    pub fn of_pair(&self, ulids: UlidPair) -> impl Iterator<Item = &Context> + '_ {
        self.table.of_pair(ulids)
    }

    /// Number of contexts.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.table.count()
    }

    /// Number of slots, with those that are free.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.table.slots()
    }

    /// All contexts, by slot.
    pub fn contexts(&self) -> impl Iterator<Item = &Context> + '_ {
        self.table.iter()
    }

    /// The contexts in this slot and behind it, by slot. The contexts before cost nothing.
    pub fn contexts_from(&self, first: ContextId) -> impl Iterator<Item = &Context> + '_ {
        self.table.iter_from(first)
    }

    /// Pairs in E-FAILED and NO-SUPPORT, with the cause and the end of the holddown.
    pub fn negatives(&self) -> impl Iterator<Item = (UlidPair, Failure, Instant)> + '_ {
        self.negatives.iter()
    }

    pub(crate) fn push_transmit(&mut self, via: Via, message: Message) {
        if self.transmits.len() < MAX_QUEUED {
            self.transmits.push_back(Transmit { via, message });
        }
    }
}

/// Derives a key for a keyed hash. The label separates keys from one secret.
fn derived_key(secret: &[u8; 32], label: &[u8]) -> [u8; 16] {
    let (mut key, mut rest) = ([0; 16], [0; 16]);
    key.copy_from_slice(&secret[..16]);
    rest.copy_from_slice(&secret[16..]);
    let mut hasher = SipHasher24::new_with_key(&key);
    hasher.write(label);
    hasher.write(&rest);
    hasher.finish128().as_bytes()
}

const FLOOD_LABEL: &[u8] = b"moorline flood";
const SIGNATURE_LABEL: &[u8] = b"moorline signatures";
const ANSWER_LABEL: &[u8] = b"moorline answers";
