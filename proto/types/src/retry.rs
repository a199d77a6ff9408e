use core::time::Duration;

use crate::Instant;

/// Time of the next attempt after a failure: after a second at first, and after longer pauses while attempts
/// fail.
#[derive(Clone, Debug, Default)]
pub struct Retry {
    at: Option<Instant>,
    failed: Option<Instant>,
    pause: Duration,
}

impl Retry {
    /// Notes that an attempt has failed. Another one becomes due after a pause, if none is due.
    pub fn handle_failed(&mut self, now: Instant) {
        if self.at.is_none() {
            let is_again = self.failed.is_some_and(|failed| now.since(failed) <= self.pause * 2);
            self.pause = if is_again { (self.pause * 2).min(MOST) } else { LEAST };
            (self.at, self.failed) = (Some(now + self.pause), Some(now));
        }
    }

    /// Time of the next attempt.
    #[must_use]
    pub const fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Notes that the next attempt begins.
    pub const fn begin(&mut self) {
        self.at = None;
    }
}

/// The shortest and the longest pause: 1 s and 64 s.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(64);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn pauses_grow_while_each_attempt_fails_and_begin_anew_after_a_calm_while() {
        let mut retry = Retry::default();
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut fail = |now: &mut Instant| {
            retry.handle_failed(*now);
            retry.handle_failed(*now + Duration::from_millis(1));
            let at = retry.at().expect("due");
            let pause = at.since(*now).as_secs();
            *now = at;
            retry.begin();
            assert_eq!(retry.at(), None);
            pause
        };
        let pauses: Vec<_> = (0..9).map(|_| fail(&mut now)).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        now = now + Duration::from_secs(65);
        assert_eq!(fail(&mut now), 1, "the last attempt was no failure");
    }
}
