//! Bounds on the control packets that a host sends.
//!
//! A host may send one answer for each packet that it gets. Besides, it may send as many packets as the timers of its
//! contexts allow. Both are allowances that are used up and grow back, so the bound holds over any time.

use std::collections::BTreeMap;
use std::time::Duration;

use moorline_types::Instant;

use crate::plan::Plan;

/// Packets that a context may send besides answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    per_second: f64,
    /// Number of packets of a context that may come together.
    at_once: f64,
    /// Questions of a host about its uplinks (decision 159): those that may come together, and those a second.
    questions: (f64, f64),
}

impl Pace {
    /// The pace by the timers of RFC 5533 and RFC 5534.
    pub(crate) fn of(plan: &Plan) -> Self {
        let shortest = plan.hosts.iter().map(|host| host.send_timeout).min();
        let send_timeout = shortest.unwrap_or(Duration::from_secs(15)).as_secs_f64();
        // Probes come every Initial Probe Timeout at most (RFC 5534 s4.3), and jitter does not shorten the first
        // ones. Keepalives come three times in the peer's Send Timeout (s4.1). A Send Timeout brings one more packet.
        // I1, I2 and Update Request wait for half of their 4 s at least (RFC 5533 s14). An Update Request in place of
        // probes waits for half of their interval, and no probe leaves meanwhile.
        let per_second = 1.0 / INITIAL_PROBE_TIMEOUT + 4.0 / send_timeout + 1.0 / RETRANSMISSION;
        let is_adaptive = plan.hosts.iter().any(|host| !host.profile.checks_nothing());
        let (checks, trial) = if is_adaptive { (CHECKS, TRIAL) } else { (0.0, 0.0) };
        let questions = if is_adaptive { QUESTIONS } else { (0.0, 0.0) };
        Self { per_second: per_second + checks, at_once: AT_ONCE + trial, questions }
    }
}

/// Allowances of all hosts.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    pace: Pace,
    hosts: BTreeMap<usize, Allowance>,
}

#[derive(Debug, Default)]
struct Allowance {
    contexts: f64,
    /// Number of answers that are still owed.
    answers: u32,
    /// Number of packets beyond answers that have not grown back.
    used: f64,
    since: Instant,
}

impl Allowances {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, hosts: BTreeMap::new() }
    }

    /// Adds the allowance of one more context to a host.
    pub(super) fn on_traffic(&mut self, host: usize) {
        self.of(host).contexts += 1.0;
    }

    /// Lets each context of a host tell its peer, and try another pair.
    pub(super) fn on_local_change(&mut self, host: usize) {
        let allowance = self.of(host);
        allowance.used = (allowance.used - allowance.contexts * PER_CHANGE).max(0.0);
    }

    pub(super) fn on_received(&mut self, host: usize) {
        let allowance = self.of(host);
        allowance.answers = (allowance.answers + 1).min(MAX_ANSWERS);
    }

    /// Takes a packet from the allowance of a host. Returns the number of packets below the bound, or above it as an
    /// error.
    pub(super) fn on_sent(&mut self, host: usize, now: Instant) -> Result<f64, f64> {
        let Pace { per_second, at_once, questions: (asked_at_once, asked) } = self.pace;
        let allowance = self.of(host);
        if let Some(left) = allowance.answers.checked_sub(1) {
            allowance.answers = left;
            return Ok(0.0);
        }
        let pace = per_second * allowance.contexts + asked;
        let grown = now.since(allowance.since).as_secs_f64() * pace;
        allowance.used = (allowance.used - grown).max(0.0) + 1.0;
        allowance.since = now;
        let above = allowance.used - allowance.contexts * at_once - asked_at_once;
        if above > 0.0 { Err(above) } else { Ok(-above) }
    }

    fn of(&mut self, host: usize) -> &mut Allowance {
        self.hosts.entry(host).or_default()
    }
}

/// Initial Probe Timeout in seconds (RFC 5534 s7).
const INITIAL_PROBE_TIMEOUT: f64 = 0.5;
/// Half of I1_TIMEOUT, I2_TIMEOUT and UPDATE_TIMEOUT of RFC 5533, in seconds.
const RETRANSMISSION: f64 = 2.0;
/// Number of packets of a context that may come together: timers that run out at the same moment.
const AT_ONCE: f64 = 4.0;
/// Checks a second beyond RFC 5534. A round has up to 4 pairs, one of them three times, every 10 s. Trials of up to
/// 14 checks come 16 s apart in the long run. While payload may be anybody's, one check a second asks for proof.
const CHECKS: f64 = 2.5;
/// Checks that may come together: two trials shortly after each other, and a round.
const TRIAL: f64 = 35.0;
/// A doubt has 64 questions, and a doubt about the same uplink comes 10 s later. While an uplink fails, the host asks four
/// times a second by two uplinks.
const QUESTIONS: (f64, f64) = (64.0, 8.0);
/// Packets for a change: an Update Request and a probe.
const PER_CHANGE: f64 = 2.0;
/// Largest number of answers owed at a time, so that received packets cannot be saved up for a later flood.
const MAX_ANSWERS: u32 = 8;
