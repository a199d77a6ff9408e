//! A stranger on a link advertises prefixes that lead nowhere, and the host has an address in each (decision 216).

use std::time::Duration;

use super::first_seed;
use super::pretended::{CUT, PACE, RTT, dead_pair_of, late};
use crate::plan::{Addresses, Change, Direction, Kind, Plan, Port, What};

/// The stranger comes before the traffic or after it.
const TIMES: [Duration; 2] = [Duration::ZERO, Duration::from_secs(3)];

/// The uplink that payload of the first host takes is cut, or the pair alone. The traffic begins a second after the run.
fn plan(kind: Kind, rtt: Duration, at: Duration, whole: bool) -> Plan {
    let mut plan = dead_pair_of(kind, rtt, at);
    for host in &mut plan.hosts {
        host.addresses = Addresses::HbaCompatible;
    }
    let uplink = plan.workloads[0].from;
    if whole {
        plan.changes = vec![Change { at, what: What::Cut { uplink, direction: Direction::Both } }];
    }
    plan.workloads[0].start = Duration::from_secs(1);
    plan
}

fn misled(plan: &Plan, hosts: &[usize], at: Duration) -> Plan {
    let mut plan = plan.clone();
    let mislead = |host: &usize| Change {
        at,
        what: What::Misled { uplink: Port { host: *host, uplink: 0 } },
    };
    // The first change is the failure, to which times refer.
    plan.changes.extend(hosts.iter().map(mislead));
    plan
}

#[test]
fn addresses_that_lead_nowhere_keep_no_context_on_a_dead_pair() {
    let (pace, mut failures) = (PACE, Vec::new());
    let stream = Kind::Stream { bytes: u64::MAX, pace: Some(PACE) };
    for kind in [stream, Kind::Datagrams { pace, both_ways: true }, Kind::Requests { pace }] {
        for (rtt, whole) in [RTT, RTT * 8].into_iter().flat_map(|rtt| [(rtt, false), (rtt, true)]) {
            for seed in first_seed()..first_seed() + 2 {
                let at = CUT + Duration::from_millis(seed % 50 * 170);
                let plan = plan(kind, rtt, at, whole);
                let usual = late(seed, &plan);
                for (hosts, at) in
                    [&[0][..], &[1], &[0, 1]].into_iter().flat_map(|h| TIMES.map(|t| (h, t)))
                {
                    let is_late = late(seed, &misled(&plan, hosts, at));
                    if is_late > usual + Duration::from_millis(100) {
                        failures.push((seed, kind, rtt, whole, hosts, at, is_late, usual));
                    }
                }
            }
        }
    }
    let text: Vec<_> = failures.iter().map(|failure| format!("{failure:?}")).collect();
    assert!(failures.is_empty(), "{} runs:\n{}", text.len(), text.join("\n"));
}
