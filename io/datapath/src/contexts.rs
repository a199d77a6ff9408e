//! Contexts in the tables.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::Object;
use moorline_host::datapath::{ContextEntry, MAX_PEER_LOCATORS};
use moorline_types::{ContextId, Locator, UlidPair};

use crate::control;
use crate::convert;
use crate::error::{Error, Result};
use crate::skel::types;
use crate::tables::Tables;

/// What must be known of a context to change or remove it.
struct Record {
    generation: u32,
    ulids: UlidPair,
    local_tag: u64,
    peer_locators: Vec<Locator>,
}

/// All contexts in the tables.
#[derive(Default)]
pub(crate) struct Contexts {
    records: BTreeMap<u32, Record>,
    /// The last one given out.
    generation: u32,
}

impl Contexts {
    /// Reads the tables that an earlier process left.
    pub(crate) fn found_in(tables: &Tables) -> Result<Self> {
        let mut contexts = Self::default();
        for (slot, context, peer_locators) in found(tables)? {
            contexts.generation = contexts.generation.max(context.generation);
            let record = Record {
                generation: context.generation,
                ulids: convert::ulids_back(context.ulids),
                local_tag: context.local_tag,
                peer_locators,
            };
            contexts.records.insert(slot, record);
        }
        Ok(contexts)
    }

    /// Whether a report with this generation is about the context that has the slot now.
    pub(crate) fn is_current(&self, slot: u32, generation: u32) -> bool {
        self.records.get(&slot).is_some_and(|record| record.generation == generation)
    }

    pub(crate) fn upsert(
        &mut self,
        tables: &Tables,
        object: &Object,
        entry: &ContextEntry,
    ) -> Result<()> {
        let slot = entry.id.0;
        if slot >= tables.contexts.max_entries() {
            return Err(Error::TooManyContexts(entry.id));
        }
        if entry.peer_locators.len() > MAX_PEER_LOCATORS {
            return Err(Error::TooManyLocators(entry.id));
        }
        if self.records.get(&slot).is_some_and(|record| record.ulids != entry.ulids) {
            self.remove(tables, object, entry.id)?;
        }
        match self.records.get(&slot) {
            None => self.add(tables, object, entry)?,
            Some(_) => self.change(tables, entry)?,
        }
        control::look(object, slot)
    }

    /// The indices come last: until then no packet finds the slot.
    fn add(&mut self, tables: &Tables, object: &Object, entry: &ContextEntry) -> Result<()> {
        let slot = entry.id.0;
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        let record = Record {
            generation: self.generation,
            ulids: entry.ulids,
            local_tag: entry.local_tag.bits(),
            peer_locators: entry.peer_locators.clone(),
        };
        control::reset(object, slot)?;
        tables.contexts.insert_locked(&slot, &convert::context(entry, self.generation))?;
        // From here on a failure leaves something that `remove` can take away.
        self.records.insert(slot, record);
        for locator in &entry.peer_locators {
            tables.peers.insert(&convert::peer_locator(slot, *locator), &1)?;
        }
        tables.tags.insert(&entry.local_tag.bits(), &slot)?;
        tables.slots.insert(&convert::ulids(entry.ulids), &slot)
    }

    /// New locators and tag first, old ones last: packets under way find either.
    fn change(&mut self, tables: &Tables, entry: &ContextEntry) -> Result<()> {
        let slot = entry.id.0;
        let Some(record) = self.records.get_mut(&slot) else {
            return Err(Error::UnknownContext(entry.id));
        };
        let old: BTreeSet<Locator> = record.peer_locators.iter().copied().collect();
        let new: BTreeSet<Locator> = entry.peer_locators.iter().copied().collect();
        record.peer_locators = old.union(&new).copied().collect();
        for locator in new.difference(&old) {
            tables.peers.insert(&convert::peer_locator(slot, *locator), &1)?;
        }
        tables.contexts.insert_locked(&slot, &convert::context(entry, record.generation))?;
        let old_tag = core::mem::replace(&mut record.local_tag, entry.local_tag.bits());
        if old_tag != record.local_tag {
            tables.tags.insert(&record.local_tag, &slot)?;
            tables.tags.remove(&old_tag)?;
        }
        for locator in old.difference(&new) {
            tables.peers.remove(&convert::peer_locator(slot, *locator))?;
        }
        record.peer_locators.clone_from(&entry.peer_locators);
        Ok(())
    }

    /// The indices go first: from then on the traffic is plain.
    pub(crate) fn remove(&mut self, tables: &Tables, object: &Object, id: ContextId) -> Result<()> {
        let slot = id.0;
        let record = self.records.remove(&slot).ok_or(Error::UnknownContext(id))?;
        let ulids = convert::ulids(record.ulids);
        // Another context of the same addresses may have the index by now.
        if tables.slots.lookup(&ulids)? == Some(slot) {
            tables.slots.remove(&ulids)?;
        }
        if tables.tags.lookup(&record.local_tag)? == Some(slot) {
            tables.tags.remove(&record.local_tag)?;
        }
        tables.contexts.insert_locked(&slot, &types::context::default())?;
        control::cancel(object, slot)?;
        for locator in record.peer_locators {
            tables.peers.remove(&convert::peer_locator(slot, locator))?;
        }
        tables.flows.remove(&ulids)
    }
}

/// The contexts that are in the tables, by slot.
pub(crate) fn entries(tables: &Tables) -> Result<Vec<ContextEntry>> {
    let found = found(tables)?.into_iter();
    Ok(found.map(|(slot, context, locators)| convert::entry(slot, &context, locators)).collect())
}

fn found(tables: &Tables) -> Result<Vec<(u32, types::context, Vec<Locator>)>> {
    let mut locators: BTreeMap<u32, Vec<Locator>> = BTreeMap::new();
    for key in tables.peers.keys() {
        let locator = Locator::from(convert::octets(key.locator));
        locators.entry(key.slot).or_default().push(locator);
    }
    let mut slots: Vec<u32> = Vec::new();
    for key in tables.slots.keys() {
        slots.extend(tables.slots.lookup(&key)?);
    }
    slots.sort_unstable();
    let mut found = Vec::with_capacity(slots.len());
    for slot in slots {
        let Some(context) = tables.contexts.lookup(&slot)? else { continue };
        if context.flags & types::context_flags::CONTEXT_LIVE.0 != 0 {
            let mut locators = locators.remove(&slot).unwrap_or_default();
            locators.sort_unstable();
            found.push((slot, context, locators));
        }
    }
    Ok(found)
}
