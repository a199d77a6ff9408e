use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use moorline_index::Deadlines;
use moorline_types::{ContextId, DropReason, Instant, UlidPair};

use crate::event::Removal;
use crate::machine::Contexts;

/// Asks whether anything on this host still needs a context that has been quiet for its idle time. The machine asks
/// only if [`Config::asks_before_removal`](crate::Config::asks_before_removal) is set. [`Contexts::handle_usage`] takes
/// the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The context.
    pub context: ContextId,
    /// Its ULIDs.
    pub ulids: UlidPair,
    /// When the last payload went out or came in, as far as the core knows.
    pub since: Instant,
}

/// Questions to ask, and to ask again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    queue: VecDeque<Question>,
    /// Contexts that were asked about and still exist, with the start of their quiet time.
    quiet: BTreeMap<ContextId, Instant>,
    /// When to ask about these contexts again.
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
    /// Gives the next question. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_question(&mut self) -> Option<Question> {
        self.questions.queue.pop_front()
    }

    /// Takes the answer to a [`Question`]: whether sockets, or later payload, need the context. If so, the machine asks
    /// again after another idle time. If not, it removes the context. Without an answer the context stays.
    pub fn handle_usage(&mut self, context: ContextId, is_used: bool, now: Instant) {
        if self.questions.quiet.contains_key(&context) && !is_used {
            self.remove(context, Removal::Idle);
        }
        self.drain_shim6(now);
    }

    /// The data plane reports that a context is quiet.
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

    /// Asks again about contexts whose last question is an idle time ago, answered or not.
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

/// Least time between two questions about one context, however short the idle time: 1 s.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
