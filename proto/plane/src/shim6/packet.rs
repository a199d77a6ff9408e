//! Reads and changes the IPv6 header and the payload header behind it, for the plane of Shim6.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{ContextTag, Encapsulation, Locator, LocatorPair, Path, Ulid, UlidPair};
use moorline_wire::ip6::{
    ICMPV6, IP6_LEN, Ip6, TCP, UDP, Upper, is_extension, write_addresses, write_lengths,
};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL, PayloadHeader};

/// ULID pair of a packet that the host sends.
pub(crate) fn outbound(ip6: &Ip6) -> UlidPair {
    UlidPair::new(Ulid(ip6.source), Ulid(ip6.destination))
}

/// ULID pair of a packet that the host receives.
pub(crate) fn inbound(ip6: &Ip6) -> UlidPair {
    UlidPair::new(Ulid(ip6.destination), Ulid(ip6.source))
}

/// Ports that rules about traffic compare: the ports of TCP and UDP.
pub(crate) fn ports(upper: Upper) -> Option<(u16, u16)> {
    upper.ports.filter(|_| matches!(upper.protocol, TCP | UDP))
}

/// Whether the packet is marked Congestion Experienced (RFC 3168 s5).
pub(crate) fn has_ce(ip6: &Ip6) -> bool {
    ip6.traffic_class & 3 == 3
}

/// Whether contexts and triggers apply to both addresses: not to multicast, link-local, unspecified and loopback
/// addresses.
pub(crate) fn is_routed(ip6: &Ip6) -> bool {
    let is_routed = |address: Ipv6Addr| {
        !(address.is_multicast()
            || address.is_unicast_link_local()
            || address.is_unspecified()
            || address.is_loopback())
    };
    is_routed(ip6.source) && is_routed(ip6.destination)
}

/// Whether the packet is Neighbour Discovery, which belongs to the link whatever its addresses are (RFC 4861 s4).
pub(crate) fn is_neighbour_discovery(ip6: &Ip6, packet: &[u8]) -> bool {
    ip6.next_header == ICMPV6 && packet.get(IP6_LEN).is_some_and(|kind| ND.contains(kind))
}

/// Tag in a control message of a type that only contexts have (RFC 5533 s5.3).
pub(crate) fn control_tag(message: &[u8]) -> Option<ContextTag> {
    let (head, _) = message.split_first_chunk::<12>()?;
    let [_, _, kind, _, _, _, tag @ ..] = *head;
    (64..128).contains(&kind).then(|| ContextTag::from_octets(tag))
}

/// Whether a packet with extension headers is, or may be, a message for the core: the kernel gives the raw socket
/// what is behind any number of headers. A later fragment has no header of a message.
pub(crate) fn is_message_behind(ip6: &Ip6, packet: &[u8]) -> bool {
    let upper = ip6.upper(packet);
    is_extension(ip6.next_header)
        && upper.at.is_some()
        && (upper.protocol == PROTOCOL || is_extension(upper.protocol))
}

/// Puts in the payload header and the locators. If the length field cannot hold so many octets more, returns `None`
/// and leaves the packet as it is.
//= rfc5533#11.1-1
pub(crate) fn insert(ip6: &Ip6, packet: &mut Vec<u8>, tag: ContextTag, path: Path) -> Option<()> {
    let len = ip6.payload_len.checked_add(path.overhead())?;
    let header = PayloadHeader { next_header: ip6.next_header, tag };
    packet.splice(IP6_LEN..IP6_LEN, header.emit());
    write_header(packet, len, PROTOCOL, path.pair);
    Some(())
}

/// Takes out the payload header and puts the ULIDs back. `packet` must have one.
//= rfc5533#11.1-1 rfc5533#12.2
pub(crate) fn strip(ip6: &Ip6, packet: &mut Vec<u8>, header: PayloadHeader, ulids: UlidPair) {
    packet.drain(IP6_LEN..IP6_LEN + PAYLOAD_HEADER_LEN);
    let len = ip6.payload_len.saturating_sub(OVERHEAD);
    let from_peer = LocatorPair::new(ulids.peer.as_locator(), ulids.local.as_locator());
    write_header(packet, len, header.next_header, from_peer);
}

pub(crate) fn write_header(
    packet: &mut [u8],
    payload_len: u16,
    next_header: u8,
    addresses: LocatorPair,
) {
    let (Locator(source), Locator(destination)) = (addresses.local, addresses.peer);
    write_lengths(packet, payload_len, next_header);
    write_addresses(packet, source, destination);
}

pub(crate) const OVERHEAD: u16 = Encapsulation::PayloadHeader.overhead();
/// ICMPv6 types of Neighbour Discovery, from Router Solicitation to Redirect.
const ND: core::ops::RangeInclusive<u8> = 133..=137;

#[cfg(test)]
mod tests;
