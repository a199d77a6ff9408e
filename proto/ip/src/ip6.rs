//! The IPv6 header and the extension headers behind it (RFC 8200), in a packet as it is on the wire.
//!
//! The walk through extension headers does not use a library: it has to stop exactly where the walk of the eBPF
//! programs stops, after [`MAX_CHAIN`] headers.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

pub use crate::extension::Fragment;

/// Fields of an IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Ip6 {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Next Header.
    pub next_header: u8,
    /// Payload Length: octets behind the header.
    pub payload_len: u16,
    /// Traffic Class.
    pub traffic_class: u8,
    /// Flow Label, 20 bits.
    pub flow_label: u32,
}

impl Ip6 {
    /// Reads the header; `None` if the packet is too short or has another version.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<IP6_LEN>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        Some(Self {
            next_header: header[NEXT_HEADER_AT],
            source: address(header, SOURCE_AT)?,
            destination: address(header, DESTINATION_AT)?,
            payload_len: u16::from_be_bytes([header[PAYLOAD_LEN_AT], header[PAYLOAD_LEN_AT + 1]]),
            traffic_class: header[0] << 4 | header[1] >> 4,
            flow_label: u32::from_be_bytes([0, header[1] & 0xf, header[2], header[3]]),
        })
    }

    /// Length of the packet by its header. The header of a jumbogram has no length; then the length of `packet`
    /// counts.
    #[must_use]
    pub fn octets(&self, packet: &[u8]) -> usize {
        match self.payload_len {
            0 => packet.len(),
            len => IP6_LEN + usize::from(len),
        }
    }

    /// Octets behind the header, up to the length in the header. Padding of the link may follow.
    #[must_use]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let present = packet.get(IP6_LEN..).unwrap_or(&[]);
        present.get(..usize::from(self.payload_len)).unwrap_or(present)
    }

    /// Whether the first extension header must precede the destination options of the last hop (RFC 8200 s4.1).
    #[must_use]
    pub const fn is_behind_others(&self) -> bool {
        matches!(self.next_header, HOP_BY_HOP | ROUTING)
    }

    /// Whether an extension header follows the IPv6 header.
    #[must_use]
    pub fn has_extensions(&self) -> bool {
        EXTENSIONS.contains(&self.next_header)
    }

    /// Reads the upper layer.
    #[must_use]
    pub fn upper(&self, packet: &[u8]) -> Upper {
        Upper::read(packet, self.next_header, IP6_LEN)
    }
}

/// The upper layer, behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Protocol number.
    pub protocol: u8,
    /// Offset of the upper layer in the packet; `None` in a later fragment, which has neither its header nor ports.
    pub at: Option<usize>,
    /// Source and destination port of TCP, UDP, UDP-Lite and DCCP.
    pub ports: Option<(u16, u16)>,
}

impl Upper {
    /// Finds the upper layer behind up to [`MAX_CHAIN`] extension headers. The first of them is `protocol` and begins
    /// at `at`.
    #[must_use]
    pub fn read(packet: &[u8], mut protocol: u8, mut at: usize) -> Self {
        for _ in 0..MAX_CHAIN {
            let rest = packet.get(at..).unwrap_or_default();
            let Some((next, len)) = next_header(protocol, rest) else { break };
            protocol = next;
            let Some(len) = len else { return Self { protocol, at: None, ports: None } };
            at += len;
        }
        let has_ports = matches!(protocol, TCP | UDP | UDP_LITE | DCCP);
        let ports = packet.get(at..).and_then(<[u8]>::first_chunk::<4>).filter(|_| has_ports);
        let ports =
            ports.map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        Self { protocol, at: Some(at), ports }
    }

    /// The upper layer with the ports swapped, as a receiver sees them.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { ports: self.ports.map(|(source, destination)| (destination, source)), ..self }
    }

    /// Type of the ICMPv6 message, if the upper layer is one.
    #[must_use]
    pub fn icmp(&self, packet: &[u8]) -> Option<u8> {
        (self.protocol == ICMPV6).then(|| packet.get(self.at?).copied())?
    }

    /// Whether the upper layer is a TCP segment without SYN: only a socket connected to its sender can use it.
    #[must_use]
    pub fn is_within_tcp(&self, packet: &[u8]) -> bool {
        let flags = self.at.and_then(|at| packet.get(at + TCP_FLAGS_AT));
        self.protocol == TCP && flags.is_some_and(|flags| flags & TCP_SYN == 0)
    }
}

/// Whether this is the number of an extension header that [`Upper::read`] walks through.
#[must_use]
pub fn is_extension(protocol: u8) -> bool {
    EXTENSIONS.contains(&protocol)
}

/// Reads the extension header `protocol` at the start of `octets`. Returns the number of the next header, and the
/// offset of that header; the offset is `None` in a later fragment. Returns `None` if `protocol` is no extension
/// header, or if the octets are too few.
#[must_use]
pub fn next_header(protocol: u8, octets: &[u8]) -> Option<(u8, Option<usize>)> {
    let &[next, len, offset, flags] = octets.first_chunk()?;
    if !is_extension(protocol) {
        return None;
    }
    if protocol != FRAGMENT {
        return Some((next, Some((usize::from(len) + 1) * 8)));
    }
    let is_first = u16::from_be_bytes([offset, flags]) >> 3 == 0;
    Some((next, is_first.then_some(8)))
}

/// Finds a Fragment header among the first [`MAX_CHAIN`] extension headers of a packet.
#[must_use]
pub fn fragment(packet: &[u8], ip6: &Ip6) -> Option<Fragment> {
    let (mut protocol, mut rest) = (ip6.next_header, ip6.payload(packet));
    for _ in 0..MAX_CHAIN {
        if protocol == FRAGMENT {
            return Fragment::parse(rest).ok();
        }
        let (next, len) = next_header(protocol, rest)?;
        (protocol, rest) = (next, rest.get(len?..)?);
    }
    None
}

/// Builds a packet with the payload right behind its header, and with a hop limit of 64. For a payload above 65,535
/// octets, the length field is wrong.
#[must_use]
pub fn packet(next_header: u8, source: Ipv6Addr, destination: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let mut packet = Vec::with_capacity(IP6_LEN + payload.len());
    packet.extend([0x60, 0, 0, 0, 0, 0, 0, HOP_LIMIT]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    write_lengths(&mut packet, len, next_header);
    packet.extend(payload);
    packet
}

/// Writes Payload Length and Next Header.
pub fn write_lengths(packet: &mut [u8], payload_len: u16, next_header: u8) {
    let Some(header) = packet.first_chunk_mut::<IP6_LEN>() else { return };
    header[PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 2].copy_from_slice(&payload_len.to_be_bytes());
    header[NEXT_HEADER_AT] = next_header;
}

/// Writes the addresses.
pub fn write_addresses(packet: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let Some(header) = packet.first_chunk_mut::<IP6_LEN>() else { return };
    header[SOURCE_AT..DESTINATION_AT].copy_from_slice(&source.octets());
    header[DESTINATION_AT..].copy_from_slice(&destination.octets());
}

fn address(header: &[u8; IP6_LEN], at: usize) -> Option<Ipv6Addr> {
    header.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

/// Number of extension headers that the walk to the upper layer passes. Headers behind a longer chain count as
/// payload.
pub const MAX_CHAIN: usize = 4;
/// Octets of the IPv6 header.
pub const IP6_LEN: usize = 40;
/// Octets of a packet that every path takes (RFC 8200 s5).
pub const MIN_MTU: u16 = 1280;
/// Offset of the source address in the header.
pub const SOURCE_AT: usize = 8;
/// Offset of the destination address in the header.
pub const DESTINATION_AT: usize = 24;
const PAYLOAD_LEN_AT: usize = 4;
const NEXT_HEADER_AT: usize = 6;

/// Next Header value of TCP.
pub const TCP: u8 = 6;
/// Next Header value of UDP.
pub const UDP: u8 = 17;
/// Next Header value of DCCP.
pub const DCCP: u8 = 33;
/// Next Header value of UDP-Lite.
pub const UDP_LITE: u8 = 136;
/// Next Header value of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Next Header value of Destination Options.
pub const DESTINATION_OPTIONS: u8 = 60;
/// Next Header value of the Hop-by-Hop Options header.
pub const HOP_BY_HOP: u8 = 0;
/// Next Header value of the Routing header.
pub const ROUTING: u8 = 43;
/// Next Header value of the Fragment header.
pub const FRAGMENT: u8 = 44;
const EXTENSIONS: [u8; 4] = [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS];
const HOP_LIMIT: u8 = 64;
const TCP_FLAGS_AT: usize = 13;
const TCP_SYN: u8 = 2;

#[cfg(test)]
mod tests;
