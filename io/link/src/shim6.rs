use std::io;

use moorline_types::{Locator, LocatorPair};

use crate::socket::RawSocket;

/// Protocol number of Shim6 (RFC 5533 s17).
const PROTOCOL: i32 = 140;

/// The socket of protocol 140.
#[derive(Debug)]
pub struct Shim6Socket {
    socket: RawSocket,
    buffer: Vec<u8>,
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
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: RawSocket::open(PROTOCOL)?, buffer: vec![0; MAX_PACKET] })
    }

    /// Waits for the next packet. Cancel safe.
    ///
    /// # Errors
    /// Those of recvmsg(2).
    pub async fn receive(&mut self) -> io::Result<Received<'_>> {
        let datagram = self.socket.receive(&mut self.buffer).await?;
        Ok(Received {
            octets: &self.buffer[..datagram.len],
            locators: LocatorPair::new(Locator(datagram.destination), Locator(datagram.source)),
        })
    }

    /// Sends a control message from one of our addresses.
    ///
    /// # Errors
    /// Those of sendmsg(2): the source is not ours any more, no route, buffer full.
    pub fn send(&self, octets: &[u8], locators: LocatorPair) -> io::Result<()> {
        self.socket.send(octets, locators.local.0, locators.peer.0)
    }
}

/// The largest IPv6 packet.
const MAX_PACKET: usize = 65_535;
