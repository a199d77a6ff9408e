use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use moorline_contexts::{Config, Contexts, HALF_OPEN_SHARE, LocalState};
use moorline_datapath::shim6::Report;
use moorline_plane::shim6::{Inbound, Outbound, Plane, Settings};
use moorline_sim::Queue;
use moorline_types::{Instant, Locator, LocatorPair, Ulid, UlidPair};
use moorline_wire::ip6::{self, IP6_LEN, Ip6, UDP};
use moorline_wire::{MessageType, PROTOCOL, Packet};

use super::{IspLoss, Outcome};
use crate::cost::{Peers, Security};
use crate::interrupt;

/// The site, its peers, and packets in flight.
pub(super) struct World<'a> {
    plan: &'a IspLoss,
    /// The site at index [`SITE`], then its peers.
    ends: Vec<End>,
    by_locator: BTreeMap<Locator, usize>,
    site: LocalState,
    lost_at: Option<Instant>,
    has_moved: Vec<bool>,
    queue: Queue<What>,
    now: Instant,
    outcome: Outcome,
}

/// A host with its data plane.
struct End {
    host: Contexts,
    plane: Plane,
    ulid: Ulid,
    /// Time of the next wake-up in the queue.
    wake: Option<Instant>,
}

/// An entry of the queue.
enum What {
    /// A packet arrives at this end.
    Arrival(usize, Vec<u8>),
    /// Timers of this end may be due.
    Wake(usize),
    /// The site sends a request to this peer.
    Request(usize),
    /// Traffic with this peer triggers a context.
    Trigger(usize),
}

impl<'a> World<'a> {
    pub(super) fn new(plan: &'a IspLoss) -> anyhow::Result<Self> {
        let now = Instant::from_nanos(1_000_000_000);
        let peers = Peers::new(Security::Hba)?;
        let mut config = Config::default();
        config.shim6.send_timeout = plan.send_timeout;
        // All contexts are half-open at once.
        config.shim6.max_contexts = plan.contexts.max(1).saturating_mul(HALF_OPEN_SHARE);
        let mut ends = Vec::new();
        let mut by_locator = BTreeMap::new();
        for number in 0..=plan.contexts {
            let peer = peers.peer(number)?;
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&number.to_le_bytes());
            let mut host = Contexts::new(config.clone(), seed, now);
            host.handle_local(&peer.local, now);
            let mut plane = Plane::new(Settings { max_flows: 4, ..Settings::default() });
            for &locator in &peer.local.usable {
                plane.set_local(locator);
                by_locator.insert(locator, ends.len());
            }
            ends.push(End { host, plane, ulid: peer.ulid, wake: None });
        }
        Ok(Self {
            plan,
            has_moved: vec![false; ends.len()],
            ends,
            by_locator,
            site: peers.peer(0)?.local,
            lost_at: None,
            queue: Queue::new(),
            now,
            outcome: Outcome::default(),
        })
    }

    /// Establishes the contexts one after the other. Spreads the requests over their period.
    pub(super) fn establish(&mut self) -> anyhow::Result<()> {
        let count = self.plan.contexts.max(1);
        let each = Duration::from_millis(1);
        for (number, peer) in (0u32..).zip(1..self.ends.len()) {
            self.queue.push(self.now + each * number, What::Trigger(peer));
            let phase = self.plan.period * number / count;
            self.queue.push(self.now + each * count + phase, What::Request(peer));
        }
        self.run(each * count + self.plan.period * 4 + self.plan.round_trip * 4)?;
        let contexts = self.ends[SITE].host.contexts();
        let established = contexts.filter(|context| context.established.is_some()).count();
        ensure!(established + 1 == self.ends.len(), "only {established} contexts were made");
        Ok(())
    }

    /// From now on, no packet passes the ISP of the ULIDs.
    pub(super) fn lose(&mut self, is_noticed: bool) {
        self.lost_at = Some(self.now);
        if is_noticed {
            let lost = self.lost();
            self.site.usable.retain(|locator| *locator != lost);
            self.ends[SITE].plane.unset_local(lost);
            self.ends[SITE].host.handle_local(&self.site, self.now);
            self.flush(SITE);
        }
    }

    pub(super) fn run(&mut self, duration: Duration) -> anyhow::Result<()> {
        let end = self.now + duration;
        let mut steps = 0u32;
        while !self.is_over()
            && let Some((at, what)) = self.queue.pop_until(end)
        {
            self.now = at;
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(4096) {
                interrupt::check()?;
            }
            self.on(what);
        }
        self.now = end;
        Ok(())
    }

    pub(super) fn into_outcome(mut self) -> Outcome {
        self.outcome.moved.sort_unstable();
        self.outcome
    }

    fn on(&mut self, what: What) {
        match what {
            What::Arrival(end, packet) => self.arrive(end, packet),
            What::Wake(number) => {
                let end = &mut self.ends[number];
                if end.wake == Some(self.now) {
                    end.wake = None;
                    end.plane.handle_timeout(self.now);
                    end.host.handle_timeout(self.now);
                    self.flush(number);
                }
            }
            What::Request(peer) => {
                self.queue.push(self.now + self.plan.period, What::Request(peer));
                self.send_payload(SITE, self.ends[peer].ulid);
            }
            What::Trigger(peer) => {
                let ulids = UlidPair::new(self.ends[SITE].ulid, self.ends[peer].ulid);
                self.ends[SITE].host.handle_report(Report::Trigger { ulids }, self.now);
                self.flush(SITE);
            }
        }
    }

    fn arrive(&mut self, number: usize, mut packet: Vec<u8>) {
        if self.is_lost(&packet) {
            return;
        }
        let end = &mut self.ends[number];
        let inbound = end.plane.handle_inbound(&mut packet, self.now);
        let Some(pair) = addresses(&packet) else { return };
        match inbound {
            Inbound::Up => {
                let octets = packet.get(IP6_LEN..).unwrap_or_default();
                let locators = LocatorPair::new(pair.peer, pair.local);
                end.host.handle_control(octets, locators, self.now);
            }
            Inbound::Pass | Inbound::Deliver => {
                if number == SITE {
                    self.on_answer(pair.local);
                } else {
                    self.send_payload(number, pair.local.as_ulid());
                }
            }
            Inbound::Drop(_) => {}
        }
        self.flush(number);
    }

    fn on_answer(&mut self, peer: Locator) {
        let (Some(lost_at), Some(&peer)) = (self.lost_at, self.by_locator.get(&peer)) else {
            return;
        };
        if !core::mem::replace(&mut self.has_moved[peer], true) {
            self.outcome.moved.push(self.now.since(lost_at));
        }
    }

    fn send_payload(&mut self, from: usize, to: Ulid) {
        let end = &mut self.ends[from];
        let pair = LocatorPair::new(end.ulid.as_locator(), to.as_locator());
        let mut packet = ip6(pair, UDP, &[0; PAYLOAD_LEN]);
        match end.plane.handle_outbound(&mut packet, self.now) {
            Outbound::Pass | Outbound::Send { .. } => self.send(packet),
            Outbound::Drop(_) => {}
        }
        self.flush(from);
    }

    /// Exchanges reports and updates of an end until there are none, and sends its packets.
    fn flush(&mut self, number: usize) {
        let mut leaving = Vec::new();
        let end = &mut self.ends[number];
        loop {
            while let Some(update) = end.host.poll_datapath() {
                end.plane.handle_update(&update, self.now);
            }
            while end.host.poll_event().is_some() {}
            while let Some(transmit) = end.host.poll_transmit() {
                leaving.push(transmit);
            }
            let Some(report) = end.plane.poll_report() else { break };
            end.host.handle_report(report, self.now);
        }
        let host = end.host.poll_timeout().map(|(at, _)| at);
        let next = [host, end.plane.poll_timeout()].into_iter().flatten().min();
        let next = next.map(|at| at.max(self.now)).filter(|at| end.wake.is_none_or(|w| *at < w));
        if let Some(at) = next {
            end.wake = Some(at);
            self.queue.push(at, What::Wake(number));
        }
        for transmit in leaving {
            self.count(number, &transmit.octets, transmit.locators);
            self.send(ip6(transmit.locators, PROTOCOL, &transmit.octets));
        }
    }

    fn count(&mut self, number: usize, octets: &[u8], LocatorPair { local, peer }: LocatorPair) {
        let Some(lost_at) = self.lost_at else { return };
        let is_probe = Packet::parse(octets, local.0, peer.0)
            .is_ok_and(|packet| packet.kind() == MessageType::PROBE);
        if is_probe {
            let at = self.now.since(lost_at);
            let Self { outcome: Outcome { site_probes, peer_probes, .. }, .. } = self;
            if number == SITE { site_probes.push(at) } else { peer_probes.push(at) }
        }
    }

    fn send(&mut self, packet: Vec<u8>) {
        let Some(pair) = addresses(&packet) else { return };
        let Some(&to) = self.by_locator.get(&pair.peer) else { return };
        self.queue.push(self.now + self.plan.round_trip / 2, What::Arrival(to, packet));
    }

    /// Whether a packet is lost. Packets in flight at the failure are lost, too.
    fn is_lost(&self, packet: &[u8]) -> bool {
        let is_on_it = |pair: LocatorPair| [pair.local, pair.peer].contains(&self.lost());
        self.lost_at.is_some() && addresses(packet).is_some_and(is_on_it)
    }

    fn lost(&self) -> Locator {
        self.ends[SITE].ulid.as_locator()
    }

    fn is_over(&self) -> bool {
        self.outcome.moved.len() + 1 == self.ends.len()
    }
}

fn ip6(pair: LocatorPair, next_header: u8, payload: &[u8]) -> Vec<u8> {
    ip6::packet(next_header, pair.local.0, pair.peer.0, payload)
}

/// Source and destination of a packet.
fn addresses(packet: &[u8]) -> Option<LocatorPair> {
    let header = Ip6::read(packet)?;
    Some(LocatorPair::new(Locator(header.source), Locator(header.destination)))
}

const SITE: usize = 0;
/// UDP header and some octets. The size does not matter, because an entry of the queue triggers the context.
const PAYLOAD_LEN: usize = 100;
