use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use moorline_types::{ContextId, ContextTag, DropReason, Instant, UlidPair};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

use crate::context::{Context, State};

/// All contexts, by slot, ULID pair, tag and deadline (RFC 5533 s12.4).
#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Option<Context>>,
    free: Vec<ContextId>,
    max: u32,
    by_ulids: BTreeMap<UlidPair, ContextId>,
    by_tag: BTreeMap<ContextTag, ContextId>,
    deadlines: BTreeSet<(Instant, ContextId)>,
}

impl Table {
    pub(crate) fn new(max: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            max,
            by_ulids: BTreeMap::new(),
            by_tag: BTreeMap::new(),
            deadlines: BTreeSet::new(),
        }
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&Context> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn by_ulids(&self, ulids: UlidPair) -> Option<&Context> {
        self.get(*self.by_ulids.get(&ulids)?)
    }

    pub(crate) fn by_tag(&self, tag: ContextTag) -> Option<&Context> {
        self.get(*self.by_tag.get(&tag)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Context> + '_ {
        self.slots.iter().flatten()
    }

    /// A tag that no context of ours has (RFC 5533 s7.7): random, so never one of a recent past.
    pub(crate) fn unused_tag(&self, rng: &mut ChaCha20Rng) -> ContextTag {
        loop {
            let tag = ContextTag::from_bits(rng.next_u64());
            if !self.by_tag.contains_key(&tag) {
                return tag;
            }
        }
    }

    pub(crate) fn insert(
        &mut self,
        ulids: UlidPair,
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
        self.put(Context { id, ulids, local_tag, state });
        Ok(id)
    }

    /// Puts a context into the slot it names, which must be free: takes over what an earlier run left.
    pub(crate) fn restore(&mut self, context: Context) -> Result<(), DropReason> {
        let ContextId(slot) = context.id;
        if slot >= self.max {
            return Err(DropReason::TableFull);
        }
        while self.slots.len() <= slot as usize {
            let next = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.free.push(ContextId(next));
            self.slots.push(None);
        }
        if self.get(context.id).is_some() || self.by_ulids.contains_key(&context.ulids) {
            return Err(DropReason::Replayed);
        }
        self.free.retain(|free| *free != context.id);
        self.put(context);
        Ok(())
    }

    pub(crate) fn set_state(&mut self, id: ContextId, state: State) {
        let Some(context) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if let Some(old) = context.deadline() {
            self.deadlines.remove(&(old, id));
        }
        context.state = state;
        if let Some(new) = context.deadline() {
            self.deadlines.insert((new, id));
        }
    }

    pub(crate) fn remove(&mut self, id: ContextId) -> Option<Context> {
        let context = self.slots.get_mut(id.0 as usize)?.take()?;
        self.by_ulids.remove(&context.ulids);
        self.by_tag.remove(&context.local_tag);
        if let Some(deadline) = context.deadline() {
            self.deadlines.remove(&(deadline, id));
        }
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

    fn put(&mut self, context: Context) {
        let id = context.id;
        self.by_ulids.insert(context.ulids, id);
        self.by_tag.insert(context.local_tag, id);
        if let Some(deadline) = context.deadline() {
            self.deadlines.insert((deadline, id));
        }
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = Some(context);
        }
    }
}
