use core::time::Duration;

use crate::consts::DEFAULT_SEND_TIMEOUT;

/// Settings of a [`crate::Machine`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Contexts in any state, at most; also the number of slots in the data plane.
    pub max_contexts: u32,
    /// Our Send Timeout, told to peers in the Keepalive Timeout option.
    pub send_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { max_contexts: 65_536, send_timeout: DEFAULT_SEND_TIMEOUT }
    }
}
