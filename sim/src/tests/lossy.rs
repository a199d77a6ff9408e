//! The ISP of the ULIDs dies, and the only other ISP of the host loses packets in both directions (decision 214).

use std::time::Duration;

use super::adaptive::plan;
use super::seconds;
use crate::outcome::Rule;
use crate::plan::{Chance, Change, Direction, Kind, Pace, Plan, Port, What};
use crate::rng::Rng;
use crate::{run, trace};

const PACE: Pace = Pace { octets: 200, interval: Duration::from_millis(20) };
/// Time between the cut and the end of the run.
const AFTER: Duration = seconds(60);

/// Any of the two hosts loses the uplink of its ULID, and its other uplink loses `percent` of the packets in each
/// direction.
fn lossy(seed: u64, rtt: u64, percent: u32) -> Plan {
    let mut rng = Rng::new(seed, 214);
    let kind = Kind::Datagrams { pace: PACE, both_ways: true };
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
            let dark = dark(seed, &lossy(seed, rtt, 50));
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
            let dark = dark(seed, &lossy(seed, rtt, 20));
            assert!(dark <= seconds(3), "{rtt} ms, seed {seed}: {dark:?}");
        }
    }
}

const SEEDS: u64 = 40;
/// Of 80 runs.
const MOST_LATE: usize = 8;
