//! Contract between the sessions of ILNP and a data plane.

use alloc::sync::Arc;
use core::time::Duration;

use moorline_types::{IlvPair, Instant, L64, Nonce, SessionId};

/// Kind of the socket that a host has for a packet or a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Socket {
    /// No socket would take the packet.
    None,
    /// A socket that takes packets from any sender, such as the socket of a server; or a connection that is not
    /// complete yet, or that is over.
    Unconnected,
    /// A socket that is connected to this correspondent.
    Connected,
}

/// Packets without a session that a plane reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Packets of connected sockets: policy `admit`.
    #[default]
    Connected,
    /// All packets, even without a socket: policy `open`.
    All,
}

/// The sockets of a host, and the paths of their packets: the part of the layers above in a decision.
pub trait Sockets {
    /// Returns the best kind of socket for a packet of this protocol between these addresses and ports, ours first. A
    /// connection whose handshake is not complete counts as unconnected, as anybody can begin a connection in the
    /// name of another.
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket;

    /// Whether a packet belongs to a connection. The packet may be the last one of the handshake.
    fn has_connection(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> bool {
        self.kind(pair, protocol, ports) == Socket::Connected
    }

    /// Whether a connected socket has these addresses.
    fn any_between(&self, pair: IlvPair) -> bool;

    /// Octets of the largest packet that the path between two locators takes, as far as the host knows: at most the MTU
    /// of the link. `None` if the host knows no MTU.
    fn path_mtu(&self, _wire: IlvPair) -> Option<usize> {
        None
    }
}

/// Locators that are in the checksum of a transport on the wire.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksumMode {
    /// No locators: only identifiers (RFC 6741 s4.2).
    #[default]
    NidOnly,
    /// The locators in the IPv6 header, as in classic IPv6.
    Full,
}

/// A report of a data plane to the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Traffic between addresses without a session, with a socket that the policy asks for.
    Candidate {
        /// The addresses.
        pair: IlvPair,
        /// Upper-layer protocol.
        protocol: u8,
        /// Our port and the port of the correspondent; zero without ports.
        ports: (u16, u16),
        /// Kind of our socket.
        socket: Socket,
        /// Whether the packet came in. Otherwise it went out.
        inbound: bool,
        /// The nonce of the packet.
        nonce: Option<Nonce>,
    },
    /// On a session without a nonce of the correspondent, the first one has come. The plane uses it already.
    Learned {
        /// The session.
        session: SessionId,
        /// The nonce.
        nonce: Nonce,
    },
    /// A packet with the right nonce has come: once after each [`Update::Upsert`] with `watch`.
    Authenticated {
        /// The session.
        session: SessionId,
    },
    /// Packets have passed in either direction; at most one report comes in [`USED_INTERVAL`].
    Used {
        /// The session.
        session: SessionId,
        /// Time of the use.
        at: Instant,
    },
    /// A packet left [`SILENCE`] ago, and no answer has come since, although a packet came within [`USED_INTERVAL`] before:
    /// one report for each such packet, with the next packet that leaves. Any packet of the session is an answer. If the
    /// packet that left is a TCP segment with data or FIN and without SYN, or a datagram whose flow label the plane knows,
    /// one more wait ends only by a packet with the nonce, by a segment that acknowledges what a connection has in flight,
    /// by a datagram of the flow with the label, or, once it has been reported, [`SILENCE_AGAIN`] after its begin
    /// (decision 211).
    Silent {
        /// The session.
        session: SessionId,
    },
    /// A socket has left no room for a nonce in a packet that needs one. The report is for the owner of the routes of
    /// sockets; the sessions have nothing to do.
    NoRoom {
        /// The session.
        session: SessionId,
    },
}

/// A decision of the sessions for a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds a session or changes it in place.
    Upsert(SessionEntry),
    /// Forgets a session: its addresses are classic IPv6 again.
    Remove {
        /// The session.
        session: SessionId,
    },
}

/// All facts that a data plane has about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// Slot, unique among live sessions.
    pub id: SessionId,
    /// The addresses that sockets see.
    pub pair: IlvPair,
    /// The locators in packets that we send: source, destination.
    pub wire: (L64, L64),
    /// Nonce for packets that we send.
    pub send_nonce: Nonce,
    /// Whether the nonce goes into all packets now.
    pub attach: bool,
    /// Whether the nonce goes into all packets for good. Then each packet that fits the uplink has it, also a long
    /// one: routes leave room for the nonce (decision 075).
    pub always: bool,
    /// Whether the correspondent finds the session of a TCP segment without a nonce by its sockets (decision 071). If
    /// the session has moved, only such segments go without a nonce.
    pub maps_tcp: bool,
    /// Whether the correspondent knows that we have the session. Until then, and until its first packet with a nonce,
    /// a packet that comes without a nonce is classic IPv6, and so is its checksum.
    pub settled: bool,
    /// Nonce in packets of the correspondent. If it is `None`, the plane takes the first nonce that comes, or keeps
    /// the one that it has.
    pub receive_nonce: Option<Nonce>,
    /// Locators of the correspondent. A packet from one of them needs no nonce.
    pub remote: Arc<[L64]>,
    /// Whether the correspondent may not have the session yet. Until its nonce comes, or the core says that it has
    /// the session, packets that go by the addresses of the sockets are classic IPv6. After that, packets by these
    /// addresses without a nonce are classic IPv6 until our first packet with a nonce.
    pub confirming: bool,
    /// Checksum of both directions.
    pub checksum: ChecksumMode,
    /// Whether the plane reports the next packet with the right nonce.
    pub watch: bool,
}

impl SessionEntry {
    /// The addresses in packets that we send.
    #[must_use]
    pub const fn wire_pair(&self) -> IlvPair {
        IlvPair::new(self.pair.local.at(self.wire.0), self.pair.remote.at(self.wire.1))
    }

    /// Octets that the nonce may add to packets on the wire.
    #[must_use]
    pub const fn overhead(&self) -> u32 {
        match self.send_nonce {
            _ if self.always || !self.maps_tcp => ROOM_IN_TCP,
            Nonce::Short(_) => SHORT_HEADER,
            Nonce::Long(_) => LONG_HEADER,
        }
    }

    /// Whether the path of the packets is not that of the addresses of the sockets: the session has moved, or all packets
    /// have the nonce.
    #[must_use]
    pub fn needs_route(&self) -> bool {
        self.always || self.wire_pair() != self.pair
    }

    /// Whether the correspondent has read our nonce already when a plane gets the session: after a restart of the
    /// daemon.
    #[must_use]
    pub const fn has_told(&self) -> bool {
        self.settled && !self.watch && !self.confirming
    }
}

/// Shortest time between two reports that a session is in use: 10 s. Not configurable.
pub const USED_INTERVAL: Duration = Duration::from_secs(10);
/// Time without an answer after which a data plane reports that a session is silent: 500 ms, longer than TCP delays an
/// acknowledgement (RFC 5681 s4.2). Not configurable.
pub const SILENCE: Duration = Duration::from_millis(500);
/// Time after which a wait for proof that has been reported ends, from its begin: 2.5 s. The report may have found a
/// path that worked until then. All data planes alike, not configurable.
pub const SILENCE_AGAIN: Duration = Duration::from_millis(2500);
/// Shortest time between two reports of a pair without a session: 10 s. Not configurable.
pub const CANDIDATE_INTERVAL: Duration = Duration::from_secs(10);
/// If only packets with a wrong nonce have come on a session for this time, a data plane reports one of them,
/// whatever sockets there are. It is also the shortest time between two such reports: 1 s (decision 146). All data
/// planes alike, not configurable.
pub const LOST_INTERVAL: Duration = Duration::from_secs(1);
/// Reports at once of pairs without a session whose packets have no nonce: 4,096. A data plane knows as many pairs that it
/// has reported lately. If more pairs are in use, the data plane would otherwise report nearly each packet. Reports of
/// lost correspondents are not counted. All data planes alike, not configurable.
pub const CANDIDATES_BURST: u32 = 4096;
/// Time between such reports after that: 250 us. All data planes alike, not configurable.
pub const CANDIDATES_REST: Duration = Duration::from_micros(250);
/// Shortest time between two looks for the socket of a stranger's packet without a nonce: 1 s. All data planes alike,
/// not configurable.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks for the sockets of strangers' packets with a nonce: lengths of prefixes of the source, each with the looks that
/// such a prefix has at once. The shares are those of tables (decision 174): a /64 has a sixteenth of all looks, an
/// address a quarter of that, a /56 two shares and a /48 four. All data planes alike, not configurable.
pub const LOOK_SHARES: [(u8, u32); 5] = [(128, 16), (64, 64), (56, 128), (48, 256), (0, 1024)];
/// Time in which used-up [`LOOK_SHARES`] are whole again: 4 s. All data planes alike, not configurable.
pub const LOOKS_RENEWED: Duration = Duration::from_secs(4);
/// Octets of the MTU that a route leaves free where TCP has a nonce: 40. The nonce needs some of them. A Linux router
/// that has merged segments looks for their TCP header where the nonce is; with the rest it does not find them too
/// long (decision 088). All data planes alike, not configurable.
pub const ROOM_IN_TCP: u32 = 40;
/// Largest number of sessions of a host: 65,536. Configurable.
pub const MAX_SESSIONS: usize = 65_536;
/// Largest number of sessions with one node, each for another pair of addresses: 16. Configurable.
pub const MAX_WITH_NODE: usize = 16;
/// Largest number of locators of a correspondent that are kept, the preferred ones: 32. Not configurable.
pub const MAX_REMOTE_LOCATORS: usize = 32;
/// Octets of the header with a nonce of 32 bits, and with one of 96 bits.
const SHORT_HEADER: u32 = 8;
const LONG_HEADER: u32 = 16;
