use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{IlvPair, SessionId, named_enum};
use moorline_wire::ilnp::Refusal;

use crate::policy::Why;

/// A change of the sessions, for people and for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session exists, and the correspondent has shown that it knows the session.
    Established {
        /// The session.
        session: SessionId,
        /// The addresses that sockets see.
        pair: IlvPair,
        /// Reason of the admission.
        why: Why,
    },
    /// A session has ended.
    Forgotten {
        /// The session.
        session: SessionId,
        /// The addresses that sockets see.
        pair: IlvPair,
        /// Cause of the end.
        cause: Cause,
    },
    /// Traffic goes on without ILNP.
    Classic {
        /// The addresses.
        pair: IlvPair,
        /// Cause.
        cause: Classic,
    },
    /// The host has left the locator from which it asked the correspondent, or the question has given its place to the
    /// question to another correspondent. So the silence of the correspondent shows nothing, and traffic goes on without
    /// ILNP.
    GivenUp {
        /// The addresses.
        pair: IlvPair,
    },
    /// A session uses other locators.
    Moved {
        /// The session.
        session: SessionId,
        /// The addresses of packets that we sent before.
        from: IlvPair,
        /// The addresses of packets that we send.
        wire: IlvPair,
        /// Cause of the move.
        cause: MoveCause,
    },
    /// The locators in use have brought an answer again, after no pair of locators had.
    Regained {
        /// The session.
        session: SessionId,
    },
    /// The correspondent has read our locators.
    UpdateAcknowledged {
        /// The session.
        session: SessionId,
    },
    /// The correspondent has acknowledged none of our repeated Locator Updates.
    UpdateUnanswered {
        /// The session.
        session: SessionId,
    },
}

named_enum! {
    /// Cause of a move. A cause that Shim6 has as well has the same name there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MoveCause {
        /// The locators before have brought no answer to a question, and other locators have.
        Suspicion => "suspicion",
        /// The preferred locators have brought an answer again.
        FailBack => "fail_back",
        /// Our locator of the pair before is no longer ours.
        LocatorGone => "locator_gone",
        /// Our locators, preferences or routes have changed, and others are better now.
        Preferred => "preferred",
        /// The correspondent has named its locators, or sends from another locator.
        LocatorUpdate => "locator_update",
        /// The correspondent has not acknowledged the locator in use, so the session is back at its first locator.
        UpdateUnanswered => "update_unanswered",
        /// The correspondent has begun anew, at other locators than those of the sockets.
        BegunAnew => "begun_anew",
    }
}

named_enum! {
    /// Cause of the end of a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cause {
        /// The session is quiet, and no socket has its addresses.
        Idle => "idle",
        /// Another session needed the room.
        Evicted => "room for another",
        /// The correspondent has begun a new session for the same addresses.
        Replaced => "the correspondent began anew",
        /// The correspondent never showed that it knows the session.
        Unanswered => "the correspondent did not answer",
        /// The correspondent says that it does not know the session any more.
        Denied => "the correspondent does not know it",
        /// This host has stopped to speak ILNP.
        Ended => "this host ends",
        /// The data plane has not taken the session.
        NotTaken => "the data plane did not take it",
    }
}

/// Cause of traffic without ILNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Classic {
    /// The correspondent has not answered our proposal.
    Silent,
    /// The correspondent has not answered our nonce.
    Unread,
    /// The correspondent has answered our nonce with "unrecognized IPv6 option" (RFC 6744 s6).
    NoSupport,
    /// The correspondent has refused a session.
    Refused(Refusal),
}

impl Event {
    /// The session that the event is about, and the addresses that sockets see, as far as the event says both.
    #[must_use]
    pub const fn subject(&self) -> (Option<SessionId>, Option<IlvPair>) {
        match *self {
            Self::Established { session, pair, .. } | Self::Forgotten { session, pair, .. } => {
                (Some(session), Some(pair))
            }
            Self::Classic { pair, .. } | Self::GivenUp { pair } => (None, Some(pair)),
            Self::Moved { session, .. }
            | Self::Regained { session }
            | Self::UpdateAcknowledged { session }
            | Self::UpdateUnanswered { session } => (Some(session), None),
        }
    }
}

impl Classic {
    /// The cause in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "no answer",
            Self::Unread => "no answer to the nonce",
            Self::NoSupport => "the correspondent does not know the option",
            Self::Refused(Refusal::NO_SOCKET) => "refused: no socket",
            Self::Refused(Refusal::NOT_CONNECTED) => "refused: no connected socket",
            Self::Refused(Refusal::RESOURCES) => "refused: no room",
            Self::Refused(Refusal::POLICY) => "refused: policy",
            Self::Refused(_) => "refused",
        }
    }
}

/// An IPv6 packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source of the packet, which leaves by the uplink of this address.
    pub source: Ipv6Addr,
    /// The whole packet.
    pub packet: Vec<u8>,
}
