use crate::icmp::Error;
use crate::{Inbound, Outbound};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::convert::Infallible;

use moorline_datapath as datapath;
use moorline_datapath::shim6::{
    ContextCounters, ContextEntry, ContextPlane, PathCounters, PathMark, Report, Traffic, Triggers,
    Update,
};
use moorline_types::DropCounters;
use moorline_types::{
    ContextId, ContextTag, DropReason, Encapsulation, Instant, Locator, UlidPair,
};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL, PayloadHeader};

use crate::reports::Reports;
use crate::shim6::both_ways::{Passage, Standing};
use crate::shim6::budget::Budgets;
use crate::shim6::contexts::{Contexts, Seen};
use crate::shim6::flows::Flows;
use crate::shim6::icmp::{self, Quote};
use crate::shim6::packet::{
    control_tag, has_ce, inbound, insert, is_message_behind, is_neighbour_discovery, is_routed,
    outbound, ports, strip,
};
use crate::shim6::paths;
use crate::shim6::settings::{DEFAULT_MTU, Settings};
use crate::shim6::tcp::Payload;
use moorline_wire::ip6::{ICMPV6, Ip6};

/// User-space data plane of Shim6 for one host.
#[derive(Debug)]
pub struct Plane {
    triggers: Triggers,
    path_mark: PathMark,
    /// Our addresses, with the MTU of the uplink of each.
    locals: BTreeMap<Locator, usize>,
    contexts: Contexts,
    flows: Flows,
    reports: Reports,
    budgets: Budgets,
}

/// Properties of the sender of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender<'a> {
    /// Cgroups of the socket.
    pub cgroups: &'a [u64],
    /// The packet mark (`SO_MARK`), which contains the path index.
    pub mark: u32,
}

impl Plane {
    /// Creates a plane without addresses and contexts.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            triggers: settings.trigger.into(),
            path_mark: settings.path_mark,
            locals: BTreeMap::new(),
            contexts: Contexts::default(),
            flows: Flows::new(settings.max_flows),
            reports: Reports::default(),
            budgets: Budgets::default(),
        }
    }

    /// Adds an address of this host, on an uplink with [`DEFAULT_MTU`].
    pub fn set_local(&mut self, address: Locator) {
        self.set_local_with_mtu(address, DEFAULT_MTU);
    }

    /// Adds an address of this host. `mtu` is the largest IPv6 packet that its uplink takes, in octets.
    pub fn set_local_with_mtu(&mut self, address: Locator, mtu: usize) {
        self.locals.insert(address, mtu);
    }

    /// Removes an address that the host no longer has, or from which it cannot send.
    pub fn unset_local(&mut self, address: Locator) {
        self.locals.remove(&address);
    }

    /// Applies a decision of the core.
    pub fn handle_update(&mut self, update: &Update, now: Instant) {
        match update {
            Update::Upsert(entry) => {
                let old = self.contexts.get(entry.id).map(|slot| slot.entry.ulids);
                if old.is_some_and(|ulids| ulids != entry.ulids) {
                    self.remove(entry.id);
                }
                self.contexts.upsert(entry, &mut self.reports, now);
            }
            Update::Heard { context, at } => self.contexts.on_heard(*context, *at),
            Update::Remove { context } => self.remove(*context),
            Update::Rearm { ulids } => self.flows.forget(*ulids),
        }
    }

    /// Handles a packet that a socket sends, from its IPv6 header on.
    pub fn handle_outbound(&mut self, packet: &mut Vec<u8>, now: Instant) -> Outbound {
        self.handle_outbound_of(packet, Sender::default(), now)
    }

    /// Handles a packet that this sender sends, from its IPv6 header on.
    pub fn handle_outbound_of(
        &mut self,
        packet: &mut Vec<u8>,
        sender: Sender<'_>,
        now: Instant,
    ) -> Outbound {
        let fate = self.on_outbound(packet, sender, now);
        self.reports.fate(fate, Outbound::Drop)
    }

    /// Handles a packet from the network, from its IPv6 header on.
    pub fn handle_inbound(&mut self, packet: &mut Vec<u8>, now: Instant) -> Inbound {
        self.handle_inbound_of(packet, &[], now)
    }

    /// Handles a packet from the network for a socket in these cgroups, from its IPv6 header on.
    pub fn handle_inbound_of(
        &mut self,
        packet: &mut Vec<u8>,
        cgroups: &[u64],
        now: Instant,
    ) -> Inbound {
        let fate = self.on_inbound(packet, cgroups, now);
        self.reports.fate(fate, Inbound::Drop)
    }

    /// Looks at the timers that may be due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.contexts.look_at_due(&mut self.reports, now);
    }

    /// Returns the next report to the core; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; changes with each `handle_*`. Often nothing is
    /// due at that time, as packets do not move timers.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.contexts.next_deadline()
    }

    /// The contexts that the core has given to the plane.
    pub fn contexts(&self) -> impl Iterator<Item = &ContextEntry> + '_ {
        self.contexts.entries()
    }

    /// Counters of a context; `None` if the slot has no context.
    #[must_use]
    pub fn counters(&self, context: ContextId) -> Option<ContextCounters> {
        self.contexts.get(context).map(|slot| slot.live.counters)
    }

    /// Dropped packets by reason, and lost reports.
    #[must_use]
    pub fn drops(&self) -> &DropCounters {
        &self.reports.drops
    }

    //= rfc5533#11 rfc5533#11.1
    fn on_outbound(
        &mut self,
        packet: &mut Vec<u8>,
        sender: Sender<'_>,
        now: Instant,
    ) -> Result<Outbound, DropReason> {
        let Some(ip6) = Ip6::read(packet) else { return Ok(Outbound::Pass) };
        // A control message, or payload that has its payload header already.
        if ip6.next_header == PROTOCOL || !is_routed(&ip6) {
            return Ok(Outbound::Pass);
        }
        let ulids = outbound(&ip6);
        let octets = ip6.octets(packet);
        let Some(slot) = self.contexts.by_ulids(ulids) else {
            let upper = ip6.upper(packet);
            let (protocol, ports) = (upper.protocol, ports(upper));
            let traffic = Traffic { pair: ulids, protocol, ports, cgroups: sender.cgroups };
            let passage = Passage::sent(upper, packet, octets);
            self.count_flow(&traffic, (octets, passage), now);
            return Ok(Outbound::Pass);
        };
        if is_neighbour_discovery(&ip6, packet) {
            return Ok(Outbound::Pass);
        }
        let entry = &slot.entry;
        let id = entry.id;
        let payload = Payload::of(&ip6, packet);
        let seen = Seen { octets, payload, is_tagged: false, has_ce: false, at: now };
        let path = paths::choose(entry, &ip6, packet, sender.mark, self.path_mark);
        let verdict = match path.encapsulation {
            Encapsulation::None => Outbound::Pass,
            Encapsulation::PayloadHeader => {
                if ip6.is_behind_others() {
                    return Err(DropReason::HeaderChain);
                }
                let source = path.pair.local;
                let mtu = *self.locals.get(&source).ok_or(DropReason::NoUplink)?;
                if packet.len() + usize::from(path.overhead()) > mtu {
                    return Err(DropReason::AdjustRoom);
                }
                insert(&ip6, packet, entry.peer_tag, path).ok_or(DropReason::AdjustRoom)?;
                Outbound::Send { source: source.0 }
            }
        };
        self.contexts.on_sent(id, seen, &mut self.reports);
        Ok(verdict)
    }

    //= rfc5533#12.1
    fn on_inbound(
        &mut self,
        packet: &mut Vec<u8>,
        cgroups: &[u64],
        now: Instant,
    ) -> Result<Inbound, DropReason> {
        let Some(ip6) = Ip6::read(packet) else { return Ok(Inbound::Pass) };
        // An error may come from a router that has only a link-local address.
        if ip6.next_header == ICMPV6 && self.on_icmp6(&ip6, packet, now) {
            return Ok(Inbound::Deliver);
        }
        if !is_routed(&ip6) {
            return Ok(Inbound::Pass);
        }
        if ip6.next_header == PROTOCOL {
            return self.on_shim6(&ip6, packet, now);
        }
        if is_message_behind(&ip6, packet) {
            self.take_message(&ip6, None, now)?;
        }
        let ulids = inbound(&ip6);
        let octets = ip6.octets(packet);
        let Some(slot) = self.contexts.by_ulids(ulids) else {
            let upper = ip6.upper(packet);
            let (protocol, ports) = (upper.protocol, ports(upper.reversed()));
            let traffic = Traffic { pair: ulids, protocol, ports, cgroups };
            let passage = Passage::received(upper, packet);
            self.count_flow(&traffic, (octets, passage), now);
            return Ok(Inbound::Pass);
        };
        let id = slot.entry.id;
        if !is_neighbour_discovery(&ip6, packet) {
            let payload = Payload::of(&ip6, packet);
            let has_ce = has_ce(&ip6);
            let seen = Seen { octets, payload, is_tagged: false, has_ce, at: now };
            self.contexts.on_received(id, seen, &mut self.reports);
        }
        Ok(Inbound::Pass)
    }

    /// Handles an ICMPv6 packet. True if it was an error and has been translated.
    //= rfc5533#8-1 rfc5533#8-2 rfc5533#8 rfc5533#12.2
    fn on_icmp6(&mut self, ip6: &Ip6, packet: &mut Vec<u8>, now: Instant) -> bool {
        let Some(error) = Error::read(ip6.payload(packet)) else { return false };
        let Some(quote) = Quote::of(ip6, &error) else {
            if let Some(ulids) = icmp::unreachable(ip6, &error)
                && let Some(slot) = self.contexts.by_ulids(ulids)
                && !slot.entry.current.is_moved()
            {
                let id = slot.entry.id;
                self.contexts.on_unreachable(id, &mut self.reports, now);
            }
            return false;
        };
        let Some(slot) = self.contexts.by_quote(quote.peer_tag, quote.locators) else {
            return false;
        };
        let (id, ulids) = (slot.entry.id, slot.entry.ulids);
        // Only for the current pair, not for another path: the core asks about the current pair.
        if quote.is_unreachable && slot.entry.current.pair == quote.locators {
            self.contexts.on_unreachable(id, &mut self.reports, now);
        }
        quote.translate(ip6, packet, ulids);
        true
    }

    //= rfc5533#12.2 rfc5533#12.4
    fn on_shim6(
        &mut self,
        ip6: &Ip6,
        packet: &mut Vec<u8>,
        now: Instant,
    ) -> Result<Inbound, DropReason> {
        let header = match PayloadHeader::parse(ip6.payload(packet)) {
            Ok(header) => header,
            // The P bit is clear: a control message.
            Err(DropReason::BadFormat) => {
                let tag = control_tag(ip6.payload(packet));
                return self.take_message(ip6, tag, now).map(|()| Inbound::Up);
            }
            Err(reason) => return Err(reason),
        };
        let Some(slot) = self.contexts.by_tag(header.tag) else {
            if self.is_for_this_host(ip6) {
                self.budgets.take_unknown(now)?;
            }
            return Ok(Inbound::Up);
        };
        let (source, destination) = (Locator(ip6.source), Locator(ip6.destination));
        if !slot.is_peer_locator(source) || !self.locals.contains_key(&destination) {
            return Err(DropReason::WrongLocators);
        }
        let (id, ulids) = (slot.entry.id, slot.entry.ulids);
        strip(ip6, packet, header, ulids);
        let octets = ip6.octets(packet) - PAYLOAD_HEADER_LEN;
        let payload = Ip6::read(packet).map_or(Payload::Other, |ip6| Payload::of(&ip6, packet));
        let seen = Seen { octets, payload, is_tagged: true, has_ce: has_ce(ip6), at: now };
        self.contexts.on_received(id, seen, &mut self.reports);
        Ok(Inbound::Deliver)
    }

    /// Takes a message for the core from its budget: the budget of the context with this tag, or the shared one.
    fn take_message(
        &mut self,
        ip6: &Ip6,
        tag: Option<ContextTag>,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.is_for_this_host(ip6) {
            return Ok(());
        }
        let slot = tag.and_then(|tag| self.contexts.by_tag(tag));
        let known = slot.filter(|slot| slot.is_peer_locator(Locator(ip6.source)));
        let known = known.map(|slot| slot.entry.id);
        self.budgets.take(known, (ip6.source, self.standing(inbound(ip6))), now)
    }

    /// How well a pair shows that its peer is at its address.
    fn standing(&self, ulids: UlidPair) -> Standing {
        match self.contexts.by_ulids(ulids) {
            Some(_) => Standing::Known,
            None => self.flows.standing(ulids),
        }
    }

    /// Whether the packet has a budget. Other hosts' packets, which this host forwards, have none.
    fn is_for_this_host(&self, ip6: &Ip6) -> bool {
        self.locals.contains_key(&Locator(ip6.destination))
    }

    fn count_flow(&mut self, traffic: &Traffic<'_>, packet: (usize, Passage), now: Instant) {
        if traffic.protocol == ICMPV6 {
            return;
        }
        let Some(policy) = self.triggers.policy(traffic) else { return };
        let ulids = traffic.pair;
        if !self.flows.count(ulids, packet, policy, now) {
            return;
        }
        // Traffic that this host forwards counts from zero, and an address may become ours while it has traffic.
        if !self.locals.contains_key(&ulids.local.as_locator()) {
            self.flows.restart(ulids, now);
        } else if !self.reports.push(Report::Trigger { ulids }) {
            self.flows.unreport(ulids);
        }
    }

    fn remove(&mut self, id: ContextId) {
        if let Some(ulids) = self.contexts.remove(id) {
            self.flows.forget(ulids);
        }
    }
}

impl datapath::Plane for Plane {
    type Update = Update;
    type Report = Report;
    type Error = Infallible;

    fn apply(&mut self, update: &Update, now: Instant) -> Result<(), Infallible> {
        self.handle_update(update, now);
        Ok(())
    }

    fn poll_report(&mut self) -> Result<Option<Report>, Infallible> {
        Ok(self.reports.pop())
    }

    fn drops(&self) -> Result<Vec<(DropReason, u64)>, Infallible> {
        Ok(self.drops().iter().collect())
    }
}

impl ContextPlane for Plane {
    fn set_triggers(&mut self, triggers: &Triggers) -> Result<(), Infallible> {
        self.triggers = triggers.clone();
        Ok(())
    }

    fn counters(&self, context: ContextId) -> Result<ContextCounters, Infallible> {
        Ok(self.counters(context).unwrap_or_default())
    }

    fn path_counters(&self, context: ContextId) -> Result<Option<PathCounters>, Infallible> {
        Ok(self.contexts.get(context).and_then(|slot| slot.congestion).map(|one| one.counters))
    }
}

#[cfg(test)]
mod tests;
