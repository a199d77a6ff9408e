use core::net::Ipv6Addr;

use moorline_ip::icmp::Cause;

use super::WireId;
use crate::{tcp, udp};

/// Something that happened at the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An address has become one that packets may have.
    AddressReady(WireId, Ipv6Addr),
    /// Another node has the address (RFC 4862 s5.4.5).
    AddressDuplicate(WireId, Ipv6Addr),
    /// The address is not for new connections any more.
    AddressDeprecated(WireId, Ipv6Addr),
    /// The address is gone.
    AddressRemoved(WireId, Ipv6Addr),
    /// Another node has the link-local address that comes from the MAC address, so IPv6 stops on the wire until its link goes down (RFC 4862
    /// s5.4.5).
    Disabled(WireId),
    /// A router leads to other links.
    RouterFound(WireId, Ipv6Addr),
    /// The DNS servers or search domains have changed.
    DnsChanged(WireId),
    /// A router is not a router for this host any more.
    RouterLost(WireId, Ipv6Addr),
    /// Neighbor Unreachability Detection has given a router up (RFC 4861 s7.3). The host tells this again as long as packets go to the router.
    RouterUnreachable(WireId, Ipv6Addr),
    /// An Echo Reply to [`Stack::ping`](super::Stack::ping).
    EchoReply(EchoReply),
    /// An error about an Echo Request of ours.
    EchoError {
        /// Destination of the request.
        destination: Ipv6Addr,
        /// Identifier of the request.
        identifier: u16,
        /// Sequence number of the request.
        sequence: u16,
        /// Node that sent the error.
        from: Ipv6Addr,
        /// The error.
        cause: Cause,
    },
    /// The path MTU of a destination is another one (RFC 8201).
    PathMtu(Ipv6Addr, u32),
    /// An error about a datagram of a UDP socket without a peer.
    UdpError {
        /// Addresses and ports of the datagram.
        quote: udp::Quote,
        /// Node that sent the error.
        from: Ipv6Addr,
        /// The error.
        cause: Cause,
    },
    /// A datagram or an error waits at a socket.
    Udp(udp::UdpId),
    /// Something happened to a TCP connection or listener.
    Tcp(tcp::Event),
}

/// An Echo Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoReply {
    /// Node that answered.
    pub from: Ipv6Addr,
    /// Identifier of the request.
    pub identifier: u16,
    /// Sequence number of the request.
    pub sequence: u16,
    /// Octets of the data.
    pub size: usize,
    /// Hop limit on arrival.
    pub hop_limit: u8,
}
