use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;

use moorline_types::LocatorPair;
use moorline_wire::ip6::{self, ICMPV6, TCP};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL as SHIM6};

use crate::hardware::ethernet_address;
use crate::icmp6::{NEXT_HEADER_AT, PACKET_TOO_BIG, PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER};
use crate::socket::{pass_only, raw_socket, send, set_option};

/// Sends ICMPv6 messages: notices to TCP sockets of this host, refusals to peers, introductions and solicitations to
/// routers. The kernel computes the checksums.
///
/// A notice tells TCP sockets of this host that their segments were lost on the way, and not by congestion (RFC
/// 6069). It is a Destination Unreachable or Packet Too Big from an address of ours to the same address. The kernel
/// refuses the source if it is not ours. So a notice is delivered here or nowhere, and no packet of the network can
/// trigger one.
#[derive(Debug)]
pub struct Icmp6Sender(OwnedFd);

/// A sent TCP segment: the fields that a notice quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Local address.
    pub source: Ipv6Addr,
    /// Address of the peer.
    pub destination: Ipv6Addr,
    /// Local port.
    pub source_port: u16,
    /// Port of the peer.
    pub destination_port: u16,
    /// Sequence number of its first octet.
    pub sequence: u32,
}

/// Introduction of an address to a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Introduction {
    /// The interface.
    pub ifindex: u32,
    /// The router.
    pub router: Ipv6Addr,
    /// The address of this host.
    pub address: Ipv6Addr,
    /// Whether duplicate address detection still runs for the address (RFC 4429).
    pub is_optimistic: bool,
}

impl Icmp6Sender {
    /// Opens the socket.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the host has no IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = raw_socket(ICMPV6)?;
        // RFC 4861 s6.1.1 and s7.1: a message with a lower hop limit may come from another link. TCP sockets with
        // IPV6_MINHOPCOUNT accept errors only with this hop limit.
        for option in [libc::IPV6_UNICAST_HOPS, libc::IPV6_MULTICAST_HOPS] {
            set_option(&socket, libc::IPPROTO_IPV6, option, &libc::c_int::from(u8::MAX))?;
        }
        // The socket only sends, so received messages are not even queued.
        pass_only(&socket, &[])?;
        Ok(Self(socket))
    }

    /// Undoes one doubling of the segment's retransmission timer, if the socket has had no acknowledgement in the
    /// meantime. If the shorter timer has expired, the socket retransmits before this call returns.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: the source is no longer ours, a firewall, buffer full.
    pub fn unreachable(&self, segment: &Segment) -> io::Result<()> {
        let message = notice([DESTINATION_UNREACHABLE, NO_ROUTE], 0, segment);
        send(&self.0, &message, segment.source, segment.source, 0)
    }

    /// Tells the socket that packets above `mtu` octets no longer fit. Before this call returns, the socket sends
    /// again all data without an acknowledgement that are in segments that are too long (RFC 8201 s5.4). If its
    /// segments fit, nothing happens.
    ///
    /// # Errors
    /// As [`Self::unreachable`].
    pub fn too_big(&self, segment: &Segment, mtu: u32) -> io::Result<()> {
        let message = notice([PACKET_TOO_BIG, 0], mtu, segment);
        send(&self.0, &message, segment.source, segment.source, 0)
    }

    /// Sends a peer the error that the kernel of a host without Shim6 sends, for a host that is about to stop Shim6.
    /// It answers a packet with this Shim6 header, which has come, or would come, from `locators.peer` to
    /// `locators.local`. The error leaves by this interface; 0: by the interface of the route.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: the source is not an address of ours, no route, buffer full.
    pub fn refuse(
        &self,
        header: &[u8; PAYLOAD_HEADER_LEN],
        locators: LocatorPair,
        ifindex: u32,
    ) -> io::Result<()> {
        let message = refusal(header, locators);
        send(&self.0, &message, locators.local.0, locators.peer.0, ifindex)
    }

    /// Makes an address of ours known to a router before the router has packets for it (RFC 9131). The router learns
    /// our link-layer address with the IPv6 address, and keeps it. If we do not know the link-layer address of the
    /// router, the kernel asks for it in passing.
    ///
    /// A Neighbor Solicitation has this effect at each router (RFC 4861 s7.2.3). An optimistic address must not send
    /// one, so for such an address this sends a Neighbor Advertisement, from which a router must be willing to learn.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: the address is not ours, or tentative; the router is not on the link; buffer full.
    pub fn introduce(&self, what: &Introduction) -> io::Result<()> {
        // A link without link-layer addresses needs no introduction.
        let Some(link) = ethernet_address(what.ifindex)? else { return Ok(()) };
        let (message, to) = introduction(what, link);
        send(&self.0, &message, what.address, to, what.ifindex)
    }

    /// Solicits the routers on a link to advertise, from its link-local address.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: there is no such address yet, no carrier.
    pub fn solicit(&self, ifindex: u32) -> io::Result<()> {
        // The message has no options, so the answer goes to all nodes, or the router first asks for our link-layer
        // address (RFC 4861 s4.1).
        let message = [ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        send(&self.0, &message, Ipv6Addr::UNSPECIFIED, ALL_ROUTERS, ifindex)
    }
}

/// An ICMPv6 error (RFC 4443 s3) that quotes a packet: type and code, its second word, the header of the packet, and
/// the octets behind that header.
fn error(
    kind: [u8; 2],
    word: u32,
    [source, destination]: [Ipv6Addr; 2],
    next_header: u8,
    quoted: &[u8],
) -> Vec<u8> {
    let mut message = vec![kind[0], kind[1], 0, 0];
    message.extend(word.to_be_bytes());
    message.extend(ip6::packet(next_header, source, destination, quoted));
    message
}

fn notice(kind: [u8; 2], word: u32, segment: &Segment) -> Vec<u8> {
    let mut tcp = [0; TCP_HEADER];
    tcp[0..2].copy_from_slice(&segment.source_port.to_be_bytes());
    tcp[2..4].copy_from_slice(&segment.destination_port.to_be_bytes());
    tcp[4..8].copy_from_slice(&segment.sequence.to_be_bytes());
    // Connection tracking reads only a whole header: it needs the length in units of four octets, and a flag.
    tcp[12] = 5 << 4;
    tcp[13] = ACK;
    error(kind, word, [segment.source, segment.destination], TCP, &tcp)
}

fn refusal(header: &[u8; PAYLOAD_HEADER_LEN], locators: LocatorPair) -> Vec<u8> {
    let kind = [PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER];
    error(kind, NEXT_HEADER_AT, [locators.peer.0, locators.local.0], SHIM6, header)
}

/// Message of an introduction, and its source (RFC 4861 s4.3 and s4.4, RFC 9131 s4.1).
fn introduction(what: &Introduction, link: [u8; 6]) -> ([u8; 32], Ipv6Addr) {
    let (kind, target, option, to) = if what.is_optimistic {
        (NEIGHBOR_ADVERTISEMENT, what.address, TARGET_LINK_ADDRESS, ALL_ROUTERS)
    } else {
        (NEIGHBOR_SOLICITATION, what.router, SOURCE_LINK_ADDRESS, what.router)
    };
    let mut message = [0; 32];
    message[0] = kind;
    message[8..24].copy_from_slice(&target.octets());
    // The length is in units of 8 octets.
    message[24..26].copy_from_slice(&[option, 1]);
    message[26..].copy_from_slice(&link);
    (message, to)
}

/// ICMPv6 type (RFC 4443 s3.1).
const DESTINATION_UNREACHABLE: u8 = 1;
/// Code of Destination Unreachable for no route: one of the two that RFC 6069 s4.1 allows, and the one that Linux
/// accepts.
const NO_ROUTE: u8 = 0;
/// Octets of the TCP header without options.
const TCP_HEADER: usize = 20;
/// TCP flag (RFC 9293 s3.1).
const ACK: u8 = 0x10;
/// ICMPv6 types of Neighbor Discovery (RFC 4861 s4).
const ROUTER_SOLICITATION: u8 = 133;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// All routers on the link (RFC 4291 s2.7.1, link-local scope).
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

#[cfg(test)]
mod tests {
    use moorline_types::Locator;

    use super::*;
    use crate::icmp6::Unrecognized;

    #[test]
    fn the_notice_quotes_the_segment() {
        let segment = Segment {
            source: "2001:db8:a::1".parse().expect("address"),
            destination: "2001:db8:b::2".parse().expect("address"),
            source_port: 0x1234,
            destination_port: 443,
            sequence: 0xdead_beef,
        };
        let expected: [&[u8]; 6] = [
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[0x60, 0, 0, 0, 0, 20, 6, 64],
            &[0x20, 1, 0xd, 0xb8, 0, 0xa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0x20, 1, 0xd, 0xb8, 0, 0xb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            &[0x12, 0x34, 0x01, 0xbb, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0],
            &[0x50, 0x10, 0, 0, 0, 0, 0, 0],
        ];
        let unreachable = notice([DESTINATION_UNREACHABLE, NO_ROUTE], 0, &segment);
        assert_eq!(unreachable[..], expected.concat());
        let too_big = notice([PACKET_TOO_BIG, 0], 1492, &segment);
        assert_eq!(too_big[..8], [2, 0, 0, 0, 0, 0, 0x05, 0xd4]);
        assert_eq!(too_big[8..], unreachable[8..]);
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

    const LINK: [u8; 6] = [2, 0x42, 0, 0, 0, 9];

    fn to_router(is_optimistic: bool) -> Introduction {
        let address = "2001:db8:a2::a".parse().expect("an address");
        let router = "fe80::1".parse().expect("an address");
        Introduction { ifindex: 3, router, address, is_optimistic }
    }

    #[test]
    fn a_router_is_solicited_from_an_address_that_is_ours_for_sure() {
        let what = to_router(false);
        let (message, to) = introduction(&what, LINK);
        assert_eq!(to, what.router);
        assert_eq!(message[..8], [135, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(message[8..24], what.router.octets());
        assert_eq!(message[24..], [1, 1, 2, 0x42, 0, 0, 0, 9]);
    }

    #[test]
    fn an_optimistic_address_is_advertised_to_all_routers_and_overrides_nothing() {
        let what = to_router(true);
        let (message, to) = introduction(&what, LINK);
        assert_eq!(to, ALL_ROUTERS);
        assert_eq!(message[..8], [136, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(message[8..24], what.address.octets());
        assert_eq!(message[24..], [2, 1, 2, 0x42, 0, 0, 0, 9]);
    }
}
