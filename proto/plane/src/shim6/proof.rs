//! Payload that shows nothing: anybody can send it with the ULIDs as addresses.
//!
//! Payload is proof of life if it came with the tag, or if its sender knows a TCP connection of this host. If payload of
//! this host goes out, and for a second the payload that stops the Send Timer is no proof, the plane reports
//! [`FailureHint::Unproven`], and the core asks the peer. The answer, like each message of the peer, is proof.

use core::time::Duration;

use moorline_datapath::shim6::{FailureHint, Report};
use moorline_types::Instant;

use crate::shim6::budget::{Budget, Rate};
use crate::shim6::live::Look;

/// Time since which no payload was proof, in units of 2^26 ns, modulo 2^16; `None`: proof came last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unproven(Option<u16>);

impl Unproven {
    /// The peer has shown itself.
    pub(crate) fn on_proof(&mut self) {
        self.0 = None;
    }

    /// Payload that may be anybody's has stopped the Send Timer. True if there was no proof for a second.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let now = stamp(now);
        now.wrapping_sub(*self.0.get_or_insert(now)) >= LONGEST
    }

    /// Tells the core, if the budget of these reports has room.
    pub(crate) fn report(&mut self, usual: Duration, budget: &mut Budget, look: &mut Look<'_>) {
        let (context, hint, since) = (look.entry.id, FailureHint::Unproven, look.now);
        if budget.take(REPORTS, look.now) {
            look.reports.push(Report::Suspected { context, hint, since, usual });
        }
        self.0 = Some(stamp(look.now));
    }
}

fn stamp(now: Instant) -> u16 {
    let [low, high, ..] = (now.as_nanos() >> UNPROVEN_SHIFT).to_le_bytes();
    u16::from_le_bytes([low, high]).max(1)
}

/// Unit of the time without proof: 2^26 ns, 67 ms.
const UNPROVEN_SHIFT: u32 = 26;
/// Units without proof after which the plane tells the core: 1.07 s. Not configurable.
const LONGEST: u16 = 16;
/// 1,000 reports a second, and 250 at once, as the core can send checks.
const REPORTS: Rate = Rate { interval: Duration::from_millis(1), burst: 250 };
