//! A router that the host's Neighbor Unreachability Detection has given up, and peers on the links of the host.

use moorline_types::{LocalRoutes, Prefix};

use super::*;
use crate::{Cause, Refusal};

/// Packets from the first address of side 0 get lost.
fn without_first_router() -> Pair {
    let mut pair = Pair::new();
    pair.trigger(0);
    for peer in pair.locators[1].clone() {
        pair.dead.insert((pair.locators[0][0], peer));
    }
    pair
}

//= rfc5534#3.2-1 (test)
#[test]
fn contexts_leave_a_lost_router_without_waiting_for_the_send_timeout() {
    let mut pair = without_first_router();
    let lost = pair.locators[0][0];
    let start = pair.now;
    pair.hosts[0].handle_router_lost(&[lost], pair.now);
    pair.settle();
    assert_eq!(pair.now, start, "no timer has run out");
    assert_eq!(pair.entries[0][0].current.pair.local, pair.locators[0][1]);
    let moved = |event: &&Event| matches!(event.kind, EventKind::Moved { .. });
    assert_eq!(pair.events[0].iter().filter(moved).count(), 1);
    assert!(pair.events[0].iter().any(|event| matches!(
        event.kind,
        EventKind::StateChanged { cause: Cause::LocalFailure, .. }
    )));
}

#[test]
fn a_lost_router_of_another_uplink_changes_nothing() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let other = pair.locators[0][1];
    let before = pair.entries[0].clone();
    pair.events[0].clear();
    pair.hosts[0].handle_router_lost(&[other], pair.now);
    pair.settle();
    assert_eq!((&pair.entries[0], &pair.events[0]), (&before, &Vec::new()));
}

#[test]
fn a_router_that_was_lost_in_error_is_found_to_work() {
    let mut pair = Pair::new();
    pair.trigger(0);
    // In fact the other uplink is down.
    for peer in pair.locators[1].clone() {
        pair.dead.insert((pair.locators[0][1], peer));
    }
    let lost = pair.locators[0][0];
    pair.hosts[0].handle_router_lost(&[lost], pair.now);
    pair.settle();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.entries[0][0].current.pair.local, lost);
    assert!(pair.entries[0][0].timers.is_some(), "operational again");
}

/// Routes by which packets to each address of side 1 leave by one link of side 0, as to a neighbor on two links.
fn on_both_links(pair: &Pair) -> LocalRoutes {
    let [own, peers] = &pair.locators;
    let route = |at: usize| (Prefix::new(peers[at].0, 64), Vec::from([own[at]]));
    // A shorter prefix does not count.
    LocalRoutes([route(0), route(1), (Prefix::ALL, own.clone())].into())
}

#[test]
fn packets_to_a_neighbor_on_one_link_are_not_sent_from_an_address_of_another() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let [own, peers] = pair.locators.clone();
    // The first address is gone soon.
    let mut routes = on_both_links(&pair);
    routes.0.iter_mut().for_each(|(_, led)| led.retain(|led| *led != own[0]));
    pair.hosts[0].set_routes(routes);
    pair.hosts[0].handle_lost(&[], pair.now);
    // Only the path from the second address of side 0 to the first of side 1 works.
    for (from, to) in [(0, 0), (0, 1), (1, 1)] {
        pair.dead.insert((own[from], peers[to]));
    }
    pair.hosts[0].handle_lost(&own[..1], pair.now);
    pair.run(Duration::from_secs(60));
    let entry = |pair: &Pair| pair.entries[0][0].clone();
    let id = entry(&pair).id;
    let shown = pair.hosts[0].paths(id).into_iter().map(|path| path.pair);
    let straight = [0, 1].map(|n| LocatorPair::new(own[n], peers[n]));
    assert!(shown.eq(straight), "no other pair is shown");
    let astray = LocatorPair::new(own[1], peers[0]);
    assert_eq!(pair.hosts[0].check_pair(id, astray), Err(Refusal::Unrouted(astray)));
    assert_eq!(entry(&pair).timers, None, "it goes on looking for a pair");
    pair.hosts[0].set_routes(LocalRoutes::default());
    pair.hosts[0].handle_lost(&[], pair.now);
    pair.run(Duration::from_secs(60));
    assert_eq!(entry(&pair).current.pair, astray);
    assert!(entry(&pair).timers.is_some());
}

#[test]
fn a_context_without_a_usable_address_goes_on_from_its_ulid_if_the_peer_is_on_the_link() {
    let mut pair = without_first_router();
    let own = pair.locators[0].clone();
    pair.hosts[0].handle_router_lost(&own[..1], pair.now);
    pair.settle();
    let moved = pair.entries[0][0].clone();
    assert!(moved.is_moved());
    let mut lose_all = |routes: &[(u8, usize)]| {
        let peer = pair.locators[1][0].0;
        let route = |&(length, from): &(u8, usize)| (Prefix::new(peer, length), [own[from]].into());
        pair.hosts[0].set_routes(LocalRoutes(routes.iter().map(route).collect()));
        pair.hosts[0].handle_lost(&own, pair.now);
        pair.settle();
        pair.entries[0][0].clone()
    };
    assert!(lose_all(&[]).is_moved(), "the peer is no neighbor");
    assert!(lose_all(&[(48, 0), (64, 1)]).is_moved(), "nor by the link of the ULID");
    let back = lose_all(&[(64, 0)]);
    assert!(!back.is_moved() && back.paths.is_empty() && !back.suspects);
    assert!(pair.hosts[0].sends_by_ulids(back.id));
    pair.tell(0, &local_state(0));
    pair.settle();
    assert_eq!(pair.entries[0][0].current, moved.current, "a default route is back");
}

/// Both links lose their default routes, and then the second pair is the only one that works.
#[test]
fn contexts_of_neighbors_need_no_default_route() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let [own, peers] = pair.locators.clone();
    let before = pair.entries[0][0].clone();
    pair.events[0].clear();
    pair.hosts[0].set_routes(on_both_links(&pair));
    pair.hosts[0].handle_lost(&own, pair.now);
    pair.settle();
    let entry = pair.entries[0][0].clone();
    assert_eq!((entry.current, entry.timers), (before.current, before.timers));
    assert_eq!(pair.events[0], []);
    let paths = pair.hosts[0].paths(before.id);
    assert!(paths.len() == 2 && paths.iter().all(|path| path.is_usable), "{paths:?}");
    for (from, to) in [(own[0], peers[0]), (peers[0], own[0])] {
        pair.dead.insert((from, to));
    }
    pair.send_expired(0);
    pair.run(Duration::from_secs(2));
    let second = LocatorPair::new(own[1], peers[1]);
    assert_eq!(pair.entries[0][0].current.pair, second);
    assert_eq!(pair.entries[1][0].current.pair, second.reversed(), "the host answers probes");
}

/// The first link leads to the peer's second locator alone.
#[test]
fn a_pair_is_left_with_the_default_route_of_its_link_although_the_link_leads_to_another_locator() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let [own, peers] = pair.locators.clone();
    let id = pair.entries[0][0].id;
    let route = (Prefix::new(peers[1].0, 64), Vec::from([own[0]]));
    pair.hosts[0].set_routes(LocalRoutes([route].into()));
    pair.hosts[0].handle_lost(&own[..1], pair.now);
    pair.settle();
    let of_first = LocatorPair::new(own[0], peers[0]);
    assert_ne!(pair.entries[0][0].current.pair, of_first);
    assert_eq!(pair.hosts[0].check_pair(id, of_first), Err(Refusal::NotUsable(own[0])));
    assert_eq!(pair.hosts[0].check_pair(id, LocatorPair::new(own[0], peers[1])), Ok(()));
}

#[test]
fn a_pair_that_works_is_not_left_because_of_a_route() {
    let mut pair = without_first_router();
    let [own, peers] = pair.locators.clone();
    pair.hosts[0].handle_router_lost(&own[..1], pair.now);
    pair.settle();
    let moved = pair.entries[0][0].clone();
    // A host on the first link claims that all addresses of the peer are there.
    let astray = peers.iter().map(|peer| (Prefix::new(peer.0, 64), Vec::from([own[0]])));
    pair.hosts[0].set_routes(LocalRoutes(astray.collect()));
    pair.hosts[0].handle_lost(&[], pair.now);
    pair.settle();
    let after = pair.entries[0][0].clone();
    assert_eq!((after.current, after.timers), (moved.current, moved.timers));
}
