use std::collections::BTreeSet;
use std::time::Duration;

use moorline_contexts::Question;
use moorline_datapath::shim6::ContextPlane as _;
use moorline_netlink::connected_pairs;
use moorline_types::UlidPair;
use tokio::time;

use crate::clock;
use crate::shell::Daemon;

/// Contexts that have been quiet, of which the machine wants to know whether anything needs them.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    questions: Vec<Question>,
    answer_at: Option<time::Instant>,
}

impl Quiet {
    /// When to answer, if there is anything to.
    pub(crate) const fn answer_at(&self) -> Option<time::Instant> {
        self.answer_at
    }

    /// Takes a question of the machine, to be answered together with others.
    pub(crate) fn ask(&mut self, question: Question) {
        self.questions.push(question);
        self.answer_at.get_or_insert_with(|| time::Instant::now() + ANSWER_DELAY);
    }
}

impl Daemon {
    /// A context is in use if a socket is connected between its ULIDs, or if payload has come or gone
    /// since it was found to be quiet.
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

/// Pairs that a socket is connected between.
pub(crate) fn connected() -> BTreeSet<UlidPair> {
    connected_pairs().unwrap_or_else(|error| {
        // Then quiet is all that counts.
        tracing::debug!(%error, "asking for sockets");
        BTreeSet::new()
    })
}

/// All sockets of the host are read at once: not more often than this, however many contexts there are.
const ANSWER_DELAY: Duration = Duration::from_secs(1);
