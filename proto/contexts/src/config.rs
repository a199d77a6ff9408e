use core::time::Duration;

use moorline_reap::Profile;
use moorline_types::{LocatorPair, UlidPair};

/// Settings of a [`crate::Contexts`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Context establishment. Its `send_timeout` is the Send Timeout of REAP too.
    pub shim6: moorline_shim6::Config,
    /// A context without payload for this long is forgotten, if its traffic takes the ULIDs.
    pub idle: Duration,
    /// Whether the caller answers [`Question`](crate::Question)s before a quiet context is forgotten.
    pub asks_before_removal: bool,
    /// What reachability detection does beyond RFC 5534.
    pub profile: Profile,
    /// [`PROBES_PER_SECOND`].
    pub probes_per_second: u32,
    /// [`PROBE_BURST`].
    pub probe_burst: u32,
    /// Whether data planes count congestion and report it.
    pub counts_congestion: bool,
    /// Whether flows without a path in their mark are spread over the paths of contexts that have some.
    pub spreads_flows: bool,
}

/// Quiet time after which a context is torn down (RFC 5533 s11 leaves it open).
pub const IDLE: Duration = Duration::from_secs(5 * 60);
/// The same for a context whose traffic has moved: forgetting it would cut connections that are
/// silent but alive. Two hours is TCP's default keepalive time, and then some. Not configurable.
pub const MOVED_IDLE: Duration = Duration::from_secs(2 * 3600 + 300);

/// Probes that the contexts of a host send of their own accord, in a second, besides those that answers
/// allow: two for each answer while some wait. At some 140 octets a probe this is 1.1 Mbit/s.
pub const PROBES_PER_SECOND: u32 = 1000;
/// The same at once: the first round trip of 10,000 contexts that lose one ISP. The answers let twice as
/// many go in the second, and so on: all have probed after six.
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
    /// For a context whose traffic takes this pair.
    pub(crate) fn idle_of(&self, ulids: UlidPair, current: LocatorPair) -> Duration {
        if current != ulids.as_locators() { MOVED_IDLE } else { self.idle }
    }
}
