//! Bounds on what a machine holds and answers.

use alloc::collections::VecDeque;
use core::time::Duration;
use moorline_types::Instant;

use crate::config::MAX_QUEUED;

/// Counts the answers of a second. Answers are as many as the probes that ask for them and little
/// larger; the cap is for a peer, or someone who knows our tag, who sends without end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    since: Instant,
    count: u32,
}

impl Answers {
    /// Whether one more may go out.
    pub(crate) fn take(&mut self, limit: u32, now: Instant) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= limit
    }
}

/// Adds to a queue of at most [`MAX_QUEUED`]; the oldest makes room.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= MAX_QUEUED {
        queue.pop_front();
    }
    queue.push_back(item);
}
