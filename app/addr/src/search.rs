use crate::{
    Addresses, Error, Job, Progress, Shard,
    ledger::{Chunk, Ledger},
    state::State,
};
use moorline_cga::{Engine, Hash2Search, Sec};
use std::{
    io,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
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

    fn search(
        &self,
        cancel: &AtomicBool,
        began: Instant,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<Ledger, Error> {
        let shared = Shared {
            hash2: Hash2Search::new(&self.job.tail, self.job.sec).with_engine(self.engine),
            start: u128::from_be_bytes(self.job.start),
            chunk_tries: self.chunk_tries(),
            cancel,
            desk: Mutex::new(Desk {
                ledger: Ledger::new(self.shard, self.chunk_tries(), self.chunks_done),
                workers: 0,
                is_short_handed: false,
            }),
            last_left: Condvar::new(),
        };
        thread::scope(|scope| {
            let started = (0..self.threads.get()).try_for_each(|_| shared.start_worker(scope));
            self.watch(&shared, began, on_progress);
            started.map_err(|error| Error::Threads { wanted: self.threads.get(), error })
        })?;
        Ok(shared.desk.into_inner().unwrap_or_else(PoisonError::into_inner).ledger)
    }

    /// Until the last worker leaves.
    fn watch(&self, shared: &Shared<'_>, began: Instant, on_progress: &mut dyn FnMut(&Progress)) {
        let mut saved = began;
        let mut desk = shared.desk();
        while desk.workers > 0 {
            let waited = shared.last_left.wait_timeout(desk, TICK);
            desk = waited.unwrap_or_else(PoisonError::into_inner).0;
            if desk.workers == 0 {
                break;
            }
            let (tries, done) = (desk.ledger.tries(), desk.ledger.done());
            drop(desk);
            let tries_now = tries - self.tries_before();
            on_progress(&Progress::new(self.job.sec, tries, tries_now, began.elapsed()));
            if saved.elapsed() >= SAVE_EVERY {
                // If this fails, the next may not: a full disk is no reason to throw hours away.
                let _ = self.save(done, None);
                saved = Instant::now();
            }
            desk = shared.desk();
        }
    }
}

/// What the workers have in common.
struct Shared<'a> {
    hash2: Hash2Search,
    start: u128,
    chunk_tries: u64,
    cancel: &'a AtomicBool,
    desk: Mutex<Desk>,
    last_left: Condvar,
}

struct Desk {
    ledger: Ledger,
    /// Not gone yet.
    workers: usize,
    /// Not all workers could be started, so the others may go.
    is_short_handed: bool,
}

impl Shared<'_> {
    fn start_worker<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
    ) -> io::Result<()> {
        self.desk().workers += 1;
        let started = thread::Builder::new().spawn_scoped(scope, || self.work());
        if started.is_err() {
            let mut desk = self.desk();
            desk.workers -= 1;
            desk.is_short_handed = true;
        }
        started.map(drop)
    }

    fn work(&self) {
        // Drops, and so counts, even if the work panics: the watcher would wait for ever.
        let _leaving = Leaving(self);
        let mut chunk = self.desk().next();
        while let Some(now) = chunk {
            if self.cancel.load(Ordering::Relaxed) {
                break;
            }
            let start = self.start.wrapping_add(now.offset.into());
            let fit = self.hash2.first_fit(start, self.chunk_tries);
            let mut desk = self.desk();
            desk.ledger.take_back(now, fit);
            chunk = desk.next();
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn next(&mut self) -> Option<Chunk> {
        if self.is_short_handed { None } else { self.ledger.hand_out() }
    }
}

struct Leaving<'a>(&'a Shared<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut desk = self.0.desk();
        desk.workers -= 1;
        if desk.workers == 0 {
            self.0.last_left.notify_one();
        }
    }
}

/// Between two looks at how far it is.
const TICK: Duration = Duration::from_millis(200);
/// Between two states; what is lost with the machine.
const SAVE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
