use core::net::{Ipv4Addr, Ipv6Addr};

use moorline_ip::PacketBuf;
use moorline_ip::ip4::{self, Ip4};
use moorline_types::Instant;

use crate::Drop;
use crate::ip4::{MIN_PATH_MTU, fragments};
use crate::select::SourceCandidate;
use crate::stack::output::{Outgoing, Path, Way};
use crate::stack::{Stack, wire::Wire};

impl Stack {
    /// The header of a packet of IPv4, without its length. The packet may not be fragmented, so its Identification has no meaning (RFC 6864
    /// s4.1).
    pub(in crate::stack) fn ip4_header(
        &self,
        source: Ipv6Addr,
        destination: Ipv4Addr,
        outgoing: Outgoing,
    ) -> Result<Ip4, Drop> {
        Ok(Ip4 {
            tos: outgoing.traffic_class,
            header_len: 20,
            total_len: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            offset: 0,
            ttl: outgoing.hop_limit.unwrap_or(self.config.hop_limit),
            protocol: outgoing.protocol,
            source: source.to_ipv4_mapped().ok_or(Drop::NoSource)?,
            destination,
        })
    }

    /// Sends a packet of IPv4, in fragments if it is larger than the path's MTU. Routers may fragment it if the path has the least
    /// MTU.
    pub(in crate::stack) fn emit_ip4(
        &mut self,
        mut packet: PacketBuf,
        path: Path,
        now: Instant,
    ) -> Result<(), Drop> {
        let is_short = packet.segment_size().is_some()
            || u32::try_from(packet.len()).is_ok_and(|len| len <= path.mtu);
        if is_short && path.mtu > MIN_PATH_MTU {
            self.counters.packets_out += 1;
            return self.transmit(packet, path.way, now);
        }
        let header = self.fragmentable(&packet, path)?;
        if is_short {
            packet.strip(ip4::LEN);
            packet.prepend(&header.octets());
            self.counters.packets_out += 1;
            return self.transmit(packet, path.way, now);
        }
        self.counters.fragmented += 1;
        for fragment in fragments(&packet, header, path.mtu) {
            self.counters.packets_out += 1;
            self.transmit(fragment, path.way, now)?;
        }
        Ok(())
    }

    /// The header of a packet that this host or a router fragments. RFC 6864 s4.3: its Identification is unique.
    fn fragmentable(&mut self, packet: &[u8], path: Path) -> Result<Ip4, Drop> {
        let header = Ip4::read(packet)?;
        let (source, destination) =
            (header.source.to_ipv6_mapped(), header.destination.to_ipv6_mapped());
        let [.., high, low] = self.identifications.next(source, destination).to_be_bytes();
        let dont_fragment = path.mtu > MIN_PATH_MTU;
        Ok(Ip4 { identification: u16::from_be_bytes([high, low]), dont_fragment, ..header })
    }

    /// The way of a packet with these addresses: by the wire of the source first, and by a link of the destination before a
    /// gateway.
    pub(in crate::stack) fn way_ip4(&self, destination: Ipv4Addr, source: Ipv6Addr) -> Option<Way> {
        let ways = self.wires.iter().filter(|wire| wire.is_up).filter_map(|wire| {
            let ip4 = wire.ip4()?;
            let config = ip4.config();
            let next_hop = ip4.next_hop(destination)?;
            let on_link = config.is_on_link(destination).then_some(config.prefix_len);
            let rank = (config.mapped() == source, on_link);
            Some((rank, Way { wire: wire.id, next_hop }))
        });
        // The first one of equal ways.
        ways.reduce(|best, way| if way.0 > best.0 { way } else { best }).map(|(_, way)| way)
    }
}

impl Wire {
    /// The IPv4 address, as a source for packets of this way.
    pub(in crate::stack) fn ip4_candidate(&self, way: Way) -> Option<SourceCandidate> {
        let config = self.ip4()?.config();
        Some(SourceCandidate {
            address: config.mapped(),
            wire: self.id.0,
            is_deprecated: false,
            is_temporary: false,
            prefix_len: config.prefix().length(),
            is_on_outgoing_wire: self.id == way.wire,
            is_from_next_hop: false,
        })
    }

    /// Sends a packet by way of a neighbor: one with a v4-mapped address is found by ARP.
    pub(in crate::stack) fn send(
        &mut self,
        next_hop: Ipv6Addr,
        packet: PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        if next_hop.to_ipv4_mapped().is_some() {
            return self.ip4.as_mut().ok_or(Drop::NoRoute)?.send(next_hop, packet, now);
        }
        self.neighbors.send(next_hop, packet, now)
    }

    /// Takes the word of an upper layer that packets reach a neighbor.
    pub(in crate::stack) fn confirm(&mut self, neighbor: Ipv6Addr, now: Instant) {
        match self.ip4.as_mut() {
            Some(ip4) if neighbor.to_ipv4_mapped().is_some() => ip4.confirm(neighbor, now),
            _ => self.neighbors.confirm(neighbor, now),
        }
    }

    /// MTU of the link for packets by way of a neighbor. Routers set the one of IPv6.
    pub(in crate::stack) fn mtu_to(&self, next_hop: Ipv6Addr) -> u32 {
        let of_ip4 = next_hop.to_ipv4_mapped().and_then(|_| self.ip4()).map(|ip4| ip4.mtu());
        of_ip4.unwrap_or_else(|| self.routers.mtu())
    }
}
