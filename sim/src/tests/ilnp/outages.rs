//! ISPs that fail silently: the one in use at both ends, or all of a host, of which one works again.

use std::time::Duration;

use moorline_datapath::ilnp::USED_INTERVAL;

use super::{IlnpChange, IlnpHost, IlnpPlan, KINDS, clean, plan};
use crate::rng::Rng;
use crate::tests::first_seed;

/// Two hosts have the same two ISPs, and the one in use fails: for both directions, or for one. The hosts prefer the ISP that
/// fails, or none.
#[test]
fn a_session_leaves_the_isp_of_both_ends_within_three_seconds() {
    for from in [&[0, 1][..], &[0], &[1]] {
        let pause = |seed| {
            let mut rng = Rng::new(seed, 50);
            let mut plan = plan(seed, 60);
            plan.traffic = KINDS[rng.index(KINDS.len())];
            plan.delay = Duration::from_millis(1 + rng.below(40));
            let prefers_none = rng.below(2) == 0;
            plan.hosts = [IlnpHost { prefers_none, ..plan.hosts[0] }; 2];
            let gain = |host| (Duration::from_secs(5), IlnpChange::Gain { host, locator: 1 });
            let at = Duration::from_secs(20) + rng.duration(Duration::from_secs(10));
            let used = u8::from(!prefers_none);
            plan.changes = vec![gain(0), gain(1), (at, IlnpChange::CutIsp { locator: used, from })];
            (clean(&plan).longest_pause, seed)
        };
        let pauses: Vec<_> = (first_seed()..first_seed() + 30).map(pause).collect();
        let late: Vec<_> = pauses.iter().filter(|(pause, _)| *pause > LEAVES).collect();
        assert!(late.is_empty(), "packets of {from:?}: {late:?}");
    }
}

const LEAVES: Duration = Duration::from_secs(3);

/// Locators live for an hour in a Locator Update, and nothing has happened meanwhile.
#[test]
fn a_session_that_is_older_than_the_lifetime_of_its_locators_leaves_a_dead_isp() {
    for (seed, traffic) in (first_seed()..).zip(KINDS) {
        for cut in 0..2 {
            let gain = |host| (Duration::from_secs(5), IlnpChange::Gain { host, locator: 1 });
            let cut = IlnpChange::CutIsp { locator: cut, from: &[0, 1] };
            let at = Duration::from_secs(65 * 60);
            let prefers_none = true;
            let plan = IlnpPlan {
                traffic,
                interval: Duration::from_millis(200),
                hosts: [IlnpHost { prefers_none, ..IlnpHost::default() }; 2],
                changes: vec![gain(0), gain(1), (at, cut)],
                ..plan(seed, at.as_secs() + 30)
            };
            let outcome = clean(&plan);
            assert!(outcome.longest_pause <= LEAVES, "{plan:?}: {:?}", outcome.longest_pause);
        }
    }
}

#[test]
fn while_payload_leaves_a_locator_that_works_again_is_found() {
    for (seed, traffic) in (0..).zip(KINDS.into_iter().cycle()).take(6) {
        let host = usize::from(seed % 2 == 0);
        let back = u8::from(seed % 4 < 2);
        for length in [15, 60, 65] {
            let gain = |host| (5, IlnpChange::Gain { host, locator: 1 });
            let cut = |locator| IlnpChange::Cut { host, locator };
            let heal = IlnpChange::Heal { host, locator: back };
            let changes = [gain(0), gain(1), (20, cut(1)), (40, cut(0)), (40 + length, heal)];
            let changes = changes.map(|(at, what)| (Duration::from_secs(at), what)).into();
            let outcome = clean(&IlnpPlan { traffic, changes, ..plan(seed, 160 + length) });
            let late = outcome.longest_pause.saturating_sub(Duration::from_secs(length));
            assert!(late <= AGAIN, "seed {seed}, {length} s: {late:?}");
        }
    }
}

/// Longest time until payload goes both ways again: each host asks at a report of use, goes through its pairs, and may
/// have to wait for another report because its correspondent has just shown itself.
const AGAIN: Duration = USED_INTERVAL.saturating_mul(2);

/// All locators of both hosts, or of one, die one after the other for this time. Then one of each host works again.
/// Returns that time as well.
fn both_dead(seed: u64, dead: Duration) -> (IlnpPlan, Duration) {
    let mut rng = Rng::new(seed, 178);
    let mut plan = plan(seed, 0);
    plan.traffic = KINDS[rng.index(KINDS.len())];
    plan.delay = Duration::from_millis(1 + rng.below(40));
    // Most hosts prefer none of their locators.
    plan.hosts = [0, 1].map(|_| IlnpHost { prefers_none: rng.below(4) > 0, ..plan.hosts[0] });
    let gain = |host| (Duration::from_secs(5), IlnpChange::Gain { host, locator: 1 });
    plan.changes = vec![gain(0), gain(1)];
    let gone = Duration::from_secs(40) + rng.duration(Duration::from_secs(10));
    let back = gone + dead;
    // The same ISP for both hosts, or another for each.
    let alone = u8::from(rng.below(2) == 0);
    let is_shared = rng.below(4) > 0;
    let hosts = [0..2, 0..1, 1..2][rng.index(3)].clone();
    for host in hosts {
        let first = u8::from(rng.below(2) == 0);
        let earlier = rng.duration(Duration::from_secs(20));
        let alone = if is_shared || host == 0 { alone } else { 1 - alone };
        plan.changes.push((gone - earlier, IlnpChange::Cut { host, locator: first }));
        plan.changes.push((gone, IlnpChange::Cut { host, locator: 1 - first }));
        plan.changes.push((back, IlnpChange::Heal { host, locator: alone }));
    }
    plan.duration = back + Duration::from_secs(40);
    (plan, back)
}

/// Each end has left pairs that are dead, and one of these pairs is the only one that works again.
#[test]
fn both_ends_follow_to_the_one_isp_that_is_back() {
    for length in [30, 60, 120] {
        let dead = Duration::from_secs(length);
        let late = |seed| {
            let (plan, back) = both_dead(seed, dead);
            let outcome = clean(&plan);
            let is_silent = outcome.pause_at_end >= Duration::from_secs(1);
            let end = if is_silent { plan.duration } else { outcome.last_pause_at };
            (end.saturating_sub(back), seed)
        };
        let all = (first_seed()..first_seed() + BOTH_DEAD_SEEDS).map(late);
        let late: Vec<_> = all.filter(|(late, _)| *late > BACK).collect();
        assert!(late.is_empty(), "{length} s: {late:?}");
    }
}

/// Bound of decision 180 for a context of Shim6 in the same case.
const BACK: Duration = Duration::from_secs(5);
const BOTH_DEAD_SEEDS: u64 = 40;
