//! Lengths of the turns of the event loop.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The longest turn so far. A turn is the time from one wait of the event loop for news to the next one: meanwhile the loop
/// reads no message and fires no timer. The time for which the kernel makes the loop wait for an answer is no part of a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<AtomicU64>);

impl Turns {
    /// Runs the event loop and times its turns.
    pub(crate) async fn time<F: Future>(&self, event_loop: F) -> F::Output {
        let mut event_loop = pin!(event_loop);
        poll_fn(|context| {
            let begin = Instant::now();
            let ready = event_loop.as_mut().poll(context);
            let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.0.fetch_max(micros, Ordering::Relaxed);
            ready
        })
        .await
    }

    /// Longest turn in microseconds.
    pub(crate) fn longest_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_longest_turn_is_as_long_as_the_work_between_two_waits() {
        let turns = Turns::default();
        let work = |length| {
            let end = Instant::now() + length;
            while Instant::now() < end {}
        };
        let answer = turns.time(async {
            work(Duration::from_millis(3));
            tokio::task::yield_now().await;
            turns.longest_us()
        });
        assert!(answer.await >= 3000, "the first turn is over");
        turns.time(async {}).await;
        assert!(turns.longest_us() >= 3000, "a shorter one changes nothing");
    }
}
