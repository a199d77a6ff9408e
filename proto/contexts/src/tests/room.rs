//! Room in the table of contexts.

use super::*;
use crate::Removal;

/// Two hosts with a context that side 0 has begun. The table of side 1 is full with it.
fn full() -> Pair {
    let mut small = Config::default();
    small.shim6.max_contexts = 1;
    let locals = [local_state(0), local_state(1)];
    let mut pair = Pair::with_configs(locals, [Config::default(), small]);
    pair.trigger(0);
    assert_eq!(pair.entries[1].len(), 1);
    pair
}

/// Traffic of side 1 with somebody else deserves a context.
fn trigger_another(pair: &mut Pair) {
    let peer = Ipv6Addr::new(0x2a00, 0, 0, 0, 0, 0, 0, 1).into();
    let ulids = UlidPair::new(pair.ulids(1).local, peer);
    pair.hosts[1].handle_report(Report::Trigger { ulids }, pair.now);
    pair.drain(1);
}

#[test]
fn a_context_that_the_peer_never_uses_makes_room() {
    let mut pair = full();
    let ulids = pair.ulids(1);
    trigger_another(&mut pair);
    assert!(pair.entries[1].is_empty(), "the data plane has lost it");
    let kind = EventKind::Removed { removal: Removal::Evicted };
    assert!(pair.events[1].contains(&Event { context: ContextId(0), ulids, kind }));
    assert_eq!(pair.hosts[1].drops().of(DropReason::TableFull), 0);
}

#[test]
fn the_data_plane_reports_the_first_payload_and_then_the_context_stays() {
    let mut pair = full();
    let entry = pair.entries[1][0].clone();
    assert_ne!(entry.watch, 0);
    assert_eq!(pair.entries[0][0].watch, 0, "traffic of side 0 has triggered the context");
    let (context, at) = (entry.id, pair.now);
    pair.hosts[1].handle_report(Report::Received { context, at }, at);
    pair.drain(1);
    assert_eq!(pair.entries[1], [ContextEntry { watch: 0, ..entry }]);
    trigger_another(&mut pair);
    assert_eq!(pair.entries[1].len(), 1);
    assert_eq!(pair.hosts[1].drops().of(DropReason::TableFull), 1);
}

/// Payload goes to the peer alone, whose host answers by keepalives.
#[test]
fn a_context_whose_peer_sends_keepalives_stays() {
    let mut pair = full();
    let entry = pair.entries[1][0].clone();
    let context = pair.entries[0][0].id;
    pair.hosts[0].handle_report(Report::Received { context, at: pair.now }, pair.now);
    pair.hosts[0].handle_report(Report::KeepaliveDue { context }, pair.now);
    pair.settle();
    assert_eq!(pair.heard[1], 1, "a keepalive");
    assert_eq!(pair.entries[1], [ContextEntry { watch: 0, ..entry }]);
    trigger_another(&mut pair);
    assert_eq!(pair.entries[1].len(), 1);
}

#[test]
fn a_context_of_the_run_before_stays_if_traffic_has_used_it_or_it_has_moved() {
    let mut pair = full();
    let ulids = pair.ulids(1);
    let unused = pair.hosts[1].snapshot().next().expect("a context");
    let (context, at) = (ContextId(0), pair.now);
    pair.hosts[1].handle_report(Report::Received { context, at }, at);
    let used = pair.hosts[1].snapshot().next().expect("a context");
    let other = LocatorPair::new(pair.locators[1][1], pair.locators[0][1]);
    let moved = crate::ContextSnapshot { locators: other, ..unused.clone() };
    assert_eq!(unused.locators, ulids.as_locators());
    for (snapshot, is_kept) in [(unused, false), (used, true), (moved, true)] {
        let mut config = Config::default();
        config.shim6.max_contexts = 1;
        pair.hosts[1] = Contexts::new(config, [9; 32], pair.now);
        pair.entries[1].clear();
        pair.tell(1, &local_state(1));
        pair.hosts[1].restore(snapshot, pair.now).expect("restored");
        pair.drain(1);
        trigger_another(&mut pair);
        assert_eq!(pair.entries[1].len(), usize::from(is_kept));
    }
}
