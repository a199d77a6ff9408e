use alloc::collections::VecDeque;

use moorline_types::{ContextId, Instant};

use crate::consts::{I1_RETRIES_MAX, UPDATE_BURST, UPDATE_INTERVAL};
use crate::context::{Context, I1Sent, State};
use crate::machine::Machine;

/// Handshakes that began at a locator which has gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resumption {
    /// Contexts that wait for their turn.
    waiting: VecDeque<ContextId>,
    /// When the next turn is.
    next: Instant,
}

impl Resumption {
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.next)
    }
}

/// A handshake goes on from a locator that is there: a validator is good for the pair that it was made for and no other.
impl Machine {
    /// Locators have come: the first [`UPDATE_BURST`] handshakes go on at once, the others in turn.
    pub(crate) fn resume_handshakes(&mut self, now: Instant) {
        let waiting = self.table.iter().filter(|context| self.is_to_resume(context));
        let waiting = waiting.map(|context| context.id).collect();
        self.resumption = Resumption { waiting, next: now + UPDATE_INTERVAL };
        for _ in 0..UPDATE_BURST {
            self.resume_next(now);
        }
    }

    pub(crate) fn on_resumption_due(&mut self, now: Instant) {
        if self.resumption.next_turn().is_some_and(|at| at <= now) {
            self.resumption.next = now + UPDATE_INTERVAL;
            self.resume_next(now);
        }
    }

    fn resume_next(&mut self, now: Instant) {
        let id = self.resumption.waiting.pop_front();
        let context = id.and_then(|id| self.table.get(id));
        let Some(context) = context.filter(|context| self.is_to_resume(context)) else { return };
        let id = context.id;
        match &context.state {
            // With the deadline that it has: a locator that comes and goes makes no handshake last longer.
            State::I1Sent(state) => self.send_i1_until(id, I1Sent::clone(state)),
            State::I2Sent(state) => {
                let via = (state.via, state.crossing);
                self.send_i1(id, via, state.is_retold, state.i1_retries + 1, now);
            }
            // The peer says once more that it has lost the context, when it hears from us.
            State::I2bisSent(state) => {
                let established = state.established.clone();
                self.table.set_state(id, State::Established(established));
                self.update_if_outdated(id, now);
            }
            State::Established(_) => {}
        }
    }

    /// Whether the locator has gone where R1 or R2 would come, and there is another to go on from. A handshake
    /// without an I1 to spare ends with its last I2.
    fn is_to_resume(&self, context: &Context) -> bool {
        let is_gone = context.awaits().is_some_and(|(_, via)| !self.usable.contains(&via.local));
        let has_other = || self.usable.contains(&self.first_pair(context.key.ulids).local);
        is_gone
            && match &context.state {
                State::I1Sent(_) => has_other(),
                State::I2Sent(state) => state.i1_retries < I1_RETRIES_MAX && has_other(),
                State::I2bisSent(_) => true,
                State::Established(_) => false,
            }
    }
}
