use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::UdpId;
use super::socket::Socket;
use crate::socket::Error;

/// Where a socket is bound. `None` stands for all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bound {
    pub(super) port: u16,
    pub(super) local: Option<Ipv6Addr>,
}

/// Addresses and ports of a connected socket. Sockets between two addresses are neighbors in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Connected {
    pub(super) local: Ipv6Addr,
    pub(super) peer: Ipv6Addr,
    pub(super) port: u16,
    pub(super) peer_port: u16,
}

/// Sockets that share an address and port.
#[derive(Default)]
struct Sharers {
    all: Vec<UdpId>,
    /// Those without a peer, which receive the datagrams of everybody.
    unconnected: Vec<UdpId>,
}

/// Index of the sockets.
#[derive(Default)]
pub(super) struct Table {
    bound: BTreeMap<Bound, Sharers>,
    connected: BTreeMap<Connected, UdpId>,
    groups: BTreeMap<(Ipv6Addr, u32), BTreeMap<u16, Vec<UdpId>>>,
}

impl Table {
    pub(super) fn has_bound(&self, bound: Bound) -> bool {
        self.bound.contains_key(&bound)
    }

    pub(super) fn sharers(&self, bound: Bound) -> &[UdpId] {
        self.bound.get(&bound).map_or(&[], |sharers| &sharers.all)
    }

    /// Whether no socket has the port, at any address.
    pub(super) fn is_port_free(&self, port: u16) -> bool {
        let first = Bound { port, local: None };
        self.bound.range(first..).next().is_none_or(|(bound, _)| bound.port != port)
    }

    pub(super) fn bind(&mut self, bound: Bound, id: UdpId) {
        let sharers = self.bound.entry(bound).or_default();
        sharers.all.push(id);
        sharers.unconnected.push(id);
    }

    pub(super) fn connect(
        &mut self,
        bound: Bound,
        connected: Connected,
        id: UdpId,
    ) -> Result<(), Error> {
        if self.connected.contains_key(&connected) {
            return Err(Error::AddrInUse);
        }
        self.connected.insert(connected, id);
        if let Some(sharers) = self.bound.get_mut(&bound) {
            sharers.unconnected.retain(|other| *other != id);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, id: UdpId, socket: &Socket) {
        if let Some(connected) = socket.connected {
            self.connected.remove(&connected);
        }
        let Some(sharers) = self.bound.get_mut(&socket.bound) else { return };
        sharers.all.retain(|other| *other != id);
        sharers.unconnected.retain(|other| *other != id);
        if sharers.all.is_empty() {
            self.bound.remove(&socket.bound);
        }
    }

    /// The socket for a datagram with these addresses and ports: the connected one, else the last one that is bound to
    /// the address, else the last one that is bound to the port alone. A connected socket is no candidate for the datagrams of others.
    pub(super) fn find(&self, ends: Connected) -> Option<UdpId> {
        self.connected(ends).or_else(|| {
            let at = |local| self.unconnected(Bound { port: ends.port, local });
            at(Some(ends.local)).or_else(|| at(None))
        })
    }

    pub(super) fn connected(&self, ends: Connected) -> Option<UdpId> {
        self.connected.get(&ends).copied()
    }

    pub(super) fn is_any_between(&self, local: Ipv6Addr, peer: Ipv6Addr) -> bool {
        let first = Connected { local, peer, port: 0, peer_port: 0 };
        let next = self.connected.range(first..).next();
        next.is_some_and(|(ends, _)| (ends.local, ends.peer) == (local, peer))
    }

    /// Joins a group, and returns whether it is new.
    pub(super) fn join(&mut self, group: Ipv6Addr, wire: u32, port: u16, id: UdpId) -> bool {
        let is_new = !self.groups.contains_key(&(group, wire));
        self.groups.entry((group, wire)).or_default().entry(port).or_default().push(id);
        is_new
    }

    /// Leaves a group, and returns whether it has no member any more.
    pub(super) fn leave(&mut self, group: Ipv6Addr, wire: u32, port: u16, id: UdpId) -> bool {
        let Some(ports) = self.groups.get_mut(&(group, wire)) else { return false };
        if let Some(ids) = ports.get_mut(&port) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                ports.remove(&port);
            }
        }
        let is_empty = ports.is_empty();
        if is_empty {
            self.groups.remove(&(group, wire));
        }
        is_empty
    }

    pub(super) fn members(&self, group: Ipv6Addr, wire: u32, port: u16) -> &[UdpId] {
        let ports = self.groups.get(&(group, wire));
        ports.and_then(|ports| ports.get(&port)).map_or(&[], Vec::as_slice)
    }

    /// The sockets without a peer that are bound to the port at all addresses.
    pub(super) fn of_all(&self, port: u16) -> &[UdpId] {
        let sharers = self.bound.get(&Bound { port, local: None });
        sharers.map_or(&[], |sharers| &sharers.unconnected)
    }

    fn unconnected(&self, bound: Bound) -> Option<UdpId> {
        self.bound.get(&bound)?.unconnected.last().copied()
    }
}
