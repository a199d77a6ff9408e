//! A pair that is to be current because somebody wants it, once it has answered.

use alloc::sync::Arc;
use core::fmt;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use crate::event::{Cause, Event};
use crate::message::Transmit;
use crate::state::State;

/// Probes that a put sends before it gives the pair up: 4, as at the beginning of an exploration.
/// Not configurable.
pub const PUT_PROBES: u8 = 4;

/// The pair of a put is none of local and peer locators of the context that can be used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCandidate;

impl fmt::Display for NotCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a pair of locators of this context")
    }
}

impl core::error::Error for NotCandidate {}

/// What is known of a put that has not come to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) pair: LocatorPair,
    cause: Cause,
    probes: u8,
    /// When the next probe is due, or the end.
    pub(super) next: Instant,
    /// A probe that says Exploring, in Operational.
    pub(super) transmit: Option<Transmit>,
}

impl Machine {
    /// Has `pair` become current as soon as it has answered a probe; it takes the place of another one
    /// for which that holds. True if payload goes there already, and nothing is left to do.
    ///
    /// [`Event::Moved`] or [`Event::Unanswered`] tells what came of it.
    ///
    /// # Errors
    /// The pair is no candidate.
    pub fn handle_put(
        &mut self,
        pair: LocatorPair,
        cause: Cause,
        now: Instant,
    ) -> Result<bool, NotCandidate> {
        if !self.is_candidate(pair) {
            return Err(NotCandidate);
        }
        self.give_up_put(now);
        if pair == self.current() && self.state == State::Operational {
            return Ok(true);
        }
        let put = Put { pair, cause, probes: 0, next: now, transmit: None };
        self.change_extra(|extra| extra.put = Some(put));
        self.on_put_timeout(now);
        Ok(false)
    }

    /// The pair that is being probed to become current.
    #[must_use]
    pub fn pending_put(&self) -> Option<LocatorPair> {
        self.put().map(|put| put.pair)
    }

    pub(super) fn put(&self) -> Option<&Put> {
        self.extra.as_ref()?.put.as_ref()
    }

    /// A pair becomes current: the cause, if somebody wanted it.
    pub(super) fn take_put(&mut self, to: LocatorPair) -> Option<Cause> {
        let cause = self.put().filter(|put| put.pair == to)?.cause;
        self.change_extra(|extra| extra.put = None);
        Some(cause)
    }

    pub(super) fn on_put_timeout(&mut self, now: Instant) {
        let Some(put) = self.put() else { return };
        let (pair, probes) = (put.pair, put.probes);
        if probes >= PUT_PROBES || !self.is_candidate(pair) {
            return self.give_up_put(now);
        }
        let config = Arc::clone(&self.config);
        let state = self.state;
        let (exploration, sets) = self.explore_with_sets();
        let transmit = match state {
            // Said of this pair: the peer is to answer by it.
            State::Operational => {
                Some(exploration.make_probe(&config, State::Exploring, pair, now))
            }
            State::Exploring | State::InboundOk => {
                exploration.prefer(sets, pair);
                exploration.probe_soon(&config, now);
                None
            }
        };
        self.change_extra(|extra| {
            if let Some(put) = &mut extra.put {
                put.transmit = transmit;
                put.probes += 1;
                put.next = now + config.probe_timeout(1);
            }
        });
        self.refresh_forget(now);
    }

    fn give_up_put(&mut self, now: Instant) {
        let Some(Put { pair, cause, .. }) = self.put().cloned() else { return };
        self.change_extra(|extra| extra.put = None);
        let is_asking = self.state != State::Operational;
        let exploration = self.explore();
        // An answer that comes later still moves nothing, unless an exploration has asked as well.
        if !is_asking {
            exploration.records.forget_sent_by(pair);
        }
        exploration.tell(Event::Unanswered { pair, cause });
        self.refresh_forget(now);
    }
}
