use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::{Mac, PacketBuf};
use moorline_types::{Instant, named_enum};

/// An action that a host does for its neighbors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send the packet to this station.
    Send {
        /// Destination on the link.
        mac: Mac,
        /// The packet.
        packet: PacketBuf,
    },
    /// Send a Neighbor Solicitation.
    Solicit {
        /// The address whose link-layer address is asked for.
        target: Ipv6Addr,
        /// Source of the packet that prompted the solicitation. If the address belongs to the interface, it should be the source
        /// of the solicitation (RFC 4861 s7.2.2).
        source_hint: Option<Ipv6Addr>,
        /// The station to ask; `None` to ask the solicited-node group.
        to: Option<Mac>,
    },
    /// The neighbor does not answer. The host chooses another next hop for the destinations behind it, and forgets
    /// redirects to it (RFC 7048 s3).
    Unreachable {
        /// The neighbor.
        neighbor: Ipv6Addr,
        /// Packets whose senders get Destination Unreachable with code 3 (RFC 4861 s7.2.2).
        packets: Vec<PacketBuf>,
    },
    /// The neighbor was a router and is a host now. The host removes it from its routers (RFC 4861 s7.2.5).
    RouterLost(Ipv6Addr),
}

named_enum! {
    /// State of a neighbor (RFC 4861 s7.3.2, RFC 7048 s3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum State {
        /// The link-layer address is not known yet.
        Incomplete => "incomplete",
        /// Packets have reached the neighbor lately.
        Reachable => "reachable",
        /// The last confirmation is old. Nothing happens until a packet is sent.
        Stale => "stale",
        /// A packet has been sent. Upper layers have time to confirm that it arrived.
        Delay => "delay",
        /// The host asks the neighbor whether it is reachable.
        Probe => "probe",
        /// The neighbor has not answered.
        Unreachable => "unreachable",
    }
}

/// A neighbor, as `netstat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Its address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub mac: Option<Mac>,
    /// Its state.
    pub state: State,
    /// Whether the neighbor is a router.
    pub is_router: bool,
    /// Time of the last packet to it.
    pub used: Option<Instant>,
}
