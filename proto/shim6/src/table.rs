use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use moorline_types::{ContextId, ContextTag, DropReason, Instant, LocatorPair};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

use crate::context::{Context, State};
use crate::index::Index;
use crate::key::Key;

/// All contexts, by slot, key, tags, nonce and deadline (RFC 5533 s12.4).
#[derive(Clone, Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Context>>,
    free: Vec<ContextId>,
    max: u32,
    by_key: Index,
    by_tag: Index,
    by_peer_tag: Index,
    by_nonce: BTreeSet<(u32, ContextId)>,
    deadlines: BTreeSet<(Instant, ContextId)>,
}

impl Table {
    pub(crate) fn new(max: u32, rng: &mut ChaCha20Rng) -> Self {
        Self {
            slots: Vec::new(),
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
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn by_key(&self, key: Key) -> Option<&Context> {
        let has_key = |id| self.get(id).is_some_and(|context| context.key == key);
        self.get(self.by_key.find(&key, has_key)?)
    }

    pub(crate) fn by_tag(&self, tag: ContextTag) -> Option<&Context> {
        let has_tag = |id| self.get(id).is_some_and(|context| context.local_tag == tag);
        self.get(self.by_tag.find(&tag, has_tag)?)
    }

    /// The contexts with this CT(peer): several, if they are with different peers.
    pub(crate) fn by_peer_tag(&self, tag: ContextTag) -> impl Iterator<Item = &Context> + '_ {
        let contexts = self.by_peer_tag.candidates(&tag).filter_map(|id| self.get(id));
        contexts.filter(move |context| {
            context.established().is_some_and(|established| established.peer_tag == tag)
        })
    }

    /// The context that waits for an R1 or R2 with this Initiator Nonce by this pair.
    pub(crate) fn by_nonce(&self, nonce: u32, via: LocatorPair) -> Option<&Context> {
        let of_nonce = (nonce, ContextId(0))..=(nonce, ContextId(u32::MAX));
        let mut contexts = self.by_nonce.range(of_nonce).filter_map(|(_, id)| self.get(*id));
        contexts.find(|context| context.awaits() == Some((nonce, via)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Context> + '_ {
        self.slots.iter().flatten()
    }

    /// A tag that no context of ours has (RFC 5533 s7.7): random, so never one of a recent past.
    //= rfc5533#7.1-1 rfc5533#7.1-2 rfc5533#7.1-3
    pub(crate) fn unused_tag(&self, rng: &mut ChaCha20Rng) -> ContextTag {
        //= rfc5533#7.1
        loop {
            let tag = ContextTag::from_bits(rng.next_u64());
            if self.by_tag(tag).is_none() {
                return tag;
            }
        }
    }

    pub(crate) fn insert(
        &mut self,
        key: Key,
        local_tag: ContextTag,
        state: State,
    ) -> Result<ContextId, DropReason> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                if next >= self.max {
                    return Err(DropReason::TableFull);
                }
                self.slots.push(None);
                ContextId(next)
            }
        };
        self.add(Context { id, key, local_tag, state });
        Ok(id)
    }

    /// Puts a context into the slot it names, which must be free: takes over what an earlier run left.
    pub(crate) fn restore(&mut self, context: Context) -> Result<(), DropReason> {
        let ContextId(slot) = context.id;
        if slot >= self.max {
            return Err(DropReason::TableFull);
        }
        if self.get(context.id).is_some() || self.by_key(context.key).is_some() {
            return Err(DropReason::Replayed);
        }
        if self.slots.len() > slot as usize {
            self.free.retain(|free| *free != context.id);
        }
        while self.slots.len() <= slot as usize {
            let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            if next != slot {
                self.free.push(ContextId(next));
            }
            self.slots.push(None);
        }
        self.add(context);
        Ok(())
    }

    pub(crate) fn set_state(&mut self, id: ContextId, state: State) {
        let Some(mut context) = self.take(id) else { return };
        context.state = state;
        self.put(context);
    }

    pub(crate) fn remove(&mut self, id: ContextId) -> Option<Context> {
        let context = self.take(id)?;
        self.by_key.remove(&context.key, id);
        self.by_tag.remove(&context.local_tag, id);
        self.free.push(id);
        Some(context)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A context whose deadline has come; the caller gives it a new state or removes it.
    pub(crate) fn due(&self, now: Instant) -> Option<&Context> {
        let (at, id) = self.deadlines.first()?;
        if *at > now { None } else { self.get(*id) }
    }

    /// Out of its slot and the indices that depend on its state.
    fn take(&mut self, id: ContextId) -> Option<Context> {
        let context = self.slots.get_mut(id.0 as usize)?.take()?;
        if let Some(deadline) = context.deadline() {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some((nonce, _)) = context.awaits() {
            self.by_nonce.remove(&(nonce, id));
        }
        if let Some(established) = context.established() {
            self.by_peer_tag.remove(&established.peer_tag, id);
        }
        Some(context)
    }

    /// A new one, into its slot and all indices.
    fn add(&mut self, context: Context) {
        self.by_key.insert(&context.key, context.id);
        self.by_tag.insert(&context.local_tag, context.id);
        self.put(context);
    }

    /// Back into its slot and the indices that depend on its state.
    fn put(&mut self, context: Context) {
        let id = context.id;
        if let Some(deadline) = context.deadline() {
            self.deadlines.insert((deadline, id));
        }
        if let Some((nonce, _)) = context.awaits() {
            self.by_nonce.insert((nonce, id));
        }
        if let Some(established) = context.established() {
            self.by_peer_tag.insert(&established.peer_tag, id);
        }
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = Some(context);
        }
    }
}
