use moorline_types::{ContextId, Instant, LocatorPair, UlidPair};
use moorline_wire::{Message, Packet};

use crate::context::Role;

/// A control message that came in, its header checked.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The message.
    pub packet: &'a Packet<'a>,
    /// The pair that it came by, as this host sees it.
    pub locators: LocatorPair,
    /// When it came.
    pub now: Instant,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Which way.
    pub via: Via,
    /// What to send.
    pub message: Message,
}

/// Which locator pair a message takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// This one.
    Pair(LocatorPair),
    /// The current pair of this context, which REAP knows.
    Current(ContextId),
    /// Back the way that a message of this context came.
    Reply(ContextId, LocatorPair),
}

/// What the caller has to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// I1 went out.
    Initiated {
        /// The new context, not usable yet.
        context: ContextId,
        /// Its ULIDs.
        ulids: UlidPair,
    },
    /// Both sides know each other's tag and locators.
    Established {
        /// The context.
        context: ContextId,
        /// Which side we were.
        role: Role,
        /// The pair that the messages took.
        locators: LocatorPair,
    },
    /// The peer made the context anew or changed its locators: tag or locators may differ.
    Renewed {
        /// The context.
        context: ContextId,
    },
    /// The peer has acknowledged our new locators: they may be used from now on.
    Announced {
        /// The context.
        context: ContextId,
    },
    /// The peer has shown that it has the context, which it had not when this half of it was made.
    Confirmed {
        /// The context.
        context: ContextId,
    },
    /// The peer has lost the context and could not make it anew: back to I1-SENT, where payload goes
    /// untouched. `Established` or `Failed` follows.
    Lapsed {
        /// The context.
        context: ContextId,
    },
    /// The peer has lost the context and given its tag to another: it is forgotten (RFC 5533 s7.15).
    Confused {
        /// The slot that is free again.
        context: ContextId,
        /// Between these addresses.
        ulids: UlidPair,
    },
    /// No context; the traffic goes on as plain IPv6.
    Failed {
        /// The slot that is free again.
        context: ContextId,
        /// Between these addresses.
        ulids: UlidPair,
        /// Why.
        failure: Failure,
    },
    /// A negative answer has been forgotten: the pair may be tried again.
    HolddownOver {
        /// Between these addresses.
        ulids: UlidPair,
    },
}

/// Why there is no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// E-FAILED: no answer to any I1 (RFC 5533 s7.8).
    NoAnswer,
    /// NO-SUPPORT: the peer's ICMPv6 says that it has no Shim6 (RFC 5533 s7.8).
    NoSupport,
    /// The data plane did not take it.
    NotTaken,
}
