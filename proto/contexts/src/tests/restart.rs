//! A host that starts again: what it still knows of its peers, and what it tells them.

use moorline_shim6::{UPDATE_BURST, UPDATE_INTERVAL};
use moorline_types::ContextTag;
use moorline_wire::{LocatorPreference, Message};

use super::*;
use crate::{ContextSnapshot, Key, PeerSet, Profile, Waiting};

const BROKEN: LocatorPreference =
    LocatorPreference { flags: LocatorPreference::BROKEN, priority: None, weight: None };

fn config(send_timeout: Duration) -> Config {
    let mut config = Config::default();
    config.shim6.send_timeout = send_timeout;
    config
}

impl Pair {
    /// Another run of a side continues with its contexts. Its messages are under way.
    fn restart(&mut self, side: usize, config: Config) {
        let snapshots: Vec<_> = self.hosts[side].snapshot().collect();
        let number = u8::try_from(side).expect("two sides");
        let mut host = Contexts::new(config, [number + 70; 32], self.now);
        host.handle_local(&local_state(number), self.now);
        for snapshot in snapshots {
            host.restore(snapshot, self.now).expect("restored");
        }
        self.hosts[side] = host;
    }

    /// No packet of either side arrives by the first pair.
    fn cut_first(&mut self) {
        let (a, b) = (self.locators[0][0], self.locators[1][0]);
        self.dead.extend([(a, b), (b, a)]);
    }

    fn call_broken(&mut self, side: usize, locator: Locator) {
        self.hosts[side].set_preferences(&[(locator, BROKEN)], self.now);
        self.settle();
        self.run(Duration::from_secs(1));
    }
}

fn adaptive() -> Config {
    Config { profile: Profile::default(), ..config(Duration::from_secs(10)) }
}

#[test]
fn a_context_taken_over_on_a_dead_pair_moves_in_two_seconds() {
    for restarted in [&[0][..], &[1], &[0, 1]] {
        let locals = [local_state(0), local_state(1)];
        let mut pair = Pair::with_config(locals, &adaptive());
        pair.trigger(0);
        pair.traffic();
        pair.cut_first();
        for &side in restarted {
            pair.restart(side, adaptive());
        }
        pair.settle();
        pair.run(Duration::from_secs(2));
        for side in 0..2 {
            let current = pair.entries[side][0].current.pair;
            assert_ne!(current.local, pair.locators[side][0], "{restarted:?} {side}");
        }
    }
}

/// The path is dead at the first restart alone. After the second one the cause is that of the run before.
#[test]
fn the_cause_of_the_last_move_is_known_after_a_restart() {
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &adaptive());
    pair.trigger(0);
    pair.traffic();
    pair.cut_first();
    pair.restart(0, adaptive());
    pair.settle();
    pair.run(Duration::from_secs(2));
    let cause = |pair: &Pair| {
        let context = pair.hosts[0].contexts().next().expect("a context");
        context.established.expect("established").cause
    };
    let before = cause(&pair);
    assert!(before.is_some());
    pair.restart(0, adaptive());
    assert_eq!(cause(&pair), before);
}

#[test]
fn a_context_taken_over_on_a_pair_that_works_sends_no_check() {
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &adaptive());
    pair.trigger(0);
    pair.traffic();
    let before = pair.probes;
    pair.restart(1, adaptive());
    pair.settle();
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.probes, before);
}

#[test]
fn contexts_taken_over_on_dead_pairs_keep_to_the_pace_of_the_host() {
    let slow = Config { probes_per_second: 50, probe_burst: 20, ..adaptive() };
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &slow);
    pair.trigger(0);
    let ulids = pair.ulids(0);
    for _ in 0..60 {
        pair.hosts[0].fork(ulids, pair.now).expect("room");
        pair.settle();
    }
    pair.traffic();
    pair.run(Duration::from_secs(5));
    for &a in &pair.locators[0] {
        for &b in &pair.locators[1] {
            pair.dead.extend([(a, b), (b, a)]);
        }
    }
    pair.restart(0, slow);
    let before = pair.probes;
    for second in 1..=5 {
        pair.run(Duration::from_secs(1));
        assert!(pair.probes - before <= 20 + 50 * second, "{second}: {}", pair.probes - before);
    }
    assert!(pair.probes > before, "the pairs are checked");
}

#[test]
fn preferences_told_after_the_peer_has_started_again_are_taken() {
    //= rfc5533#10.4 (test)
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.restart(1, config(Duration::from_secs(2)));
    pair.settle();
    pair.call_broken(0, pair.locators[0][0]);
    assert_eq!(pair.hosts[1].drops().iter().count(), 0);
    assert_eq!(pair.entries[1][0].current.pair.peer, pair.locators[0][1]);
}

#[test]
fn a_list_that_was_counted_by_no_earlier_version_is_counted_when_it_comes_again() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let before = pair.hosts[1].snapshot().next().expect("a context");
    assert_eq!(before.peer.listed, 2);
    let mut host = Contexts::new(config(Duration::from_secs(2)), [9; 32], pair.now);
    host.handle_local(&local_state(1), pair.now);
    let peer = PeerSet { listed: 0, ..before.peer.clone() };
    host.restore(ContextSnapshot { peer, ..before.clone() }, pair.now).expect("restored");
    pair.hosts[1] = host;
    pair.settle();
    pair.call_broken(0, pair.locators[0][0]);
    let after = pair.hosts[1].snapshot().next().expect("a context");
    assert_eq!(after.peer.listed, before.peer.listed);
    assert_eq!(pair.entries[1][0].current.pair.peer, pair.locators[0][1]);
}

#[test]
fn what_a_peer_says_of_its_locators_is_known_after_a_restart() {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.call_broken(0, pair.locators[0][0]);
    let before = said(&pair);
    assert_eq!(before, [BROKEN, LocatorPreference::default()]);
    pair.restart(1, config(Duration::from_secs(2)));
    assert_eq!(said(&pair), before);
}

#[test]
fn preferences_that_are_not_named_after_a_restart_are_taken_back() {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.call_broken(0, pair.locators[0][0]);
    pair.restart(0, config(Duration::from_secs(2)));
    pair.settle();
    assert_eq!(said(&pair), [LocatorPreference::default(); 2]);
    pair.restart(0, config(Duration::from_secs(2)));
    pair.call_broken(0, pair.locators[0][1]);
    assert_eq!(said(&pair), [LocatorPreference::default(), BROKEN]);
}

#[test]
fn who_has_told_no_preferences_tells_none_after_a_restart() {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.restart(0, config(Duration::from_secs(2)));
    let transmit = pair.hosts[0].poll_transmit().expect("an Update Request");
    let LocatorPair { local, peer } = transmit.locators;
    let packet = moorline_wire::Packet::parse(&transmit.octets, local.0, peer.0).expect("ours");
    let Ok(Message::UpdateRequest(request)) = packet.message() else { panic!("{packet:?}") };
    assert!(request.options.locator_list().is_some());
    assert!(request.options.locator_preferences().is_none(), "LinShim6 would not take it");
}

//= rfc5534#5.3-1 (test)
#[test]
fn a_send_timeout_changed_over_a_restart_is_told() {
    let mut pair = Pair::new();
    pair.trigger(0);
    // The last value is the default. A peer that has never heard another value need not be told the default.
    for send_timeout in [12, 15].map(Duration::from_secs) {
        pair.restart(0, config(send_timeout));
        pair.settle();
        let timers = pair.entries[1][0].timers.expect("operational");
        assert_eq!(timers.keepalive_timeout, send_timeout);
    }
}

/// While contexts wait, no peer is asked: one that is silent would have its context look for another pair.
#[test]
fn peers_are_told_once_no_context_waits_and_at_a_bounded_pace() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let one = pair.hosts[0].snapshot().next().expect("a context");
    let mut host = Contexts::new(Config::default(), [9; 32], pair.now);
    host.handle_local(&local_state(0), pair.now);
    let snapshots = (0..UPDATE_BURST + 50).map(|n| {
        let peer = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, u16::try_from(n).expect("fits"));
        ContextSnapshot {
            id: ContextId(n),
            key: Key::of(UlidPair::new(one.key.ulids.local, peer.into())),
            local_tag: ContextTag::from_bits(u64::from(n)),
            locators: LocatorPair::new(one.locators.local, peer.into()),
            peer: PeerSet { locators: (&[peer.into()]).into(), ..one.peer.clone() },
            ..one.clone()
        }
    });
    host.handle_waiting(Waiting::new(snapshots.collect(), [3; 16]));
    let sent = |host: &mut Contexts| core::iter::from_fn(|| host.poll_transmit()).count();
    host.take_over(UPDATE_BURST as usize, pair.now);
    host.handle_timeout(pair.now + UPDATE_INTERVAL);
    assert_eq!(sent(&mut host), 0);
    host.take_over(50, pair.now);
    assert_eq!(sent(&mut host), UPDATE_BURST as usize);
    host.handle_timeout(pair.now + UPDATE_INTERVAL * 10);
    assert_eq!(sent(&mut host), 10);
    host.handle_timeout(pair.now + UPDATE_INTERVAL * 50);
    assert_eq!(sent(&mut host), 40);
}

/// The preferences of side 0 that side 1 knows.
fn said(pair: &Pair) -> Vec<LocatorPreference> {
    let snapshot = pair.hosts[1].snapshot().next().expect("a context");
    snapshot.peer.preferences.iter().collect()
}

/// A pair that has moved to the second locators of both sides. Then the locators of side 0 in `gone` go, and side 1
/// hears of that. From then on all messages of side 1 are lost.
fn withdrawn(gone: &[usize]) -> Pair {
    let mut pair = Pair::new();
    pair.trigger(0);
    let [own, peers] = pair.locators.clone();
    for (&one, &other) in own.iter().flat_map(|own| peers.iter().map(move |peer| (own, peer))) {
        if (one, other) != (own[1], peers[1]) {
            pair.dead.extend([(one, other), (other, one)]);
        }
    }
    pair.send_expired(0);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.entries[1][0].current.pair, LocatorPair::new(peers[1], own[1]));
    let mut local = local_state(0);
    let is_left = |at: &usize| !gone.contains(at);
    local.usable = (0..2).filter(is_left).map(|at| own[at]).collect();
    let mut addresses = local.proof.addresses().clone();
    addresses.present.clone_from(&local.usable);
    local.proof = LocalProof::new(2, addresses, &[], [0; 32]);
    pair.tell(0, &local);
    prove_list(&mut pair);
    pair.drain(1);
    pair.dead = peers.iter().flat_map(|&peer| own.iter().map(move |&own| (peer, own))).collect();
    pair.run(Duration::from_secs(5));
    pair
}

#[test]
fn a_context_goes_on_by_a_pair_whose_peer_locator_has_been_withdrawn() {
    let mut pair = withdrawn(&[1]);
    let before = pair.entries[1][0].clone();
    assert!(!before.peer_locators.contains(&before.current.pair.peer), "there was no other way");
    pair.restart(1, config(Duration::from_secs(2)));
    pair.settle();
    assert_eq!(pair.entries[1][0].current.pair, before.current.pair);
    assert!(pair.entries[1][0].timers.is_none(), "it looks for another pair");
    pair.dead.clear();
    pair.run(Duration::from_secs(10));
    for side in 0..2 {
        let entry = &pair.entries[side][0];
        assert!(entry.timers.is_some(), "side {side}");
        assert!(entry.peer_locators.contains(&entry.current.pair.peer), "side {side}");
    }
}
