//! Probes and answers on paths that lose packets (decisions 214 and 221).
//!
//! A host in InboundOk has heard the peer, and its own probes or the peer's answers get lost. Each probe of the peer pays for
//! ten probes of the host at the initial pace, and every second one takes the pair by which the peer's last probe came. The
//! peer may be in Operational. It then repeats its Probe Operational up to three times, until this host sends a message that
//! only a host in Operational sends.

use moorline_types::Instant;

use super::Machine;
use crate::event::Cause;
use crate::state::{Input, State};

impl Machine {
    /// The next probe is due (RFC 5534 s6.5), or the next repetition of a Probe Operational.
    pub(super) fn on_retransmission(&mut self, now: Instant) {
        let (state, next) = (self.state, now + self.config.probe_timeout(1));
        // The last probe still waits for room. Another one would leave right behind it.
        if let Some(exploration) = &mut self.exploration
            && exploration.has_probe(state)
        {
            exploration.deadlines.retransmission = Some(next);
            return;
        }
        if self.state == State::Operational {
            return self.repeat_answer(now);
        }
        if let Some(exploration) = &mut self.exploration
            && now.since(self.heard) > self.config.send_timeout
        {
            exploration.is_heard = false;
        }
        let by = self.exploration.as_ref().filter(|one| self.is_paid_for() && !one.is_initial());
        let by = by.and_then(|one| one.records.last_heard_by());
        let via = by.and_then(|pair| self.answer_pair(pair));
        self.step(Input::Retransmission, Cause::SendTimeout, via, now);
    }

    /// Whether this host is in InboundOk, and the last probe of the peer pays for another probe.
    pub(super) fn is_paid_for(&self) -> bool {
        let is_paid = self.exploration.as_ref().is_some_and(|one| one.paid < PAID);
        self.suspects() && self.state == State::InboundOk && is_paid
    }

    /// A Probe InboundOk came in. Nothing answers the Probe Operational that this host sends now.
    pub(super) fn await_confirmation(&mut self, now: Instant) {
        if self.suspects() {
            let at = now + self.config.probe_timeout(1);
            let exploration = self.explore();
            exploration.repetitions = REPETITIONS;
            exploration.deadlines.retransmission.get_or_insert(at);
        }
    }

    /// The peer has sent a message that only a host in Operational sends.
    pub(super) fn note_confirmation(&mut self) {
        if let Some(exploration) = &mut self.exploration {
            exploration.repetitions = 0;
        }
    }

    /// Payload of the peer does not say that the peer has heard the answer.
    fn repeat_answer(&mut self, now: Instant) {
        let gap = self.config.probe_timeout(1);
        let exploration = self.explore();
        exploration.deadlines.retransmission = None;
        if exploration.repetitions == 0 {
            return;
        }
        exploration.repetitions -= 1;
        if exploration.repetitions > 0 {
            exploration.deadlines.retransmission = Some(now + gap);
        }
        self.probe(None, now);
    }
}

/// Probes at the initial pace for each probe of the peer: 10, which take 5 s. All contexts share a budget of probes. Not
/// configurable.
const PAID: u8 = 10;
/// Repetitions of a Probe Operational: 3, at the Initial Probe Timeout. Not configurable.
const REPETITIONS: u8 = 3;
