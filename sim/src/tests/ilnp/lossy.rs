//! The ISP in use dies silently, and the only other ISP loses packets in both directions (decision 215).

use std::time::Duration;

use super::{IlnpChange, IlnpHost, IlnpPlan, clean, plan};
use crate::rng::Rng;
use crate::tests::first_seed;

/// Time between the failure and the end of the run.
const AFTER: Duration = Duration::from_secs(60);

/// The ISP in use of both hosts, or of one, dies, and the other ISP of these hosts loses `percent` of the packets in each
/// direction.
fn lossy(seed: u64, rtt: u64, percent: u32) -> IlnpPlan {
    let mut rng = Rng::new(seed, 215);
    let prefers_none = rng.below(2) == 0;
    let hosts: &'static [usize] = [&[0, 1][..], &[0], &[1]][rng.index(3)];
    let at = Duration::from_secs(20) + rng.duration(Duration::from_secs(10));
    let before = Duration::from_secs(10 * rng.below(2));
    let used = u8::from(!prefers_none);
    let gain = |host| (Duration::from_secs(5), IlnpChange::Gain { host, locator: 1 });
    let weaken = IlnpChange::Weaken { hosts, locator: 1 - used, loss: percent * 10 };
    let cut = hosts.iter().map(|host| (at, IlnpChange::Cut { host: *host, locator: used }));
    let changes = [gain(0), gain(1), (at - before, weaken)].into_iter().chain(cut).collect();
    let base = plan(seed, 0);
    IlnpPlan {
        delay: Duration::from_millis(rtt / 2),
        interval: Duration::from_millis(20),
        hosts: [IlnpHost { prefers_none, ..base.hosts[0] }; 2],
        duration: at + AFTER,
        changes,
        ..base
    }
}

/// The longest time without a packet in either direction.
fn dark(plan: &IlnpPlan) -> Duration {
    let outcome = clean(plan);
    outcome.longest_pause.max(outcome.pause_at_end)
}

/// The pauses of all seeds that are longer than this, at both round trips.
fn late(percent: u32, longest: Duration) -> Vec<(Duration, u64, u64)> {
    let mut late = Vec::new();
    for rtt in [20, 160] {
        for seed in first_seed()..first_seed() + SEEDS {
            let dark = dark(&lossy(seed, rtt, percent));
            if dark > longest {
                late.push((dark, rtt, seed));
            }
        }
    }
    late
}

/// One of four questions by the only pair that works brings an answer.
#[test]
fn a_session_is_seldom_dark_for_long_on_an_isp_that_loses_half_of_the_packets() {
    let late = late(50, Duration::from_secs(8));
    assert!(late.len() <= MOST_LATE, "{}: {late:?}", late.len());
}

#[test]
fn a_session_leaves_for_an_isp_that_loses_three_in_ten_packets_within_six_seconds() {
    assert_eq!(late(30, Duration::from_secs(6)), []);
}

const SEEDS: u64 = 40;
/// Of 80 runs.
const MOST_LATE: usize = 8;
