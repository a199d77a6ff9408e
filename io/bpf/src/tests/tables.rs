//! Tests of the effects that user space has on the tables, and of those that it must not have.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use libbpf_rs::ProgramInput;
use moorline_datapath::shim6::{ContextEntry, ReapTimers, Report, Triggers, Update};
use moorline_types::{
    ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, Path, Ulid, UlidPair,
};

use super::can_run;
use super::harness::{ETHERNET, Harness};
use crate::index::Index;
use crate::skel::types;
use crate::tables::Table;
use crate::{Datapath, Error, Settings, convert, load};

pub(crate) const LOCAL: &str = "2001:db8:a::1";
pub(crate) const PEER: &str = "2001:db8:c::1";

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Path from this address of ours to this locator of the peer.
fn by(ulids: UlidPair, local: &str, peer: Locator) -> Path {
    Path::of(ulids, LocatorPair::new(Locator(address(local)), peer))
}

pub(crate) fn entry(id: u32, peer: &str) -> ContextEntry {
    let ulids = UlidPair::new(Ulid(address(LOCAL)), Ulid(address(peer)));
    ContextEntry {
        id: ContextId(id),
        ulids,
        local_tag: ContextTag::from_bits(0x1000 + u64::from(id)),
        peer_tag: ContextTag::from_bits(0x2000 + u64::from(id)),
        current: by(ulids, "2001:db8:b::1", ulids.peer.as_locator()),
        peer_locators: vec![Locator(address(peer))].into(),
        timers: Some(ReapTimers {
            send: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(3),
            keepalive_timeout: Duration::from_secs(15),
        }),
        watch: 5,
        idle: Duration::from_secs(300),
        suspects: false,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    }
}

fn harness() -> Harness {
    let harness = Harness::new(&Triggers::default());
    harness.set_local(address(LOCAL));
    harness.set_local(address("2001:db8:b::1"));
    harness.set_now(1);
    harness
}

#[test]
fn bound_sockets_of_an_address_that_is_gone_are_forgotten() {
    if !can_run("bound_sockets_of_an_address_that_is_gone_are_forgotten") {
        return;
    }
    let harness = harness();
    let bound = &harness.plane.tables.bound;
    let key = |text: &str| convert::address(address(text).octets());
    for text in [LOCAL, "2001:db8:b::1", "2001:db8:f::1"] {
        bound.uplinks.insert(&key(text), &7).unwrap();
    }
    harness.plane.unset_local(address("2001:db8:b::1")).unwrap();
    assert_eq!(bound.uplinks.keys().len(), 3, "the uplink may be back in a moment");
    harness.plane.forget_bound().unwrap();
    assert_eq!(bound.uplinks.keys().len(), 1, "one is gone, one was never ours");
    assert!(bound.uplinks.lookup(&key(LOCAL)).unwrap().is_some() && bound.is_known());
    harness.plane.unset_local(address(LOCAL)).unwrap();
    harness.plane.forget_bound().unwrap();
    assert!(bound.uplinks.keys().is_empty() && !bound.is_known(), "no packet is looked up");
}

/// A UDP packet with this many octets behind the IPv6 header.
pub(crate) fn packet(from: &str, to: &str, octets: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
    packet[4..6].copy_from_slice(&octets.to_be_bytes());
    packet.extend(address(from).octets());
    packet.extend(address(to).octets());
    packet.resize(40 + usize::from(octets), 7);
    packet
}

#[test]
fn what_was_put_in_is_read_back() {
    if !can_run("what_was_put_in_is_read_back") {
        return;
    }
    let mut harness = harness();
    let quiet = ContextEntry { timers: None, watch: 0, ..entry(9, "2001:db8:e::1") };
    for entry in [entry(4, PEER), quiet.clone()] {
        harness.apply(&Update::Upsert(entry));
    }
    assert_eq!(harness.plane.contexts().unwrap(), [entry(4, PEER), quiet.clone()]);
    let locals =
        [("2001:db8:a::1", 1), ("2001:db8:b::1", 1)].map(|(text, index)| (address(text), index));
    assert_eq!(harness.plane.locals().unwrap(), locals);

    // The context is changed in place: another tag, other locators.
    let changed = ContextEntry {
        local_tag: ContextTag::from_bits(77),
        peer_locators: (&[Locator(address("2001:db8:d::1")), Locator(address("2001:db8:e::1"))])
            .into(),
        ..entry(4, PEER)
    };
    harness.apply(&Update::Upsert(changed.clone()));
    assert_eq!(harness.plane.contexts().unwrap(), [changed, quiet.clone()]);
    assert_eq!(harness.plane.contexts.by_tag.len(), 2);

    harness.apply(&Update::Remove { context: ContextId(4) });
    assert_eq!(harness.plane.contexts().unwrap(), [quiet]);
    harness.apply(&Update::Remove { context: ContextId(9) });
    assert_eq!(harness.plane.contexts.by_ulids.len(), 0);
    assert_eq!(harness.plane.contexts.by_tag.len(), 0);
}

/// The `n`th locator of the peer, its ULID first.
fn locator(n: u16) -> Locator {
    Locator(Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 1 + n))
}

fn from(locator: Locator, tag: u64) -> Vec<u8> {
    let mut packet = packet(&locator.to_string(), LOCAL, 48);
    packet[6] = 140;
    packet[40..48].copy_from_slice(&(0x1100_8000_0000_0000 | tag).to_be_bytes());
    packet[41] = 0;
    packet
}

#[test]
fn all_peer_locators_are_known_wherever_they_found_room() {
    if !can_run("all_peer_locators_are_known_wherever_they_found_room") {
        return;
    }
    let mut harness = harness();
    let count = |harness: &Harness| {
        harness.set_now(1);
        let tag = entry(4, PEER).local_tag.bits();
        let accepted = (0..40)
            .filter(|&n| harness.run("uplink_ingress", &from(locator(n), tag), 0).action != 2);
        accepted.collect::<Vec<u16>>()
    };
    // Lists with and without the ULID, and a current locator from which the peer may not send.
    for (first, current) in [(0, 0), (0, 20), (1, 1), (1, 32), (2, 39)] {
        for len in [1, 2, 3, 4, 7, 8, 32] {
            let all: Vec<_> = (first..first + len).collect();
            let entry = entry(4, PEER);
            let entry = ContextEntry {
                current: by(entry.ulids, LOCAL, locator(current)),
                peer_locators: all.iter().copied().map(locator).collect(),
                ..entry
            };
            harness.apply(&Update::Upsert(entry.clone()));
            assert_eq!(harness.plane.contexts().unwrap(), [entry], "{first} {current} {len}");
            assert_eq!(count(&harness), all, "{first} {current} {len}");
        }
    }
    harness.apply(&Update::Remove { context: ContextId(4) });
    assert_eq!(harness.plane.contexts.more_peers.keys().len(), 0);
}

/// A context with as many locators as a peer may have, and with a path besides its ULIDs.
fn large(id: u32) -> ContextEntry {
    let entry = entry(id, &peer(id));
    let current = by(entry.ulids, LOCAL, entry.ulids.peer.as_locator());
    let paths = vec![by(entry.ulids, "2001:db8:b::1", current.pair.peer)].into();
    let peer_locators = (0..32).map(locator).collect::<Vec<_>>().into();
    ContextEntry { current, peer_locators, paths, congestion: true, ..entry }
}

fn peer(id: u32) -> String {
    Ipv6Addr::from(u128::from(address(PEER)) + u128::from(id)).to_string()
}

fn plane(max_contexts: u32) -> Datapath {
    let settings = Settings { max_contexts, max_flows: 64, ..Settings::default() };
    Datapath::open_unpinned(&settings, true).unwrap()
}

/// Numbers of entries in the tables that find contexts, and in the tables beside them.
fn left(plane: &Datapath) -> [usize; 6] {
    let contexts = &plane.contexts;
    let [ulids, tags, quotes] =
        [&contexts.by_ulids, &contexts.by_tag, &contexts.by_quote].map(Index::len);
    let beside = [
        contexts.more_peers.keys().len(),
        contexts.paths.keys().len(),
        contexts.congestions.keys().len(),
    ];
    let [more_peers, paths, congestions] = beside;
    [ulids, tags, quotes, more_peers, paths, congestions]
}

/// The core may have put payload on the ULIDs as a makeshift, and another run must not take them for its current pair.
#[test]
fn the_pair_in_use_is_told_unless_it_is_a_makeshift_or_withdrawn() {
    let told = |entry: &ContextEntry| {
        convert::pair_in_use(&convert::context(entry, 1)).map(|found| found.pair)
    };
    let moved = entry(1, PEER);
    let pair = moved.current.pair;
    assert_eq!(told(&moved), Some(pair));
    assert_eq!(told(&ContextEntry { timers: None, ..moved.clone() }), Some(pair));
    let ulids = moved.ulids.as_locators();
    let back = ContextEntry { current: Path::of(moved.ulids, ulids), ..moved.clone() };
    assert_eq!(told(&back), Some(ulids));
    assert_eq!(told(&ContextEntry { timers: None, ..back.clone() }), None);
    let explores =
        back.timers.map(|known| ReapTimers { keepalive_timeout: Duration::ZERO, ..known });
    assert_eq!(told(&ContextEntry { timers: explores, ..back }), None);
    let other = by(moved.ulids, "2001:db8:b::1", Locator(address("2001:db8:d::1")));
    assert_eq!(told(&ContextEntry { current: other, ..moved }), None, "the list lacks it");
}

#[test]
fn all_contexts_may_have_all_locators_and_leave_nothing() {
    if !can_run("all_contexts_may_have_all_locators_and_leave_nothing") {
        return;
    }
    let mut plane = plane(256);
    for id in 0..256 {
        plane.apply(&Update::Upsert(large(id)), Instant::ZERO).unwrap();
    }
    assert_eq!(left(&plane), [256; 6]);
    for id in 0..256 {
        plane.apply(&Update::Remove { context: ContextId(id) }, Instant::ZERO).unwrap();
    }
    assert_eq!(left(&plane), [0; 6]);
}

/// Fills a table of a plane for one context with foreign entries, or makes room again.
fn fill(plane: &Datapath, name: &'static str, is_full: bool) {
    let more_peers = &plane.contexts.more_peers;
    match (name, is_full) {
        ("more_peers", true) => more_peers.insert(&9, &types::more_peers::default()).unwrap(),
        ("more_peers", false) => more_peers.remove(&9).unwrap(),
        _ => {
            let index = Table::<u32, types::bucket>::of(&plane.object, name).unwrap();
            let mut bucket = index.lookup(&0).unwrap().unwrap();
            let (from, to) = if is_full { (0, 9) } else { (9, 0) };
            bucket.cell.iter_mut().filter(|cell| **cell == from).for_each(|cell| *cell = to);
            index.insert(&0, &bucket).unwrap();
        }
    }
}

#[test]
fn of_a_context_that_there_is_no_room_for_nothing_is_left() {
    if !can_run("of_a_context_that_there_is_no_room_for_nothing_is_left") {
        return;
    }
    for table in ["more_peers", "by_tag", "by_ulids"] {
        let mut plane = plane(1);
        fill(&plane, table, true);
        let refused = plane.apply(&Update::Upsert(large(0)), Instant::ZERO);
        assert!(refused.is_err(), "{table}");
        assert_eq!(plane.contexts().unwrap(), [], "{table}");
        fill(&plane, table, false);
        assert_eq!(left(&plane), [0; 6], "{table}");
        plane.apply(&Update::Upsert(large(0)), Instant::ZERO).unwrap();
        assert_eq!(plane.contexts().unwrap(), [large(0)], "{table}");
    }
}

/// The core forgets the context too: plain traffic is better than traffic by a pair that has been left.
#[test]
fn a_context_that_cannot_change_goes() {
    if !can_run("a_context_that_cannot_change_goes") {
        return;
    }
    for table in ["more_peers", "by_tag"] {
        let mut plane = plane(1);
        plane.apply(&Update::Upsert(entry(0, PEER)), Instant::ZERO).unwrap();
        fill(&plane, table, true);
        let changed = ContextEntry { local_tag: ContextTag::from_bits(77), ..large(0) };
        let refused = plane.apply(&Update::Upsert(changed.clone()), Instant::ZERO);
        assert!(refused.is_err(), "{table}");
        assert_eq!(plane.contexts().unwrap(), [], "{table}");
        fill(&plane, table, false);
        assert_eq!(left(&plane), [0; 6], "{table}");
        plane.apply(&Update::Upsert(changed.clone()), Instant::ZERO).unwrap();
        assert_eq!(plane.contexts().unwrap(), [changed], "{table}");
    }
}

#[test]
fn a_context_is_taken_with_fewer_paths_where_there_is_no_room_for_all() {
    if !can_run("a_context_is_taken_with_fewer_paths_where_there_is_no_room_for_all") {
        return;
    }
    let mut plane = plane(4);
    plane.apply(&Update::Upsert(large(0)), Instant::ZERO).unwrap();
    // One entry is left free.
    let filled = types::sizes::MAX_ALL_PATHS.0 - 2;
    let key = |number| types::path_key { slot: 9, number };
    for number in 0..filled {
        plane.contexts.paths.insert(&key(number), &types::path::default()).unwrap();
    }
    let mut paths = large(1).paths.to_vec();
    paths.push(by(large(1).ulids, "2001:db8:b::1", locator(2)));
    plane
        .apply(&Update::Upsert(ContextEntry { paths: paths.into(), ..large(1) }), Instant::ZERO)
        .unwrap();
    assert_eq!(plane.contexts().unwrap(), [large(0), large(1)]);
    for id in [0, 1] {
        plane.apply(&Update::Remove { context: ContextId(id) }, Instant::ZERO).unwrap();
    }
    (0..filled).for_each(|number| plane.contexts.paths.remove(&key(number)).unwrap());
    assert_eq!(left(&plane), [0; 6]);
}

#[test]
fn a_full_table_finds_every_context() {
    if !can_run("a_full_table_finds_every_context") {
        return;
    }
    let mut plane = plane(5000);
    for id in 0..5000 {
        plane.apply(&Update::Upsert(entry(id, &peer(id))), Instant::ZERO).unwrap();
    }
    // Every third context makes room for another one.
    for id in (0..5000).step_by(3) {
        plane.apply(&Update::Remove { context: ContextId(id) }, Instant::ZERO).unwrap();
        plane.apply(&Update::Upsert(entry(id, &peer(id + 10_000))), Instant::ZERO).unwrap();
    }
    let indices = [&plane.contexts.by_ulids, &plane.contexts.by_tag, &plane.contexts.by_quote];
    assert_eq!(indices.map(Index::len), [5000; 3]);
    for id in 0..5000 {
        let peer = if id % 3 == 0 { peer(id + 10_000) } else { peer(id) };
        let frame = [&ETHERNET, packet(&peer, LOCAL, 20).as_slice()].concat();
        let input = ProgramInput { data_in: Some(&frame), ..ProgramInput::default() };
        load::run(&plane.object, "uplink_ingress", input).unwrap();
        assert_eq!(plane.counters(ContextId(id)).unwrap().rx_packets, 1, "context {id}");
    }
    for id in 0..5000 {
        plane.apply(&Update::Remove { context: ContextId(id) }, Instant::ZERO).unwrap();
    }
    let indices = [&plane.contexts.by_ulids, &plane.contexts.by_tag, &plane.contexts.by_quote];
    assert_eq!(indices.map(Index::len), [0; 3]);
}

#[test]
fn what_the_tables_cannot_hold_is_refused() {
    if !can_run("what_the_tables_cannot_hold_is_refused") {
        return;
    }
    let mut harness = harness();
    let beyond = harness.plane.apply(&Update::Upsert(entry(64, PEER)), Instant::ZERO);
    assert!(matches!(beyond, Err(Error::TooManyContexts(ContextId(64)))), "{beyond:?}");
    let locators = (0..33).map(|index| Locator(Ipv6Addr::from(index))).collect();
    let many = ContextEntry { peer_locators: locators, ..entry(1, PEER) };
    let many = harness.plane.apply(&Update::Upsert(many), Instant::ZERO);
    assert!(matches!(many, Err(Error::TooManyLocators(ContextId(1)))), "{many:?}");
    let unknown = harness.plane.apply(&Update::Remove { context: ContextId(3) }, Instant::ZERO);
    assert!(matches!(unknown, Err(Error::UnknownContext(ContextId(3)))), "{unknown:?}");
    assert_eq!(harness.plane.contexts().unwrap(), []);
}

#[test]
fn a_slot_starts_from_zero_and_late_reports_of_its_former_owner_are_left_out() {
    if !can_run("a_slot_starts_from_zero_and_late_reports_of_its_former_owner_are_left_out") {
        return;
    }
    let mut harness = harness();
    harness.apply(&Update::Upsert(entry(4, PEER)));
    harness.set_now(1_000);
    harness.run("uplink_ingress", &packet(PEER, LOCAL, 20), 0);
    harness.run("uplink_egress", &packet(LOCAL, PEER, 20), 0);
    assert_eq!(harness.plane.counters(ContextId(4)).unwrap().rx_packets, 1);
    // The report for `watch` waits in the ring while the slot gets another context.
    let other = "2001:db8:e::1";
    harness.apply(&Update::Upsert(entry(4, other)));
    assert_eq!(harness.reports(), []);
    assert_eq!(harness.plane.counters(ContextId(4)).unwrap(), Default::default());
    harness.run("uplink_ingress", &packet(other, LOCAL, 20), 0);
    let at = Instant::from_nanos(1_000);
    assert_eq!(harness.reports(), [Report::Received { context: ContextId(4), at }]);
}

#[test]
fn a_newer_context_of_the_same_addresses_keeps_its_index() {
    if !can_run("a_newer_context_of_the_same_addresses_keeps_its_index") {
        return;
    }
    let mut harness = harness();
    harness.apply(&Update::Upsert(entry(1, PEER)));
    harness.apply(&Update::Upsert(entry(2, PEER)));
    harness.apply(&Update::Remove { context: ContextId(1) });
    harness.run("uplink_ingress", &packet(PEER, LOCAL, 20), 0);
    assert_eq!(harness.plane.counters(ContextId(2)).unwrap().rx_packets, 1);
}

#[test]
fn a_full_ring_is_counted_and_the_trigger_tries_again() {
    if !can_run("a_full_ring_is_counted_and_the_trigger_tries_again") {
        return;
    }
    let harness = harness();
    harness.set_now(1_000);
    let mut sent = 0;
    let lost = || {
        let drops = harness.plane.drops().unwrap();
        drops.iter().find(|(reason, _)| *reason == DropReason::ReportLost).map(|(_, count)| *count)
    };
    // The ring of 256 KB holds some 4,000 reports.
    while lost().is_none() {
        let peer = Ipv6Addr::from(u128::from(address(PEER)) + sent);
        harness.run("uplink_egress", &packet(LOCAL, &peer.to_string(), 2100), 0);
        sent += 1;
        assert!(sent < 10_000, "the ring never filled");
    }
    assert_eq!(lost(), Some(1));
    assert_eq!(harness.reports().len() as u128, sent - 1);
    let last = Ipv6Addr::from(u128::from(address(PEER)) + sent - 1);
    harness.run("uplink_egress", &packet(LOCAL, &last.to_string(), 20), 0);
    let ulids = UlidPair::new(Ulid(address(LOCAL)), Ulid(last));
    assert_eq!(harness.reports(), [Report::Trigger { ulids }]);
}

/// The daemon hears of an address after the kernel has it, and connections use it meanwhile.
#[test]
fn traffic_of_an_address_that_becomes_ours_triggers() {
    if !can_run("traffic_of_an_address_that_becomes_ours_triggers") {
        return;
    }
    let harness = harness();
    harness.plane.unset_local(address(LOCAL)).unwrap();
    let sent = packet(LOCAL, PEER, 2100);
    for _ in 0..4 {
        harness.run("uplink_egress", &sent, 0);
    }
    assert_eq!(harness.reports(), []);
    harness.set_local(address(LOCAL));
    harness.run("uplink_egress", &sent, 0);
    let ulids = UlidPair::new(Ulid(address(LOCAL)), Ulid(address(PEER)));
    assert_eq!(harness.reports(), [Report::Trigger { ulids }]);
}
