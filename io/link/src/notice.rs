use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::socket::{raw_socket, send, set_option};

/// Tells TCP sockets of this host that their segments got lost on the way, not in congestion (RFC 6069).
///
/// A notice is an ICMPv6 Destination Unreachable or Packet Too Big from an address of ours to itself. The kernel refuses the
/// source if it is not ours, so that a notice is delivered here or nowhere; nothing from the network has a
/// part in it.
#[derive(Debug)]
pub struct NoticeSocket(OwnedFd);

/// A TCP segment that was sent, as far as a notice quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Our address.
    pub source: Ipv6Addr,
    /// The peer's.
    pub destination: Ipv6Addr,
    /// Our port.
    pub source_port: u16,
    /// The peer's.
    pub destination_port: u16,
    /// Of its first octet.
    pub sequence: u32,
}

impl NoticeSocket {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = raw_socket(libc::IPPROTO_ICMPV6)?;
        // Sockets with IPV6_MINHOPCOUNT take errors only from so near.
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &MAX_HOPS)?;
        // It only sends; what comes in is not even queued.
        set_option(&socket, libc::IPPROTO_ICMPV6, crate::icmp6::ICMP6_FILTER, &[u32::MAX; 8])?;
        Ok(Self(socket))
    }

    /// Takes back one doubling of the segment's retransmission timer, if the socket has not been acknowledged
    /// anything meanwhile; if the shorter timer has run out, it sends again before this returns.
    ///
    /// # Errors
    /// Those of sendmsg(2): the source is not ours any more, a firewall, buffer full.
    pub fn unreachable(&self, segment: &Segment) -> io::Result<()> {
        let message = notice(DESTINATION_UNREACHABLE, NO_ROUTE, 0, segment);
        send(self.0.as_raw_fd(), &message, segment.source, segment.source)
    }

    /// Tells that nothing above `mtu` octets fits any more: the socket sends again, before this returns, all that
    /// it has not been acknowledged in segments that are too long (RFC 8201 s5.4). Without effect if its
    /// segments fit.
    ///
    /// # Errors
    /// As [`Self::unreachable`].
    pub fn too_big(&self, segment: &Segment, mtu: u32) -> io::Result<()> {
        let message = notice(PACKET_TOO_BIG, 0, mtu, segment);
        send(self.0.as_raw_fd(), &message, segment.source, segment.source)
    }
}

/// An ICMPv6 error (RFC 4443 s3) that quotes the segment. The kernel puts the checksum in.
fn notice(kind: u8, code: u8, word: u32, segment: &Segment) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    message[0] = kind;
    message[1] = code;
    message[4..8].copy_from_slice(&word.to_be_bytes());
    let (_, quote) = message.split_at_mut(8);
    let (ip, tcp) = quote.split_at_mut(40);
    ip[0] = 6 << 4;
    ip[5] = TCP_HEADER;
    ip[6] = TCP;
    ip[7] = HOPS;
    ip[8..24].copy_from_slice(&segment.source.octets());
    ip[24..40].copy_from_slice(&segment.destination.octets());
    tcp[0..2].copy_from_slice(&segment.source_port.to_be_bytes());
    tcp[2..4].copy_from_slice(&segment.destination_port.to_be_bytes());
    tcp[4..8].copy_from_slice(&segment.sequence.to_be_bytes());
    // Connection tracking looks at a header that is whole.
    tcp[12] = (TCP_HEADER / 4) << 4;
    tcp[13] = ACK;
    message
}

/// Type of ICMPv6 (RFC 4443 s3.1).
const DESTINATION_UNREACHABLE: u8 = 1;
/// Type of ICMPv6 (RFC 4443 s3.2).
const PACKET_TOO_BIG: u8 = 2;
/// Code of Destination Unreachable for no route, one of the two that RFC 6069 s4.1 takes and the one that Linux does.
const NO_ROUTE: u8 = 0;
/// Next header value of TCP.
const TCP: u8 = 6;
/// Octets of the TCP header without options.
const TCP_HEADER: u8 = 20;
/// Flag of TCP (RFC 9293 s3.1).
const ACK: u8 = 0x10;
/// Hop limit of the quoted packet: any will do.
const HOPS: u8 = 64;
/// Of the notice.
const MAX_HOPS: libc::c_int = 255;
/// ICMPv6, IPv6 and TCP header.
const LENGTH: usize = 8 + 40 + TCP_HEADER as usize;

#[cfg(test)]
mod tests {
    use super::*;

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
        let unreachable = notice(DESTINATION_UNREACHABLE, NO_ROUTE, 0, &segment);
        assert_eq!(unreachable[..], expected.concat());
        let too_big = notice(PACKET_TOO_BIG, 0, 1492, &segment);
        assert_eq!(too_big[..8], [2, 0, 0, 0, 0, 0, 0x05, 0xd4]);
        assert_eq!(too_big[8..], unreachable[8..]);
    }
}
