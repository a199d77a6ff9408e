//! The IPv6 header, and what is behind it (RFC 8200), in a packet as it is on the wire.
//!
//! Walked by hand and not with a library: the walk has to stop exactly where that of the eBPF programs stops, which is after
//! [`MAX_CHAIN`] headers.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// What a packet's IPv6 header says.
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
}

impl Ip6 {
    /// `None` for what is too short or another version.
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
        })
    }

    /// Octets of the packet as its header has it; a jumbogram's header leaves it open.
    #[must_use]
    pub fn octets(&self, packet: &[u8]) -> usize {
        match self.payload_len {
            0 => packet.len(),
            len => IP6_LEN + usize::from(len),
        }
    }

    /// What follows the header, as far as its length field goes. Padding of the link may be behind.
    #[must_use]
    pub fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let present = packet.get(IP6_LEN..).unwrap_or(&[]);
        present.get(..usize::from(self.payload_len)).unwrap_or(present)
    }

    /// Whether a header comes first that destination options of the last hop have to stand behind (RFC 8200 s4.1).
    #[must_use]
    pub const fn is_behind_others(&self) -> bool {
        matches!(self.next_header, HOP_BY_HOP | ROUTING)
    }

    /// Whether the first header behind it is an extension header.
    #[must_use]
    pub fn has_extensions(&self) -> bool {
        EXTENSIONS.contains(&self.next_header)
    }

    /// The upper layer.
    #[must_use]
    pub fn upper(&self, packet: &[u8]) -> Upper {
        Upper::read(packet, self.next_header, IP6_LEN)
    }
}

/// What is behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Its number.
    pub protocol: u8,
    /// Where it begins in the packet; `None` in a later fragment, which has neither a header of it nor ports.
    pub at: Option<usize>,
    /// Source and destination, of TCP, UDP, UDP-Lite and DCCP.
    pub ports: Option<(u16, u16)>,
}

impl Upper {
    /// The upper layer behind up to [`MAX_CHAIN`] extension headers, the first of which has this number and begins here.
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

    /// With the ports as a receiver has them.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { ports: self.ports.map(|(source, destination)| (destination, source)), ..self }
    }

    /// The type, if it is an ICMPv6 message.
    #[must_use]
    pub fn icmp(&self, packet: &[u8]) -> Option<u8> {
        (self.protocol == ICMPV6).then(|| packet.get(self.at?).copied())?
    }

    /// A TCP segment that only a socket connected to its sender has a use for.
    #[must_use]
    pub fn is_within_tcp(&self, packet: &[u8]) -> bool {
        let flags = self.at.and_then(|at| packet.get(at + TCP_FLAGS_AT));
        self.protocol == TCP && flags.is_some_and(|flags| flags & TCP_SYN == 0)
    }
}

/// What an extension header of this number, with these octets, says of the one behind it: its number, and how far behind it begins; `None`
/// instead of the latter in a later fragment. `None` if it is no extension header, or if there is too little of it.
pub(crate) fn next_header(protocol: u8, octets: &[u8]) -> Option<(u8, Option<usize>)> {
    let &[next, len, offset, flags] = octets.first_chunk()?;
    if !EXTENSIONS.contains(&protocol) {
        return None;
    }
    if protocol != FRAGMENT {
        return Some((next, Some((usize::from(len) + 1) * 8)));
    }
    let is_first = u16::from_be_bytes([offset, flags]) >> 3 == 0;
    Some((next, is_first.then_some(8)))
}

/// A packet with the payload right behind its header, and with a hop limit of 64. A payload above 65,535 octets has no right length.
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

/// Extension headers walked through in search of the upper layer. What is behind a longer chain counts as payload.
pub const MAX_CHAIN: usize = 4;
/// Octets of the header.
pub const IP6_LEN: usize = 40;
/// Every path takes a packet of so many octets (RFC 8200 s5).
pub const MIN_MTU: u16 = 1280;
/// Where the header has the source address.
pub const SOURCE_AT: usize = 8;
/// Where the header has the destination address.
pub const DESTINATION_AT: usize = 24;
const PAYLOAD_LEN_AT: usize = 4;
const NEXT_HEADER_AT: usize = 6;

/// Next Header values.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// UDP-Lite.
pub const UDP_LITE: u8 = 136;
/// ICMPv6.
pub const ICMPV6: u8 = 58;
/// Destination Options.
pub const DESTINATION_OPTIONS: u8 = 60;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const EXTENSIONS: [u8; 4] = [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS];
const HOP_LIMIT: u8 = 64;
const TCP_FLAGS_AT: usize = 13;
const TCP_SYN: u8 = 2;

#[cfg(test)]
mod tests;
