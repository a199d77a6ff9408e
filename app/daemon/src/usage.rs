use std::collections::BTreeSet;
use std::time::Duration;

use moorline_contexts::Question;
use moorline_datapath::shim6::ContextPlane as _;
use moorline_netlink::connected_pairs;
use moorline_types::UlidPair;
use tokio::time;

use crate::clock;
use crate::shell::Daemon;

/// Open questions of the machine whether a quiet context is in use.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    questions: Vec<Question>,
    answer_at: Option<time::Instant>,
}

impl Quiet {
    /// Returns the time to answer; none without a question.
    pub(crate) const fn answer_at(&self) -> Option<time::Instant> {
        self.answer_at
    }

    /// Stores a question of the machine; the answer comes together with others.
    pub(crate) fn ask(&mut self, question: Question) {
        self.questions.push(question);
        self.answer_at.get_or_insert_with(|| time::Instant::now() + ANSWER_DELAY);
    }
}

impl Daemon {
    /// Answers all questions. A context is in use if a socket is connected between its ULIDs, or if payload has passed since
    /// the context was quiet.
    //= rfc5533#9-1
    pub(crate) fn answer_questions(&mut self) {
        self.quiet.answer_at = None;
        let connected = connected();
        for Question { context, ulids, since } in std::mem::take(&mut self.quiet.questions) {
            let is_busy = self
                .datapath
                .counters(context)
                .is_ok_and(|counters| counters.last_tx > since || counters.last_rx > since);
            let is_used = is_busy || connected.contains(&ulids);
            self.host.shim6_mut().handle_usage(context, is_used, clock::now());
        }
    }
}

/// Returns the pairs of addresses with a connected socket.
pub(crate) fn connected() -> BTreeSet<UlidPair> {
    connected_pairs().unwrap_or_else(|error| {
        // Without the list of sockets, only the payload counts.
        tracing::debug!(%error, "asking for sockets");
        BTreeSet::new()
    })
}

/// Delay of the answers: the daemon reads all sockets of the host at once, at most at this interval, for any number of
/// contexts.
const ANSWER_DELAY: Duration = Duration::from_secs(1);
