//! Inputs for a layer beneath the upper layers, which makes the host's addresses or carries packets with other addresses than
//! those that sockets see: Shim6 (RFC 5533 s4.6) and ILNP.

use core::net::Ipv6Addr;

use moorline_ip::Mac;
use moorline_ip::ip6::MIN_MTU;
use moorline_types::Instant;

use super::wire::Wire;
use super::{Stack, WireId};
use crate::Drop;
use crate::address::{Address, Given};
use crate::router::Route;
use crate::socket::Owner;
use crate::tcp::{Engine as _, Flow};

/// How a layer beneath carries the packets of a pair of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Source address on the wire.
    pub source: Ipv6Addr,
    /// Destination address on the wire.
    pub destination: Ipv6Addr,
    /// Most octets that the layer puts into a packet.
    pub overhead: u16,
    /// Octets that the layer puts into each packet, so that errors about packets are without them.
    pub least: u16,
}

/// The state of a wire.
#[derive(Clone, Copy, Debug)]
pub struct WireView<'a>(&'a Wire);

impl WireView<'_> {
    /// The wire.
    #[must_use]
    pub const fn id(&self) -> WireId {
        self.0.id
    }

    /// Whether its link is up.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.0.is_up
    }

    /// The link-layer address of the host.
    #[must_use]
    pub const fn mac(&self) -> Mac {
        self.0.mac
    }

    /// MTU of the link in octets.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.0.routers.mtu()
    }

    /// The addresses.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.0.addresses.iter()
    }

    /// The routes by way of routers.
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.0.routers.routes()
    }

    /// Whether packets reach this neighbor, by the last that the host has seen of it.
    #[must_use]
    pub fn is_reachable(&self, neighbor: Ipv6Addr, now: Instant) -> bool {
        self.0.neighbors.is_reachable(neighbor, now) == Some(true)
    }

    /// The on-link prefixes.
    pub fn prefixes(&self) -> impl Iterator<Item = moorline_types::Prefix> + '_ {
        self.0.routers.prefixes().map(|(prefix, _)| prefix)
    }
}

impl Stack {
    /// The state of all wires.
    pub fn wires(&self) -> impl Iterator<Item = WireView<'_>> {
        self.wires.iter().map(WireView)
    }

    /// Adds an address to a wire, or changes the ends of an address that is there. The host tells by events what becomes of it.
    ///
    /// # Errors
    /// [`Drop::NoRoute`] if there is no such wire; [`Drop::BadSource`] if the address is no unicast address;
    /// [`Drop::PrefixLimit`] at a limit.
    pub fn add_address(&mut self, wire: WireId, given: &Given, now: Instant) -> Result<(), Drop> {
        let wire = self.wires.iter_mut().find(|known| known.id == wire).ok_or(Drop::NoRoute)?;
        let result = wire.addresses.add(given, now);
        self.settle(now);
        result
    }

    /// Removes an address from a wire.
    pub fn remove_address(&mut self, wire: WireId, address: Ipv6Addr, now: Instant) {
        if let Some(wire) = self.wires.iter_mut().find(|known| known.id == wire) {
            wire.addresses.remove(address, now);
        }
        self.settle(now);
    }

    /// Whether packets to this address stay in the host.
    #[must_use]
    pub fn has_address(&self, address: Ipv6Addr) -> bool {
        address.is_loopback() || self.is_ours(address)
    }

    /// Notes how packets from `source` to `destination` leave: `None` if with these addresses. Path MTU, next hop, and the word
    /// of TCP that the next hop is reachable follow. The caller bounds the number of such pairs.
    pub fn set_carried(
        &mut self,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        carried: Option<Carried>,
    ) {
        match carried {
            Some(carried) => self.carried.insert((source, destination), carried),
            None => self.carried.remove(&(source, destination)),
        };
    }

    /// Octets of the largest packet that leaves with these addresses, as far as is known; `None` if the source is not of the host.
    #[must_use]
    pub fn path_mtu(&self, source: Ipv6Addr, destination: Ipv6Addr, now: Instant) -> Option<u32> {
        let wire = self.wires.iter().find(|wire| wire.addresses.is_ours(source))?;
        Some(self.destinations.pmtu(wire.id.0, destination, wire.routers.mtu(), now))
    }

    /// Tells the TCP connections between two addresses that their packets take another path now: see
    /// [`tcp::Engine::handle_move`](crate::tcp::Engine::handle_move).
    pub fn handle_move(&mut self, local: Ipv6Addr, peer: Ipv6Addr, now: Instant) {
        for flow in self.tcp.flows_between(local, peer) {
            // The flow was there a moment ago.
            let _ = self.tcp.handle_move(flow, now);
        }
        self.settle(now);
    }

    /// Whether a TCP connection or a connected UDP socket exists between two addresses.
    #[must_use]
    pub fn has_connection(&self, local: Ipv6Addr, peer: Ipv6Addr) -> bool {
        !self.tcp.flows_between(local, peer).is_empty() || self.udp.is_any_between(local, peer)
    }

    /// Finds the TCP socket for a segment of this flow.
    #[must_use]
    pub fn tcp_owner(&self, flow: Flow) -> Owner {
        self.tcp.owner(flow)
    }

    /// Finds the UDP socket for a datagram of this flow.
    #[must_use]
    pub fn udp_owner(&self, flow: Flow) -> Owner {
        self.udp.owner(flow)
    }

    pub(super) fn is_carried(&self, source: Ipv6Addr, destination: Ipv6Addr) -> bool {
        self.carried.contains_key(&(source, destination))
    }

    /// The addresses of a pair on the wire, and the MTU there, if an error says that `mtu` octets are left for a packet of the upper layers.
    pub(super) fn on_wire(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        mtu: u32,
    ) -> (Ipv6Addr, Ipv6Addr, u32) {
        match self.carried.get(&(source, destination)) {
            Some(one) => {
                // If the packet had more than the least, the MTU is larger, and no link has less than 1280.
                let [least, most] =
                    [one.least, one.overhead].map(|more| mtu.saturating_add(more.into()));
                (one.source, one.destination, least.max(most.min(MIN_MTU.into())))
            }
            None => (source, destination, mtu),
        }
    }
}
