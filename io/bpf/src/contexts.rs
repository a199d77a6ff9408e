//! Contexts in the tables. This process keeps no copy: to change a context, it reads the old one back.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use libbpf_rs::Object;
use moorline_datapath::shim6::{ContextEntry, MAX_PATHS, MAX_PEER_LOCATORS, PairInUse};
use moorline_types::{ContextId, Instant, Locator, LocatorPair, Path, UlidPair};

use crate::control::{self, Op};
use crate::convert;
use crate::error::{Error, Result};
use crate::index::{Hashing, Index};
use crate::pins;
use crate::plain::Plain as _;
use crate::skel::types;
use crate::tables::{Table, Tables};

/// Locators and peer tag in packets of a context.
type Quotes = Vec<(LocatorPair, u64)>;

fn control(object: &Object, op: Op, slot: u32) -> Result<()> {
    control::run(object, op, slot, Instant::ZERO)
}

/// The contexts that an earlier process has left in its pinned table, before [`Datapath::open`](crate::Datapath::open)
/// takes that over. Another thread may read them.
pub struct LeftContexts(Table<u32, types::context>);

impl LeftContexts {
    /// Opens the table. `None`: no process has left any, or only one with another layout.
    #[must_use]
    pub fn open(pin_dir: &std::path::Path) -> Option<Self> {
        Table::pinned("contexts", &pins::of_layout(pin_dir)).map(Self)
    }

    /// The pairs by which payload leaves, by slot. A context of which the table does not tell the pair is left out.
    pub fn pairs_in_use(&self) -> impl Iterator<Item = (ContextId, PairInUse)> + '_ {
        let all = (0..).map(ContextId).zip(self.0.values().into_iter().flatten());
        let live = all.filter(|(_, context)| convert::is_live(context));
        live.filter_map(|(id, context)| Some((id, convert::pair_in_use(&context)?)))
    }
}

/// The tables that hold contexts.
pub(crate) struct Contexts {
    contexts: Table<u32, types::context>,
    pub(crate) more_peers: Table<u32, types::more_peers>,
    pub(crate) paths: Table<types::path_key, types::path>,
    pub(crate) congestions: Table<u32, types::congestion>,
    pub(crate) by_ulids: Index,
    pub(crate) by_tag: Index,
    pub(crate) by_quote: Index,
    hashing: Hashing,
    /// The last generation that was used.
    generation: u32,
    /// Contexts of an earlier process, by slot, that no update has taken over yet.
    inherited: BTreeSet<u32>,
}

impl Contexts {
    /// Opens the tables with the contexts that an earlier process left in them.
    pub(crate) fn found_in(object: &Object, buckets: u32) -> Result<Self> {
        let mut found = Self {
            contexts: Table::of(object, "contexts")?,
            more_peers: Table::of(object, "more_peers")?,
            paths: Table::of(object, "paths")?,
            congestions: Table::of(object, "congestions")?,
            by_ulids: Index::of(object, "by_ulids")?,
            by_tag: Index::of(object, "by_tag")?,
            by_quote: Index::of(object, "by_quote")?,
            hashing: Hashing::of(object, buckets)?,
            generation: 0,
            inherited: BTreeSet::new(),
        };
        for (slot, context) in found.live()? {
            found.generation = found.generation.max(context.generation);
            found.inherited.insert(slot);
        }
        Ok(found)
    }

    /// Contexts of the earlier process that no update has taken over or removed.
    pub(crate) fn left(&self) -> impl Iterator<Item = ContextId> + '_ {
        self.inherited.iter().copied().map(ContextId)
    }

    /// Whether a report with this generation is about the context that has the slot now.
    pub(crate) fn is_current(&self, slot: u32, generation: u32) -> Result<bool> {
        Ok(self.find(slot)?.is_some_and(|context| context.generation == generation))
    }

    /// Writes a context. If a table fails, the slot has no context afterwards, and the tables have nothing of it.
    pub(crate) fn upsert(
        &mut self,
        tables: &Tables,
        object: &Object,
        entry: &ContextEntry,
    ) -> Result<()> {
        let slot = entry.id.0;
        if slot >= self.contexts.max_entries() {
            return Err(Error::TooManyContexts(entry.id));
        }
        if entry.peer_locators.len() > MAX_PEER_LOCATORS {
            return Err(Error::TooManyLocators(entry.id));
        }
        if entry.paths.len() > MAX_PATHS {
            return Err(Error::TooManyPaths(entry.id));
        }
        let is_inherited = self.inherited.remove(&slot);
        let mut old = self.find(slot)?;
        if old.is_some_and(|old| convert::ulids_back(old.ulids) != entry.ulids) {
            self.remove(tables, object, entry.id)?;
            old = None;
        }
        let before =
            old.map(|old| self.quotes(slot, &old).map(|quotes| (old, quotes))).transpose()?;
        let look = if is_inherited { Op::CONTROL_ADOPTED } else { Op::CONTROL_LOOK };
        let done = self.write(object, entry, before.as_ref());
        let done = done.and_then(|()| control(object, look, slot));
        if done.is_err() {
            self.take_back(object, entry, before);
        }
        done
    }

    /// Writes new locators and the new tag first, and removes old ones last, so that packets on the way find either.
    /// The ULIDs of a new context come last of all: before, no packet finds the slot by them.
    fn write(
        &mut self,
        object: &Object,
        entry: &ContextEntry,
        before: Option<&(types::context, Quotes)>,
    ) -> Result<()> {
        let slot = entry.id.0;
        let is_new = before.is_none();
        let (old, old_quotes) = before.cloned().unwrap_or_default();
        let mut context = convert::context(entry, old.generation);
        context.flags |= old.flags & convert::SENDS;
        if is_new {
            self.generation = self.generation.checked_add(1).unwrap_or(1);
            context.generation = self.generation;
            context.flags |= convert::SENDS;
            control(object, Op::CONTROL_RESET, slot)?;
        }
        let is_other_pair = convert::current(&old) != entry.current;
        let before: BTreeSet<Locator> = self.more(slot, &old)?.into_iter().collect();
        let after = convert::peers_beyond(entry);
        let mut both = after.clone();
        both.extend(before.iter().filter(|locator| !after.contains(locator)));
        self.write_more(slot, &both)?;
        if entry.congestion && (is_other_pair || !convert::has_congestion(&old)) {
            self.count_congestion(slot);
        }
        context.path_count = self.write_paths(slot, &entry.paths);
        if context.as_octets() != old.as_octets() {
            self.contexts.insert_locked(&slot, &context)?;
        }
        if is_new || old.local_tag != context.local_tag {
            self.index_tag(slot, context.local_tag)?;
        }
        if !is_new && old.local_tag != context.local_tag {
            self.by_tag.remove(&self.hashing, self.hashing.tag(old.local_tag), slot)?;
        }
        if !is_new && is_other_pair {
            control(object, Op::CONTROL_MOVED, slot)?;
        }
        let quotes = self.quotes(slot, &context)?;
        if old_quotes != quotes {
            self.index_quotes(slot, &context)?;
            self.unindex_quotes(slot, old_quotes.iter().filter(|old| !quotes.contains(old)))?;
            // An old quote may have shared its cell with a new one.
            self.index_quotes(slot, &context)?;
        }
        if !entry.congestion && convert::has_congestion(&old) {
            self.congestions.remove(&slot)?;
        }
        self.remove_paths(slot, context.path_count, old.path_count)?;
        if is_new {
            return self.index_ulids(slot, entry.ulids);
        }
        match after.is_empty() {
            _ if both == after => Ok(()),
            true => self.more_peers.remove(&slot),
            false => self.write_more(slot, &after),
        }
    }

    /// Removes the rest of an upsert that failed, and the context as it was before.
    fn take_back(
        &self,
        object: &Object,
        entry: &ContextEntry,
        before: Option<(types::context, Quotes)>,
    ) {
        let mut after = convert::context(entry, 0);
        after.path_count = u8::try_from(entry.paths.len()).unwrap_or(u8::MAX);
        let moved = entry.all_paths().filter(|path| path.is_moved());
        let quotes = moved.map(|path| (path.pair, after.peer_tag)).collect();
        for (context, quotes) in before.into_iter().chain([(after, quotes)]) {
            if let Err(error) = self.clear(object, entry.id.0, &context, &quotes) {
                tracing::debug!(%error, context = %entry.id, "left of an update that failed");
            }
        }
    }

    pub(crate) fn remove(&mut self, tables: &Tables, object: &Object, id: ContextId) -> Result<()> {
        let slot = id.0;
        self.inherited.remove(&slot);
        let old = self.find(slot)?.ok_or(Error::UnknownContext(id))?;
        self.clear(object, slot, &old, &self.quotes(slot, &old)?)?;
        tables.flows.remove(&old.ulids)
    }

    /// Removes a context from the tables. The indices come first: from then on the traffic is plain.
    fn clear(
        &self,
        object: &Object,
        slot: u32,
        old: &types::context,
        quotes: &[(LocatorPair, u64)],
    ) -> Result<()> {
        let ulids = convert::ulids_back(old.ulids);
        self.by_ulids.remove(&self.hashing, self.hashing.ulids(ulids), slot)?;
        self.by_tag.remove(&self.hashing, self.hashing.tag(old.local_tag), slot)?;
        self.unindex_quotes(slot, quotes)?;
        self.contexts.insert_locked(&slot, &types::context::default())?;
        control(object, Op::CONTROL_RESET, slot)?;
        if usize::from(old.peer_count) > convert::INLINE_PEERS {
            self.more_peers.remove(&slot)?;
        }
        self.remove_paths(slot, 0, old.path_count)?;
        self.congestions.remove(&slot)
    }

    /// The contexts that are in the tables, by slot.
    pub(crate) fn entries(&self) -> Result<Vec<ContextEntry>> {
        let mut entries = Vec::new();
        for (slot, context) in self.live()? {
            let (more, paths) = (self.more(slot, &context)?, self.paths_of(slot, &context)?);
            entries.push(convert::entry(slot, &context, more, paths));
        }
        Ok(entries)
    }

    /// Makes the ULIDs lead to this slot. An older context between the same ULIDs no longer sends.
    fn index_ulids(&self, slot: u32, ulids: UlidPair) -> Result<()> {
        let before = Cell::new(None);
        self.by_ulids.insert(&self.hashing, self.hashing.ulids(ulids), slot, |other| {
            let found = self.find(other)?;
            let found = found.filter(|found| convert::ulids_back(found.ulids) == ulids);
            before.set(found.map(|found| (other, found)));
            Ok(found.is_some())
        })?;
        let Some((other, mut before)) = before.get() else { return Ok(()) };
        before.flags &= !convert::SENDS;
        self.contexts.insert_locked(&other, &before)
    }

    fn index_tag(&self, slot: u32, tag: u64) -> Result<()> {
        self.by_tag.insert(&self.hashing, self.hashing.tag(tag), slot, |other| {
            Ok(self.find(other)?.is_some_and(|other| other.local_tag == tag))
        })
    }

    /// Locators and tag in packets of the context, for all paths. Only packets of a path that has moved show the tag.
    fn quotes(&self, slot: u32, context: &types::context) -> Result<Quotes> {
        let paths = self.paths_of(slot, context)?;
        let all = core::iter::once(convert::current(context)).chain(paths.iter().copied());
        Ok(all.filter(|path| path.is_moved()).map(|path| (path.pair, context.peer_tag)).collect())
    }

    fn index_quotes(&self, slot: u32, context: &types::context) -> Result<()> {
        for (locators, peer_tag) in self.quotes(slot, context)? {
            let hash = self.hashing.quote(locators, peer_tag);
            let inserted = self.by_quote.insert(&self.hashing, hash, slot, |other| {
                Ok(self.find(other)?.is_some_and(|other| {
                    other.peer_tag == peer_tag && convert::current(&other).pair == locators
                }))
            });
            match inserted {
                // The peer has chosen the tag, and may have chosen one tag for many contexts. Errors about this
                // context are then not translated.
                Ok(()) | Err(Error::IndexFull) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn unindex_quotes<'a>(
        &self,
        slot: u32,
        quotes: impl IntoIterator<Item = &'a (LocatorPair, u64)>,
    ) -> Result<()> {
        for &(locators, peer_tag) in quotes {
            let hash = self.hashing.quote(locators, peer_tag);
            self.by_quote.remove(&self.hashing, hash, slot)?;
        }
        Ok(())
    }

    /// Starts counters of congestion at zero. If there is no room, the congestion of the context is not counted.
    fn count_congestion(&self, slot: u32) {
        if let Err(error) = self.congestions.insert(&slot, &types::congestion::default()) {
            tracing::debug!(%error, slot, "congestion is not counted");
        }
    }

    fn paths_of(&self, slot: u32, context: &types::context) -> Result<Arc<[Path]>> {
        let (mut paths, ulids) = (Vec::new(), convert::ulids_back(context.ulids));
        for number in 0..context.path_count.into() {
            let path = self.paths.lookup(&types::path_key { slot, number })?;
            paths.push(convert::path_back(ulids, &path.unwrap_or_default()));
        }
        Ok(paths.into())
    }

    /// Writes paths. Returns the number of paths for which there was room: traffic does not take the others, and the
    /// context is protected all the same.
    fn write_paths(&self, slot: u32, paths: &[Path]) -> u8 {
        for (number, &path) in (0u8..).zip(paths.iter()) {
            let key = types::path_key { slot, number: number.into() };
            if let Err(error) = self.paths.insert(&key, &convert::path(path)) {
                tracing::debug!(%error, slot, "no room for all paths");
                return number;
            }
        }
        u8::try_from(paths.len()).unwrap_or(u8::MAX)
    }

    fn remove_paths(&self, slot: u32, kept: u8, count: u8) -> Result<()> {
        for number in kept.into()..count.into() {
            self.paths.remove(&types::path_key { slot, number })?;
        }
        Ok(())
    }

    fn find(&self, slot: u32) -> Result<Option<types::context>> {
        if slot >= self.contexts.max_entries() {
            return Ok(None);
        }
        Ok(self.contexts.lookup(&slot)?.filter(convert::is_live))
    }

    fn live(&self) -> Result<Vec<(u32, types::context)>> {
        let all = self.contexts.all()?;
        Ok((0..).zip(all).filter(|(_, context)| convert::is_live(context)).collect())
    }

    /// Peer locators that did not fit the context.
    fn more(&self, slot: u32, context: &types::context) -> Result<Vec<Locator>> {
        let count = usize::from(context.peer_count).saturating_sub(convert::INLINE_PEERS);
        if count == 0 {
            return Ok(Vec::new());
        }
        let more = self.more_peers.lookup(&slot)?.unwrap_or_default();
        Ok(more.locator.into_iter().take(count).map(convert::locator_back).collect())
    }

    /// Replaces these peer locators, as far as there is room.
    fn write_more(&self, slot: u32, locators: &[Locator]) -> Result<()> {
        if locators.is_empty() {
            return Ok(());
        }
        let mut more = types::more_peers::default();
        for (to, locator) in more.locator.iter_mut().zip(locators) {
            *to = convert::address(locator.octets());
        }
        self.more_peers.insert(&slot, &more)
    }
}
