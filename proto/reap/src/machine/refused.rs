//! Payload that comes in after the kernel of the peer has refused payload of this host.

use moorline_types::Instant;

use super::Machine;

/// Payload of the peer after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// When payload came in last, as far as this machine knows.
    payload: Instant,
    /// Whether the next payload is of interest.
    is_awaited: bool,
}

impl Machine {
    /// The kernel of the peer has refused payload of this context. Says when payload of the peer came in after the refusal before, and
    /// watches for the next.
    pub fn handle_refused(&mut self) -> Instant {
        let payload = self.refused().map_or(Instant::ZERO, |refused| refused.payload);
        self.change_extra(|extra| extra.refused = Some(Refused { payload, is_awaited: true }));
        self.refresh_watch();
        payload
    }

    /// Payload came in at `at`. It says nothing of the paths if nothing else has asked for it.
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
