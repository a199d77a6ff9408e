use alloc::collections::VecDeque;

use moorline_types::{ContextId, Instant};

use crate::consts::{I1_RETRIES_MAX, UPDATE_BURST, UPDATE_INTERVAL};
use crate::context::{Context, Handshake};
use crate::machine::Machine;

/// Handshakes that began at a locator that has gone.
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

/// Continues handshakes from a locator that this host still has. A validator is valid only for the pair that it was
/// made for.
impl Machine {
    /// Locators have come. The first [`UPDATE_BURST`] handshakes continue at once, the others in turn.
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
        let Some(mut asked) = context.handshake().cloned() else { return };
        if let Some(established) = asked.established.take() {
            // When the peer hears from this host, it says once more that it has lost the context.
            self.table.establish(id, established);
            self.update_if_outdated(id, now);
        } else if asked.echo.is_some() {
            self.send_i1(id, Handshake { i1_retries: asked.i1_retries + 1, ..asked }, now);
        } else {
            // The deadline stays, so a locator that comes and goes makes no handshake last longer.
            self.send_i1_until(id, asked);
        }
    }

    /// Whether the locator has gone at which R1 or R2 would arrive, and the handshake can continue from another one. A
    /// handshake without a retry of I1 left ends with its last I2.
    fn is_to_resume(&self, context: &Context) -> bool {
        let Some(asked) = context.handshake() else { return false };
        let has_other = || self.usable.contains(&self.first_pair(context.key.ulids).local);
        let has_spare = asked.echo.is_none() || asked.i1_retries < I1_RETRIES_MAX;
        let is_gone = !self.usable.contains(&asked.via.local);
        is_gone && (asked.established.is_some() || has_spare && has_other())
    }
}
