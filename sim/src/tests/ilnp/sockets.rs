use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_types::{Ilv, IlvPair};
use moorline_wire::ilnp::{checksum_at, transport_checksum};

use super::attack::EVIL;
use crate::packet::{TCP, UDP};

/// The socket of a host, with the packets that it has sent and received.
#[derive(Clone, Debug)]
pub(crate) struct SimSocket {
    pub(crate) pair: IlvPair,
    pub(crate) protocol: u8,
    pub(crate) ports: (u16, u16),
    pub(crate) kind: Socket,
    /// Octets of each packet beside its number.
    pub(crate) padding: usize,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Number behind the last packet received.
    pub(crate) next: u64,
    /// Flow label of the packets.
    pub(crate) label: u32,
}

/// Numbers in a packet of a socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) number: u64,
    /// The number that the socket expects. A TCP segment acknowledges what comes before it.
    pub(crate) next: u64,
    /// Flow label.
    pub(crate) label: u32,
}

impl SimSocket {
    /// The next packet of the socket.
    pub(crate) fn packet(&mut self) -> Vec<u8> {
        let numbers = Numbers { number: self.sent, next: self.next, label: self.label };
        self.sent += 1;
        packet(self.pair, self.protocol, self.ports, numbers, self.padding)
    }
}

impl Sockets for SimSocket {
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        let is_for_it = protocol == self.protocol && ports.0 == self.ports.0;
        // Another socket is connected to a namesake.
        let is_evil = pair.remote.l64 == EVIL && pair.nids() == self.pair.nids();
        let is_exact = (pair == self.pair || is_evil) && ports == self.ports;
        match (is_for_it, self.kind) {
            (true, Socket::Connected) if is_exact => Socket::Connected,
            (true, Socket::Unconnected) => Socket::Unconnected,
            _ => Socket::None,
        }
    }

    fn any_between(&self, pair: IlvPair) -> bool {
        self.kind == Socket::Connected && self.pair == pair
    }
}

/// The sockets of a host that has this one; `None` if it was closed.
pub(crate) fn sockets_of(socket: Option<&SimSocket>) -> &dyn Sockets {
    match socket {
        Some(socket) => socket,
        None => &NoSockets,
    }
}

struct NoSockets;

impl Sockets for NoSockets {
    fn kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        Socket::None
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        false
    }
}

/// The packet of a socket: IPv6, and TCP or UDP with a checksum over both addresses.
pub(crate) fn packet(
    pair: IlvPair,
    protocol: u8,
    ports: (u16, u16),
    numbers: Numbers,
    padding: usize,
) -> Vec<u8> {
    let Numbers { number, next, label } = numbers;
    let mut upper = Vec::new();
    upper.extend(ports.0.to_be_bytes());
    upper.extend(ports.1.to_be_bytes());
    if protocol == TCP {
        let octets = padding as u64 + 8;
        upper.extend([number, next].map(|number| sequence_of(number * octets)).concat());
        // Data offset 5, flag ACK.
        upper.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    } else {
        let len = u16::try_from(usize::from(UDP_LEN) + padding).expect("small");
        upper.extend(len.to_be_bytes());
        upper.extend([0, 0]);
    }
    upper.resize(upper.len() + padding, 0);
    upper.extend(number.to_be_bytes());
    let at = checksum_at(protocol).expect("has one");
    let sum = match transport_checksum(pair.local, pair.remote, protocol, &upper) {
        0 if protocol == UDP => 0xffff,
        sum => sum,
    };
    upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut packet = ip6(pair, protocol, &upper);
    packet[..4].copy_from_slice(&(VERSION | label).to_be_bytes());
    packet
}

/// The sequence number (RFC 9293 s3.4) behind this number of octets.
fn sequence_of(octets: u64) -> [u8; 4] {
    let [.., a, b, c, d] = octets.wrapping_add(0x5eed_0000).to_be_bytes();
    [a, b, c, d]
}

pub(crate) fn ip6(pair: IlvPair, next_header: u8, payload: &[u8]) -> Vec<u8> {
    crate::packet::ip6(pair.ulids().as_locators(), next_header, payload)
}

/// Source and destination, next header, and the octets behind the IPv6 header.
pub(crate) fn read(packet: &[u8]) -> Option<(IlvPair, u8, &[u8])> {
    let (locators, next_header) = crate::packet::header(packet)?;
    let pair = IlvPair::new(Ilv::of(locators.local.0), Ilv::of(locators.peer.0));
    Some((pair, next_header, crate::packet::payload(packet)))
}

/// The number in a packet for a socket, if the packet is whole. The pair is as the receiver has it.
pub(crate) fn number(packet: &[u8]) -> Option<(IlvPair, u8, (u16, u16), u64)> {
    let (pair, protocol, upper) = read(packet)?;
    let is_right = checksum_at(protocol).is_some()
        && transport_checksum(pair.local, pair.remote, protocol, upper) == 0;
    let port = |at: usize| Some(u16::from_be_bytes([*upper.get(at)?, *upper.get(at + 1)?]));
    let number = upper.last_chunk::<8>().map(|octets| u64::from_be_bytes(*octets))?;
    is_right.then_some((pair.reversed(), protocol, (port(2)?, port(0)?), number))
}

const UDP_LEN: u16 = 16;
/// Version 6 in the first word of an IPv6 header.
const VERSION: u32 = 6 << 28;
