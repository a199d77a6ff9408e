use core::time::Duration;

use crate::profile::Profile;

/// Send Timeout: 15 s (RFC 5534 s7). Configurable; the RFC recommends 10 to 100 s.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// Keepalive Timeout of a peer that named none: 15 s (RFC 5534 s7).
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Keepalive Interval is the Keepalive Timeout divided by this; 2 or 3 (RFC 5534 s4.1). Not configurable.
pub const KEEPALIVE_DIVISOR: u32 = 3;
/// Initial Probe Timeout: 0.5 s between the initial probes (RFC 5534 s7). A constant of the RFC,
/// configurable for experiments.
pub const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of Initial Probes: 4, sent before the backoff begins (RFC 5534 s7). Not configurable.
//= rfc5534#7
pub const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout: 60 s, no interval between probes is longer (RFC 5534 s4.3). Not configurable.
pub const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Least interval between probes whatever the configuration says: 10 ms. Not configurable.
pub const MIN_PROBE_TIMEOUT: Duration = Duration::from_millis(10);
/// A report of a probe sent longer ago than this proves nothing: 10 min, in which a slow exploration
/// gets round to a handful of pairs. Not configurable.
pub const REPORT_LIFETIME: Duration = Duration::from_secs(600);
/// How long after the last transition the records of probes are kept: 30 s. Not configurable.
pub const LINGER: Duration = Duration::from_secs(30);
/// Probes of the peer that are answered at once in any one second: 20. Not configurable.
pub const ANSWERS_PER_SECOND: u32 = 20;
/// Reports of our own probes in a probe, the probe itself included: 2, at most 15 (RFC 5534 s5.2). Not configurable.
pub const SENT_REPORTS: usize = 2;
/// Reports of the peer's probes in a probe: 4, at most 15. Not configurable.
pub const RECEIVED_REPORTS: usize = 4;
/// Records of sent probes that are kept, and of received ones: 16 each. Not configurable.
pub const MAX_RECORDS: usize = 16;
/// Locators of one side that are explored; further ones are left out (design: 32). Not configurable.
pub const MAX_LOCATORS: usize = 32;
/// Keepalives without a probe among them that count in an exploration: 8, more than come in a Keepalive
/// Timeout. Not configurable.
pub const MAX_EXPLORING_KEEPALIVES: u32 = 8;
/// Messages, and events, that wait to be polled; the oldest goes. Not configurable.
pub const MAX_QUEUED: usize = 16;

/// Probes that InboundOk is given time for, however short the Send Timeout: 6. Not configurable.
const MAX_WALK: u32 = 6;

/// Settings of a [`Machine`](crate::Machine), shared by many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// [`SEND_TIMEOUT`]. The peer must be told of any other value (RFC 5534 s5.3).
    pub send_timeout: Duration,
    /// [`KEEPALIVE_TIMEOUT`] until the peer names its own.
    pub keepalive_timeout: Duration,
    /// [`INITIAL_PROBE_TIMEOUT`].
    pub initial_probe_timeout: Duration,
    /// What is done beyond the RFC; here nothing, if not said otherwise.
    pub profile: Profile,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            send_timeout: SEND_TIMEOUT,
            keepalive_timeout: KEEPALIVE_TIMEOUT,
            initial_probe_timeout: INITIAL_PROBE_TIMEOUT,
            profile: Profile::RFC,
        }
    }
}

impl Config {
    /// How long InboundOk waits for an answer to its probes: a Send Timeout (RFC 5534 s6.4), but long
    /// enough to get round to each of `pairs`.
    ///
    /// With the RFC's values the first is the longer; only a shorter Send Timeout could end the walk
    /// again and again before it comes to the one pair that works.
    #[must_use]
    pub fn inbound_ok_timeout(&self, pairs: usize) -> Duration {
        let probes = u32::try_from(pairs.saturating_add(1)).unwrap_or(u32::MAX).min(MAX_WALK);
        let walk: Duration = (1..=probes).map(|n| self.probe_timeout(n)).sum();
        self.send_timeout.max(walk)
    }

    /// Time to the next probe after `probes` of them, before jitter.
    #[must_use]
    pub fn probe_timeout(&self, probes: u32) -> Duration {
        let doublings = probes.saturating_add(1).saturating_sub(INITIAL_PROBES);
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let initial = self.initial_probe_timeout.max(MIN_PROBE_TIMEOUT);
        initial.saturating_mul(factor).min(MAX_PROBE_TIMEOUT)
    }
}

/// Time between keepalives for a Keepalive Timeout (RFC 5534 s7).
//= rfc5534#4.1-2
pub(crate) fn keepalive_interval(keepalive_timeout: Duration) -> Duration {
    (keepalive_timeout / KEEPALIVE_DIVISOR).max(MIN_PROBE_TIMEOUT)
}
