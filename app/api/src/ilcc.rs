use crate::open_enum::open_enum;
use crate::readiness::Readiness;
use crate::types::Pair;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Answer to `GET /v1/ilcc`: the Identifier-Locator Communication Cache (RFC 6741 s5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ilcc {
    /// Whether ILNPv6 is on; if not, the other fields are empty.
    pub on: bool,
    /// Policy for entries of correspondents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<IlnpPolicy>,
    /// Largest number of entries.
    pub max_sessions: u32,
    /// Locators that this node tells correspondents, the best first.
    pub locators: Vec<IlnpLocator>,
    /// The entries of this page, by number.
    pub correspondents: Vec<Correspondent>,
}

/// Overview of ILNPv6: part of [`Status`](crate::Status).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IlnpStatus {
    /// Policy for entries of correspondents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<IlnpPolicy>,
    /// ICMPv6 types of the handshake: the initiator's, the responder's.
    pub icmp_types: [u8; 2],
    /// Number of nodes with a session.
    pub correspondents: u64,
    /// Number of sessions by state.
    pub sessions: SessionCounts,
    /// Largest number of sessions.
    pub max_sessions: u32,
    /// Locators of this node, each as four groups of four digits, the best first.
    pub locators: Vec<String>,
    /// Number of identifiers of this node.
    pub identifiers: u32,
    /// Packets dropped since the start, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Proposals of correspondents that this node has refused since the start, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Proposals of this node without a session as result since the start, by cause.
    pub classic: BTreeMap<String, u64>,
}

/// Number of ILNP sessions by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionCounts {
    /// Both ends have the session.
    pub established: u64,
    /// The handshake is not complete.
    pub opening: u64,
    /// Sessions that use other addresses than sockets see.
    pub moved: u64,
    /// Sessions whose correspondent has not acknowledged our current locators.
    pub awaiting: u64,
    /// Sessions that stand still: the correspondent has answered by no pair of locators.
    pub unreachable: u64,
}

/// A locator of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IlnpLocator {
    /// Four groups of four digits.
    pub l64: String,
    /// Uplink of the locator.
    pub uplink: Option<String>,
    /// Lower is better.
    pub preference: u16,
    /// Lifetime in seconds that this node tells correspondents.
    pub lifetime_s: u16,
}

/// Entry of a correspondent, for one pair of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correspondent {
    /// Number in this host; reused after removal.
    pub session: u32,
    /// The addresses that sockets see.
    pub addresses: Pair,
    /// Our identifier: four groups of four digits.
    pub local_nid: String,
    /// Identifier of the correspondent.
    pub remote_nid: String,
    /// Addresses of the packets that we send.
    pub via: Pair,
    /// Whether `via` differs from `addresses`.
    pub moved: bool,
    /// Cause of the last move, for a person, as in the events; none if the session has not moved in this run of the
    /// daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_cause: Option<String>,
    /// State of the handshake.
    pub state: SessionState,
    /// Reason why the policy admitted the session, for a person.
    pub why: String,
    /// Locators of the correspondent, the best first.
    #[serde(default)]
    pub locators: Vec<RemoteLocator>,
    /// Nonces, for root only: a process that knows a nonce can send packets of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonces: Option<IlnpNonces>,
    /// Whether the correspondent has not acknowledged our current locators.
    #[serde(default)]
    pub awaits_acknowledgement: bool,
    /// Whether the session survives the loss of its current pair; none from a daemon without this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Seconds since the last packet in either direction; the data plane reports use every 10 s.
    pub last_used_s_ago: u64,
}

/// The nonces of a session (RFC 6744), hexadecimal, 8 or 24 digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IlnpNonces {
    /// Nonce of packets that we send.
    pub sent: String,
    /// Nonce of packets of the correspondent; none before the first.
    pub received: Option<String>,
}

/// Hides the nonces, so that logs never have them.
impl std::fmt::Debug for IlnpNonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IlnpNonces").finish_non_exhaustive()
    }
}

/// A locator of a correspondent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteLocator {
    /// Four groups of four digits.
    pub l64: String,
    /// Lower is better.
    pub preference: u16,
    /// Remaining lifetime in seconds; none if unknown.
    pub lifetime_s: Option<u64>,
    /// Validity of the locator.
    pub validity: LocatorValidity,
}

open_enum! {
    /// Policy for entries of the cache.
    IlnpPolicy {
        /// A correspondent gets an entry if a socket needs the session and both ends agree.
        Admit = "admit",
        /// Each correspondent gets an entry.
        Open = "open",
    }
}

open_enum! {
    /// State of a session's handshake.
    SessionState {
        /// The correspondent has accepted, and has not yet shown that it has our Confirm.
        Confirming = "confirming",
        /// Our packets have a nonce; the correspondent has not yet shown that it knows nonces.
        Offered = "offered",
        /// Both ends know the session.
        Established = "established",
    }
}

open_enum! {
    /// Validity of a correspondent's locator (RFC 6741 s5.1).
    LocatorValidity {
        /// In use.
        Active = "active",
        /// Not in use, and usable.
        Valid = "valid",
        /// In use beyond its lifetime.
        Expired = "expired",
        /// Not in use, and beyond its lifetime.
        Aged = "aged",
    }
}
