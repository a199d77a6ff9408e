//! Keepalives that come in. A keepalive says that payload has reached the peer within the Keepalive Timeout, which may
//! have been before a failure. A check says whether payload reaches the peer now (decision 117).

use moorline_types::Instant;

use super::Machine;
use crate::event::FailureHint;
use crate::monitor::{Asked, Suspicion};
use crate::state::State;

impl Machine {
    /// A keepalive came in. The keepalive stops the Send Timer. If the peer answers checks by the current pair, only
    /// such an answer ends a trial.
    pub(super) fn on_keepalive(&mut self, now: Instant) {
        if self.state != State::Operational || !self.suspects() || !self.has_current_answered() {
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
            self.send_question(1, now);
        }
    }

    /// The time for the answer to a check of the current pair is over.
    pub(super) fn on_answer_timeout(&mut self, now: Instant) {
        let Some(flight) = self.flight_mut() else { return };
        let Some(Asked { tries, .. }) = flight.asked.take() else { return };
        if tries < TRIES {
            return self.send_question(tries + 1, now);
        }
        self.monitor_mut().is_asked_in_vain = true;
        // Damping limits the doubts of the data plane, which cost nothing. This doubt has cost three checks.
        let usual = Default::default();
        self.try_pair(Suspicion { hint: FailureHint::Silence, since: now, usual }, now);
        self.tidy_monitor(now);
    }

    fn send_question(&mut self, tries: u8, now: Instant) {
        let Some(due) = self.monitor.as_ref().and_then(|monitor| monitor.current_rtt.due()) else {
            return;
        };
        self.flight().asked = Some(Asked { due: now + due, tries });
        self.send_check(self.current(), now);
    }
}

/// Checks before the machine doubts the pair: 3. If each direction loses one packet in twenty, all three get lost once
/// in a thousand times.
const TRIES: u8 = 3;
