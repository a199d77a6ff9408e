//! Limits on what a machine holds and answers.

use alloc::collections::VecDeque;
use moorline_types::Instant;

use crate::config::{ANSWERS_PER_SECOND, MAX_QUEUED};

/// Counts the answers of a second. Answers are as many as the probes that ask for them, and only little larger. The
/// limit is for a peer, or for an attacker who knows our tag, who sends without end.
///
/// The state is one word: the upper 27 bits hold the start of the second in milliseconds, which wraps after 37 hours,
/// and the lower bits hold the count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers(u32);

/// Whose probes use up a limit. Whoever knows the context tag can forge probes by any pair, and uses up no answers to
/// probes of a better kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// Probes by other pairs than the current one.
    Others,
    /// Probes by the current pair.
    Current,
    /// Probes by the current pair whose sender has shown that it sees this host's answers there.
    Shown,
    /// Such probes by the preferred pair, to which the peer may have gone back first.
    ShownHome,
}

/// Number of [`Allowance`]s.
pub(crate) const ALLOWANCES: usize = 4;

impl Answers {
    /// Counts one more answer. Returns false if the limit is exceeded.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let now = millis(now);
        let (since, count) = (self.0 >> COUNT_BITS, self.0 & MAX_COUNT);
        let is_over = now.wrapping_sub(since) & MAX_MILLIS >= 1000;
        let (since, count) = if is_over { (now, 1) } else { (since, (count + 1).min(MAX_COUNT)) };
        self.0 = since << COUNT_BITS | count;
        count <= ANSWERS_PER_SECOND
    }
}

fn millis(at: Instant) -> u32 {
    let millis = at.since(Instant::ZERO).as_millis() & u128::from(MAX_MILLIS);
    u32::try_from(millis).unwrap_or(0)
}

/// Adds to a queue of at most [`MAX_QUEUED`]. If the queue is full, the oldest item goes.
pub(crate) fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= MAX_QUEUED {
        queue.pop_front();
    }
    queue.push_back(item);
}

const COUNT_BITS: u32 = 5;
const MAX_COUNT: u32 = (1 << COUNT_BITS) - 1;
const MAX_MILLIS: u32 = u32::MAX >> COUNT_BITS;
const _: () = assert!(ANSWERS_PER_SECOND < MAX_COUNT);

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn so_many_answers_go_out_in_a_second_and_none_more() {
        // In 100 days the milliseconds wrap several times.
        for day in [0, 1, 2, 100] {
            let start = Instant::ZERO + Duration::from_secs(86_400 * day + 7);
            let mut answers = Answers::default();
            for second in 0..3 {
                let now = start + Duration::from_secs(second);
                let taken = (0..100).filter(|n| answers.take(now + Duration::from_millis(*n)));
                assert_eq!(taken.count(), ANSWERS_PER_SECOND as usize, "{day} {second}");
            }
        }
    }
}
