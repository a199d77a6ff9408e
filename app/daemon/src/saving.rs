//! Saves contexts and sessions for the next run.
//!
//! The main loop copies a large table in slices, and handles messages, reports and timers between two slices. A thread writes
//! the copy. A context or session that changes behind the place of the copy is saved by the next save: its change asks for
//! one.

use std::future;
use std::mem;
use std::thread;
use std::time::Duration;

use moorline_contexts::ContextSnapshot;
use moorline_host::Host;
use moorline_ilnp::SessionSnapshot;
use moorline_types::{ContextId, SessionId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::shell::Daemon;
use crate::store::Store;

/// State of a save.
#[derive(Debug, Default)]
pub(crate) enum Saving {
    #[default]
    Idle,
    Copying(Copy),
    /// A thread writes.
    Writing(Instant, oneshot::Receiver<Written>),
}

/// Times of saves. A host with very many contexts saves less often.
#[derive(Debug)]
pub(crate) struct SaveTimes {
    at: Option<Instant>,
    /// Delay between a change and its saving.
    delay: Duration,
    /// From when on a move is saved at once.
    free_at: Instant,
    /// Whether the next save, or the one under way, is one of a move.
    is_for_move: bool,
    /// Whether a move has come during a save.
    is_move_waiting: bool,
}

/// A copy of the table of contexts, of the table of sessions, or of both, as far as it has got.
#[derive(Debug)]
pub(crate) struct Copy {
    began: Instant,
    next_context: ContextId,
    next_session: SessionId,
    contexts: Option<Vec<ContextSnapshot>>,
    sessions: Option<Vec<SessionSnapshot>>,
}

/// Results of the files of contexts and sessions.
#[derive(Debug)]
pub(crate) struct Written {
    contexts: anyhow::Result<()>,
    sessions: anyhow::Result<()>,
}

impl Saving {
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    pub(crate) const fn is_copying(&self) -> bool {
        matches!(self, Self::Copying(_))
    }

    /// Waits for the thread that writes; without a thread, waits for ever.
    pub(crate) async fn written(&mut self) -> (Instant, Written) {
        let Self::Writing(began, writer) = self else { return future::pending().await };
        let written = writer.await;
        let began = *began;
        *self = Self::Idle;
        (began, written.unwrap_or_else(|_| Written::failed("the thread that writes has ended")))
    }

    /// Waits until no thread writes, at the end of a run. A copy that is not whole is worth nothing.
    pub(crate) async fn end(&mut self) {
        if let Self::Writing(..) = self {
            self.written().await;
        }
        *self = Self::Idle;
    }
}

impl Written {
    fn failed(why: &'static str) -> Self {
        Self { contexts: Err(anyhow::anyhow!(why)), sessions: Err(anyhow::anyhow!(why)) }
    }

    /// Returns the warning about state that would not survive a crash.
    fn warning(&self) -> Option<String> {
        let lost = [("contexts", &self.contexts), ("sessions", &self.sessions)];
        let lost =
            lost.into_iter().filter_map(|(what, result)| Some((what, result.as_ref().err()?)));
        let texts: Vec<_> = lost
            .map(|(what, error)| {
                format!("{what} would not survive a crash of moorlined: {error:#}")
            })
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

impl Copy {
    fn new(has_contexts: bool, has_sessions: bool) -> Self {
        Self {
            began: Instant::now(),
            next_context: ContextId(0),
            next_session: SessionId(0),
            contexts: has_contexts.then(Vec::new),
            sessions: has_sessions.then(Vec::new),
        }
    }

    fn is_new(&self) -> bool {
        self.next_context == ContextId(0) && self.next_session == SessionId(0)
    }

    /// Copies from so many slots. Returns whether the copy is whole.
    fn advance(&mut self, host: &Host, limit: u32) -> bool {
        let mut left = limit;
        if let Some(contexts) = &mut self.contexts {
            let ContextId(first) = self.next_context;
            let end = host.shim6().slots().min(first.saturating_add(left)).max(first);
            contexts.extend(host.shim6().snapshot_in(first..end));
            (self.next_context, left) = (ContextId(end), left - (end - first));
        }
        if let (Some(sessions), Some(ilnp)) = (&mut self.sessions, host.ilnp()) {
            let SessionId(first) = self.next_session;
            let end = ilnp.slots().min(first.saturating_add(left)).max(first);
            sessions.extend(ilnp.snapshot_in(first..end));
            (self.next_session, left) = (SessionId(end), left - (end - first));
        }
        left > 0
    }

    /// Writes the files. A table that is not copied needs no file.
    fn write(self, store: &Store) -> Written {
        let contexts = self.contexts.map(|contexts| store.save_contexts(contexts.into_iter()));
        let sessions = self.sessions.map(|sessions| store.save_sessions(sessions.into_iter()));
        Written { contexts: contexts.unwrap_or(Ok(())), sessions: sessions.unwrap_or(Ok(())) }
    }
}

impl SaveTimes {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            at: None,
            delay: LEAST_SAVE_DELAY,
            free_at: now,
            is_for_move: false,
            is_move_waiting: false,
        }
    }

    /// When the next save is due.
    pub(crate) const fn at(&self) -> Option<Instant> {
        self.at
    }

    pub(crate) fn handle_change(&mut self, now: Instant) {
        self.at.get_or_insert(now + self.delay);
    }

    /// Returns whether a save is due at once; otherwise it is due as soon as moves may be saved again.
    fn handle_move(&mut self, now: Instant) -> bool {
        self.at = self.at.into_iter().chain([self.free_at]).min();
        self.is_for_move = true;
        self.free_at <= now
    }

    /// Notes the end of a save. Saves of changes that take little time leave moves free: a move often follows a change.
    fn handle_saved(&mut self, began: Instant, now: Instant, has_failed: bool) {
        let least = if has_failed { AGAIN } else { LEAST_SAVE_DELAY };
        self.delay = ((now - began) * REST).max(least);
        if mem::take(&mut self.is_for_move) || self.delay >= LONG_DELAY {
            self.free_at = now + self.delay;
        }
        if mem::take(&mut self.is_move_waiting) {
            self.handle_move(now);
        }
    }
}

impl Daemon {
    /// Begins to save what has changed. While a thread reads the contexts of the last run, there are no others, and their
    /// file stays.
    pub(crate) fn save(&mut self) {
        self.save_times.at = None;
        let has_contexts = mem::take(&mut self.contexts_changed) && !self.takeover.is_reading();
        let ilnp = self.ilnp.as_mut();
        let has_sessions = ilnp.is_some_and(|ilnp| mem::take(&mut ilnp.is_unsaved));
        self.saving = Saving::Copying(Copy::new(has_contexts, has_sessions));
        self.copy_slice();
    }

    /// Saves sessions that have moved: at once, or as soon as moves may be saved again. The tables of ILNP are not
    /// pinned, so the file alone tells the next run of a move. A move of a context is in a pinned table.
    pub(crate) fn save_move(&mut self) {
        if !self.ilnp.as_ref().is_some_and(|ilnp| ilnp.is_unsaved) {
            return;
        }
        if !self.saving.is_idle() {
            self.save_times.is_move_waiting = true;
        } else if self.save_times.handle_move(Instant::now()) {
            self.save();
        }
    }

    /// Copies the next slice. A small table is one slice, and the main loop writes it at once.
    pub(crate) fn copy_slice(&mut self) {
        let Saving::Copying(mut copy) = mem::take(&mut self.saving) else { return };
        let is_new = copy.is_new();
        if !copy.advance(&self.host, SLICE) {
            self.saving = Saving::Copying(copy);
        } else if is_new {
            let (began, written) = (copy.began, copy.write(&self.store));
            self.on_written(began, written);
        } else {
            self.saving = self.write(copy);
        }
    }

    /// Has a thread write a copy.
    fn write(&mut self, copy: Copy) -> Saving {
        let (sender, writer) = oneshot::channel();
        let (began, store) = (copy.began, self.store.clone());
        // The receiver is gone if the daemon has ended.
        let write = move || _ = sender.send(copy.write(&store));
        if let Err(error) = thread::Builder::new().name("save".to_owned()).spawn(write) {
            tracing::warn!(%error, "a thread that writes contexts");
        }
        Saving::Writing(began, writer)
    }

    /// Notes the result of a save.
    pub(crate) fn on_written(&mut self, began: Instant, written: Written) {
        self.contexts_changed |= written.contexts.is_err();
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.is_unsaved |= written.sessions.is_err();
        }
        let unsaved = written.warning();
        if let Some(warning) = unsaved.as_ref().filter(|_| self.unsaved.is_none()) {
            tracing::warn!("{warning}");
        }
        self.save_times.handle_saved(began, Instant::now(), unsaved.is_some());
        self.unsaved = unsaved;
    }
}

/// Slots of contexts and sessions in a slice, at most. A slice takes a few milliseconds.
const SLICE: u32 = 2048;
/// Delay of the next save after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// Smallest delay of a save, because many contexts may change at once.
const LEAST_SAVE_DELAY: Duration = Duration::from_millis(200);
/// Smallest delay of a save that moves wait for as well.
const LONG_DELAY: Duration = Duration::from_secs(1);
/// Length of the pause after a save, in lengths of the save.
const REST: u32 = 10;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use moorline_contexts::{Config, Contexts, Waiting};
    use moorline_host::Sessions;

    use super::*;
    use crate::clock;
    use crate::ilnp::again::tests::session;
    use crate::store::tests::many;

    #[test]
    fn a_copy_in_slices_is_the_whole_table() {
        let now = clock::now();
        let shim6 = Contexts::new(Config::default(), [1; 32], now);
        let ilnp = Sessions::new(moorline_ilnp::Config::default(), [1; 32], now);
        let mut host = Host::new(shim6, Some(ilnp));
        host.handle_waiting(Waiting::new(many(7), [1; 16]));
        let stored = (0..6).map(session).collect();
        assert_eq!(host.restore_sessions(stored, BTreeSet::new(), now), []);

        let mut copy = Copy::new(true, true);
        let mut slices = 1;
        while !copy.advance(&host, 4) {
            slices += 1;
        }
        let contexts: Vec<_> = host.shim6().snapshot().collect();
        let sessions: Vec<_> = host.ilnp().into_iter().flat_map(Sessions::snapshot).collect();
        assert_eq!((contexts.len(), sessions.len(), slices), (7, 6, 4));
        assert_eq!((copy.contexts, copy.sessions), (Some(contexts), Some(sessions)));
    }

    #[test]
    fn what_could_not_be_written_is_warned_of_until_it_is() {
        let written = |contexts, sessions| Written { contexts, sessions }.warning();
        let full = || Err(anyhow::anyhow!("no space left"));
        let warning = written(full(), Ok(())).expect("a warning");
        assert_eq!(warning, "contexts would not survive a crash of moorlined: no space left");
        let both = written(full(), full()).expect("a warning");
        assert!(both.contains("; sessions would not survive"), "{both}");
        assert_eq!(written(Ok(()), Ok(())), None);
    }

    /// Times after a save that began at `now` and took so many milliseconds.
    fn after(now: Instant, took: u64, has_failed: bool) -> (SaveTimes, Instant) {
        let (mut times, end) = (SaveTimes::new(now), now + Duration::from_millis(took));
        times.handle_saved(now, end, has_failed);
        (times, end)
    }

    #[test]
    fn what_takes_long_to_write_is_written_more_rarely() {
        let delay = |took, has_failed| {
            let (mut times, end) = after(Instant::now(), took, has_failed);
            times.handle_change(end);
            (times.at().expect("planned") - end).as_millis()
        };
        assert_eq!([0, 20, 21, 3000].map(|took| delay(took, false)), [200, 200, 210, 30_000]);
        assert_eq!([0, 3000].map(|took| delay(took, true)), [5000, 30_000]);
    }

    #[test]
    fn a_move_is_written_at_once_and_many_moves_five_times_a_second_at_most() {
        let now = Instant::now();
        // After changes: their saves leave a move free, unless they take long or fail.
        for (took, has_failed, pause) in
            [(0, false, 0), (99, false, 0), (100, false, 1000), (3, true, 5000)]
        {
            let (mut times, end) = after(now, took, has_failed);
            times.handle_change(end);
            let free = end + Duration::from_millis(pause);
            assert_eq!(times.handle_move(end), pause == 0, "{took}");
            assert!(times.handle_move(free));
        }
        // After moves.
        for (took, pause) in [(0, 200), (20, 200), (50, 500)] {
            let mut times = SaveTimes::new(now);
            assert!(times.handle_move(now), "nothing was written yet");
            times.at = None;
            let end = now + Duration::from_millis(took);
            times.handle_saved(now, end, false);
            assert!(!times.handle_move(end));
            let next = end + Duration::from_millis(pause);
            assert_eq!(times.at(), Some(next));
            times.handle_saved(next, next, false);
            assert!(!times.handle_move(next), "the save of the move that waited");
        }
    }

    #[test]
    fn a_move_that_comes_during_a_save_is_written_after_it() {
        let now = Instant::now();
        let mut times = SaveTimes::new(now);
        times.is_move_waiting = true;
        times.handle_saved(now, now, false);
        assert_eq!(times.at(), Some(now));
    }
}
