use std::io;
use std::net::Ipv6Addr;

use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ip6::ICMPV6;

use crate::socket::RawSocket;
use crate::tap::Tap;
use crate::whole::PacketSocket;

/// Sends packets that are whole, IPv6 header included, and receives what may answer them: echo replies and errors
/// of ICMPv6, and protocol 140.
#[derive(Debug)]
pub struct ProbeSocket {
    whole: PacketSocket,
    icmp6: RawSocket,
    shim6: RawSocket,
    /// With the type that it hears.
    tap: Option<(u8, Tap)>,
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Protocol: 58 or 140.
    pub protocol: u8,
    /// Who sent it.
    pub source: Ipv6Addr,
    /// To which of our addresses.
    pub destination: Ipv6Addr,
    /// From the header of the protocol on.
    pub octets: Vec<u8>,
}

impl ProbeSocket {
    /// Opens it; has to be called inside a tokio runtime.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        // Errors are 1 to 4, the echo reply is 129.
        let icmp6 = RawSocket::icmp6(&[1, 2, 3, 4, 129])?;
        Ok(Self { whole: PacketSocket::open()?, icmp6, shim6: RawSocket::open(SHIM6)?, tap: None })
    }

    /// Hears ICMPv6 of this type as well: of such that a data plane keeps from sockets.
    ///
    /// # Errors
    /// Without CAP_NET_RAW.
    pub fn hear(&mut self, kind: u8) -> io::Result<()> {
        self.tap = Some((kind, Tap::open(kind)?));
        Ok(())
    }

    /// Sends a packet as it is, out of this interface.
    ///
    /// # Errors
    /// Those of sendmsg(2): larger than the interface takes, a firewall of this host, no route.
    pub fn send(&self, packet: &[u8], ifindex: u32) -> io::Result<()> {
        self.whole.send(packet, ifindex)
    }

    /// Waits for the next answer. Cancel safe.
    ///
    /// # Errors
    /// Those of recvmsg(2).
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

/// The largest IPv6 packet.
const MAX_ANSWER: usize = 65_535;
