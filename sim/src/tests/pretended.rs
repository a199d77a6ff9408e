//! A host off the path sends payload in the name of both ends, and so says that a dead pair works.

use std::time::Duration;

use super::adaptive::{plan, sound};
use crate::plan::{Attack, Change, Kind, Pace, Plan, What, Workload};
use crate::{Outcome, run};

pub(super) const CUT: Duration = Duration::from_secs(20);
pub(super) const RTT: Duration = Duration::from_millis(20);
pub(super) const PACE: Pace = Pace { octets: 200, interval: Duration::from_millis(20) };
/// 50 and 2,000 packets a second.
const INTERVALS: [Duration; 2] = [Duration::from_millis(20), Duration::from_micros(500)];

/// The pair that payload takes dies in both directions, and the attacker says that it works.
fn dead_pair(kind: Kind, at: Duration) -> Plan {
    dead_pair_of(kind, RTT, at)
}

pub(super) fn dead_pair_of(kind: Kind, rtt: Duration, at: Duration) -> Plan {
    let mut plan = plan(kind, rtt);
    let Workload { from, to, .. } = plan.workloads[0];
    for (uplink, to_uplink) in [(from, to), (to, from)] {
        plan.changes.push(Change { at, what: What::CutPath { uplink, to_uplink } });
    }
    plan
}

fn with_attack(plan: &Plan, interval: Duration) -> Plan {
    with_attacker(plan, interval, false)
}

fn with_attacker(plan: &Plan, interval: Duration, knows_ports: bool) -> Plan {
    let attack = Attack { interval, overhears: false, isp: None, pretends: true, knows_ports };
    Plan { attack: Some(attack), ..plan.clone() }
}

/// Time from the failure to the next payload that arrives.
pub(super) fn late(seed: u64, plan: &Plan) -> Duration {
    late_of(&sound(seed, plan), plan)
}

fn late_of(outcome: &Outcome, plan: &Plan) -> Duration {
    let pause = outcome.workloads[0].longest_pause.expect("a pause");
    pause.to.saturating_sub(plan.changes[0].at)
}

/// The attacker knows no more than the ULIDs, or the ports, too. It guesses the numbers of its segments.
#[test]
fn packets_with_the_ulids_do_not_keep_a_tcp_connection_on_a_dead_pair() {
    for seed in 0..8 {
        for (rtt, knows_ports) in [(RTT, false), (RTT, true), (RTT * 8, true)] {
            let kind = Kind::Stream { bytes: u64::MAX, pace: Some(PACE) };
            let plan = dead_pair_of(kind, rtt, CUT + Duration::from_millis(seed * 170));
            let most = late(seed, &plan) + Duration::from_millis(100);
            for interval in INTERVALS {
                let attacked = late(seed, &with_attacker(&plan, interval, knows_ports));
                let case = format!("{rtt:?}, {interval:?}, ports {knows_ports}, seed {seed}");
                assert!(attacked <= most, "{case}: {attacked:?}, not {most:?}");
            }
        }
    }
}

/// A guess is the acknowledgment of what is in flight, 200 octets here, with a probability of one in twenty million.
#[test]
fn segments_at_the_rate_of_a_link_do_not_keep_a_tcp_connection_on_a_dead_pair() {
    let plan =
        dead_pair(Kind::Stream { bytes: u64::MAX, pace: Some(PACE) }, Duration::from_secs(8));
    let most = late(0, &plan) + Duration::from_millis(100);
    let attacked = late(0, &with_attacker(&plan, Duration::from_micros(50), true));
    assert!(attacked <= most, "{attacked:?}, not {most:?}");
}

/// The attacker sends from the beginning. If it knows the ports, its first packet may come before the first answer and give
/// the flow its label. Then the times of the next test hold.
#[test]
fn packets_with_the_ulids_do_not_keep_datagrams_on_a_dead_pair() {
    let pace = PACE;
    for kind in [Kind::Datagrams { pace, both_ways: true }, Kind::Requests { pace }] {
        for (rtt, seed) in [RTT, RTT * 8].into_iter().flat_map(|rtt| (0..3).map(move |n| (rtt, n)))
        {
            let plan = dead_pair_of(kind, rtt, CUT + Duration::from_millis(seed * 170));
            let usual = late(seed, &plan) + Duration::from_millis(100);
            let at_most = Duration::from_millis(1800) + rtt * 5;
            for (interval, knows_ports) in
                INTERVALS.into_iter().flat_map(|interval| [(interval, false), (interval, true)])
            {
                let attacked = late(seed, &with_attacker(&plan, interval, knows_ports));
                let most = if knows_ports { at_most } else { usual };
                assert!(
                    attacked <= most,
                    "{kind:?}, {rtt:?}, {interval:?}, {knows_ports}, seed {seed}: {attacked:?}"
                );
            }
        }
    }
}

/// The peer is asked once in the proof interval, here 1.1 s, and three checks and a trial follow.
#[test]
fn packets_with_the_ulids_do_not_keep_datagrams_without_answers_on_a_dead_pair() {
    for seed in 0..8 {
        let kind = Kind::Datagrams { pace: PACE, both_ways: false };
        let plan = dead_pair(kind, CUT + Duration::from_millis(seed * 170));
        for interval in INTERVALS {
            let attacked = late(seed, &with_attack(&plan, interval));
            let most = Duration::from_millis(1800);
            assert!(attacked <= most, "{interval:?}, seed {seed}: {attacked:?}");
        }
    }
}

/// Otherwise the tests of datagrams without answers show nothing.
#[test]
fn without_a_proof_interval_packets_with_the_ulids_keep_datagrams_on_a_dead_pair() {
    let mut plan = dead_pair(Kind::Datagrams { pace: PACE, both_ways: false }, CUT);
    plan.hosts.iter_mut().for_each(|host| host.profile.proof_interval = Duration::ZERO);
    for interval in INTERVALS {
        let plan = with_attack(&plan, interval);
        assert!(late_of(&run(0, &plan), &plan) > Duration::from_secs(15), "{interval:?}");
    }
}

/// An attacker who sends now and then only ends the silence by which the Send Timer would run out.
#[test]
fn few_packets_with_the_ulids_do_not_keep_datagrams_on_a_dead_pair() {
    for seed in 0..8 {
        let plan = dead_pair(Kind::Datagrams { pace: PACE, both_ways: false }, CUT);
        for interval in [1, 3, 9].map(Duration::from_secs) {
            let attacked = late(seed, &with_attack(&plan, interval));
            let most = Duration::from_millis(2800).max(interval + Duration::from_millis(1800));
            assert!(attacked <= most, "{interval:?}, seed {seed}: {attacked:?}");
        }
    }
}
