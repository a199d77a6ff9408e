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
use std::thread;

use anyhow::Context as _;
use moorline_addresses::RouteStep;
use moorline_contexts::Waiting;
use moorline_types::DropReason;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::clock;
use crate::privileges;
use crate::shell::{Daemon, seed};
use crate::store::{CONTEXTS, Store};

/// State of the takeover of contexts.
#[derive(Debug, Default)]
pub(crate) enum Takeover {
    /// A thread reads the contexts.
    Reading(oneshot::Receiver<Waiting>),
    /// The main loop takes over the contexts.
    Slices,
    #[default]
    Done,
}

impl Takeover {
    pub(crate) const fn is_reading(&self) -> bool {
        matches!(self, Self::Reading(_))
    }

    pub(crate) const fn is_in_slices(&self) -> bool {
        matches!(self, Self::Slices)
    }

    /// Begins to read the contexts of the last run, in a thread: a start has other work for as long.
    ///
    /// # Errors
    /// The system has no thread or no randomness.
    pub(crate) fn begin(store: &Store) -> anyhow::Result<Self> {
        let (key, store) = (seed()?, store.clone());
        let (sender, reader) = oneshot::channel();
        let read = move || {
            // Capabilities belong to a thread, and those of the daemon go later.
            if let Err(error) = privileges::reduce() {
                tracing::warn!("the thread that reads contexts: {error:#}");
                return;
            }
            let waiting = Waiting::new(store.load_state(CONTEXTS).contexts, key);
            // The receiver is gone if the daemon ends.
            let _ = sender.send(waiting);
        };
        thread::Builder::new().name("contexts".to_owned()).spawn(read).context("a thread")?;
        Ok(Self::Reading(reader))
    }

    /// Waits for the thread that reads the contexts; without a thread, waits for ever.
    pub(crate) async fn read(&mut self) -> anyhow::Result<Waiting> {
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
        let waiting = self.takeover.read().await?;
        self.handle_waiting(waiting);
        self.host.shim6_mut().take_over(usize::MAX, clock::now());
        self.end_takeover().await
    }

    /// Begins the takeover in slices.
    pub(crate) fn handle_waiting(&mut self, waiting: Waiting) {
        self.host.handle_waiting(waiting);
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

    #[test]
    fn a_million_that_are_not_taken_over_give_a_line_for_each_reason() {
        let reasons = [DropReason::WrongLocators, DropReason::TableFull, DropReason::WrongLocators];
        let counts = by_reason(reasons.into_iter().cycle().take(999_999));
        let expected = [(DropReason::TableFull, 333_333), (DropReason::WrongLocators, 666_666)];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
