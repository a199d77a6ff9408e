use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, HostView, Lifetimes, Uplink, UplinkAddress};
use moorline_host::SessionAddress;
use moorline_types::{Ilv, Instant, Locator};

use crate::plan::{
    self, Direction, Link, Plan, Port, REORDER_DELAY, REPLAY_WITHIN, What, host_name,
};
use crate::rng::Rng;

/// Who can reach whom, and what happens to packets on the way.
#[derive(Debug)]
pub(crate) struct Network {
    ports: BTreeMap<Port, PortState>,
    addresses: BTreeMap<Ipv6Addr, Address>,
    /// Addresses that a host has for ILNP sessions alone, beside its own.
    guests: BTreeMap<Ipv6Addr, Address>,
    cut_paths: BTreeSet<(Port, Port)>,
    down_isps: BTreeSet<usize>,
    cut_transits: BTreeSet<(usize, usize)>,
    rng: Rng,
}

/// How long a router sends to an address that has gone (RFC 4861 s10: REACHABLE_TIME).
pub(crate) const NEIGHBOR_REMEMBERED: Duration = Duration::from_secs(30);

/// One uplink.
#[derive(Clone, Copy, Debug)]
struct PortState {
    plan: plan::Uplink,
    is_cut_out: bool,
    is_cut_in: bool,
    has_carrier: bool,
    has_address: bool,
    /// Until when routers send to addresses that are not there any more.
    remembered_until: Instant,
    /// When the last packet that waits for either link will have left: out, and in.
    busy_until: [Instant; 2],
}

/// An address that a host has or had.
#[derive(Clone, Copy, Debug)]
struct Address {
    port: Port,
    /// Its prefix has not been withdrawn.
    has_prefix: bool,
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
                    has_carrier: true,
                    has_address: true,
                    remembered_until: Instant::ZERO,
                    busy_until: [Instant::ZERO; 2],
                };
                ports.insert(Port { host, uplink: number }, state);
            }
        }
        Self {
            ports,
            addresses: BTreeMap::new(),
            guests: BTreeMap::new(),
            cut_paths: BTreeSet::new(),
            down_isps: BTreeSet::new(),
            cut_transits: BTreeSet::new(),
            rng,
        }
    }

    /// A host has another address.
    pub(crate) fn add_address(&mut self, port: Port, address: Locator) {
        self.addresses.insert(address.0, Address { port, has_prefix: true });
    }

    /// The prefix of an address is gone.
    pub(crate) fn withdraw_address(&mut self, address: Locator) {
        let prefix = Ilv::of(address.0).l64;
        if let Some(state) = self.addresses.get_mut(&address.0) {
            state.has_prefix = false;
        }
        self.remove_guests(|guest, _| Ilv::of(guest).l64 == prefix);
    }

    /// A host has an address for sessions on an uplink.
    pub(crate) fn add_guest(&mut self, port: Port, address: Ipv6Addr) {
        self.guests.insert(address, Address { port, has_prefix: true });
    }

    /// A host has it no longer.
    pub(crate) fn remove_guest(&mut self, address: Ipv6Addr) {
        self.remove_guests(|guest, _| guest == address);
    }

    /// A host has none of them any longer, as its kernel begins anew.
    pub(crate) fn remove_guests_of(&mut self, host: usize) {
        self.remove_guests(|_, port| port.host == host);
    }

    fn remove_guests(&mut self, is_gone: impl Fn(Ipv6Addr, Port) -> bool) {
        let gone = self.guests.iter_mut().filter(|(guest, state)| is_gone(**guest, state.port));
        gone.for_each(|(_, state)| state.has_prefix = false);
    }

    /// Addresses that a host has for sessions, each with its uplink.
    pub(crate) fn guests_of(&self, host: usize) -> impl Iterator<Item = (usize, Ipv6Addr)> + '_ {
        let of_host = self.guests.iter().filter(move |(_, state)| state.port.host == host);
        let there = of_host.filter(|(_, state)| state.has_prefix);
        there.map(|(address, state)| (state.port.uplink, *address))
    }

    /// The links of a host and its addresses there, as its kernel tells its core. An uplink has the number of its port, from 1 on.
    pub(crate) fn view_of(&self, host: usize) -> HostView {
        let ports = self.ports.iter().filter(|(port, _)| port.host == host);
        let uplinks = ports.map(|(port, state)| {
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
            let mut uplink = Uplink::new(ifindex, name).reached(router, own);
            uplink.addresses.extend(guests);
            Uplink { carrier: state.has_carrier, ..uplink }
        });
        HostView { uplinks: uplinks.collect(), ..HostView::default() }
    }

    /// Whose address it is or was.
    pub(crate) fn port_of(&self, address: Ipv6Addr) -> Option<Port> {
        self.find(address).map(|address| address.port)
    }

    /// The uplink whose address it is or was.
    fn uplink_of(&self, address: Ipv6Addr) -> Option<(Port, &PortState)> {
        let port = self.port_of(address)?;
        Some((port, self.ports.get(&port)?))
    }

    /// The uplink whose address it is, unless its prefix has been withdrawn.
    fn holder(&self, address: Ipv6Addr) -> Option<&PortState> {
        let address = self.find(address).filter(|address| address.has_prefix)?;
        self.ports.get(&address.port)
    }

    fn find(&self, address: Ipv6Addr) -> Option<&Address> {
        self.guests.get(&address).or_else(|| self.addresses.get(&address))
    }

    /// The addresses that a host can send from, as far as it knows.
    pub(crate) fn usable_of(&self, host: usize) -> impl Iterator<Item = Locator> + '_ {
        let of_host = self.addresses.iter().filter(move |(_, state)| state.port.host == host);
        of_host.map(|(&address, _)| Locator(address)).filter(|locator| self.is_usable(locator.0))
    }

    /// Whether the host it is or was of has this address now, whatever its link does.
    pub(crate) fn has_address(&self, address: Ipv6Addr) -> bool {
        self.holder(address).is_some_and(|state| state.has_address)
    }

    /// Whether routers may have sent to an address that is no uplink's: one that had gone, or one for sessions.
    pub(crate) fn may_have_misled(&self, host: usize) -> bool {
        let mut ports = self.ports.iter().filter(|(port, _)| port.host == host);
        ports.any(|(_, state)| state.remembered_until > Instant::ZERO)
            || self.guests.values().any(|guest| guest.port.host == host)
    }

    /// Whether packets get from one address to the other, but for bad luck, and the host has that address.
    pub(crate) fn works(&self, from: Ipv6Addr, to: Ipv6Addr) -> bool {
        self.is_usable(to) && self.carries([from, to], Instant::ZERO)
    }

    /// Whether packets get from one address to the interface of the other, but for bad luck.
    fn carries(&self, [from, to]: [Ipv6Addr; 2], now: Instant) -> bool {
        let [Some((source, sender)), Some((destination, receiver))] =
            [from, to].map(|end| self.uplink_of(end))
        else {
            return false;
        };
        self.is_usable(from)
            && !sender.is_cut_out
            && self.receives(to, now)
            && !self.cut_paths.contains(&(source, destination))
            && !self.down_isps.contains(&sender.plan.isp)
            && !self.cut_transits.contains(&(sender.plan.isp, receiver.plan.isp))
    }

    /// Whether a packet on its way to this address gets in. Routers remember an address of a neighbor for a while after it has gone.
    pub(crate) fn receives(&self, to: Ipv6Addr, now: Instant) -> bool {
        self.holder(to).is_some_and(|state| {
            state.has_carrier
                && (state.has_address || now < state.remembered_until)
                && !state.is_cut_in
                && !self.down_isps.contains(&state.plan.isp)
        })
    }

    /// The times after which a packet of so many octets arrives: none if it is lost, several if it is
    /// repeated.
    pub(crate) fn carry(
        &mut self,
        [from, to]: [Ipv6Addr; 2],
        octets: usize,
        is_control: bool,
        now: Instant,
    ) -> Vec<Duration> {
        if !self.carries([from, to], now) {
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
        // The dice above are cast for packets that find a full queue, too.
        let Some(waited) = waited else { return Vec::new() };
        arrivals.into_iter().map(|arrival| arrival + waited).collect()
    }

    /// How long a packet waits for those before it on both links and is on its way itself; none if a queue
    /// is full.
    ///
    /// The second link is entered when the delay of the first one is over, without its jitter. Packets of
    /// several senders line up there as they left, which is all the same to how long the queue is.
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

    /// Hosts have to be told of their addresses afterwards.
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
            What::HealAll {} => {
                self.cut_paths.clear();
                self.down_isps.clear();
                self.cut_transits.clear();
                for state in self.ports.values_mut() {
                    state.heal();
                    state.has_carrier = true;
                    state.has_address = true;
                }
            }
            What::PrefixAdded { .. }
            | What::PrefixWithdrawn { .. }
            | What::Kill { .. }
            | What::Restart { .. }
            | What::Reboot { .. }
            | What::Suspend { .. }
            | What::Resume { .. }
            | What::CutProtected { .. } => {}
        }
    }

    /// Packets between the uplinks of two addresses vanish, both ways.
    pub(crate) fn cut_pair(&mut self, one: Ipv6Addr, other: Ipv6Addr) {
        if let (Some(one), Some(other)) = (self.port_of(one), self.port_of(other)) {
            self.cut_paths.extend([(one, other), (other, one)]);
        }
    }

    /// Longest time that a packet may take one way; a replayed one does not count.
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

    /// Whether nothing is wrong with an uplink, its ISP, or ways from and to it.
    pub(crate) fn is_whole(&self, port: Port) -> bool {
        let Some(state) = self.ports.get(&port) else { return false };
        let isp = state.plan.isp;
        let is_cut = |&(from, to): &(Port, Port)| from == port || to == port;
        let is_cut_off = |&(from, to): &(usize, usize)| from == isp || to == isp;
        state.has_carrier
            && state.has_address
            && !state.is_cut_out
            && !state.is_cut_in
            && !self.down_isps.contains(&isp)
            && !self.cut_paths.iter().any(is_cut)
            && !self.cut_transits.iter().any(is_cut_off)
    }

    /// Whether packets are lost by chance, or in full queues.
    pub(crate) fn is_lossy(&self) -> bool {
        self.links().any(|link| link.loss.0 > 0 || link.rate > 0)
    }

    /// Whether they are lost, held back or replayed by chance.
    pub(crate) fn is_disorderly(&self) -> bool {
        let by_chance =
            |link: &Link| [link.loss, link.reordering, link.replay].iter().any(|c| c.0 > 0);
        self.is_lossy() || self.links().any(by_chance)
    }

    fn links(&self) -> impl Iterator<Item = &Link> + '_ {
        self.ports.values().flat_map(|state| [&state.plan.out, &state.plan.inbound])
    }

    /// Whether a host can send from it, as far as the host knows.
    fn is_usable(&self, address: Ipv6Addr) -> bool {
        self.holder(address).is_some_and(|state| state.has_carrier && state.has_address)
    }

    fn change(&mut self, port: Port, change: impl FnOnce(&mut PortState)) {
        if let Some(state) = self.ports.get_mut(&port) {
            change(state);
        }
    }

    fn any(&mut self, links: &[Link], chance: impl Fn(&Link) -> crate::Chance) -> bool {
        // Every die is cast, so that what happens to later packets does not depend on this one.
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

/// The longest packet, for the longest delay.
const MAX_PACKET: usize = 1500;

/// Index of the interface at this port.
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

    /// From A1 to B1, by a link that carries an octet in a millisecond.
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
        let mut send = |ends, at| network.carry(ends, 100, false, start + at);
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
}
