use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::socket::{raw_socket, send_by};

/// Sends IPv6 packets that somebody else has made, header and all.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens it; needs CAP_NET_RAW.
    ///
    /// # Errors
    /// Without the capability, or without IPv6.
    pub fn open() -> io::Result<Self> {
        // Of this protocol, the header is included (ipv6(7), raw(7)).
        raw_socket(libc::IPPROTO_RAW).map(Self)
    }

    /// Sends a packet out of this interface, or whichever the route says for 0; the addresses are those in its header.
    ///
    /// # Errors
    /// Those of sendmsg(2): the source is none of our addresses, no route, larger than the MTU, buffer full. No
    /// IPv6 packet.
    pub fn send(&self, packet: &[u8], ifindex: u32) -> io::Result<()> {
        let address = |at: usize| {
            let octets = packet.get(at..)?.first_chunk::<16>()?;
            Some(Ipv6Addr::from(*octets))
        };
        let addresses = address(SOURCE_AT).zip(address(DESTINATION_AT));
        let (source, destination) = addresses.ok_or(io::ErrorKind::InvalidInput)?;
        send_by(self.0.as_raw_fd(), packet, source, destination, ifindex)
    }
}

const SOURCE_AT: usize = 8;
const DESTINATION_AT: usize = 24;
