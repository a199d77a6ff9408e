//! Parts beyond RFC 5534: standby paths, local events, suspicions.

use moorline_datapath::shim6::FailureHint;

use super::*;
use crate::{Cause, Profile, Readiness};

impl Pair {
    /// Two hosts with the default profile, whose contexts have standby paths that work.
    pub(super) fn adaptive() -> Self {
        let mut config = Config { profile: Profile::default(), ..Config::default() };
        config.shim6.send_timeout = Duration::from_secs(2);
        let mut pair = Self::with_config([local_state(0), local_state(1)], &config);
        pair.trigger(0);
        pair.traffic();
        pair
    }

    /// Payload comes in at both ends, in all contexts.
    pub(super) fn traffic(&mut self) {
        for side in 0..2 {
            let watched = self.entries[side].iter().filter(|entry| entry.watch != 0);
            let reports: Vec<_> =
                watched.map(|entry| Report::Received { context: entry.id, at: self.now }).collect();
            for report in reports {
                self.hosts[side].handle_report(report, self.now);
            }
        }
        self.settle();
    }

    fn moves(&self, side: usize) -> Vec<Cause> {
        let moved = |event: &Event| {
            if let EventKind::Moved { cause, .. } = event.kind { Some(cause) } else { None }
        };
        self.events[side].iter().filter_map(moved).collect()
    }

    fn disjoint(&self, side: usize) -> LocatorPair {
        LocatorPair::new(self.locators[side][1], self.locators[1 - side][1])
    }
}

#[test]
fn a_local_event_moves_all_contexts_before_a_packet_is_sent() {
    let mut pair = Pair::adaptive();
    let ulids = pair.ulids(0);
    pair.hosts[0].fork(ulids, pair.now).expect("room");
    pair.settle();
    pair.traffic();
    let mut left = local_state(0);
    left.usable.remove(0);
    pair.hosts[0].handle_local(&left, pair.now);
    pair.drain(0);
    assert_eq!(pair.entries[0][0].current.pair, pair.disjoint(0));
    assert_eq!(pair.moves(0), [Cause::LocatorGone; 2], "the fork as well");
    let gone = pair.locators[0][0];
    for other in pair.locators[1].clone() {
        pair.dead.extend([(gone, other), (other, gone)]);
    }
    pair.settle();
    assert_eq!(pair.entries[1][0].current.pair, pair.disjoint(1), "the peer has heard of it");
    assert_eq!(pair.moves(1), [Cause::ProbeExploring; 2]);
    assert!((0..2).all(|side| pair.entries[side].iter().all(|entry| entry.timers.is_some())));
}

#[test]
fn what_is_lost_is_left_before_anything_else_is_known() {
    let mut pair = Pair::adaptive();
    pair.hosts[0].handle_lost(&[pair.locators[0][0]], pair.now);
    pair.drain(0);
    assert_eq!(pair.entries[0][0].current.pair, pair.disjoint(0));
    pair.hosts[0].handle_local(&local_state(0), pair.now);
    pair.settle();
    assert!(pair.entries[0][0].timers.is_some());
}

#[test]
fn deprecated_addresses_are_left_gently() {
    let mut pair = Pair::adaptive();
    pair.hosts[0].handle_deprecated(&[pair.locators[0][0]], pair.now);
    pair.settle();
    assert_eq!(pair.moves(0), [Cause::Deprecated]);
    assert_eq!(pair.entries[1][0].current.pair, pair.ulids(1).as_locators(), "still valid");
}

#[test]
fn a_router_that_is_lost_is_left_in_one_batch_too() {
    let mut pair = Pair::adaptive();
    pair.hosts[0].handle_router_lost(&[pair.locators[0][0]], pair.now);
    pair.drain(0);
    assert_eq!(pair.entries[0][0].current.pair, pair.disjoint(0));
    assert_eq!(pair.moves(0), [Cause::LocalFailure]);
}

#[test]
fn contexts_with_the_same_peer_share_the_checks_of_a_standby() {
    let mut pair = Pair::adaptive();
    let ulids = pair.ulids(0);
    for _ in 0..8 {
        pair.hosts[0].fork(ulids, pair.now).expect("room");
        pair.settle();
    }
    pair.traffic();
    pair.run(Duration::from_secs(2));
    pair.traffic();
    pair.run(Duration::from_secs(1));
    let probes = |pair: &mut Pair| {
        let before = pair.probes;
        for _ in 0..70 {
            pair.run(Duration::from_secs(1));
            pair.traffic();
        }
        pair.probes - before
    };
    let sent = probes(&mut pair);
    assert!((8..=16).contains(&sent), "{sent}: one context asks and is answered, from each side");
}

#[test]
fn a_suspicion_moves_both_ends_to_the_standby() {
    let mut pair = Pair::adaptive();
    let entry = pair.entries[0][0].clone();
    assert!(entry.suspects);
    let (a, b) = (pair.locators[0][0], pair.locators[1][0]);
    pair.dead.extend([(a, b), (b, a)]);
    let suspected = suspected(entry.id, FailureHint::Retransmission, pair.now);
    pair.hosts[0].handle_report(suspected, pair.now);
    pair.settle();
    assert_eq!(pair.entries[0][0].current.pair, entry.current.pair, "its answer is not due yet");
    pair.run(Duration::from_millis(30));
    for side in 0..2 {
        assert_eq!(pair.entries[side][0].current.pair, pair.disjoint(side));
    }
    assert_eq!(pair.moves(0), [Cause::Suspicion]);
    assert!(pair.events[0].iter().any(|event| matches!(event.kind, EventKind::Suspected { .. })));
}

/// The standby path shares the peer's locator with the failing pair, because no other locator of the peer works.
#[test]
fn all_contexts_on_a_pair_that_fails_take_their_standby_paths() {
    let mut config = Config { profile: Profile::default(), ..Config::default() };
    config.shim6.send_timeout = Duration::from_secs(2);
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &config);
    let (a, b) = (pair.locators[0].clone(), pair.locators[1].clone());
    pair.dead.extend(a.iter().flat_map(|&own| [(own, b[1]), (b[1], own)]));
    pair.trigger(0);
    let ulids = pair.ulids(0);
    pair.hosts[0].fork(ulids, pair.now).expect("room");
    pair.settle();
    let beside = LocatorPair::new(a[1], b[0]);
    let contexts = [ContextId(0), ContextId(1)];
    let is_protected = |pair: &Pair, id| {
        let readiness = pair.hosts[0].readiness(id, pair.now);
        matches!(readiness, Some(Readiness::Protected { by, .. }) if by == beside)
    };
    while !contexts.iter().all(|id| is_protected(&pair, *id)) {
        pair.run(Duration::from_secs(1));
        pair.traffic();
    }
    pair.dead.extend([(a[0], b[0]), (b[0], a[0])]);
    let since = pair.now;
    pair.now = pair.now + Duration::from_secs(2);
    for context in contexts {
        pair.hosts[0].handle_report(Report::SendExpired { context, since }, pair.now);
    }
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.moves(0), [Cause::SendTimeout; 2], "before an answer to a probe");
    // The entry of the fork does not show its pair.
    assert_eq!(pair.entries[0][0].current.pair, beside);
}

#[test]
fn the_rfcs_profile_has_the_data_plane_suspect_nothing() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let entry = pair.entries[0][0].clone();
    assert!(!entry.suspects);
    assert_eq!(entry.watch, 0);
    let suspected = suspected(entry.id, FailureHint::Silence, pair.now);
    pair.hosts[0].handle_report(suspected, pair.now);
    pair.settle();
    assert_eq!(pair.probes, 0);
}

#[test]
fn trials_of_many_contexts_leave_room_for_explorations() {
    let mut config = Config { profile: Profile::default(), ..Config::default() };
    (config.probes_per_second, config.probe_burst) = (10, 20);
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &config);
    pair.trigger(0);
    let ulids = pair.ulids(0);
    for _ in 0..20 {
        pair.hosts[0].fork(ulids, pair.now).expect("room");
        pair.settle();
    }
    pair.run(Duration::from_secs(10));
    let before = pair.probes;
    for context in (0..20).map(ContextId) {
        pair.hosts[0].handle_report(suspected(context, FailureHint::Silence, pair.now), pair.now);
    }
    pair.settle();
    assert!(pair.probes - before <= 2 * 11, "{} with answers", pair.probes - before);
}

fn suspected(context: ContextId, hint: FailureHint, since: Instant) -> Report {
    Report::Suspected { context, hint, since, usual: Duration::ZERO }
}
