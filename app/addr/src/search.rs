use crate::{Addresses, Error, Job, Progress, Shard, ledger::Ledger, state::State};
use moorline_cga::{Engine, Hash2Search, Sec};
use std::{
    convert::Infallible,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Search that can start or continue.
#[derive(Clone, Debug)]
pub struct Search {
    /// The addresses that the search is for.
    pub job: Job,
    /// Part of the search.
    pub shard: Shard,
    /// Number of threads. The result does not depend on this number.
    pub threads: NonZeroUsize,
    /// Engine that computes the tries. The result does not depend on the engine.
    pub engine: Engine,
    /// State file, which the search keeps current. [`crate::Request::resolve`] continues from this file.
    pub state: Option<PathBuf>,
    /// Chunks that earlier runs have searched without a fit.
    pub(crate) chunks_done: u64,
    /// Offset of the result, if an earlier run has found it.
    pub(crate) offset: Option<u64>,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// Addresses found.
    pub addresses: Addresses,
    /// Distance of the modifier from the start. The least offset among all shards is the result of a search
    /// without shards.
    pub offset: u64,
    /// Tries of this run, over all threads.
    pub tries: u64,
    /// Time that this run took.
    pub elapsed: Duration,
}

impl Search {
    /// Makes a search from the start of the job, with the fastest engine, on all processors.
    #[must_use]
    pub fn new(job: Job, shard: Shard) -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let engine = Engine::fastest();
        Self { job, shard, threads, engine, state: None, chunks_done: 0, offset: None }
    }

    /// Returns the tries of earlier runs.
    #[must_use]
    pub fn tries_before(&self) -> u64 {
        self.chunks_done.saturating_mul(self.chunk_tries())
    }

    /// Searches until there is a result or `cancel` is set. A few times a second the search reads `cancel` and calls
    /// `on_progress`.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`], or an error of saving the state.
    pub fn run(
        &self,
        cancel: &AtomicBool,
        mut on_progress: impl FnMut(&Progress),
    ) -> Result<Found, Error> {
        let began = Instant::now();
        if let Some(offset) = self.offset {
            return self.found(offset, 0, began);
        }
        // If the state cannot be saved, fail now and not after an hour.
        self.save(self.chunks_done, None)?;
        let ledger = self.search(cancel, began, &mut on_progress)?;
        let tries = ledger.tries();
        let result = ledger.result();
        let saved = self.save(ledger.done(), result);
        match result {
            Some(offset) => self.found(offset, tries - self.tries_before(), began),
            None if ledger.is_exhausted() => Err(Error::Exhausted),
            None => saved.and(Err(Error::Cancelled { tries })),
        }
    }

    /// Returns the tries of a chunk. A chunk is short enough that all threads take part in an average search, and long enough
    /// that the threads rarely wait for the ledger. The result of a shard depends on the chunk size, so the size depends
    /// only on Sec.
    pub(crate) fn chunk_tries(&self) -> u64 {
        if self.job.sec <= Sec::ONE { 1 << 12 } else { 1 << 20 }
    }

    fn found(&self, offset: u64, tries: u64, began: Instant) -> Result<Found, Error> {
        let addresses = self.job.finish(offset)?;
        Ok(Found { addresses, offset, tries, elapsed: began.elapsed() })
    }

    fn save(&self, chunks_done: u64, offset: Option<u64>) -> Result<(), Error> {
        match &self.state {
            // The chunk with the result counts as done; a later run does not need it.
            Some(path) => State::of(self, chunks_done, offset).save(path),
            None => Ok(()),
        }
    }

    /// Searches until there is a result, or until all workers have ended.
    fn search(
        &self,
        cancel: &AtomicBool,
        began: Instant,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Ledger, Error> {
        let hash2 = Hash2Search::new(&self.job.tail, self.job.sec).with_engine(self.engine);
        let start = u128::from_be_bytes(self.job.start);
        let ledger = Mutex::new(Ledger::new(self.shard, self.chunk_tries(), self.chunks_done));
        let ledger_now = || ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let is_short_handed = AtomicBool::new(false);
        let work = |_: mpsc::Sender<Infallible>| {
            let mut chunk = ledger_now().hand_out();
            while let Some(now) = chunk {
                if cancel.load(Ordering::Relaxed) || is_short_handed.load(Ordering::Relaxed) {
                    break;
                }
                let fit =
                    hash2.first_fit(start.wrapping_add(now.offset.into()), self.chunk_tries());
                let mut ledger = ledger_now();
                ledger.take_back(now, fit);
                chunk = ledger.hand_out();
            }
        };
        thread::scope(|scope| {
            // The channel carries no messages: a worker holds a sender until it ends, even by a panic.
            let (sender, workers) = mpsc::channel();
            let started = (0..self.threads.get()).try_for_each(|_| {
                let (work, sender) = (&work, sender.clone());
                thread::Builder::new().spawn_scoped(scope, move || work(sender)).map(drop)
            });
            drop(sender);
            // If a thread could not be started, the other threads stop.
            is_short_handed.store(started.is_err(), Ordering::Relaxed);
            let mut saved = began;
            while workers.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let (tries, done) = {
                    let ledger = ledger_now();
                    (ledger.tries(), ledger.done())
                };
                let tries_now = tries - self.tries_before();
                on_progress(&Progress::new(self.job.sec, tries, tries_now, began.elapsed()));
                if saved.elapsed() >= SAVE_EVERY {
                    // Ignore an error, because the next save may succeed: a full disk must not end a search of hours.
                    let _ = self.save(done, None);
                    saved = Instant::now();
                }
            }
            started.map_err(|error| Error::Threads { wanted: self.threads.get(), error })
        })?;
        Ok(ledger.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Interval between two progress reports.
const TICK: Duration = Duration::from_millis(200);
/// Interval between two saved states: a crash of the machine loses at most this work.
const SAVE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
