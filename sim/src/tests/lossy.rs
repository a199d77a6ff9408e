//! The ISP of the ULIDs dies, and the only other ISP of the host loses packets in both directions (decision 214).

use std::ops::Range;
use std::time::Duration;

use super::adaptive::plan;
use super::seconds;
use crate::outcome::Rule;
use crate::plan::{Chance, Change, Direction, Kind, Pace, Plan, Port, What};
use crate::rng::Rng;
use crate::{run, trace};

const PACE: Pace = Pace { octets: 200, interval: Duration::from_millis(20) };
const BOTH_WAYS: Kind = Kind::Datagrams { pace: PACE, both_ways: true };
/// Time between the cut and the end of the run.
const AFTER: Duration = seconds(60);

/// Any of the two hosts loses the uplink of its ULID, and its other uplink loses `percent` of the packets in each
/// direction.
fn lossy(seed: u64, rtt: u64, percent: u32, kind: Kind) -> Plan {
    let mut rng = Rng::new(seed, 214);
    let mut plan = plan(kind, Duration::from_millis(rtt));
    plan.hosts.iter_mut().for_each(|host| host.send_timeout = seconds(10));
    let one = &mut plan.workloads[0];
    (one.from.uplink, one.to.uplink) = (rng.index(2), rng.index(2));
    let dead = if rng.below(2) == 0 { one.from } else { one.to };
    let other = Port { uplink: 1 - dead.uplink, ..dead };
    let at = seconds(20) + rng.duration(seconds(10));
    let before = [seconds(0), seconds(10)][rng.index(2)];
    let loss = What::Loss { uplink: other, loss: Chance::percent(percent) };
    plan.changes = vec![
        Change { at: at - before, what: loss },
        Change { at, what: What::Cut { uplink: dead, direction: Direction::Both } },
    ];
    (plan.duration, plan.is_full_length) = (at + AFTER, true);
    plan
}

/// The longest time without a packet in either direction.
fn dark(seed: u64, plan: &Plan) -> Duration {
    let outcome = run(seed, plan);
    let broken = outcome.violations.iter().find(|one| one.rule != Rule::Recovery);
    assert_eq!(broken, None, "seed {seed}\n{}", trace(seed, plan));
    outcome.workloads[0]
        .longest_gaps
        .iter()
        .flatten()
        .map(|gap| gap.to - gap.from)
        .max()
        .unwrap_or_default()
}

/// The round trips of probes succeed once in four times, half of the pairs are dead, and no message answers the last
/// one of an exploration.
#[test]
fn datagrams_both_ways_are_seldom_dark_for_long_on_a_path_that_loses_half_of_them() {
    let mut late = Vec::new();
    for rtt in [20, 160] {
        for seed in 0..SEEDS {
            let dark = dark(seed, &lossy(seed, rtt, 50, BOTH_WAYS));
            if dark > seconds(5) {
                late.push((dark, rtt, seed));
            }
        }
    }
    assert!(late.len() <= MOST_LATE, "{}: {late:?}", late.len());
}

#[test]
fn datagrams_both_ways_move_at_once_to_a_path_that_loses_a_fifth_of_them() {
    for rtt in [20, 160] {
        for seed in 0..SEEDS {
            let dark = dark(seed, &lossy(seed, rtt, 20, BOTH_WAYS));
            assert!(dark <= seconds(3), "{rtt} ms, seed {seed}: {dark:?}");
        }
    }
}

/// Requests with answers, by hosts of which each has two ISPs, or, if `is_single`, one of them one. Gives the times in the
/// dark, the longest first, with round trip, form and seed.
fn dark_requests(seeds: Range<u64>, percent: u32) -> Vec<(Duration, u64, bool, u64)> {
    let mut darks = Vec::new();
    for (rtt, is_single) in [(20, false), (20, true), (160, false), (160, true)] {
        for seed in seeds.clone() {
            let interval = Duration::from_millis(20 + seed % 4 * 10);
            let kind = Kind::Requests { pace: Pace { interval, ..PACE } };
            let mut plan = lossy(seed, rtt, percent, kind);
            if is_single {
                leave_one_uplink(&mut plan);
            }
            darks.push((dark(seed, &plan), rtt, is_single, seed));
        }
    }
    darks.sort_by(|one, other| other.cmp(one));
    darks
}

/// The host whose ISPs work has only the uplink of its ULID.
fn leave_one_uplink(plan: &mut Plan) {
    let What::Cut { uplink: dead, .. } = plan.changes[1].what else { unreachable!() };
    let one = &mut plan.workloads[0];
    let other = if one.from.host == dead.host { &mut one.to } else { &mut one.from };
    other.uplink = 0;
    plan.hosts[other.host].uplinks.truncate(1);
}

fn over(darks: &[(Duration, u64, bool, u64)], most: Duration) -> usize {
    darks.iter().filter(|one| one.0 > most).count()
}

/// A server sends nothing by itself, so a request that is lost is an answer that does not come (decision 221).
#[test]
fn requests_are_dark_for_less_than_five_seconds_on_a_path_that_loses_three_of_ten() {
    let darks = dark_requests(REQUESTS, 30);
    assert!(over(&darks, seconds(2)) <= 4 && over(&darks, seconds(5)) == 0, "{:?}", &darks[..12]);
}

#[test]
fn requests_are_seldom_dark_for_long_on_a_path_that_loses_half_of_them() {
    let darks = dark_requests(REQUESTS, 50);
    assert!(over(&darks, seconds(2)) <= 40 && over(&darks, seconds(5)) <= 8, "{:?}", &darks[..40]);
}

#[test]
#[ignore = "a measurement: the figures of decision 221"]
fn figures_of_requests() {
    for (seeds, percent) in [(REQUESTS, 30), (REQUESTS, 50), (OTHERS, 30), (OTHERS, 50)] {
        let darks = dark_requests(seeds.clone(), percent);
        let [two, five, ten] = [2, 5, 10].map(|most| over(&darks, seconds(most)));
        let (runs, longest) = (darks.len(), darks[0]);
        println!(
            "{seeds:?}, {percent} %: {two}, {five} and {ten} of {runs} over 2, 5 and 10 s, {longest:?}"
        );
    }
}

/// Of each of four families.
const REQUESTS: Range<u64> = 1_000..1_100;
const OTHERS: Range<u64> = 2_000..2_150;
const SEEDS: u64 = 40;
/// Of 80 runs.
const MOST_LATE: usize = 8;
