use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use moorline_types::{Locator, LocatorPair};

use crate::socket::{RawSocket, raw_socket, send_by, set_option};

/// Listens for ICMPv6 errors: Parameter Problem, Unrecognized Next Header, that quotes protocol 140, and Packet Too Big.
#[derive(Debug)]
pub struct Icmp6Socket {
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

/// Says to peers what the kernel of a host without Shim6 says, for a host that is about to be one.
#[derive(Debug)]
pub struct RefusalSocket(OwnedFd);

impl Icmp6Socket {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = RawSocket::open(libc::IPPROTO_ICMPV6)?;
        pass_only(&socket, &[PARAMETER_PROBLEM, PACKET_TOO_BIG])?;
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
            if let Some((start, locators)) = quoted(&self.buffer[..len]) {
                let quoted = &self.buffer[start..len];
                return Ok(Icmp6Error::Unrecognized(Unrecognized { quoted, locators, source }));
            }
        }
    }
}

impl<'a> Unrecognized<'a> {
    /// Reads an ICMPv6 message whose checksum is right; `None` if it is any other.
    #[must_use]
    pub fn parse(message: &'a [u8], source: Locator) -> Option<Self> {
        let (start, locators) = quoted(message)?;
        Some(Self { quoted: message.get(start..)?, locators, source })
    }
}

impl RefusalSocket {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = raw_socket(libc::IPPROTO_ICMPV6)?;
        // It only sends; what comes in is not even queued.
        set_option(&socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &[u32::MAX; 8])?;
        Ok(Self(socket))
    }

    /// Answers a packet that has this Shim6 header: it has come, or would come, from `locators.peer` to
    /// `locators.local`. Goes out of an interface, or whichever the route says for 0.
    ///
    /// # Errors
    /// Those of sendmsg(2): the source is none of our addresses, no route, buffer full.
    pub fn refuse(
        &self,
        header: &[u8; SHIM6_HEADER],
        locators: LocatorPair,
        ifindex: u32,
    ) -> io::Result<()> {
        let message = refusal(header, locators);
        send_by(self.0.as_raw_fd(), &message, locators.local.0, locators.peer.0, ifindex)
    }
}

/// The kernel puts the checksum in.
fn refusal(header: &[u8; SHIM6_HEADER], locators: LocatorPair) -> [u8; REFUSAL] {
    let mut message = [0; REFUSAL];
    message[0] = PARAMETER_PROBLEM;
    message[1] = UNRECOGNIZED_NEXT_HEADER;
    message[4..QUOTE].copy_from_slice(&NEXT_HEADER_AT.to_be_bytes());
    let (ip6, shim6) = message[QUOTE..].split_at_mut(IPV6_HEADER);
    ip6[0] = 6 << 4;
    ip6[5] = PAYLOAD_LEN;
    ip6[6] = SHIM6;
    ip6[7] = HOPS;
    ip6[8..24].copy_from_slice(&locators.peer.octets());
    ip6[24..40].copy_from_slice(&locators.local.octets());
    shim6.copy_from_slice(header);
    message
}

/// Where the quoted Shim6 header begins, and the addresses in front of it. The kernel has checked
/// the checksum.
fn quoted(message: &[u8]) -> Option<(usize, LocatorPair)> {
    let header: &[u8; QUOTE + IPV6_HEADER] = message.first_chunk()?;
    let is_ours = header[0] == PARAMETER_PROBLEM
        && header[1] == UNRECOGNIZED_NEXT_HEADER
        // Else it is about what is behind, as our stack would send it.
        && header[4..QUOTE] == NEXT_HEADER_AT.to_be_bytes()
        && header[QUOTE] >> 4 == 6
        && header[QUOTE + 6] == SHIM6;
    is_ours.then(|| (QUOTE + IPV6_HEADER, addresses(header)))
}

fn too_big(message: &[u8]) -> Option<TooBig> {
    let header: &[u8; QUOTE + IPV6_HEADER] = message.first_chunk()?;
    let is_one = header[0] == PACKET_TOO_BIG && header[QUOTE] >> 4 == 6;
    let mtu = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let is_ignored = mtu < LEAST_MTU;
    // TCP behind the nonce of a session passes for something else. The data plane of ILNP never tells of less than 1,280, so the
    // kernel alone would do, and to ask it once more does no harm.
    let is_of_use = header[QUOTE + 6] != TCP || is_ignored;
    (is_one && is_of_use).then(|| TooBig { addresses: addresses(header), is_ignored })
}

fn addresses(header: &[u8; QUOTE + IPV6_HEADER]) -> LocatorPair {
    let address = |at: usize| {
        let octets: [u8; 16] = std::array::from_fn(|place| header[QUOTE + at + place]);
        Locator(Ipv6Addr::from(octets))
    };
    LocatorPair::new(address(8), address(24))
}

/// Has the kernel drop all other types before they wake us (RFC 3542 s3.2).
fn pass_only(socket: &RawSocket, kinds: &[u8]) -> io::Result<()> {
    // A set bit blocks a type: struct icmp6_filter of linux/icmpv6.h.
    let mut filter = [u32::MAX; 8];
    for kind in kinds {
        filter[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    }
    set_option(socket.fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, &filter)
}

/// Type of Packet Too Big (RFC 4443 s3.2).
const PACKET_TOO_BIG: u8 = 2;
/// Type of Parameter Problem (RFC 4443 s3.4).
const PARAMETER_PROBLEM: u8 = 4;
/// Its code for a next header that is not known.
const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
/// Where it points to then, in the quoted packet: the field that names Shim6.
const NEXT_HEADER_AT: u32 = 6;
/// Octets of ICMPv6 in front of the quoted packet.
const QUOTE: usize = 8;
/// Octets of the fixed IPv6 header.
const IPV6_HEADER: usize = 40;
/// Next header value of TCP.
const TCP: u8 = 6;
/// Next header value of Shim6.
const SHIM6: u8 = 140;
/// Octets of a payload header (RFC 5533 s5.2).
const SHIM6_HEADER: usize = PAYLOAD_LEN as usize;
const PAYLOAD_LEN: u8 = 8;
/// Of the quoted packet: any will do.
const HOPS: u8 = 64;
/// Octets of what a [`RefusalSocket`] sends.
const REFUSAL: usize = QUOTE + IPV6_HEADER + SHIM6_HEADER;
/// IPv6 asks for no less of any link (RFC 8200 s5).
const LEAST_MTU: u32 = 1280;
/// An error message fits the minimum IPv6 MTU (RFC 4443 s2.4).
const MAX_ERROR: usize = 2048;
/// Socket option of linux/icmpv6.h; `libc` has it for other systems only.
pub(crate) const ICMP6_FILTER: libc::c_int = 1;

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_refusal_is_what_a_peer_takes_for_one() {
        let ours = Locator("2001:db8:b2::1".parse().expect("address"));
        let theirs = Locator("2001:db8:a2::1".parse().expect("address"));
        let header = [59, 0, 0xe0, 0xbd, 0x47, 0xf6, 0x09, 0x2d];
        let message = refusal(&header, LocatorPair::new(ours, theirs));
        assert_eq!(message[..16], [4, 1, 0, 0, 0, 0, 0, 6, 0x60, 0, 0, 0, 0, 8, 140, 64]);
        let found = Unrecognized::parse(&message, ours).expect("ours");
        assert_eq!(found.quoted, header);
        assert_eq!(found.locators, LocatorPair::new(theirs, ours));
    }
}
