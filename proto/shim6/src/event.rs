use moorline_types::{ContextId, ContextTag, Instant, LocatorPair, UlidPair};
use moorline_wire::{Message, Packet};

use crate::context::Role;

/// An incoming control message with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The message.
    pub packet: &'a Packet<'a>,
    /// The pair that the message came by, as this host sees it.
    pub locators: LocatorPair,
    /// When the message came in.
    pub now: Instant,
}

impl Incoming<'_> {
    /// The context that the message names by this host's tag. `None`: the message has no Receiver Context Tag.
    pub(crate) fn used(&self) -> Option<Used> {
        let tag = self.packet.receiver_tag()?;
        Some(Used { tag, locators: self.locators, len: self.packet.octets().len() })
    }
}

/// An incoming packet that names a context by this host's tag: payload, or a control message of type 64 to 127.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The tag that the packet names.
    pub tag: ContextTag,
    /// The pair that the packet came by, as this host sees it.
    pub locators: LocatorPair,
    /// Octets behind the IPv6 header.
    pub len: usize,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The way of the message.
    pub via: Via,
    /// The message.
    pub message: Message,
}

/// The locator pair of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// This pair.
    Pair(LocatorPair),
    /// The current pair of this context. REAP knows the pair.
    Current(ContextId),
    /// The pair by which a message of this context came, back to its sender.
    Reply(ContextId, LocatorPair),
}

/// An event for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An I1 went out.
    Initiated {
        /// The new context, which payload cannot use yet.
        context: ContextId,
        /// The ULIDs of the context.
        ulids: UlidPair,
    },
    /// Both sides know the tag and the locators of the other side.
    Established {
        /// The context.
        context: ContextId,
        /// The side of this host.
        role: Role,
        /// The pair that the messages took.
        locators: LocatorPair,
    },
    /// The peer has made the context again or changed its locators. Tag or locators may differ.
    Renewed {
        /// The context.
        context: ContextId,
    },
    /// The peer has acknowledged our new locators, which can be used from now on.
    Announced {
        /// The context.
        context: ContextId,
    },
    /// The peer has shown that it has the context. The peer had not shown that when this host made its half.
    Confirmed {
        /// The context.
        context: ContextId,
    },
    /// The peer has lost the context and could not make it again. The context is back in I1-SENT, and payload leaves
    /// unchanged. `Established` or `Failed` follows.
    Lapsed {
        /// The context.
        context: ContextId,
    },
    /// The peer has lost the context and given its tag to another one. The machine has removed this context (RFC 5533
    /// s7.15).
    Confused {
        /// The slot, which is free again.
        context: ContextId,
        /// The ULIDs of the context.
        ulids: UlidPair,
    },
    /// The context made room for another one: no payload had come. The machine has removed this context.
    Evicted {
        /// The slot, which is free again.
        context: ContextId,
        /// The ULIDs of the context.
        ulids: UlidPair,
    },
    /// No context was established. The traffic goes on as plain IPv6.
    Failed {
        /// The slot, which is free again.
        context: ContextId,
        /// The ULIDs of the context.
        ulids: UlidPair,
        /// Cause of the failure.
        failure: Failure,
    },
    /// The time of a negative answer is over: the host may try the pair again.
    HolddownOver {
        /// The ULIDs.
        ulids: UlidPair,
    },
}

/// Cause of a missing context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// E-FAILED: no answer to any I1 (RFC 5533 s7.8).
    NoAnswer,
    /// NO-SUPPORT: the peer's ICMPv6 says that it has no Shim6 (RFC 5533 s7.8).
    NoSupport,
    /// The data plane did not take the context.
    NotTaken,
    /// The table had no room, or the handshake made room for another one.
    NoRoom,
}
