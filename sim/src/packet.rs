//! Packets of the sockets: IPv6, then UDP or a header in the shape of TCP's, checksums included.

use std::net::Ipv6Addr;

use moorline_types::UlidPair;

pub(crate) const IP6_LEN: usize = 40;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const TCP_LEN: usize = 20;
pub(crate) const UDP_LEN: usize = 8;

/// An IPv6 packet around a payload.
pub(crate) fn ip6(
    next_header: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    payload: &[u8],
) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let mut packet = Vec::with_capacity(IP6_LEN + payload.len());
    packet.extend([0x60, 0x03, 0x14, 0x15]);
    packet.extend(len.to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

/// Addresses of a packet, source first.
pub(crate) fn addresses(packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let source = packet.get(8..24)?.first_chunk::<16>()?;
    let destination = packet.get(24..40)?.first_chunk::<16>()?;
    Some((Ipv6Addr::from(*source), Ipv6Addr::from(*destination)))
}

/// What the header of a stream's segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset in the stream of the first octet, or of the next if there is none.
    pub(crate) offset: u32,
    /// Offset that the sender awaits.
    pub(crate) awaited: u32,
}

impl Segment {
    pub(crate) fn emit(self, port: u16, ulids: UlidPair, data: &[u8]) -> Vec<u8> {
        let mut octets = Vec::with_capacity(TCP_LEN + data.len());
        octets.extend(port.to_be_bytes());
        octets.extend(port.to_be_bytes());
        octets.extend(self.offset.to_be_bytes());
        octets.extend(self.awaited.to_be_bytes());
        // Data offset 5, ACK, a window, checksum, no urgent pointer.
        octets.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        octets.extend(data);
        finish(TCP, ulids, octets, 16)
    }

    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk::<4>()?));
        Some(Self { offset: word(IP6_LEN + 4)?, awaited: word(IP6_LEN + 8)? })
    }
}

/// A UDP datagram.
pub(crate) fn datagram(port: u16, ulids: UlidPair, data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(UDP_LEN + data.len()).unwrap_or(u16::MAX);
    let mut octets = Vec::with_capacity(UDP_LEN + data.len());
    octets.extend(port.to_be_bytes());
    octets.extend(port.to_be_bytes());
    octets.extend(len.to_be_bytes());
    octets.extend([0, 0]);
    octets.extend(data);
    finish(UDP, ulids, octets, 6)
}

/// Port of a packet of a socket: the same at both ends.
pub(crate) fn port(packet: &[u8]) -> Option<u16> {
    packet.get(IP6_LEN..)?.first_chunk::<2>().map(|octets| u16::from_be_bytes(*octets))
}

/// Whether the transport checksum is right for the addresses that the packet has.
pub(crate) fn has_right_checksum(packet: &[u8]) -> bool {
    match (addresses(packet), packet.get(6), packet.get(IP6_LEN..)) {
        (Some((source, destination)), Some(&next_header), Some(payload)) => {
            sum(next_header, source, destination, payload) == 0xffff
        }
        _ => false,
    }
}

fn finish(next_header: u8, ulids: UlidPair, mut octets: Vec<u8>, checksum_at: usize) -> Vec<u8> {
    let checksum = !sum(next_header, ulids.local.0, ulids.peer.0, &octets);
    octets[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    ip6(next_header, ulids.local.0, ulids.peer.0, &octets)
}

/// Ones' complement sum over pseudo-header and payload (RFC 8200 s8.1).
fn sum(next_header: u8, source: Ipv6Addr, destination: Ipv6Addr, payload: &[u8]) -> u16 {
    let words = |octets: &[u8]| -> u64 {
        octets
            .chunks(2)
            .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
            .sum()
    };
    let mut total = words(&source.octets()) + words(&destination.octets()) + words(payload);
    total += payload.len() as u64 + u64::from(next_header);
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    u16::try_from(total).unwrap_or(0)
}
