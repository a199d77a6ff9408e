use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, HostView, Lifetimes, SpecificRoute, Uplink, UplinkAddress};
use moorline_host::SessionAddress;
use moorline_types::{Ilv, Instant, Locator, Prefix};

use crate::plan::{
    self, Direction, Link, Plan, Port, REORDER_DELAY, REPLAY_WITHIN, What, host_name,
};
use crate::rng::Rng;

/// The network: its paths, and their effects on packets.
#[derive(Debug)]
pub(crate) struct Network {
    ports: BTreeMap<Port, PortState>,
    /// Whether the uplinks to an ISP are on one link.
    are_neighbors: bool,
    /// Destinations to which the rules of each host keep moved pairs on their own links.
    detours: BTreeMap<usize, BTreeSet<Prefix>>,
    addresses: BTreeMap<Ipv6Addr, Address>,
    /// Addresses that a host has for ILNP sessions alone, beside its own.
    guests: BTreeMap<Ipv6Addr, Address>,
    cut_paths: BTreeSet<(Port, Port)>,
    down_isps: BTreeSet<usize>,
    cut_transits: BTreeSet<(usize, usize)>,
    rng: Rng,
}

/// Time for which a router sends to an address that is gone (RFC 4861 s10: REACHABLE_TIME).
pub(crate) const NEIGHBOR_REMEMBERED: Duration = Duration::from_secs(30);

/// One uplink.
#[derive(Clone, Copy, Debug)]
struct PortState {
    plan: plan::Uplink,
    is_cut_out: bool,
    is_cut_in: bool,
    /// Whether a firewall drops protocol 140: outbound, inbound.
    filters: [bool; 2],
    has_carrier: bool,
    has_address: bool,
    has_route: bool,
    /// Time until which routers send to addresses that are gone.
    remembered_until: Instant,
    /// Time when the last waiting packet will have left each link: outbound, inbound.
    busy_until: [Instant; 2],
}

/// An address that a host has or had.
#[derive(Clone, Copy, Debug)]
struct Address {
    port: Port,
    /// Whether the prefix of the address has not been withdrawn.
    has_prefix: bool,
    /// Whether packets from and to the address are lost.
    is_false: bool,
}

impl PortState {
    fn heal(&mut self) {
        self.is_cut_in = false;
        self.is_cut_out = false;
    }
}

impl Network {
    pub(crate) fn new(plan: &Plan, rng: Rng) -> Self {
        let mut ports = BTreeMap::new();
        for (host, of_host) in plan.hosts.iter().enumerate() {
            for (number, uplink) in of_host.uplinks.iter().enumerate() {
                let state = PortState {
                    plan: *uplink,
                    is_cut_out: false,
                    is_cut_in: false,
                    filters: [false; 2],
                    has_carrier: true,
                    has_address: true,
                    has_route: true,
                    remembered_until: Instant::ZERO,
                    busy_until: [Instant::ZERO; 2],
                };
                ports.insert(Port { host, uplink: number }, state);
            }
        }
        Self {
            ports,
            are_neighbors: plan.neighbors,
            detours: BTreeMap::new(),
            addresses: BTreeMap::new(),
            guests: BTreeMap::new(),
            cut_paths: BTreeSet::new(),
            down_isps: BTreeSet::new(),
            cut_transits: BTreeSet::new(),
            rng,
        }
    }

    /// Adds an address of a host.
    pub(crate) fn add_address(&mut self, port: Port, address: Locator) {
        self.addresses.insert(address.0, Address { port, has_prefix: true, is_false: false });
    }

    /// Adds an address of a host under a prefix that leads nowhere.
    pub(crate) fn add_false_address(&mut self, port: Port, address: Locator) {
        self.addresses.insert(address.0, Address { port, has_prefix: true, is_false: true });
    }

    /// Withdraws the prefix of an address.
    pub(crate) fn withdraw_address(&mut self, address: Locator) {
        let prefix = Ilv::of(address.0).l64;
        if let Some(state) = self.addresses.get_mut(&address.0) {
            state.has_prefix = false;
        }
        self.remove_guests(|guest, _| Ilv::of(guest).l64 == prefix);
    }

    /// Adds an address for sessions to an uplink.
    pub(crate) fn add_guest(&mut self, port: Port, address: Ipv6Addr) {
        self.guests.insert(address, Address { port, has_prefix: true, is_false: false });
    }

    /// Removes an address for sessions.
    pub(crate) fn remove_guest(&mut self, address: Ipv6Addr) {
        self.remove_guests(|guest, _| guest == address);
    }

    /// Removes all addresses for sessions of a host whose kernel restarts.
    pub(crate) fn remove_guests_of(&mut self, host: usize) {
        self.remove_guests(|_, port| port.host == host);
    }

    fn remove_guests(&mut self, is_gone: impl Fn(Ipv6Addr, Port) -> bool) {
        let gone = self.guests.iter_mut().filter(|(guest, state)| is_gone(**guest, state.port));
        gone.for_each(|(_, state)| state.has_prefix = false);
    }

    /// Addresses of a host for sessions, each with its uplink.
    pub(crate) fn guests_of(&self, host: usize) -> impl Iterator<Item = (usize, Ipv6Addr)> + '_ {
        let of_host = self.guests.iter().filter(move |(_, state)| state.port.host == host);
        let there = of_host.filter(|(_, state)| state.has_prefix);
        there.map(|(address, state)| (state.port.uplink, *address))
    }

    /// The links and addresses of a host, as its kernel reports them to its core. The interface index is the number
    /// of the port, from 1 on.
    pub(crate) fn view_of(&self, host: usize) -> HostView {
        let mut view = HostView { specific: self.specific_of(host), ..HostView::default() };
        let ports = self.ports.iter().filter(|(port, _)| port.host == host);
        for (port, state) in ports {
            let ifindex = ifindex_of(*port);
            let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, index(state.plan.isp));
            let own = self.addresses.iter().filter(|(_, address)| address.port == *port);
            let own = own.filter(|(address, _)| self.is_usable(**address));
            let own = own.map(|(address, _)| *address);
            let guests = self.guests_of(host).filter(|(uplink, _)| *uplink == port.uplink);
            let guests = guests.map(|(_, address)| {
                let (length, flags) = (SessionAddress::PREFIX_LEN, AddressFlags::DEPRECATED);
                UplinkAddress::new(address, length, flags, Lifetimes::FOREVER)
            });
            let name = format!("{}{ifindex}", host_name(host));
            let mut link = Uplink::new(ifindex, name).reached(router, own);
            link.addresses.extend(guests);
            link.carrier = state.has_carrier;
            if state.has_route {
                view.uplinks.push(link);
            } else if state.has_carrier {
                view.bare.push(Uplink { gateway: None, default_routes: Vec::new(), ..link });
            } else {
                view.dead.insert(ifindex);
            }
        }
        view
    }

    /// The routes of a host to the prefixes of its neighbors.
    fn specific_of(&self, host: usize) -> BTreeSet<SpecificRoute> {
        let others = self
            .addresses
            .iter()
            .filter(|(_, other)| other.has_prefix && other.port.host != host && self.are_neighbors);
        let routes = others.filter_map(|(address, other)| {
            let destination = Prefix::new(*address, 64);
            let way = Some((ifindex_of(self.on_link_of(host, other.port)?), None));
            Some(SpecificRoute { destination, source: None, metric: 256, way, mtu: None })
        });
        routes.collect()
    }

    /// The uplink of a host that is on the link of this port.
    fn on_link_of(&self, host: usize, other: Port) -> Option<Port> {
        let isp = self.ports.get(&other)?.plan.isp;
        let mut ports = self.ports.iter().filter(|(port, _)| port.host == host);
        ports.find(|(_, state)| state.plan.isp == isp).map(|(port, _)| *port)
    }

    /// Sets the destinations to which the rules of a host keep moved pairs on their own links.
    pub(crate) fn set_detours(&mut self, host: usize, detours: BTreeSet<Prefix>) {
        self.detours.insert(host, detours);
    }

    /// The uplink by which packets of an uplink's addresses leave to an address of another uplink. Packets to a neighbor
    /// leave by the common link: moved payload only from an address of that link, and packets that follow the routes of
    /// the host from any address. On a detour packets from addresses of another link leave by their own link.
    fn exit(&self, from: Port, (to, at): (Port, Ipv6Addr), follows_routes: bool) -> Option<Port> {
        let detours = self.detours.get(&from.host).into_iter().flatten();
        let is_detour = detours.into_iter().any(|prefix| prefix.contains(at));
        let by = self.on_link_of(from.host, to).filter(|by| {
            self.are_neighbors
                && (*by == from || !is_detour)
                && self.ports.get(by).is_some_and(|state| state.has_carrier)
        });
        match by {
            Some(by) => Some(by).filter(|by| follows_routes || *by == from),
            None => Some(from).filter(|from| self.ports.get(from).is_some_and(|one| one.has_route)),
        }
    }

    /// The port that has or had this address.
    pub(crate) fn port_of(&self, address: Ipv6Addr) -> Option<Port> {
        self.find(address).map(|address| address.port)
    }

    /// The ISP of the uplink that has or had this address.
    pub(crate) fn isp_of(&self, address: Ipv6Addr) -> Option<usize> {
        self.uplink_of(address).map(|(_, state)| state.plan.isp)
    }

    /// The uplink that has or had this address.
    fn uplink_of(&self, address: Ipv6Addr) -> Option<(Port, &PortState)> {
        let port = self.port_of(address)?;
        Some((port, self.ports.get(&port)?))
    }

    /// The uplink that has this address, unless the address's prefix has been withdrawn.
    fn holder(&self, address: Ipv6Addr) -> Option<&PortState> {
        let address = self.find(address).filter(|address| address.has_prefix)?;
        self.ports.get(&address.port)
    }

    fn find(&self, address: Ipv6Addr) -> Option<&Address> {
        self.guests.get(&address).or_else(|| self.addresses.get(&address))
    }

    /// Whether the link of an uplink is up.
    pub(crate) fn has_carrier(&self, port: Port) -> bool {
        self.ports.get(&port).is_some_and(|state| state.has_carrier)
    }

    /// The addresses that a host can send from, as far as the host knows.
    pub(crate) fn usable_of(&self, host: usize) -> impl Iterator<Item = Locator> + '_ {
        let of_host = self.addresses.iter().filter(move |(_, state)| state.port.host == host);
        of_host.map(|(&address, _)| Locator(address)).filter(|locator| self.is_usable(locator.0))
    }

    /// Whether a host has this address now, whatever its link does.
    pub(crate) fn has_address(&self, address: Ipv6Addr) -> bool {
        self.holder(address).is_some_and(|state| state.has_address)
    }

    /// Whether routers or neighbors may have sent to an address that is not an uplink's: an address that was gone, one
    /// for sessions, or one of a link without a default route.
    pub(crate) fn may_have_misled(&self, host: usize) -> bool {
        let mut ports = self.ports.iter().filter(|(port, _)| port.host == host);
        self.are_neighbors
            || ports.any(|(_, state)| state.remembered_until > Instant::ZERO)
            || self.guests.values().any(|guest| guest.port.host == host)
    }

    /// Whether packets get from one address to the other, apart from random loss, and the receiver has its address.
    pub(crate) fn works(&self, from: Ipv6Addr, to: Ipv6Addr) -> bool {
        self.is_usable(to) && self.carries([from, to], false, Instant::ZERO)
    }

    /// Whether packets get from one address to the interface of the other, apart from random loss.
    fn carries(&self, [from, to]: [Ipv6Addr; 2], follows_routes: bool, now: Instant) -> bool {
        let [Some((source, _)), Some((destination, receiver))] =
            [from, to].map(|end| self.uplink_of(end))
        else {
            return false;
        };
        let exit = self.exit(source, (destination, to), follows_routes);
        let Some((source, sender)) = exit.and_then(|exit| Some((exit, self.ports.get(&exit)?)))
        else {
            return false;
        };
        self.is_usable(from)
            && ![from, to].iter().any(|end| self.find(*end).is_some_and(|one| one.is_false))
            && !sender.is_cut_out
            && self.receives(to, now)
            && !self.cut_paths.contains(&(source, destination))
            && !self.down_isps.contains(&sender.plan.isp)
            && !self.cut_transits.contains(&(sender.plan.isp, receiver.plan.isp))
    }

    /// Whether a firewall drops protocol 140 on the way from one address to the other.
    pub(crate) fn filters(&self, [from, to]: [Ipv6Addr; 2]) -> bool {
        let has = |end, side: usize| self.uplink_of(end).is_some_and(|(_, one)| one.filters[side]);
        has(from, 0) || has(to, 1)
    }

    /// Whether a packet to this address gets in. Routers remember a neighbor's address for a while after it is gone.
    pub(crate) fn receives(&self, to: Ipv6Addr, now: Instant) -> bool {
        self.holder(to).is_some_and(|state| {
            state.has_carrier
                && (state.has_address || now < state.remembered_until)
                && !state.is_cut_in
                && !self.down_isps.contains(&state.plan.isp)
        })
    }

    /// The times after which a packet of this length arrives. Empty if the packet is lost; several if it is repeated.
    pub(crate) fn carry(
        &mut self,
        [from, to]: [Ipv6Addr; 2],
        octets: usize,
        (is_control, follows_routes): (bool, bool),
        now: Instant,
    ) -> Vec<Duration> {
        if !self.carries([from, to], follows_routes, now) {
            return Vec::new();
        }
        let waited = self.wait(from, to, octets, now);
        let links = [
            self.uplink_of(from).map(|(_, sender)| sender.plan.out).unwrap_or_default(),
            self.uplink_of(to).map(|(_, receiver)| receiver.plan.inbound).unwrap_or_default(),
        ];
        let mut arrivals = Vec::with_capacity(1);
        if !self.any(&links, |link| link.loss) {
            arrivals.push(self.delay(&links));
        }
        if self.any(&links, |link| link.duplication) {
            arrivals.push(self.delay(&links));
        }
        if is_control && self.any(&links, |link| link.replay) {
            arrivals.push(self.delay(&links) + self.rng.duration(REPLAY_WITHIN));
        }
        // The random draws above are made for packets that find a full queue as well.
        let Some(waited) = waited else { return Vec::new() };
        arrivals.into_iter().map(|arrival| arrival + waited).collect()
    }

    /// The MTU of the first link on the way of a packet that the packet does not fit into, if the packet gets there.
    pub(crate) fn too_small_for(
        &self,
        ends: [Ipv6Addr; 2],
        octets: usize,
        follows_routes: bool,
        now: Instant,
    ) -> Option<u32> {
        let is_too_small = |mtu: &u32| u32::try_from(octets).is_ok_and(|octets| octets > *mtu);
        let mtu = self.mtus(ends).into_iter().flatten().find(is_too_small)?;
        self.carries(ends, follows_routes, now).then_some(mtu)
    }

    /// The MTUs of the links on the way of a packet, as far as the links have one.
    fn mtus(&self, [from, to]: [Ipv6Addr; 2]) -> [Option<u32>; 2] {
        let out = self.uplink_of(from).map(|(_, sender)| sender.plan.out.mtu);
        let inbound = self.uplink_of(to).map(|(_, receiver)| receiver.plan.inbound.mtu);
        [out, inbound].map(|mtu| mtu.filter(|mtu| *mtu > 0))
    }

    /// The times after which a router's error about a packet from this address arrives there. The packet goes to the core of
    /// the Internet, and the error comes back by the same uplink. Empty if either is lost.
    pub(crate) fn carry_back(&mut self, from: Ipv6Addr, now: Instant) -> Vec<Duration> {
        let Some((_, state)) = self.uplink_of(from) else { return Vec::new() };
        let links = [state.plan.out, state.plan.inbound];
        let is_lost = self.any(&links, |link| link.loss) || !self.receives(from, now);
        let delay = self.delay(&links);
        if is_lost { Vec::new() } else { vec![delay] }
    }

    /// Whether large packets from one address to the other vanish: they do not fit into a link, and the errors about them do
    /// not come back.
    pub(crate) fn is_black_hole(&self, from: Ipv6Addr, to: Ipv6Addr) -> bool {
        self.mtus([from, to]).iter().any(Option::is_some)
            && self.works(from, to)
            && !self.receives(from, Instant::ZERO)
    }

    /// Time for which a packet waits on both links and is transmitted; `None` if a queue is full.
    ///
    /// The packet enters the second link after the delay of the first one, without its jitter. Packets of several
    /// senders enter it in the order in which they left. That has no influence on the length of the queue.
    fn wait(
        &mut self,
        from: Ipv6Addr,
        to: Ipv6Addr,
        octets: usize,
        now: Instant,
    ) -> Option<Duration> {
        let ends = [self.port_of(from)?, self.port_of(to)?];
        let mut enters = now;
        let mut waited = Duration::ZERO;
        for (way, port) in ends.into_iter().enumerate() {
            let state = self.ports.get_mut(&port)?;
            let link = if way == 0 { state.plan.out } else { state.plan.inbound };
            if link.rate > 0 {
                let begin = state.busy_until[way].max(enters);
                if begin.since(enters) > link.queue {
                    return None;
                }
                state.busy_until[way] = begin + link.transmission(octets);
                waited += state.busy_until[way].since(enters);
                enters = state.busy_until[way];
            }
            enters = enters + link.delay;
        }
        Some(waited)
    }

    /// Applies a change. The caller tells the hosts their addresses afterwards.
    pub(crate) fn apply(&mut self, what: What, now: Instant) {
        match what {
            What::Cut { uplink: port, direction } => self.change(port, |state| {
                state.is_cut_out |= direction != Direction::In;
                state.is_cut_in |= direction != Direction::Out;
            }),
            What::CutPath { uplink: from, to_uplink: to } => {
                self.cut_paths.insert((from, to));
            }
            What::CarrierDown { uplink: port } => {
                self.change(port, |state| state.has_carrier = false)
            }
            What::CarrierUp { uplink: port } => self.change(port, |state| state.has_carrier = true),
            What::AddressRemoved { uplink: port } => self.change(port, |state| {
                state.has_address = false;
                state.remembered_until = now + NEIGHBOR_REMEMBERED;
            }),
            What::AddressAdded { uplink: port } => {
                self.change(port, |state| state.has_address = true)
            }
            What::RouteRemoved { uplink: port } => {
                self.change(port, |state| state.has_route = false)
            }
            What::RouteAdded { uplink: port } => self.change(port, |state| state.has_route = true),
            What::IspDown { isp } => {
                self.down_isps.insert(isp);
            }
            What::IspUp { isp } => {
                self.down_isps.remove(&isp);
            }
            What::CutTransit { isp: from, to_isp: to } => {
                self.cut_transits.insert((from, to));
            }
            What::Heal { uplink: port } => {
                self.cut_paths.retain(|&(from, to)| from != port && to != port);
                self.change(port, PortState::heal);
            }
            What::Filter { uplink: port, direction } => self.change(port, |state| {
                state.filters[0] |= direction != Direction::In;
                state.filters[1] |= direction != Direction::Out;
            }),
            What::FilterEnd { uplink: port } => {
                self.change(port, |state| state.filters = [false; 2]);
            }
            What::Loss { uplink: port, loss } => self.change(port, |state| {
                (state.plan.out.loss, state.plan.inbound.loss) = (loss, loss);
            }),
            What::Mtu { uplink: port, mtu } => self.change(port, |state| {
                (state.plan.out.mtu, state.plan.inbound.mtu) = (mtu, mtu);
            }),
            What::HealAll {} => {
                self.cut_paths.clear();
                self.down_isps.clear();
                self.cut_transits.clear();
                for state in self.ports.values_mut() {
                    state.heal();
                    state.has_carrier = true;
                    state.has_address = true;
                    state.has_route = true;
                }
            }
            What::PrefixAdded { .. }
            | What::PrefixWithdrawn { .. }
            | What::Misled { .. }
            | What::Kill { .. }
            | What::Restart { .. }
            | What::Reboot { .. }
            | What::Suspend { .. }
            | What::Resume { .. }
            | What::CutProtected { .. } => {}
        }
    }

    /// Cuts the path between the uplinks of two addresses, in both directions.
    pub(crate) fn cut_pair(&mut self, one: Ipv6Addr, other: Ipv6Addr) {
        if let (Some(one), Some(other)) = (self.port_of(one), self.port_of(other)) {
            self.cut_paths.extend([(one, other), (other, one)]);
        }
    }

    /// Longest time that a packet takes one way, apart from replayed packets.
    pub(crate) fn longest_delay(&self) -> Duration {
        let of_link = |link: &Link| {
            let held_back = if link.reordering.0 > 0 { REORDER_DELAY } else { Duration::ZERO };
            let waited = if link.rate > 0 { link.queue } else { Duration::ZERO };
            link.delay + link.jitter + held_back + waited + link.transmission(MAX_PACKET)
        };
        let longest = |links: fn(&PortState) -> Link| {
            self.ports.values().map(|state| of_link(&links(state))).max().unwrap_or_default()
        };
        longest(|state| state.plan.out) + longest(|state| state.plan.inbound)
    }

    /// Whether nothing is wrong with an uplink, its ISP, or paths from and to it.
    pub(crate) fn is_whole(&self, port: Port) -> bool {
        let Some(state) = self.ports.get(&port) else { return false };
        let isp = state.plan.isp;
        let is_cut = |&(from, to): &(Port, Port)| from == port || to == port;
        let is_cut_off = |&(from, to): &(usize, usize)| from == isp || to == isp;
        state.has_carrier
            && state.has_address
            && state.has_route
            && !state.is_cut_out
            && !state.is_cut_in
            && !self.down_isps.contains(&isp)
            && !self.cut_paths.iter().any(is_cut)
            && !self.cut_transits.iter().any(is_cut_off)
    }

    /// Whether packets are lost at random, or in full queues.
    pub(crate) fn is_lossy(&self) -> bool {
        self.links().any(|link| link.loss.0 > 0 || link.rate > 0)
    }

    /// Whether packets are lost, held back or replayed at random.
    pub(crate) fn is_disorderly(&self) -> bool {
        let by_chance =
            |link: &Link| [link.loss, link.reordering, link.replay].iter().any(|c| c.0 > 0);
        self.is_lossy() || self.links().any(by_chance)
    }

    fn links(&self) -> impl Iterator<Item = &Link> + '_ {
        self.ports.values().flat_map(|state| [&state.plan.out, &state.plan.inbound])
    }

    /// Whether a host can send from this address, as far as the host knows.
    fn is_usable(&self, address: Ipv6Addr) -> bool {
        self.holder(address).is_some_and(|state| state.has_carrier && state.has_address)
    }

    fn change(&mut self, port: Port, change: impl FnOnce(&mut PortState)) {
        if let Some(state) = self.ports.get_mut(&port) {
            change(state);
        }
    }

    fn any(&mut self, links: &[Link], chance: impl Fn(&Link) -> crate::Chance) -> bool {
        // A draw is made for each link, so that later packets do not depend on this result.
        links.iter().filter(|link| self.rng.is(chance(link))).count() > 0
    }

    fn delay(&mut self, links: &[Link]) -> Duration {
        let mut delay = Duration::ZERO;
        for link in links {
            delay += link.delay + self.rng.duration(link.jitter);
            if self.rng.is(link.reordering) {
                delay += REORDER_DELAY;
            }
        }
        delay
    }
}

/// Length of the longest packet, octets, for the longest delay.
const MAX_PACKET: usize = 1500;

/// Interface index of a port.
pub(crate) fn ifindex_of(port: Port) -> u32 {
    u32::try_from(port.uplink + 1).unwrap_or(u32::MAX)
}

/// The port of a host whose interface has this index.
pub(crate) fn port_at(host: usize, ifindex: u32) -> Port {
    Port { host, uplink: ifindex as usize - 1 }
}

fn index(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Uplink;

    /// A path from A1 to B1 with a link that carries an octet in a millisecond.
    fn network(queue: Duration) -> (Network, [Ipv6Addr; 2]) {
        let mut plan = Plan::pair(Duration::from_secs(15));
        let slow = Link { rate: 1000, queue, ..Link::clean(Duration::from_millis(5)) };
        plan.hosts[0].uplinks[0] = Uplink { out: slow, ..plan.hosts[0].uplinks[0] };
        let mut network = Network::new(&plan, Rng::new(1, 2));
        let addresses = [1, 2].map(|end| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, end));
        for (host, address) in addresses.into_iter().enumerate() {
            network.add_address(Port { host, uplink: 0 }, Locator(address));
        }
        (network, addresses)
    }

    #[test]
    fn packets_wait_for_those_before_them_until_the_queue_is_full() {
        let ms = Duration::from_millis;
        let (mut network, [a, b]) = network(ms(250));
        let start = Instant::ZERO + ms(1000);
        let mut send = |ends, at| network.carry(ends, 100, (false, false), start + at);
        assert_eq!(send([a, b], ms(0)), [ms(110)], "its own time and both delays");
        assert_eq!(send([a, b], ms(0)), [ms(210)]);
        assert_eq!(send([a, b], ms(0)), [ms(310)]);
        assert_eq!(send([a, b], ms(0)), [], "would wait for 300 ms");
        assert_eq!(send([b, a], ms(0)), [ms(10)], "the way back is another link");
        assert_eq!(send([a, b], ms(100)), [ms(310)], "one has left meanwhile");
        assert_eq!(send([a, b], ms(10_000)), [ms(110)], "empty");
        assert_eq!(network.longest_delay(), ms(5 + 250 + 1500 + 5));
        assert!(network.is_lossy());
    }

    #[test]
    fn the_first_link_that_is_too_small_refuses_a_packet_that_gets_there() {
        let mut plan = Plan::pair(Duration::from_secs(15));
        let narrow = |mtu| Link { mtu, ..Link::clean(Duration::from_millis(5)) };
        plan.hosts[0].uplinks[0].out = narrow(1400);
        plan.hosts[1].uplinks[0].inbound = narrow(1300);
        let mut network = Network::new(&plan, Rng::new(1, 2));
        let [a, b] = [1, 2].map(|end| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, end));
        for (host, address) in [a, b].into_iter().enumerate() {
            network.add_address(Port { host, uplink: 0 }, Locator(address));
        }
        let now = Instant::ZERO + Duration::from_secs(1);
        let refused =
            |network: &Network, ends, octets| network.too_small_for(ends, octets, false, now);
        assert_eq!(
            [1300, 1301, 1401].map(|octets| refused(&network, [a, b], octets)),
            [None, Some(1300), Some(1400)]
        );
        assert_eq!(refused(&network, [b, a], 1500), None, "the way back is another link");
        assert_eq!(network.carry_back(a, now), [Duration::from_millis(10)]);
        assert!(!network.is_black_hole(a, b));

        let port = Port { host: 0, uplink: 0 };
        network.apply(What::Cut { uplink: port, direction: Direction::In }, now);
        assert_eq!(network.carry_back(a, now), []);
        assert!(network.is_black_hole(a, b) && !network.is_black_hole(b, a));
        network.apply(What::Mtu { uplink: Port { host: 1, uplink: 0 }, mtu: 0 }, now);
        assert_eq!(refused(&network, [a, b], 1400), None);
        network.apply(What::Cut { uplink: port, direction: Direction::Both }, now);
        assert_eq!(refused(&network, [a, b], 1500), None, "the packet is lost before");
    }
}
