use std::io;

use moorline_types::{Locator, LocatorPair};
use moorline_wire::PROTOCOL as SHIM6;

use crate::filter::{attach, program};
use crate::socket::{RawSocket, send};

/// The two sockets of protocol 140.
///
/// The kernel sorts received packets into them. Packets that strangers may send wait in a queue of their own:
/// messages that establish contexts, and payload of unknown contexts. If that queue overflows, no packet that keeps
/// an established context alive is lost.
#[derive(Debug)]
pub struct Shim6Socket {
    /// Sockets, indexed by [`Queue`].
    sockets: [RawSocket; 2],
    buffer: Vec<u8>,
}

/// Kind of sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Peers with a context: Update, Keepalive, Probe, Error. Types 64 to 127 (RFC 5533 s17).
    Established,
    /// Any node: messages that establish contexts, and payload.
    Strangers,
}

/// A packet of protocol 140.
#[derive(Debug)]
pub struct Received<'a> {
    /// Octets from Next Header of the Shim6 header on.
    pub octets: &'a [u8],
    /// Destination and source of its IPv6 header.
    pub locators: LocatorPair,
}

impl Shim6Socket {
    /// Opens the sockets.
    ///
    /// # Errors
    /// CAP_NET_RAW or CAP_NET_ADMIN is missing, or the host has no IPv6.
    pub fn open() -> io::Result<Self> {
        let open = |queue| {
            let socket = RawSocket::open(SHIM6)?;
            attach(socket.fd(), &mut program(queue))?;
            socket.reserve(QUEUE_OCTETS)?;
            io::Result::Ok(socket)
        };
        let sockets = [open(Queue::Established)?, open(Queue::Strangers)?];
        Ok(Self { sockets, buffer: vec![0; MAX_PACKET] })
    }

    /// Waits until a queue may have a packet. Cancel safe.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn ready(&self, queue: Queue) -> io::Result<()> {
        self.sockets[queue as usize].ready().await
    }

    /// Returns the next packet of a queue, or none if it is empty.
    ///
    /// # Errors
    /// The errors of recvmsg(2).
    pub fn try_receive(&mut self, queue: Queue) -> io::Result<Option<Received<'_>>> {
        let received = self.sockets[queue as usize].try_receive(&mut self.buffer)?;
        Ok(received.map(|datagram| Received {
            octets: &self.buffer[..datagram.len],
            locators: LocatorPair::new(Locator(datagram.destination), Locator(datagram.source)),
        }))
    }

    /// Sends a control message from an address of ours by this interface; 0: by the interface of the route.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: the source is no longer ours, no route, buffer full.
    pub fn send(&self, octets: &[u8], locators: LocatorPair, ifindex: u32) -> io::Result<()> {
        send(self.sockets[0].fd(), octets, locators.local.0, locators.peer.0, ifindex)
    }
}

/// Octets of the largest IPv6 packet.
const MAX_PACKET: usize = 65_535;
/// Octets of each queue, as the kernel counts them: some 2,000 messages. A site that loses an ISP receives a thousand
/// probes a second for each peer host at most.
const QUEUE_OCTETS: usize = 1 << 20;
