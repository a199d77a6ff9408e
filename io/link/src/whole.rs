use std::io;
use std::os::fd::OwnedFd;

use moorline_wire::ip6::Ip6;

use crate::socket::{WHOLE, raw_socket, send};

/// Sends IPv6 packets that somebody else has made, header and all.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens it; needs CAP_NET_RAW.
    ///
    /// # Errors
    /// Without the capability, or without IPv6.
    pub fn open() -> io::Result<Self> {
        raw_socket(WHOLE).map(Self)
    }

    /// Sends a packet out of this interface, or whichever the route says for 0; the addresses are those in its header.
    ///
    /// # Errors
    /// Those of sendmsg(2): the source is none of our addresses, no route, larger than the MTU, buffer full. No
    /// IPv6 packet.
    pub fn send(&self, packet: &[u8], ifindex: u32) -> io::Result<()> {
        let header = Ip6::read(packet).ok_or(io::ErrorKind::InvalidInput)?;
        send(&self.0, packet, header.source, header.destination, ifindex)
    }
}
