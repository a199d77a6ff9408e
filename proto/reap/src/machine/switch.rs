//! Switch: a pair becomes current on request, once the pair has answered.

use alloc::sync::Arc;
use moorline_types::{DropReason, Instant, LocatorPair};

use super::{LEFT_AS_WORSE, Machine};
use crate::event::{Cause, Event};
use crate::message::{Message, Report, Transmit};
use crate::state::State;

/// Probes that a switch sends before it gives the pair up: 4, as at the beginning of an exploration.
/// Not configurable.
pub const SWITCH_PROBES: u8 = 4;

/// A switch in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    pub(super) pair: LocatorPair,
    cause: Cause,
    probes: u8,
    pub(super) began: Instant,
    /// When the next probe or the end of the switch is due.
    pub(super) next: Instant,
    /// A probe that says Exploring while this host is in Operational.
    pub(super) transmit: Option<Transmit>,
}

impl Machine {
    /// Makes `pair` current as soon as the pair has answered a probe. A new switch replaces an earlier one. Returns
    /// true if payload already takes `pair`.
    ///
    /// [`Event::Moved`] or [`Event::Unanswered`] tells the result.
    ///
    /// # Errors
    /// [`WrongLocators`](DropReason::WrongLocators): the pair does not consist of a local and a peer locator of the
    /// context that can be used together.
    pub fn handle_switch(
        &mut self,
        pair: LocatorPair,
        cause: Cause,
        now: Instant,
    ) -> Result<bool, DropReason> {
        if !self.is_candidate(pair) {
            return Err(DropReason::WrongLocators);
        }
        self.give_up_switch(now);
        if pair == self.current() && self.state == State::Operational {
            return Ok(true);
        }
        let switch = Switch { pair, cause, probes: 0, began: now, next: now, transmit: None };
        self.change_extra(|extra| extra.switch = Some(switch));
        self.on_switch_timeout(now);
        Ok(false)
    }

    /// The pair that the machine probes to make it current.
    #[must_use]
    pub fn pending_switch(&self) -> Option<LocatorPair> {
        self.switch().map(|switch| switch.pair)
    }

    pub(super) fn switch(&self) -> Option<&Switch> {
        self.extra.as_ref()?.switch.as_ref()
    }

    /// A pair has become current. Ends the switch to this pair and returns its cause.
    pub(super) fn take_switch(&mut self, to: LocatorPair) -> Option<Cause> {
        let cause = self.switch().filter(|switch| switch.pair == to)?.cause;
        self.change_extra(|extra| extra.switch = None);
        Some(cause)
    }

    pub(super) fn on_switch_timeout(&mut self, now: Instant) {
        let Some(switch) = self.switch() else { return };
        let (pair, cause, probes) = (switch.pair, switch.cause, switch.probes);
        let is_waiting = switch.transmit.is_some();
        if is_waiting || self.state != State::Operational && self.has_probe() {
            // The last probe, or that of the exploration, still waits for room.
            let next = now + self.config.probe_timeout(1);
            return self.change_extra(|extra| {
                extra.switch.iter_mut().for_each(|switch| switch.next = next);
            });
        }
        if probes >= SWITCH_PROBES || !self.is_candidate(pair) {
            return self.give_up_switch(now);
        }
        let config = Arc::clone(&self.config);
        let (state, current, voucher) = (self.state, self.current(), self.voucher());
        let (exploration, sets) = self.explore_with_sets();
        let transmit = match state {
            // The Sta field describes this pair only, and makes the peer answer by this pair.
            State::Operational => {
                exploration.voucher = voucher;
                let transmit = exploration.make_probe(State::Exploring, pair, now);
                Some(told_why(transmit, current, cause))
            }
            State::Exploring | State::InboundOk => {
                exploration.prefer(sets, pair);
                exploration.probe_soon(&config, now);
                None
            }
        };
        self.change_extra(|extra| {
            if let Some(switch) = &mut extra.switch {
                switch.transmit = transmit;
                switch.probes += 1;
                switch.next = now + config.probe_timeout(1);
            }
        });
        self.refresh_forget(now);
    }

    fn give_up_switch(&mut self, now: Instant) {
        let Some(Switch { pair, cause, .. }) = self.switch().cloned() else { return };
        self.change_extra(|extra| extra.switch = None);
        let is_asking = self.state != State::Operational;
        let exploration = self.explore();
        // A later answer moves nothing, unless an exploration has asked as well.
        if !is_asking {
            exploration.records.forget_sent_by(pair);
        }
        exploration.tell(Event::Unanswered { pair, cause });
        self.refresh_forget(now);
    }
}

/// Marks a probe of a switch: its Probe Data says that this host leaves the pair `left` as worse, and the probe names
/// that pair.
fn told_why(mut transmit: Transmit, left: LocatorPair, cause: Cause) -> Transmit {
    if let Message::Probe(probe) = &mut transmit.message
        && matches!(cause, Cause::Lossy | Cause::Slow)
        && let Some(own) = probe.sent.first_mut()
    {
        own.data = LEFT_AS_WORSE;
        let named = Report { src: left.local, dst: left.peer, ..*own };
        probe.sent.insert(1, named);
    }
    transmit
}
