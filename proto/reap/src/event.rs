use core::fmt;
use moorline_types::LocatorPair;

use crate::State;

/// What happened, for tests, the API and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state changed.
    StateChanged {
        /// Before.
        from: State,
        /// After.
        to: State,
        /// Why.
        cause: Cause,
    },
    /// Another locator pair is current: the data plane is to send there from now on.
    Moved {
        /// Before.
        from: LocatorPair,
        /// After: the peer reported a probe of ours that went this way.
        to: LocatorPair,
        /// Why.
        cause: Cause,
    },
    /// Probes go out at Max Probe Timeout, once for each exploration: the context may be of no use
    /// any more (RFC 5534 s4.3).
    Unreachable {
        /// Probes sent in this exploration.
        probes: u32,
    },
}

/// Why a state or the current pair changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing came back for a Send Timeout.
    SendTimeout,
    /// Payload came in.
    PayloadReceived,
    /// A Shim6 control message came in.
    ControlReceived,
    /// A keepalive came in.
    KeepaliveReceived,
    /// The peer's probe said Exploring.
    ProbeExploring,
    /// The peer's probe said InboundOk.
    ProbeInboundOk,
    /// The peer's probe said Operational.
    ProbeOperational,
    /// An address of the current pair is none of ours, or none of the peer's, any more.
    LocatorGone,
    /// The peer says that its locator of the current pair is broken.
    LocatorBroken,
    /// The host knows that the current pair does not work: carrier, route, address state.
    LocalFailure,
}

impl Cause {
    /// The name in logs and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SendTimeout => "send_timeout",
            Self::PayloadReceived => "payload_received",
            Self::ControlReceived => "control_received",
            Self::KeepaliveReceived => "keepalive_received",
            Self::ProbeExploring => "probe_exploring",
            Self::ProbeInboundOk => "probe_inbound_ok",
            Self::ProbeOperational => "probe_operational",
            Self::LocatorGone => "locator_gone",
            Self::LocatorBroken => "locator_broken",
            Self::LocalFailure => "local_failure",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
