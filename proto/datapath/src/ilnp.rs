//! Between the sessions of ILNP and a data plane.

use alloc::sync::Arc;
use core::time::Duration;

use moorline_types::{IlvPair, Instant, L64, Nonce, SessionId};

/// What the sockets of a host have for a packet or a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Socket {
    /// Nothing would take it.
    None,
    /// One that takes packets of anybody, such as a server's; or a connection that is not there yet or no more.
    Unconnected,
    /// One that talks with this correspondent alone.
    Connected,
}

/// Which packets without a session are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Those of connected sockets: `admit`.
    #[default]
    Connected,
    /// All, even without a socket: `open`.
    All,
}

/// What a host's sockets have: the transport layer's part in a decision.
pub trait Sockets {
    /// The best socket for a packet of this protocol between these addresses and ports, ours first. One of a
    /// connection whose handshake is not over is unconnected, as anybody can begin one in anybody's name.
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket;

    /// Whether a packet is of a connection, were it the last of its handshake.
    fn has_connection(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> bool {
        self.kind(pair, protocol, ports) == Socket::Connected
    }

    /// Whether a connected socket has these addresses.
    fn any_between(&self, pair: IlvPair) -> bool;
}

/// Which locators are in the checksum of a transport on the wire.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksumMode {
    /// None: identifiers only (RFC 6741 s4.2).
    #[default]
    NidOnly,
    /// Those in the IPv6 header, as in classic IPv6.
    Full,
}

/// What a data plane tells the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Traffic between addresses without a session, and with a socket that the policy wants to hear of.
    Candidate {
        /// The addresses.
        pair: IlvPair,
        /// Upper-layer protocol.
        protocol: u8,
        /// Our port and the correspondent's; zero without ports.
        ports: (u16, u16),
        /// Our socket.
        socket: Socket,
        /// Whether the packet came in, and not out.
        inbound: bool,
        /// The nonce it came with.
        nonce: Option<Nonce>,
    },
    /// The first nonce of the correspondent came in, on a session without one. The plane goes by it already.
    Learned {
        /// The session.
        session: SessionId,
        /// The nonce.
        nonce: Nonce,
    },
    /// A packet with the right nonce came in: once after each [`Update::Upsert`] with `watch`.
    Authenticated {
        /// The session.
        session: SessionId,
    },
    /// Packets went either way; at most every [`USED_INTERVAL`].
    Used {
        /// The session.
        session: SessionId,
        /// When.
        at: Instant,
    },
    /// A socket has left no room for a nonce in a packet that needs one. It is for those who own the routes of sockets: the
    /// sessions have nothing to do.
    NoRoom {
        /// The session.
        session: SessionId,
    },
}

/// What the sessions tell a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds a session or changes it in place.
    Upsert(SessionEntry),
    /// Forgets a session: its addresses are classic IPv6 again.
    Remove {
        /// Which.
        session: SessionId,
    },
}

/// All that a data plane knows of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// Slot, unique among live sessions.
    pub id: SessionId,
    /// The addresses that sockets see.
    pub pair: IlvPair,
    /// The locators of what we send: source, destination.
    pub wire: (L64, L64),
    /// Goes into packets that we send.
    pub send_nonce: Nonce,
    /// Whether it goes into all of them now.
    pub attach: bool,
    /// Whether it does so for good. Then all that fit the uplink have it, as large as they are: routes leave room for it
    /// (decision 075).
    pub always: bool,
    /// The correspondent tells by its sockets whose a TCP segment without a nonce is (decision 071): when moved,
    /// only those go without.
    pub maps_tcp: bool,
    /// Whether the correspondent knows that we have the session. Until then, and until its first packet with a nonce, what
    /// comes without a nonce is classic IPv6, as its checksum is.
    pub settled: bool,
    /// Comes with packets of the correspondent; `None`: the first one that comes is it. A plane keeps the one
    /// it has when it is told none.
    pub receive_nonce: Option<Nonce>,
    /// Locators of the correspondent: packets from these need no nonce.
    pub remote: Arc<[L64]>,
    /// Whether the correspondent may not have the session yet. Until its nonce comes, or the core says that it has the session, packets
    /// from where the sockets are are classic IPv6, and until our first packet with a nonce after that, packets from there without one.
    pub confirming: bool,
    /// Of both directions.
    pub checksum: ChecksumMode,
    /// Report the next packet with the right nonce.
    pub watch: bool,
}

impl SessionEntry {
    /// The addresses of what we send.
    #[must_use]
    pub const fn wire_pair(&self) -> IlvPair {
        IlvPair::new(self.pair.local.at(self.wire.0), self.pair.remote.at(self.wire.1))
    }

    /// Whether the correspondent has read our nonce already when a plane is told of the session: the session of a daemon
    /// that was started anew.
    #[must_use]
    pub const fn has_told(&self) -> bool {
        self.settled && !self.watch && !self.confirming
    }
}

/// A data plane says at most this often that a session is in use: every 10 s. Not configurable.
pub const USED_INTERVAL: Duration = Duration::from_secs(10);
/// A data plane reports a pair without a session at most this often: every 10 s. Not configurable.
pub const CANDIDATE_INTERVAL: Duration = Duration::from_secs(10);
/// A data plane reports packets with a wrong nonce between the addresses of a session, whatever sockets there are, if nothing else has
/// come on that session for this time, and at most this often: 1 s (decision 146). All data planes alike, not configurable.
pub const LOST_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks for the socket of a packet that came from a stranger: at least 1 s. All data planes alike, not
/// configurable.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Octets that a route leaves of the MTU where TCP has a nonce: for that, and so that a Linux router which has put segments
/// together, and looks for their TCP header where the nonce is, does not find them too long (decision 088): 40. All data
/// planes alike, not configurable.
pub const ROOM_IN_TCP: u32 = 40;
/// Sessions of a host: 65,536. Configurable.
pub const MAX_SESSIONS: usize = 65_536;
/// Sessions with one node, each for another pair of addresses: 16. Configurable.
pub const MAX_WITH_NODE: usize = 16;
/// Locators of a correspondent that are kept, the preferred ones: 32. Not configurable.
pub const MAX_REMOTE_LOCATORS: usize = 32;
