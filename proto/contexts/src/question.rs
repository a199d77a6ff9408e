use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use moorline_index::Deadlines;
use moorline_types::{ContextId, DropReason, Instant, UlidPair};

use crate::event::Removal;
use crate::machine::Contexts;

/// A context has been quiet for its idle time: does anything on this host still need it? Asked only if
/// [`Config::asks_before_removal`](crate::Config::asks_before_removal) is set, and answered by
/// [`Contexts::handle_usage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The context.
    pub context: ContextId,
    /// Its ULIDs.
    pub ulids: UlidPair,
    /// When its last payload went out or came in, as far as the core was told.
    pub since: Instant,
}

/// What has been asked, and what is to be asked again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    queue: VecDeque<Question>,
    /// Contexts that were asked about and have not gone: since when they are quiet.
    quiet: BTreeMap<ContextId, Instant>,
    /// When to ask about them again.
    again: Deadlines,
}

impl Questions {
    pub(crate) fn forget(&mut self, id: ContextId) {
        self.quiet.remove(&id);
        self.again.set(id.0, None);
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.again.first().map(|(at, _)| at)
    }

    fn ask(&mut self, question: Question, again: Instant) {
        let id = question.context;
        self.quiet.insert(id, question.since);
        self.again.set(id.0, Some(again));
        self.queue.push_back(question);
    }
}

impl Contexts {
    /// The next question; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_question(&mut self) -> Option<Question> {
        self.questions.queue.pop_front()
    }

    /// The answer to a [`Question`]: whether sockets, or payload since then, need the context. If so,
    /// it is asked again after another idle time; if not, the context goes. Without an answer it stays.
    pub fn handle_usage(&mut self, context: ContextId, is_used: bool, now: Instant) {
        if self.questions.quiet.contains_key(&context) && !is_used {
            self.remove(context, Removal::Idle);
        }
        self.drain_shim6(now);
    }

    /// The data plane says that a context is quiet.
    pub(crate) fn on_idle(
        &mut self,
        context: ContextId,
        since: Instant,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#9-1 rfc5533#9-2
        if self.config.asks_before_removal {
            self.ask(context, since, now).ok_or(DropReason::Gone)?;
        } else {
            self.remove(context, Removal::Idle);
        }
        Ok(())
    }

    /// Asks again what was answered, or not, an idle time ago.
    pub(crate) fn ask_again(&mut self, now: Instant) {
        while let Some(id) = self.questions.again.pop(now).map(ContextId) {
            if let Some(since) = self.questions.quiet.remove(&id) {
                self.ask(id, since, now);
            }
        }
    }

    fn ask(&mut self, context: ContextId, since: Instant, now: Instant) -> Option<()> {
        let ulids = self.ulids(context)?;
        let idle = self.config.idle_of(ulids, self.active.get(&context)?.reap.current_pair());
        let idle = idle.max(MIN_INTERVAL);
        self.questions.ask(Question { context, ulids, since }, now + idle);
        Some(())
    }
}

/// Between two questions about the same context, however short the idle time.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
