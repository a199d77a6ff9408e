use crate::ilcc::IlnpStatus;
use crate::open_enum::open_enum;
use crate::readiness::{Readiness, Survival};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// Answer to `GET /v1/status`: overview of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Start of the daemon, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Send Timeout in milliseconds (RFC 5534 s7): silence that starts exploration.
    pub send_timeout_ms: u64,
    /// Data plane that handles the packets.
    pub data_plane: DataPlane,
    /// Interfaces that lead to an ISP.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// Number of contexts by state.
    #[serde(default)]
    pub contexts: ContextCounts,
    /// Consequences of the loss of each uplink that contexts use.
    #[serde(default)]
    pub survival: Vec<Survival>,
    /// Age in milliseconds of the numbers in `survival` and `ilnp`. If there are very many contexts and sessions, the daemon
    /// counts these numbers beside its work, once in some seconds at most.
    #[serde(default)]
    pub counted_ms_ago: u64,
    /// Contexts and sessions that are missing from `survival` and `ilnp`, because the daemon has not counted all of them yet
    /// since its start.
    #[serde(default)]
    pub uncounted: u64,
    /// State of ILNPv6; none if ILNPv6 is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ilnp: Option<IlnpStatus>,
    /// Packets and reports dropped since the start, by reason, including ILNP. A reason without a drop may be absent.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Warnings for the operator: each says what is wrong and what to do.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Peers that sockets are connected to and that earn no context by the configuration, some of them.
    #[serde(default)]
    pub excluded: Vec<Excluded>,
    /// Longest turn of the event loop since the start, in microseconds: time in which the daemon looked at nothing new.
    #[serde(default)]
    pub longest_turn_us: u64,
}

/// A peer whose traffic earns no context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Excluded {
    /// The peer.
    pub peer: Ipv6Addr,
    /// Which setting says so, for a person.
    pub why: String,
}

/// Query of `GET /v1/exclusion`: why no traffic with a peer earns a context. The answer is `null` if some traffic may, or if
/// there is a context with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExclusionQuery {
    /// The peer.
    pub peer: Ipv6Addr,
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
    /// Whether `uplink-probes`, peers of contexts or the router show that the uplink carries no packets.
    #[serde(default)]
    pub failing: bool,
    /// Whether none of `uplink-probes` has answered by the uplink for some seconds. If they answer by no uplink, none is
    /// `failing`.
    #[serde(default)]
    pub silent: bool,
    /// Seconds for which new connections still keep away from the uplink, because its carrier has come back after several
    /// losses. None if new connections may use the uplink.
    #[serde(default)]
    pub avoided_secs: Option<u64>,
    /// MTU in octets.
    pub mtu: u32,
    /// Next hop of the default route; none on point-to-point links or while there is no route.
    pub gateway: Option<Ipv6Addr>,
    /// Addresses of the uplink that peers may learn.
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
    /// Proof by which a peer can verify that the address is ours.
    pub proof: Proof,
    /// Whether the address is temporary (RFC 8981).
    #[serde(default)]
    pub temporary: bool,
    /// Whether the daemon tells peers of the address.
    pub announced: bool,
}

/// Number of contexts by state. A moved or exploring context also counts as established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextCounts {
    /// Contexts whose I1 or I2 has no answer yet.
    pub establishing: u64,
    /// Established contexts, exploring or not.
    pub established: u64,
    /// Established contexts whose REAP state is not Operational.
    pub exploring: u64,
    /// Established contexts whose locators differ from the ULIDs.
    pub moved: u64,
    /// Contexts of the daemon before that this one has not taken over yet. No other number counts these.
    pub waiting: u64,
    /// Addresses of peers that did not answer, or do not speak Shim6 (E-FAILED, NO-SUPPORT).
    pub no_support: u64,
}

/// A context: state that a pair of hosts keeps for a pair of ULIDs (RFC 5533 s6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Number in this host, reused after removal; [`u32::MAX`] in the states E-FAILED and NO-SUPPORT, which have no number.
    pub id: u32,
    /// The address that local sockets see.
    pub ulid_local: Ipv6Addr,
    /// The peer's address that local sockets see.
    pub ulid_peer: Ipv6Addr,
    /// Role of this host in the establishment.
    pub role: Role,
    /// State of the establishment.
    pub state: ContextState,
    /// State of reachability detection (RFC 5534 s4).
    pub reap: ReapState,
    /// Our end of the current pair: source of the packets that we send.
    pub locator_local: Ipv6Addr,
    /// The peer's end of the current pair: destination of the packets that we send.
    pub locator_peer: Ipv6Addr,
    /// Whether the current pair is not the ULID pair.
    pub moved: bool,
    /// Reason why this pair is current, for a person.
    pub why: String,
    /// Whether the connection survives the loss of the current pair; none from a daemon without this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Time when this pair became current, milliseconds since 1970; 0 before the context is established.
    pub since_unix_ms: u64,
    /// Locators of this host that the peer knows.
    #[serde(default)]
    pub local_locators: Vec<Ipv6Addr>,
    /// Verified locators of the peer.
    #[serde(default)]
    pub peer_locators: Vec<Ipv6Addr>,
    /// Payload packets sent.
    #[serde(default)]
    pub tx_packets: u64,
    /// Octets of these packets.
    #[serde(default)]
    pub tx_bytes: u64,
    /// Payload packets received.
    #[serde(default)]
    pub rx_packets: u64,
    /// Octets of these packets.
    #[serde(default)]
    pub rx_bytes: u64,
    /// Milliseconds since the last payload packet sent; none if there was none.
    pub last_tx_ms_ago: Option<u64>,
    /// Milliseconds since the last payload packet received; none if there was none.
    pub last_rx_ms_ago: Option<u64>,
}

impl Context {
    /// Returns the pair of addresses that sockets see.
    #[must_use]
    pub const fn ulids(&self) -> Pair {
        Pair { local: self.ulid_local, peer: self.ulid_peer }
    }

    /// Returns the current locator pair.
    #[must_use]
    pub const fn locators(&self) -> Pair {
        Pair { local: self.locator_local, peer: self.locator_peer }
    }
}

/// A pair of addresses, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// Our end.
    pub local: Ipv6Addr,
    /// The peer's end.
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

/// Body of every error answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Error and its place.
    pub error: String,
    /// Advice.
    pub help: Option<String>,
}

/// Folders of a daemon that restores the host and ends. If the daemon leaves files, they are in these folders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Down {
    /// Folder of keys, addresses, contexts and sessions.
    pub state_dir: PathBuf,
    /// Folder of the pinned programs and tables.
    pub pin_dir: PathBuf,
}

open_enum! {
    /// Kind of data plane.
    DataPlane {
        /// eBPF programs attached by tcx links (kernel 6.6 and later).
        Tcx = "tcx",
        /// eBPF programs attached as classic tc filters.
        Tc = "tc",
        /// Data plane in user space.
        User = "user",
    }
}

open_enum! {
    /// Proof by which a peer can verify a locator.
    Proof {
        /// Hash-based address (RFC 5535): the addresses of its set prove each other.
        Hba = "hba",
        /// Hash-based address with a key: its set proves itself, and the key signs for others.
        HbaCompatible = "hba-compatible",
        /// Cryptographically generated address (RFC 3972): its key signs for this address and others.
        Cga = "cga",
        /// No proof: the address can be a ULID, and no connection can move to it.
        None = "none",
    }
}

open_enum! {
    /// Role of this host in the establishment of a context.
    Role {
        /// This host sent the I1.
        Initiator = "initiator",
        /// The peer sent the I1.
        Responder = "responder",
    }
}

open_enum! {
    /// State of the establishment (RFC 5533 s6.2).
    ContextState {
        /// I1 sent, waiting for R1.
        I1Sent = "i1-sent",
        /// I2 sent, waiting for R2.
        I2Sent = "i2-sent",
        /// Both ends have the context.
        Established = "established",
        /// The exchange failed; the host does not try again for a while.
        EFailed = "e-failed",
        /// The peer does not speak Shim6; the host remembers this for a while.
        NoSupport = "no-support",
    }
}

open_enum! {
    /// State of reachability detection (RFC 5534 s4).
    ReapState {
        /// The current pair works, as far as is known.
        Operational = "operational",
        /// No packet arrives: the host probes for a pair that works.
        Exploring = "exploring",
        /// Packets arrive, and the peer has not confirmed that it receives ours.
        InboundOk = "inbound-ok",
    }
}
