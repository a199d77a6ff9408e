use alloc::vec::Vec;
use core::time::Duration;

use moorline_reap::State;
use moorline_shim6::{Failure, Role};
use moorline_types::{ContextId, LocatorPair, UlidPair, named_enum};

pub use moorline_reap::{Cause, FailureHint};

/// A control packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination address.
    pub locators: LocatorPair,
    /// The packet from the Next Header octet of the Shim6 header on, checksum filled in.
    pub octets: Vec<u8>,
}

/// An event, for people, the API and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The context. If the context has failed or was removed, its former slot.
    pub context: ContextId,
    /// Its ULIDs.
    pub ulids: UlidPair,
    /// The kind of the event.
    pub kind: EventKind,
}

/// Kinds of events of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Traffic deserves a context. I1 is on its way.
    Initiated,
    /// The context protects its traffic from now on.
    Established {
        /// Side of this host.
        role: Role,
    },
    /// The peer has made the context again, or has told other locators.
    Renewed,
    /// No context was established: the peer has no Shim6, or does not answer. Traffic goes on as plain IPv6.
    Failed {
        /// Cause of the failure.
        failure: Failure,
    },
    /// The state of REAP changed.
    StateChanged {
        /// State before the change.
        from: State,
        /// State after the change.
        to: State,
        /// Cause of the change.
        cause: Cause,
    },
    /// Payload of this host takes another locator pair.
    Moved {
        /// The previous pair.
        from: LocatorPair,
        /// The new pair.
        to: LocatorPair,
        /// Cause of the move.
        cause: Cause,
    },
    /// The data plane doubts that the current pair works, and a trial begins.
    Suspected {
        /// The pair in doubt.
        locators: LocatorPair,
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
    /// The wanted pair did not answer, or another wanted pair replaced it. Payload stays on its pair.
    Unanswered {
        /// The wanted pair.
        pair: LocatorPair,
        /// Why the pair was wanted.
        cause: Cause,
    },
    /// Congestion was signalled on the current pair.
    Congested {
        /// The pair.
        locators: LocatorPair,
        /// Packets that came with Congestion Experienced since the last event.
        ce: u32,
        /// TCP segments that came with ECN-Echo since the last event.
        ece: u32,
    },
    /// No pair answers, and the intervals between probes have reached their maximum.
    Unreachable {
        /// Probes sent in this exploration.
        probes: u32,
    },
    /// The context was removed.
    Removed {
        /// Cause of the removal.
        removal: Removal,
    },
}

named_enum! {
    /// Cause of the removal of a context.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Removal {
        /// There was no payload for the idle time.
        Idle => "idle",
        /// The caller requested the removal.
        Requested => "requested",
        /// The peer has lost the context and given its tag to another one (RFC 5533 s7.15).
        Confused => "confused",
        /// The peer's host has refused moved payload because it has no Shim6 (decision 094).
        NoSupport => "the peer has no Shim6 any more",
        /// The data plane did not take the context.
        NotTaken => "the data plane did not take it",
        /// The peer made the context and never used it, and another context needed its place.
        Evicted => "made room for another context",
    }
}

/// The kind of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A retransmission or a negative answer of context establishment.
    Shim6,
    /// A probe or a Send Timer of REAP.
    Reap,
    /// Another question about a quiet context.
    Idle,
}
