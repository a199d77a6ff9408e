use crate::open_enum::open_enum;
use crate::readiness::Readiness;
use crate::types::Pair;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Answer to `GET /v1/ilcc`: the Identifier-Locator Communication Cache (RFC 6741 s5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ilcc {
    /// Whether this daemon does ILNPv6; if not, there is nothing more.
    pub on: bool,
    /// Which correspondents get an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<IlnpPolicy>,
    /// Most entries at a time.
    pub max_sessions: u32,
    /// Where this node is: what correspondents are told, the best first.
    pub locators: Vec<IlnpLocator>,
    /// The entries, by number.
    pub correspondents: Vec<Correspondent>,
}

/// ILNPv6 at a glance: part of [`Status`](crate::Status).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IlnpStatus {
    /// Which correspondents get an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<IlnpPolicy>,
    /// ICMPv6 types of the handshake: the initiator's, the responder's.
    pub icmp_types: [u8; 2],
    /// Nodes that there are sessions with.
    pub correspondents: u64,
    /// How many sessions are in which state.
    pub sessions: SessionCounts,
    /// Most of them at a time.
    pub max_sessions: u32,
    /// Where this node is: four groups of four digits each, the best first.
    pub locators: Vec<String>,
    /// Its identifiers.
    pub identifiers: u32,
    /// Packets dropped since the start, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Proposals of correspondents that this node has refused since the start, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Proposals of this node since the start that came to nothing, by cause.
    pub classic: BTreeMap<String, u64>,
}

/// Number of ILNP sessions by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionCounts {
    /// Both ends know of it.
    pub established: u64,
    /// Not yet.
    pub opening: u64,
    /// Sending to or from other addresses than sockets see.
    pub moved: u64,
    /// The correspondent has not acknowledged our locators as they are now.
    pub awaiting: u64,
}

/// A locator of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IlnpLocator {
    /// Four groups of four digits.
    pub l64: String,
    /// The uplink that has it.
    pub uplink: Option<String>,
    /// Lower is better.
    pub preference: u16,
    /// Seconds for which correspondents may think it valid.
    pub lifetime_s: u16,
}

/// An entry: what is known of a correspondent, for one pair of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correspondent {
    /// Number in this host; reused after removal.
    pub session: u32,
    /// The addresses that sockets see.
    pub addresses: Pair,
    /// Our identifier: four groups of four digits.
    pub local_nid: String,
    /// The correspondent's.
    pub remote_nid: String,
    /// The addresses of what we send.
    pub via: Pair,
    /// Whether these are others than sockets see.
    pub moved: bool,
    /// How far the session has come.
    pub state: SessionState,
    /// Why it was admitted, for a person.
    pub why: String,
    /// Where the correspondent is, the best first.
    #[serde(default)]
    pub locators: Vec<RemoteLocator>,
    /// For root alone: whoever knows them can send as one of the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonces: Option<IlnpNonces>,
    /// Whether it has not acknowledged our locators as they are now.
    #[serde(default)]
    pub awaits_acknowledgement: bool,
    /// Whether it survives the loss of the addresses that it uses; none from a daemon that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Seconds since packets went either way, as far as is known: it is told every 10 s.
    pub last_used_s_ago: u64,
}

/// The nonces of a session (RFC 6744), hexadecimal, 8 or 24 digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IlnpNonces {
    /// Goes into packets that we send.
    pub sent: String,
    /// Comes with those of the correspondent; none if it has not come yet.
    pub received: Option<String>,
}

/// Not for logs.
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
    /// Seconds left; none: nobody has said.
    pub lifetime_s: Option<u64>,
    /// How good it is.
    pub validity: LocatorValidity,
}

open_enum! {
    /// Which correspondents get an entry in the cache.
    IlnpPolicy {
        /// Where there are sockets for it, and both ends agree.
        Admit = "admit",
        /// Each.
        Open = "open",
    }
}

open_enum! {
    /// How far a session has come.
    SessionState {
        /// The correspondent has accepted, and not shown yet that it has our confirmation.
        Confirming = "confirming",
        /// Our packets have a nonce; the correspondent has not shown yet that it knows what that is.
        Offered = "offered",
        /// Both know.
        Established = "established",
    }
}

open_enum! {
    /// How good a locator of a correspondent is (RFC 6741 s5.1).
    LocatorValidity {
        /// In use.
        Active = "active",
        /// Could be used.
        Valid = "valid",
        /// In use beyond its lifetime.
        Expired = "expired",
        /// Beyond its lifetime.
        Aged = "aged",
    }
}
