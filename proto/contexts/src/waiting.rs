use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use moorline_datapath::shim6::Report;
use moorline_index::Index;
use moorline_shim6::{Incoming, Key};
use moorline_types::{
    ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, Prefix, Ulid, UlidPair,
};
use moorline_wire::{MessageType, Packet, PayloadHeader};
use siphasher::sip::SipHasher13;

use crate::machine::Contexts;
use crate::snapshot::ContextSnapshot;

/// Contexts of an earlier run of this host that wait until this run takes them over.
///
/// Their slots are reserved. A message, a report or a request about a waiting context takes it over first, so for the
/// rest of the machine the context has been there since the start. The others follow in slices, by
/// [`Contexts::take_over`]: first contexts that have moved, then contexts with traffic, then the rest.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    contexts: BTreeMap<ContextId, ContextSnapshot>,
    /// All slots, the next one last. Contexts that something has taken over before their turn are still named.
    turns: Vec<ContextId>,
    /// Waiting contexts by ULID pair, CT(local) and CT(peer).
    by_name: Index,
    keyed: SipHasher13,
    /// Number of contexts at the start.
    total: usize,
    /// Our addresses in these contexts. A set of the start: no address goes before the end.
    ulids: BTreeSet<Ulid>,
    locators: BTreeSet<Locator>,
    refused: BTreeMap<DropReason, u32>,
}

impl Waiting {
    /// Indexes the contexts of an earlier run. `key` must be secret: peers have chosen some of the tags. If two contexts
    /// have the same slot, only the first one counts.
    #[must_use]
    pub fn new(snapshots: Vec<ContextSnapshot>, key: [u8; 16]) -> Self {
        let mut waiting = Self { keyed: SipHasher13::new_with_key(&key), ..Self::default() };
        for snapshot in snapshots {
            waiting.add(snapshot);
        }
        let contexts = &waiting.contexts;
        waiting.turns = contexts.keys().rev().copied().collect();
        waiting.turns.sort_by_cached_key(|id| contexts.get(id).map(ContextSnapshot::urgency));
        waiting.total = contexts.len();
        waiting
    }

    /// Number of contexts that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contexts.len()
    }

    /// Whether no context waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Number of contexts that waited at the start.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Numbers of contexts that were not taken over, by reason.
    #[must_use]
    pub const fn refused(&self) -> &BTreeMap<DropReason, u32> {
        &self.refused
    }

    /// Our ULIDs that waiting contexts need, and perhaps some more.
    pub fn ulids(&self) -> impl Iterator<Item = Ulid> + '_ {
        self.ulids.iter().copied().filter(|_| !self.is_empty())
    }

    /// Our locators that waiting contexts send from, and perhaps some more.
    pub fn locators(&self) -> impl Iterator<Item = Locator> + '_ {
        self.locators.iter().copied().filter(|_| !self.is_empty())
    }

    /// Whether a waiting context between these ULIDs has moved.
    #[must_use]
    pub fn has_moved(&self, ulids: UlidPair) -> bool {
        let contexts = self.named(&ulids).filter_map(|id| self.contexts.get(&id));
        let mut moved = contexts.filter(|context| context.is_moved());
        moved.any(|context| context.key.ulids == ulids)
    }

    /// Number of slots up to the last one that a context waits for.
    pub(crate) fn slots(&self) -> u32 {
        self.contexts.last_key_value().map_or(0, |(id, _)| id.0.saturating_add(1))
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&ContextSnapshot> {
        self.contexts.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ContextSnapshot> {
        self.contexts.values()
    }

    pub(crate) fn has_peers_in(&self, prefixes: &[Prefix]) -> bool {
        let mut locators = self.iter().flat_map(|context| &*context.peer.locators);
        locators.any(|peer| prefixes.iter().any(|prefix| prefix.contains(peer.0)))
    }

    fn add(&mut self, snapshot: ContextSnapshot) {
        let id = snapshot.id;
        if self.contexts.contains_key(&id) {
            return;
        }
        for hash in self.hashes_of(&snapshot) {
            self.by_name.insert(hash, id.0);
        }
        self.ulids.insert(snapshot.key.ulids.local);
        self.locators.insert(snapshot.locators.local);
        self.contexts.insert(id, snapshot);
    }

    fn take(&mut self, id: ContextId) -> Option<ContextSnapshot> {
        let snapshot = self.contexts.remove(&id)?;
        for hash in self.hashes_of(&snapshot) {
            self.by_name.remove(hash, id.0);
        }
        if self.is_empty() {
            (self.ulids, self.locators) = Default::default();
            (self.turns, self.by_name) = Default::default();
        }
        Some(snapshot)
    }

    /// The next context in turn that still waits.
    fn next(&mut self) -> Option<ContextId> {
        loop {
            let id = self.turns.pop()?;
            if self.contexts.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// The slots that may have this name.
    fn named(&self, name: &impl Hash) -> impl Iterator<Item = ContextId> + '_ {
        let candidates = (!self.is_empty()).then(|| self.by_name.candidates(self.hash(name)));
        candidates.into_iter().flatten().map(ContextId)
    }

    /// The hashes of the names of a context, each once: both ends may have chosen the same tag.
    fn hashes_of(&self, snapshot: &ContextSnapshot) -> impl Iterator<Item = u32> + use<> {
        let [local, peer] = [snapshot.local_tag, snapshot.peer_tag].map(|tag| self.hash(&tag));
        let hashes = [local, peer, self.hash(&snapshot.key.ulids)];
        (0..hashes.len())
            .filter(move |at| !hashes[..*at].contains(&hashes[*at]))
            .map(move |at| hashes[at])
    }

    fn hash(&self, name: &impl Hash) -> u32 {
        let mut hasher = self.keyed;
        name.hash(&mut hasher);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

impl ContextSnapshot {
    fn is_moved(&self) -> bool {
        self.locators != self.key.ulids.as_locators()
    }

    /// Order in which contexts are taken over; the greatest comes first.
    fn urgency(&self) -> (bool, bool) {
        (self.is_moved(), self.has_traffic)
    }
}

impl Contexts {
    /// Takes contexts of an earlier run that this machine restores later, and reserves their slots. The machine must have
    /// no contexts, and must have been told the addresses by [`handle_local`](Self::handle_local).
    pub fn handle_waiting(&mut self, waiting: Waiting) {
        self.shim6.reserve(waiting.contexts.keys().copied());
        self.waiting = waiting;
    }

    /// The contexts of an earlier run that this machine has not restored yet.
    #[must_use]
    pub const fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Restores the next waiting contexts, at most `count` of them.
    pub fn take_over(&mut self, count: usize, now: Instant) {
        for _ in 0..count {
            let Some(id) = self.waiting.next() else { return };
            self.wake(id, now);
        }
    }

    /// Restores the context in this slot now, if it waits. The peers are told once no context waits: a peer that does not
    /// answer has its context look for another pair, and that work would keep the contexts that wait waiting.
    pub(crate) fn wake(&mut self, id: ContextId, now: Instant) {
        let Some(snapshot) = self.waiting.take(id) else { return };
        if let Err(reason) = self.restore_untold(snapshot, now) {
            self.shim6.release(id);
            *self.waiting.refused.entry(reason).or_default() += 1;
        }
        if self.waiting.is_empty() {
            self.tell_restored(now);
        }
    }

    /// Restores the waiting contexts between these ULIDs.
    pub(crate) fn wake_pair(&mut self, ulids: UlidPair, now: Instant) {
        self.wake_named(&ulids, now);
    }

    /// Restores the waiting contexts that have this tag, at either end.
    fn wake_tag(&mut self, tag: ContextTag, now: Instant) {
        self.wake_named(&tag, now);
    }

    fn wake_named(&mut self, name: &impl Hash, now: Instant) {
        let named: Vec<_> = self.waiting.named(name).collect();
        for id in named {
            self.wake(id, now);
        }
    }

    /// Restores the waiting contexts that a report of the data plane is about.
    pub(crate) fn wake_for_report(&mut self, report: Report, now: Instant) {
        match report {
            Report::Trigger { ulids } => self.wake_pair(ulids, now),
            Report::Idle { context, .. }
            | Report::SendExpired { context, .. }
            | Report::KeepaliveDue { context }
            | Report::Received { context, .. }
            | Report::Suspected { context, .. }
            | Report::Congested { context, .. }
            | Report::NoRoom { context } => self.wake(context, now),
        }
    }

    /// Restores the waiting contexts that a packet of protocol 140 may be about: those with one of its tags, and those
    /// between the ULIDs of an establishment message. A damaged message restores nothing.
    pub(crate) fn wake_for(&mut self, octets: &[u8], locators: LocatorPair, now: Instant) {
        if self.waiting.is_empty() {
            return;
        }
        if let Ok(header) = PayloadHeader::parse(octets) {
            return self.wake_tag(header.tag, now);
        }
        let LocatorPair { local, peer } = locators;
        let Ok(packet) = Packet::parse(octets, peer.0, local.0) else { return };
        let tags = [packet.sender_tag(), packet.receiver_tag(), packet.packet_tag()];
        tags.into_iter().flatten().for_each(|tag| self.wake_tag(tag, now));
        let names_ulids = [MessageType::I1, MessageType::I2, MessageType::I2BIS];
        if names_ulids.contains(&packet.kind())
            && let Ok(key) = Key::read(&Incoming { packet: &packet, locators, now })
        {
            self.wake_pair(key.ulids, now);
        }
    }
}
