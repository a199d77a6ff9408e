//! Hosts that are a host stack in a process: their packets, and their sockets.

use std::rc::Rc;
use std::time::Duration;

use moorline_contexts::ContextView;
use moorline_types::{Locator, LocatorPair, UlidPair};
use moorline_wire::PROTOCOL;

use super::{Occurrence, Parcel, World};
use crate::log::instant;
use crate::node::Output;
use crate::outcome::Rule;
use crate::packet::{self, TCP, UDP};
use crate::plan::{Kind, Port, Workload, host_name};
use crate::workload::{Application, End, Running, Side, Tcp, Udp, port_of};

impl World<'_> {
    pub(super) fn is_stack(&self, host: usize) -> bool {
        self.nodes.get(host).is_some_and(|node| node.stack.is_some())
    }

    /// Handles a packet from the network at a host stack.
    pub(super) fn on_stack_arrival(&mut self, port: Port, octets: &[u8]) {
        let now = self.now;
        let control = control_message(octets);
        if let Some((locators, message)) = control {
            self.rules.on_control_received(port.host, message, locators.reversed(), now);
        }
        let Some(stack) = self.nodes.get_mut(port.host).and_then(|node| node.stack.as_mut()) else {
            return;
        };
        let before = stack.with_contexts(|contexts| contexts.contexts().count());
        stack.handle_packet(port.uplink, octets, now);
        let count = stack.with_contexts(|contexts| contexts.contexts().count());
        let has_ilnp = self.plan.hosts[port.host].ilnp;
        let rules = &self.rules;
        let of_lost = |context: &ContextView| rules.is_of_lost_session(port.host, context);
        let counted = stack.with_contexts(|contexts| {
            contexts.contexts().filter(|context| !(has_ilnp && of_lost(context))).count()
        });
        if let Some((locators, message)) = control.filter(|_| count > before) {
            self.rules.on_new_context(port.host, message, locators.reversed(), now);
        }
        self.check_number_of_contexts(port.host, counted);
        self.settle_stack(port.host);
    }

    /// Checks the number of contexts of a host. A stream that has begun anew may have another pair of addresses.
    pub(super) fn check_number_of_contexts(&mut self, host: usize, count: usize) {
        let most = self.plan.workloads.len() + self.begun_anew;
        self.check(count <= most, Rule::Bounded, || {
            format!("{}: {count} contexts", host_name(host))
        });
    }

    /// Lets the connections of a host stack use their sockets, and does what the host wants, until it wants nothing.
    pub(super) fn settle_stack(&mut self, host: usize) {
        if !self.is_stack(host) || self.nodes[host].is_suspended {
            return;
        }
        self.advance_all(host);
        while self.take_outputs(host) {
            self.advance_all(host);
        }
        let Some(stack) = self.nodes.get_mut(host).and_then(|node| node.stack.as_mut()) else {
            return;
        };
        let at = stack.poll_timeout().max(self.now);
        if stack.wake.is_none_or(|wake| at < wake || wake <= self.now) {
            stack.wake = Some(at);
            self.queue.push(at, Occurrence::Wake(host));
        }
        let fault = stack.fault(self.now);
        self.check(fault.is_none(), Rule::PlanesInStep, || {
            format!("{}: {}", host_name(host), fault.unwrap_or_default())
        });
    }

    /// Settles the host stacks at the ends of a workload.
    pub(super) fn settle_stacks_of(&mut self, number: usize) {
        let Some(plan) = self.plan.workloads.get(number) else { return };
        for port in [plan.from, plan.to] {
            self.settle_stack(port.host);
        }
    }

    /// Takes what a host stack does. Returns whether it did anything.
    fn take_outputs(&mut self, host: usize) -> bool {
        let (mut is_any, now) = (false, self.now);
        while let Some(output) = self.nodes.get_mut(host).and_then(|node| {
            let stack = node.stack.as_mut()?;
            stack.poll_output(now)
        }) {
            is_any = true;
            match output {
                Output::Packet(octets) => self.send_of_stack(host, octets),
                Output::Address(uplink, address) => {
                    self.network.add_address(Port { host, uplink }, address);
                    self.rules.on_address(host, address);
                    self.rules.on_local_change(host);
                    let proof = self.nodes[host].proof();
                    self.rules.on_proof(host, &proof);
                }
                Output::Guest(uplink, address) => {
                    self.rules.on_address(host, Locator(address));
                    self.network.add_guest(Port { host, uplink }, address);
                }
                Output::GuestGone(address) => self.network.remove_guest(address),
                Output::Session(event) => self.on_session_event(host, &event),
                Output::Update(update) => self.rules.on_update(host, &update, now),
                Output::Context(event) => {
                    self.has_settled = true;
                    self.on_event(host, event);
                }
            }
        }
        is_any
    }

    fn send_of_stack(&mut self, host: usize, octets: Vec<u8>) {
        if let Some((locators, message)) = control_message(&octets) {
            self.rules.on_control_sent(host, message, locators, self.now);
        }
        let original = self.is_as_sent(host, &octets).then(|| Rc::new(octets.clone()));
        self.transmit(host, Parcel { octets, original });
    }

    /// Whether a packet of a host stack is as its socket has sent it: it has no payload header, and no addresses of an ILNP session. Of a
    /// fragment nobody knows.
    fn is_as_sent(&self, host: usize, octets: &[u8]) -> bool {
        let Some((_, next_header)) = packet::header(octets) else { return false };
        let is_plain = matches!(next_header, TCP | UDP) && packet::is_checksum_right(octets);
        next_header != PROTOCOL && (is_plain || !self.plan.hosts[host].ilnp)
    }

    /// Lets the connections of a host stack use their sockets.
    fn advance_all(&mut self, host: usize) {
        let numbers: Vec<_> = self.workloads.keys().copied().collect();
        for number in numbers {
            for side in Side::BOTH {
                let now = self.now;
                let Some(workload) = self.workloads.get_mut(&number) else { continue };
                if workload.host(side) != host || workload.is_over {
                    continue;
                }
                let new = workload.application.advance(side, now);
                self.check(new.is_some(), Rule::StreamIntact, || format!("workload {number}"));
                if let Some(new @ 1..) = new {
                    self.note_packet(number, side);
                    self.on_delivery(number, side, new);
                }
                self.drain_workload(number);
            }
        }
    }

    /// Opens the sockets of a workload once the hosts have their addresses.
    pub(super) fn on_start_of_sockets(&mut self, number: usize, plan: Workload) {
        let newest = |port: Port| self.nodes.get(port.host)?.newest(port.uplink);
        let (Some(from), Some(to)) = (newest(plan.from), newest(plan.to)) else {
            return self.start_later(number, Occurrence::Start(number));
        };
        let ends =
            [(plan.from, from), (plan.to, to)].map(|(port, address)| self.end_at(port, address));
        let (port, until) = (port_of(number), plan.until.map(instant));
        let opened: Option<(Box<dyn Application>, UlidPair)> = match plan.kind {
            Kind::Stream { bytes, pace } => {
                let opened = Tcp::open(port, ends, to, (bytes, pace), until, self.now);
                opened.map(|(tcp, ulids)| (Box::new(tcp) as _, ulids))
            }
            Kind::Requests { pace } | Kind::Datagrams { pace, .. } => {
                let ulids = UlidPair::new(from.as_ulid(), to.as_ulid());
                let udp = Udp::open(port, ends, ulids, (plan.kind, pace), until, self.now);
                udp.map(|udp| (Box::new(udp) as _, ulids))
            }
        };
        let Some((application, ulids)) = opened else {
            return self.start_later(number, Occurrence::Start(number));
        };
        self.starts_left -= 1;
        let mut running = Running::with(plan, ulids, application);
        running.has_tcp = matches!(plan.kind, Kind::Stream { .. });
        self.begin(number, running);
        if self.restarts.remove(&number).is_some() {
            self.renew_episodes();
        }
    }

    /// The sockets of a host for an end of a workload. Those of a kernel have this address.
    fn end_at(&mut self, port: Port, address: Locator) -> End {
        match self.nodes.get(port.host).and_then(|node| node.stack.as_ref()) {
            Some(stack) => stack.end(),
            None => End::kernel(address, self.rng.seed(), self.now),
        }
    }

    /// Looks again soon whether a host has its addresses, unless it has had time enough.
    fn start_later(&mut self, number: usize, occurrence: Occurrence) {
        let begun = self.restarts.get(&number).copied();
        let begun = begun.or_else(|| Some(instant(self.plan.workloads.get(number)?.start)));
        if begun.is_some_and(|begun| self.now < begun + LONGEST_START) {
            self.queue.push(self.now + START_LOOK, occurrence);
        } else {
            self.starts_left -= 1;
        }
    }

    /// Restarts a host stack: nothing is left but its saved addresses, and its peers know nothing of that. Sockets open again once the
    /// host has its addresses. A stream begins anew then.
    pub(super) fn reboot_stack(&mut self, host: usize) {
        let (seed, now) = (self.rng.seed(), self.now);
        if let Some(stack) = self.nodes.get_mut(host).and_then(|node| node.stack.as_mut()) {
            stack.reboot(seed, now);
        }
        self.rules.on_reboot(host);
        self.network.remove_guests_of(host);
        let ends = self.workloads.iter().filter(|(_, workload)| !workload.is_over);
        let ends = ends.flat_map(|(&number, workload)| {
            let is_here = move |side: &Side| workload.host(*side) == host;
            Side::BOTH.into_iter().filter(is_here).map(move |side| (number, side))
        });
        for (number, side) in ends.collect::<Vec<_>>() {
            let Some(workload) = self.workloads.get_mut(&number) else { continue };
            self.starts_left += 1;
            self.restarts.insert(number, now);
            let occurrence = if workload.application.handle_reboot(side, now) {
                Occurrence::Reopen(number, side)
            } else {
                self.begun_anew += 1;
                self.forget_watches(number);
                self.workloads.remove(&number);
                Occurrence::Start(number)
            };
            self.queue.push(now + START_LOOK, occurrence);
        }
    }

    /// Opens the socket of a host that has restarted.
    pub(super) fn on_reopen(&mut self, number: usize, side: Side) {
        let Some(workload) = self.workloads.get(&number) else { return };
        let port = if side == Side::From { workload.plan.from } else { workload.plan.to };
        let end = self.end_at(port, workload.ulids_of(side).local.as_locator());
        let now = self.now;
        let Some(workload) = self.workloads.get_mut(&number) else { return };
        if !workload.application.reopen(side, end, now) {
            return self.start_later(number, Occurrence::Reopen(number, side));
        }
        self.starts_left -= 1;
        self.renew_episodes();
        self.drain_workload(number);
        self.settle_stacks_of(number);
    }

    /// Looks anew at what is promised: a host has its sockets again.
    fn renew_episodes(&mut self) {
        self.end_episodes();
        self.begin_episodes();
    }

    pub(super) fn check_drops_of_stacks(&mut self) {
        for (host, node) in self.nodes.iter().enumerate() {
            if let Some(stack) = &node.stack {
                let may_mislead = self.network.may_have_misled(host);
                self.rules.on_drops(host, stack.drops().into_iter(), may_mislead, self.now);
            }
        }
    }
}

/// The addresses of a packet and its control message of Shim6, if it has one.
fn control_message(octets: &[u8]) -> Option<(LocatorPair, &[u8])> {
    let (locators, _) = packet::header(octets).filter(|(_, next)| *next == PROTOCOL)?;
    (!packet::has_payload_header(octets)).then(|| (locators, packet::payload(octets)))
}

/// Time between two looks whether a host has its addresses.
const START_LOOK: Duration = Duration::from_millis(500);
/// Time after which the sockets of a workload are not opened any more.
const LONGEST_START: Duration = Duration::from_secs(60);
