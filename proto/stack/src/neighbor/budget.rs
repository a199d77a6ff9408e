use core::time::Duration;

use moorline_types::Instant;

/// Multicast solicitations that a wire may send for neighbors whose link-layer addresses are unknown: [`SOLICIT_RATE`] in a
/// second, and up to [`SOLICIT_BURST`] at once.
///
/// The budget is the time at which all of it is back.
#[derive(Debug)]
pub(super) struct Budget(Instant);

impl Budget {
    pub(super) const fn new() -> Self {
        Self(Instant::ZERO)
    }

    /// Takes a solicitation out of the budget. Returns whether the budget had one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let taken = self.0.since(now);
        let has_room = taken + INTERVAL <= INTERVAL * SOLICIT_BURST;
        if has_room {
            self.0 = now + taken + INTERVAL;
        }
        has_room
    }
}

/// Multicast solicitations of a wire in a second, for neighbors without link-layer addresses. A program that scans a link, or
/// a stranger who makes the host answer many made-up neighbors, cannot flood the link (RFC 6583 s7.1). Not configurable.
pub const SOLICIT_RATE: u32 = 1_000;
/// Multicast solicitations of a wire at once, after a pause. Not configurable.
pub const SOLICIT_BURST: u32 = 500;
const INTERVAL: Duration = Duration::from_millis(1);
