//! IPv6 and payload headers in a packet.
//!
//! Walked by hand and not with a library: the walk has to stop exactly where the one of the eBPF
//! programs stops, which is after [`MAX_CHAIN`] headers, and it is all of ten lines.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{ContextTag, Locator, LocatorPair, Ulid, UlidPair};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL, PayloadHeader};

/// What is behind IPv6 and its extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upper {
    pub(crate) protocol: u8,
    /// Source and destination, of TCP and UDP.
    pub(crate) ports: Option<(u16, u16)>,
}

impl Upper {
    /// With the ports as a receiver has them.
    pub(crate) fn reversed(self) -> Self {
        Self { ports: self.ports.map(|(source, destination)| (destination, source)), ..self }
    }
}

/// What the plane reads of an IPv6 header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip6 {
    pub(crate) next_header: u8,
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Ipv6Addr,
    payload_len: u16,
    traffic_class: u8,
}

impl Ip6 {
    /// `None` for what is too short or another version.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
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

    /// The pair as a sender has it.
    pub(crate) fn outbound(&self) -> UlidPair {
        UlidPair::new(Ulid(self.source), Ulid(self.destination))
    }

    /// The pair as a receiver has it.
    pub(crate) fn inbound(&self) -> UlidPair {
        UlidPair::new(Ulid(self.destination), Ulid(self.source))
    }

    /// Octets behind the IPv6 header, as it has it.
    pub(crate) fn payload_len(&self) -> usize {
        self.payload_len.into()
    }

    /// Congestion Experienced (RFC 3168 s5).
    pub(crate) fn has_ce(&self) -> bool {
        self.traffic_class & 3 == 3
    }

    /// Octets of the packet as its header has it; a jumbogram's header leaves it open.
    pub(crate) fn octets(&self, packet: &[u8]) -> usize {
        match self.payload_len {
            0 => packet.len(),
            len => IP6_LEN + usize::from(len),
        }
    }

    /// Whether both addresses are ones that contexts and triggers are about: no multicast, nothing of
    /// one link or one host.
    pub(crate) fn is_routed(&self) -> bool {
        let is_routed = |address: Ipv6Addr| {
            !(address.is_multicast()
                || address.is_unicast_link_local()
                || address.is_unspecified()
                || address.is_loopback())
        };
        is_routed(self.source) && is_routed(self.destination)
    }

    /// Neighbour Discovery belongs to the link, whatever its addresses (RFC 4861 s4).
    pub(crate) fn is_neighbour_discovery(&self, packet: &[u8]) -> bool {
        self.next_header == ICMPV6 && packet.get(IP6_LEN).is_some_and(|kind| ND.contains(kind))
    }

    /// The upper layer, behind up to [`MAX_CHAIN`] extension headers.
    pub(crate) fn upper(&self, packet: &[u8]) -> Upper {
        let mut upper = Upper { protocol: self.next_header, ports: None };
        let mut at = IP6_LEN;
        let mut is_later_fragment = false;
        for _ in 0..MAX_CHAIN {
            if !EXTENSIONS.contains(&upper.protocol) {
                break;
            }
            let Some(&[next, len, offset, flags]) =
                packet.get(at..).and_then(<[u8]>::first_chunk::<4>)
            else {
                return upper;
            };
            if upper.protocol == FRAGMENT {
                is_later_fragment |= u16::from_be_bytes([offset, flags]) >> 3 != 0;
                at += 8;
            } else {
                at += (usize::from(len) + 1) * 8;
            }
            upper.protocol = next;
        }
        if !is_later_fragment && matches!(upper.protocol, TCP | UDP) {
            let ports = packet.get(at..).and_then(<[u8]>::first_chunk::<4>);
            upper.ports =
                ports.map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        }
        upper
    }

    /// Whether a header comes first that the payload header has to stand behind (RFC 5533 s4.6).
    pub(crate) fn is_behind_others(&self) -> bool {
        matches!(self.next_header, HOP_BY_HOP | ROUTING)
    }

    /// What follows the IPv6 header, as far as its length field goes.
    pub(crate) fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let present = packet.get(IP6_LEN..).unwrap_or(&[]);
        present.get(..usize::from(self.payload_len)).unwrap_or(present)
    }

    /// Puts in the payload header and the locators. `None`, and the packet untouched, if the length
    /// field cannot hold 8 more.
    //= rfc5533#11.1-1
    pub(crate) fn insert(
        &self,
        packet: &mut Vec<u8>,
        tag: ContextTag,
        locators: LocatorPair,
    ) -> Option<()> {
        let len = self.payload_len.checked_add(PAYLOAD_HEADER_OCTETS)?;
        let header = PayloadHeader { next_header: self.next_header, tag };
        packet.splice(IP6_LEN..IP6_LEN, header.emit());
        write_header(packet, len, PROTOCOL, locators);
        Some(())
    }

    /// Takes out the payload header and puts the ULIDs back. `packet` must have one.
    //= rfc5533#11.1-1 rfc5533#12.2
    pub(crate) fn strip(&self, packet: &mut Vec<u8>, header: PayloadHeader, ulids: UlidPair) {
        packet.drain(IP6_LEN..IP6_LEN + PAYLOAD_HEADER_LEN);
        let len = self.payload_len.saturating_sub(PAYLOAD_HEADER_OCTETS);
        let from_peer = LocatorPair::new(ulids.peer.as_locator(), ulids.local.as_locator());
        write_header(packet, len, header.next_header, from_peer);
    }
}

pub(crate) fn write_header(
    packet: &mut [u8],
    payload_len: u16,
    next_header: u8,
    addresses: LocatorPair,
) {
    let Some(header) = packet.first_chunk_mut::<IP6_LEN>() else { return };
    header[PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 2].copy_from_slice(&payload_len.to_be_bytes());
    header[NEXT_HEADER_AT] = next_header;
    let Locator(source) = addresses.local;
    let Locator(destination) = addresses.peer;
    header[SOURCE_AT..DESTINATION_AT].copy_from_slice(&source.octets());
    header[DESTINATION_AT..].copy_from_slice(&destination.octets());
}

fn address(header: &[u8; IP6_LEN], at: usize) -> Option<Ipv6Addr> {
    header.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets))
}

/// Extension headers walked through in search of the upper layer. A longer chain is taken for payload.
const MAX_CHAIN: usize = 4;

pub(crate) const IP6_LEN: usize = 40;
const PAYLOAD_LEN_AT: usize = 4;
const NEXT_HEADER_AT: usize = 6;
const SOURCE_AT: usize = 8;
const DESTINATION_AT: usize = 24;
const PAYLOAD_HEADER_OCTETS: u16 = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const DESTINATION_OPTIONS: u8 = 60;
const EXTENSIONS: [u8; 4] = [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS];
/// Router Solicitation to Redirect.
const ND: core::ops::RangeInclusive<u8> = 133..=137;

#[cfg(test)]
mod tests;
