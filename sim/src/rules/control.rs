//! How many control packets a host may send.
//!
//! One for each that it gets: answers. Of its own accord as many as the timers of its contexts let go.
//! Both are allowances that are used up and grow back, so the bound holds over any span of time.

use std::collections::BTreeMap;
use std::time::Duration;

use moorline_types::Instant;

use crate::plan::Plan;

/// What a context may send of its own accord.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    per_second: f64,
    /// Packets of a context that may come together.
    at_once: f64,
}

impl Pace {
    /// From the timers of RFC 5533 and RFC 5534.
    pub(crate) fn of(plan: &Plan) -> Self {
        let shortest = plan.hosts.iter().map(|host| host.send_timeout).min();
        let send_timeout = shortest.unwrap_or(Duration::from_secs(15)).as_secs_f64();
        // Probes come every Initial Probe Timeout at most (RFC 5534 s4.3), and jitter cuts none of the
        // first; keepalives three times in the peer's Send Timeout (s4.1); a Send Timeout brings one
        // more; I1, I2 and Update Request wait for half of their 4 s at least (RFC 5533 s14). An Update Request
        // that stands for probes waits for half of theirs, and no probe leaves meanwhile.
        let per_second = 1.0 / INITIAL_PROBE_TIMEOUT + 4.0 / send_timeout + 1.0 / RETRANSMISSION;
        let is_adaptive = plan.hosts.iter().any(|host| !host.profile.is_rfc());
        let (checks, trial) = if is_adaptive { (CHECKS, TRIAL) } else { (0.0, 0.0) };
        Self { per_second: per_second + checks, at_once: AT_ONCE + trial }
    }
}

/// Of all hosts.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    pace: Pace,
    hosts: BTreeMap<usize, Allowance>,
}

#[derive(Debug, Default)]
struct Allowance {
    contexts: f64,
    /// Answers that are still owed.
    answers: u32,
    /// Packets sent beyond answers that have not grown back.
    used: f64,
    since: Instant,
}

impl Allowances {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, hosts: BTreeMap::new() }
    }

    /// A host may have one more context.
    pub(super) fn on_traffic(&mut self, host: usize) {
        self.of(host).contexts += 1.0;
    }

    /// Each context may tell its peer and try another pair.
    pub(super) fn on_local_change(&mut self, host: usize) {
        let allowance = self.of(host);
        allowance.used = (allowance.used - allowance.contexts * PER_CHANGE).max(0.0);
    }

    pub(super) fn on_received(&mut self, host: usize) {
        let allowance = self.of(host);
        allowance.answers = (allowance.answers + 1).min(MAX_ANSWERS);
    }

    /// By how many packets the host is below its bound, or above it.
    pub(super) fn on_sent(&mut self, host: usize, now: Instant) -> Result<f64, f64> {
        let Pace { per_second, at_once } = self.pace;
        let allowance = self.of(host);
        if let Some(left) = allowance.answers.checked_sub(1) {
            allowance.answers = left;
            return Ok(0.0);
        }
        let grown = now.since(allowance.since).as_secs_f64() * per_second * allowance.contexts;
        allowance.used = (allowance.used - grown).max(0.0) + 1.0;
        allowance.since = now;
        let above = allowance.used - allowance.contexts * at_once;
        if above > 0.0 { Err(above) } else { Ok(-above) }
    }

    fn of(&mut self, host: usize) -> &mut Allowance {
        self.hosts.entry(host).or_default()
    }
}

/// RFC 5534 s7, in seconds.
const INITIAL_PROBE_TIMEOUT: f64 = 0.5;
/// Half of RFC 5533's I1_TIMEOUT, I2_TIMEOUT and UPDATE_TIMEOUT, in seconds.
const RETRANSMISSION: f64 = 2.0;
/// Packets of a context that may come together: timers that run out at the same moment.
const AT_ONCE: f64 = 4.0;
/// Beyond RFC 5534, a second: a round of checks is up to 4 pairs, one of them thrice, every 10 s; trials of
/// up to 14 checks come 16 s apart in the long run.
const CHECKS: f64 = 1.5;
/// The same at once: two trials soon after another, and a round.
const TRIAL: f64 = 35.0;
/// An Update Request and a probe.
const PER_CHANGE: f64 = 2.0;
/// Answers that may be owed at a time: what comes in cannot be saved up for a flood later.
const MAX_ANSWERS: u32 = 8;
