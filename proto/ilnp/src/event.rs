use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{IlvPair, SessionId, named_enum};
use moorline_wire::ilnp::Refusal;

use crate::policy::Why;

/// What happened, for people and for those that keep books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session is there, and the correspondent has shown that it knows of it.
    Established {
        /// The session.
        session: SessionId,
        /// The addresses of its sockets.
        pair: IlvPair,
        /// Why it was admitted.
        why: Why,
    },
    /// A session is no more.
    Forgotten {
        /// The session.
        session: SessionId,
        /// The addresses of its sockets.
        pair: IlvPair,
        /// Why.
        cause: Cause,
    },
    /// Traffic goes on without ILNP.
    Classic {
        /// The addresses.
        pair: IlvPair,
        /// Why.
        cause: Classic,
    },
    /// The host has left the locator that it asked the correspondent from: the silence says nothing, and traffic goes on without ILNP.
    GivenUp {
        /// The addresses.
        pair: IlvPair,
    },
    /// A session goes by other locators.
    Moved {
        /// The session.
        session: SessionId,
        /// The addresses of what we send.
        wire: IlvPair,
    },
    /// The correspondent has read our locators.
    UpdateAcknowledged {
        /// The session.
        session: SessionId,
    },
    /// The correspondent has not read our locators, as often as they were sent.
    UpdateUnanswered {
        /// The session.
        session: SessionId,
    },
}

named_enum! {
    /// Why a session is forgotten.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cause {
        /// Quiet, and no socket is left.
        Idle => "idle",
        /// Room for another.
        Evicted => "room for another",
        /// The correspondent began anew.
        Replaced => "the correspondent began anew",
        /// The correspondent never showed that it knows of it.
        Unanswered => "the correspondent did not answer",
        /// The correspondent says that it does not know it any more.
        Denied => "the correspondent does not know it",
        /// This host speaks no ILNP any more.
        Ended => "this host ends",
        /// The data plane did not take it.
        NotTaken => "the data plane did not take it",
    }
}

/// Why traffic goes on without ILNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Classic {
    /// No answer to our proposal.
    Silent,
    /// No answer to our nonce.
    Unread,
    /// "Unrecognized IPv6 option", of our nonce (RFC 6744 s6).
    NoSupport,
    /// The correspondent does not want a session.
    Refused(Refusal),
}

/// An IPv6 packet to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its source: leaves by the uplink of this address.
    pub source: Ipv6Addr,
    /// All of it.
    pub packet: Vec<u8>,
}
