//! The router of an ISP on the link of a customer: Neighbor Discovery, ingress filter, Packet Too Big.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::{ALL_NODES, solicited_node};
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::icmp::{Cause, Error, Icmp};
use moorline_ip::ip6::ICMPV6;
use moorline_ip::nd::{
    Body, Message, NdOption, NeighborAdvertisement, PrefixInformation, RouterAdvertisement,
    RouterPreference,
};
use moorline_ip::{Header, Mac, PacketBuf};
use moorline_stack::stack::WireId;
use moorline_types::Prefix;

use super::{Place, octet};

/// A router. It has no clock: the caller advertises from time to time.
pub struct Router {
    pub(super) isp: usize,
    pub(super) place: Place,
    pub(super) mac: Mac,
    pub(super) prefix: Prefix,
    /// A router that is not alive takes nothing and sends nothing.
    pub(super) is_alive: bool,
    /// Reachable Time and Retrans Timer of its advertisements.
    pub(super) neighbor_times: (Duration, Duration),
    /// MTU of the link in its advertisements (RFC 4861 s4.6.4).
    pub(super) link_mtu: Option<u32>,
    link_local: Ipv6Addr,
    neighbors: BTreeMap<Ipv6Addr, Mac>,
    /// Packets that wait for the link-layer address of their destination.
    waiting: Vec<(Ipv6Addr, PacketBuf)>,
    /// Number of addresses whose detection another node on this link still answers.
    pub(super) claims: u32,
    pub(super) filtered: u64,
    frames: VecDeque<PacketBuf>,
    packets: VecDeque<PacketBuf>,
}

impl Router {
    /// The router of an ISP on the link of a customer. The prefix has the numbers of ISP and customer in it; both are below 200.
    #[must_use]
    pub fn of_customer(isp: usize, customer: usize) -> Self {
        Self::new(isp, Place { host: customer, wire: WireId(0) }, 0)
    }

    /// The router of an ISP on a link of its own, with this prefix. The number of the ISP is below 200.
    #[must_use]
    pub fn of_prefix(isp: usize, prefix: Prefix) -> Self {
        Self { prefix, ..Self::of_customer(isp, 0) }
    }

    /// A router of an ISP. The prefix has the numbers of ISP and customer in it.
    pub(super) fn new(isp: usize, place: Place, claims: u32) -> Self {
        let (number, customer) = (octet(isp) + 1, octet(place.host) + 0xa);
        let prefix = Ipv6Addr::new(0x2001, 0xdb8, number.into(), customer.into(), 0, 0, 0, 0);
        let is_claimed = isp == 0 && place.host == 0;
        Self {
            isp,
            place,
            mac: Mac([2, 0, 0, 1, number, customer]),
            prefix: Prefix::new(prefix, 64),
            is_alive: true,
            neighbor_times: (Duration::ZERO, Duration::ZERO),
            link_mtu: None,
            link_local: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number.into()),
            neighbors: BTreeMap::new(),
            waiting: Vec::new(),
            claims: if is_claimed { claims } else { 0 },
            filtered: 0,
            frames: VecDeque::new(),
            packets: VecDeque::new(),
        }
    }

    /// Whether an address is on the link of the customer.
    #[must_use]
    pub fn leads_to(&self, address: Ipv6Addr) -> bool {
        self.prefix.contains(address)
    }

    /// The next frame for the link.
    #[must_use]
    pub fn poll_frame(&mut self) -> Option<PacketBuf> {
        self.frames.pop_front()
    }

    /// The next packet for the ISP.
    #[must_use]
    pub fn poll_packet(&mut self) -> Option<PacketBuf> {
        self.packets.pop_front()
    }

    /// Takes a frame of the link.
    pub fn handle_frame(&mut self, frame: &[u8]) {
        if !self.is_alive {
            return;
        }
        let Ok(link) = Ethernet::parse(frame) else { return };
        let packet = &frame[ethernet::LEN..];
        let Some(header) = Header::parse(packet).ok().filter(|_| link.ether_type == ethernet::IPV6)
        else {
            return;
        };
        if header.destination.is_multicast() || header.destination == self.link_local {
            return self.discovery_in(&header, packet, link.source);
        }
        if header.destination.is_unicast_link_local() {
            return;
        }
        // RFC 2827: no packet leaves with a source of another network.
        if !self.prefix.contains(header.source) {
            self.filtered += 1;
            return;
        }
        self.neighbors.insert(header.source, link.source);
        self.packets.push_back(PacketBuf::copy_of(packet));
    }

    fn discovery_in(&mut self, header: &Header, packet: &[u8], from: Mac) {
        let message = packet.get(moorline_ip::header::LEN..header.packet_len());
        let message = message.filter(|_| header.next_header == ICMPV6).unwrap_or_default();
        let Ok(icmp) = Icmp::parse(header.source, header.destination, message) else { return };
        let Ok(Some(message)) = Message::parse(header, &icmp) else { return };
        if let Body::RouterSolicitation = message.body {
            self.advertise();
        } else if let Body::NeighborSolicitation { target } = message.body {
            self.solicitation_in(header.source, target, from);
        } else if let Body::NeighborAdvertisement(advertisement) = message.body {
            let mac = message.target_link_layer().unwrap_or(from);
            self.learn(advertisement.target, mac);
        }
    }

    fn solicitation_in(&mut self, source: Ipv6Addr, target: Ipv6Addr, from: Mac) {
        let is_probe = source.is_unspecified();
        let is_claimed = is_probe && self.claims > 0 && self.prefix.contains(target);
        if is_claimed {
            self.claims -= 1;
            return self.answer(target, Ipv6Addr::UNSPECIFIED, None, OTHER_NODE);
        }
        if target == self.link_local {
            self.answer(target, source, (!is_probe).then_some(from), self.mac);
        }
    }

    /// Says that `mac` has the address.
    fn answer(&mut self, target: Ipv6Addr, asked_by: Ipv6Addr, to: Option<Mac>, mac: Mac) {
        let is_solicited = to.is_some();
        let destination = if is_solicited { asked_by } else { ALL_NODES };
        let is_router = mac == self.mac;
        let advertisement =
            NeighborAdvertisement { target, is_router, is_solicited, overrides: true };
        let message = Message {
            body: Body::NeighborAdvertisement(advertisement),
            options: vec![NdOption::TargetLinkLayer(mac)],
        };
        self.send(target, destination, to, &message);
    }

    fn learn(&mut self, address: Ipv6Addr, mac: Mac) {
        self.neighbors.insert(address, mac);
        let due = self.waiting.extract_if(.., |(to, _)| *to == address);
        let due: Vec<_> = due.map(|(_, packet)| packet).collect();
        due.into_iter().for_each(|packet| self.deliver(packet));
    }

    /// Delivers a packet of the ISP to its destination on the link.
    pub fn deliver(&mut self, packet: PacketBuf) {
        if !self.is_alive {
            return;
        }
        let Ok(Header { destination, .. }) = Header::parse(&packet) else { return };
        if let Some(mac) = self.neighbors.get(&destination) {
            let frame = framed(*mac, self.mac, packet);
            return self.frames.push_back(frame);
        }
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push((destination, packet));
        }
        let message = Message {
            body: Body::NeighborSolicitation { target: destination },
            options: vec![NdOption::SourceLinkLayer(self.mac)],
        };
        self.send(self.link_local, solicited_node(destination), None, &message);
    }

    /// Advertises the router and its prefix to all hosts.
    pub fn advertise(&mut self) {
        if !self.is_alive {
            return;
        }
        let advertisement = RouterAdvertisement {
            hop_limit: 64,
            managed: false,
            other: false,
            preference: RouterPreference::Medium,
            lifetime: ROUTER_LIFETIME,
            reachable_time: self.neighbor_times.0,
            retrans_timer: self.neighbor_times.1,
        };
        let prefix = PrefixInformation {
            prefix: self.prefix,
            on_link: true,
            autonomous: true,
            valid: VALID_LIFETIME,
            preferred: PREFERRED_LIFETIME,
        };
        let mut options = vec![NdOption::SourceLinkLayer(self.mac), NdOption::Prefix(prefix)];
        options.extend(self.link_mtu.map(NdOption::Mtu));
        let message = Message { body: Body::RouterAdvertisement(advertisement), options };
        self.send(self.link_local, ALL_NODES, None, &message);
    }

    /// Says that a packet from the link is too big for the ISP.
    pub(super) fn report_too_big(&mut self, packet: &[u8], mtu: u32) {
        let Ok(Header { source, .. }) = Header::parse(packet) else { return };
        let router = Ipv6Addr::from_bits(self.prefix.address().to_bits() | 1);
        let mut message = Vec::new();
        Error { cause: Cause::PacketTooBig(mtu), quote: packet }.emit(router, source, &mut message);
        self.deliver(with_header(router, source, 64, &message));
    }

    /// Sends a message of Neighbor Discovery.
    fn send(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        to: Option<Mac>,
        message: &Message<'_>,
    ) {
        let mut octets = Vec::new();
        message.emit(source, destination, &mut octets);
        let packet = with_header(source, destination, u8::MAX, &octets);
        let mac = to.unwrap_or_else(|| Mac::of_group(destination));
        self.frames.push_back(framed(mac, self.mac, packet));
    }
}

fn with_header(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hop_limit: u8,
    message: &[u8],
) -> PacketBuf {
    let mut packet = PacketBuf::copy_of(message);
    let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
    packet.prepend(&Header::new(source, destination, ICMPV6, hop_limit, len).octets());
    packet
}

fn framed(destination: Mac, source: Mac, mut packet: PacketBuf) -> PacketBuf {
    packet.prepend(&Ethernet { destination, source, ether_type: ethernet::IPV6 }.octets());
    packet
}

/// Link-layer address of the node that has an address of host 0 already.
const OTHER_NODE: Mac = Mac([2, 0, 0, 0xff, 0, 1]);
const MAX_WAITING: usize = 64;
const ROUTER_LIFETIME: Duration = Duration::from_secs(1800);
const VALID_LIFETIME: Duration = Duration::from_secs(86_400);
const PREFERRED_LIFETIME: Duration = Duration::from_secs(14_400);
