//! Takes over the contexts of the last run, after a crash or a hand-over.
//!
//! A thread reads the file of contexts, from the first moment of the start. The daemon takes over the contexts of a file of up
//! to [`SMALL_FILE`] octets before it is ready. For a larger file it is ready first. While the thread still reads, the main
//! loop leaves reports of the programs and messages of peers where they wait: nobody knows yet which of them are about a
//! context of the last run. After that the main loop takes over the contexts in slices, and a report or message about a
//! context takes it over at once.
//!
//! The programs of the last run, with all contexts in their tables, are at work all the time.

use std::collections::BTreeMap;
use std::future;
use std::mem;
use std::path::Path;
use std::thread;

use anyhow::Context as _;
use moorline_addresses::RouteStep;
use moorline_bpf::LeftContexts;
use moorline_contexts::{ContextSnapshot, Waiting};
use moorline_datapath::shim6::PairInUse;
use moorline_types::{ContextId, DropReason};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::clock;
use crate::privileges;
use crate::shell::{Daemon, seed};
use crate::store::{CONTEXTS, SavedState, Store};

/// State of the takeover of contexts.
#[derive(Debug, Default)]
pub(crate) enum Takeover {
    /// A thread reads the contexts.
    Reading(oneshot::Receiver<Found>),
    /// The main loop takes over the contexts.
    Slices,
    #[default]
    Done,
}

/// Result of the thread that reads the contexts of the last run.
#[derive(Debug)]
pub(crate) struct Found {
    waiting: Waiting,
    /// Sentence on a damaged file.
    damage: Option<String>,
}

impl Found {
    /// Reads the file of contexts. The pinned table has the last moves before a crash, which the file may lack.
    fn read(store: &Store, table: Option<&LeftContexts>, key: [u8; 16]) -> Self {
        let SavedState { mut contexts, damage, .. } = store.load_state(CONTEXTS);
        correct(&mut contexts, table.into_iter().flat_map(LeftContexts::pairs_in_use));
        Self { waiting: Waiting::new(contexts, key), damage }
    }
}

impl Takeover {
    pub(crate) const fn is_reading(&self) -> bool {
        matches!(self, Self::Reading(_))
    }

    pub(crate) const fn is_in_slices(&self) -> bool {
        matches!(self, Self::Slices)
    }

    /// Begins to read the contexts of the last run, in a thread: a start has other work for as long.
    /// `goes_on`: this boot has had a run before, so a damaged file has lost something of use.
    ///
    /// # Errors
    /// The system has no thread or no randomness.
    pub(crate) fn begin(store: &Store, pin_dir: &Path, goes_on: bool) -> anyhow::Result<Self> {
        let (key, store) = (seed()?, store.clone());
        // Open the table before the data plane can set it aside.
        let table = LeftContexts::open(pin_dir);
        let (sender, reader) = oneshot::channel();
        let read = move || {
            // Capabilities belong to a thread, and those of the daemon go later.
            if let Err(error) = privileges::reduce() {
                tracing::warn!("the thread that reads contexts: {error:#}");
                return;
            }
            let found = Found::read(&store, table.as_ref(), key);
            // The receiver is gone if the daemon ends.
            let _ = sender.send(Found { damage: found.damage.filter(|_| goes_on), ..found });
        };
        thread::Builder::new().name("contexts".to_owned()).spawn(read).context("a thread")?;
        Ok(Self::Reading(reader))
    }

    /// Waits for the thread that reads the contexts; without a thread, waits for ever.
    pub(crate) async fn read(&mut self) -> anyhow::Result<Found> {
        let Self::Reading(reader) = self else { return future::pending().await };
        reader.await.context("the contexts of the run before could not be read")
    }

    /// Returns how far the takeover is, for people.
    pub(crate) fn progress(&self, waiting: &Waiting) -> Option<String> {
        match self {
            Self::Reading(_) => Some(READING.to_owned()),
            Self::Slices => Some(format!(
                "{} of {} contexts of the run before are taken over; their traffic goes on meanwhile",
                waiting.total() - waiting.len(),
                waiting.total()
            )),
            Self::Done => None,
        }
    }
}

/// Flushes of the routes that sockets have cached, after slices that have added routes. The kernel walks over all of its
/// routes at each flush, so one flush serves many slices. Routes are missing only if somebody has removed those of the last
/// run; and a move of a context that is taken over flushes at once, as ever.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    is_in_slice: bool,
    is_missing: bool,
    next: Option<Instant>,
}

impl Flushes {
    /// Whether the flush of this step comes later, after some slices.
    pub(crate) fn is_put_off(&mut self, step: &RouteStep) -> bool {
        let is_put_off = self.is_in_slice && matches!(step, RouteStep::Add(_));
        self.is_missing |= is_put_off;
        is_put_off
    }

    fn is_due(&mut self, is_last: bool) -> bool {
        let is_due = is_last || self.next.is_none_or(|next| next <= Instant::now());
        is_due && mem::take(&mut self.is_missing)
    }
}

impl Daemon {
    /// Takes over the contexts of the last run. If there are many of them, the main loop does so later.
    pub(crate) async fn begin_takeover(&mut self) -> anyhow::Result<()> {
        if self.store.len(CONTEXTS) > SMALL_FILE {
            return Ok(());
        }
        let found = self.takeover.read().await?;
        self.handle_found(found);
        self.host.shim6_mut().take_over(usize::MAX, clock::now());
        self.end_takeover().await
    }

    /// Begins the takeover in slices.
    pub(crate) fn handle_found(&mut self, found: Found) {
        self.damages.extend(found.damage);
        self.host.handle_waiting(found.waiting);
        self.takeover = Takeover::Slices;
    }

    /// Takes over the next slice.
    pub(crate) async fn take_over_slice(&mut self) -> anyhow::Result<()> {
        self.host.shim6_mut().take_over(SLICE, clock::now());
        self.flushes.is_in_slice = true;
        self.pump().await;
        self.flushes.is_in_slice = false;
        let is_last = self.host.shim6().waiting().is_empty();
        if self.flushes.is_due(is_last) {
            let began = Instant::now();
            if let Err(error) = self.netlink.flush_cached_routes().await {
                tracing::warn!(%error, "cached routes");
            }
            self.flushes.next = Some(Instant::now() + began.elapsed() * REST);
        }
        if is_last { self.end_takeover().await } else { Ok(()) }
    }

    /// Ends the takeover: all contexts are there. Removes what else the last run has left.
    async fn end_takeover(&mut self) -> anyhow::Result<()> {
        self.takeover = Takeover::Done;
        let waiting = self.host.shim6().waiting();
        let refused = waiting.refused();
        for (reason, contexts) in refused {
            tracing::warn!(contexts, %reason, "contexts not taken over");
        }
        let refused: u32 = refused.values().sum();
        let restored = waiting.total() - usize::try_from(refused)?;
        if restored > 0 {
            tracing::info!(contexts = restored, "took over from the run before");
        }
        self.host.handle_left_contexts(self.datapath.contexts_left());
        // Make the data plane report again pairs that the last run has a report of, and no context.
        self.datapath.forget_traffic()?;
        self.pump().await;
        // Remove routes and ULIDs of contexts and sessions that are not taken over.
        let kept = self.netlink.kept_ulids().await?.into_iter().collect();
        self.host.handle_restored(kept, clock::now());
        self.pump().await;
        Ok(())
    }
}

/// Gives contexts the pairs in use, which come by slot.
fn correct(contexts: &mut [ContextSnapshot], in_use: impl Iterator<Item = (ContextId, PairInUse)>) {
    // They are sorted already, unless somebody else has written the file.
    contexts.sort_by_key(|context| context.id);
    let mut rest = contexts.iter_mut().peekable();
    for (id, found) in in_use {
        while rest.next_if(|context| context.id < id).is_some() {}
        if let Some(context) = rest.next_if(|context| context.id == id) {
            context.handle_in_use(found);
        }
        if rest.peek().is_none() {
            return;
        }
    }
}

/// Counts reasons for a log with one line for each reason. A line for each session would be a flood.
pub(crate) fn by_reason(
    reasons: impl IntoIterator<Item = DropReason>,
) -> BTreeMap<DropReason, u32> {
    let mut counts = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    counts
}

/// Largest file whose contexts are taken over before the daemon is ready, octets: some 10,000 contexts, which take a
/// quarter of a second. A file of an earlier version has a third of that.
const SMALL_FILE: u64 = 2 << 20;
/// Number of contexts in a slice. A slice takes a few milliseconds.
const SLICE: usize = 256;
/// Length of the pause after a flush, in lengths of the flush.
const REST: u32 = 10;
/// Progress while the number of contexts is not known.
const READING: &str =
    "the contexts of the run before are being read; their traffic goes on meanwhile";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::many;
    use moorline_types::LocatorPair;

    #[test]
    fn each_context_gets_the_pair_of_its_own_slot() {
        let mut contexts = many(9);
        contexts.retain(|context| context.id.0 % 3 != 1);
        contexts.reverse();
        let before = contexts.clone();
        let moved = |context: &ContextSnapshot| {
            LocatorPair::new(context.locators.peer, context.locators.local)
        };
        // Some slots have no pair in the table, and some have one in the table alone.
        let in_use = many(20).into_iter().filter(|context| context.id.0 % 4 != 0).map(|context| {
            let &ContextSnapshot { local_tag, peer_tag, key, .. } = &context;
            (context.id, PairInUse { ulids: key.ulids, local_tag, peer_tag, pair: moved(&context) })
        });
        correct(&mut contexts, in_use);
        for old in before {
            let new = contexts.iter().find(|new| new.id == old.id).expect("none is lost");
            let expected = if old.id.0 % 4 == 0 { old.locators } else { moved(&old) };
            assert_eq!(new.locators, expected, "{:?}", old.id);
        }
    }

    #[test]
    fn a_million_that_are_not_taken_over_give_a_line_for_each_reason() {
        let reasons = [DropReason::WrongLocators, DropReason::TableFull, DropReason::WrongLocators];
        let counts = by_reason(reasons.into_iter().cycle().take(999_999));
        let expected = [(DropReason::TableFull, 333_333), (DropReason::WrongLocators, 666_666)];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
