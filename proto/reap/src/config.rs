use core::time::Duration;

use crate::profile::Profile;

/// Send Timeout: 15 s (RFC 5534 s7). Configurable; the RFC recommends 10 to 100 s.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// Keepalive Timeout of a peer that has named none: 15 s (RFC 5534 s7).
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Divisor that turns the Keepalive Timeout into the Keepalive Interval: 3; the RFC allows 2 or 3 (RFC 5534 s4.1). Not
/// configurable.
pub const KEEPALIVE_DIVISOR: u32 = 3;
/// Initial Probe Timeout: 0.5 s between the initial probes (RFC 5534 s7). A constant of the RFC,
/// configurable for experiments.
pub const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of Initial Probes: 4, sent before the backoff begins (RFC 5534 s7). Not configurable.
//= rfc5534#7
pub const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout: 60 s. No interval between probes is longer (RFC 5534 s4.3). Not configurable.
pub const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Least interval between probes, whatever the configuration says: 10 ms. Not configurable.
pub const MIN_PROBE_TIMEOUT: Duration = Duration::from_millis(10);
/// Age from which a report of a sent probe proves nothing: 10 min. In this time a slow exploration tries a handful of
/// pairs. Not configurable.
pub const REPORT_LIFETIME: Duration = Duration::from_secs(600);
/// Time for which the records of probes are kept after the last transition: 30 s. Not configurable.
pub const LINGER: Duration = Duration::from_secs(30);
/// Probes of the peer that the machine answers at once in a second: 20. Not configurable.
pub const ANSWERS_PER_SECOND: u32 = 20;
/// Reports of our own probes in a probe, including the probe itself: 2, at most 15 (RFC 5534 s5.2). Not configurable.
pub const SENT_REPORTS: usize = 2;
/// Reports of the peer's probes in a probe: 4, at most 15. Not configurable.
pub const RECEIVED_REPORTS: usize = 4;
/// Records kept of sent probes, and of received probes: 16 each. Not configurable.
pub const MAX_RECORDS: usize = 16;
/// Locators of one side that the machine explores: 32; it ignores further ones. Not configurable.
pub const MAX_LOCATORS: usize = 32;
/// Checks of a pair, or questions by it, before the machine counts the pair as silent: 3. If each direction loses one
/// packet in twenty, all three get lost once in a thousand times. Not configurable.
pub const TRIES: u8 = 3;
/// Keepalives without a probe between them that count in an exploration: 8. A Keepalive Timeout has fewer. Not
/// configurable.
pub const MAX_EXPLORING_KEEPALIVES: u32 = 8;
/// Messages, and events, that wait to be polled: 16. If the queue is full, the oldest goes. Not configurable.
pub const MAX_QUEUED: usize = 16;

/// Number of probes for which InboundOk has time, however short the Send Timeout is: 6. Not configurable.
const MAX_WALK: u32 = 6;

/// Settings of a [`Machine`](crate::Machine), which many machines share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Send Timeout, see [`SEND_TIMEOUT`]. The host must tell the peer any other value (RFC 5534 s5.3).
    pub send_timeout: Duration,
    /// Keepalive Timeout until the peer names its own, see [`KEEPALIVE_TIMEOUT`].
    pub keepalive_timeout: Duration,
    /// Initial Probe Timeout, see [`INITIAL_PROBE_TIMEOUT`].
    pub initial_probe_timeout: Duration,
    /// The parts beyond the RFC. The default of this struct has none of them.
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
    /// Time for which InboundOk waits for an answer to its probes: a Send Timeout (RFC 5534 s6.4), and at least the
    /// time of a walk through `pairs` pairs, up to 6 probes.
    ///
    /// With the values of the RFC the Send Timeout is longer. A shorter Send Timeout could end each walk before it
    /// comes to the one pair that works.
    #[must_use]
    pub fn inbound_ok_timeout(&self, pairs: usize) -> Duration {
        let probes = u32::try_from(pairs.saturating_add(1)).unwrap_or(u32::MAX).min(MAX_WALK);
        let walk: Duration = (1..=probes).map(|n| self.probe_timeout(n)).sum();
        self.send_timeout.max(walk)
    }

    /// Time from probe number `probes` to the next one, before jitter.
    #[must_use]
    pub fn probe_timeout(&self, probes: u32) -> Duration {
        let doublings = probes.saturating_add(1).saturating_sub(INITIAL_PROBES);
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let initial = self.initial_probe_timeout.max(MIN_PROBE_TIMEOUT);
        initial.saturating_mul(factor).min(MAX_PROBE_TIMEOUT)
    }
}

/// Time between keepalives for this Keepalive Timeout (RFC 5534 s7).
//= rfc5534#4.1-2
pub(crate) fn keepalive_interval(keepalive_timeout: Duration) -> Duration {
    (keepalive_timeout / KEEPALIVE_DIVISOR).max(MIN_PROBE_TIMEOUT)
}
