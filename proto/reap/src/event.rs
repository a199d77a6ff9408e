use core::time::Duration;
pub use moorline_datapath::shim6::FailureHint;
use moorline_types::{Instant, LocatorPair, named_enum};

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
    /// The peer has reported a probe of ours. The report may be in a later probe than the answer, so it says nothing of the round-trip time.
    Answered {
        /// By this pair.
        pair: LocatorPair,
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
    /// The current pair is much worse than another one, which the host may switch to ([`Machine::handle_switch`](crate::Machine::handle_switch)).
    Worse {
        /// The current pair.
        pair: LocatorPair,
        /// The other one.
        than: LocatorPair,
        /// [`Cause::Lossy`] or [`Cause::Slow`].
        cause: Cause,
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
    /// The peer has answered a check, while [`Machine::send_one_check`](crate::Machine::send_one_check) waits for answers.
    Replied {
        /// The pair of the check.
        pair: LocatorPair,
        /// When the check left.
        at: Instant,
    },
}

named_enum! {
    /// Why a state or the current pair changed.
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
        /// An address of the current pair is none of ours, or none of the peer's, any more.
        LocatorGone => "locator_gone",
        /// The peer says that its locator of the current pair is broken.
        LocatorBroken => "locator_broken",
        /// The host knows that the current pair does not work: carrier, route, address state.
        LocalFailure => "local_failure",
        /// A suspicion was put to the test: the standby path answered and the current pair did not.
        Suspicion => "suspicion",
        /// The local address is deprecated, and the standby path has another one.
        Deprecated => "deprecated",
        /// The preferred pair has worked again for a while.
        FailBack => "fail_back",
        /// Someone on this host asked for the pair.
        Switch => "switch",
        /// A rule of this host prefers the pair.
        Preferred => "preferred",
        /// The pair before was congested.
        Congested => "congested",
        /// The pair before lost many more packets than this one.
        Lossy => "lossy",
        /// Round trips by the pair before took many times as long.
        Slow => "slow",
    }
}
