use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::{ALL_NODES, ALL_ROUTERS, solicited_node};
use moorline_ip::icmp::Icmp;
use moorline_ip::ip6::ICMPV6;
use moorline_ip::mld::{HOP_BY_HOP_ROUTER_ALERT, Query, Report};
use moorline_ip::nd::{Body, Message, NdOption, NeighborAdvertisement};
use moorline_ip::{Header, Mac, PacketBuf, ip6};
use moorline_types::{Instant, Prefix};

use super::input::Arrival;
use super::output::framed;
use super::wire::Wire;
use super::{Event, Stack, WireId};
use crate::address::{self, Cause, Reply, State};
use crate::chain::Position;
use crate::mld::Transmit;
use crate::{Drop, neighbor, router};

impl Stack {
    /// Takes a message of Neighbor Discovery or MLD.
    //= rfc8504#5.4-1
    //= rfc3810#5.1.14-3 rfc3810#5.2.14-1
    //= rfc4861#4.6.2-11 rfc4861#4.6.3-3 rfc4861#4.6.4-3 rfc4861#6.1.1-1
    pub(super) fn discovery_in(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        message: &Icmp<'_>,
        now: Instant,
    ) -> Result<(), Drop> {
        let Self { wires, tcp, .. } = self;
        let Some(wire) = wires.iter_mut().find(|wire| wire.id == arrival.wire) else {
            return Err(Drop::OtherStation);
        };
        if let Some(query) = Query::parse(header, position.has_router_alert, message)? {
            return wire.listener.handle_query(&query, now);
        }
        if let Some(report) = Report::parse(message)? {
            if let Report::Version1(group) = report {
                wire.listener.handle_report(group);
            }
            return Ok(());
        }
        let Some(message) = Message::parse(header, message)? else { return Ok(()) };
        match message.body {
            // RFC 4861 s6.2.6: a host discards Router Solicitations silently.
            Body::RouterSolicitation => Ok(()),
            Body::RouterAdvertisement(_) => {
                let has_connections = |address| tcp.has_address(address);
                wire.advertisement_in(header, &message, has_connections, now)
            }
            Body::NeighborSolicitation { target } => {
                wire.solicitation_in(header, target, &message, now)
            }
            Body::NeighborAdvertisement(advertisement) => {
                wire.neighbor_in(&advertisement, message.target_link_layer(), now)
            }
            Body::Redirect { target, destination } => self.redirect_in(
                arrival.wire,
                header.source,
                (target, destination),
                message.target_link_layer(),
                now,
            ),
        }
    }

    //= rfc8504#5.4-10
    //= rfc4861#8.1-1 rfc4861#8.1-4 rfc4861#8.3-1
    fn redirect_in(
        &mut self,
        id: WireId,
        router: Ipv6Addr,
        (target, destination): (Ipv6Addr, Ipv6Addr),
        mac: Option<Mac>,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 4861 s8.1: the source is the first-hop router for the destination at this moment.
        let source = self.source_for(destination, None, now).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let is_first_hop = self
            .way(destination, source, None, now)
            .is_some_and(|way| (way.wire, way.next_hop) == (id, router));
        if !is_first_hop || self.is_ours(target) || self.is_ours(destination) {
            return Err(Drop::Redirect);
        }
        self.destinations.redirect(source, destination, id.0, target, now)?;
        if let Some(wire) = self.wires.iter_mut().find(|wire| wire.id == id) {
            wire.neighbors.handle_redirect(target, mac, target != destination, now)?;
        }
        Ok(())
    }

    /// Carries out what the machines of the wires want, until none wants anything.
    pub(super) fn settle_wires(&mut self, now: Instant) {
        for index in 0..self.wires.len() {
            while self.settle_addresses(index, now)
                | self.settle_routers(index, now)
                | self.settle_listener(index, now)
                | self.settle_neighbors(index, now)
                | self.settle_arp(index, now)
            {}
        }
    }

    //= rfc4862#5.4.5-2
    fn settle_addresses(&mut self, index: usize, now: Instant) -> bool {
        let Some(wire) = self.wires.get_mut(index) else { return false };
        let Some(output) = wire.addresses.poll_output() else { return false };
        let id = wire.id;
        match output {
            address::Output::Probe { target, nonce } => {
                let frame = wire.probe(target, nonce.as_ref());
                self.frames.push(id, frame);
            }
            address::Output::Join(group) => {
                let result = wire.listener.join(group, now);
                self.count(result);
            }
            address::Output::Leave(group) => wire.listener.leave(group, now),
            address::Output::Optimistic(address) | address::Output::Ready(address) => {
                if address.is_unicast_link_local() {
                    wire.listener.handle_link_local(now);
                }
                self.events.push_back(Event::AddressReady(id, address));
            }
            address::Output::Duplicate(address) => {
                self.events.push_back(Event::AddressDuplicate(id, address));
            }
            address::Output::Deprecated(address) => {
                self.events.push_back(Event::AddressDeprecated(id, address));
            }
            address::Output::Preferred(address) => {
                self.events.push_back(Event::AddressReady(id, address));
            }
            address::Output::Removed(address) => {
                self.events.push_back(Event::AddressRemoved(id, address));
            }
            address::Output::Failed(_) => {}
            address::Output::Disabled => self.events.push_back(Event::Disabled(id)),
        }
        true
    }

    //= rfc8504#5.4-7
    //= rfc8106#6.1-1
    //= rfc4191#3.3-1
    //= rfc4861#6.3.5-1
    fn settle_routers(&mut self, index: usize, now: Instant) -> bool {
        let Some(wire) = self.wires.get_mut(index) else { return false };
        let Some(output) = wire.routers.poll_output() else { return false };
        let id = wire.id;
        match output {
            router::Output::Solicit => {
                let (source, options) = wire.with_option(wire.link_local());
                let message = Message { body: Body::RouterSolicitation, options };
                let frame = wire.discovery(source, ALL_ROUTERS, &message, None);
                self.frames.push(id, frame);
            }
            router::Output::RouterFound(router) => {
                wire.neighbors.keep_router(router, true, now);
                self.events.push_back(Event::RouterFound(id, router));
            }
            router::Output::RouterLost(router) => {
                wire.neighbors.keep_router(router, false, now);
                self.destinations.forget_router(id.0, router);
                // RFC 4861 s6.3.7: a host without a router asks for one.
                if wire.routers.routers().next().is_none() {
                    wire.routers.solicit(now);
                }
                self.events.push_back(Event::RouterLost(id, router));
            }
            router::Output::ParametersChanged => {
                wire.follow_parameters();
                self.follow_mtus();
            }
            router::Output::DnsChanged => self.events.push_back(Event::DnsChanged(id)),
            // The host determines each next hop when it sends, unless a redirect says it.
            router::Output::RoutesChanged => self.destinations.forget_redirects(),
        }
        true
    }

    fn settle_listener(&mut self, index: usize, _now: Instant) -> bool {
        let Some(wire) = self.wires.get_mut(index) else { return false };
        let Some(Transmit { report, destination }) = wire.listener.poll_output() else {
            return false;
        };
        let frame = wire.report(&report, destination);
        self.frames.push(wire.id, frame);
        true
    }

    //= rfc4861#7.2.5-9 rfc4861#7.3.3-6
    fn settle_neighbors(&mut self, index: usize, now: Instant) -> bool {
        let Some(wire) = self.wires.get_mut(index) else { return false };
        let Some(output) = wire.neighbors.poll_output() else { return false };
        let id = wire.id;
        match output {
            neighbor::Output::Send { mac, packet } => {
                let frame = framed(wire, mac, packet);
                self.frames.push(wire.id, frame);
            }
            neighbor::Output::Solicit { target, source_hint, to } => {
                let frame = wire.solicit(target, source_hint, to);
                self.frames.push(wire.id, frame);
            }
            neighbor::Output::Unreachable { neighbor, packets } => {
                self.unreachable(id, neighbor, &packets, now)
            }
            neighbor::Output::RouterLost(router) => {
                wire.routers.remove_router(router);
                self.destinations.forget_router(id.0, router);
            }
        }
        true
    }

    /// Tells the senders of these packets that the next hop does not answer.
    //= rfc4861#7.2.2-12
    fn unreachable(&mut self, id: WireId, neighbor: Ipv6Addr, packets: &[PacketBuf], now: Instant) {
        self.destinations.forget_router(id.0, neighbor);
        if self.wire(id).is_some_and(|wire| wire.routers.routers().any(|one| one == neighbor)) {
            self.events.push_back(Event::RouterUnreachable(id, neighbor));
        }
        for packet in packets {
            self.tell_unreachable(packet, now);
        }
    }
}

impl Wire {
    fn advertisement_in(
        &mut self,
        header: &Header,
        message: &Message<'_>,
        has_connections: impl Fn(Ipv6Addr) -> bool,
        now: Instant,
    ) -> Result<(), Drop> {
        let source = header.source;
        let is_late = self.make_room(source, message, has_connections, now);
        let quiet = self.is_led_by_others(source, now).then(|| without_parameters(message));
        let message = quiet.as_ref().unwrap_or(message);
        self.routers.handle_advertisement(source, message, now)?;
        let mac = message.source_link_layer();
        let result = self.neighbors.handle_router(source, mac, now);
        if is_late {
            self.on_latecomer(source, now);
        }
        let cause = Cause {
            is_multicast: header.destination.is_multicast(),
            knows_link_layer: mac.is_some(),
        };
        let prefixes = message.options.iter().filter_map(|option| {
            if let NdOption::Prefix(prefix) = option { Some(prefix) } else { None }
        });
        result.and(self.addresses.handle_prefixes(prefixes, cause, now))
    }

    /// Whether the source of an advertisement has not shown that it exists, and another router of the wire has.
    fn is_led_by_others(&self, source: Ipv6Addr, now: Instant) -> bool {
        let is_trusted = |router| self.neighbors.is_trusted(router, now);
        !is_trusted(source) && self.routers.routers().any(is_trusted)
    }

    /// Takes the parameters of the link that routers have said.
    fn follow_parameters(&mut self) {
        let parameters = *self.routers.parameters();
        self.neighbors.set_times(parameters.base_reachable_time, parameters.retrans_timer);
        self.addresses.set_retrans_timer(parameters.retrans_timer);
    }

    /// The frame of a solicitation for an address that the interface wants (RFC 4862 s5.4.2).
    //= rfc7527#4.1-3
    //= rfc4861#4.3-4
    fn probe(&self, target: Ipv6Addr, nonce: Option<&[u8; 6]>) -> PacketBuf {
        let options = nonce.map(|nonce| NdOption::Nonce(nonce));
        let body = Body::NeighborSolicitation { target };
        let message = Message { body, options: options.into_iter().collect() };
        self.discovery(Ipv6Addr::UNSPECIFIED, solicited_node(target), &message, None)
    }

    //= rfc8504#5.4-5 rfc8504#5.4-9
    //= rfc4861#4.4-1 rfc4861#4.4-3 rfc4861#4.4-7 rfc4861#4.4-8 rfc4861#4.4-9 rfc4861#7.1.1-3
    //= rfc4861#7.2.3-2 rfc4861#7.2.4-2 rfc4861#7.2.4-4 rfc4861#7.2.4-6 rfc4861#7.2.4-7
    //= rfc4861#7.2.4-8
    fn solicitation_in(
        &mut self,
        header: &Header,
        target: Ipv6Addr,
        message: &Message<'_>,
        now: Instant,
    ) -> Result<(), Drop> {
        let is_probe = header.source.is_unspecified();
        let reply = self.addresses.handle_solicitation(target, is_probe, message.nonce(), now)?;
        let Reply::Answer { overrides } = reply else { return Ok(()) };
        if let Some(mac) = message.source_link_layer() {
            self.neighbors.handle_solicitation(header.source, mac, now)?;
        }
        let advertisement =
            NeighborAdvertisement { target, is_router: false, is_solicited: !is_probe, overrides };
        let message = Message {
            body: Body::NeighborAdvertisement(advertisement),
            options: vec![NdOption::TargetLinkLayer(self.mac)],
        };
        // RFC 4861 s7.2.4: the answer to an unspecified source goes to all nodes.
        let destination = if is_probe { ALL_NODES } else { header.source };
        let packet = discovery_packet(target, destination, &message);
        self.neighbors.answer(destination, packet, now)
    }

    //= rfc8504#5.4-9
    fn neighbor_in(
        &mut self,
        advertisement: &NeighborAdvertisement,
        mac: Option<Mac>,
        now: Instant,
    ) -> Result<(), Drop> {
        if self.addresses.handle_advertisement(advertisement.target, now) {
            return Ok(());
        }
        self.neighbors.handle_advertisement(advertisement, mac, now)?;
        // A router that came late exists: with its next advertisement it gets what made-up routers have.
        let router = advertisement.target;
        if self.neighbors.is_trusted(router, now) && self.latecomers.remove(&router) {
            self.routers.solicit(now);
        }
        Ok(())
    }

    /// Asks a router that came late whether it exists.
    fn on_latecomer(&mut self, router: Ipv6Addr, now: Instant) {
        self.latecomers.insert(router);
        let Self { routers, latecomers, .. } = self;
        latecomers.retain(|known| routers.routers().any(|router| router == *known));
        self.neighbors.verify(router, now);
    }

    /// Makes room for an advertisement, if a table is full. Routers that have answered or carry traffic, their prefixes,
    /// and the addresses of connections stay. Returns whether there was too little room and the router is not trusted.
    fn make_room(
        &mut self,
        source: Ipv6Addr,
        message: &Message<'_>,
        has_connections: impl Fn(Ipv6Addr) -> bool,
        now: Instant,
    ) -> bool {
        let Self { neighbors, routers, addresses, .. } = self;
        let is_trusted = |router| neighbors.is_trusted(router, now);
        if !source.is_unicast_link_local() {
            return false;
        }
        // Made-up routers advertise many prefixes, so whether to trust the source is asked once.
        let is_source_trusted = is_trusted(source);
        let mut is_full = routers.make_room(source, message, is_trusted);
        let connected: Vec<_> =
            addresses.iter().map(|row| row.address).filter(|one| has_connections(*one)).collect();
        let is_kept = |prefix: Prefix| {
            routers.is_advertised(prefix, is_trusted)
                || connected.iter().any(|address| prefix.contains(*address))
        };
        for option in &message.options {
            if let NdOption::Prefix(information) = option {
                let prefix = information.prefix;
                // An address costs the link some messages, so only a router that exists gets it in place of another one.
                is_full |= addresses.make_room(prefix, |one| !is_source_trusted || is_kept(one));
            }
        }
        is_full && !is_source_trusted
    }

    /// The frame of a Neighbor Solicitation for another node's address.
    //= rfc4429#3.2-4
    //= rfc4861#7.2.2-1
    fn solicit(
        &self,
        target: Ipv6Addr,
        source_hint: Option<Ipv6Addr>,
        to: Option<Mac>,
    ) -> PacketBuf {
        // RFC 4861 s7.2.2: the source of the packet that waits, if it is an address of this interface.
        let is_usable = |address: &Ipv6Addr| {
            self.addresses
                .state(*address)
                .is_some_and(|state| state.is_assigned() && state != State::Optimistic)
        };
        let source = source_hint.filter(is_usable).or_else(|| self.link_local());
        let (source, options) = self.with_option(source);
        let message = Message { body: Body::NeighborSolicitation { target }, options };
        let destination = if to.is_some() { target } else { solicited_node(target) };
        self.discovery(source, destination, &message, to)
    }

    /// The link-local address of the interface, if it is sure that it is unique.
    fn link_local(&self) -> Option<Ipv6Addr> {
        self.addresses.link_local()
    }

    /// A source for messages, and the option that a message from this source has.
    //= rfc4861#4.1-3 rfc4861#4.1-4 rfc4861#4.3-5 rfc4861#4.3-6 rfc4861#6.3.7-2 rfc4861#7.2.2-2
    //= rfc4861#7.2.2-3
    fn with_option(&self, source: Option<Ipv6Addr>) -> (Ipv6Addr, Vec<NdOption<'static>>) {
        match source {
            Some(source) => (source, vec![NdOption::SourceLinkLayer(self.mac)]),
            None => (Ipv6Addr::UNSPECIFIED, vec![]),
        }
    }

    /// The frame of a message of Neighbor Discovery: to this station, or to the group.
    //= rfc8504#5.4-14
    //= rfc6980#5-1
    fn discovery(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &Message<'_>,
        to: Option<Mac>,
    ) -> PacketBuf {
        let packet = discovery_packet(source, destination, message);
        framed(self, to.unwrap_or_else(|| Mac::of_group(destination)), packet)
    }

    /// The frame of a report to routers (RFC 3810 s5.2.13, RFC 3590).
    //= rfc3810#5-1 rfc3810#5.2.13-1
    //= rfc8200#4-1
    fn report(&self, report: &Report, destination: Ipv6Addr) -> PacketBuf {
        let source = self.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
        let mut packet = PacketBuf::with_capacity(128);
        packet.extend(&HOP_BY_HOP_ROUTER_ALERT);
        packet.append_with(|out| report.emit(source, destination, out));
        with_header(source, destination, ip6::HOP_BY_HOP, 1, &mut packet);
        framed(self, Mac::of_group(destination), packet)
    }
}

/// An advertisement that says nothing about the link: neither hop limit, times of Neighbor Discovery nor MTU. A hop limit of 1 would cut
/// the host off, and a Reachable Time of an hour would hide that its router has died.
fn without_parameters<'a>(message: &Message<'a>) -> Message<'a> {
    let mut quiet = message.clone();
    if let Body::RouterAdvertisement(advertisement) = &mut quiet.body {
        advertisement.hop_limit = 0;
        (advertisement.reachable_time, advertisement.retrans_timer) =
            (Duration::ZERO, Duration::ZERO);
    }
    quiet.options.retain(|option| !matches!(option, NdOption::Mtu(_)));
    quiet
}

fn discovery_packet(source: Ipv6Addr, destination: Ipv6Addr, message: &Message<'_>) -> PacketBuf {
    let mut packet = PacketBuf::with_capacity(128);
    packet.append_with(|out| message.emit(source, destination, out));
    with_header(source, destination, ICMPV6, u8::MAX, &mut packet);
    packet
}

fn with_header(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    protocol: u8,
    hop_limit: u8,
    packet: &mut PacketBuf,
) {
    // Messages of these protocols fit into the least MTU.
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX);
    packet.prepend(&Header::new(source, destination, protocol, hop_limit, len).octets());
}
