use core::time::Duration;

use crate::profile::Profile;

/// Send Timeout: 15 s (RFC 5534 s7). Configurable; the RFC recommends 10 to 100 s.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// Keepalive Timeout of a peer that named none: 15 s (RFC 5534 s7).
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Keepalive Interval is the Keepalive Timeout divided by this; 2 or 3 (RFC 5534 s4.1). Configurable.
pub const KEEPALIVE_DIVISOR: u32 = 3;
/// Initial Probe Timeout: 0.5 s between the initial probes (RFC 5534 s7). A constant of the RFC,
/// configurable for experiments.
pub const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of Initial Probes: 4, sent before the backoff begins (RFC 5534 s7). As above.
//= rfc5534#7
pub const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout: 60 s, no interval between probes is longer (RFC 5534 s4.3). Configurable.
pub const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Least interval between probes whatever the configuration says: 10 ms. Not configurable.
pub const MIN_PROBE_TIMEOUT: Duration = Duration::from_millis(10);
/// A report of a probe sent longer ago than this proves nothing: 10 min, in which a slow exploration
/// gets round to a handful of pairs. Configurable.
pub const REPORT_LIFETIME: Duration = Duration::from_secs(600);
/// How long after the last transition the records of probes are kept: 30 s. Configurable.
pub const LINGER: Duration = Duration::from_secs(30);
/// Probes of the peer that are answered at once in any one second: 20. Configurable.
pub const ANSWERS_PER_SECOND: u32 = 20;
/// Reports of our own probes in a probe, the probe itself included: 2. Configurable, 1 to 15.
pub const SENT_REPORTS: usize = 2;
/// Reports of the peer's probes in a probe: 4. Configurable, 1 to 15.
pub const RECEIVED_REPORTS: usize = 4;
/// Most reports of one kind in a probe: Psent and Precvd have 4 bits (RFC 5534 s5.2).
pub const MAX_REPORTS: usize = 15;
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
    /// [`KEEPALIVE_DIVISOR`]; zero counts as one.
    pub keepalive_divisor: u32,
    /// [`INITIAL_PROBE_TIMEOUT`].
    pub initial_probe_timeout: Duration,
    /// [`INITIAL_PROBES`].
    pub initial_probes: u32,
    /// [`MAX_PROBE_TIMEOUT`].
    pub max_probe_timeout: Duration,
    /// [`REPORT_LIFETIME`].
    pub report_lifetime: Duration,
    /// [`LINGER`].
    pub linger: Duration,
    /// [`ANSWERS_PER_SECOND`].
    pub answers_per_second: u32,
    /// [`SENT_REPORTS`].
    pub sent_reports: usize,
    /// [`RECEIVED_REPORTS`].
    pub received_reports: usize,
    /// What is done beyond the RFC; here nothing, if not said otherwise.
    pub profile: Profile,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            send_timeout: SEND_TIMEOUT,
            keepalive_timeout: KEEPALIVE_TIMEOUT,
            keepalive_divisor: KEEPALIVE_DIVISOR,
            initial_probe_timeout: INITIAL_PROBE_TIMEOUT,
            initial_probes: INITIAL_PROBES,
            max_probe_timeout: MAX_PROBE_TIMEOUT,
            report_lifetime: REPORT_LIFETIME,
            linger: LINGER,
            answers_per_second: ANSWERS_PER_SECOND,
            sent_reports: SENT_REPORTS,
            received_reports: RECEIVED_REPORTS,
            profile: Profile::RFC,
        }
    }
}

impl Config {
    /// Time between keepalives for a Keepalive Timeout (RFC 5534 s7).
    //= rfc5534#4.1-2
    #[must_use]
    pub fn keepalive_interval(&self, keepalive_timeout: Duration) -> Duration {
        (keepalive_timeout / self.keepalive_divisor.max(1)).max(MIN_PROBE_TIMEOUT)
    }

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
        let doublings = probes.saturating_add(1).saturating_sub(self.initial_probes.max(1));
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let initial = self.initial_probe_timeout.max(MIN_PROBE_TIMEOUT);
        initial.saturating_mul(factor).min(self.max_probe_timeout.max(MIN_PROBE_TIMEOUT))
    }
}
