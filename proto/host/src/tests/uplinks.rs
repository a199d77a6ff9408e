//! Uplinks that carry nothing, found by peers: one host with several peers, each with two ISPs.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::Ipv6Addr;

use moorline_addresses::{HostView, Uplink};
use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_contexts::{EventKind, Profile};
use moorline_datapath::shim6::{ContextEntry, FailureHint};
use moorline_types::{ContextId, Locator};

use super::*;
use crate::Evidence;

/// The first host, and its peers.
struct Star {
    hosts: Vec<Host>,
    locals: Vec<Vec<Locator>>,
    entries: Vec<BTreeMap<ContextId, ContextEntry>>,
    /// Addresses that no packet reaches.
    dead: BTreeSet<Locator>,
    /// Pairs that lose all packets, in both directions. The first address is the first host's.
    dead_pairs: BTreeSet<LocatorPair>,
    /// Default routes that the first host has preferred, in order, by interface.
    routes: Vec<Option<u32>>,
    moves: usize,
    now: Instant,
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

fn links(usable: &[Locator]) -> HostView {
    let uplinks = (1_u16..).zip(usable).map(|(isp, own)| {
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, isp);
        Uplink::new(isp.into(), alloc::format!("isp{isp}")).reached(router, [own.0])
    });
    HostView { uplinks: uplinks.collect(), ..HostView::default() }
}

impl Star {
    /// Makes peers in these networks, and contexts with all of them that know standby paths.
    fn new(networks: &[u8]) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let config = shim6::Config { profile: Profile::default(), ..shim6::Config::default() };
        let all = core::iter::once(&0).chain(networks);
        let locals: Vec<_> = (0..).zip(all).map(|(host, of)| state(host, *of)).collect();
        let hosts = (1..).zip(&locals).map(|(seed, local)| {
            let contexts = Contexts::new(config.clone(), [seed; 32], now);
            let mut host = Host::new(contexts, None);
            host.set_proof(local.proof.clone());
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

    fn settle(&mut self) {
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
    fn traffic(&mut self) {
        for side in 0..self.hosts.len() {
            let watched = self.entries[side].values().filter(|entry| entry.watch != 0);
            for context in watched.map(|entry| entry.id).collect::<Vec<_>>() {
                let report = TrafficReport::Received { context, at: self.now };
                self.hosts[side].handle_shim6_report(report, self.now);
            }
        }
        self.settle();
    }

    fn run(&mut self, time: Duration) {
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
    fn suspect(&mut self, peers: &[usize]) {
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

    fn failing(&self) -> Vec<u32> {
        self.hosts[0].failing_uplinks().into_iter().collect()
    }
}

#[test]
fn a_dead_isp_is_not_for_new_connections_once_a_context_has_left_it_and_another_peer_says_the_same()
{
    let mut star = Star::new(&[1, 2]);
    assert!(star.routes.iter().all(Option::is_none) && star.failing().is_empty());
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.suspect(&[1]);
    star.run(Duration::from_millis(700));
    assert_eq!((star.failing(), star.routes.last()), (vec![1], Some(&Some(2))));
    star.run(Duration::from_secs(60));
    assert_eq!(star.failing(), [1]);
    let host = &star.hosts[0];
    assert_eq!((host.evidence(1), host.evidence(2)), (Some(Evidence::Peers), None));
    assert_eq!(host.uplink_for_new().map(|uplink| uplink.ifindex), Some(2));
    star.dead.clear();
    star.run(Duration::from_secs(4));
    assert_eq!(star.failing(), [1]);
    star.run(Duration::from_secs(3));
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)));
}

#[test]
fn a_peer_whose_own_isp_has_failed_changes_nothing() {
    let mut star = Star::new(&[1, 2, 3]);
    for peer in 1..=2 {
        let cut = star.locals[peer][0];
        star.dead.insert(cut);
    }
    star.suspect(&[1, 2]);
    star.run(Duration::from_secs(60));
    assert!(star.moves >= 2 && star.failing().is_empty());
    assert!(star.routes.iter().all(Option::is_none));
}

/// The first peer is silent by one uplink of the host. The second peer has addresses of the same network.
#[test]
fn one_hostile_peer_changes_nothing_even_with_two_hosts_in_its_network() {
    for networks in [&[1, 2][..], &[1, 1], &[1]] {
        let mut star = Star::new(networks);
        let own = star.locals[0][0];
        let liars = (1..).zip(networks).filter(|(_, network)| **network == 1);
        let liars: Vec<usize> = liars.map(|(host, _)| host).collect();
        for liar in &liars {
            for peer in star.locals[*liar].clone() {
                star.dead_pairs.insert(LocatorPair::new(own, peer));
            }
        }
        for _ in 0..5 {
            star.suspect(&liars);
            star.run(Duration::from_secs(30));
        }
        assert!(star.moves >= liars.len() && star.failing().is_empty(), "{networks:?}");
        assert!(star.routes.iter().all(Option::is_none), "{networks:?}");
    }
}

/// Peers are switched off, and their contexts do not know. The other peers leave the host's dead ISP one by one.
#[test]
fn peers_that_are_switched_off_do_not_keep_others_from_being_asked() {
    let mut star = Star::new(&[1, 2, 3, 4, 5, 6]);
    let off = star.locals[1..=3].concat();
    star.dead.extend(off);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    for peer in 4..=6 {
        star.suspect(&[peer]);
        star.run(Duration::from_secs(15));
    }
    assert_eq!(star.failing(), [1]);
}

/// No payload takes the second uplink. Checks of standby paths alone show that it has failed.
#[test]
fn a_dead_isp_that_no_context_uses_is_found_out_by_standby_paths() {
    for (dead, expected) in [(1..=2, &[2][..]), (1..=1, &[])] {
        let mut star = Star::new(&[1, 2]);
        let own = star.locals[0][1];
        for peer in star.locals[dead].concat() {
            star.dead_pairs.insert(LocatorPair::new(own, peer));
        }
        for _ in 0..90 {
            star.traffic();
            star.run(Duration::from_secs(1));
        }
        assert_eq!((star.moves, &star.failing()[..]), (0, expected));
    }
}

#[test]
fn where_hosts_are_asked_peers_and_routers_say_nothing() {
    let mut star = Star::new(&[1, 2]);
    let host = star.hosts.remove(0).with_targets(vec![Ipv6Addr::LOCALHOST], [1; 32]);
    star.hosts.insert(0, host);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.hosts[0].handle_router_lost(1, star.now);
    star.suspect(&[1, 2]);
    star.run(Duration::from_secs(5));
    assert!(star.moves >= 2 && star.failing().is_empty());
}

#[test]
fn an_uplink_whose_router_is_lost_is_not_for_new_connections() {
    let mut star = Star::new(&[]);
    star.hosts[0].handle_router_lost(1, star.now);
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![1], Some(&Some(2))));
    assert_eq!(star.hosts[0].evidence(1), Some(Evidence::Router));
    assert_eq!(star.hosts[0].uplink_for_new().map(|uplink| uplink.ifindex), Some(2));
    star.hosts[0].handle_router_lost(2, star.now);
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)), "neither is better");
    star.run(Duration::from_secs(10));
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)));
    star.hosts[0].handle_router_lost(1, star.now);
    assert_eq!(star.failing(), [1]);
    assert!(star.hosts[0].handle_router_found(1, star.now));
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)), "it answers again");
    assert!(!star.hosts[0].handle_router_found(1, star.now));
    // A link with two routers goes on by the other router.
    let mut view = links(&star.locals[0]);
    let mut second = view.uplinks[0].default_routes[0];
    second.gateway = Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9));
    view.uplinks[0].default_routes.push(second);
    star.hosts[0].handle_view(view, star.now);
    star.hosts[0].handle_router_lost(1, star.now);
    star.settle();
    assert_eq!(star.failing(), []);
}
