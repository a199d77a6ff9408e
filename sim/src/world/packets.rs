//! The path of packets: from the sockets or core of a host, through the network, to those of another.

use std::net::Ipv6Addr;
use std::rc::Rc;

use moorline_contexts::ContextView;
use moorline_plane::{By, Inbound, Outbound};
use moorline_stack::stack::Carried;
use moorline_types::{IlvPair, Locator, LocatorPair, UlidPair};
use moorline_wire::PROTOCOL;
use moorline_wire::ip6::{DESTINATION_OPTIONS, FRAGMENT};

use super::core::living_core;
use super::{Occurrence, Parcel, World};
use crate::chart::{Fate, MomentKind, Way};
use crate::describe;
use crate::log::since_start;
use crate::network::ifindex_of;
use crate::node::{Core, HostSockets, Node};
use crate::outcome::{Pause, Rule};
use crate::packet::{self, ICMPV6, TCP, UDP};
use crate::plan::{Kind, Port, host_name};
use crate::workload::{Running, Side, number_of};

impl World<'_> {
    /// Handles a packet from the network.
    pub(super) fn on_arrival(&mut self, port: Port, parcel: &Parcel) {
        let (host, now) = (port.host, self.now);
        let Some((locators, _)) = packet::header(&parcel.octets) else { return };
        let destination = locators.peer;
        let is_there = self.network.has_address(destination.0);
        if !self.network.receives(destination.0, now) {
            return;
        }
        let keeps = |core: &Core| core.kernel.kept().contains(&destination.as_ulid());
        let takes = |node: &Node| is_there || node.core.as_ref().is_some_and(keeps);
        let awake = |node: &&mut Node| !node.is_suspended && takes(node);
        let Self { nodes, .. } = self;
        if nodes.get_mut(host).filter(awake).is_none() {
            return;
        }
        if parcel.original.is_none() {
            self.note_told(&parcel.octets);
        }
        let Self { nodes, workloads, .. } = self;
        let sockets = HostSockets { host, workloads };
        let Some(node) = nodes.get_mut(host) else { return };
        let mut octets = parcel.octets.clone();
        if node.stack.is_some() {
            return self.on_stack_arrival(port, &octets);
        }
        let speaks_plain = node.plain.is_some();
        let Some(core) = &mut node.core else {
            return match speaks_plain {
                true => self.on_plain_ilnp_arrival(host, &octets, parcel),
                false => self.on_plain_arrival(host, &octets, parcel),
            };
        };
        if !core.is_attached(ifindex_of(port)) {
            return self.on_unseen_arrival(host, &octets, parcel);
        }
        match core.planes.handle_inbound(&mut octets, &sockets, now) {
            (By::Ilnp, Inbound::Up) => {
                if !core.is_dead() {
                    core.host.handle_ilnp(&octets, now);
                }
            }
            (_, Inbound::Pass | Inbound::Deliver) => {
                self.faults.on_delivered(&mut octets);
                self.deliver_to_socket(host, &octets, parcel);
                return self.settle_planes(host);
            }
            (By::Shim6, Inbound::Up) => self.deliver_to_core(host, &octets),
            (_, Inbound::Drop(reason)) => {
                self.log.note(now, host, || format!("{port} drops payload: {reason}"));
                return self.settle_planes(host);
            }
        }
        self.settle(host);
    }

    /// Handles a packet from the network at a link without programs, like Linux: the kernel knows neither nonces nor the
    /// checksums of sessions, and gives packets of protocol 140 to the core.
    fn on_unseen_arrival(&mut self, host: usize, octets: &[u8], parcel: &Parcel) {
        let next_header = packet::header(octets).map(|(_, next_header)| next_header);
        if next_header == Some(PROTOCOL) {
            self.deliver_to_core(host, octets);
            self.settle(host);
        } else if let Some(error) = packet::unrecognized_option(octets) {
            self.transmit(host, Parcel { octets: error, original: None });
        } else if packet::quoted_too_big(octets).is_some()
            || parcel.original.as_deref().is_some_and(|original| original == octets)
        {
            self.deliver_to_socket(host, octets, parcel);
        }
    }

    /// Handles a packet from the network at a host without Moorline.
    fn on_plain_arrival(&mut self, host: usize, octets: &[u8], parcel: &Parcel) {
        let is_unknown = packet::header(octets).is_some_and(|(_, next)| next == PROTOCOL);
        if !is_unknown {
            return self.deliver_to_socket(host, octets, parcel);
        }
        if let Some(error) = packet::unrecognized_next_header(octets) {
            let original = Rc::new(error.clone());
            self.transmit(host, Parcel { octets: error, original: Some(original) });
        }
    }

    /// Handles a packet from the network at a host with ILNP by the RFCs alone.
    fn on_plain_ilnp_arrival(&mut self, host: usize, octets: &[u8], parcel: &Parcel) {
        let Some((locators, next_header)) = packet::header(octets) else { return };
        let plain = self.nodes.get_mut(host).and_then(|node| node.plain.as_mut());
        let is_correspondent = self
            .network
            .port_of(locators.local.0)
            .is_some_and(|port| self.plan.hosts.get(port.host).is_some_and(|host| host.ilnp));
        let Some(plain) = plain.filter(|_| is_correspondent && next_header != PROTOCOL) else {
            return self.on_plain_arrival(host, octets, parcel);
        };
        let packet = plain.receive(octets, self.now);
        self.settle_plain(host);
        if let Some(packet) = packet {
            self.deliver_to_socket(host, &packet, parcel);
        }
    }

    /// Sends the messages of a host with ILNP by the RFCs alone, and sets its timer.
    pub(super) fn settle_plain(&mut self, host: usize) {
        while let Some(plain) = self.nodes.get_mut(host).and_then(|node| node.plain.as_mut()) {
            let Some(octets) = plain.poll_message() else { break };
            self.transmit(host, Parcel { octets, original: None });
        }
        let Some(plain) = self.nodes.get_mut(host).and_then(|node| node.plain.as_mut()) else {
            return;
        };
        // A host that sleeps at that time looks when it wakes up.
        if let Some(at) = plain.poll_timeout().map(|at| at.max(self.now))
            && plain.wake != Some(at)
        {
            plain.wake = Some(at);
            self.queue.push(at, Occurrence::Wake(host));
        }
    }

    pub(super) fn deliver_to_core(&mut self, host: usize, octets: &[u8]) {
        let now = self.now;
        let Some((locators, _)) = packet::header(octets) else { return };
        let pair = locators.reversed();
        let Some(core) = living_core(&mut self.nodes, host) else { return };
        let message = packet::payload(octets);
        self.rules.on_control_received(host, message, pair, now);
        let before = core.host.shim6().contexts().count();
        core.host.handle_shim6(message, pair, now);
        self.faults.on_received(self, host, message, pair);
        let Some(core) = living_core(&mut self.nodes, host) else { return };
        let speaks_ilnp = core.host.ilnp().is_some();
        let contexts: Vec<_> = core.host.shim6().contexts().collect();
        if contexts.len() > before {
            self.rules.on_new_context(host, message, pair, now);
        }
        let is_counted =
            |context: &&ContextView| !(speaks_ilnp && self.rules.is_of_lost_session(host, context));
        let count = contexts.iter().filter(is_counted).count();
        self.check_number_of_contexts(host, count);
    }

    /// Handles a packet that has reached the sockets of a host.
    fn deliver_to_socket(&mut self, host: usize, octets: &[u8], parcel: &Parcel) {
        if let Some((_, quoted)) = packet::quoted_too_big(octets) {
            return self.deliver_too_big(host, octets, quoted);
        }
        if self.is_lost_on_ilnp(host, octets, parcel) {
            return;
        }
        let is_same = parcel.original.as_deref().is_some_and(|original| original == octets);
        // Of a moved packet of a host stack nobody knows what its socket has sent. The receiver compares the octets of the
        // stream.
        let is_hidden = parcel.original.is_none()
            && packet::header(&parcel.octets)
                .and_then(|(locators, _)| self.network.port_of(locators.local.0))
                .is_some_and(|port| self.is_stack(port.host));
        self.check(is_same || is_hidden, Rule::DeliveredAsSent, || {
            format!("at {}: {octets:02x?}", host_name(host))
        });
        if let Some(quoted) = packet::quoted_unrecognized(octets) {
            let source = packet::header(octets).map(|(locators, _)| locators.local);
            return self.on_unrecognized(host, quoted, source);
        }
        // A datagram of the attacker.
        if is_same && !packet::is_checksum_right(octets) {
            return;
        }
        let Some((locators, next_header)) = packet::header(octets) else { return };
        let ulids = packet::receiver_pair(locators);
        if next_header == FRAGMENT {
            // The kernel of each socket puts fragments together for itself.
            for (number, side) in self.ends_between(host, ulids) {
                if !matches!(self.workloads[&number].plan.kind, Kind::Stream { .. }) {
                    self.deliver_to_end(number, side, octets);
                }
            }
            return;
        }
        let Some(number) = self.workload_of(octets) else { return };
        let Some(workload) = self.workloads.get(&number) else { return };
        let side = Side::BOTH.into_iter().find(|&side| workload.ulids_of(side) == ulids);
        let Some(side) = side.filter(|&side| workload.host(side) == host) else {
            self.check(false, Rule::DeliveredAsSent, || {
                format!("{ulids:?} at {}", host_name(host))
            });
            return;
        };
        self.deliver_to_end(number, side, octets);
    }

    /// The ends of workloads at a host with these addresses.
    fn ends_between(&self, host: usize, ulids: UlidPair) -> Vec<(usize, Side)> {
        let ends = self.workloads.iter().flat_map(|(&number, workload)| {
            let is_it = move |side: &Side| {
                workload.host(*side) == host && workload.ulids_of(*side) == ulids
            };
            Side::BOTH.into_iter().filter(is_it).map(move |side| (number, side))
        });
        ends.collect()
    }

    /// Tells the sockets with the addresses of a quoted packet that it was too big. The addresses must be those of a socket,
    /// unless the packet is one of Shim6.
    fn deliver_too_big(&mut self, host: usize, octets: &[u8], quoted: &[u8]) {
        let Some((quoted, next_header)) = packet::header(quoted) else { return };
        let ulids = UlidPair::new(quoted.local.as_ulid(), quoted.peer.as_ulid());
        let ends = self.ends_between(host, ulids);
        let is_of_socket = matches!(next_header, TCP | UDP | FRAGMENT);
        self.check(!is_of_socket || !ends.is_empty(), Rule::DeliveredAsSent, || {
            format!("error about {quoted} at {}", host_name(host))
        });
        for (number, side) in ends {
            self.follow_paths(number);
            let now = self.now;
            if let Some(workload) = self.workloads.get_mut(&number) {
                workload.application.handle_too_big(side, octets, now);
            }
            self.drain_workload(number);
        }
    }

    /// Tells the kernels at the ends of a workload, if they have the TCP of the host stack, how its packets leave.
    pub(super) fn follow_paths(&mut self, number: usize) {
        let Some(workload) = self.workloads.get(&number) else { return };
        let hosts = Side::BOTH.map(|side| workload.host(side));
        if !hosts.iter().any(|host| self.is_stack(*host)) {
            return;
        }
        let ulids = Side::BOTH.map(|side| workload.ulids_of(side));
        for side in Side::BOTH {
            let at = side as usize;
            let carried = self.carried(hosts[at], ulids[at]);
            if let Some(workload) = self.workloads.get_mut(&number) {
                workload.application.follow_path(side, carried);
            }
        }
    }

    /// How the packets of a pair leave a host with a daemon; `None` if with the addresses of the sockets. Its routes have the MTU of the
    /// path that the packets take (decision 118).
    fn carried(&self, host: usize, ulids: UlidPair) -> Option<Carried> {
        let planes = &self.nodes.get(host)?.core.as_ref()?.planes;
        let mut sessions = planes.ilnp.iter().flat_map(|plane| plane.sessions());
        if let Some(entry) = sessions.find(|entry| entry.pair == IlvPair::of(ulids)) {
            let (wire, overhead) = (entry.wire_pair(), u16::try_from(entry.overhead()).ok()?);
            let (source, destination) = (wire.local.address(), wire.remote.address());
            // A segment of TCP may have no nonce.
            let carried = Carried { source, destination, overhead, least: 0 };
            return entry.needs_route().then_some(carried);
        }
        let entry = planes.shim6.contexts().find(|entry| entry.ulids == ulids)?;
        let (pair, overhead) = (entry.current.pair, entry.overhead());
        let (source, destination) = (pair.local.0, pair.peer.0);
        entry.is_moved().then_some(Carried { source, destination, overhead, least: overhead })
    }

    fn deliver_to_end(&mut self, number: usize, side: Side, octets: &[u8]) {
        let now = self.now;
        self.follow_paths(number);
        self.note_packet(number, side);
        let Some(workload) = self.workloads.get_mut(&number) else { return };
        let host = workload.host(side);
        let octets_read = workload.application.handle_packet(side, octets, now);
        self.faults.on_read(&mut *workload.application);
        self.check(octets_read.is_some(), Rule::DeliveredAsSent, || {
            format!("garbled at {}", host_name(host))
        });
        if let Some(new @ 1..) = octets_read {
            self.on_delivery(number, side, new);
        }
        self.drain_workload(number);
    }

    /// Notes a packet to an end of a workload, and the gap before it.
    pub(super) fn note_packet(&mut self, number: usize, side: Side) {
        let now = self.now;
        let before = self.workloads.get_mut(&number).and_then(|one| one.note_packet(side, now));
        if let Some((outcome, from)) = self.outcome.workloads.get_mut(number).zip(before) {
            outcome.note_gap(side, Pause { from: since_start(from), to: since_start(now) });
        }
    }

    /// The workload of a packet. The end that connects by the TCP of the host stack has another port.
    fn workload_of(&self, octets: &[u8]) -> Option<usize> {
        let ports = packet::ports(octets)?;
        ports.into_iter().rev().filter_map(number_of).find(|one| self.workloads.contains_key(one))
    }

    /// Whether a host that does not know ILNP, or not the session of a packet, drops it: an ICMPv6 message of an
    /// unknown type, a packet with the checksum of a session, or a packet between addresses to which no socket is
    /// connected.
    fn is_lost_on_ilnp(&self, host: usize, octets: &[u8], parcel: &Parcel) -> bool {
        let Some((locators, next_header)) = packet::header(octets) else { return false };
        let from = self.network.port_of(locators.local.0).map(|port| port.host);
        let knows_ilnp = |host: usize| {
            self.plan.hosts.get(host).is_some_and(|host| host.ilnp || host.plain_ilnp)
        };
        if !knows_ilnp(host) && !from.is_some_and(knows_ilnp) {
            return false;
        }
        let is_message = next_header == ICMPV6 && parcel.original.is_none();
        let pair = packet::receiver_pair(locators);
        let is_plain = |host: usize| self.plan.hosts.get(host).is_some_and(|host| host.plain_ilnp);
        // A node that knows the RFCs alone has one nonce for all sockets, and names no locator when it opens one. Until
        // such a socket has its session, packets are for another session, and meet no socket (decision 149).
        let may_miss = is_plain(host) || from.is_some_and(is_plain);
        let number = packet::port(octets).and_then(number_of).filter(|_| may_miss);
        let is_connected = |(of, workload): (&usize, &Running)| {
            let here = Side::BOTH.into_iter().filter(|side| workload.host(*side) == host);
            let is_its = number.is_none_or(|number| number == *of);
            is_its && here.map(|side| workload.ulids_of(side)).any(|ulids| ulids == pair)
        };
        // The kernel does not know the option with a nonce.
        next_header == DESTINATION_OPTIONS
            || is_message
            || !packet::is_checksum_right(octets)
            || next_header != ICMPV6 && !self.workloads.iter().any(is_connected)
    }

    fn on_unrecognized(&mut self, host: usize, quoted: &[u8], source: Option<Locator>) {
        let now = self.now;
        let Some(((locators, _), source)) = packet::header(quoted).zip(source) else { return };
        if let Some(core) = living_core(&mut self.nodes, host) {
            core.host.shim6_mut().handle_unrecognized(
                packet::payload(quoted),
                locators,
                source,
                now,
            );
        }
        self.settle(host);
    }

    pub(super) fn on_delivery(&mut self, number: usize, to: Side, octets: usize) {
        let mut watches = self.watches.iter_mut();
        let watch = watches.find(|watch| watch.workload == number && watch.to == to);
        // A packet that was under way when the last application stopped has no watch.
        let last = watch.as_ref().map_or(self.now, |watch| watch.last());
        if let Some(outcome) = self.outcome.workloads.get_mut(number) {
            outcome.add(to, octets, Pause { from: since_start(last), to: since_start(self.now) });
        }
        let late = watch.and_then(|watch| watch.on_delivery(self.now));
        self.on_late(number, to, late);
    }

    /// Sends a packet of a host's socket.
    pub(super) fn send_payload(&mut self, host: usize, packet: Vec<u8>) {
        let now = self.now;
        let original = Rc::new(packet);
        let mut octets = original.to_vec();
        let Self { nodes, workloads, .. } = self;
        let sockets = HostSockets { host, workloads };
        let awake = nodes.get_mut(host).filter(|node| !node.is_suspended);
        let Some(Node { core, plain, .. }) = awake else { return };
        let to = packet::header(&original).and_then(|(pair, _)| self.network.port_of(pair.peer.0));
        let speaks_ilnp = |port: Port| self.plan.hosts.get(port.host).is_some_and(|to| to.ilnp);
        if let Some(plain) = plain.as_mut().filter(|_| to.is_some_and(speaks_ilnp)) {
            let Some(packet) = plain.send(&original, now) else { return };
            octets = packet;
        }
        if let Some(core) = core {
            match core.planes.handle_outbound(&mut octets, &sockets, now) {
                (_, Outbound::Pass) => {
                    self.faults.on_passed(&mut octets);
                    self.check(octets == *original, Rule::Untouched, || format!("{octets:02x?}"));
                }
                (By::Ilnp, Outbound::Send { source }) => {
                    // A locator that is gone has no uplink.
                    if !self.network.has_address(source) {
                        return self.settle_planes(host);
                    }
                }
                (By::Shim6, Outbound::Send { .. }) => {
                    self.rules.on_moved(host, &octets, &original, now)
                }
                (_, Outbound::Drop(reason)) => {
                    self.log.note(now, host, || {
                        format!("{}: drops payload: {reason}", host_name(host))
                    });
                    return self.settle_planes(host);
                }
            }
        }
        self.transmit(host, Parcel { octets, original: Some(original) });
        self.settle_planes(host);
    }

    /// Sends a packet by the uplink of its source address, if that uplink is up.
    pub(super) fn transmit(&mut self, host: usize, parcel: Parcel) {
        let now = self.now;
        let Some((locators, next_header)) = packet::header(&parcel.octets) else { return };
        let ends = [locators.local.0, locators.peer.0];
        let chosen = parcel.original.as_deref().and_then(|original| packet::header(original));
        let chosen = chosen.map(|(locators, _)| locators);
        let core = self.nodes.get(host).and_then(|node| node.core.as_ref());
        let is_there = self.network.has_address(locators.local.0)
            || core.is_some_and(|core| core.is_left_to_plane(locators.local))
            // The kernel did not take an address, and the core tries again in a moment.
            || core.is_some_and(|core| core.host.awaits_retry());
        self.rules.on_wire(host, locators, chosen, is_there, now);
        if let Some(chosen) = chosen {
            self.check_uplink(host, chosen, locators.local.0);
        }
        self.log.packet(&parcel.octets, now);
        let [Some(from), Some(to)] = ends.map(|end| self.network.port_of(end)) else { return };
        let is_control = parcel.original.is_none();
        let is_of_core = is_control && next_header == PROTOCOL;
        let follows_routes = is_of_core || chosen.as_ref() == Some(&locators);
        if is_control && [from, to].iter().any(|port| self.plan.hosts[port.host].plain_ilnp) {
            self.told.on_sent(&parcel.octets);
        }
        let kind = (is_control, follows_routes);
        let is_filtered = next_header == PROTOCOL && self.network.filters(ends);
        let len = parcel.octets.len();
        if let Some(mtu) = self.network.too_small_for(ends, len, follows_routes, now) {
            if !is_filtered {
                self.refuse_too_big(from, &parcel.octets, mtu);
            }
            return;
        }
        let mut arrivals = self.network.carry(ends, parcel.octets.len(), kind, now);
        arrivals.retain(|_| !is_filtered);
        if self.log.is_tracing() {
            let fate = match arrivals.is_empty() {
                false => Fate::Arrives,
                true if self.network.works(ends[0], ends[1]) => Fate::Lost,
                true => Fate::CutOff,
            };
            self.trace_packet(Way { from, to, fate }, locators, &parcel);
        }
        let parcel = Rc::new(parcel);
        for after in arrivals {
            self.queue.push(now + after, Occurrence::Arrival(to, Rc::clone(&parcel)));
        }
    }

    /// Has a router drop a packet of this uplink that is too big for a link, and tell its sender.
    fn refuse_too_big(&mut self, from: Port, octets: &[u8], mtu: u32) {
        let Some((locators, _)) = packet::header(octets) else { return };
        self.outcome.too_big += 1;
        self.log.note(self.now, from.host, || {
            format!("{from}: a packet of {} octets is too big for {mtu}", octets.len())
        });
        let Some(error) = packet::too_big(ROUTER, octets, mtu) else { return };
        let parcel = Rc::new(Parcel { octets: error, original: None });
        for after in self.network.carry_back(locators.local.0, self.now) {
            self.queue.push(self.now + after, Occurrence::Arrival(from, Rc::clone(&parcel)));
        }
    }

    /// Checks the uplink of a direct route: it has to have the source of the packets.
    fn check_uplink(&mut self, host: usize, chosen: LocatorPair, source: Ipv6Addr) {
        let core = self.nodes.get(host).and_then(|node| node.core.as_ref());
        // A route that the kernel did not remove may be wrong until the next look.
        let core = core.filter(|core| !core.host.awaits_retry());
        let ulids = UlidPair::new(chosen.local.as_ulid(), chosen.peer.as_ulid());
        let route = core.and_then(|core| core.kernel.route(ulids));
        let Some(hop) = route.and_then(|route| route.direct) else { return };
        let uplink = self.network.port_of(source).map(ifindex_of);
        self.check(uplink == Some(hop.ifindex), Rule::RightUplink, || {
            format!("{}: {source} by uplink {}", host_name(host), hop.ifindex)
        });
    }

    fn trace_packet(&mut self, way: Way, locators: LocatorPair, parcel: &Parcel) {
        let fate = match way.fate {
            Fate::Arrives => "",
            Fate::Lost => "  LOST",
            Fate::CutOff => "  CUT OFF",
        };
        let Some(original) = &parcel.original else {
            let what = describe::control(&parcel.octets, locators);
            self.log.moment(self.now, MomentKind::Message(way), || format!("{what}{fate}"));
            return;
        };
        // Random loss of payload is no change of the path.
        let way =
            Way { fate: if way.fate == Fate::Lost { Fate::Arrives } else { way.fate }, ..way };
        let key = (way.from.host, packet::port(original));
        if self.ways.get(&key) != Some(&way) {
            self.ways.insert(key, way);
            let what = describe::payload(original);
            self.log.moment(self.now, MomentKind::Message(way), || {
                format!("payload from now on: {what}{fate}")
            });
        }
    }
}

/// Address of the routers in the core of the Internet.
const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc04e, 0, 0, 0, 0, 1);
