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

/// A search that can start, or go on.
#[derive(Clone, Debug)]
pub struct Search {
    /// The addresses that the search is for.
    pub job: Job,
    /// Which part of the search.
    pub shard: Shard,
    /// Threads it runs on. The result does not depend on them.
    pub threads: NonZeroUsize,
    /// The instructions that compute the tries. The result does not depend on the engine.
    pub engine: Engine,
    /// A file that is kept up to date, and that [`crate::Request::resolve`] can go on from.
    pub state: Option<PathBuf>,
    /// Searched in vain by the runs before, and the result if they have it already.
    pub(crate) chunks_done: u64,
    pub(crate) offset: Option<u64>,
}

/// The end of a search.
#[derive(Clone, Debug)]
pub struct Found {
    /// What was looked for.
    pub addresses: Addresses,
    /// How far behind the start its modifier is. Among shards the least is what one search of the
    /// whole would have found.
    pub offset: u64,
    /// Made in this run, those of the other threads included.
    pub tries: u64,
    /// How long this run took.
    pub elapsed: Duration,
}

impl Search {
    /// From the start of the job, with the fastest engine, on all processors.
    #[must_use]
    pub fn new(job: Job, shard: Shard) -> Self {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let engine = Engine::fastest();
        Self { job, shard, threads, engine, state: None, chunks_done: 0, offset: None }
    }

    /// Tries of the runs before this one.
    #[must_use]
    pub fn tries_before(&self) -> u64 {
        self.chunks_done.saturating_mul(self.chunk_tries())
    }

    /// Searches until there is a result, or until `cancel` is set, which is looked at a few times a
    /// second; as often `on_progress` hears how far it is.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`], or the state could not be saved.
    pub fn run(
        &self,
        cancel: &AtomicBool,
        mut on_progress: impl FnMut(&Progress),
    ) -> Result<Found, Error> {
        let began = Instant::now();
        if let Some(offset) = self.offset {
            return self.found(offset, 0, began);
        }
        // A state that cannot be saved is better known now than after an hour.
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

    /// Of a shard that is handed out at once. Short enough for all threads to have a part in an
    /// average search, long enough for them to meet seldom. Part of what makes a shard's result, so it
    /// depends on nothing but Sec.
    pub(crate) fn chunk_tries(&self) -> u64 {
        if self.job.sec <= Sec::ONE { 1 << 12 } else { 1 << 20 }
    }

    fn found(&self, offset: u64, tries: u64, began: Instant) -> Result<Found, Error> {
        let addresses = self.job.finish(offset)?;
        Ok(Found { addresses, offset, tries, elapsed: began.elapsed() })
    }

    fn save(&self, chunks_done: u64, offset: Option<u64>) -> Result<(), Error> {
        match &self.state {
            // The chunk of the result counts as done, and is of no use to who goes on.
            Some(path) => State::of(self, chunks_done, offset).save(path),
            None => Ok(()),
        }
    }

    /// Until there is a result, or all workers have left.
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
            // Nobody sends: each worker holds a sender until it ends, be it by a panic.
            let (sender, workers) = mpsc::channel();
            let started = (0..self.threads.get()).try_for_each(|_| {
                let (work, sender) = (&work, sender.clone());
                thread::Builder::new().spawn_scoped(scope, move || work(sender)).map(drop)
            });
            drop(sender);
            // If not all could be started, the others may go.
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
                    // If this fails, the next may not: a full disk is no reason to throw hours away.
                    let _ = self.save(done, None);
                    saved = Instant::now();
                }
            }
            started.map_err(|error| Error::Threads { wanted: self.threads.get(), error })
        })?;
        Ok(ledger.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Between two looks at how far it is.
const TICK: Duration = Duration::from_millis(200);
/// Between two states; what is lost with the machine.
const SAVE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
