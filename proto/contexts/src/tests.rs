use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_cga::{HbaKey, HbaSet, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_datapath::shim6::{ContextEntry, Report, Update};
use moorline_types::{ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, UlidPair};
use moorline_wire::{MessageType, PayloadHeader};

use crate::event::Transmit;
use crate::{Config, Contexts, Event, EventKind, LocalState};

mod broken;
mod congestion;
mod contest;
mod ending;
mod foreign;
mod many;
mod neighbor;
mod proofs;
mod readiness;
mod recovery;
mod reflection;
mod restart;
mod roaming;
mod room;
mod standby;
mod steer;
mod third;
mod waiting;

/// Two hosts, the entries of their data planes, and a network whose paths are perfect or cut.
struct Pair {
    hosts: [Contexts; 2],
    locators: [Vec<Locator>; 2],
    entries: [Vec<ContextEntry>; 2],
    events: [Vec<Event>; 2],
    heard: [u32; 2],
    /// Number of probes that both hosts have sent.
    probes: u32,
    /// Pairs of source and destination that lose all packets.
    dead: BTreeSet<(Locator, Locator)>,
    /// How long each packet takes.
    delay: Duration,
    now: Instant,
}

impl Pair {
    fn new() -> Self {
        Self::with([local_state(0), local_state(1)])
    }

    fn with(locals: [LocalState; 2]) -> Self {
        let mut config = Config::default();
        config.shim6.send_timeout = Duration::from_secs(2);
        Self::with_config(locals, &config)
    }

    fn with_config(locals: [LocalState; 2], config: &Config) -> Self {
        Self::with_configs(locals, [config.clone(), config.clone()])
    }

    fn with_configs(locals: [LocalState; 2], [first, second]: [Config; 2]) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let hosts = [(1, first), (2, second)];
        let hosts = hosts.map(|(seed, config)| Contexts::new(config, [seed; 32], now));
        let mut pair = Self {
            hosts,
            locators: [Vec::new(), Vec::new()],
            entries: [Vec::new(), Vec::new()],
            events: [Vec::new(), Vec::new()],
            heard: [0; 2],
            probes: 0,
            dead: BTreeSet::new(),
            delay: Duration::ZERO,
            now,
        };
        for (side, local) in locals.iter().enumerate() {
            pair.tell(side, local);
        }
        pair.settle();
        pair
    }

    fn tell(&mut self, side: usize, local: &LocalState) {
        self.locators[side].clone_from(&local.usable);
        self.hosts[side].handle_local(local, self.now);
    }

    fn ulids(&self, side: usize) -> UlidPair {
        UlidPair::new(self.locators[side][0].as_ulid(), self.locators[1 - side][0].as_ulid())
    }

    fn trigger(&mut self, side: usize) {
        let ulids = self.ulids(side);
        self.hosts[side].handle_report(Report::Trigger { ulids }, self.now);
        self.settle();
    }

    /// Delivers control packets until none is under way.
    fn settle(&mut self) {
        loop {
            let mut under_way = Vec::new();
            for side in 0..2 {
                self.drain(side);
                while let Some(transmit) = self.hosts[side].poll_transmit() {
                    under_way.push((side, transmit));
                }
            }
            if under_way.is_empty() {
                return;
            }
            self.now = self.now + self.delay;
            for (side, transmit) in under_way {
                let LocatorPair { local, peer } = transmit.locators;
                let packet = moorline_wire::Packet::parse(&transmit.octets, local.0, peer.0);
                let is_probe = packet.expect("ours").kind() == MessageType::PROBE;
                self.probes += u32::from(is_probe);
                if !self.dead.contains(&(local, peer)) && self.locators[1 - side].contains(&peer) {
                    let seen = LocatorPair::new(peer, local);
                    self.hosts[1 - side].handle_control(&transmit.octets, seen, self.now);
                }
            }
        }
    }

    fn drain(&mut self, side: usize) {
        while let Some(update) = self.hosts[side].poll_datapath() {
            let entries = &mut self.entries[side];
            match update {
                Update::Upsert(entry) => {
                    entries.retain(|old| old.id != entry.id);
                    entries.push(entry);
                }
                Update::Remove { context } => entries.retain(|old| old.id != context),
                Update::Heard { .. } => self.heard[side] += 1,
                Update::Rearm { .. } => {}
            }
        }
        while let Some(event) = self.hosts[side].poll_event() {
            self.events[side].push(event);
        }
    }

    /// Lets time pass, and serves every timeout meanwhile.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some((at, _)) = self.hosts.iter().filter_map(Contexts::poll_timeout).min()
            && at <= end
        {
            self.now = self.now.max(at);
            for side in 0..2 {
                self.hosts[side].handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    fn send_expired(&mut self, side: usize) {
        let since = self.now;
        self.now = self.now + Duration::from_secs(2);
        let context = self.entries[side][0].id;
        self.hosts[side].handle_report(Report::SendExpired { context, since }, self.now);
        self.settle();
    }
}

fn local_state(side: u8) -> LocalState {
    let prefixes = [1u8, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa + side]);
    let key = HbaKey::extended_modifier([side; 48]);
    let set =
        generate_hba(&prefixes, Sec::new(0).expect("valid"), &key, [side; 16], 1).expect("Sec 0");
    state_of(set)
}

fn state_of(set: HbaSet) -> LocalState {
    let usable = set.locators().to_vec();
    let addresses = LocalAddresses {
        present: usable.clone(),
        sets: [set].into(),
        cgas: Vec::new(),
        ..LocalAddresses::default()
    };
    LocalState { proof: LocalProof::new(1, addresses, &[], [0; 32]), usable }
}

/// The next message of this kind that a side sends.
fn next_of(pair: &mut Pair, side: usize, kind: MessageType) -> Transmit {
    loop {
        while let Some(transmit) = pair.hosts[side].poll_transmit() {
            let LocatorPair { local, peer } = transmit.locators;
            let packet = moorline_wire::Packet::parse(&transmit.octets, local.0, peer.0);
            if packet.expect("ours").kind() == kind {
                return transmit;
            }
        }
        pair.now = pair.now.max(pair.hosts[side].poll_timeout().expect("a timer").0);
        pair.hosts[side].handle_timeout(pair.now);
    }
}

/// Payload with this tag, long enough for an R1bis.
fn payload(tag: ContextTag) -> Vec<u8> {
    [&PayloadHeader { next_header: 6, tag }.emit()[..], &[0; 32]].concat()
}

/// Side 0 has told a list that takes locators away. The function proves the list to side 1. No other message arrives.
fn prove_list(pair: &mut Pair) {
    let steps =
        [(0, MessageType::UPDATE_REQUEST), (1, MessageType::R1BIS), (0, MessageType::I2BIS)];
    for (from, kind) in steps {
        let Transmit { octets, locators } = next_of(pair, from, kind);
        let back = LocatorPair::new(locators.peer, locators.local);
        pair.hosts[1 - from].handle_control(&octets, back, pair.now);
    }
}

#[test]
fn a_trigger_makes_a_context_at_both_ends() {
    let mut pair = Pair::new();
    pair.trigger(0);
    for side in 0..2 {
        let entry = &pair.entries[side][0];
        assert_eq!(entry.ulids, pair.ulids(side));
        assert!(!entry.is_moved());
        assert_eq!(entry.peer_tag, pair.entries[1 - side][0].local_tag);
        let theirs: BTreeSet<_> = pair.locators[1 - side].iter().collect();
        assert_eq!(entry.peer_locators.iter().collect::<BTreeSet<_>>(), theirs);
        assert_eq!(entry.timers.expect("operational").keepalive_timeout, Duration::from_secs(2));
        assert!(pair.events[side].iter().any(|e| matches!(e.kind, EventKind::Established { .. })));
        assert_eq!(pair.hosts[side].drops().iter().count(), 0);
    }
}

//= rfc5533#7.4 rfc5533#7.13-5 (test)
#[test]
fn crossing_triggers_make_one_context() {
    let mut pair = Pair::new();
    for side in 0..2 {
        let ulids = pair.ulids(side);
        pair.hosts[side].handle_report(Report::Trigger { ulids }, pair.now);
    }
    pair.settle();
    pair.run(Duration::from_secs(60));
    for side in 0..2 {
        assert_eq!(pair.entries[side].len(), 1);
        assert_eq!(pair.entries[side][0].peer_tag, pair.entries[1 - side][0].local_tag);
    }
}

#[test]
fn a_silent_cut_moves_both_directions_to_the_disjoint_pair() {
    let mut pair = Pair::new();
    pair.trigger(0);
    for side in 0..2 {
        for other in pair.locators[1 - side].clone() {
            pair.dead.insert((pair.locators[side][0], other));
            pair.dead.insert((other, pair.locators[side][0]));
        }
    }
    pair.send_expired(0);
    pair.run(Duration::from_secs(2));
    for side in 0..2 {
        let expected = LocatorPair::new(pair.locators[side][1], pair.locators[1 - side][1]);
        assert_eq!(pair.entries[side][0].current.pair, expected, "side {side}");
        assert!(pair.entries[side][0].timers.is_some(), "operational again");
        assert!(pair.events[side].iter().any(|e| matches!(e.kind, EventKind::Moved { .. })));
    }
    assert!(pair.heard[0] > 0);
}

#[test]
fn a_context_whose_local_locator_goes_explores_at_once() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let mut local = local_state(0);
    local.usable.remove(0);
    pair.hosts[0].handle_local(&local, pair.now);
    pair.settle();
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.entries[0][0].current.pair.local, pair.locators[0][1]);
}

#[test]
fn a_peer_that_does_not_answer_is_remembered_and_tried_again_later() {
    let mut pair = Pair::new();
    let ulids = pair.ulids(0);
    pair.dead.insert((ulids.local.as_locator(), ulids.peer.as_locator()));
    pair.trigger(0);
    let has_failed =
        |pair: &Pair| pair.events[0].iter().any(|e| matches!(e.kind, EventKind::Failed { .. }));
    let end = pair.now + Duration::from_secs(4 * 31 * 3 / 2 + 1);
    while !has_failed(&pair) && pair.now < end {
        pair.run(Duration::from_secs(1));
    }
    assert!(has_failed(&pair) && pair.entries[0].is_empty());
    assert_eq!(pair.hosts[0].negatives().count(), 1);
    pair.dead.clear();
    pair.trigger(0);
    assert!(pair.entries[0].is_empty(), "held down");
    pair.run(Duration::from_secs(61));
    assert_eq!(pair.hosts[0].negatives().count(), 0);
    pair.trigger(0);
    assert_eq!(pair.entries[0].len(), 1);
}

//= rfc5533#9-2 (test)
#[test]
fn idle_contexts_are_forgotten_and_may_come_back() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let context = pair.entries[0][0].id;
    pair.hosts[0].handle_report(Report::Idle { context, since: pair.now }, pair.now);
    pair.settle();
    assert!(pair.entries[0].is_empty());
    let tag = pair.entries[1][0].peer_tag;
    pair.trigger(0);
    assert_ne!(pair.entries[1][0].peer_tag, tag, "the peer takes the new tag");
    assert_eq!(pair.entries[1][0].peer_tag, pair.entries[0][0].local_tag);
}

#[test]
fn a_snapshot_goes_on_in_another_run() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let snapshots: Vec<_> = pair.hosts[0].snapshot().collect();
    let mut config = Config::default();
    config.shim6.send_timeout = Duration::from_secs(2);
    let mut host = Contexts::new(config, [9; 32], pair.now);
    host.handle_local(&local_state(0), pair.now);
    for snapshot in snapshots {
        host.restore(snapshot, pair.now).expect("restored");
    }
    let before = pair.entries[0][0].clone();
    pair.hosts[0] = host;
    pair.drain(0);
    assert_eq!(pair.entries[0][0].local_tag, before.local_tag);
    assert_eq!(pair.entries[0][0].peer_locators, before.peer_locators);
    pair.send_expired(0);
    assert!(pair.entries[0][0].timers.is_some(), "the peer answers the probes of the new run");
}

#[test]
fn a_snapshot_may_send_from_an_address_that_the_peer_is_perhaps_not_told_of() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let mut snapshot = pair.hosts[0].snapshot().next().expect("a context");
    let ulid = snapshot.key.ulids.local.as_locator();
    snapshot.local_locators = (&[ulid]).into();
    snapshot.locators.local = pair.locators[0][1];
    let mut stranger = snapshot.clone();
    stranger.locators.local = pair.locators[1][0];
    let mut host = Contexts::new(Config::default(), [9; 32], pair.now);
    host.handle_local(&local_state(0), pair.now);
    assert_eq!(host.restore(stranger, pair.now), Err(DropReason::WrongLocators));
    host.restore(snapshot, pair.now).expect("restored");
}

#[test]
fn a_snapshot_may_send_from_an_address_that_has_gone_and_that_the_peer_does_not_know_any_more() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let mut snapshot = pair.hosts[0].snapshot().next().expect("a context");
    let ulid = snapshot.key.ulids.local.as_locator();
    snapshot.local_locators = (&[ulid]).into();
    snapshot.locators.local = pair.locators[0][1];
    let mut host = Contexts::new(Config::default(), [9; 32], pair.now);
    let mut local = local_state(0);
    let mut addresses = local.proof.addresses().clone();
    (addresses.present, local.usable) = (Vec::from([ulid]), Vec::from([ulid]));
    local.proof = LocalProof::new(2, addresses, &[], [0; 32]);
    host.handle_local(&local, pair.now);
    host.restore(snapshot, pair.now).expect("restored");
    pair.hosts[0] = host;
    pair.settle();
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.entries[0][0].current.pair.local, ulid);
}

#[test]
fn a_restored_context_tells_of_addresses_that_came_since() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let snapshots: Vec<_> = pair.hosts[0].snapshot().collect();
    let mut host = Contexts::new(Config::default(), [9; 32], pair.now);
    let mut local = local_state(0);
    let mut addresses = local.proof.addresses().clone();
    addresses.present.pop();
    local.proof = LocalProof::new(2, addresses, &[], [0; 32]);
    host.handle_local(&local, pair.now);
    for snapshot in snapshots {
        host.restore(snapshot, pair.now).expect("restored");
    }
    pair.hosts[0] = host;
    pair.settle();
    assert_eq!(pair.entries[1][0].peer_locators, [pair.locators[0][0]]);
}

#[test]
fn unknown_addresses_bring_no_context() {
    let mut pair = Pair::new();
    let ulids = UlidPair::new(Ipv6Addr::LOCALHOST.into(), pair.ulids(0).peer);
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    pair.settle();
    assert!(pair.hosts[0].contexts().next().is_none());
    assert_eq!(pair.hosts[0].drops().iter().count(), 1);
    pair.hosts[0].handle_report(Report::KeepaliveDue { context: ContextId(7) }, pair.now);
    assert_eq!(pair.hosts[0].drops().iter().count(), 2);
}
