use std::io;

use moorline_types::{Locator, LocatorPair};
use moorline_wire::PROTOCOL as SHIM6;

use crate::filter::{attach, program};
use crate::socket::{RawSocket, send};

/// The sockets of protocol 140.
///
/// There are two, and the kernel sorts what comes in. What strangers may send, exchanges that make a context and
/// payload of a context that is not there, waits in a queue of its own: when it overflows, nothing is lost of what
/// keeps established contexts alive.
#[derive(Debug)]
pub struct Shim6Socket {
    /// By [`Queue`].
    sockets: [RawSocket; 2],
    buffer: Vec<u8>,
}

/// Who may have sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Messages of contexts: Update, Keepalive, Probe, Error. Types 64 to 127 (RFC 5533 s17).
    Established,
    /// Everything else: messages that make contexts, and payload.
    Strangers,
}

/// A packet of protocol 140.
#[derive(Debug)]
pub struct Received<'a> {
    /// From the Next Header octet of the Shim6 header on.
    pub octets: &'a [u8],
    /// Destination and source of its IPv6 header.
    pub locators: LocatorPair,
}

impl Shim6Socket {
    /// Opens them.
    ///
    /// # Errors
    /// Without CAP_NET_RAW and CAP_NET_ADMIN, or without IPv6.
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

    /// The next packet of a queue, or none if it is empty.
    ///
    /// # Errors
    /// Those of recvmsg(2).
    pub fn try_receive(&mut self, queue: Queue) -> io::Result<Option<Received<'_>>> {
        let received = self.sockets[queue as usize].try_receive(&mut self.buffer)?;
        Ok(received.map(|datagram| Received {
            octets: &self.buffer[..datagram.len],
            locators: LocatorPair::new(Locator(datagram.destination), Locator(datagram.source)),
        }))
    }

    /// Sends a control message from one of our addresses, out of an interface, or whichever the route says for 0.
    ///
    /// # Errors
    /// Those of sendmsg(2): the source is not ours any more, no route, buffer full.
    pub fn send(&self, octets: &[u8], locators: LocatorPair, ifindex: u32) -> io::Result<()> {
        send(self.sockets[0].fd(), octets, locators.local.0, locators.peer.0, ifindex)
    }
}

/// The largest IPv6 packet.
const MAX_PACKET: usize = 65_535;
/// Of each queue, as the kernel counts it: some 2,000 messages. A site that loses an ISP hears a thousand probes a
/// second for each peer host at most.
const QUEUE_OCTETS: usize = 1 << 20;
