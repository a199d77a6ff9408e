//! One host with several peers, each with two ISPs.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::Ipv6Addr;

use moorline_addresses::{HostView, Uplink};
use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_contexts::{EventKind, Profile};
use moorline_datapath::shim6::{ContextEntry, FailureHint};
use moorline_types::{ContextId, Locator};

use super::*;

/// The first host, and its peers.
pub(super) struct Star {
    pub(super) hosts: Vec<Host>,
    pub(super) locals: Vec<Vec<Locator>>,
    entries: Vec<BTreeMap<ContextId, ContextEntry>>,
    /// Addresses that no packet reaches.
    pub(super) dead: BTreeSet<Locator>,
    /// Pairs that lose all packets, in both directions. The first address is the first host's.
    pub(super) dead_pairs: BTreeSet<LocatorPair>,
    /// Default routes that the first host has preferred, in order, by interface.
    pub(super) routes: Vec<Option<u32>>,
    pub(super) moves: usize,
    pub(super) now: Instant,
}

/// State of a host with networks of its own, or with those of another host.
fn state(host: u8, network: u8) -> LocalState {
    let prefixes = [1, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, isp, network, 0, host]);
    let key = HbaKey::extended_modifier([host; 48]);
    let set = generate_hba(&prefixes, Sec::ZERO, &key, [host; 16], 1).expect("Sec 0 takes one try");
    let usable = set.locators().to_vec();
    let addresses =
        LocalAddresses { present: usable.clone(), sets: vec![set], ..LocalAddresses::default() };
    LocalState { proof: LocalProof::new(1, addresses, &[], [0; 32]), usable }
}

fn host(seed: u8, proof: LocalProof) -> Host {
    let config = shim6::Config { profile: Profile::default(), ..shim6::Config::default() };
    let mut host = Host::new(Contexts::new(config, [seed; 32], NOW), None);
    host.set_proof(proof);
    host
}

pub(super) fn links(usable: &[Locator]) -> HostView {
    let uplinks = (1_u16..).zip(usable).map(|(isp, own)| {
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, isp);
        let mut uplink =
            Uplink::new(isp.into(), alloc::format!("isp{isp}")).reached(router, [own.0]);
        // The kernel prefers the first uplink.
        uplink.default_routes[0].metric += u32::from(isp);
        uplink
    });
    HostView { uplinks: uplinks.collect(), ..HostView::default() }
}

impl Star {
    /// Makes peers in these networks, and contexts with all of them that know standby paths.
    pub(super) fn new(networks: &[u8]) -> Self {
        let now = NOW;
        let all = core::iter::once(&0).chain(networks);
        let locals: Vec<_> = (0..).zip(all).map(|(host, of)| state(host, *of)).collect();
        let hosts = (1..).zip(&locals).map(|(seed, local)| {
            let mut host = host(seed, local.proof.clone());
            host.handle_view(links(&local.usable), now);
            host
        });
        let mut star = Self {
            hosts: hosts.collect(),
            entries: vec![BTreeMap::new(); locals.len()],
            locals: locals.into_iter().map(|local| local.usable).collect(),
            dead: BTreeSet::new(),
            dead_pairs: BTreeSet::new(),
            routes: Vec::new(),
            moves: 0,
            now,
        };
        star.settle();
        for peer in 1..star.hosts.len() {
            let [own, other] = [0, peer].map(|host| star.locals[host][0].as_ulid());
            let ulids = UlidPair::new(own, other);
            star.hosts[0].handle_shim6_report(TrafficReport::Trigger { ulids }, now);
            star.settle();
        }
        star.run(Duration::from_secs(3));
        star
    }

    pub(super) fn settle(&mut self) {
        let mut is_done = false;
        while !core::mem::replace(&mut is_done, true) {
            for side in 0..self.hosts.len() {
                while let Some(effect) = self.hosts[side].poll_effect(self.now) {
                    is_done = false;
                    self.hosts[side].handle_done(&effect, self.now);
                    self.execute(side, effect);
                }
            }
        }
    }

    fn execute(&mut self, side: usize, effect: Effect) {
        if effect == Effect::AskOffloads {
            let all = self.hosts[side].carriers().shim6.clone();
            self.hosts[side].set_takes_moved(all);
        } else if let Effect::UpdateContext(Update::Upsert(entry)) = effect {
            self.entries[side].insert(entry.id, entry);
        } else if let Effect::SendShim6 { transmit, .. } = effect {
            let LocatorPair { local, peer } = transmit.locators;
            let seen = LocatorPair::new(peer, local);
            let is_cut = self.dead.contains(&local) || self.dead.contains(&peer);
            let is_lost =
                is_cut || [seen, transmit.locators].iter().any(|p| self.dead_pairs.contains(p));
            let to = self.locals.iter().position(|own| own.contains(&peer)).expect("a host");
            if !is_lost {
                self.hosts[to].handle_shim6(&transmit.octets, seen, self.now);
            }
        } else if let Effect::PreferRoute(way) = effect {
            assert_eq!(side, 0, "peers see nothing wrong");
            self.routes.push(way.map(|(ifindex, _)| ifindex));
        } else if let Effect::TellContext(event) = effect {
            let is_move = side == 0 && matches!(event.kind, EventKind::Moved { .. });
            self.moves += usize::from(is_move);
        }
    }

    /// Delivers payload to all ends that wait for it.
    pub(super) fn traffic(&mut self) {
        for side in 0..self.hosts.len() {
            let watched = self.entries[side].values().filter(|entry| entry.watch != 0);
            for context in watched.map(|entry| entry.id).collect::<Vec<_>>() {
                let report = TrafficReport::Received { context, at: self.now };
                self.hosts[side].handle_shim6_report(report, self.now);
            }
        }
        self.settle();
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        if self.dead.is_empty() && self.dead_pairs.is_empty() {
            self.traffic();
        }
        loop {
            let next = self.hosts.iter().filter_map(Host::poll_timeout).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(self.now));
            self.settle();
        }
        self.now = end;
    }

    /// Reports that the data plane of the first host gets no answer from these peers.
    pub(super) fn suspect(&mut self, peers: &[usize]) {
        let since = self.now;
        self.run(Duration::from_millis(200));
        for peer in peers {
            let of_peer =
                |entry: &&ContextEntry| self.locals[*peer].contains(&entry.ulids.peer.as_locator());
            let context = self.entries[0].values().find(of_peer).expect("a context").id;
            let hint = FailureHint::Retransmission;
            let report = TrafficReport::Suspected { context, hint, since, usual: Duration::ZERO };
            self.hosts[0].handle_shim6_report(report, self.now);
        }
        self.settle();
    }

    /// The first host is killed, and another run takes its contexts over.
    pub(super) fn restart(&mut self) {
        let stored: Vec<_> = self.hosts[0].shim6().snapshot().collect();
        self.hosts[0] = host(100, self.hosts[0].proof().clone());
        self.entries[0].clear();
        self.routes.clear();
        self.hosts[0].handle_left_preference(self.now);
        self.hosts[0].handle_view(links(&self.locals[0]), self.now);
        self.settle();
        for context in stored {
            self.hosts[0].shim6_mut().restore(context, self.now).expect("restored");
        }
        self.hosts[0].handle_restored(BTreeSet::new(), self.now);
        self.settle();
    }

    pub(super) fn failing(&self) -> Vec<u32> {
        self.hosts[0].failing_uplinks().into_iter().collect()
    }
}

const NOW: Instant = Instant::from_nanos(1_000_000_000);
