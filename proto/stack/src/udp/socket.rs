use alloc::collections::{BTreeSet, VecDeque};
use core::net::Ipv6Addr;
use core::ops::Range;

use moorline_ip::{Header, ip4, udp};

use super::table::{Bound, Connected};
use super::{DATAGRAM_OVERHEAD, Incoming, Options, Outgoing, Received};
use crate::Drop;
use crate::socket::Error;

/// One socket: its names, its queue, and the error that waits for the next call.
pub(super) struct Socket {
    pub(super) bound: Bound,
    pub(super) connected: Option<Connected>,
    pub(super) is_shared: bool,
    /// Groups, each with its wire.
    pub(super) groups: BTreeSet<(Ipv6Addr, u32)>,
    pub(super) error: Option<Error>,
    queue: VecDeque<Received>,
    /// Octets in the queue, with overhead.
    queued: usize,
    limit: usize,
}

impl Socket {
    pub(super) fn new(bound: Bound, limit: usize) -> Self {
        Self {
            bound,
            connected: None,
            is_shared: false,
            groups: BTreeSet::new(),
            error: None,
            queue: VecDeque::new(),
            queued: 0,
            limit,
        }
    }

    /// Whether a datagram to a group is for this member of the group.
    pub(super) fn accepts_group(&self, header: &Header, source_port: u16) -> bool {
        let is_from_peer = self.connected.is_none_or(|connected| {
            (connected.peer, connected.peer_port) == (header.source, source_port)
        });
        is_from_peer && self.bound.local.is_none_or(|local| local == header.destination)
    }

    /// Queues a datagram: the packet itself, or a copy of the payload.
    pub(super) fn deliver(
        &mut self,
        datagram: &mut Incoming<'_>,
        is_taken: bool,
    ) -> Result<(), Drop> {
        let Range { start, end } = datagram.payload;
        let memory = if is_taken { datagram.packet.memory() } else { end - start };
        let octets = memory + DATAGRAM_OVERHEAD;
        if self.queued + octets > self.limit {
            return Err(Drop::SocketFull);
        }
        let payload = if is_taken {
            core::mem::take(datagram.packet)
        } else {
            datagram.packet.get(start..end).unwrap_or_default().to_vec().into()
        };
        let header = datagram.header;
        self.queue.push_back(Received {
            payload,
            source: header.source,
            source_port: datagram.source_port,
            destination: header.destination,
            wire: datagram.wire,
            hop_limit: header.hop_limit,
            traffic_class: header.traffic_class,
        });
        if let Some(received) = self.queue.back_mut() {
            // The memory of a copy may be larger than the payload.
            self.queued += octets_of(received);
            if is_taken {
                received.payload.truncate(end);
                received.payload.strip(start);
            }
        }
        Ok(())
    }

    pub(super) fn recv(&mut self) -> Result<Received, Error> {
        let received = self.queue.pop_front().ok_or(Error::WouldBlock)?;
        self.queued -= octets_of(&received);
        Ok(received)
    }

    /// Drops datagrams from others than the new peer: the program must not take them for datagrams of the peer.
    pub(super) fn keep_only(&mut self, peer: (Ipv6Addr, u16)) {
        self.queue.retain(|received| (received.source, received.source_port) == peer);
        self.queued = self.queue.iter().map(octets_of).sum();
    }

    pub(super) fn prepare<'a>(
        &self,
        payload: &'a [u8],
        destination: Option<(Ipv6Addr, u16)>,
        mut options: Options,
    ) -> Result<Outgoing<'a>, Error> {
        let peer = self.connected.map(|connected| (connected.peer, connected.peer_port));
        let (destination, destination_port) = match (destination, peer) {
            (None, None) => return Err(Error::NotConnected),
            (Some(chosen), Some(peer)) if chosen != peer => return Err(Error::AlreadyConnected),
            (Some(end), _) | (None, Some(end)) => end,
        };
        if destination.is_unspecified() || destination_port == 0 {
            return Err(Error::Invalid);
        }
        // The length of an IPv4 packet counts its header, too.
        let header = if destination.to_ipv4_mapped().is_some() { ip4::LEN } else { 0 };
        let most = udp::MAX_PAYLOAD - header;
        if payload.len() > most {
            return Err(Error::MessageSize(most));
        }
        let own = self.connected.map(|connected| connected.local).or(self.bound.local);
        // A socket may be bound to a group to receive only the datagrams to it. A group is no source (RFC 4291 s2.7).
        options.source = options.source.or(own).filter(|source| !source.is_multicast());
        let datagram = udp::Datagram { source_port: self.bound.port, destination_port, payload };
        Ok(Outgoing { destination, datagram, options })
    }

    pub(super) const fn take_error(&mut self) -> Result<(), Error> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.error.is_some() || !self.queue.is_empty()
    }
}

/// Octets that a datagram counts in a queue.
const fn octets_of(received: &Received) -> usize {
    received.payload.memory() + DATAGRAM_OVERHEAD
}
