use core::time::Duration;

use crate::consts::{
    DEFAULT_SEND_TIMEOUT, I1_TIMEOUT, I2_TIMEOUT, I2BIS_TIMEOUT, ICMP_HOLDDOWN_TIME,
    NO_R1_HOLDDOWN_TIME, UPDATE_TIMEOUT,
};

/// Settings of a [`crate::Machine`]; the defaults are RFC 5533's constants.
#[derive(Clone, Debug)]
pub struct Config {
    /// Contexts in any state, at most; also the number of slots in the data plane.
    pub max_contexts: u32,
    /// Nominal I1 retransmission time.
    pub i1_timeout: Duration,
    /// Nominal I2 retransmission time.
    pub i2_timeout: Duration,
    /// Nominal I2bis retransmission time.
    pub i2bis_timeout: Duration,
    /// Nominal Update Request retransmission time.
    pub update_timeout: Duration,
    /// How long E-FAILED is remembered.
    pub no_r1_holddown: Duration,
    /// How long NO-SUPPORT is remembered.
    pub icmp_holddown: Duration,
    /// Our Send Timeout, told to peers in the Keepalive Timeout option.
    pub send_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_contexts: 65_536,
            i1_timeout: I1_TIMEOUT,
            i2_timeout: I2_TIMEOUT,
            i2bis_timeout: I2BIS_TIMEOUT,
            update_timeout: UPDATE_TIMEOUT,
            no_r1_holddown: NO_R1_HOLDDOWN_TIME,
            icmp_holddown: ICMP_HOLDDOWN_TIME,
            send_timeout: DEFAULT_SEND_TIMEOUT,
        }
    }
}
