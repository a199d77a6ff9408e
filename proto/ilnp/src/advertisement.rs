//! Locator Updates that wait for their acknowledgement, and the pairs of locators that questions go by.

use alloc::vec::Vec;

use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_types::Instant;
use moorline_wire::ilnp::L64Entry;

use crate::consts::{MAX_QUESTION_PAUSE, MAX_TRIED_PAIRS, MIN_RETRANSMISSION, SILENT_TRIES};
use crate::paths::Locators;
use crate::session::Retry;

/// A Locator Update that waits for its acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Advertisement {
    pub(crate) locators: Vec<L64Entry>,
    /// The pairs of locators that the Locator Update goes by.
    pub(crate) question: Question,
    pub(crate) retry: Retry,
    /// Time of the correspondent's last repeated Confirm. The correspondent repeats the Confirm until it reads this
    /// Locator Update.
    pub(crate) confirmed_at: Option<Instant>,
}

/// The pairs of locators that a question goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    /// The pairs, one after another. If the Locator Update has news: the last pairs that it has gone by.
    pub(crate) pairs: Vec<Locators>,
    /// Index of the first pair that gets another turn, after all pairs have had theirs.
    pub(crate) turns_from: usize,
    /// Number of Locator Updates after which the question is over if the session is not in use.
    pub(crate) round: usize,
    /// Time until which the question goes on: the session was in use shortly before.
    pub(crate) in_use_until: Option<Instant>,
    /// The pair by which the correspondent has just reached us. If the pair in use is silent, a Locator Update goes by
    /// this pair at this time, out of turn.
    pub(crate) shown: Option<(Locators, Instant)>,
    /// When a Locator Update last went out of turn.
    pub(crate) out_of_turn_at: Option<Instant>,
}

impl Advertisement {
    /// Whether these locators have brought no answer to the question.
    pub(crate) fn finds_silent(&self, locators: Locators) -> bool {
        let asked = self.question.asked(self.retry.tries);
        asked.filter(|pair| *pair == locators).count() >= SILENT_TRIES
    }

    /// When the next Locator Update goes. `is_silent`: the pair in use is silent.
    pub(crate) fn next(&self, is_silent: bool) -> Instant {
        let shown = self.question.shown.filter(|_| is_silent);
        shown.map_or(self.retry.next, |(_, at)| at.min(self.retry.next))
    }

    /// The correspondent has reached us by this pair.
    pub(crate) fn on_reached_by(&mut self, by: Locators, now: Instant) {
        let last = self.question.out_of_turn_at.max(Some(self.retry.sent_at()));
        let soonest = last.map_or(now, |last| now.max(last + MIN_RETRANSMISSION));
        let at = self.question.shown.map_or(soonest, |(_, at)| at);
        self.question.shown = Some((by, at));
    }

    /// Takes the pair for a Locator Update out of turn, if its time has come.
    pub(crate) fn take_out_of_turn(&mut self, now: Instant) -> Option<Locators> {
        let (by, _) = self.question.shown.take_if(|(_, at)| *at <= now)?;
        self.question.out_of_turn_at = Some(now);
        Some(by)
    }
}

impl Question {
    /// The pair of the `nth` Locator Update.
    pub(crate) fn pair(&self, nth: usize) -> Option<Locators> {
        let turns = self.pairs.get(self.turns_from..).filter(|turns| !turns.is_empty())?;
        let again = nth.checked_sub(self.pairs.len());
        match again {
            None => self.pairs.get(nth).copied(),
            Some(again) => turns.get(again % turns.len()).copied(),
        }
    }

    /// The pairs that the first so many Locator Updates have gone by.
    pub(crate) fn asked(&self, tries: u32) -> impl Iterator<Item = Locators> + Clone {
        self.pairs.iter().take(tries as usize).copied()
    }

    /// Notes that a Locator Update with news goes by this pair.
    pub(crate) fn note(&mut self, pair: Locators) {
        self.pairs.drain(..(self.pairs.len() + 1).saturating_sub(MAX_NOTED));
        self.pairs.push(pair);
    }

    /// Notes that payload has passed.
    pub(crate) fn on_used(&mut self, at: Instant) {
        // A data plane reports steady use once in this interval, and the report is on its way for a while.
        self.in_use_until = Some(at + USED_INTERVAL + MAX_QUESTION_PAUSE);
    }
}

/// Largest number of noted pairs: as many as a question goes by in its first round.
const MAX_NOTED: usize = SILENT_TRIES + MAX_TRIED_PAIRS;
