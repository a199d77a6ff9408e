//! UDP sockets (RFC 768).
//!
//! A datagram goes to the most specific socket: one that is connected to its sender, then one that is bound to its destination
//! address, then one that is bound to the port alone. A datagram to a group goes to all sockets that have joined the group. Each
//! socket has a queue with a limit in octets, so a flood at one port costs the other ports nothing.
//!
//! Look-ups take O(log n) time in the number of sockets. The tables hold only what the programs of this host have bound.

mod socket;
mod table;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::ops::Range;

use moorline_ip::address::ALL_NODES;
use moorline_ip::icmp::Cause;
use moorline_ip::{Header, PacketBuf, udp};
use rand_chacha::ChaCha20Rng;

use crate::Drop;
use crate::port::Ports;
use crate::socket::{Error, Owner};
use crate::tcp::Flow;
use socket::Socket;
use table::{Bound, Connected, Table};

/// Name of a UDP socket. No two sockets of a host ever have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UdpId(u64);

/// A datagram that came in, with what a program may want to know about its packet (RFC 3542 s6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Payload, as a rule in the memory in which the packet came.
    pub payload: PacketBuf,
    /// Source address.
    pub source: Ipv6Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination address: an address of the host, or a group.
    pub destination: Ipv6Addr,
    /// The wire on which the datagram came in. It is the zone of a link-local source.
    pub wire: u32,
    /// Hop Limit of the packet.
    pub hop_limit: u8,
    /// Traffic Class of the packet.
    pub traffic_class: u8,
}

/// A datagram that comes in, in its packet.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The header of the packet.
    pub header: &'a Header,
    /// The wire on which the packet came in.
    pub wire: u32,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// The packet. A socket may take it: then it is empty.
    pub packet: &'a mut PacketBuf,
    /// Where the payload is in the packet.
    pub payload: Range<usize>,
}

/// How a datagram is to be sent. The stack chooses what is `None`.
//= rfc8504#5.12-1
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Source address. The stack checks that it is an address of the host.
    pub source: Option<Ipv6Addr>,
    /// Hop Limit.
    pub hop_limit: Option<u8>,
    /// Traffic Class.
    pub traffic_class: Option<u8>,
    /// The wire. It is the zone of a link-local destination or a group.
    pub wire: Option<u32>,
}

/// A datagram to send. The stack chooses the source address and builds the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Destination address.
    pub destination: Ipv6Addr,
    /// The datagram without its checksum.
    pub datagram: udp::Datagram<'a>,
    /// Source address and fields of the packet. The source is the address to which the socket is bound, if it is.
    pub options: Options,
}

/// Ports and addresses of a datagram that an ICMPv6 error quotes. The source is the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Source address.
    pub source: Ipv6Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Destination port.
    pub destination_port: u16,
}

/// All UDP sockets of a host.
pub struct Sockets {
    sockets: BTreeMap<UdpId, Socket>,
    table: Table,
    /// Sockets that have become readable.
    readable: VecDeque<UdpId>,
    ports: Ports,
    limit: usize,
    next: u64,
}

impl Sockets {
    /// Creates a host without sockets. The ports of sockets without a chosen port come from `rng`.
    #[must_use]
    pub fn new(rng: ChaCha20Rng) -> Self {
        Self {
            sockets: BTreeMap::new(),
            table: Table::default(),
            readable: VecDeque::new(),
            ports: Ports::new(rng),
            limit: RECEIVE_LIMIT,
            next: 0,
        }
    }

    /// Sets the limit of the queues of sockets, in octets (default [`RECEIVE_LIMIT`]). Sockets that exist keep theirs.
    pub const fn set_receive_limit(&mut self, octets: usize) {
        self.limit = octets;
    }

    /// Creates a socket for datagrams to an address, or to all addresses. Without a port, the socket gets a random one.
    ///
    /// # Errors
    /// [`Error::AddrInUse`] if a socket has this address and port; a socket of one address and a socket of all
    /// addresses may share a port. [`Error::AddrNotAvailable`] if no port is free. [`Error::Invalid`] for port zero.
    /// [`Error::NoBuffers`] above [`MAX_SOCKETS`].
    pub fn bind(&mut self, local: Option<Ipv6Addr>, port: Option<u16>) -> Result<UdpId, Error> {
        let port = match port {
            Some(port) => port,
            None => self
                .ports
                .random(|port| self.table.is_port_free(port))
                .ok_or(Error::AddrNotAvailable)?,
        };
        let bound = Bound { port, local };
        if self.table.has_bound(bound) {
            return Err(Error::AddrInUse);
        }
        self.create(bound)
    }

    /// Creates a socket that shares its address and port with others. Each socket gets the datagrams to the groups
    /// that it joins; other datagrams go to the socket that was created last. See [`Self::bind`].
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::NoBuffers`]; [`Error::AddrInUse`] if a socket that does not share has the address.
    pub fn bind_shared(&mut self, local: Option<Ipv6Addr>, port: u16) -> Result<UdpId, Error> {
        let bound = Bound { port, local };
        let is_shared = |id: &UdpId| self.sockets.get(id).is_some_and(|socket| socket.is_shared);
        if !self.table.sharers(bound).iter().all(is_shared) {
            return Err(Error::AddrInUse);
        }
        let id = self.create(bound)?;
        self.socket(id)?.is_shared = true;
        Ok(id)
    }

    /// Connects a socket: it receives datagrams and errors from this peer only. `source` is the address of the host
    /// towards the peer; the stack chooses it if the socket is not bound to an address.
    ///
    /// # Errors
    /// [`Error::AlreadyConnected`]; [`Error::AddrInUse`] if another socket has the same addresses and ports;
    /// [`Error::Invalid`] for an unspecified peer or port zero; [`Error::BadHandle`].
    pub fn connect(
        &mut self,
        id: UdpId,
        source: Ipv6Addr,
        peer: (Ipv6Addr, u16),
    ) -> Result<(), Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::BadHandle)?;
        if socket.connected.is_some() {
            return Err(Error::AlreadyConnected);
        }
        if peer.0.is_unspecified() || peer.1 == 0 {
            return Err(Error::Invalid);
        }
        let local = socket.bound.local.unwrap_or(source);
        let connected =
            Connected { port: socket.bound.port, local, peer: peer.0, peer_port: peer.1 };
        self.table.connect(socket.bound, connected, id)?;
        socket.connected = Some(connected);
        socket.keep_only(peer);
        Ok(())
    }

    /// Closes a socket, and leaves its groups. Returns the groups that no socket has joined any more: the host leaves
    /// them.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn close(&mut self, id: UdpId) -> Result<Vec<(Ipv6Addr, u32)>, Error> {
        let socket = self.sockets.remove(&id).ok_or(Error::BadHandle)?;
        self.table.remove(id, &socket);
        let left = socket.groups.iter().copied();
        Ok(left
            .filter(|&(group, wire)| self.table.leave(group, wire, socket.bound.port, id))
            .collect())
    }

    /// Lets a socket receive the datagrams to a group on a wire. Returns whether the socket is the first with this group: then
    /// the host has to join the group.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the address is no group; [`Error::AddrInUse`] if the socket has joined the group before;
    /// [`Error::NoBuffers`] above [`MAX_GROUPS`]; [`Error::BadHandle`].
    pub fn join(&mut self, id: UdpId, group: Ipv6Addr, wire: u32) -> Result<bool, Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::BadHandle)?;
        if !group.is_multicast() {
            return Err(Error::Invalid);
        }
        if socket.groups.len() >= MAX_GROUPS {
            return Err(Error::NoBuffers);
        }
        if !socket.groups.insert((group, wire)) {
            return Err(Error::AddrInUse);
        }
        Ok(self.table.join(group, wire, socket.bound.port, id))
    }

    /// Ends [`Self::join`]. Returns whether the socket was the last with this group: then the host has to leave it.
    ///
    /// # Errors
    /// [`Error::AddrNotAvailable`] if the socket has not joined the group; [`Error::BadHandle`].
    pub fn leave(&mut self, id: UdpId, group: Ipv6Addr, wire: u32) -> Result<bool, Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::BadHandle)?;
        if !socket.groups.remove(&(group, wire)) {
            return Err(Error::AddrNotAvailable);
        }
        Ok(self.table.leave(group, wire, socket.bound.port, id))
    }

    /// Handles a datagram for the host whose checksum is right.
    ///
    /// # Errors
    /// [`Drop::NoSocket`] if no socket has the port: the host answers with Port Unreachable, unless the destination is a
    /// group (RFC 4443 s3.1, s2.4). [`Drop::SocketFull`] if the queue of the socket, or of each member of the group, is full.
    pub fn handle_datagram(&mut self, mut datagram: Incoming<'_>) -> Result<(), Drop> {
        let header = datagram.header;
        if header.destination.is_multicast() {
            return self.handle_group(datagram);
        }
        let connected = Connected {
            port: datagram.destination_port,
            local: header.destination,
            peer: header.source,
            peer_port: datagram.source_port,
        };
        let id = self.table.find(connected).ok_or(Drop::NoSocket)?;
        let socket = self.sockets.get_mut(&id).ok_or(Drop::NoSocket)?;
        note(&mut self.readable, id, socket);
        let is_taken = datagram.packet.memory() <= datagram.payload.len() + MAX_SPARE;
        socket.deliver(&mut datagram, is_taken)
    }

    /// Each socket that takes the datagram gets a copy.
    fn handle_group(&mut self, mut datagram: Incoming<'_>) -> Result<(), Drop> {
        let mut result = Err(Drop::NoSocket);
        let Incoming { header, wire, destination_port: port, .. } = datagram;
        let members = self.table.members(header.destination, wire, port);
        // Each host is a member of the group of all nodes (RFC 4291 s2.8), so no socket needs to join it.
        let is_for_all = header.destination == ALL_NODES && members.is_empty();
        let open = if is_for_all { self.table.of_all(port) } else { &[] };
        for id in members.iter().chain(open) {
            let Some(socket) = self.sockets.get_mut(id) else { continue };
            if socket.accepts_group(header, datagram.source_port) {
                note(&mut self.readable, *id, socket);
                let delivered = socket.deliver(&mut datagram, false);
                result = if result.is_ok() { result } else { delivered };
            }
        }
        result
    }

    /// Handles an ICMPv6 error that quotes a datagram of the host. The error waits at the socket that is connected to
    /// the quoted destination, until a call on the socket reports it.
    ///
    /// # Errors
    /// [`Drop::ForeignError`] if no connected socket has sent the datagram. A socket that is not connected learns of no
    /// errors, as it could not tell by which of its datagrams they came (RFC 1122 s4.1.3.3, 8085 s5.2).
    pub fn handle_error(&mut self, quote: Quote, cause: Cause) -> Result<(), Drop> {
        let id = self.table.connected(quote.connected()).ok_or(Drop::ForeignError)?;
        let socket = self.sockets.get_mut(&id).ok_or(Drop::ForeignError)?;
        note(&mut self.readable, id, socket);
        socket.error = Error::of_cause(cause).or(socket.error);
        Ok(())
    }

    /// Whether a socket may have sent a datagram: it is connected to the destination, or bound to the source.
    #[must_use]
    pub fn has_sent(&self, quote: Quote) -> bool {
        self.table.find(quote.connected()).is_some()
    }

    /// The socket that takes the datagrams of a flow.
    pub(crate) fn owner(&self, flow: Flow) -> Owner {
        let ends = Connected {
            port: flow.local.1,
            local: flow.local.0,
            peer: flow.peer.0,
            peer_port: flow.peer.1,
        };
        match (self.table.connected(ends), self.table.find(ends)) {
            (Some(_), _) => Owner::Connection,
            (None, Some(_)) => Owner::Anyone,
            (None, None) => Owner::None,
        }
    }

    /// Whether a socket is connected between two addresses.
    pub(crate) fn is_any_between(&self, local: Ipv6Addr, peer: Ipv6Addr) -> bool {
        self.table.is_any_between(local, peer)
    }

    /// The next socket that has got a datagram since its queue was empty.
    #[must_use]
    pub fn poll_readable(&mut self) -> Option<UdpId> {
        self.readable.pop_front()
    }

    /// Takes the oldest datagram off the queue of a socket.
    ///
    /// # Errors
    /// An error that an ICMPv6 message has reported, once; [`Error::WouldBlock`] if the queue is empty;
    /// [`Error::BadHandle`].
    pub fn recv(&mut self, id: UdpId) -> Result<Received, Error> {
        let socket = self.socket(id)?;
        socket.take_error()?;
        socket.recv()
    }

    /// Prepares a datagram. Without a destination, it goes to the peer to which the socket is connected.
    ///
    /// # Errors
    /// An error that an ICMPv6 message has reported, once; [`Error::NotConnected`] without any destination;
    /// [`Error::AlreadyConnected`] if a connected socket has another destination; [`Error::MessageSize`];
    /// [`Error::Invalid`] for an unspecified destination or port zero; [`Error::BadHandle`].
    pub fn send_to<'a>(
        &mut self,
        id: UdpId,
        payload: &'a [u8],
        destination: Option<(Ipv6Addr, u16)>,
        options: Options,
    ) -> Result<Outgoing<'a>, Error> {
        let socket = self.socket(id)?;
        socket.take_error()?;
        socket.prepare(payload, destination, options)
    }

    /// Local address, if the socket is bound to one or connected, and port.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn local(&self, id: UdpId) -> Result<(Option<Ipv6Addr>, u16), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::BadHandle)?;
        let connected = socket.connected.map(|connected| connected.local);
        Ok((connected.or(socket.bound.local), socket.bound.port))
    }

    /// Peer to which the socket is connected.
    ///
    /// # Errors
    /// [`Error::NotConnected`], [`Error::BadHandle`].
    pub fn peer(&self, id: UdpId) -> Result<(Ipv6Addr, u16), Error> {
        let socket = self.sockets.get(&id).ok_or(Error::BadHandle)?;
        let connected = socket.connected.ok_or(Error::NotConnected)?;
        Ok((connected.peer, connected.peer_port))
    }

    /// Whether [`Self::recv`] would return a datagram or a reported error now.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn is_readable(&self, id: UdpId) -> Result<bool, Error> {
        self.sockets.get(&id).map(Socket::is_readable).ok_or(Error::BadHandle)
    }

    /// Names of all sockets, oldest first.
    pub fn ids(&self) -> impl Iterator<Item = UdpId> + '_ {
        self.sockets.keys().copied()
    }

    fn create(&mut self, bound: Bound) -> Result<UdpId, Error> {
        if bound.port == 0 || bound.local.is_some_and(|local| local.is_unspecified()) {
            return Err(Error::Invalid);
        }
        if self.sockets.len() >= MAX_SOCKETS {
            return Err(Error::NoBuffers);
        }
        let id = UdpId(self.next);
        self.next += 1;
        self.table.bind(bound, id);
        self.sockets.insert(id, Socket::new(bound, self.limit));
        Ok(id)
    }

    fn socket(&mut self, id: UdpId) -> Result<&mut Socket, Error> {
        self.sockets.get_mut(&id).ok_or(Error::BadHandle)
    }
}

impl Quote {
    /// The ends of the datagram, as a connected socket has them.
    const fn connected(self) -> Connected {
        Connected {
            port: self.source_port,
            local: self.source,
            peer: self.destination,
            peer_port: self.destination_port,
        }
    }
}

/// Notes a socket that becomes readable. Each socket is noted once until it has been read.
fn note(readable: &mut VecDeque<UdpId>, id: UdpId, socket: &Socket) {
    if !socket.is_readable() {
        readable.push_back(id);
    }
}

/// Default limit of the queue of a socket, in octets with [`DATAGRAM_OVERHEAD`] (the default of Linux).
pub const RECEIVE_LIMIT: usize = 212_992;
/// Octets that a datagram in a queue counts besides the memory of its payload.
pub const DATAGRAM_OVERHEAD: usize = 128;
/// Octets that the memory of a payload in a queue has more than the payload, at most: for headers, and the room in front of them.
pub const MAX_SPARE: usize = 512;
/// Largest number of UDP sockets of a host.
pub const MAX_SOCKETS: usize = 65_536;
/// Largest number of groups that one socket joins.
pub const MAX_GROUPS: usize = 1_024;

#[cfg(test)]
mod tests;
