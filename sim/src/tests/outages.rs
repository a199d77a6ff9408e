//! Both ISPs of a host fail, and one of them returns (decision 180).

use std::time::Duration;

use super::adaptive::{plan, sound};
use super::seconds;
use crate::plan::{Change, Direction, Kind, Pace, Plan, Port, What};

/// The first uplink of this host fails after 20 s and the second one 5 s later. One of them returns.
fn outage(kind: Kind, (host, back): (usize, usize), length: u64) -> (Plan, Duration) {
    let uplink = |uplink| Port { host, uplink };
    let cut = |one| What::Cut { uplink: uplink(one), direction: Direction::Both };
    let back = What::Heal { uplink: uplink(back) };
    let returns = seconds(25 + length);
    let changes = [(seconds(20), cut(0)), (seconds(25), cut(1)), (returns, back)];
    let mut plan = plan(kind, Duration::from_millis(40));
    plan.changes = changes.map(|(at, what)| Change { at, what }).into();
    plan.duration = returns + seconds(150);
    (plan, returns)
}

/// How long after the return of an ISP payload arrives again.
fn pause(seed: u64, (plan, returns): &(Plan, Duration)) -> Duration {
    let pause = sound(seed, plan).workloads[0].longest_pause.expect("a pause");
    pause.to.saturating_sub(*returns)
}

#[test]
fn while_payload_leaves_the_first_isp_that_returns_is_found_within_seconds() {
    let pace = Pace { octets: 200, interval: Duration::from_millis(20) };
    for kind in [true, false].map(|both_ways| Kind::Datagrams { pace, both_ways }) {
        for place in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for length in [15, 60, 200] {
                for seed in 0..4 {
                    let late = pause(seed, &outage(kind, place, length));
                    assert!(late <= seconds(5), "{kind:?} {place:?} {length} s {seed}: {late:?}");
                }
            }
        }
    }
}
