use moorline_ip::Header;
use moorline_ip::address::is_unicast;
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::icmp::{Cause, PORT_UNREACHABLE};
use moorline_ip::ip4::Ip4;
use moorline_ip::ip6::{ICMPV6, TCP, UDP};
use moorline_ip::udp::{self, Datagram};
use moorline_ip::{Malformed, PacketBuf};
use moorline_types::Instant;

use super::wire::Wire;
use super::{Stack, WireId};
use crate::chain::{self, Position, Step, Verdict};
use crate::ip4::is_ip4;
use crate::udp::Incoming;
use crate::{Drop, reassembly, tcp};

/// How a packet has come in.
pub type Arrival = reassembly::Arrival<WireId>;

impl Stack {
    /// Takes a frame of a wire.
    pub fn handle_frame(&mut self, wire: WireId, frame: PacketBuf, now: Instant) {
        self.counters.frames_in += 1;
        let result = self.take_frame(wire, frame, now);
        self.count(result);
        self.unsettled = Some(now);
    }

    //= rfc8504#4-1
    fn take_frame(&mut self, id: WireId, mut frame: PacketBuf, now: Instant) -> Result<(), Drop> {
        let Some(wire) = self.wire(id).filter(|wire| wire.is_up) else {
            return Err(Drop::OtherStation);
        };
        let link = Ethernet::parse(&frame).map_err(|_| Drop::Truncated)?;
        if !link.destination.is_group() && link.destination != wire.mac {
            return Err(Drop::OtherStation);
        }
        let has_ip4 = wire.ip4.is_some();
        frame.strip(ethernet::LEN);
        let is_link_multicast = link.destination.is_group();
        let arrival = Arrival { wire: id, is_link_multicast };
        match link.ether_type {
            ethernet::IPV6 => self.take_packet(arrival, &mut frame, now),
            ethernet::IPV4 if has_ip4 => self.take_ip4(arrival, &mut frame, now),
            ethernet::ARP if has_ip4 => self.arp_in(id, &frame, now),
            _ => Err(Drop::UnknownProtocol),
        }
    }

    //= rfc8504#5.1-1 rfc8504#5.1-3
    //= rfc8200#3-1 rfc8200#3-2 rfc8200#5-4
    fn take_packet(
        &mut self,
        arrival: Arrival,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let header = Header::parse(packet)?;
        packet.truncate(header.packet_len());
        self.check_addresses(arrival, &header)?;
        self.counters.packets_in += 1;
        if self.config.intercepts && !header.destination.is_multicast() {
            self.inbound.push_back((arrival, core::mem::take(packet)));
            return Ok(());
        }
        self.deliver_with(arrival, &header, packet, now)
    }

    //= rfc8504#6.1-1
    //= rfc3810#5.1.15-1 rfc3810#5.2.14-1
    //= rfc4862#5.4.2-4 rfc4862#5.5.4-3
    fn check_addresses(&self, arrival: Arrival, header: &Header) -> Result<(), Drop> {
        let Header { source, destination, .. } = *header;
        // RFC 4291 s2.5.3 and s2.7: packets from these addresses are not on a wire.
        if source.is_multicast() || source.is_loopback() || destination.is_loopback() {
            return Err(Drop::BadSource);
        }
        // RFC 4291 s2.5.5.2: v4-mapped addresses stand for IPv4 nodes, so no IPv6 packet has one.
        if source.to_ipv4_mapped().is_some() || destination.to_ipv4_mapped().is_some() {
            return Err(Drop::BadSource);
        }
        let is_ours = if destination.is_multicast() {
            // RFC 4862 s5.4.2: the solicited-node group of a tentative address counts before the interface joins it.
            let is_member = |wire: &Wire| {
                wire.listener.is_member(destination) || wire.addresses.has_group(destination)
            };
            self.wire(arrival.wire).is_some_and(is_member)
        } else if destination.is_unicast_link_local() {
            self.wire(arrival.wire).is_some_and(|wire| wire.addresses.is_ours(destination))
        } else {
            self.is_ours(destination)
        };
        if is_ours { Ok(()) } else { Err(Drop::NotOurs) }
    }

    /// Hands a packet to its upper layer, which may take its memory.
    pub(super) fn deliver(
        &mut self,
        arrival: Arrival,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        if is_ip4(packet) {
            let ip = Ip4::parse(packet)?;
            return self.deliver_ip4(arrival, &ip, packet, now);
        }
        let header = Header::parse(packet)?;
        self.deliver_with(arrival, &header, packet, now)
    }

    fn deliver_with(
        &mut self,
        arrival: Arrival,
        header: &Header,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let position = Position::start(header);
        // The fast path: no header between IPv6 and the upper layer.
        if matches!(header.next_header, TCP | UDP) {
            return self.upper(arrival, header, position, packet, now);
        }
        self.walk(arrival, header, position, packet, now)
    }

    /// Processes the extension headers of a packet from this position on.
    fn walk(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        match chain::walk(packet, header, position) {
            Ok(Step::Upper(position)) => self.upper(arrival, header, position, packet, now),
            Ok(Step::Fragment(position)) => self.fragment(arrival, header, position, packet, now),
            Ok(Step::NoNextHeader) => Ok(()),
            Err(verdict) => Err(self.judge(verdict, arrival, packet, now)),
        }
    }

    /// Sends the error about a packet, if there is one, and returns the reason of the drop.
    //= rfc4443#3.4-1
    pub(super) fn judge(
        &mut self,
        verdict: Verdict,
        arrival: Arrival,
        packet: &[u8],
        now: Instant,
    ) -> Drop {
        if let Verdict::Report(_, cause) = verdict {
            self.report(cause, arrival, packet, now);
        }
        verdict.reason()
    }

    //= rfc8200#4-4
    fn upper(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 4291 s2.5.2: only messages of a node without an address come from the unspecified address.
        let is_unspecified = header.source.is_unspecified() && position.protocol != ICMPV6;
        // A layer below may have taken the packet out of another one, so nobody has checked this address.
        if is_unspecified || header.source.to_ipv4_mapped().is_some() {
            return Err(Drop::BadSource);
        }
        match position.protocol {
            UDP => self.udp_in(arrival, header, position, packet, now),
            TCP => self.tcp_in(header, position, packet, now),
            ICMPV6 => self.icmp_in(arrival, header, position, packet, now),
            _ => Err(self.judge(position.unrecognized(), arrival, packet, now)),
        }
    }

    fn fragment(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        packet: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        match self.reassembly.handle_fragment(packet, header, position, arrival, now) {
            Ok(Some(mut whole)) => {
                self.walk(arrival, &whole.header, whole.position, &mut whole.packet, now)
            }
            Ok(None) => Ok(()),
            Err(verdict) => Err(self.judge(verdict, arrival, packet, now)),
        }
    }

    //= rfc4443#3.1-2 rfc4443#3.1-4
    //= rfc8200#8.1-5
    pub(super) fn udp_in(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let octets = packet.get(position.at..).unwrap_or_default();
        let datagram = Datagram::parse(header.source, header.destination, octets)?;
        let start = position.at + udp::LEN;
        let result = self.udp.handle_datagram(Incoming {
            header,
            wire: arrival.wire.0,
            source_port: datagram.source_port,
            destination_port: datagram.destination_port,
            payload: start..start + datagram.payload.len(),
            packet,
        });
        // RFC 4443 s3.1: no error about a datagram to a group.
        if result == Err(Drop::NoSocket) && is_unicast(header.destination) {
            self.report(Cause::Unreachable(PORT_UNREACHABLE), arrival, packet, now);
        }
        result
    }

    pub(super) fn tcp_in(
        &mut self,
        header: &Header,
        position: Position,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        packet.strip(position.at);
        // RFC 9293 s3.9.2.3: a segment to a multicast address is discarded silently.
        if !is_unicast(header.destination) {
            return Err(Drop::NotOurs);
        }
        if !tcp::is_checksum_right(header, packet) {
            return Err(Drop::BadChecksum);
        }
        self.gather(header, core::mem::take(packet), now)
    }
}

impl From<Malformed> for Drop {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Truncated | Malformed::Length => Self::Truncated,
            Malformed::Checksum => Self::BadChecksum,
            Malformed::Version
            | Malformed::HopLimit
            | Malformed::Code
            | Malformed::Address
            | Malformed::Option => Self::Malformed,
        }
    }
}
