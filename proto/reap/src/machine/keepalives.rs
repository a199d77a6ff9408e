//! Keepalives that come in. A keepalive says that payload has reached the peer within the Keepalive Timeout, which may
//! have been before a failure. A check says whether payload reaches the peer now (decision 117). A request of Shim6
//! asks the same question (decision 167), and so does payload that may be anybody's (decision 190).

use core::time::Duration;

use moorline_types::Instant;

use super::Machine;
use super::suspicion::UNKNOWN_DUE;
use crate::config::TRIES;
use crate::event::FailureHint;
use crate::monitor::{Asked, Question, Suspicion, Trial};
use crate::profile::PROOF_INTERVAL;
use crate::state::State;

impl Machine {
    /// A keepalive came in. The keepalive stops the Send Timer. If the peer answers checks, only an answer by the current
    /// pair ends a trial. The current pair may be new, and so may have answered no check yet.
    pub(super) fn on_keepalive(&mut self, now: Instant) {
        if self.state != State::Operational || !self.suspects() || !self.is_answerer() {
            return self.on_current_answered(now);
        }
        match self.trial_mut() {
            Some(trial) => trial.expires = None,
            None => self.ask_current(now),
        }
    }

    /// Checks the current pair, unless the pair has answered in the last half of a Send Timeout.
    ///
    /// If payload ends the trial of a pair that has answered no check, each keepalive could begin another trial. So
    /// this function sends no more checks until the pair has answered a check of another kind, for example of a round.
    fn ask_current(&mut self, now: Instant) {
        let period = self.config.send_timeout / 2;
        let Some(monitor) = &self.monitor else { return };
        let is_asked = monitor.flight.as_ref().is_some_and(|flight| flight.asked.is_some());
        if !is_asked && !monitor.is_asked_in_vain && !monitor.current_rtt.is_within(period, now) {
            self.send_question(Question::Checks(1), now);
        }
    }

    /// Payload of this host goes out, and all that has come in lately may be anybody's. If the peer answers checks by
    /// the current pair, the machine checks the pair, unless it has answered within the proof interval.
    pub(super) fn ask_for_proof(&mut self, now: Instant) {
        let interval = self.config.profile.proof_interval;
        let Some(monitor) = self.monitor.as_ref().filter(|_| !interval.is_zero()) else { return };
        let is_asked = monitor.flight.as_ref().is_some_and(|flight| flight.asked.is_some());
        let age = interval.saturating_sub(PROOF_INTERVAL);
        if !is_asked && self.has_current_answered() && !monitor.current_rtt.is_within(age, now) {
            self.send_question(Question::Proof(1, now), now);
        }
    }

    /// Whether only an answer to a check says that the current pair works.
    pub(super) fn wants_proof(&self) -> bool {
        self.flight_now().is_some_and(|flight| {
            let is_asked = |asked: &Asked| matches!(asked.by, Question::Proof(..));
            flight.asked.as_ref().is_some_and(is_asked)
                || flight.trial.as_ref().is_some_and(Trial::wants_proof)
        })
    }

    /// A message of Shim6 that the peer answers at once has left by the current pair. If the machine hears nothing for
    /// an Initial Probe Timeout, or for a longer round-trip time, it doubts the pair.
    pub fn handle_request_sent(&mut self, now: Instant) {
        let is_free = self.trial_started().is_none()
            && self.flight_now().is_none_or(|flight| flight.asked.is_none());
        if is_free && self.state == State::Operational && self.suspects() {
            let rtt_due = self.monitor.as_ref().and_then(|monitor| monitor.current_rtt.due());
            let wait = self.config.initial_probe_timeout.max(rtt_due.unwrap_or_default());
            self.flight().asked = Some(Asked { due: now + wait, by: Question::Request });
        }
    }

    /// A message of Shim6 came in that may answer the request.
    pub fn handle_request_answered(&mut self, now: Instant) {
        let asked = self.flight_mut().map(|flight| &mut flight.asked);
        if let Some(asked) = asked
            && asked.is_some_and(|asked| matches!(asked.by, Question::Request))
        {
            *asked = None;
            self.tidy_monitor(now);
        }
    }

    /// The time for the answer to a question by the current pair is over.
    pub(super) fn on_answer_timeout(&mut self, now: Instant) {
        let Some(flight) = self.flight_mut() else { return };
        let Some(Asked { by, .. }) = flight.asked.take() else { return };
        let mut suspicion =
            Suspicion { hint: FailureHint::Silence, since: now, usual: Duration::ZERO };
        match by {
            Question::Checks(tries) if tries < TRIES => {
                return self.ask_once_more(Question::Checks(tries + 1), now);
            }
            Question::Proof(tries, since) if tries < TRIES => {
                return self.ask_once_more(Question::Proof(tries + 1, since), now);
            }
            Question::Checks(_) => self.monitor_mut().is_asked_in_vain = true,
            Question::Proof(_, since) => {
                suspicion = Suspicion { hint: FailureHint::Unproven, since, ..suspicion };
            }
            Question::Request => {}
        }
        // Damping limits the doubts of the data plane, which cost nothing. This doubt has cost three checks or a
        // request.
        self.try_pair(suspicion, now);
        self.tidy_monitor(now);
    }

    /// A check of the current pair is lost. That alone says that the pair may lose packets: datagrams do not tell.
    fn ask_once_more(&mut self, by: Question, now: Instant) {
        self.consider_comparison(now);
        self.send_question(by, now);
    }

    fn send_question(&mut self, by: Question, now: Instant) {
        let known = self.monitor.as_ref().and_then(|monitor| monitor.current_rtt.due());
        let due = known.unwrap_or(UNKNOWN_DUE);
        let due = if matches!(by, Question::Proof(..)) { due.max(PROOF_DUE) } else { due };
        self.flight().asked = Some(Asked { due: now + due, by });
        self.send_check_once(self.current(), now);
    }
}

/// Time to wait for an answer while payload comes in, at least: 100 ms. Not configurable.
const PROOF_DUE: Duration = Duration::from_millis(100);
