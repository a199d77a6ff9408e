//! A router that the host's Neighbor Unreachability Detection has given up.

use super::*;
use crate::Cause;

/// Nothing from the first address of side 0 gets through.
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
    // The other uplink is the one that does not work.
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
