//! State of a trial of the current pair.

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::event::FailureHint;

/// A report of the data plane about the current pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    pub(crate) hint: FailureHint,
    /// Time since which nothing has come in.
    pub(crate) since: Instant,
    /// How long answers have taken lately. Zero: unknown.
    pub(crate) usual: Duration,
}

impl Suspicion {
    /// Whether an ICMPv6 error is all that speaks against the pair. Anybody can forge one.
    pub(crate) fn is_error(&self) -> bool {
        self.hint == FailureHint::Unreachable
    }
}

/// A trial finds out whether the current pair works: checks of the current pair and of other pairs in parallel.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) suspicion: Suspicion,
    pub(crate) started: Instant,
    /// End of the Send Timeout, if it is near. At that time exploration begins, whatever other pairs answer.
    pub(crate) expires: Option<Instant>,
    /// The other pairs in the trial.
    pub(crate) others: Vec<LocatorPair>,
    /// The first of the other pairs that answered.
    pub(crate) answered: Option<LocatorPair>,
    /// Whether the current pair has answered by the way back, which is not the pair of the peer's payload.
    pub(crate) is_peer_astray: bool,
    /// Number of rounds of checks sent.
    pub(crate) sent: u32,
    /// When the next round of checks is due.
    pub(crate) next: Option<Instant>,
    pub(crate) gap: Duration,
    /// When the answer of the current pair is due.
    pub(crate) due: Instant,
    /// When the answers of the other pairs are due.
    pub(crate) end: Instant,
}

impl Trial {
    /// Makes a trial that begins and ends at `now`. The caller sets the times for the answers.
    pub(crate) const fn new(suspicion: Suspicion, others: Vec<LocatorPair>, now: Instant) -> Self {
        Self {
            suspicion,
            started: now,
            expires: None,
            others,
            answered: None,
            is_peer_astray: false,
            sent: 0,
            next: Some(now),
            gap: Duration::ZERO,
            due: now,
            end: now,
        }
    }

    /// Whether only an answer to a check ends the trial well. Payload that comes in may be anybody's.
    pub(crate) fn wants_proof(&self) -> bool {
        self.suspicion.hint == FailureHint::Unproven
    }

    /// When the first check left whose answer ends the trial. If there was no sign of a failure but silence of the
    /// peer's checks, a late answer to the question before the trial clears the doubt.
    pub(crate) fn asked_since(&self) -> Instant {
        if self.wants_proof() { self.suspicion.since } else { self.started }
    }

    /// Whether the trial need not wait beyond the answer of the current pair.
    pub(crate) fn knows_better(&self) -> bool {
        self.answered.is_some() || self.is_peer_astray
    }

    /// Sends no more checks. The trial ends with the Send Timeout.
    pub(crate) fn give_up_checks(&mut self) {
        self.next = None;
        self.due = self.expires.unwrap_or(self.due);
        self.end = self.due;
    }
}
