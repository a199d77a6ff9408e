use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::iter;
use core::ops::Range;

use moorline_index::{FairShares, Segments};
use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair, Ulid, UlidPair};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

use crate::claim::{Claim, Neighbor, Neighbors, Queue};
use crate::consts::{HALF_OPEN_SHARE, MAX_WITH_PEER_TAG, MIN_PREFIX_SHARE, PREFIX_SHARE};
use crate::context::{Context, Established, Handshake, Stand};
use crate::index::{Digest, Index};
use crate::key::Key;

/// All contexts, by slot, key, tags, nonce and deadline (RFC 5533 s12.4).
#[derive(Clone, Debug)]
pub(crate) struct Table {
    slots: Segments<Option<Context>>,
    /// Number of contexts.
    count: u32,
    /// Slots without a context, and not reserved. A restored context may take its slot out of the middle.
    free: BTreeSet<ContextId>,
    max: u32,
    by_key: Index,
    by_tag: Index,
    by_peer_tag: Index,
    /// Keys of the forked contexts, which few hosts have.
    forks: BTreeSet<Key>,
    by_nonce: BTreeSet<(u32, ContextId)>,
    deadlines: BTreeSet<(Instant, ContextId)>,
    /// Contexts that may go when the table needs room, by claim.
    queues: [Queue; 3],
    /// All contexts, by the ULIDs of the peers.
    shares: FairShares,
}

/// The places of a new context in the indexes, each hashed once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    key: Digest,
    /// A tag that no context of this host has.
    local_tag: ContextTag,
    tag: Digest,
    peer_tag: Option<Digest>,
}

impl Table {
    pub(crate) fn new(max: u32, rng: &mut ChaCha20Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self {
            slots: Segments::new(),
            count: 0,
            free: BTreeSet::new(),
            max,
            by_key: Index::new(rng),
            by_tag: Index::new(rng),
            by_peer_tag: Index::new(rng),
            forks: BTreeSet::new(),
            by_nonce: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            queues: [Queue::default(); 3],
            shares: FairShares::new(usize::try_from(max).unwrap_or(0), key),
        }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) const fn slots(&self) -> u32 {
        self.slots.len()
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&Context> {
        self.slots.get(id.0)?.as_ref()
    }

    pub(crate) fn by_key(&self, key: Key) -> Option<&Context> {
        self.by_digest(key, self.by_key.digest(&key))
    }

    /// The context with this key, if it exists already.
    pub(crate) fn by_ways(&self, key: Key, ways: Ways) -> Option<&Context> {
        self.by_digest(key, ways.key)
    }

    fn by_digest(&self, key: Key, digest: Digest) -> Option<&Context> {
        let has_key = |id| self.get(id).is_some_and(|context| context.key == key);
        self.get(self.by_key.find(digest, has_key)?)
    }

    /// The context between these ULIDs and the contexts forked from it.
    pub(crate) fn of_pair(&self, ulids: UlidPair) -> impl Iterator<Item = &Context> + '_ {
        let fork = |forked_instance| Key { ulids, forked_instance };
        let forks = self.forks.range(fork(1)..=fork(u32::MAX)).copied();
        iter::once(Key::of(ulids)).chain(forks).filter_map(|key| self.by_key(key))
    }

    pub(crate) fn by_tag(&self, tag: ContextTag) -> Option<&Context> {
        let has_tag = |id| self.get(id).is_some_and(|context| context.local_tag == tag);
        self.get(self.by_tag.find(self.by_tag.digest(&tag), has_tag)?)
    }

    /// The contexts with this CT(peer). Different peers may have given the same tag.
    pub(crate) fn by_peer_tag(&self, tag: ContextTag) -> impl Iterator<Item = &Context> + '_ {
        let digest = self.by_peer_tag.digest(&tag);
        let contexts = self.by_peer_tag.candidates(digest).filter_map(|id| self.get(id));
        contexts.filter(move |context| {
            context.established().is_some_and(|established| established.peer_tag == tag)
        })
    }

    /// Limits contexts per CT(peer): a peer that reuses one tag would make each look-up linear.
    pub(crate) fn is_crowded(&self, tag: ContextTag) -> bool {
        self.by_peer_tag(tag).nth(MAX_WITH_PEER_TAG - 1).is_some()
    }

    /// The context that waits for an R1 or R2 with this Initiator Nonce, by this pair.
    pub(crate) fn by_nonce(&self, nonce: u32, via: LocatorPair) -> Option<&Context> {
        let of_nonce = (nonce, ContextId(0))..=(nonce, ContextId(u32::MAX));
        let mut contexts = self.by_nonce.range(of_nonce).filter_map(|(_, id)| self.get(*id));
        contexts.find(|context| context.may_be_answered(nonce, via))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Context> + '_ {
        self.iter_from(ContextId(0))
    }

    /// The contexts in these slots, by slot.
    pub(crate) fn between(&self, slots: Range<u32>) -> impl Iterator<Item = &Context> + '_ {
        self.slots.iter_from(slots.start).take(slots.len()).flatten()
    }

    /// The contexts in this slot and behind it, by slot.
    pub(crate) fn iter_from(&self, first: ContextId) -> impl Iterator<Item = &Context> + '_ {
        self.slots.iter_from(first.0).flatten()
    }

    /// Draws a tag that no context of this host has (RFC 5533 s7.7). The tag is random, so it does not repeat a recent
    /// one.
    ///
    /// This function asks for the cache lines of all indexes before the first is needed. So a host with very many
    /// contexts waits for memory once and not three times.
    //= rfc5533#7.1-1 rfc5533#7.1-2 rfc5533#7.1-3
    pub(crate) fn ways(
        &self,
        key: Key,
        peer_tag: Option<ContextTag>,
        rng: &mut ChaCha20Rng,
    ) -> Ways {
        //= rfc5533#7.1
        let key = self.by_key.digest(&key);
        let peer_tag = peer_tag.map(|tag| self.by_peer_tag.digest(&tag));
        loop {
            let local_tag = ContextTag::from_bits(rng.next_u64());
            let tag = self.by_tag.digest(&local_tag);
            self.by_tag.touch(tag);
            self.by_key.touch(key);
            if let Some(digest) = peer_tag {
                self.by_peer_tag.touch(digest);
            }
            let has_tag = |id| self.get(id).is_some_and(|context| context.local_tag == local_tag);
            if self.by_tag.find(tag, has_tag).is_none() {
                return Ways { key, local_tag, tag, peer_tag };
            }
        }
    }

    /// Whether at least half of the places are taken.
    pub(crate) fn is_half_full(&self) -> bool {
        let taken = self.slots.len().saturating_sub(u32::try_from(self.free.len()).unwrap_or(0));
        taken >= self.max / 2
    }

    /// Whether peers with addresses like this one have as many contexts as they may. Otherwise one host could fill the
    /// table by its addresses, its prefixes, or Forked Instance Identifiers.
    pub(crate) fn is_share_taken(&self, peer: Ulid) -> bool {
        let share = (self.max / PREFIX_SHARE).max(MIN_PREFIX_SHARE);
        usize::try_from(share).is_ok_and(|share| self.shares.taken(peer.0, 0) >= share)
    }

    /// The context that has to go before another one begins. Half-open contexts have a share of the table, and push out
    /// each other first, in a full table also contexts without traffic, and never contexts with traffic.
    pub(crate) fn victim(&self, is_half_open: bool) -> Option<ContextId> {
        let [unanswered, answered, unused] = &self.queues;
        // A peer that answers all I1s and ends no handshake must not leave the others without time for their answers.
        let mut queues = [unanswered, answered, unused];
        if answered.len > unanswered.len {
            queues.swap(0, 1);
        }
        let id = queues.into_iter().find_map(|queue| queue.eldest.id())?;
        let is_full = self.free.is_empty() && self.slots.len() >= self.max;
        let share = (self.max / HALF_OPEN_SHARE).max(1);
        let half_open = unanswered.len + answered.len;
        (is_full || is_half_open && half_open >= share).then_some(id)
    }

    /// Adds a context. `has_traffic`: traffic of this host has triggered the context.
    pub(crate) fn insert(
        &mut self,
        (key, ways): (Key, Ways),
        stand: Stand,
        has_traffic: bool,
    ) -> Result<ContextId, DropReason> {
        let id = match self.free.pop_first() {
            Some(id) => id,
            None if self.slots.len() >= self.max => return Err(DropReason::TableFull),
            None => ContextId(self.slots.push(None).ok_or(DropReason::TableFull)?),
        };
        let (local_tag, neighbors) = (ways.local_tag, Neighbors::default());
        self.add(Context { id, key, local_tag, stand, neighbors, has_traffic }, ways);
        Ok(id)
    }

    /// Keeps these slots for contexts of an earlier run. The slots must be in ascending order.
    pub(crate) fn reserve(&mut self, slots: impl Iterator<Item = ContextId>) {
        let max = self.max;
        for id in slots.take_while(|id| id.0 < max) {
            self.grow_to(id);
            self.free.remove(&id);
        }
    }

    /// Frees a slot that was reserved, unless a context has the slot.
    pub(crate) fn release(&mut self, id: ContextId) {
        if self.slots.get(id.0).is_some_and(Option::is_none) {
            self.free.insert(id);
        }
    }

    /// Adds free slots up to this one.
    fn grow_to(&mut self, id: ContextId) {
        while self.slots.len() <= id.0
            && let Some(next) = self.slots.push(None)
        {
            self.free.insert(ContextId(next));
        }
    }

    /// Puts a context of an earlier run into the slot that it names, which must be reserved or free. Since the slot was
    /// reserved, the host may have drawn the tag of the context for another one.
    pub(crate) fn restore(&mut self, context: Context) -> Result<(), DropReason> {
        let ContextId(slot) = context.id;
        if slot >= self.max {
            return Err(DropReason::TableFull);
        }
        let has_key = self.by_key(context.key).is_some();
        if self.get(context.id).is_some() || has_key || self.by_tag(context.local_tag).is_some() {
            return Err(DropReason::Replayed);
        }
        self.grow_to(context.id);
        self.free.remove(&context.id);
        let ways = Ways {
            key: self.by_key.digest(&context.key),
            local_tag: context.local_tag,
            tag: self.by_tag.digest(&context.local_tag),
            peer_tag: None,
        };
        self.add(context, ways);
        Ok(())
    }

    fn change(&mut self, id: ContextId, change: impl FnOnce(&mut Context)) {
        let Some(mut context) = self.take(id) else { return };
        let claim = context.claim();
        change(&mut context);
        if context.claim() != claim {
            self.unlink(claim, &context);
            self.link(&mut context);
        }
        self.put(context, None);
    }

    /// Ends the handshake of a context.
    pub(crate) fn establish(&mut self, id: ContextId, established: Established) {
        self.change(id, |context| context.stand = Stand::Established(established));
    }

    /// Records a message that waits for its answer.
    pub(crate) fn ask(&mut self, id: ContextId, asked: Handshake) {
        self.change(id, |context| context.stand = Stand::Handshake(Box::new(asked)));
    }

    /// Notes traffic of a context.
    pub(crate) fn note_traffic(&mut self, id: ContextId) {
        self.change(id, |context| context.has_traffic = true);
    }

    pub(crate) fn change_established(
        &mut self,
        id: ContextId,
        change: impl FnOnce(&mut Established),
    ) {
        self.change(id, |context| context.established_mut().map_or((), change));
    }

    pub(crate) fn remove(&mut self, id: ContextId) -> Option<Context> {
        let context = self.take(id)?;
        self.unlink(context.claim(), &context);
        self.by_key.remove(self.by_key.digest(&context.key), id);
        self.by_tag.remove(self.by_tag.digest(&context.local_tag), id);
        self.shares.remove(context.key.ulids.peer.0);
        self.count -= 1;
        self.forks.remove(&context.key);
        self.free.insert(id);
        Some(context)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A context whose deadline has come. The caller gives it a new state or removes it.
    pub(crate) fn due(&self, now: Instant) -> Option<&Context> {
        let (at, id) = self.deadlines.first()?;
        if *at > now { None } else { self.get(*id) }
    }

    /// Takes a context out of its slot and out of the indexes that depend on its state.
    fn take(&mut self, id: ContextId) -> Option<Context> {
        let context = self.slots.get_mut(id.0)?.take()?;
        if let Some(deadline) = context.deadline() {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(handshake) = context.handshake() {
            self.by_nonce.remove(&(handshake.nonce, id));
        }
        if let Some(established) = context.established() {
            self.by_peer_tag.remove(self.by_peer_tag.digest(&established.peer_tag), id);
        }
        Some(context)
    }

    /// Puts a new context into its slot and all indexes.
    fn add(&mut self, mut context: Context, ways: Ways) {
        self.link(&mut context);
        self.by_key.insert(ways.key, context.id);
        self.by_tag.insert(ways.tag, context.id);
        self.shares.add(context.key.ulids.peer.0);
        self.count += 1;
        if context.key.forked_instance != 0 {
            self.forks.insert(context.key);
        }
        self.put(context, ways.peer_tag);
    }

    /// Appends a context, which is in no slot, to the queue of its claim.
    fn link(&mut self, context: &mut Context) {
        let Some(claim) = context.claim() else { return };
        let this = Neighbor::of(context.id);
        let queue = &mut self.queues[claim as usize];
        let older = core::mem::replace(&mut queue.newest, this);
        queue.len += 1;
        if older.id().is_none() {
            queue.eldest = this;
        }
        context.neighbors = Neighbors { older, newer: Neighbor::default() };
        if let Some(older) = self.neighbors_of(older) {
            older.newer = this;
        }
    }

    /// Takes a context, which is in no slot, out of the queue of this claim.
    fn unlink(&mut self, claim: Option<Claim>, context: &Context) {
        let Some(claim) = claim else { return };
        let Neighbors { older, newer } = context.neighbors;
        let queue = &mut self.queues[claim as usize];
        queue.len -= 1;
        if newer.id().is_none() {
            queue.newest = older;
        }
        if older.id().is_none() {
            queue.eldest = newer;
        }
        if let Some(newer) = self.neighbors_of(newer) {
            newer.older = older;
        }
        if let Some(older) = self.neighbors_of(older) {
            older.newer = newer;
        }
    }

    fn neighbors_of(&mut self, of: Neighbor) -> Option<&mut Neighbors> {
        let slot = self.slots.get_mut(of.id()?.0)?;
        slot.as_mut().map(|context| &mut context.neighbors)
    }

    /// Puts a context back into its slot and into the indexes that depend on its state. `peer_tag`: the hash of
    /// CT(peer), if the caller has it.
    fn put(&mut self, context: Context, peer_tag: Option<Digest>) {
        let id = context.id;
        if let Some(deadline) = context.deadline() {
            self.deadlines.insert((deadline, id));
        }
        if let Some(handshake) = context.handshake() {
            self.by_nonce.insert((handshake.nonce, id));
        }
        if let Some(established) = context.established() {
            let digest = || self.by_peer_tag.digest(&established.peer_tag);
            self.by_peer_tag.insert(peer_tag.unwrap_or_else(digest), id);
        }
        if let Some(slot) = self.slots.get_mut(id.0) {
            *slot = Some(context);
        }
    }
}
