//! Outputs of the machine: messages, events, deadlines, and its state as others see it.

use core::time::Duration;
use moorline_types::{Instant, Locator, LocatorPair};

use super::Machine;
use crate::config::keepalive_interval;
use crate::event::Event;
use crate::exploration::PROBE_FOR_PAYLOAD;
use crate::message::{Message, Transmit};
use crate::state::State;
use crate::timers::{Timer, Timers};

impl Machine {
    /// Gives the next message to send. `None` holds until the next input.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(answer) = self.pop_answer() {
            return Some(answer);
        }
        let switch = self.extra.as_mut().and_then(|extra| extra.switch.as_mut()?.transmit.take());
        if switch.is_some() {
            return switch;
        }
        let probe = self.exploration.as_mut().and_then(|e| e.transmits.pop_front());
        if probe.is_some() {
            return probe;
        }
        if core::mem::take(&mut self.is_keepalive_due) {
            return Some(Transmit { pair: self.current(), message: Message::Keepalive });
        }
        self.pop_check()
    }

    /// Nonce of the last probe in the queue, which waits for room.
    #[must_use]
    pub fn last_waiting(&self) -> Option<u32> {
        self.exploration.as_ref()?.transmits.back()?.nonce()
    }

    /// Gives the next message that a message of the peer has drawn, and that so needs no room: an answer, a probe behind
    /// the one that was the [last](Self::last_waiting) before, or a keepalive.
    #[must_use]
    pub fn poll_drawn(&mut self, waiting: Option<u32>) -> Option<Transmit> {
        let answer = self.pop_answer();
        if answer.is_some() {
            return answer;
        }
        let state = self.state;
        let drawn = self.exploration.as_mut().and_then(|one| one.pop_drawn(waiting, state));
        if drawn.is_some() || !core::mem::take(&mut self.is_keepalive_due) {
            return drawn;
        }
        Some(Transmit { pair: self.current(), message: Message::Keepalive })
    }

    /// The probe that has waited for room leaves now. The next one of the switch or of the exploration leaves the initial
    /// interval later at the earliest.
    pub fn handle_room(&mut self, now: Instant) {
        let least = now + self.config.probe_timeout(1);
        let waiting = self.extra.as_mut().and_then(|extra| extra.switch.as_mut());
        if let Some(switch) = waiting.filter(|switch| switch.transmit.is_some()) {
            switch.next = switch.next.max(least);
        } else if let Some(exploration) = &mut self.exploration {
            exploration.keep_interval(&self.config, now);
        }
    }

    /// Whether the next message is a probe. A probe that still waits when its exploration is over is not sent.
    #[must_use]
    pub fn has_probe(&mut self) -> bool {
        let state = self.state;
        if self.has_answer() {
            return false;
        }
        let has_switch = self.switch().is_some_and(|switch| switch.transmit.is_some());
        has_switch
            || self.exploration.as_mut().is_some_and(|exploration| exploration.has_probe(state))
    }

    /// Whether the next message is a check. If the host has no room for the check, it calls
    /// [`handle_checks_refused`](Self::handle_checks_refused).
    #[must_use]
    pub fn has_check(&mut self) -> bool {
        !self.has_answer() && !self.has_probe() && !self.is_keepalive_due && self.has_check_queued()
    }

    /// Gives the next event. `None` holds until the next input.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.pop_event();
        event.or_else(|| self.exploration.as_mut()?.events.pop_front())
    }

    /// Gives the latest time to call [`handle_timeout`](Self::handle_timeout). Each input can change this time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let exploration = self.exploration.as_ref().and_then(|e| e.deadlines.next());
        let monitor = self.monitor.as_ref().and_then(|monitor| monitor.next_timeout());
        let switch = self.switch().map(|switch| (switch.next, Timer::Switch));
        let paths = self.parallel().map(|parallel| (parallel.next, Timer::Paths));
        [exploration, monitor, switch, paths].into_iter().flatten().min_by_key(|&(at, _)| at)
    }

    /// The state of this context.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether the peer is silent and several probes have found no pair that works.
    #[must_use]
    pub fn explores_in_vain(&self) -> bool {
        let is_in_vain =
            self.exploration.as_ref().is_some_and(|one| one.is_in_vain() && !one.is_heard);
        self.state == State::Exploring && is_in_vain
    }

    /// The pair that payload takes. In an exploration the pair stays until another pair is proven.
    #[must_use]
    pub fn current_pair(&self) -> LocatorPair {
        self.current()
    }

    /// Whether the peer was at this locator when it was last heard: the locator is in the current pair. While payload
    /// takes a standby path that has not answered yet, the locator may also be in the pair that the exploration began
    /// with.
    #[must_use]
    pub fn was_peer_at(&self, locator: Locator) -> bool {
        let left = self.exploration.as_ref().and_then(|exploration| exploration.left);
        let left = left.filter(|_| self.state != State::Operational);
        self.current().peer == locator || left.is_some_and(|left| left.peer == locator)
    }

    /// The timers that the data plane runs. The Send Timer is the Send Timeout less the time for the last trial of the
    /// current pair (decision 059). In Exploring RFC 5534 s6 has no timer for payload, and a machine that follows the
    /// RFC alone gives `None`. Otherwise the Send Timer of Exploring tells the machine that payload still leaves
    /// (decision 180).
    #[must_use]
    pub fn timers(&self) -> Option<Timers> {
        let (send, keepalive_timeout) = match self.state {
            State::Operational => {
                (self.send_period(self.state) - self.send_lead(), self.keepalive_timeout())
            }
            State::Exploring if self.suspects() => (PROBE_FOR_PAYLOAD, Duration::ZERO),
            State::Exploring => return None,
            State::InboundOk => (self.send_period(self.state), Duration::ZERO),
        };
        Some(Timers {
            send,
            keepalive_interval: keepalive_interval(self.keepalive_timeout()),
            keepalive_timeout,
        })
    }

    /// Nonzero: the data plane reports the next payload that comes in by [`handle_payload`](Self::handle_payload), once
    /// for each value.
    #[must_use]
    pub const fn watch(&self) -> u32 {
        if self.is_watching { self.watch } else { 0 }
    }

    /// When the core last heard the peer. Payload that was not watched does not count.
    #[must_use]
    pub const fn heard(&self) -> Instant {
        self.heard
    }
}
