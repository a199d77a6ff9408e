//! Test packets to a peer, on each pair of addresses.
//!
//! Each kind of packet is one that any Linux host answers: echo requests, also behind destination options and in
//! fragments, draw echo replies; an I1 draws an R1 from a peer with Shim6, who keeps no state for it, and
//! "unrecognized next header" from one without. Where ILNP is on: a Propose draws a Refuse, for there is no socket,
//! from a peer with ILNP, who keeps no state for it either; and its ICMPv6 types go behind an option that every
//! host has to refuse (RFC 8200 s4.2), so that the error shows that they arrive. Each is sent up to three times, a second apart, not more than a
//! hundred packets a second in all. An ICMPv6 error counts if it quotes what was sent, random octets included.

mod packet;
mod run;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use moorline_api::Pair;
use serde::{Deserialize, Serialize};

pub use run::run;

/// A pair of addresses to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its addresses.
    pub pair: Pair,
    /// Our interface.
    pub ifindex: u32,
    /// The MTU of that.
    pub mtu: u32,
    /// These are the ULIDs of a context or session that has moved: what is no control message would go another way.
    pub has_moved: bool,
    /// They have an ILNP session, so that an I1 gets no answer.
    pub has_session: bool,
    /// ICMPv6 types of the handshake, where this host does ILNP.
    pub ilnp: Option<[u8; 2]>,
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An echo request.
    Plain,
    /// An I1.
    Shim6,
    /// An echo request behind destination options of 8 octets.
    Options8,
    /// Of 16, as ILNP has.
    Options16,
    /// An echo request in two fragments.
    Fragments,
    /// An echo request of 1280 octets, IPv6 header included.
    Size1280,
    /// Of 1500.
    Size1500,
    /// A Propose of ILNP.
    Ilnp,
    /// ICMPv6 type 156 behind an option to refuse.
    LocatorUpdate,
    /// The type of the handshake's initiator, the same way.
    Initiator,
    /// The responder's.
    Responder,
}

impl Kind {
    /// All, as they are shown.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Shim6,
        Self::Options8,
        Self::Options16,
        Self::Fragments,
        Self::Size1280,
        Self::Size1500,
    ];

    /// What is tried where ILNP is on, besides.
    pub const OF_ILNP: [Self; 4] =
        [Self::Ilnp, Self::LocatorUpdate, Self::Initiator, Self::Responder];

    /// The title of its column.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Shim6 => "SHIM6",
            Self::Options8 => "OPT 8",
            Self::Options16 => "OPT 16",
            Self::Fragments => "FRAGMENTS",
            Self::Size1280 => "1280",
            Self::Size1500 => "1500",
            Self::Ilnp => "ILNP",
            Self::LocatorUpdate => "LOC UPDATE",
            Self::Initiator => "PROPOSAL",
            Self::Responder => "ANSWER",
        }
    }

    /// Whether the peer's refusal of its option shows that it has arrived.
    pub(crate) const fn is_to_be_refused(self) -> bool {
        matches!(self, Self::LocatorUpdate | Self::Initiator | Self::Responder)
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// It was answered.
    Passes {
        /// How long that took, microseconds.
        rtt_us: u64,
    },
    /// The I1 arrived, and the peer knows no Shim6.
    NoShim6,
    /// The Propose may have arrived, as its type does, and the peer did not answer: it does no ILNP.
    NoIlnp,
    /// It arrived, and the peer saw another source address than ours: NAT66.
    Translated {
        /// The address that the peer saw.
        seen: Ipv6Addr,
    },
    /// Nothing came back.
    Lost,
    /// Nothing came back, and for a reason that says nothing about the way.
    Unknown {
        /// Why.
        why: String,
    },
    /// Somebody refused it.
    Error {
        /// Who.
        from: Ipv6Addr,
        /// In what words.
        what: String,
        /// For Packet Too Big: what would fit.
        mtu: Option<u32>,
    },
    /// This host did not send it.
    NotSent {
        /// Why.
        why: String,
    },
}

impl Verdict {
    /// Whether the packet arrived.
    #[must_use]
    pub const fn is_passed(&self) -> bool {
        matches!(self, Self::Passes { .. } | Self::NoShim6 | Self::NoIlnp)
    }
}

/// What came of all test packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// As it was asked for.
    pub peer: String,
    /// A row for each pair.
    pub pairs: Vec<PairReport>,
}

/// What came of those of one pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairReport {
    /// The pair.
    #[serde(flatten)]
    pub pair: Pair,
    /// By kind; one that was not tried lacks.
    pub verdicts: BTreeMap<Kind, Verdict>,
    /// The largest packet that arrives, octets; none if that could not be found out.
    pub path_mtu: Option<u32>,
    /// Larger ones vanish without an ICMPv6 error.
    #[serde(default)]
    pub is_black_hole: bool,
}

impl PairReport {
    /// Whether this kind arrived, from whatever address.
    pub(crate) fn arrives(&self, kind: Kind) -> bool {
        let is_translated = |verdict: &Verdict| matches!(verdict, Verdict::Translated { .. });
        self.passes(kind) || self.verdicts.get(&kind).is_some_and(is_translated)
    }

    /// Whether the peer answered this kind as one that knows it.
    pub(crate) fn is_answered(&self, kind: Kind) -> bool {
        matches!(self.verdicts.get(&kind), Some(Verdict::Passes { .. }))
    }

    /// Whether this kind arrived as it was sent.
    #[must_use]
    pub fn passes(&self, kind: Kind) -> bool {
        self.verdicts.get(&kind).is_some_and(Verdict::is_passed)
    }
}

/// Pairs that are tried at most.
pub const MAX_WAYS: usize = 16;
