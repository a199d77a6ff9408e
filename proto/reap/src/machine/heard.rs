//! Probes and answers on paths that lose packets (decision 214).
//!
//! A host in InboundOk hears the peer, and its own probes or the peer's answers get lost. While the host hears the peer, its
//! probes keep the initial pace, and every second one takes the pair by which the peer's last probe came. The peer may
//! be in Operational. It then repeats its Probe Operational up to three times, until it hears this host.

use moorline_types::Instant;

use super::Machine;
use crate::event::Cause;
use crate::state::{Input, State};

impl Machine {
    /// The next probe is due (RFC 5534 s6.5), or the next repetition of a Probe Operational.
    pub(super) fn on_retransmission(&mut self, now: Instant) {
        if self.state == State::Operational {
            return self.repeat_answer(now);
        }
        if let Some(exploration) = &mut self.exploration
            && now.since(self.heard) > self.config.send_timeout
        {
            exploration.is_heard = false;
        }
        let by = self.exploration.as_ref().filter(|one| self.hears_peer() && !one.is_initial());
        let by = by.and_then(|one| one.records.last_heard_by());
        let via = by.and_then(|pair| self.answer_pair(pair));
        self.step(Input::Retransmission, Cause::SendTimeout, via, now);
    }

    /// Whether this host is in InboundOk, has heard the peer since its last probe, and may send another probe for that.
    pub(super) fn hears_peer(&self) -> bool {
        let is_due = self.exploration.as_ref().is_some_and(|exploration| {
            self.heard >= exploration.last_probe() && exploration.while_heard < WHILE_HEARD
        });
        self.suspects() && self.state == State::InboundOk && is_due
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

    /// The Send Timer runs until this host hears the peer.
    fn repeat_answer(&mut self, now: Instant) {
        let gap = self.config.probe_timeout(1);
        let exploration = self.explore();
        exploration.deadlines.retransmission = None;
        if exploration.deadlines.send.is_none() || exploration.repetitions == 0 {
            return;
        }
        exploration.repetitions -= 1;
        if exploration.repetitions > 0 {
            exploration.deadlines.retransmission = Some(now + gap);
        }
        self.probe(None, now);
    }
}

/// Probes at the initial pace while the peer is heard, for each probe of the peer: 10, which take 5 s. All contexts share
/// a budget of probes, and payload can be anybody's. Not configurable.
const WHILE_HEARD: u8 = 10;
/// Repetitions of a Probe Operational: 3, at the Initial Probe Timeout. Not configurable.
const REPETITIONS: u8 = 3;
