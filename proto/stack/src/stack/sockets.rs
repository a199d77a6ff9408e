//! Calls on sockets, and the segments and datagrams that they cause.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::PacketBuf;
use moorline_ip::icmp::{ADDRESS_UNREACHABLE, Cause, REASSEMBLY};
use moorline_ip::ip6::{TCP, UDP};
use moorline_types::Instant;

use super::output::{AnyHeader, NO_MTU, Outgoing, Path, with_header};
use super::{Event, Stack};
use crate::error::Quote;
use crate::ip4::is_ip4;
use crate::socket::Error;
use crate::tcp::{self, Engine as _, Flow, ListenerId, TcpId, mss_to};
use crate::udp::{self, UdpId};
use crate::{Drop, Drops};

impl Stack {
    /// Creates a UDP socket: see [`udp::Sockets::bind`].
    ///
    /// # Errors
    /// As [`udp::Sockets::bind`]; [`Error::AddrNotAvailable`] if the host does not have the address.
    //= rfc6724#4-8
    pub fn udp_bind(&mut self, local: Option<Ipv6Addr>, port: Option<u16>) -> Result<UdpId, Error> {
        self.check_local(local)?;
        self.udp.bind(local, port)
    }

    /// Connects a UDP socket to a peer: see [`udp::Sockets::connect`].
    ///
    /// # Errors
    /// As [`udp::Sockets::connect`]; [`Error::NetworkUnreachable`] if the host has no route or no address for the peer.
    pub fn udp_connect(
        &mut self,
        socket: UdpId,
        peer: (Ipv6Addr, u16),
        now: Instant,
    ) -> Result<(), Error> {
        let source = self.source_for(peer.0, None, now).ok_or(Error::NetworkUnreachable)?;
        self.udp.connect(socket, source, peer)
    }

    /// Takes the oldest datagram off the queue of a socket: see [`udp::Sockets::recv`].
    ///
    /// # Errors
    /// As [`udp::Sockets::recv`].
    pub fn udp_recv(&mut self, socket: UdpId) -> Result<udp::Received, Error> {
        self.udp.recv(socket)
    }

    /// Sends a datagram: see [`udp::Sockets::send_to`].
    ///
    /// # Errors
    /// As [`udp::Sockets::send_to`]; [`Error::NetworkUnreachable`] if the host has no route or no address for the
    /// destination; [`Error::AddrNotAvailable`] if the host does not have the source address.
    //= rfc6724#4-8
    pub fn udp_send_to(
        &mut self,
        socket: UdpId,
        payload: &[u8],
        destination: Option<(Ipv6Addr, u16)>,
        options: udp::Options,
        now: Instant,
    ) -> Result<(), Error> {
        let udp::Outgoing { destination, datagram, options } =
            self.udp.send_to(socket, payload, destination, options)?;
        self.check_local(options.source)?;
        let outgoing = Outgoing {
            source: options.source,
            hop_limit: options.hop_limit,
            traffic_class: options.traffic_class.unwrap_or(0),
            ports: (datagram.source_port, datagram.destination_port),
            wire: options.wire,
            ..Outgoing::new(destination, UDP)
        };
        let result = self.send(outgoing, now, |source, out| {
            // The socket has checked the length.
            let _ = datagram.emit(source, destination, out);
        });
        self.settle(now);
        result.map_err(|drop| self.unsent(drop))
    }

    /// Ends a UDP socket.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn udp_close(&mut self, socket: UdpId, now: Instant) -> Result<(), Error> {
        for (group, wire) in self.udp.close(socket)? {
            if let Some(wire) = self.wires.iter_mut().find(|known| known.id.0 == wire) {
                wire.listener.leave(group, now);
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Local address, if there is one, and port of a UDP socket.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn udp_local(&self, socket: UdpId) -> Result<(Option<Ipv6Addr>, u16), Error> {
        self.udp.local(socket)
    }

    /// Accepts TCP connections: see [`tcp::Engine::listen`].
    ///
    /// # Errors
    /// As [`tcp::Engine::listen`]; [`Error::AddrNotAvailable`] if the host does not have the address.
    pub fn tcp_listen(
        &mut self,
        local: Option<Ipv6Addr>,
        port: u16,
        backlog: usize,
    ) -> Result<ListenerId, Error> {
        self.check_local(local)?;
        self.tcp.listen(local, port, backlog)
    }

    /// Takes an established connection off the queue of a listener.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn tcp_accept(&mut self, listener: ListenerId) -> Result<Option<TcpId>, Error> {
        self.catch_up();
        self.tcp.accept(listener)
    }

    /// Opens a TCP connection, from an address that the host chooses and a random port.
    ///
    /// # Errors
    /// [`Error::NetworkUnreachable`] if the host has no route or no address for the peer; [`Error::AddrNotAvailable`] if no
    /// port is free; as [`tcp::Engine::connect`].
    pub fn tcp_connect(&mut self, peer: (Ipv6Addr, u16), now: Instant) -> Result<TcpId, Error> {
        self.catch_up();
        let source = self.source_for(peer.0, None, now).ok_or(Error::NetworkUnreachable)?;
        let tcp = &self.tcp;
        let is_free = |port| tcp.is_free(Flow { local: (source, port), peer });
        let port =
            self.ports.for_peer(source, peer.0, peer.1, is_free).ok_or(Error::AddrNotAvailable)?;
        let id = self.tcp.connect((source, port), peer, now)?;
        self.settle(now);
        Ok(id)
    }

    /// Queues octets on a TCP connection, and returns how many: see [`tcp::Engine::send`].
    ///
    /// # Errors
    /// As [`tcp::Engine::send`].
    pub fn tcp_send(&mut self, id: TcpId, octets: &[u8], now: Instant) -> Result<usize, Error> {
        self.catch_up();
        let result = self.tcp.send(id, octets);
        self.settle(now);
        result
    }

    /// Takes octets that came in on a TCP connection, and returns how many: see [`tcp::Engine::recv`].
    ///
    /// # Errors
    /// As [`tcp::Engine::recv`].
    pub fn tcp_recv(&mut self, id: TcpId, octets: &mut [u8], now: Instant) -> Result<usize, Error> {
        self.catch_up();
        let result = self.tcp.recv(id, octets);
        self.settle(now);
        result
    }

    /// Sends a FIN behind the queued octets.
    ///
    /// # Errors
    /// As [`tcp::Engine::shutdown`].
    pub fn tcp_shutdown(&mut self, id: TcpId, now: Instant) -> Result<(), Error> {
        self.catch_up();
        let result = self.tcp.shutdown(id);
        self.settle(now);
        result
    }

    /// Ends a TCP connection with an RST.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn tcp_abort(&mut self, id: TcpId, now: Instant) -> Result<(), Error> {
        self.catch_up();
        let result = self.tcp.abort(id);
        self.settle(now);
        result
    }

    /// Gives up the name of a TCP connection: see [`tcp::Engine::close`].
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn tcp_close(&mut self, id: TcpId, now: Instant) -> Result<(), Error> {
        self.catch_up();
        let result = self.tcp.close(id);
        self.settle(now);
        result
    }

    /// Ends a listener.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn tcp_unlisten(&mut self, id: ListenerId, now: Instant) -> Result<(), Error> {
        self.catch_up();
        let result = self.tcp.unlisten(id);
        self.settle(now);
        result
    }

    /// Addresses and ports of a TCP connection, also after its end.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn tcp_flow(&self, id: TcpId) -> Result<Flow, Error> {
        self.tcp.flow(id)
    }

    /// State of a TCP connection.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    pub fn tcp_state(&self, id: TcpId) -> Result<tcp::State, Error> {
        self.tcp.state(id)
    }

    /// All TCP connections with their states: also half-open ones, those in TIME-WAIT, and those that a program has closed and that are not over.
    #[must_use]
    pub fn tcp_connections(&self) -> Vec<(Flow, tcp::State)> {
        self.tcp.all()
    }

    fn check_local(&self, local: Option<Ipv6Addr>) -> Result<(), Error> {
        if local.is_none_or(|local| self.is_own(local)) {
            return Ok(());
        }
        Err(Error::AddrNotAvailable)
    }

    /// The error for a packet that was not sent.
    //= rfc4191#3.2-1
    fn unsent(&mut self, drop: Drop) -> Error {
        self.drops.count(drop);
        if matches!(drop, Drop::NoRoute | Drop::NoSource) {
            Error::NetworkUnreachable
        } else {
            Error::NoBuffers
        }
    }

    /// Carries out what packets have caused since the last time.
    pub(super) fn catch_up(&mut self) {
        if let Some(now) = self.unsettled {
            self.settle(now);
        }
    }

    /// Carries out all that the machines want. Each input but a packet ends with it.
    pub(super) fn settle(&mut self, now: Instant) {
        self.unsettled = None;
        self.release(now);
        for _ in 0..MAX_ROUNDS {
            // Errors come first: one may wait for its neighbor, which is for `settle_wires` to send.
            while let Some(expired) = self.reassembly.poll_output() {
                self.report(Cause::TimeExceeded(REASSEMBLY), expired.arrival, &expired.quote, now);
            }
            self.settle_tcp(now);
            self.settle_wires(now);
            while let Some(socket) = self.udp.poll_readable() {
                self.events.push_back(Event::Udp(socket));
            }
            if self.local.is_empty() {
                return;
            }
            self.deliver_local(now);
            self.release(now);
        }
    }

    fn settle_tcp(&mut self, now: Instant) {
        while let Some(outgoing) = self.tcp.poll_segment(now) {
            let result = self.send_tcp(outgoing, now);
            self.count(result);
        }
        while let Some(event) = self.tcp.poll_event() {
            if let tcp::Event::Reachable(flow) = event {
                self.confirm(flow, now);
            } else {
                self.events.push_back(Event::Tcp(event));
            }
        }
    }

    /// Announces the MSS of the smallest link to the peers of new connections.
    pub(super) fn follow_mtus(&mut self) {
        let least = self.wires.iter().map(|wire| wire.routers.mtu()).min();
        if let Some(mtu) = least {
            self.tcp.set_mss(mss_of(mtu));
        }
    }

    /// Sends a segment, or the segments of a super-segment, with the MSS that the path has at this moment. A wire that cuts super-segments gets
    /// them whole.
    //= rfc8201#4-6 rfc8201#5.1-1 rfc8201#5.2-6 rfc8201#5.2-7 rfc8201#5.4-1 rfc8201#5.4-3
    //= rfc8201#5.4-6
    fn send_tcp(&mut self, segment: tcp::Outgoing, now: Instant) -> Result<(), Drop> {
        let tcp::Outgoing { source, destination, .. } = segment;
        let path = self.path(destination, source, None, now).ok_or(Drop::NoRoute)?;
        let header = self.header_of(source, destination, &segment.segment)?;
        let mss = mss_to(destination, mss_of(path.mtu));
        let size = segment.segment_size(mss);
        if size.is_some() && self.is_cut_by_wire(path) {
            let mut whole = segment.segment;
            whole.set_segment_size(size);
            return self.emit(with_header(header, whole)?, path, now);
        }
        let mut segments = segment.into_segments(mss);
        if size.is_some() {
            let others = self.transmit_cut(segments, header, path, now);
            let Some(others) = others else { return Ok(()) };
            segments = others;
        }
        for segment in segments.by_ref() {
            self.emit(with_header(header, segment)?, path, now)?;
        }
        if let Some(spent) = segments.into_spent() {
            self.tcp.spares().give(spent);
        }
        Ok(())
    }

    /// Sends a TCP segment as it is.
    pub(super) fn send_segment(
        &mut self,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        segment: PacketBuf,
        path: Path,
        now: Instant,
    ) -> Result<(), Drop> {
        let header = self.header_of(source, destination, &segment)?;
        self.emit(with_header(header, segment)?, path, now)
    }

    /// The header of packets with the flow of a TCP segment.
    fn header_of(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        segment: &[u8],
    ) -> Result<AnyHeader, Drop> {
        let mut outgoing = Outgoing { source: Some(source), ..Outgoing::new(destination, TCP) };
        if let Some(&[a, b, c, d]) = segment.first_chunk() {
            outgoing.ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        }
        self.header(source, outgoing)
    }

    /// TCP knows that packets reach the peer, so they reach the neighbor on the way (RFC 4861 s7.3.1).
    //= rfc4861#7.3.1-1
    fn confirm(&mut self, flow: Flow, now: Instant) {
        let path = self.path_for(NO_MTU, flow.peer.0, flow.local.0, None, now);
        let Some(way) = path.and_then(|path| path.way) else { return };
        if let Some(wire) = self.wires.iter_mut().find(|wire| wire.id == way.wire) {
            wire.confirm(way.next_hop, now);
        }
    }

    /// Tells the socket that sent a packet that its next hop does not answer.
    //= rfc4443#3.1-1
    pub(super) fn tell_unreachable(&mut self, packet: &PacketBuf, now: Instant) {
        let read = if is_ip4(packet) { Quote::parse_ip4 } else { Quote::parse };
        let Some(quote) = read(packet) else { return };
        // If no socket has sent the packet, nobody needs to hear of it.
        let _ = self.tell(quote.source, &quote, Cause::Unreachable(ADDRESS_UNREACHABLE), now);
        // TCP may have something to say about it, and it has been asked already.
        self.unsettled = Some(now);
    }

    pub(super) fn count(&mut self, result: Result<(), Drop>) {
        if let Err(drop) = result {
            self.drops.count(drop);
        }
    }

    /// The drops of the host and of its machines.
    pub(super) fn all_drops(&self) -> Drops {
        let of_wires = self.wires.iter().flat_map(super::wire::Wire::drops);
        let mut all = self.drops.clone();
        for drops in
            of_wires.chain([self.reassembly.drops(), self.tcp.drops(), self.destinations.drops()])
        {
            all.add(drops);
        }
        all
    }
}

/// Octets of options and payload of a TCP segment in a packet of this size.
//= rfc8200#8.3-1 rfc8200#8.3-2
fn mss_of(mtu: u32) -> u16 {
    u16::try_from(mtu.saturating_sub(MTU_LESS_MSS)).unwrap_or(u16::MAX)
}

/// Largest number of rounds in which the host answers itself.
const MAX_ROUNDS: usize = 64;
/// Octets of the headers of IPv6 and TCP.
const MTU_LESS_MSS: u32 = 40 + 20;
