use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::Header;
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::ip4::{self, Ip4};
use moorline_ip::ip6::MIN_MTU;
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Instant;

use super::frames::Cut;
use super::input::Arrival;
use super::wire::Wire;
use super::{Stack, WireId};
use crate::address::{Origin, State};
use crate::ip4::is_ip4;
use crate::route::{Candidate, NextHop, Reach, RouterChoice};
use crate::select::{self, SourceCandidate};
use crate::tcp::Segments;
use crate::{Drop, fragment, neighbor};

/// A packet that an upper layer wants to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// The source; `None` if the host chooses it.
    pub(super) source: Option<Ipv6Addr>,
    pub(super) destination: Ipv6Addr,
    pub(super) protocol: u8,
    /// The hop limit; `None` for the one of the host.
    pub(super) hop_limit: Option<u8>,
    pub(super) traffic_class: u8,
    /// Ports of the flow, or zero.
    pub(super) ports: (u16, u16),
    /// The wire of a link-local destination or a group, if a socket has said one.
    pub(super) wire: Option<u32>,
}

impl Outgoing {
    pub(super) const fn new(destination: Ipv6Addr, protocol: u8) -> Self {
        Self {
            source: None,
            destination,
            protocol,
            hop_limit: None,
            traffic_class: 0,
            ports: (0, 0),
            wire: None,
        }
    }
}

/// The way of a packet out of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) wire: WireId,
    /// The neighbor that takes the packet next.
    pub(super) next_hop: Ipv6Addr,
}

/// The header of a packet, without its length.
#[derive(Clone, Copy, Debug)]
pub(super) enum AnyHeader {
    Ip6(Header),
    Ip4(Ip4),
}

/// The way of a packet, and the MTU of the path: the one that is known, up to the one of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// `None` for packets of the host to itself.
    pub(super) way: Option<Way>,
    /// Octets of the largest packet.
    pub(super) mtu: u32,
}

impl Stack {
    /// Builds a packet and sends it, in fragments if the path demands it. `write` gets the source address, and
    /// appends the upper layer.
    //= rfc8504#5.1-2 rfc8504#5.1-3
    //= rfc6724#4-9
    //= rfc8200#8.4-1
    pub(super) fn send(
        &mut self,
        outgoing: Outgoing,
        now: Instant,
        write: impl FnOnce(Ipv6Addr, &mut Vec<u8>),
    ) -> Result<(), Drop> {
        let destination = outgoing.destination;
        let source = match outgoing.source {
            Some(source) => source,
            None => {
                let source = self.source_for(destination, outgoing.wire, now);
                source.ok_or(Drop::NoSource)?
            }
        };
        let mut packet = PacketBuf::with_capacity(TYPICAL_LEN);
        packet.append_with(|out| write(source, out));
        let packet = with_header(self.header(source, outgoing)?, packet)?;
        let path = self.path_for(packet.len(), destination, source, outgoing.wire, now);
        self.send_packet(packet, path.ok_or(Drop::NoRoute)?, now)
    }

    /// The header of a packet, without the length of its payload.
    pub(super) fn header(&self, source: Ipv6Addr, outgoing: Outgoing) -> Result<AnyHeader, Drop> {
        let Outgoing { destination, protocol, hop_limit, traffic_class, ports, .. } = outgoing;
        if let Some(destination) = destination.to_ipv4_mapped() {
            return self.ip4_header(source, destination, outgoing).map(AnyHeader::Ip4);
        }
        // A socket that is bound to an IPv4 address has no source for IPv6.
        if source.to_ipv4_mapped().is_some() {
            return Err(Drop::NoSource);
        }
        let hop_limit = hop_limit.unwrap_or_else(|| self.hop_limit(destination));
        Ok(AnyHeader::Ip6(Header {
            traffic_class,
            flow_label: self.labels.label(source, destination, protocol, ports),
            ..Header::new(source, destination, protocol, hop_limit, 0)
        }))
    }

    /// Sends a packet, in fragments if it is larger than the path's MTU.
    //= rfc8201#4-6
    //= rfc8200#4.5-1 rfc8200#5-7
    fn send_packet(&mut self, packet: PacketBuf, path: Path, now: Instant) -> Result<(), Drop> {
        if is_ip4(&packet) || u32::try_from(packet.len()).is_ok_and(|len| len <= path.mtu) {
            return self.emit(packet, path, now);
        }
        let header = Header::parse(&packet)?;
        let identification = self.identifications.next(header.source, header.destination);
        self.counters.fragmented += 1;
        let fragments = fragment::fragments(&packet, path.mtu, identification);
        for fragment in fragments.map_err(|_| Drop::Truncated)? {
            self.emit(fragment, path, now)?;
        }
        Ok(())
    }

    /// Hands a packet to the layer below the upper layers.
    pub(super) fn emit(&mut self, packet: PacketBuf, path: Path, now: Instant) -> Result<(), Drop> {
        if is_ip4(&packet) {
            return self.emit_ip4(packet, path, now);
        }
        self.counters.packets_out += 1;
        if self.config.intercepts {
            self.outbound.push_back(packet);
            return Ok(());
        }
        self.transmit(packet, path.way, now)
    }

    /// Sends a packet by the way that its addresses have now.
    pub(super) fn route(&mut self, packet: PacketBuf, now: Instant) -> Result<(), Drop> {
        let Header { source, destination, .. } = Header::parse(&packet)?;
        // No packet of IPv6 goes to an IPv4 node (RFC 4291 s2.5.5.2).
        if destination.to_ipv4_mapped().is_some() {
            return Err(Drop::NoRoute);
        }
        let path = self.bare_path(NO_MTU, destination, source, None, now).ok_or(Drop::NoRoute)?;
        self.transmit(packet, path.way, now)
    }

    /// Sends a packet to its next hop, or to the host itself.
    pub(super) fn transmit(
        &mut self,
        packet: PacketBuf,
        way: Option<Way>,
        now: Instant,
    ) -> Result<(), Drop> {
        let Some(way) = way else {
            if self.local.len() == MAX_LOCAL {
                return Err(Drop::SocketFull);
            }
            self.local.push_back(packet);
            return Ok(());
        };
        let wire = self.wires.iter_mut().find(|wire| wire.id == way.wire).ok_or(Drop::NoRoute)?;
        // Most neighbors are reachable, and nothing waits in front of the packet.
        if let Some(mac) = wire.neighbors.station(way.next_hop, now) {
            let frame = framed(wire, mac, packet);
            self.frames.push(way.wire, frame);
            return Ok(());
        }
        wire.send(way.next_hop, packet, now)
    }

    /// Sends the segments of a super-segment to a reachable neighbor over IPv6: each is made when the caller takes its frame. Returns the segments
    /// if they have another way.
    pub(super) fn transmit_cut(
        &mut self,
        segments: Segments,
        header: AnyHeader,
        path: Path,
        now: Instant,
    ) -> Option<Segments> {
        let (AnyHeader::Ip6(header), Some(way), false) = (header, path.way, self.config.intercepts)
        else {
            return Some(segments);
        };
        let wire = self.wires.iter_mut().find(|wire| wire.id == way.wire);
        let station =
            wire.and_then(|wire| Some((wire.mac, wire.neighbors.station(way.next_hop, now)?)));
        let Some((source, destination)) = station else { return Some(segments) };
        self.counters.packets_out += segments.len() as u64;
        let link = Ethernet { destination, source, ether_type: ethernet::IPV6 };
        self.frames.push_cut(way.wire, Cut::new(segments, &header, link));
        None
    }

    /// The source address for a destination (RFC 6724 s5), if the host has one. `wire` is the one that a socket has said.
    pub(super) fn source_for(
        &mut self,
        destination: Ipv6Addr,
        wire: Option<u32>,
        now: Instant,
    ) -> Option<Ipv6Addr> {
        if self.is_own(destination) {
            return Some(destination);
        }
        self.source_candidate(destination, wire, now).map(|one| one.address)
    }

    /// The source address for a destination that is not the host itself, and what is known of the address.
    //= rfc6724#4-4 rfc6724#5-4 rfc6724#5-5
    pub(super) fn source_candidate(
        &mut self,
        destination: Ipv6Addr,
        wire: Option<u32>,
        now: Instant,
    ) -> Option<SourceCandidate> {
        let way = self.way(destination, Ipv6Addr::UNSPECIFIED, wire, now)?;
        // RFC 6724 s4: for a multicast or link-local destination, only addresses of the outgoing interface count.
        let is_of_link = destination.is_multicast() || destination.is_unicast_link_local();
        let all = self.wires.iter().flat_map(|wire| source_candidates(wire, way));
        let candidates: Vec<_> = all.filter(|one| !is_of_link || one.is_on_outgoing_wire).collect();
        let privacy = self.config.privacy;
        select::source(&candidates, destination, &self.policy, privacy).copied()
    }

    /// The way of a packet with these addresses. The source may be unspecified.
    //= rfc4861#8.3-5
    pub(super) fn way(
        &mut self,
        destination: Ipv6Addr,
        source: Ipv6Addr,
        wire: Option<u32>,
        now: Instant,
    ) -> Option<Way> {
        if let Some(destination) = destination.to_ipv4_mapped() {
            return self.way_ip4(destination, source);
        }
        // RFC 4291 s2.5.2: the unspecified address must not be a destination.
        if destination.is_unspecified() {
            return None;
        }
        if destination.is_multicast() || destination.is_unicast_link_local() {
            let wire = self.wire_of_link(source, wire)?;
            // RFC 6724 s4: a source of another link is an error.
            let is_of_wire = |wire: &Wire| wire.addresses.is_ours(source);
            if self.is_ours(source) && !self.wire(wire).is_some_and(is_of_wire) {
                return None;
            }
            return Some(Way { wire, next_hop: destination });
        }
        if let Some(NextHop { wire, address }) = self.destinations.next_hop(source, destination)
            && self.wire(WireId(wire)).is_some_and(|wire| wire.is_up)
        {
            return Some(Way { wire: WireId(wire), next_hop: address });
        }
        if let Some(wire) = self.wire_on_link(destination, source) {
            return Some(Way { wire, next_hop: destination });
        }
        self.way_by_router(destination, source, now)
    }

    /// The way by a router. Each packet asks, so the list of routes keeps its memory.
    //= rfc4191#3.5-2
    fn way_by_router(
        &mut self,
        destination: Ipv6Addr,
        source: Ipv6Addr,
        now: Instant,
    ) -> Option<Way> {
        let Self { wires, candidates, choice, .. } = self;
        candidates.clear();
        for wire in wires.iter().filter(|wire| wire.is_up) {
            candidates.extend(router_candidates(wire, destination, source, now));
        }
        let chosen = *choice.choose(destination, candidates)?;
        for probe in RouterChoice::probes(destination, candidates, &chosen) {
            if let Some(wire) = wires.iter_mut().find(|wire| wire.id.0 == probe.wire) {
                wire.neighbors.probe(probe.router, now);
            }
        }
        Some(Way { wire: WireId(chosen.wire), next_hop: chosen.router })
    }

    /// The wire of packets that stay on their link: the one that a socket has said, or the one of the source, or the first one.
    fn wire_of_link(&self, source: Ipv6Addr, wire: Option<u32>) -> Option<WireId> {
        let mut up = self.wires.iter().filter(|wire| wire.is_up);
        let said = self.wires.iter().find(|known| Some(known.id.0) == wire);
        let own = || self.wires.iter().find(|wire| wire.addresses.state(source).is_some());
        said.or_else(own).or_else(|| up.next()).map(|wire| wire.id)
    }

    /// The wire on whose link the destination is. RFC 8028 s3.2: the source decides, so its own wire comes first.
    fn wire_on_link(&self, destination: Ipv6Addr, source: Ipv6Addr) -> Option<WireId> {
        let mut on_link = None;
        for wire in
            self.wires.iter().filter(|wire| wire.is_up && wire.routers.is_on_link(destination))
        {
            if wire.addresses.is_ours(source) {
                return Some(wire.id);
            }
            on_link = on_link.or(Some(wire.id));
        }
        on_link
    }

    /// The path of packets between these addresses, as the upper layers see it: if a layer beneath carries the packets with other
    /// addresses, it is the path of those, less the octets that the layer puts in.
    //= rfc8201#4-5
    pub(super) fn path(
        &mut self,
        destination: Ipv6Addr,
        source: Ipv6Addr,
        wire: Option<u32>,
        now: Instant,
    ) -> Option<Path> {
        self.path_for(usize::MAX, destination, source, wire, now)
    }

    /// As [`Self::path`], for a packet of `len` octets. If each path takes such a packet, the MTU is the one of the link.
    pub(super) fn path_for(
        &mut self,
        len: usize,
        destination: Ipv6Addr,
        source: Ipv6Addr,
        wire: Option<u32>,
        now: Instant,
    ) -> Option<Path> {
        let Some(carried) = self.carried.get(&(source, destination)).copied() else {
            return self.bare_path(len, destination, source, wire, now);
        };
        let len = len.saturating_add(carried.overhead.into());
        let path = self.bare_path(len, carried.destination, carried.source, None, now)?;
        Some(Path { mtu: path.mtu.saturating_sub(carried.overhead.into()), ..path })
    }

    /// The path of a packet of `len` octets that leaves with these addresses.
    fn bare_path(
        &mut self,
        len: usize,
        destination: Ipv6Addr,
        source: Ipv6Addr,
        wire: Option<u32>,
        now: Instant,
    ) -> Option<Path> {
        if self.is_own(destination) {
            return Some(Path { way: None, mtu: LOCAL_MTU });
        }
        let way = self.way(destination, source, wire, now)?;
        let link_mtu = self.wire(way.wire)?.mtu_to(way.next_hop);
        // RFC 8200 s5: each link has an MTU of 1280 octets or more. So a packet that is no larger waits for no look-up among the paths.
        if len <= MIN_MTU.into() && destination.to_ipv4_mapped().is_none() {
            return Some(Path { way: Some(way), mtu: link_mtu });
        }
        let mtu = self.destinations.pmtu(way.wire.0, destination, link_mtu, now);
        Some(Path { way: Some(way), mtu })
    }

    /// Whether the wire of the path cuts TCP super-segments. Layers between the host and its wires get packets of the path's MTU.
    pub(super) fn is_cut_by_wire(&self, path: Path) -> bool {
        let wire = path.way.and_then(|way| self.wire(way.wire));
        !self.config.intercepts && wire.is_some_and(|wire| wire.cuts_segments)
    }

    fn hop_limit(&self, destination: Ipv6Addr) -> u8 {
        // RFC 3493 s5.2: a packet to a group has a hop limit of 1 unless a socket says another one.
        if destination.is_multicast() {
            return 1;
        }
        let up = self.wires.iter().filter(|wire| wire.is_up);
        up.map(|wire| wire.routers.hop_limit()).max().unwrap_or(self.config.hop_limit)
    }

    /// Whether packets to this address stay in the host.
    pub(super) fn is_own(&self, destination: Ipv6Addr) -> bool {
        let is_loopback = destination.to_canonical().is_loopback();
        is_loopback || self.is_ours(destination)
    }

    /// Delivers the packets of the host to itself.
    pub(super) fn deliver_local(&mut self, now: Instant) {
        for _ in 0..self.local.len() {
            let Some(mut packet) = self.local.pop_front() else { return };
            let wire = self.wires.first().map_or(WireId(0), |wire| wire.id);
            let arrival = Arrival { wire, is_link_multicast: false };
            let result = self.deliver(arrival, &mut packet, now);
            self.count(result);
        }
    }
}

/// Puts a header in front of its payload.
pub(super) fn with_header(header: AnyHeader, mut packet: PacketBuf) -> Result<PacketBuf, Drop> {
    let len = |len: usize| u16::try_from(len).map_err(|_| Drop::Truncated);
    match header {
        AnyHeader::Ip6(header) => {
            let payload_len = len(packet.len())?;
            packet.prepend(&Header { payload_len, ..header }.octets());
        }
        AnyHeader::Ip4(header) => {
            let total_len = len(ip4::LEN + packet.len())?;
            packet.prepend(&Ip4 { total_len, ..header }.octets());
        }
    }
    Ok(packet)
}

/// The addresses of a wire that may be sources, for packets of this way.
//= rfc4862#5.5.4-2
fn source_candidates(wire: &Wire, way: Way) -> impl Iterator<Item = SourceCandidate> + '_ {
    let is_on_outgoing_wire = wire.id == way.wire;
    let assigned = wire.addresses.iter().filter(|row| row.state.is_assigned());
    let of_ip6 = assigned.map(move |row| SourceCandidate {
        address: row.address,
        wire: wire.id.0,
        is_deprecated: row.state == State::Deprecated,
        is_temporary: row.origin == Origin::Temporary,
        prefix_len: row.prefix_len,
        is_on_outgoing_wire,
        is_from_next_hop: is_on_outgoing_wire && wire.routers.advertises(way.next_hop, row.address),
    });
    of_ip6.chain(wire.ip4_candidate(way))
}

/// The routers of a wire that lead to a destination.
fn router_candidates(
    wire: &Wire,
    destination: Ipv6Addr,
    source: Ipv6Addr,
    now: Instant,
) -> impl Iterator<Item = Candidate> + '_ {
    wire.routers.candidates(destination, source).map(move |row| Candidate {
        wire: wire.id.0,
        router: row.router,
        prefix: row.prefix,
        preference: row.preference,
        reach: reach_of(wire.neighbors.state(row.router, now)),
        advertises_source: row.advertises_source,
    })
}

const fn reach_of(router: Option<neighbor::State>) -> Reach {
    use neighbor::State;
    match router {
        Some(State::Incomplete) => Reach::Suspect,
        Some(State::Unreachable) => Reach::Unreachable,
        Some(State::Reachable | State::Stale | State::Delay | State::Probe) | None => {
            Reach::Reachable
        }
    }
}

/// The frame of a packet to a station.
//= rfc8504#4-1
pub(super) fn framed(wire: &Wire, destination: Mac, mut packet: PacketBuf) -> PacketBuf {
    let ether_type = if is_ip4(&packet) { ethernet::IPV4 } else { ethernet::IPV6 };
    let header = Ethernet { destination, source: wire.mac, ether_type };
    packet.prepend(&header.octets());
    packet
}

const TYPICAL_LEN: usize = 1500;
/// Length for callers that need only the way.
pub(super) const NO_MTU: usize = 0;
/// MTU of packets of the host to itself: the largest packet without a jumbo payload.
const LOCAL_MTU: u32 = 40 + 65_535;
/// Largest number of packets of the host to itself that wait.
const MAX_LOCAL: usize = 1024;
