use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use moorline_host::Event;
use moorline_plane::{Inbound, Outbound};
use moorline_types::{Instant, Locator, LocatorPair, UlidPair};
use moorline_wire::PROTOCOL;

use crate::network::Network;
use crate::node::Node;
use crate::oracle::Oracle;
use crate::packet;
use crate::plan::{End, Plan, Workload};
use crate::random::Random;
use crate::workload::{Seat, Seen, Socket};

mod attack;

/// A run under way.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Instant,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    pub(crate) oracle: Oracle,
    /// What the hosts told: when, which host, what.
    pub(crate) events: Vec<(Instant, usize, Event)>,
    /// What applications got: when, which workload, how much.
    pub(crate) arrivals: Vec<(Instant, usize, u64)>,
    pub(crate) packets: u64,
    pub(crate) fingerprint: u64,
    random: Random,
    queue: BTreeMap<(Instant, u64), Happening>,
    sequence: u64,
    attacker: attack::Attacker,
}

/// What waits in the queue.
#[derive(Debug)]
enum Happening {
    Arrival(Flight),
    /// Number of the fault, and whether it begins.
    Fault(usize, bool),
    Attack,
}

/// A packet under way.
#[derive(Debug)]
struct Flight {
    octets: Vec<u8>,
    to: End,
    /// What the socket gave to the data plane; `None`: no socket did.
    origin: Option<Rc<[u8]>>,
}

impl World {
    pub(crate) fn new(plan: Plan, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut network = Network::new(plan.link);
        let mut nodes = Vec::new();
        for index in 0..plan.hosts {
            let has_moorline = !plan.plain_hosts.contains(&index);
            let (isps, send_timeout) = (plan.isps, plan.send_timeout);
            let node = Node::new(index, isps, send_timeout, has_moorline, &mut random, BEGIN);
            for (isp, &address) in node.addresses.iter().enumerate() {
                network.attach(address, End { host: index, isp });
            }
            nodes.push(node);
        }
        let mut world = Self {
            plan,
            now: BEGIN,
            network,
            nodes,
            oracle: Oracle::default(),
            events: Vec::new(),
            arrivals: Vec::new(),
            packets: 0,
            fingerprint: 0xcbf2_9ce4_8422_2325,
            random,
            queue: BTreeMap::new(),
            sequence: 0,
            attacker: attack::Attacker::default(),
        };
        world.prepare();
        world
    }

    fn prepare(&mut self) {
        for index in 0..self.nodes.len() {
            self.refresh_usable(index);
        }
        for (index, workload) in self.plan.workloads.clone().iter().enumerate() {
            self.open_sockets(index, workload);
        }
        for (index, fault) in self.plan.faults.clone().iter().enumerate() {
            self.schedule(BEGIN + fault.at, Happening::Fault(index, true));
            if let Some(until) = fault.until {
                self.schedule(BEGIN + until, Happening::Fault(index, false));
            }
        }
        if !self.plan.attack_interval.is_zero() {
            self.schedule(BEGIN + self.plan.attack_interval, Happening::Attack);
        }
    }

    fn open_sockets(&mut self, index: usize, workload: &Workload) {
        let ulids = self.ulids(workload);
        let port = FIRST_PORT + u16::try_from(index).unwrap_or(0);
        let (start, max_rto) = (BEGIN + workload.start, self.plan.max_rto);
        let seat = |ulids| Seat { ulids, port, start, max_rto };
        let reverse = UlidPair::new(ulids.peer, ulids.local);
        let client = Socket::client(workload.traffic, seat(ulids));
        let server = Socket::server(workload.traffic, seat(reverse));
        self.nodes[workload.from.host].sockets.insert(port, client);
        self.nodes[workload.to.host].sockets.insert(port, server);
    }

    /// The ULIDs of a workload, as its client has them.
    pub(crate) fn ulids(&self, workload: &Workload) -> UlidPair {
        let address = |end: End| self.nodes[end.host].addresses[end.isp].as_ulid();
        UlidPair::new(address(workload.from), address(workload.to))
    }

    /// Lets everything happen that is to happen until then.
    pub(crate) fn run_until(&mut self, end: Instant) {
        let mut spins = 0;
        loop {
            let queued = self.queue.first_key_value().map(|(&(at, _), _)| at);
            let woken = self.next_wake();
            let next = match (queued, woken) {
                (Some(at), Some((wake, _))) => at.min(wake),
                (Some(at), None) | (None, Some((at, _))) => at,
                (None, None) => break,
            };
            if next > end {
                break;
            }
            spins = if next > self.now { 0 } else { spins + 1 };
            if spins > MOST_EVENTS_AT_ONCE {
                self.oracle.violation(self.now, "time stands still".into());
                break;
            }
            self.now = self.now.max(next);
            match woken.filter(|&(wake, _)| wake <= next) {
                Some((_, index)) => self.wake(index),
                None => self.happen(),
            }
        }
        self.now = end;
    }

    fn next_wake(&self) -> Option<(Instant, usize)> {
        let wakes = self.nodes.iter().enumerate();
        wakes.filter_map(|(index, node)| Some((node.poll_timeout()?, index))).min()
    }

    fn wake(&mut self, index: usize) {
        let now = self.now;
        let node = &mut self.nodes[index];
        if node.has_moorline {
            node.plane.handle_timeout(now);
        }
        if node.has_daemon {
            node.host.handle_timeout(now);
        }
        let mut out = Vec::new();
        for socket in node.sockets.values_mut() {
            if socket.poll_timeout().is_some_and(|at| at <= now) {
                socket.handle_timeout(&mut out, now);
            }
        }
        for packet in out {
            self.send_payload(index, packet);
        }
        self.settle(index);
    }

    fn happen(&mut self) {
        let Some((_, happening)) = self.queue.pop_first() else { return };
        match happening {
            Happening::Arrival(flight) => self.on_arrival(flight),
            Happening::Fault(index, begins) => self.on_fault(index, begins),
            Happening::Attack => self.on_attack(),
        }
    }

    fn on_fault(&mut self, index: usize, begins: bool) {
        let failure = self.plan.faults[index].failure;
        if begins {
            self.network.begin(failure);
        } else {
            self.network.cease(failure);
        }
        for index in 0..self.nodes.len() {
            self.refresh_daemon(index);
            self.refresh_usable(index);
        }
    }

    /// Kills a daemon, or starts one.
    fn refresh_daemon(&mut self, index: usize) {
        let is_alive = !self.network.is_daemon_dead(index);
        let node = &mut self.nodes[index];
        if !node.has_moorline || node.has_daemon == is_alive {
            return;
        }
        node.has_daemon = false;
        let network = &self.network;
        let is_usable = |isp| !network.is_down(End { host: index, isp });
        if is_alive && !node.restart(is_usable, &mut self.random, self.now) {
            self.oracle.violation(self.now, format!("host {index}: context not restored"));
        }
    }

    /// Tells a host which of its uplinks it can see to be down.
    fn refresh_usable(&mut self, index: usize) {
        if self.nodes[index].has_moorline && !self.nodes[index].has_daemon {
            return;
        }
        let network = &self.network;
        let is_usable = |isp| !network.is_down(End { host: index, isp });
        self.nodes[index].set_usable(is_usable, self.now);
        self.settle(index);
    }

    fn on_arrival(&mut self, flight: Flight) {
        if self.network.arrives(flight.to) {
            self.receive(flight);
        }
    }

    /// A packet has come through the network to its host.
    fn receive(&mut self, flight: Flight) {
        let Flight { mut octets, to, origin } = flight;
        let index = to.host;
        let node = &mut self.nodes[index];
        let is_shim6 = octets.get(6) == Some(&PROTOCOL);
        if !node.has_moorline {
            if is_shim6 {
                self.refuse(to, &octets);
            } else {
                self.deliver(index, &octets, origin.as_deref());
            }
            return;
        }
        match node.plane.handle_inbound(&mut octets, self.now) {
            Inbound::Up => self.on_control(index, &octets),
            Inbound::Pass | Inbound::Deliver if octets.get(6) == Some(&packet::ICMPV6) => {
                self.on_icmpv6(index, &octets);
            }
            Inbound::Pass | Inbound::Deliver => self.deliver(index, &octets, origin.as_deref()),
            Inbound::Drop(_) => {}
        }
        self.settle(index);
    }

    fn on_control(&mut self, index: usize, octets: &[u8]) {
        let Some((source, destination)) = packet::addresses(octets) else { return };
        let locators = LocatorPair::new(Locator(destination), Locator(source));
        let control = &octets[packet::IP6_LEN..];
        if !self.nodes[index].has_daemon {
            return;
        }
        self.oracle.on_control_received(index, control, (source, destination));
        self.nodes[index].host.handle_control(control, locators, self.now);
    }

    /// "Unrecognized next header", quoting a packet of this host.
    fn on_icmpv6(&mut self, index: usize, octets: &[u8]) {
        if !self.nodes[index].has_daemon {
            return;
        }
        let quoted = octets.get(packet::IP6_LEN + 8..).unwrap_or(&[]);
        let Some((source, destination)) = packet::addresses(quoted) else { return };
        let locators = LocatorPair::new(Locator(source), Locator(destination));
        let control = &quoted[packet::IP6_LEN..];
        self.nodes[index].host.handle_unrecognized(control, locators, self.now);
    }

    /// What a host without Shim6 answers (RFC 4443 s3.4).
    fn refuse(&mut self, end: End, octets: &[u8]) {
        let Some((source, destination)) = packet::addresses(octets) else { return };
        let mut error = vec![4, 1, 0, 0, 0, 0, 0, 6];
        error.extend(octets);
        self.transmit(end.host, packet::ip6(packet::ICMPV6, destination, source, &error), None);
    }

    /// A packet reaches the sockets.
    fn deliver(&mut self, index: usize, octets: &[u8], origin: Option<&[u8]>) {
        if origin != Some(octets) {
            self.oracle.violation(self.now, format!("host {index}: not as it was sent"));
            return;
        }
        if !packet::has_right_checksum(octets) {
            self.oracle.violation(self.now, format!("host {index}: transport checksum"));
        }
        let Some(port) = packet::port(octets) else { return };
        let Some(socket) = self.nodes[index].sockets.get_mut(&port) else {
            self.oracle.violation(self.now, format!("host {index}: nobody on port {port}"));
            return;
        };
        let mut out = Vec::new();
        match socket.handle_packet(octets, &mut out, self.now) {
            Seen::Nothing => {}
            Seen::Octets(count) => {
                self.arrivals.push((self.now, usize::from(port - FIRST_PORT), count));
            }
            Seen::Wrong => self.oracle.violation(self.now, format!("host {index}: wrong octets")),
        }
        for packet in out {
            self.send_payload(index, packet);
        }
    }

    /// A packet of a socket, through the data plane.
    fn send_payload(&mut self, index: usize, mut octets: Vec<u8>) {
        let origin: Rc<[u8]> = octets.as_slice().into();
        if self.nodes[index].has_moorline {
            match self.nodes[index].plane.handle_outbound(&mut octets, self.now) {
                Outbound::Pass if *origin != *octets => {
                    self.oracle.violation(self.now, format!("host {index}: passed, but changed"));
                }
                Outbound::Pass => {}
                Outbound::Send { .. } => {
                    let ways = (packet::addresses(&octets), packet::addresses(&origin));
                    if let (Some(way), Some(ulids)) = ways {
                        self.oracle.on_moved_payload(index, way, ulids, self.now);
                    }
                }
                Outbound::Drop(_) => return,
            }
        }
        self.transmit(index, octets, Some(origin));
    }

    /// Carries reports to the core, and what it decides to where it belongs, until all is quiet.
    fn settle(&mut self, index: usize) {
        if !self.nodes[index].has_daemon {
            return;
        }
        let now = self.now;
        loop {
            let node = &mut self.nodes[index];
            let mut is_quiet = true;
            while let Some(report) = node.plane.poll_report() {
                node.host.handle_report(report, now);
                is_quiet = false;
            }
            while let Some(update) = node.host.poll_datapath() {
                node.plane.handle_update(&update, now);
                is_quiet = false;
            }
            while let Some(event) = node.host.poll_event() {
                self.events.push((now, index, event));
            }
            let transmits: Vec<_> = std::iter::from_fn(|| node.host.poll_transmit()).collect();
            for transmit in transmits {
                let LocatorPair { local, peer } = transmit.locators;
                self.oracle.on_control_sent(index, &transmit.octets, (local.0, peer.0));
                self.attacker.overhear(transmit.locators, &transmit.octets);
                let octets = packet::ip6(PROTOCOL, local.0, peer.0, &transmit.octets);
                self.transmit(index, octets, None);
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Out of the uplink that the source address belongs to.
    fn transmit(&mut self, index: usize, octets: Vec<u8>, origin: Option<Rc<[u8]>>) {
        let Some((source, destination)) = packet::addresses(&octets) else { return };
        self.note(&octets);
        let Some(from) = self.network.end_of(source).filter(|end| end.host == index) else {
            self.oracle.violation(self.now, format!("host {index}: sends from {source}"));
            return;
        };
        let Some(to) = self.network.end_of(destination) else { return };
        let arrivals = self.network.send(from, to, octets.len(), &mut self.random, self.now);
        for at in arrivals {
            let flight = Flight { octets: octets.clone(), to, origin: origin.clone() };
            self.schedule(at, Happening::Arrival(flight));
        }
    }

    fn schedule(&mut self, at: Instant, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    /// FNV-1a over times and octets.
    fn note(&mut self, octets: &[u8]) {
        self.packets += 1;
        let words = octets
            .chunks(8)
            .map(|chunk| chunk.iter().fold(0u64, |word, &octet| word << 8 | u64::from(octet)));
        for word in std::iter::once(self.now.as_nanos()).chain(words) {
            self.fingerprint = (self.fingerprint ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Time since the beginning of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now.since(BEGIN)
    }
}

/// When runs begin: zero means "not yet" to the hosts.
pub(crate) const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// Port of workload 0.
const FIRST_PORT: u16 = 40_000;
/// More things than this at one time mean that a timer never gets anywhere.
const MOST_EVENTS_AT_ONCE: u32 = 100_000;
