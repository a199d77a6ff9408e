use core::fmt;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

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
    /// The peer has reported a probe of ours.
    Answered {
        /// By this pair.
        pair: LocatorPair,
        /// This long after it left.
        after: Duration,
    },
    /// The pair of a switch did not answer, or is no candidate any more: payload stays where it is.
    Unanswered {
        /// The pair.
        pair: LocatorPair,
        /// Why it was to be current.
        cause: Cause,
    },
    /// Probes go out at Max Probe Timeout, once for each exploration: the context may be of no use
    /// any more (RFC 5534 s4.3).
    Unreachable {
        /// Probes sent in this exploration.
        probes: u32,
    },
    /// The data plane doubts that the current pair works, and it is put to the test.
    Suspected {
        /// Why.
        hint: FailureHint,
    },
    /// A suspicion was unfounded, or could not be settled: nothing moves.
    Cleared {
        /// What it was.
        hint: FailureHint,
        /// Since it came up.
        after: Duration,
    },
    /// The peer has answered a check of the standby pair: for other contexts with the same peer.
    Checked {
        /// The standby path.
        pair: LocatorPair,
        /// When the check left.
        at: Instant,
        /// How long the answer took.
        rtt: Duration,
    },
}

/// What makes the data plane suspect that the current pair does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureHint {
    /// TCP has sent the same octets again and nothing has come in since.
    Retransmission,
    /// A flow with traffic both ways hears nothing for several times its usual gap.
    Silence,
    /// An ICMPv6 error, which anybody on the way may have made up.
    Unreachable,
}

impl FailureHint {
    /// The name in logs and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retransmission => "retransmission",
            Self::Silence => "silence",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for FailureHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
    /// A suspicion was put to the test: the standby path answered and the current pair did not.
    Suspicion,
    /// The local address is deprecated, and the standby path has another one.
    Deprecated,
    /// The preferred pair has worked again for a while.
    FailBack,
    /// Someone on this host asked for the pair.
    Switch,
    /// A rule of this host prefers the pair.
    Preferred,
    /// The pair before was congested.
    Congested,
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
            Self::Suspicion => "suspicion",
            Self::Deprecated => "deprecated",
            Self::FailBack => "fail_back",
            Self::Switch => "switch",
            Self::Preferred => "preferred",
            Self::Congested => "congested",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
