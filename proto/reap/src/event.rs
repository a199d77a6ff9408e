use core::time::Duration;
pub use moorline_datapath::shim6::FailureHint;
use moorline_types::{Instant, LocatorPair, named_enum};

use crate::State;

/// An event, for tests, the API and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state changed.
    StateChanged {
        /// State before the change.
        from: State,
        /// State after the change.
        to: State,
        /// Cause of the change.
        cause: Cause,
    },
    /// Another locator pair is current: the data plane sends there from now on.
    Moved {
        /// Current pair before the move.
        from: LocatorPair,
        /// Current pair after the move. The peer has reported a probe of ours by this pair, or the pair had answered
        /// before a failure. With [`Cause::Unanswered`] neither holds.
        to: LocatorPair,
        /// Cause of the move.
        cause: Cause,
    },
    /// The peer has reported a probe of ours.
    Answered {
        /// The pair of our probe.
        pair: LocatorPair,
        /// Round-trip time, if the report is the answer to a check. A later probe may carry any other report.
        rtt: Option<Duration>,
    },
    /// The pair of a switch did not answer, or is no candidate any more. Payload stays on its pair.
    Unanswered {
        /// The pair of the switch.
        pair: LocatorPair,
        /// Why the pair was wanted.
        cause: Cause,
    },
    /// The intervals between probes have reached Max Probe Timeout, once for each exploration. The context may be of no
    /// use any more (RFC 5534 s4.3).
    Unreachable {
        /// Probes sent in this exploration.
        probes: u32,
    },
    /// The data plane doubts that the current pair works, and a trial begins.
    Suspected {
        /// The failure hint.
        hint: FailureHint,
    },
    /// A trial ended without a move: the suspicion was unfounded, or the trial could not settle it.
    Cleared {
        /// The failure hint.
        hint: FailureHint,
        /// Time since the trial began.
        after: Duration,
    },
    /// The current pair is much worse than another one. The host may switch
    /// ([`Machine::handle_switch`](crate::Machine::handle_switch)).
    Worse {
        /// The current pair.
        pair: LocatorPair,
        /// The better pair.
        than: LocatorPair,
        /// [`Cause::Lossy`] or [`Cause::Slow`].
        cause: Cause,
    },
    /// The peer has answered a check of the standby path. Other contexts with the same peer can use the answer.
    Checked {
        /// The standby path.
        pair: LocatorPair,
        /// When the check left.
        at: Instant,
        /// How long the answer took.
        rtt: Duration,
    },
    /// The peer has answered no check of a round by the standby path.
    Missed {
        /// The standby path.
        pair: LocatorPair,
    },
    /// The peer has answered a check while [`Machine::send_one_check`](crate::Machine::send_one_check) waits for
    /// answers.
    Replied {
        /// The pair of the check.
        pair: LocatorPair,
        /// When the check left.
        at: Instant,
    },
}

named_enum! {
    /// Cause of a change of the state or the current pair.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Cause {
        /// Nothing came back for a Send Timeout.
        SendTimeout => "send_timeout",
        /// Payload came in.
        PayloadReceived => "payload_received",
        /// A Shim6 control message came in.
        ControlReceived => "control_received",
        /// A keepalive came in.
        KeepaliveReceived => "keepalive_received",
        /// The peer's probe said Exploring.
        ProbeExploring => "probe_exploring",
        /// The peer's probe said InboundOk.
        ProbeInboundOk => "probe_inbound_ok",
        /// The peer's probe said Operational.
        ProbeOperational => "probe_operational",
        /// An address of the current pair is no longer ours, or no longer the peer's.
        LocatorGone => "locator_gone",
        /// The peer says that its locator of the current pair is broken.
        LocatorBroken => "locator_broken",
        /// The host knows that the current pair does not work, by carrier, route or address state.
        LocalFailure => "local_failure",
        /// No pair answers, and payload takes the ULIDs, as without a context.
        Unanswered => "unanswered",
        /// In a trial the standby path answered and the current pair did not.
        Suspicion => "suspicion",
        /// The local address is deprecated, and the standby path has another local address.
        Deprecated => "deprecated",
        /// The preferred pair has worked again for a while.
        FailBack => "fail_back",
        /// A person on this host requested the pair.
        Switch => "switch",
        /// A rule of this host prefers the pair.
        Preferred => "preferred",
        /// The previous pair was congested.
        Congested => "congested",
        /// The previous pair lost many more packets than this pair.
        Lossy => "lossy",
        /// Round trips by the previous pair took many times as long.
        Slow => "slow",
    }
}

impl Cause {
    /// Whether this host has chosen the new pair. Otherwise the pair before has failed, as this host or a probe of the
    /// peer says.
    pub(crate) const fn is_choice(self) -> bool {
        match self {
            Self::SendTimeout
            | Self::PayloadReceived
            | Self::ControlReceived
            | Self::KeepaliveReceived
            | Self::ProbeExploring
            | Self::ProbeInboundOk
            | Self::ProbeOperational
            | Self::LocatorGone
            | Self::LocatorBroken
            | Self::LocalFailure
            | Self::Unanswered
            | Self::Suspicion => false,
            Self::Deprecated
            | Self::FailBack
            | Self::Switch
            | Self::Preferred
            | Self::Congested
            | Self::Lossy
            | Self::Slow => true,
        }
    }
}
