use std::io;
use std::net::Ipv6Addr;

use moorline_types::{Locator, LocatorPair};

use crate::socket::{RawSocket, set_option};

/// Listens for ICMPv6 Parameter Problem, Unrecognized Next Header, that quotes protocol 140.
#[derive(Debug)]
pub struct Icmp6Socket {
    socket: RawSocket,
    buffer: Vec<u8>,
}

/// A peer's word that it knows no Shim6; as hostile as anything unsigned from the network.
#[derive(Debug)]
pub struct Unrecognized<'a> {
    /// The quoted packet from its Shim6 header on, as far as it was quoted.
    pub quoted: &'a [u8],
    /// Source and destination of the quoted packet.
    pub locators: LocatorPair,
}

impl Icmp6Socket {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = RawSocket::open(libc::IPPROTO_ICMPV6)?;
        pass_only(&socket, PARAMETER_PROBLEM)?;
        Ok(Self { socket, buffer: vec![0; MAX_ERROR] })
    }

    /// Waits for the next one. Cancel safe.
    ///
    /// # Errors
    /// Those of recvmsg(2).
    pub async fn receive(&mut self) -> io::Result<Unrecognized<'_>> {
        loop {
            let len = self.socket.receive(&mut self.buffer).await?.len;
            if let Some((start, locators)) = quoted(&self.buffer[..len]) {
                return Ok(Unrecognized { quoted: &self.buffer[start..len], locators });
            }
        }
    }
}

impl<'a> Unrecognized<'a> {
    /// Reads an ICMPv6 message whose checksum is right; `None` if it is any other.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (start, locators) = quoted(message)?;
        Some(Self { quoted: message.get(start..)?, locators })
    }
}

/// Where the quoted Shim6 header begins, and the addresses in front of it. The kernel has checked
/// the checksum.
fn quoted(message: &[u8]) -> Option<(usize, LocatorPair)> {
    let header: &[u8; QUOTE + IPV6_HEADER] = message.first_chunk()?;
    let is_ours = header[0] == PARAMETER_PROBLEM
        && header[1] == UNRECOGNIZED_NEXT_HEADER
        && header[QUOTE] >> 4 == 6
        && header[QUOTE + 6] == SHIM6;
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().ok()?;
        Some(Locator(Ipv6Addr::from(octets)))
    };
    let locators = LocatorPair::new(address(QUOTE + 8)?, address(QUOTE + 24)?);
    is_ours.then_some((QUOTE + IPV6_HEADER, locators))
}

/// Has the kernel drop all other types before they wake us (RFC 3542 s3.2).
fn pass_only(socket: &RawSocket, kind: u8) -> io::Result<()> {
    // A set bit blocks a type: struct icmp6_filter of linux/icmpv6.h.
    let mut filter = [u32::MAX; 8];
    filter[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    set_option(socket.fd(), libc::IPPROTO_ICMPV6, ICMP6_FILTER, &filter)
}

/// Type of Parameter Problem (RFC 4443 s3.4).
const PARAMETER_PROBLEM: u8 = 4;
/// Its code for a next header that is not known.
const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
/// Octets of ICMPv6 in front of the quoted packet.
const QUOTE: usize = 8;
/// Octets of the fixed IPv6 header.
const IPV6_HEADER: usize = 40;
/// Next header value of Shim6.
const SHIM6: u8 = 140;
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
        let Unrecognized { quoted, locators } = Unrecognized::parse(&message).expect("ours");
        assert_eq!(quoted, [59, 1]);
        assert_eq!(locators.local.octets(), [0x20; 16]);
        assert_eq!(locators.peer.octets(), [0x21; 16]);
    }

    #[test]
    fn passes_over_what_quotes_no_shim6() {
        assert!(quoted(&error_quoting(6, 4, 1)).is_none());
        assert!(quoted(&error_quoting(140, 4, 2)).is_none());
        assert!(quoted(&error_quoting(140, 1, 1)).is_none());
        assert!(quoted(&error_quoting(140, 4, 1)[..47]).is_none());
    }
}
