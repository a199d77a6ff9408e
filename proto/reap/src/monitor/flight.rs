//! State while checks are under way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::{Asked, Suspicion, Trial};
use crate::bounded::push;
use crate::comparison::Comparison;
use crate::event::Event;
use crate::follow::Follow;
use crate::message::{Report, Transmit};
use crate::random::Random;

/// A probe outside of explorations, to find out whether a pair works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub(crate) pair: LocatorPair,
    pub(crate) nonce: u32,
    /// Kind of the check: its Probe Data.
    pub(crate) data: u32,
    pub(crate) at: Instant,
}

/// State while checks are under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) random: Random,
    pub(crate) checks: Vec<Check>,
    pub(crate) trial: Option<Trial>,
    /// A suspicion that came within the quiet time after a trial.
    pub(crate) deferred: Option<Suspicion>,
    pub(crate) asked: Option<Asked>,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) follow: Option<Follow>,
    /// An earlier question whose late answer takes payload back to the pair that was asked.
    pub(crate) left: Option<Follow>,
    /// Whether the host has sent a check of its own ([`Machine::send_one_check`](crate::Machine::send_one_check)). If
    /// so, the machine tells the host of answers.
    pub(crate) is_asked: bool,
    pub(crate) answers: VecDeque<Transmit>,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
}

impl Flight {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            checks: Vec::new(),
            trial: None,
            deferred: None,
            asked: None,
            comparison: None,
            follow: None,
            left: None,
            is_asked: false,
            answers: VecDeque::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Makes a nonce for a check by this pair, and keeps the check until it is answered.
    pub(crate) fn note_check(&mut self, pair: LocatorPair, data: u32, now: Instant) -> u32 {
        let nonce = self.random.nonce();
        if self.checks.len() >= MAX_CHECKS {
            self.forget_one();
        }
        self.checks.push(Check { pair, nonce, data, at: now });
        nonce
    }

    /// Forgets the oldest check that is no question whether a pair works. The check does not count as lost.
    fn forget_one(&mut self) {
        let asked = [self.follow, self.left].into_iter().flatten();
        let is_question = |check: &Check| {
            asked.clone().any(|one| one.from == check.pair && one.began <= check.at)
        };
        let place = self.checks.iter().position(|check| !is_question(check)).unwrap_or(0);
        let forgotten = self.checks.remove(place);
        if let Some(comparison) = &mut self.comparison {
            comparison.forget(forgotten.at);
        }
    }

    /// Whether checks of a comparison have left.
    pub(crate) fn compares(&self) -> bool {
        self.comparison.as_ref().is_some_and(Comparison::has_begun)
    }

    /// Takes out the check that this report is about, and the earlier checks by the same pair.
    pub(crate) fn confirm(
        &mut self,
        pair: LocatorPair,
        report: &Report,
        now: Instant,
    ) -> Option<Check> {
        let found = self.find(pair, report, now);
        if let Some(found) = found {
            // In a comparison each check counts, in whatever order the answers come.
            let is_older = |check: &Check| check.pair == pair && check.at <= found.at;
            let compares = self.compares();
            self.checks
                .retain(|check| check.nonce != found.nonce && (compares || !is_older(check)));
        }
        found
    }

    /// Finds the check that this report is about.
    pub(crate) fn find(&self, pair: LocatorPair, report: &Report, now: Instant) -> Option<Check> {
        let is_meant = |check: &&Check| {
            check.pair == pair && (check.nonce, check.data) == (report.nonce, report.data)
        };
        let found = self.checks.iter().find(is_meant).copied();
        found.filter(|found| now.since(found.at) <= CHECK_LIFETIME)
    }

    /// The checks of this pair are refused.
    pub(crate) fn refuse(&mut self, pair: LocatorPair) {
        self.checks.retain(|check| check.pair != pair);
        self.transmits.retain(|transmit| transmit.pair != pair);
    }

    pub(crate) fn tell(&mut self, event: Event) {
        push(&mut self.events, event);
    }

    /// Ends the trial, the deferred suspicion, the question by the current pair, and the comparison.
    pub(crate) fn drop_trial(&mut self) {
        (self.trial, self.deferred, self.asked, self.comparison) = (None, None, None, None);
    }

    pub(super) fn is_over(&self) -> bool {
        self.checks.is_empty()
            && self.trial.is_none()
            && self.deferred.is_none()
            && self.asked.is_none()
            && self.comparison.is_none()
            && self.follow.is_none()
            && self.answers.is_empty()
            && self.transmits.is_empty()
            && self.events.is_empty()
    }
}

/// Age at which a check is given up: 10 s. No path with its queues takes longer.
pub(super) const CHECK_LIFETIME: Duration = Duration::from_secs(10);
/// Checks that can wait for answers: 32.
const MAX_CHECKS: usize = 32;
