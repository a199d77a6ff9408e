use core::time::Duration;

use crate::consts::DEFAULT_SEND_TIMEOUT;

/// Settings of a [`crate::Machine`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit of contexts in any state, and number of slots in the data plane.
    pub max_contexts: u32,
    /// Our Send Timeout. The Keepalive Timeout option tells it to peers.
    pub send_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_contexts: 65_536, send_timeout: DEFAULT_SEND_TIMEOUT }
    }
}
