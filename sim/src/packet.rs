//! Packets of the sockets: IPv6 with TCP, UDP and the one ICMPv6 error that matters here.

use std::net::Ipv6Addr;

use moorline_types::{Locator, LocatorPair, UlidPair};
use moorline_wire::ilnp::NONCE_AT;
use moorline_wire::ip6::{self, DESTINATION_OPTIONS, IP6_LEN, Ip6};
pub(crate) use moorline_wire::ip6::{ICMPV6, TCP, UDP};
use moorline_wire::upper_layer_checksum;

/// Source and destination of a packet, and its next header.
pub(crate) fn header(packet: &[u8]) -> Option<(LocatorPair, u8)> {
    let Ip6 { source, destination, next_header, .. } = Ip6::read(packet)?;
    Some((LocatorPair::new(Locator(source), Locator(destination)), next_header))
}

/// The pair of a packet as its receiver has it.
pub(crate) fn receiver_pair(locators: LocatorPair) -> UlidPair {
    UlidPair::new(locators.peer.as_ulid(), locators.local.as_ulid())
}

/// Makes an IPv6 packet.
pub(crate) fn ip6(locators: LocatorPair, next_header: u8, payload: &[u8]) -> Vec<u8> {
    ip6::packet(next_header, locators.local.0, locators.peer.0, payload)
}

/// The octets behind the IPv6 header.
pub(crate) fn payload(packet: &[u8]) -> &[u8] {
    packet.get(IP6_LEN..).unwrap_or(&[])
}

/// Whether a packet of protocol 140 carries payload: the bit P tells a payload header from a control message (RFC 5533 s5.1, s5.3).
pub(crate) fn has_payload_header(packet: &[u8]) -> bool {
    payload(packet).get(2).is_some_and(|octet| octet & 0x80 != 0)
}

/// Destination port of a TCP or UDP packet.
pub(crate) fn port(packet: &[u8]) -> Option<u16> {
    ports(packet).map(|[_, destination]| destination)
}

/// Source and destination port of a TCP or UDP packet.
pub(crate) fn ports(packet: &[u8]) -> Option<[u16; 2]> {
    let (_, next_header) = header(packet)?;
    let ports = matches!(next_header, TCP | UDP).then(|| payload(packet))?;
    let [s0, s1, d0, d1] = *ports.first_chunk::<4>()?;
    Some([[s0, s1], [d0, d1]].map(u16::from_be_bytes))
}

/// A TCP segment: the fields that the stream uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) data: &'a [u8],
}

impl<'a> Segment<'a> {
    pub(crate) fn packet(&self, pair: UlidPair) -> Vec<u8> {
        let mut tcp = Vec::with_capacity(TCP_LEN + self.data.len());
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        // Data offset 5, flag ACK, a window of 64 KB, no urgent data.
        tcp.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(self.data);
        checksummed(pair.as_locators(), TCP, tcp, 16)
    }

    /// Reads a segment; `None` if the packet is none, or its checksum is wrong.
    pub(crate) fn read(packet: &'a [u8]) -> Option<Self> {
        let tcp = checked(packet, TCP)?;
        let (header, data) = tcp.split_first_chunk::<TCP_LEN>()?;
        let [_, _, d0, d1, s0, s1, s2, s3, a0, a1, a2, a3, ..] = *header;
        Some(Self {
            port: u16::from_be_bytes([d0, d1]),
            seq: u32::from_be_bytes([s0, s1, s2, s3]),
            ack: u32::from_be_bytes([a0, a1, a2, a3]),
            data,
        })
    }
}

/// A UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) port: u16,
    /// Flow label of the IPv6 header, 20 bits.
    pub(crate) label: u32,
    pub(crate) data: &'a [u8],
}

impl<'a> Datagram<'a> {
    pub(crate) fn packet(&self, pair: UlidPair) -> Vec<u8> {
        let mut udp = Vec::with_capacity(UDP_LEN + self.data.len());
        udp.extend(self.port.to_be_bytes());
        udp.extend(self.port.to_be_bytes());
        udp.extend(u16_of(UDP_LEN + self.data.len()).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(self.data);
        let mut packet = checksummed(pair.as_locators(), UDP, udp, 6);
        if let Some(first) = packet.first_chunk_mut::<4>() {
            *first = (u32::from_be_bytes(*first) | self.label).to_be_bytes();
        }
        packet
    }

    /// Reads a datagram; `None` if the packet is none, or its checksum is wrong.
    pub(crate) fn read(packet: &'a [u8]) -> Option<Self> {
        let udp = checked(packet, UDP)?;
        let (&[_, _, d0, d1, ..], data) = udp.split_first_chunk::<UDP_LEN>()?;
        let label = Ip6::read(packet)?.flow_label;
        Some(Self { port: u16::from_be_bytes([d0, d1]), label, data })
    }
}

/// ICMPv6 Parameter Problem, "unrecognized Next Header type encountered" (RFC 4443 s3.4), as a host without Shim6
/// sends it. It quotes the whole packet.
pub(crate) fn unrecognized_next_header(quoted: &[u8]) -> Option<Vec<u8>> {
    let (locators, _) = header(quoted)?;
    let mut icmp = vec![4, 1, 0, 0];
    icmp.extend(NEXT_HEADER_AT.to_be_bytes());
    icmp.extend(quoted);
    Some(checksummed(locators.reversed(), ICMPV6, icmp, 2))
}

/// ICMPv6 Parameter Problem, "unrecognized IPv6 option encountered" (RFC 4443 s3.4), as Linux sends it about a nonce. `None`
/// if the packet has no Destination Options.
pub(crate) fn unrecognized_option(quoted: &[u8]) -> Option<Vec<u8>> {
    let (locators, _) = header(quoted).filter(|(_, next)| *next == DESTINATION_OPTIONS)?;
    let mut icmp = vec![4, 2, 0, 0];
    icmp.extend(NONCE_AT.to_be_bytes());
    icmp.extend(quoted);
    Some(checksummed(locators.reversed(), ICMPV6, icmp, 2))
}

/// ICMPv6 Packet Too Big (RFC 4443 s3.2) of a router with this address. `None` if there is no error about the packet (s2.4 e):
/// the packet may be an error itself.
pub(crate) fn too_big(router: Ipv6Addr, quoted: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let (locators, _) = header(quoted).filter(|(_, next)| *next != ICMPV6)?;
    let mut icmp = vec![TOO_BIG, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend(quoted.iter().take(MAX_QUOTE));
    let back = LocatorPair::new(Locator(router), locators.local);
    Some(checksummed(back, ICMPV6, icmp, 2))
}

/// The MTU of a Packet Too Big, and what the error has of the packet.
pub(crate) fn quoted_too_big(packet: &[u8]) -> Option<(u32, &[u8])> {
    let icmp = checked(packet, ICMPV6)?;
    let (&[kind, _, _, _, a, b, c, d], quoted) = icmp.split_first_chunk::<8>()?;
    (kind == TOO_BIG).then_some((u32::from_be_bytes([a, b, c, d]), quoted))
}

/// The packet that an error about the next header quotes.
pub(crate) fn quoted_unrecognized(packet: &[u8]) -> Option<&[u8]> {
    let icmp = checked(packet, ICMPV6)?;
    let (&[kind, code, ..], quoted) = icmp.split_first_chunk::<8>()?;
    ((kind, code) == (4, 1)).then_some(quoted)
}

fn checksummed(locators: LocatorPair, next_header: u8, mut payload: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = match checksum(locators, next_header, &payload) {
        // RFC 8200 s8.1: zero would mean a datagram without a checksum.
        0 if next_header == UDP => 0xffff,
        sum => sum,
    };
    if let Some(field) = payload.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    ip6(locators, next_header, &payload)
}

/// Whether the checksum of a packet is right. Packets of unknown protocols count as right.
pub(crate) fn is_checksum_right(packet: &[u8]) -> bool {
    let summed = header(packet).filter(|(_, next)| matches!(*next, TCP | UDP | ICMPV6));
    summed.is_none_or(|(locators, next)| checksum(locators, next, payload(packet)) == 0)
}

/// The payload, if its protocol is `kind` and its checksum is right.
fn checked(packet: &[u8], kind: u8) -> Option<&[u8]> {
    header(packet).filter(|(_, next)| *next == kind && is_checksum_right(packet))?;
    Some(payload(packet))
}

fn checksum(locators: LocatorPair, next_header: u8, payload: &[u8]) -> u16 {
    upper_layer_checksum(locators.local.0, locators.peer.0, next_header, payload)
}

/// The length as 16 bits: packets of this crate are small.
fn u16_of(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Type of Packet Too Big.
const TOO_BIG: u8 = 2;
/// Most octets of a packet that an error quotes: the error has 1280 octets at most (RFC 4443 s2.4 c).
const MAX_QUOTE: usize = 1280 - IP6_LEN - 8;
const NEXT_HEADER_AT: u32 = 6;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> UlidPair {
        let ulid = |text: &str| moorline_types::Ulid(text.parse().expect("an address"));
        UlidPair::new(ulid("2001:db8::1"), ulid("2001:db8::2"))
    }

    #[test]
    fn segments_and_datagrams_come_back() {
        for len in [0, 1, 7, 1400] {
            let data = vec![7; len];
            let segment = Segment { port: 5001, seq: 9, ack: 77, data: &data };
            assert_eq!(Segment::read(&segment.packet(pair())), Some(segment));
            let datagram = Datagram { port: 5001, label: 0xedcba, data: &data };
            assert_eq!(Datagram::read(&datagram.packet(pair())), Some(datagram));
            assert_eq!(port(&datagram.packet(pair())), Some(5001));
        }
    }

    #[test]
    fn a_changed_octet_or_address_fails_the_checksum() {
        let packet = Datagram { port: 1, label: 0, data: b"content" }.packet(pair());
        for at in 8..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            assert_eq!(Datagram::read(&changed), None, "octet {at}");
        }
    }

    #[test]
    fn a_packet_too_big_quotes_what_fits_and_none_is_about_an_error() {
        let router = "2001:db8:ffff::1".parse().expect("an address");
        let long = Datagram { port: 1, label: 0, data: &[7; 1400] }.packet(pair());
        let error = too_big(router, &long, 1300).expect("an error");
        assert_eq!(error.len(), 1280);
        assert_eq!(quoted_too_big(&error), Some((1300, &long[..MAX_QUOTE])));
        let (back, _) = header(&error).expect("a header");
        assert_eq!((back.local, back.peer), (Locator(router), pair().local.as_locator()));
        assert_eq!(too_big(router, &error, 1300), None);
    }

    #[test]
    fn the_error_quotes_the_packet() {
        let packet = ip6(pair().as_locators(), 140, &[1, 2, 3]);
        let error = unrecognized_next_header(&packet).expect("an error");
        assert_eq!(quoted_unrecognized(&error), Some(&packet[..]));
        let (back, _) = header(&error).expect("a header");
        assert_eq!(back.peer, pair().local.as_locator());
    }
}
