use crate::ilcc::IlnpStatus;
use crate::open_enum::open_enum;
use crate::readiness::{Readiness, Survival};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// Answer to `GET /v1/status`: the daemon at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it started, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Send Timeout in milliseconds (RFC 5534 s7): silence that starts exploration.
    pub send_timeout_ms: u64,
    /// What moves the packets.
    pub data_plane: DataPlane,
    /// Interfaces that lead to an ISP.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// How many contexts are in which state.
    #[serde(default)]
    pub contexts: ContextCounts,
    /// Consequences of the loss of each uplink that contexts use.
    #[serde(default)]
    pub survival: Vec<Survival>,
    /// ILNPv6; none where it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ilnp: Option<IlnpStatus>,
    /// Packets and reports dropped since the start, by reason, those of ILNP among them; reasons that never
    /// happened may lack.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// What someone should look at: each says what is wrong and what to do.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Peers that sockets are connected to and that earn no context by the configuration, some of them.
    #[serde(default)]
    pub excluded: Vec<Excluded>,
}

/// A peer whose traffic earns no context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Excluded {
    /// The peer.
    pub peer: Ipv6Addr,
    /// Which setting says so, for a person.
    pub why: String,
}

/// An interface with a global address and a default route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// Interface name.
    pub name: String,
    /// Interface index.
    pub ifindex: u32,
    /// Whether the link has a carrier.
    pub carrier: bool,
    /// Whether the uplink carries nothing, as `uplink-probes`, peers of contexts or its router show.
    #[serde(default)]
    pub failing: bool,
    /// MTU in octets.
    pub mtu: u32,
    /// Next hop of the default route; none on point-to-point links or while there is no route.
    pub gateway: Option<Ipv6Addr>,
    /// Its addresses that peers may learn.
    #[serde(default)]
    pub locators: Vec<LocatorInfo>,
}

/// One of our locators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatorInfo {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix in bits.
    pub prefix_len: u8,
    /// How a peer can verify that it is ours.
    pub proof: Proof,
    /// Whether another one takes its place with time (RFC 8981).
    #[serde(default)]
    pub temporary: bool,
    /// Whether peers are told of it.
    pub announced: bool,
}

/// Number of contexts by state; a context that has moved is counted as established too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextCounts {
    /// I1 or I2 sent, not answered yet.
    pub establishing: u64,
    /// Established, exploring or not.
    pub established: u64,
    /// Established and not Operational.
    pub exploring: u64,
    /// Established on locators other than the ULIDs.
    pub moved: u64,
    /// Peers remembered for not answering or not speaking Shim6.
    pub no_support: u64,
}

/// A context: state that a pair of hosts keeps for a pair of ULIDs (RFC 5533 s6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Number in this host; reused after removal. [`u32::MAX`] where there is none, in the states E-FAILED and NO-SUPPORT.
    pub id: u32,
    /// The address that local sockets see.
    pub ulid_local: Ipv6Addr,
    /// The peer's address that local sockets see.
    pub ulid_peer: Ipv6Addr,
    /// Who began.
    pub role: Role,
    /// How far establishment has come.
    pub state: ContextState,
    /// What reachability detection says (RFC 5534 s4).
    pub reap: ReapState,
    /// Our end of the current pair: source of what we send.
    pub locator_local: Ipv6Addr,
    /// The peer's end of the current pair: destination of what we send.
    pub locator_peer: Ipv6Addr,
    /// Whether the current pair is not the ULID pair.
    pub moved: bool,
    /// Why this pair is the current one, for a person.
    pub why: String,
    /// Whether it survives the loss of the current pair; none from a daemon that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Since when this pair is the current one, milliseconds since 1970; 0 before the context is established.
    pub since_unix_ms: u64,
    /// Locators that the peer knows of us.
    #[serde(default)]
    pub local_locators: Vec<Ipv6Addr>,
    /// Locators that we know of the peer and have verified.
    #[serde(default)]
    pub peer_locators: Vec<Ipv6Addr>,
    /// Payload packets sent.
    #[serde(default)]
    pub tx_packets: u64,
    /// Octets of them.
    #[serde(default)]
    pub tx_bytes: u64,
    /// Payload packets received.
    #[serde(default)]
    pub rx_packets: u64,
    /// Octets of them.
    #[serde(default)]
    pub rx_bytes: u64,
    /// Milliseconds since the last payload packet sent; none if there was none.
    pub last_tx_ms_ago: Option<u64>,
    /// Milliseconds since the last payload packet received; none if there was none.
    pub last_rx_ms_ago: Option<u64>,
}

impl Context {
    /// The addresses that sockets see.
    #[must_use]
    pub const fn ulids(&self) -> Pair {
        Pair { local: self.ulid_local, peer: self.ulid_peer }
    }

    /// The current locator pair.
    #[must_use]
    pub const fn locators(&self) -> Pair {
        Pair { local: self.locator_local, peer: self.locator_peer }
    }
}

/// A pair of addresses, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// Ours.
    pub local: Ipv6Addr,
    /// The peer's.
    pub peer: Ipv6Addr,
}

impl Pair {
    /// Joins the two ends.
    #[must_use]
    pub const fn new(local: Ipv6Addr, peer: Ipv6Addr) -> Self {
        Self { local, peer }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local, self.peer)
    }
}

/// Body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What was wrong, and where.
    pub error: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Folders of a daemon that restores the host and ends: what is left is found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Down {
    /// Of keys, addresses, contexts and sessions.
    pub state_dir: PathBuf,
    /// Of the programs and tables.
    pub pin_dir: PathBuf,
}

open_enum! {
    /// What moves the packets.
    DataPlane {
        /// eBPF programs attached by tcx links (kernel 6.6 and later).
        Tcx = "tcx",
        /// eBPF programs attached as classic tc filters.
        Tc = "tc",
        /// Rewriting in user space.
        User = "user",
    }
}

open_enum! {
    /// How a peer can verify a locator.
    Proof {
        /// Hash-based address (RFC 5535): the addresses of its set prove each other.
        Hba = "hba",
        /// Hash-based address with a key: its set proves itself, and the key signs for others.
        HbaCompatible = "hba-compatible",
        /// Cryptographically generated address (RFC 3972): its key signs for it and others.
        Cga = "cga",
        /// It cannot: good as a ULID only, never as a place to move to.
        None = "none",
    }
}

open_enum! {
    /// Who began a context.
    Role {
        /// This host sent the I1.
        Initiator = "initiator",
        /// The peer did.
        Responder = "responder",
    }
}

open_enum! {
    /// How far establishment has come (RFC 5533 s6.2).
    ContextState {
        /// I1 sent, waiting for R1.
        I1Sent = "i1-sent",
        /// I2 sent, waiting for R2.
        I2Sent = "i2-sent",
        /// Both ends have the context.
        Established = "established",
        /// The exchange failed; not tried again for a while.
        EFailed = "e-failed",
        /// The peer does not speak Shim6; remembered for a while.
        NoSupport = "no-support",
    }
}

open_enum! {
    /// State of reachability detection (RFC 5534 s4).
    ReapState {
        /// The current pair works, as far as is known.
        Operational = "operational",
        /// Nothing comes in: probing for a pair that works.
        Exploring = "exploring",
        /// Something comes in, and the peer has not said that it hears us.
        InboundOk = "inbound-ok",
    }
}
