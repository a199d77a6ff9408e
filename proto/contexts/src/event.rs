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

/// What happened, for people, the API and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The context; of one that has failed or was removed, its former slot.
    pub context: ContextId,
    /// Its ULIDs.
    pub ulids: UlidPair,
    /// The event itself.
    pub kind: EventKind,
}

/// Kinds of events of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Traffic was found worth a context; I1 is on its way.
    Initiated,
    /// The context protects its traffic from now on.
    Established {
        /// Which side we were.
        role: Role,
    },
    /// The peer made the context anew or told other locators.
    Renewed,
    /// No context: the peer has no Shim6, or does not answer. Traffic goes on as plain IPv6.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// REAP went to another state.
    StateChanged {
        /// From this state.
        from: State,
        /// To this one.
        to: State,
        /// Why.
        cause: Cause,
    },
    /// What we send takes another locator pair.
    Moved {
        /// The pair given up.
        from: LocatorPair,
        /// The pair in use.
        to: LocatorPair,
        /// Why.
        cause: Cause,
    },
    /// The data plane doubts that the current pair works, and it is put to the test.
    Suspected {
        /// The pair in doubt.
        locators: LocatorPair,
        /// Why.
        hint: FailureHint,
    },
    /// A suspicion was unfounded, or could not be settled: nothing moves.
    Cleared {
        /// What the suspicion was.
        hint: FailureHint,
        /// Since it came up.
        after: Duration,
    },
    /// A pair that was to be current did not answer, or another one took its place: nothing moves.
    Unanswered {
        /// The pair.
        pair: LocatorPair,
        /// Why it was to be current.
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
    /// No pair answers and probes are down to their slowest.
    Unreachable {
        /// Probes sent in this exploration.
        probes: u32,
    },
    /// The context is forgotten.
    Removed {
        /// Why.
        removal: Removal,
    },
}

named_enum! {
    /// Why a context was forgotten.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Removal {
        /// No payload for the idle time.
        Idle => "idle",
        /// The caller wanted it.
        Requested => "requested",
        /// The peer has lost it and given its tag to another context (RFC 5533 s7.15).
        Confused => "confused",
        /// The peer's host has said of moved payload that it knows no Shim6 (decision 094).
        NoSupport => "the peer has no Shim6 any more",
        /// The data plane did not take it.
        NotTaken => "the data plane did not take it",
    }
}

/// Which timer a timeout is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimerKind {
    /// A retransmission or a negative answer of context establishment.
    Shim6,
    /// A probe or a Send Timer of REAP.
    Reap,
    /// A quiet context to ask about once more.
    Idle,
}
