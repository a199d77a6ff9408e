use std::io;
use std::os::fd::OwnedFd;

use moorline_wire::ip6::Ip6;

use crate::socket::{WHOLE, raw_socket, send};

/// Sends complete IPv6 packets, with their header.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens the socket; needs CAP_NET_RAW.
    ///
    /// # Errors
    /// The capability is missing, or the host has no IPv6.
    pub fn open() -> io::Result<Self> {
        raw_socket(WHOLE).map(Self)
    }

    /// Sends a packet by this interface; 0: by the interface of the route. The addresses are those in its header.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: the source is not an address of ours, no route, larger than the MTU, buffer full. The
    /// octets are no IPv6 packet.
    pub fn send(&self, packet: &[u8], ifindex: u32) -> io::Result<()> {
        let header = Ip6::read(packet).ok_or(io::ErrorKind::InvalidInput)?;
        send(&self.0, packet, header.source, header.destination, ifindex)
    }
}
