//! Bounds on what a machine holds and answers.

use alloc::collections::VecDeque;
use moorline_types::Instant;

use crate::config::{ANSWERS_PER_SECOND, MAX_QUEUED};

/// Counts the answers of a second. Answers are as many as the probes that ask for them and little
/// larger; the cap is for a peer, or someone who knows our tag, who sends without end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    /// In milliseconds, which start anew after seven weeks: that does no harm.
    since: u32,
    count: u16,
}

impl Answers {
    /// Whether one more may go out.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let now = millis(now);
        if now.wrapping_sub(self.since) >= 1000 {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        u32::from(self.count) <= ANSWERS_PER_SECOND
    }
}

fn millis(at: Instant) -> u32 {
    let millis = at.since(Instant::ZERO).as_millis() & u128::from(u32::MAX);
    u32::try_from(millis).unwrap_or(0)
}

/// Adds to a queue of at most [`MAX_QUEUED`]; the oldest makes room.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= MAX_QUEUED {
        queue.pop_front();
    }
    queue.push_back(item);
}
