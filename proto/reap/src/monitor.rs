//! State of the path monitor, beyond RFC 5534: the standby path, checks under way, a trial of the current pair.

use alloc::boxed::Box;
use core::num::NonZeroU32;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::bounded::{ALLOWANCES, Answers};
use crate::comparison::Comparison;
use crate::event::FailureHint;
use crate::machine::SeenAnswer;
use crate::timers::Timer;

mod flight;
mod past;
mod rtt;
mod trial;
mod wait;

use flight::CHECK_LIFETIME;
pub(crate) use flight::{Check, Flight};
pub(crate) use past::Past;
pub(crate) use rtt::Rtt;
pub(crate) use trial::{Suspicion, Trial};
pub(crate) use wait::Wait;

/// State of the path monitor. The machine keeps it in a box, and only for contexts with more than one pair.
#[derive(Clone, Debug)]
pub(crate) struct PathMonitor {
    /// The standby path, or the pair that is being checked to become it: places in the machine's two sets.
    pub(crate) standby: Option<[u8; 2]>,
    /// When the last answered check by the standby path left.
    pub(crate) verified: Option<Instant>,
    pub(crate) standby_rtt: Rtt,
    pub(crate) current_rtt: Rtt,
    /// The least round-trip time of the current pair since it became current, in milliseconds plus one. Zero: unknown.
    floor: u16,
    pub(crate) round: Round,
    /// When the rest ends, or the answers to the checks are due.
    pub(crate) due: Instant,
    /// Checks sent in this round.
    pub(crate) tries: u8,
    /// Number of pairs in a row that have not answered.
    pub(crate) failed: u8,
    /// Whether the peer knows checks: it has answered one or sent one.
    pub(crate) knows_checks: bool,
    /// Whether a keepalive has led to a trial and the current pair has answered no check since.
    pub(crate) is_asked_in_vain: bool,
    /// Whether the context was new when the checks began.
    pub(crate) is_new: bool,
    /// Whether the check of the current pair in this round is unanswered.
    pub(crate) is_round_open: bool,
    /// Nonce of the last check of the current pair that the peer has answered by that pair.
    pub(crate) answered_nonce: Option<NonZeroU32>,
    /// Nonce of the last check that the peer has sent by the current pair.
    pub(crate) seen_nonce: Option<NonZeroU32>,
    /// Whether the sender of that check has shown that it sees this host's answers.
    pub(crate) is_seen_shown: bool,
    /// The last answer that came by the current pair, and the last one by the standby path.
    pub(crate) current_answer: Option<SeenAnswer>,
    pub(crate) standby_answer: Option<SeenAnswer>,
    /// Counts of answered checks, by [`Allowance`].
    pub(crate) answers: [Answers; ALLOWANCES],
    /// `None`: the state is as [`Past::new`] makes it for the current pair.
    past: Option<Box<Past>>,
    pub(crate) flight: Option<Box<Flight>>,
}

/// Stage of the checks of the standby path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// There is no other pair.
    Off,
    /// The next round is not due yet.
    Resting,
    /// The next round begins as soon as traffic flows.
    Awaiting,
    /// The machine asks the host what other contexts know about the standby path.
    Asking,
    /// Checks are under way.
    Checking,
}

/// A question by the current pair: checks after a keepalive or payload of unknown origin came in, or a request of
/// Shim6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When the answer is due.
    pub(crate) due: Instant,
    pub(crate) by: Question,
}

/// The question of [`Asked`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// Number of checks sent.
    Checks(u8),
    /// Number of checks sent, and when the first of them left. Payload that comes in answers nothing: it may be
    /// anybody's.
    Proof(u8, Instant),
    Request,
}

impl PathMonitor {
    pub(crate) fn new() -> Self {
        Self {
            standby: None,
            verified: None,
            standby_rtt: Rtt::default(),
            current_rtt: Rtt::default(),
            floor: 0,
            round: Round::Off,
            due: Instant::ZERO,
            tries: 0,
            failed: 0,
            knows_checks: false,
            is_asked_in_vain: false,
            is_new: false,
            is_round_open: false,
            answered_nonce: None,
            seen_nonce: None,
            is_seen_shown: false,
            current_answer: None,
            standby_answer: None,
            answers: Default::default(),
            past: None,
            flight: None,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<(Instant, Timer)> {
        let round = match self.round {
            Round::Resting | Round::Checking => Some((self.due, Timer::Standby)),
            Round::Off | Round::Awaiting | Round::Asking => None,
        };
        let trial = self.trial().map(|trial| {
            let due = if trial.knows_better() { trial.due } else { trial.end };
            (trial.next.unwrap_or(due).min(due), Timer::Trial)
        });
        let deferred = self.deferred().map(|one| (self.quiet_until(one.hint), Timer::Trial));
        let asked = self.flight.as_ref().and_then(|flight| flight.asked);
        let answer = asked.map(|asked| (asked.due, Timer::Answer));
        let comparison = self.comparison().map(|comparison| (comparison.next, Timer::Comparison));
        let follow = self.flight.as_ref().and_then(|flight| flight.follow);
        let follow = follow.map(|follow| (follow.next, Timer::Follow));
        [round, trial, deferred, answer, comparison, follow]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }

    pub(crate) fn trial(&self) -> Option<&Trial> {
        self.flight.as_ref()?.trial.as_ref()
    }

    pub(crate) fn deferred(&self) -> Option<Suspicion> {
        self.flight.as_ref()?.deferred
    }

    /// Whether the peer seems to know no checks: it has answered none and sent none, and checks were in vain or the
    /// peer refused them (decisions 121, 143).
    pub(crate) fn is_mute(&self) -> bool {
        self.failed > 0 && !self.knows_checks
    }

    pub(crate) fn floor(&self) -> Option<Duration> {
        self.floor.checked_sub(1).map(|floor| Duration::from_millis(floor.into()))
    }

    /// The current pair has answered a check after `rtt`.
    pub(crate) fn note_floor(&mut self, rtt: Duration) {
        let rtt = u16::try_from(rtt.as_millis() + 1).unwrap_or(u16::MAX);
        self.floor = if self.floor == 0 { rtt } else { self.floor.min(rtt) };
    }

    /// Another pair has become current: forgets what is known about the previous one.
    pub(crate) fn forget_floor(&mut self) {
        (self.floor, self.is_round_open) = (0, false);
        (self.answered_nonce, self.seen_nonce, self.is_seen_shown) = (None, None, false);
    }

    /// Whether the peer's payload has taken the current pair since payload of this host takes the pair: the peer has
    /// answered a check by its own current pair there, or has sent a check of its current pair.
    pub(crate) fn was_peer_here(&self) -> bool {
        self.answered_nonce.is_some() || self.is_seen_shown
    }

    pub(crate) fn comparison(&self) -> Option<&Comparison> {
        self.flight.as_ref()?.comparison.as_ref()
    }

    pub(crate) fn rest(&mut self, until: Instant) {
        (self.round, self.due, self.is_round_open) = (Round::Resting, until, false);
    }

    /// Ends the rest: the next traffic begins a round.
    pub(crate) fn end_rest(&mut self) {
        if self.round == Round::Resting {
            self.round = Round::Awaiting;
        }
    }

    /// Ends the rest or the round that is running: the next traffic begins a round.
    pub(crate) fn begin_anew(&mut self) {
        match self.round {
            Round::Resting | Round::Checking => self.round = Round::Awaiting,
            Round::Off | Round::Awaiting | Round::Asking => {}
        }
    }

    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.as_deref()
    }

    pub(crate) fn past_if_any(&mut self) -> Option<&mut Past> {
        self.past.as_deref_mut()
    }

    pub(crate) fn past_mut(&mut self, current: LocatorPair) -> &mut Past {
        self.past.get_or_insert_with(|| Box::new(Past::new(current)))
    }

    /// The machine acts on no suspicion of this kind before this time.
    pub(crate) fn quiet_until(&self, hint: FailureHint) -> Instant {
        self.past().map_or(Instant::ZERO, |past| past.quiet(hint).until)
    }

    /// Drops what is over: checks too old for an answer, a quiet time that has ended, and empty boxes.
    pub(crate) fn tidy(&mut self, current: LocatorPair, now: Instant) {
        if let Some(past) = &mut self.past {
            past.forgive(now);
            if **past == Past::new(current) {
                self.past = None;
            }
        }
        let Some(flight) = &mut self.flight else { return };
        flight.checks.retain(|check| now.since(check.at) <= CHECK_LIFETIME);
        if flight.is_over() {
            self.flight = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_monitor_is_small() {
        assert!(size_of::<PathMonitor>() <= 112, "{}", size_of::<PathMonitor>());
    }
}
