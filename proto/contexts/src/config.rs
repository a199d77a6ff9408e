use core::time::Duration;

use moorline_reap::Profile;
use moorline_types::{LocatorPair, UlidPair};

/// Settings of a [`crate::Contexts`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of context establishment. `send_timeout` is the Send Timeout of REAP, too.
    pub shim6: moorline_shim6::Config,
    /// Time without payload after which a context is removed, if its traffic takes the ULIDs.
    pub idle: Duration,
    /// Whether the caller answers a [`Question`](crate::Question) before a quiet context is removed.
    pub asks_before_removal: bool,
    /// Extent of reachability detection beyond RFC 5534.
    pub profile: Profile,
    /// Rate of probes, see [`PROBES_PER_SECOND`].
    pub probes_per_second: u32,
    /// Burst of probes, see [`PROBE_BURST`].
    pub probe_burst: u32,
    /// Whether data planes count and report congestion.
    pub counts_congestion: bool,
    /// Whether flows without a path in their mark are spread over the paths of contexts with several paths.
    pub spreads_flows: bool,
}

/// Quiet time after which a context is torn down (RFC 5533 s11 leaves it open).
pub const IDLE: Duration = Duration::from_secs(5 * 60);
/// Quiet time after which a context whose traffic has moved is torn down. An earlier end would cut connections that are
/// silent but alive. The value is TCP's default keepalive time of two hours, plus 5 min. Not configurable.
pub const MOVED_IDLE: Duration = Duration::from_secs(2 * 3600 + 300);

/// Probes without a request that the contexts of a host send in a second. While contexts wait, each answer allows two
/// more. At some 140 octets a probe this is 1.1 Mbit/s.
pub const PROBES_PER_SECOND: u32 = 1000;
/// Probes without a request that leave at once, for example in the first round trip of 10,000 contexts that lose one
/// ISP. The answers allow twice as many in the second round trip, and so on. After six round trips all contexts have
/// probed.
pub const PROBE_BURST: u32 = 250;

impl Default for Config {
    fn default() -> Self {
        Self {
            shim6: moorline_shim6::Config::default(),
            idle: IDLE,
            asks_before_removal: false,
            profile: Profile::RFC,
            probes_per_second: PROBES_PER_SECOND,
            probe_burst: PROBE_BURST,
            counts_congestion: false,
            spreads_flows: true,
        }
    }
}

impl Config {
    /// Quiet time of a context whose traffic takes the pair `current`.
    pub(crate) fn idle_of(&self, ulids: UlidPair, current: LocatorPair) -> Duration {
        if current != ulids.as_locators() { MOVED_IDLE } else { self.idle }
    }
}
