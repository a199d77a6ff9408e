//! The wait before traffic goes back to the preferred pair (decision 047).

use core::time::Duration;
use moorline_types::Instant;

/// The wait for the preferred pair, which has to answer the check of each round for the hold time. A lost check, or a
/// time in which the pair is no candidate, begins the wait anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// When the first check of the wait left.
    since: Option<Instant>,
    /// When the last check of a round left, if the pair has not answered it.
    asked: Option<Instant>,
    /// Number of rounds with an answer.
    rounds: u8,
}

impl Wait {
    /// A round begins. `asks`: whether it checks the preferred pair, which is not so if the pair is no candidate.
    pub(crate) fn on_round(&mut self, asks: bool, now: Instant) {
        if self.asked.is_some() || !asks {
            *self = Self::default();
        }
        self.asked = asks.then_some(now);
    }

    /// The round asks the pair again.
    pub(crate) fn on_retry(&mut self, now: Instant) {
        self.asked = self.asked.map(|_| now);
    }

    /// The pair has answered a check that left at `at`. Checks of other origin than a round count for less: one that
    /// left after an unanswered check of the round shows that this check was lost.
    pub(crate) fn on_answer(&mut self, at: Instant) {
        match self.asked {
            Some(asked) if at < asked => return,
            Some(asked) if at > asked => *self = Self { rounds: 1, ..Self::default() },
            Some(_) => {
                (self.asked, self.rounds) = (None, self.rounds.saturating_add(1));
            }
            None => {}
        }
        self.since.get_or_insert(at);
    }

    /// Whether the pair has answered for the time `hold`, and in [`ROUNDS`] rounds: there is no round while no traffic
    /// flows.
    pub(crate) fn is_over(&self, hold: Duration, now: Instant) -> bool {
        let is_long = self.since.is_some_and(|since| now.since(since) >= hold);
        is_long && self.rounds >= ROUNDS
    }

    /// Whether the pair has answered, and no check of it was lost since.
    #[cfg(test)]
    pub(crate) fn has_begun(&self) -> bool {
        self.since.is_some()
    }
}

/// Rounds that the preferred pair has to answer: 3.
const ROUNDS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    /// A wait after rounds at these seconds, each answered.
    fn answered(rounds: &[u64]) -> Wait {
        let mut wait = Wait::default();
        for round in rounds {
            wait.on_round(true, at(*round));
            wait.on_answer(at(*round));
        }
        wait
    }

    #[test]
    fn a_pair_has_to_answer_three_rounds_for_the_hold_time() {
        assert!(!answered(&[1, 11, 21]).is_over(HOLD, at(30)));
        assert!(answered(&[1, 11, 21, 31]).is_over(HOLD, at(31)));
        // No round runs without traffic, so the pair may have failed in the pause.
        assert!(!answered(&[1, 301]).is_over(HOLD, at(301)));
        assert!(answered(&[1, 301, 311]).is_over(HOLD, at(311)));
    }

    #[test]
    fn a_lost_check_of_a_round_begins_the_wait_anew_whatever_else_is_answered() {
        let lost = |answer: Option<u64>| {
            let mut wait = answered(&[1, 11]);
            wait.on_round(true, at(21));
            answer.into_iter().for_each(|answer| wait.on_answer(at(answer)));
            wait.on_round(true, at(31));
            wait.on_answer(at(31));
            wait.is_over(HOLD, at(40))
        };
        assert!(lost(Some(21)), "it was not lost");
        // The answer to an earlier check is late, or a check that a hint has drawn is answered.
        assert_eq!([None, Some(20), Some(25)].map(lost), [false; 3]);
    }

    #[test]
    fn a_round_that_asks_again_counts_once_and_one_without_the_pair_ends_the_wait() {
        let mut wait = answered(&[1, 11]);
        wait.on_round(true, at(21));
        wait.on_retry(at(22));
        wait.on_answer(at(22));
        assert!(wait.is_over(HOLD, at(31)));
        wait.on_round(false, at(31));
        wait.on_answer(at(41));
        assert!(!wait.is_over(HOLD, at(60)));
    }
}
