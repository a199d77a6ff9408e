//! Hosts, links, routers and ISPs in one process and in virtual time.
//!
//! ```text
//!  host 0 --- link --+-- router of ISP 1 === ISP 1 === router of ISP 1 --+-- link --- host 1
//!                    |                         ||                        |
//!                    +-- router of ISP 2 === ISP 2 === router of ISP 2 --+
//! ```
//!
//! Each host has one link with the routers of all ISPs, or a link for each ISP ([`Layout`]). The routers speak Neighbor Discovery, and
//! advertise a prefix of their ISP. They take no packet out whose source is in another prefix (RFC 2827), so a host has to choose
//! the right router for each source. The ISPs are connected to each other. A dead ISP drops all packets and says nothing; its
//! routers go on advertising.

mod isp;
mod plan;
mod router;
mod transfer;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::{Header, Mac, PacketBuf, ethernet};
use moorline_stack::address;
use moorline_stack::stack::{WireConfig, WireId};
use moorline_types::Instant;

pub use isp::Isp;
pub use plan::{IspPlan, Layout, Plan};
pub use router::Router;
pub use transfer::{Pause, Seen, Transfer, fill};

use crate::config::Config;
use crate::host::Host;

/// Looks at all frames of the links of a host.
pub type Tap = Box<dyn FnMut(Instant, &[u8])>;

/// Two hosts and the network between them.
pub struct World {
    now: Instant,
    hosts: Vec<Host>,
    routers: Vec<Router>,
    isps: Vec<Isp>,
    /// What is under way, in order of arrival. The number keeps the order of things that arrive at once.
    under_way: BTreeMap<(Instant, u64), Arrival>,
    number: u64,
    tap: Option<(usize, Tap)>,
}

/// Something that arrives.
enum Arrival {
    /// A frame at a host.
    Host(Place, PacketBuf),
    /// A frame at a router.
    Router(usize, PacketBuf),
    /// A packet at the router that leads to its destination.
    Packet(usize, PacketBuf),
    /// The time of the periodic advertisement of a router.
    Advertisement(usize),
}

/// A wire of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    host: usize,
    wire: WireId,
}

impl World {
    /// Makes the network and two hosts with these settings, whose links are up. All that is random comes from the seed.
    #[must_use]
    pub fn new(plan: &Plan, config: &Config, seed: u64) -> Self {
        Self::with_configs(plan, [config; HOSTS], seed)
    }

    /// As [`Self::new`], with settings for each host.
    #[must_use]
    pub fn with_configs(plan: &Plan, configs: [&Config; HOSTS], seed: u64) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let isps = plan.isps.iter().map(|isp| Isp::new(*isp)).collect();
        let mut world = Self {
            now,
            hosts: Vec::new(),
            routers: Vec::new(),
            isps,
            under_way: BTreeMap::new(),
            number: 0,
            tap: None,
        };
        for (number, config) in configs.into_iter().enumerate() {
            let mut host = Host::new(config.clone(), octets(seed, number), now);
            add_wires(&mut host, number, plan, now);
            world.hosts.push(host);
            world.add_routers(number, plan);
        }
        world
    }

    fn add_routers(&mut self, host: usize, plan: &Plan) {
        for isp in 0..plan.isps.len() {
            let place = Place { host, wire: plan.wire_of(isp) };
            let mut router = Router::new(isp, place, plan.claims);
            router.neighbor_times = plan.neighbor_times;
            self.routers.push(router);
            self.schedule(FIRST_ADVERTISEMENT, Arrival::Advertisement(self.routers.len() - 1));
        }
    }

    /// Ends a host without a word, and begins it anew with its addresses and nothing else. The seed is another one than before.
    ///
    /// # Panics
    /// There are two hosts: 0 and 1.
    pub fn restart(&mut self, number: usize, plan: &Plan, config: &Config, seed: u64) {
        let host = &mut self.hosts[number];
        *host = host.next_run(config.clone(), octets(seed, number), self.now);
        add_wires(host, number, plan, self.now);
        self.settle();
    }

    /// The present time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// A host.
    ///
    /// # Panics
    /// There are two hosts: 0 and 1.
    #[must_use]
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number]
    }

    /// A host, to call. The caller calls [`Self::settle`] afterwards.
    ///
    /// # Panics
    /// There are two hosts: 0 and 1.
    pub fn host_mut(&mut self, number: usize) -> &mut Host {
        &mut self.hosts[number]
    }

    /// An ISP.
    ///
    /// # Panics
    /// The plan has no such ISP. The first one is 0.
    #[must_use]
    pub fn isp(&self, number: usize) -> &Isp {
        &self.isps[number]
    }

    /// Lets an ISP die, or live again. It tells nobody.
    ///
    /// # Panics
    /// The plan has no such ISP. The first one is 0.
    pub fn set_alive(&mut self, isp: usize, is_alive: bool) {
        self.isps[isp].is_alive = is_alive;
    }

    /// Lets the router of an ISP on the link of a host die, or live again. The link stays up.
    pub fn set_router_alive(&mut self, isp: usize, host: usize, is_alive: bool) {
        let is_it = |router: &&mut Router| router.isp == isp && router.place.host == host;
        self.routers.iter_mut().filter(is_it).for_each(|router| router.is_alive = is_alive);
    }

    /// Has the router of an ISP on the link of a host advertise an MTU of the link, now and in all later advertisements.
    pub fn set_link_mtu(&mut self, isp: usize, host: usize, mtu: u32) {
        let is_it = |router: &&mut Router| router.isp == isp && router.place.host == host;
        for router in self.routers.iter_mut().filter(is_it) {
            router.link_mtu = Some(mtu);
            router.advertise();
        }
        self.settle();
    }

    /// Has another node claim the next addresses that a host probes in a prefix of an ISP.
    pub fn claim(&mut self, isp: usize, host: usize, count: u32) {
        let is_it = |router: &&mut Router| router.isp == isp && router.place.host == host;
        self.routers.iter_mut().filter(is_it).for_each(|router| router.claims = count);
    }

    /// Looks at all frames of the links of a host from now on.
    pub fn set_tap(&mut self, host: usize, tap: Tap) {
        self.tap = Some((host, tap));
    }

    /// Sends the frames of the hosts on their way.
    pub fn settle(&mut self) {
        for host in 0..self.hosts.len() {
            while let Some((wire, frame)) = self.hosts[host].poll_frame() {
                self.send_on_link(Place { host, wire }, None, frame);
            }
        }
    }

    /// Lets the next thing happen, if it is due by then. Returns false if nothing is, and it is `until` then.
    pub fn step(&mut self, until: Instant) -> bool {
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
        let timers = self.hosts.iter().map(Host::poll_timeout);
        let due = timers.chain([arrival]).flatten().min();
        let Some(due) = due.filter(|due| *due <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(due);
        if arrival.is_some_and(|at| at <= self.now) {
            if let Some((_, arrival)) = self.under_way.pop_first() {
                self.on_arrival(arrival);
            }
        } else {
            let now = self.now;
            let is_due = |host: &&mut Host| host.poll_timeout().is_some_and(|at| at <= now);
            self.hosts.iter_mut().filter(is_due).for_each(|host| host.handle_timeout(now));
        }
        self.settle();
        true
    }

    fn on_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Host(place, frame) => {
                self.hosts[place.host].handle_frame(place.wire, frame, self.now);
            }
            Arrival::Router(router, frame) => {
                self.routers[router].handle_frame(&frame);
                self.settle_router(router);
            }
            Arrival::Packet(router, packet) => {
                self.routers[router].deliver(packet);
                self.settle_router(router);
            }
            Arrival::Advertisement(router) => {
                self.routers[router].advertise();
                self.settle_router(router);
                self.schedule(BETWEEN_ADVERTISEMENTS, Arrival::Advertisement(router));
            }
        }
    }

    fn settle_router(&mut self, router: usize) {
        while let Some(frame) = self.routers[router].poll_frame() {
            self.send_on_link(self.routers[router].place, Some(router), frame);
        }
        while let Some(packet) = self.routers[router].poll_packet() {
            self.send_by_isps(router, packet);
        }
    }

    /// Sends a frame to all stations of a link but its sender.
    fn send_on_link(&mut self, link: Place, sender: Option<usize>, frame: PacketBuf) {
        if let Some((_, tap)) = self.tap.as_mut().filter(|(host, _)| *host == link.host) {
            tap(self.now, &frame);
        }
        let destination = frame.first_chunk().map(|mac| Mac(*mac));
        let Some(destination) = destination else { return };
        for number in 0..self.routers.len() {
            let router = &self.routers[number];
            let is_for = destination.is_group() || destination == router.mac;
            if router.place == link && Some(number) != sender && is_for {
                self.schedule(LINK_DELAY, Arrival::Router(number, frame.clone()));
            }
        }
        if sender.is_some() {
            self.schedule(LINK_DELAY, Arrival::Host(link, frame));
        }
    }

    /// Sends a packet from a router to the router of its destination.
    fn send_by_isps(&mut self, from: usize, packet: PacketBuf) {
        let Ok(header) = Header::parse(&packet) else { return };
        let is_to = |router: &Router| router.prefix.contains(header.destination);
        let Some(to) = self.routers.iter().position(is_to) else { return };
        let mut at = self.now;
        let mut way = Vec::from([self.routers[from].isp]);
        way.extend(Some(self.routers[to].isp).filter(|isp| *isp != way[0]));
        for isp in way {
            if packet.len() > self.isps[isp].plan.mtu as usize {
                let mtu = self.isps[isp].plan.mtu;
                self.routers[from].report_too_big(&packet, mtu);
                return self.settle_router(from);
            }
            let side = self.routers[from].place.host;
            let Some(arrives) = self.isps[isp].carry(side, packet.len(), at) else { return };
            at = arrives;
        }
        self.schedule(at.since(self.now), Arrival::Packet(to, packet));
    }

    fn schedule(&mut self, after: Duration, arrival: Arrival) {
        self.under_way.insert((self.now + after, self.number), arrival);
        self.number += 1;
    }

    /// Packets that routers did not take out because their sources are of another ISP.
    #[must_use]
    pub fn filtered(&self) -> u64 {
        self.routers.iter().map(|router| router.filtered).sum()
    }

    /// Addresses of a host that packets may have, without link-local ones.
    #[must_use]
    pub fn addresses(&self, host: usize) -> Vec<Ipv6Addr> {
        let wires: Vec<_> = self.hosts[host].stack().wires().collect();
        let all = wires.iter().flat_map(|wire| wire.addresses().collect::<Vec<_>>());
        let ready = all.filter(|own| own.state == address::State::Preferred);
        let global = ready.map(|own| own.address).filter(|own| !own.is_unicast_link_local());
        global.collect()
    }

    /// The ISP in whose prefixes an address is.
    #[must_use]
    pub fn isp_of(&self, address: Ipv6Addr) -> Option<usize> {
        self.routers.iter().find(|router| router.prefix.contains(address)).map(|router| router.isp)
    }
}

/// Adds the wires of a host.
fn add_wires(host: &mut Host, number: usize, plan: &Plan, now: Instant) {
    for isp in 0..plan.isps.len() {
        let wire = plan.wire_of(isp);
        if !host.stack().wires().any(|known| known.id() == wire) {
            let mac = Mac([2, 0, 0, 0, octet(number) + 1, octet(isp)]);
            let addressing =
                address::Config { optimistic: plan.is_optimistic, ..address::Config::new(mac) };
            host.add_wire(WireConfig { mtu: LINK_MTU, addressing, ip4: None }, now);
        }
    }
}

/// The seed of a host.
fn octets(seed: u64, host: usize) -> [u8; 32] {
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&seed.to_le_bytes());
    octets[8] = octet(host) + 1;
    octets
}

/// A number of a host or ISP: there are few.
fn octet(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

const HOSTS: usize = 2;
/// MTU of the links.
const LINK_MTU: u32 = 1500;
/// Time of a frame on a link.
const LINK_DELAY: Duration = Duration::from_micros(20);
/// Time of the first advertisement of a router.
const FIRST_ADVERTISEMENT: Duration = Duration::from_millis(300);
/// Time between the advertisements of a router.
const BETWEEN_ADVERTISEMENTS: Duration = Duration::from_secs(30);

const _: () = assert!(ethernet::LEN == 14);
