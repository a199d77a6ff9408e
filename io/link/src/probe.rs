use std::io;
use std::net::Ipv6Addr;

use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ip6::ICMPV6;

use crate::socket::RawSocket;
use crate::tap::Tap;
use crate::whole::PacketSocket;

/// Sends whole packets, with their IPv6 header, and receives possible answers: ICMPv6 echo replies and errors, and
/// protocol 140.
#[derive(Debug)]
pub struct ProbeSocket {
    whole: PacketSocket,
    icmp6: RawSocket,
    shim6: RawSocket,
    /// The type of ICMPv6 that it receives besides, with its tap.
    tap: Option<(u8, Tap)>,
}

/// A received packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Protocol: 58 or 140.
    pub protocol: u8,
    /// Sender of the packet.
    pub source: Ipv6Addr,
    /// The address of this host to which the packet came.
    pub destination: Ipv6Addr,
    /// Octets from the header of the protocol on.
    pub octets: Vec<u8>,
}

impl ProbeSocket {
    /// Opens the socket. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the host has no IPv6.
    pub fn open() -> io::Result<Self> {
        // Errors have the types 1 to 4, the echo reply has 129.
        let icmp6 = RawSocket::icmp6(&[1, 2, 3, 4, 129])?;
        Ok(Self { whole: PacketSocket::open()?, icmp6, shim6: RawSocket::open(SHIM6)?, tap: None })
    }

    /// Also receives ICMPv6 of this type, even if a data plane keeps it from sockets.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing.
    pub fn hear(&mut self, kind: u8) -> io::Result<()> {
        self.tap = Some((kind, Tap::open(kind)?));
        Ok(())
    }

    /// Sends a packet unchanged, by this interface.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as: larger than the interface takes, a firewall of this host, no route.
    pub fn send(&self, packet: &[u8], ifindex: u32) -> io::Result<()> {
        self.whole.send(packet, ifindex)
    }

    /// Waits for the next answer. Cancel safe.
    ///
    /// # Errors
    /// The errors of recvmsg(2).
    pub async fn receive(&self) -> io::Result<Answer> {
        let (mut icmp6, mut shim6) = (vec![0; MAX_ANSWER], vec![0; MAX_ANSWER]);
        let (protocol, datagram, buffer) = tokio::select! {
            datagram = self.icmp6.receive(&mut icmp6) => (ICMPV6, datagram?, icmp6),
            datagram = self.shim6.receive(&mut shim6) => (SHIM6, datagram?, shim6),
            answer = self.tapped() => return answer,
        };
        let octets = buffer[..datagram.len].to_vec();
        let (source, destination) = (datagram.source, datagram.destination);
        Ok(Answer { protocol, source, destination, octets })
    }

    async fn tapped(&self) -> io::Result<Answer> {
        let Some((kind, tap)) = &self.tap else { return std::future::pending().await };
        let (source, destination, octets) = tap.receive(*kind, &mut vec![0; MAX_ANSWER]).await?;
        Ok(Answer { protocol: ICMPV6, source, destination, octets })
    }
}

/// Octets of the largest IPv6 packet.
const MAX_ANSWER: usize = 65_535;
