//! Locators that a peer calls broken (RFC 5533 s5.15.3). Whoever knows the context tag and the generation of the peer's
//! list can forge the Update Request that says so.

use moorline_wire::LocatorPreference;

use super::*;
use crate::Profile;

const BROKEN: LocatorPreference =
    LocatorPreference { flags: LocatorPreference::BROKEN, priority: None, weight: None };

/// Payload comes in at both ends each half a second.
fn talk(pair: &mut Pair, halves: u32) {
    for _ in 0..halves {
        pair.run(Duration::from_millis(500));
        for side in 0..2 {
            let ids: Vec<_> = pair.entries[side].iter().map(|entry| entry.id).collect();
            for context in ids {
                let report = Report::Received { context, at: pair.now };
                pair.hosts[side].handle_report(report, pair.now);
            }
        }
        pair.settle();
    }
}

#[test]
fn a_locator_that_answers_is_kept_and_gone_back_to_whoever_calls_it_broken() {
    let profile = Profile { fail_back: Duration::from_secs(4), ..Profile::default() };
    let mut config = Config { profile, ..Config::default() };
    config.shim6.send_timeout = Duration::from_secs(2);
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &config);
    pair.trigger(0);
    talk(&mut pair, 4);
    let [first, second] = [pair.locators[1][0], pair.locators[1][1]];
    pair.hosts[1].set_preferences(&[(first, BROKEN)], pair.now);
    pair.settle();
    talk(&mut pair, 20);
    assert_eq!(pair.entries[0][0].current.pair.peer, first);
    let ulids = pair.ulids(0).as_locators();
    pair.dead.extend([(ulids.local, ulids.peer), (ulids.peer, ulids.local)]);
    pair.send_expired(0);
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.entries[0][0].current.pair.peer, second);
    pair.dead.clear();
    talk(&mut pair, 120);
    assert_eq!(pair.entries[0][0].current.pair, ulids, "back");
}

#[test]
fn a_locator_that_does_not_answer_is_left_when_the_peer_calls_it_broken() {
    let config = Config { profile: Profile::default(), ..Config::default() };
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &config);
    pair.trigger(0);
    talk(&mut pair, 4);
    let [first, second] = [pair.locators[1][0], pair.locators[1][1]];
    let ulids = pair.ulids(0).as_locators();
    // Our packets to the locator get lost, and the peer's own packets arrive.
    pair.dead.insert((ulids.local, ulids.peer));
    pair.hosts[1].set_preferences(&[(first, BROKEN)], pair.now);
    pair.settle();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.entries[0][0].current.pair.peer, second);
}
