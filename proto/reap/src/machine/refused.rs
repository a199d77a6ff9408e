//! Payload that comes in after the peer's kernel has refused payload of this host.

use moorline_types::Instant;

use super::Machine;

/// State after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// When payload last came in, as far as this machine knows.
    payload: Instant,
    /// Whether the machine waits for the next payload.
    is_awaited: bool,
}

impl Machine {
    /// The peer's kernel has refused payload of this context. Returns when payload of the peer came in after the
    /// previous refusal, and watches for the next payload.
    pub fn handle_refused(&mut self) -> Instant {
        let payload = self.refused().map_or(Instant::ZERO, |refused| refused.payload);
        self.change_extra(|extra| extra.refused = Some(Refused { payload, is_awaited: true }));
        self.refresh_watch();
        payload
    }

    /// Payload came in at `at`. This says nothing about the paths, unless something else has asked for the payload.
    pub(super) fn note_payload_after_refusal(&mut self, at: Instant) {
        if self.awaits_payload_after_refusal() {
            let refused = Refused { payload: at, is_awaited: false };
            self.change_extra(|extra| extra.refused = Some(refused));
        }
    }

    pub(super) fn awaits_payload_after_refusal(&self) -> bool {
        self.refused().is_some_and(|refused| refused.is_awaited)
    }

    fn refused(&self) -> Option<Refused> {
        self.extra.as_ref()?.refused
    }
}
