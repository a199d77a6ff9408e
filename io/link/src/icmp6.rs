use std::io;

use moorline_types::{Locator, LocatorPair};
use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ip6::{IP6_LEN, Ip6, MIN_MTU, TCP};

use crate::socket::{Datagram, RawSocket};

/// Receives ICMPv6 errors: Parameter Problem with code Unrecognized Next Header that quotes protocol 140, and Packet
/// Too Big.
#[derive(Debug)]
pub struct Icmp6Socket {
    socket: RawSocket,
    buffer: Vec<u8>,
}

/// Receives Router Advertisements. Each host is a member of the group to which routers advertise.
#[derive(Debug)]
pub struct RouterSocket {
    socket: RawSocket,
    buffer: Vec<u8>,
}

/// A received error.
#[derive(Debug)]
pub enum Icmp6Error<'a> {
    /// A peer does not know Shim6.
    Unrecognized(Unrecognized<'a>),
    /// A packet was too long for its path. The kernel decides by itself whether that is true.
    TooBig(TooBig),
}

/// A router's message that a packet was too long. TCP sockets learn it from the kernel, so for TCP this type has only
/// messages that the kernel ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// Source and destination of the quoted packet.
    pub addresses: LocatorPair,
    /// Whether the kernel ignores the message, as the MTU is less than IPv6 allows (RFC 8200 s5). This happens on a
    /// path with the least MTU, once the octets of a header are subtracted.
    pub is_ignored: bool,
}

/// A peer's message that it does not know Shim6. It is no more trustworthy than any unsigned packet of the network.
#[derive(Debug)]
pub struct Unrecognized<'a> {
    /// The quoted part of the packet, from its Shim6 header on.
    pub quoted: &'a [u8],
    /// Source and destination of the quoted packet.
    pub locators: LocatorPair,
    /// Sender of the message.
    pub source: Locator,
}

impl Icmp6Socket {
    /// Opens the socket.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the host has no IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = RawSocket::icmp6(&[PARAMETER_PROBLEM, PACKET_TOO_BIG])?;
        Ok(Self { socket, buffer: vec![0; MAX_ERROR] })
    }

    /// Waits for the next error. Cancel safe.
    ///
    /// # Errors
    /// The errors of recvmsg(2).
    pub async fn receive(&mut self) -> io::Result<Icmp6Error<'_>> {
        loop {
            let received = self.socket.receive(&mut self.buffer).await?;
            let (len, source) = (received.len, Locator(received.source));
            if let Some(told) = too_big(&self.buffer[..len]) {
                return Ok(Icmp6Error::TooBig(told));
            }
            if let Some(locators) = quoted(&self.buffer[..len]) {
                let quoted = &self.buffer[QUOTE + IP6_LEN..len];
                return Ok(Icmp6Error::Unrecognized(Unrecognized { quoted, locators, source }));
            }
        }
    }
}

impl RouterSocket {
    /// Opens the socket. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the host has no IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = RawSocket::icmp6(&[ROUTER_ADVERTISEMENT])?;
        Ok(Self { socket, buffer: vec![0; MAX_MESSAGE] })
    }

    /// Waits for the next message, valid or not. Cancel safe.
    ///
    /// # Errors
    /// The errors of recvmsg(2).
    pub async fn receive(&mut self) -> io::Result<(Datagram, &[u8])> {
        let heard = self.socket.receive(&mut self.buffer).await?;
        Ok((heard, &self.buffer[..heard.len]))
    }
}

impl<'a> Unrecognized<'a> {
    /// Reads an ICMPv6 message with a right checksum; `None` if it is any other message.
    #[must_use]
    pub fn parse(message: &'a [u8], source: Locator) -> Option<Self> {
        let locators = quoted(message)?;
        Some(Self { quoted: message.get(QUOTE + IP6_LEN..)?, locators, source })
    }
}

/// Addresses in front of a quoted Shim6 header. The kernel has verified the checksum.
fn quoted(message: &[u8]) -> Option<LocatorPair> {
    let (error, packet) = message.split_first_chunk::<QUOTE>()?;
    let ip6 = Ip6::read(packet)?;
    let is_ours = error.starts_with(&[PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER])
        // Otherwise the error is about the header behind, as our own stack would send it.
        && error.ends_with(&NEXT_HEADER_AT.to_be_bytes())
        && ip6.next_header == SHIM6;
    is_ours.then(|| addresses(&ip6))
}

fn too_big(message: &[u8]) -> Option<TooBig> {
    let (&[kind, _, _, _, m0, m1, m2, m3], packet) = message.split_first_chunk::<QUOTE>()?;
    let ip6 = Ip6::read(packet)?;
    let is_ignored = u32::from_be_bytes([m0, m1, m2, m3]) < MIN_MTU.into();
    // TCP behind the nonce of a session does not look like TCP. The data plane of ILNP never reports less than 1,280,
    // so the kernel alone would suffice; to ask it once more does no harm.
    let is_of_use = ip6.next_header != TCP || is_ignored;
    let is_one = kind == PACKET_TOO_BIG && is_of_use;
    is_one.then(|| TooBig { addresses: addresses(&ip6), is_ignored })
}

const fn addresses(ip6: &Ip6) -> LocatorPair {
    LocatorPair::new(Locator(ip6.source), Locator(ip6.destination))
}

/// Type of a Router Advertisement (RFC 4861 s4.2).
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Octets; no link has an MTU that allows more without fragments, which Neighbor Discovery forbids (RFC 6980).
const MAX_MESSAGE: usize = 9216;
/// Type of Packet Too Big (RFC 4443 s3.2).
pub(crate) const PACKET_TOO_BIG: u8 = 2;
/// Type of Parameter Problem (RFC 4443 s3.4).
pub(crate) const PARAMETER_PROBLEM: u8 = 4;
/// Code of a Parameter Problem for an unknown next header.
pub(crate) const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
/// Pointer of that Parameter Problem in the quoted packet: the field that names Shim6.
pub(crate) const NEXT_HEADER_AT: u32 = 6;
/// Octets of ICMPv6 in front of the quoted packet.
const QUOTE: usize = 8;
/// Octets, more than an error message has: it fits the minimum IPv6 MTU (RFC 4443 s2.4).
const MAX_ERROR: usize = 2048;

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn error_quoting(next_header: u8, kind: u8, code: u8) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0, 0, 0, 0, 6];
        message.extend([0x60, 0, 0, 0, 0, 16, next_header, 64]);
        message.extend([0x20; 16]);
        message.extend([0x21; 16]);
        message.extend([59, 1]);
        message
    }

    #[test]
    fn finds_the_quoted_shim6_header() {
        let message = error_quoting(140, 4, 1);
        let source = Locator(Ipv6Addr::LOCALHOST);
        let found = Unrecognized::parse(&message, source).expect("ours");
        let Unrecognized { quoted, locators, source: by } = found;
        assert_eq!((quoted, by), (&[59, 1][..], source));
        assert_eq!(locators.local.octets(), [0x20; 16]);
        assert_eq!(locators.peer.octets(), [0x21; 16]);
    }

    #[test]
    fn finds_the_addresses_of_a_packet_that_was_too_long() {
        let quoting = |next_header: u8, mtu: u32| {
            let mut message = error_quoting(next_header, 2, 0);
            message[4..8].copy_from_slice(&mtu.to_be_bytes());
            too_big(&message)
        };
        let found = quoting(17, 1280).expect("one of UDP");
        assert_eq!(found.addresses.local.octets(), [0x20; 16]);
        assert_eq!(found.addresses.peer.octets(), [0x21; 16]);
        assert!(!found.is_ignored);
        assert!(quoting(17, 1279).expect("one of UDP").is_ignored);
        assert!(quoting(6, 1280).is_none(), "the socket of TCP learns it from the kernel");
        assert!(quoting(6, 1279).expect("one that the kernel ignores").is_ignored);
        assert!(too_big(&error_quoting(17, 4, 0)).is_none());
        assert!(too_big(&error_quoting(17, 2, 0)[..47]).is_none());
    }

    #[test]
    fn passes_over_what_quotes_no_shim6() {
        assert!(quoted(&error_quoting(6, 4, 1)).is_none());
        assert!(quoted(&error_quoting(140, 4, 2)).is_none());
        assert!(quoted(&error_quoting(140, 1, 1)).is_none());
        assert!(quoted(&error_quoting(140, 4, 1)[..47]).is_none());
        let mut about_the_header_behind = error_quoting(140, 4, 1);
        about_the_header_behind[7] = 40;
        assert!(quoted(&about_the_header_behind).is_none());
    }
}
