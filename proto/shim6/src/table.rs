use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use moorline_index::Segments;
use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

use crate::consts::MAX_WITH_PEER_TAG;
use crate::context::{Context, Established, Handshake, Stand};
use crate::index::{Digest, Index};
use crate::key::Key;

/// All contexts, by slot, key, tags, nonce and deadline (RFC 5533 s12.4).
#[derive(Clone, Debug)]
pub(crate) struct Table {
    slots: Segments<Option<Context>>,
    free: Vec<ContextId>,
    max: u32,
    by_key: Index,
    by_tag: Index,
    by_peer_tag: Index,
    by_nonce: BTreeSet<(u32, ContextId)>,
    deadlines: BTreeSet<(Instant, ContextId)>,
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
        Self {
            slots: Segments::new(),
            free: Vec::new(),
            max,
            by_key: Index::new(rng),
            by_tag: Index::new(rng),
            by_peer_tag: Index::new(rng),
            by_nonce: BTreeSet::new(),
            deadlines: BTreeSet::new(),
        }
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
        self.slots.iter().flatten()
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

    pub(crate) fn insert(
        &mut self,
        key: Key,
        ways: Ways,
        stand: Stand,
    ) -> Result<ContextId, DropReason> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.slots.len() >= self.max => return Err(DropReason::TableFull),
            None => ContextId(self.slots.push(None).ok_or(DropReason::TableFull)?),
        };
        self.add(Context { id, key, local_tag: ways.local_tag, stand }, ways);
        Ok(id)
    }

    /// Puts a context of an earlier run into the slot that it names, which must be free.
    pub(crate) fn restore(&mut self, context: Context) -> Result<(), DropReason> {
        let ContextId(slot) = context.id;
        if slot >= self.max {
            return Err(DropReason::TableFull);
        }
        if self.get(context.id).is_some() || self.by_key(context.key).is_some() {
            return Err(DropReason::Replayed);
        }
        if self.slots.len() > slot {
            self.free.retain(|free| *free != context.id);
        }
        while self.slots.len() <= slot {
            let next = self.slots.push(None).ok_or(DropReason::TableFull)?;
            if next != slot {
                self.free.push(ContextId(next));
            }
        }
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
        change(&mut context);
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

    pub(crate) fn change_established(
        &mut self,
        id: ContextId,
        change: impl FnOnce(&mut Established),
    ) {
        self.change(id, |context| context.established_mut().map_or((), change));
    }

    pub(crate) fn remove(&mut self, id: ContextId) -> Option<Context> {
        let context = self.take(id)?;
        self.by_key.remove(self.by_key.digest(&context.key), id);
        self.by_tag.remove(self.by_tag.digest(&context.local_tag), id);
        self.free.push(id);
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
    fn add(&mut self, context: Context, ways: Ways) {
        self.by_key.insert(ways.key, context.id);
        self.by_tag.insert(ways.tag, context.id);
        self.put(context, ways.peer_tag);
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
