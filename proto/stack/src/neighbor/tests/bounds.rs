//! Floods (RFC 6583).

use super::*;

/// Talks to a neighbor that answers.
fn befriend(neighbors: &mut Neighbors, friend: Ipv6Addr, now: Instant) {
    neighbors.send(friend, packet(0), now).expect("room");
    let answer = advertisement(friend, "SO");
    neighbors.handle_advertisement(&answer, Some(MAC), now).expect("taken");
}

fn count(neighbors: &Neighbors, state: State, now: Instant) -> usize {
    neighbors.table.check();
    neighbors.iter(now).filter(|found| found.state == state).count()
}

#[test]
fn packets_to_invented_targets_push_out_only_each_other() {
    let mut neighbors = neighbors();
    for n in 0..100 {
        befriend(&mut neighbors, peer(n), at(0));
    }
    neighbors.handle_solicitation(PEER, MAC, at(0)).expect("room");
    for n in 0..20_000 {
        let now = at(1) + Duration::from_micros(n);
        let target = peer(1_000 + usize::try_from(n).expect("small"));
        neighbors.send(target, packet(1), now).expect("room");
        outputs(&mut neighbors);
    }
    assert_eq!(count(&neighbors, State::Incomplete, at(1)), MAX_INCOMPLETE);
    assert_eq!(count(&neighbors, State::Reachable, at(1)), 100);
    assert_eq!(state(&neighbors, at(1)), Some(State::Stale), "there is room in the table");
    let gone = 20_000 - u64::try_from(MAX_INCOMPLETE).expect("small");
    assert_eq!(neighbors.drops().of(Drop::NeighborLimit), gone);
    // The youngest are there, so a neighbor that answers at once is found in the flood.
    assert_eq!(neighbors.is_reachable(peer(1_000 + 19_999), at(2)), Some(false));
    assert_eq!(neighbors.is_reachable(peer(1_000 + 19_999 - MAX_INCOMPLETE), at(2)), None);
}

#[test]
fn solicitations_of_invented_sources_do_not_push_out_entries_in_use() {
    let mut neighbors = neighbors();
    for n in 0..100 {
        befriend(&mut neighbors, peer(n), at(0));
    }
    // The host answers each of them, so it uses their entries too.
    for n in 0..20_000 {
        let now = at(50) + Duration::from_micros(n);
        let source = peer(1_000 + usize::try_from(n).expect("small"));
        neighbors.handle_solicitation(source, OTHER_MAC, now).expect("room");
        neighbors.send(source, packet(1), now).expect("room");
        outputs(&mut neighbors);
    }
    assert_eq!(neighbors.iter(at(50)).count(), MAX_NEIGHBORS);
    for n in 0..100 {
        assert_eq!(neighbors.is_reachable(peer(n), at(50)), Some(true), "{n}");
    }
    // A newcomer has the time of some thousand strangers to answer, whatever its address is.
    let now = at(50) + millis(30);
    neighbors.send(PEER, packet(1), now).expect("room");
    for n in 0..3_000 {
        let source = peer(50_000 + n);
        neighbors.handle_solicitation(source, OTHER_MAC, now + millis(1)).expect("room");
        neighbors.send(source, packet(1), now + millis(1)).expect("room");
    }
    assert_eq!(state(&neighbors, now), Some(State::Incomplete));
    befriend(&mut neighbors, PEER, now + millis(2));
    assert_eq!(state(&neighbors, now + millis(2)), Some(State::Reachable));
    neighbors.table.check();
}

#[test]
fn forged_answers_do_not_make_invented_neighbors_worth_keeping() {
    let mut neighbors = neighbors();
    for n in 0..MAX_NEIGHBORS {
        neighbors.handle_solicitation(peer(n), OTHER_MAC, at(0)).expect("room");
        neighbors.send(peer(n), packet(1), at(0)).expect("room");
        let answer = advertisement(peer(n), "S");
        neighbors.handle_advertisement(&answer, Some(OTHER_MAC), at(0)).expect("taken");
        outputs(&mut neighbors);
    }
    assert_eq!(count(&neighbors, State::Reachable, at(0)), MAX_NEIGHBORS);
    befriend(&mut neighbors, PEER, at(1));
    assert_eq!(state(&neighbors, at(1)), Some(State::Reachable));
}

#[test]
fn a_newcomer_takes_the_place_of_the_least_worth() {
    let mut neighbors = neighbors();
    let [idle, unproven, unused] = [9_000, 9_001, 9_002].map(peer);
    befriend(&mut neighbors, idle, at(0));
    neighbors.send(unproven, packet(0), at(1)).expect("room");
    neighbors.handle_solicitation(unproven, MAC, at(1)).expect("room");
    neighbors.handle_solicitation(unused, MAC, at(2)).expect("room");
    for n in 3..MAX_NEIGHBORS {
        befriend(&mut neighbors, peer(n), at(70));
        outputs(&mut neighbors);
    }
    let left = |neighbors: &Neighbors| {
        [idle, unproven, unused].map(|old| neighbors.is_reachable(old, at(70)).is_some())
    };
    assert_eq!(left(&neighbors), [true; 3]);
    let expected = [[true, true, false], [false, true, false], [false, false, false]];
    for (n, expected) in expected.into_iter().enumerate() {
        befriend(&mut neighbors, peer(10_000 + n), at(70));
        assert_eq!(left(&neighbors), expected);
    }
    // All others are in use.
    assert_eq!(neighbors.send(PEER, packet(0), at(70)), Err(Drop::NeighborLimit));
    assert_eq!(neighbors.handle_solicitation(PEER, MAC, at(70)), Err(Drop::NeighborLimit));
    assert_eq!(neighbors.iter(at(70)).count(), MAX_NEIGHBORS);
    let later = at(71) + IN_USE;
    neighbors.send(PEER, packet(0), later).expect("the oldest has been idle for a minute");
    neighbors.table.check();
}

/// RFC 6583 s7.1.
#[test]
fn solicitations_that_the_host_answers_do_not_push_out_a_neighbor_that_it_has_just_begun_to_use() {
    let mut neighbors = neighbors();
    neighbors.handle_solicitation(PEER, MAC, at(0)).expect("room");
    neighbors.send(PEER, packet(1), at(0)).expect("room");
    for n in 0..5_000 {
        let (source, now) = (peer(n), at(1) + Duration::from_micros(n as u64));
        neighbors.handle_solicitation(source, OTHER_MAC, now).expect("room");
        neighbors.answer(source, packet(1), now).expect("room");
        outputs(&mut neighbors);
    }
    assert_eq!(state(&neighbors, at(2)), Some(State::Delay));
    assert_eq!(neighbors.iter(at(2)).count(), MAX_NEIGHBORS);
    neighbors.table.check();
}

/// RFC 6583 s7.1. The made-up neighbors send datagrams too, so the host uses their entries.
#[test]
fn a_router_in_use_stays_before_it_has_proven_that_it_exists() {
    for is_kept in [true, false] {
        let mut neighbors = neighbors();
        neighbors.handle_router(PEER, Some(MAC), at(0)).expect("room");
        neighbors.keep_router(PEER, is_kept, at(0));
        neighbors.send(PEER, packet(1), at(0)).expect("room");
        for n in 0..5_000 {
            neighbors.handle_solicitation(peer(n), OTHER_MAC, at(1)).expect("room");
            neighbors.send(peer(n), packet(1), at(1)).expect("room");
            outputs(&mut neighbors);
        }
        assert_eq!(state(&neighbors, at(2)).is_some(), is_kept);
        neighbors.table.check();
    }
}

/// RFC 4861 s7.2.2, RFC 6583 s7.1.
#[test]
fn a_scan_from_inside_sends_no_more_solicitations_than_its_rate() {
    let mut neighbors = neighbors();
    befriend(&mut neighbors, PEER, at(0));
    let mut sent = 0;
    for n in 0..100_000 {
        let now = at(60) + Duration::from_micros(n as u64 * 100);
        neighbors.send(peer(n), packet(1), now).expect("room");
        sent += outputs(&mut neighbors).len();
        sent += run(&mut neighbors, now)
            .iter()
            .filter(|(_, output)| matches!(output, Output::Solicit { .. }))
            .count();
    }
    let allowed = usize::try_from(10 * SOLICIT_RATE + SOLICIT_BURST).expect("small");
    assert!((allowed - 10..=allowed + 1).contains(&sent), "{sent}");
    assert!(neighbors.drops().of(Drop::SolicitationRate) >= 100_000 - allowed as u64);
    // Afterwards, and for a neighbor that the host knows, all is as ever.
    neighbors.send(PEER, packet(1), at(70)).expect("room");
    assert_eq!(run(&mut neighbors, at(75)).last(), Some(&(millis(75_000), solicit(Some(MAC)))));
}
