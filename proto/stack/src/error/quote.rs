use core::net::Ipv6Addr;

use moorline_ip::Header;
use moorline_ip::icmp::Kind;
use moorline_ip::icmp4::Kind as Kind4;
use moorline_ip::ip4::{ICMP, Ip4};
use moorline_ip::ip6::{DCCP, ICMPV6, IP6_LEN, Ip6, TCP, UDP, UDP_LITE};

use crate::chain::{Skim, skim};
use crate::ip4::mapped;

/// The packet that an error of ICMPv6 or ICMP quotes, as far as it goes.
///
/// A host believes an error only if the quoted packet is one of a flow of its own: anybody can send one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote<'a> {
    /// Source of the packet: an address of this host, if the host has sent it.
    pub source: Ipv6Addr,
    /// Destination of the packet.
    pub destination: Ipv6Addr,
    /// Payload Length of the packet. The quote may be shorter.
    pub payload_len: u16,
    /// Protocol of the upper layer.
    pub protocol: u8,
    /// Octets of the upper layer, from its header on. There are none in a later fragment.
    pub upper: &'a [u8],
}

impl<'a> Quote<'a> {
    /// Reads the quote of an error. `None` if it does not show the protocol of the upper layer: then RFC 4443 s2.4
    /// (d) demands that the host drops the error silently.
    //= rfc8504#5.8-2
    #[must_use]
    pub fn parse(quote: &'a [u8]) -> Option<Self> {
        let header = Ip6::read(quote)?;
        // Behind the packet there can be other objects (RFC 4884).
        let packet = &quote[..header.octets(quote).min(quote.len())];
        let (protocol, upper) = match skim(packet, header.next_header, IP6_LEN) {
            Skim::Upper { protocol, at } => (protocol, packet.get(at..)?),
            Skim::LaterFragment(protocol) => (protocol, &[][..]),
            Skim::Truncated | Skim::TooLong => return None,
        };
        let Ip6 { source, destination, payload_len, .. } = header;
        Some(Self { source, destination, payload_len, protocol, upper })
    }

    /// Reads the quote of an ICMP error of IPv4, as [`Self::parse`] does. Its addresses are v4-mapped here.
    #[must_use]
    pub fn parse_ip4(quote: &'a [u8]) -> Option<Self> {
        let header = Ip4::read(quote).ok()?;
        let packet = &quote[..quote.len().min(header.total_len.into())];
        let upper = packet.get(header.header_len.into()..)?;
        let Header { source, destination, payload_len, next_header: protocol, .. } =
            mapped(&header);
        let upper = if header.offset > 0 { &[][..] } else { upper };
        Some(Self { source, destination, payload_len, protocol, upper })
    }

    /// Source and destination port of TCP, UDP, UDP-Lite or DCCP.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        matches!(self.protocol, TCP | UDP | UDP_LITE | DCCP).then_some(())?;
        Some((self.u16_at(0)?, self.u16_at(2)?))
    }

    /// Sequence Number of a TCP segment. An error about a connection of this host quotes one in its window (RFC 5927
    /// s4.1).
    #[must_use]
    pub fn tcp_sequence(&self) -> Option<u32> {
        (self.protocol == TCP).then_some(())?;
        self.upper.get(4..)?.first_chunk().map(|octets| u32::from_be_bytes(*octets))
    }

    /// Type, Identifier and Sequence Number of an echo. The types of IPv4 are those of ICMPv6 here.
    #[must_use]
    pub fn echo(&self) -> Option<(Kind, u16, u16)> {
        let kind = match (self.protocol, *self.upper.first()?) {
            (ICMPV6, kind) => Kind(kind),
            (ICMP, kind) if Kind4(kind) == Kind4::ECHO_REQUEST => Kind::ECHO_REQUEST,
            (ICMP, kind) if Kind4(kind) == Kind4::ECHO_REPLY => Kind::ECHO_REPLY,
            _ => return None,
        };
        matches!(kind, Kind::ECHO_REQUEST | Kind::ECHO_REPLY).then_some(())?;
        Some((kind, self.u16_at(4)?, self.u16_at(6)?))
    }

    /// The first 8 octets of the upper layer: the SPI and Sequence Number of ESP, for example.
    #[must_use]
    pub fn first_octets(&self) -> Option<[u8; 8]> {
        self.upper.first_chunk().copied()
    }

    fn u16_at(&self, at: usize) -> Option<u16> {
        self.upper.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
    }
}
