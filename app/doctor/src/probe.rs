//! Test packets to a peer, on each pair of addresses.
//!
//! Any Linux host answers each kind of packet:
//!
//! * An echo request, also behind destination options or in fragments, gets an echo reply.
//! * An I1 gets an R1 from a peer with Shim6, which keeps no state for it. A peer without Shim6 answers "unrecognized next
//!   header".
//! * If ILNP is on: a Propose gets a Refuse from a peer with ILNP, because the peer has no such socket; the peer keeps no state.
//! * If ILNP is on: each ICMPv6 type of ILNP goes behind an option that every host must refuse (RFC 8200 s4.2). The error shows
//!   that the packet arrives.
//!
//! The program sends each packet up to three times, a second apart, and at most a hundred packets a second in all. An ICMPv6
//! error counts if it quotes the sent packet with its random octets.

mod packet;
mod run;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use moorline_api::Pair;
use serde::{Deserialize, Serialize};

pub use run::run;

/// Pair of addresses to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Addresses of the pair.
    pub pair: Pair,
    /// Index of our interface.
    pub ifindex: u32,
    /// MTU of our interface.
    pub mtu: u32,
    /// Whether the pair is the ULID pair of a moved context or session: packets that are not control messages would use
    /// another pair.
    pub has_moved: bool,
    /// Whether the pair has an ILNP session, so that an I1 gets no answer.
    pub has_session: bool,
    /// ICMPv6 types of ILNP's handshake; none if ILNP is off.
    pub ilnp: Option<[u8; 2]>,
}

/// Kind of test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Echo request.
    Plain,
    /// I1 of Shim6.
    Shim6,
    /// Echo request behind destination options of 8 octets.
    Options8,
    /// Echo request behind destination options of 16 octets, the size of ILNP's options.
    Options16,
    /// Echo request in two fragments.
    Fragments,
    /// Echo request of 1280 octets, including the IPv6 header.
    Size1280,
    /// Echo request of 1500 octets, including the IPv6 header.
    Size1500,
    /// Propose of ILNP.
    Ilnp,
    /// ICMPv6 type 156 behind an option that the peer must refuse.
    LocatorUpdate,
    /// ICMPv6 type of the handshake's initiator behind an option that the peer must refuse.
    Initiator,
    /// ICMPv6 type of the handshake's responder behind an option that the peer must refuse.
    Responder,
}

impl Kind {
    /// All kinds without ILNP, in the order of display.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Shim6,
        Self::Options8,
        Self::Options16,
        Self::Fragments,
        Self::Size1280,
        Self::Size1500,
    ];

    /// Additional kinds if ILNP is on.
    pub const OF_ILNP: [Self; 4] =
        [Self::Ilnp, Self::LocatorUpdate, Self::Initiator, Self::Responder];

    /// Returns the title of the kind's column.
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

    /// Whether the packet has an option that the peer must refuse; the refusal shows that the packet has arrived.
    pub(crate) const fn is_to_be_refused(self) -> bool {
        matches!(self, Self::LocatorUpdate | Self::Initiator | Self::Responder)
    }
}

/// Result of a test packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The peer answered.
    Passes {
        /// Round-trip time in microseconds.
        rtt_us: u64,
    },
    /// The I1 arrived, and the peer does not speak Shim6.
    NoShim6,
    /// The peer did not answer the Propose, although packets of its type arrive: the peer does not speak ILNP.
    NoIlnp,
    /// The packet arrived, and the peer saw another source address than ours: NAT66.
    Translated {
        /// The address that the peer saw.
        seen: Ipv6Addr,
    },
    /// No answer came.
    Lost,
    /// No answer came, for a reason that says nothing about the path.
    Unknown {
        /// Reason.
        why: String,
    },
    /// A host or router refused the packet.
    Error {
        /// Source of the error.
        from: Ipv6Addr,
        /// Error text.
        what: String,
        /// MTU of a Packet Too Big.
        mtu: Option<u32>,
    },
    /// This host did not send the packet.
    NotSent {
        /// Reason.
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

/// Results of all test packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Address or name of the peer, as the user gave it.
    pub peer: String,
    /// Results by pair.
    pub pairs: Vec<PairReport>,
}

/// Results of one pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairReport {
    /// The pair.
    #[serde(flatten)]
    pub pair: Pair,
    /// Verdicts by kind; kinds without a test are absent.
    pub verdicts: BTreeMap<Kind, Verdict>,
    /// Largest packet that arrives, in octets; none if unknown.
    pub path_mtu: Option<u32>,
    /// Whether larger packets are lost without an ICMPv6 error.
    #[serde(default)]
    pub is_black_hole: bool,
}

impl PairReport {
    /// Whether this kind arrived, from any source address.
    pub(crate) fn arrives(&self, kind: Kind) -> bool {
        let is_translated = |verdict: &Verdict| matches!(verdict, Verdict::Translated { .. });
        self.passes(kind) || self.verdicts.get(&kind).is_some_and(is_translated)
    }

    /// Whether the peer answered this kind, and knows its protocol.
    pub(crate) fn is_answered(&self, kind: Kind) -> bool {
        matches!(self.verdicts.get(&kind), Some(Verdict::Passes { .. }))
    }

    /// Whether this kind arrived unchanged.
    #[must_use]
    pub fn passes(&self, kind: Kind) -> bool {
        self.verdicts.get(&kind).is_some_and(Verdict::is_passed)
    }
}

/// Largest number of tested pairs.
pub const MAX_WAYS: usize = 16;
