//! A host with ILNP by the RFCs alone in the network of all plans.

use std::time::Duration;

use super::adaptive::sound;
use super::seconds;
use crate::Outcome;
use crate::plan::{Addresses, Change, HostPlan, Kind, Pace, Plan, Port, What, Workload};

const PACE: Pace = Pace { octets: 100, interval: Duration::from_millis(50) };

/// Datagrams both ways between a host with Moorline's ILNP and one with ILNP by the RFCs alone.
fn pair(changes: &[(u64, What)]) -> Plan {
    let mut plan = Plan::pair(seconds(10));
    plan.hosts[0].ilnp = true;
    plan.hosts[1] = HostPlan {
        moorline: false,
        plain_ilnp: true,
        addresses: Addresses::OneIdentifier,
        ..plan.hosts[1].clone()
    };
    let kind = Kind::Datagrams { pace: PACE, both_ways: true };
    let workload = Workload { from: port(0), to: port(1), start: seconds(0), until: None, kind };
    let change = |&(at, what): &(u64, What)| Change { at: seconds(at), what };
    (plan.workloads, plan.changes) = (vec![workload], changes.iter().map(change).collect());
    (plan.duration, plan.is_full_length) = (seconds(LENGTH), true);
    plan
}

const fn port(host: usize) -> Port {
    Port { host, uplink: 0 }
}

/// Seconds without payload, in the direction with the most of them.
fn silence(outcome: &Outcome) -> u64 {
    let arrived = outcome.workloads[0].octets.into_iter().min().unwrap_or(0);
    LENGTH - arrived / (PACE.octets as u64 * PER_SECOND)
}

#[test]
fn payload_goes_on_after_moves_of_both_ends() {
    let down = |host| What::CarrierDown { uplink: port(host) };
    for seed in 0..8 {
        let outcome = sound(seed, &pair(&[(20, down(0)), (40, down(1))]));
        assert_eq!(outcome.sessions, 1, "seed {seed}");
        assert!(silence(&outcome) <= 1, "seed {seed}: {:?}", outcome.workloads);
    }
}

/// The host has other nonces, and knows nothing of our move.
#[test]
fn a_host_that_begins_anew_after_our_move_is_taken_back() {
    let changes =
        [(20, What::CarrierDown { uplink: port(0) }), (40, What::Reboot { host: port(1).host })];
    for seed in 0..8 {
        let outcome = sound(seed, &pair(&changes));
        assert_eq!(outcome.sessions, 2, "seed {seed}");
        assert!(silence(&outcome) <= 16, "seed {seed}: {:?}", outcome.workloads);
    }
}

/// Both hosts have moved. The host begins anew with its first locator alone, and opens another connection to our second
/// locator. Our first locator stays away, or comes back.
#[test]
fn a_host_that_begins_anew_after_both_have_moved_is_taken_back_wherever_we_are() {
    let second = |host| Port { host, uplink: 1 };
    let moves = [
        (15, What::CarrierDown { uplink: port(0) }),
        (25, What::CarrierDown { uplink: port(1) }),
        (35, What::CarrierDown { uplink: second(1) }),
        (35, What::Reboot { host: port(1).host }),
        (35, What::CarrierUp { uplink: port(1) }),
    ];
    let back = [(45, What::CarrierUp { uplink: port(0) })];
    let kind = Kind::Datagrams { pace: PACE, both_ways: true };
    let workload = Workload { from: port(1), to: second(0), start: seconds(40), until: None, kind };
    for changes in [moves.to_vec(), [&moves[..], &back].concat()] {
        let mut plan = pair(&changes);
        plan.workloads.push(workload);
        for seed in 0..8 {
            let outcome = sound(seed, &plan);
            assert!(silence(&outcome) <= 24, "seed {seed}: {:?}", outcome.workloads);
        }
    }
}

const LENGTH: u64 = 80;
const PER_SECOND: u64 = 20;
