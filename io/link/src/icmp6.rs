use std::io;

use moorline_types::{Locator, LocatorPair};
use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ip6::{IP6_LEN, Ip6, MIN_MTU, TCP};

use crate::socket::{Datagram, RawSocket};

/// Listens for ICMPv6 errors: Parameter Problem, Unrecognized Next Header, that quotes protocol 140, and Packet Too Big.
#[derive(Debug)]
pub struct Icmp6Socket {
    socket: RawSocket,
    buffer: Vec<u8>,
}

/// Listens for Router Advertisements. Every host is a member of the group that routers advertise to.
#[derive(Debug)]
pub struct RouterSocket {
    socket: RawSocket,
    buffer: Vec<u8>,
}

/// An error that was received.
#[derive(Debug)]
pub enum Icmp6Error<'a> {
    /// A peer knows no Shim6.
    Unrecognized(Unrecognized<'a>),
    /// A packet was too long for its path. The kernel has its own opinion on whether that is true.
    TooBig(TooBig),
}

/// A router's word that a packet was too long. Of TCP, whose sockets learn from the kernel, only what the kernel ignores is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// Source and destination of the quoted packet.
    pub addresses: LocatorPair,
    /// Whether the kernel ignores it, as the MTU is less than IPv6 allows (RFC 8200 s5). A path with the least MTU has less
    /// once the octets of a header are taken off.
    pub is_ignored: bool,
}

/// A peer's word that it knows no Shim6; as hostile as anything unsigned from the network.
#[derive(Debug)]
pub struct Unrecognized<'a> {
    /// The quoted packet from its Shim6 header on, as far as it was quoted.
    pub quoted: &'a [u8],
    /// Source and destination of the quoted packet.
    pub locators: LocatorPair,
    /// Who says so.
    pub source: Locator,
}

impl Icmp6Socket {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = RawSocket::icmp6(&[PARAMETER_PROBLEM, PACKET_TOO_BIG])?;
        Ok(Self { socket, buffer: vec![0; MAX_ERROR] })
    }

    /// Waits for the next one. Cancel safe.
    ///
    /// # Errors
    /// Those of recvmsg(2).
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
    /// Opens it; has to be called inside a tokio runtime.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = RawSocket::icmp6(&[ROUTER_ADVERTISEMENT])?;
        Ok(Self { socket, buffer: vec![0; MAX_MESSAGE] })
    }

    /// Waits for the next one, valid or not. Cancel safe.
    ///
    /// # Errors
    /// Those of recvmsg(2).
    pub async fn receive(&mut self) -> io::Result<(Datagram, &[u8])> {
        let heard = self.socket.receive(&mut self.buffer).await?;
        Ok((heard, &self.buffer[..heard.len]))
    }
}

impl<'a> Unrecognized<'a> {
    /// Reads an ICMPv6 message whose checksum is right; `None` if it is any other.
    #[must_use]
    pub fn parse(message: &'a [u8], source: Locator) -> Option<Self> {
        let locators = quoted(message)?;
        Some(Self { quoted: message.get(QUOTE + IP6_LEN..)?, locators, source })
    }
}

/// The addresses in front of a quoted Shim6 header. The kernel has checked the checksum.
fn quoted(message: &[u8]) -> Option<LocatorPair> {
    let (error, packet) = message.split_first_chunk::<QUOTE>()?;
    let ip6 = Ip6::read(packet)?;
    let is_ours = error.starts_with(&[PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER])
        // Else it is about what is behind, as our stack would send it.
        && error.ends_with(&NEXT_HEADER_AT.to_be_bytes())
        && ip6.next_header == SHIM6;
    is_ours.then(|| addresses(&ip6))
}

fn too_big(message: &[u8]) -> Option<TooBig> {
    let (&[kind, _, _, _, m0, m1, m2, m3], packet) = message.split_first_chunk::<QUOTE>()?;
    let ip6 = Ip6::read(packet)?;
    let is_ignored = u32::from_be_bytes([m0, m1, m2, m3]) < MIN_MTU.into();
    // TCP behind the nonce of a session passes for something else. The data plane of ILNP never tells of less than 1,280, so the
    // kernel alone would do, and to ask it once more does no harm.
    let is_of_use = ip6.next_header != TCP || is_ignored;
    let is_one = kind == PACKET_TOO_BIG && is_of_use;
    is_one.then(|| TooBig { addresses: addresses(&ip6), is_ignored })
}

const fn addresses(ip6: &Ip6) -> LocatorPair {
    LocatorPair::new(Locator(ip6.source), Locator(ip6.destination))
}

/// Type of a Router Advertisement (RFC 4861 s4.2).
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Longer than any link's MTU allows without fragments, which Neighbor Discovery forbids (RFC 6980).
const MAX_MESSAGE: usize = 9216;
/// Type of Packet Too Big (RFC 4443 s3.2).
pub(crate) const PACKET_TOO_BIG: u8 = 2;
/// Type of Parameter Problem (RFC 4443 s3.4).
pub(crate) const PARAMETER_PROBLEM: u8 = 4;
/// Its code for a next header that is not known.
pub(crate) const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
/// Where it points to then, in the quoted packet: the field that names Shim6.
pub(crate) const NEXT_HEADER_AT: u32 = 6;
/// Octets of ICMPv6 in front of the quoted packet.
const QUOTE: usize = 8;
/// An error message fits the minimum IPv6 MTU (RFC 4443 s2.4).
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
