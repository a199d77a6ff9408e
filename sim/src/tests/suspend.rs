//! A host that sleeps, and whose clock has gone on meanwhile.

use std::time::Duration;

use super::seconds;
use crate::plan::{Change, Port, What};
use crate::{Plan, random_plan, run, trace};

/// A random network in which one host sleeps for this time, and nothing else happens.
fn plan(seed: u64, asleep: Duration) -> Plan {
    let random = random_plan(seed);
    let host =
        random.workloads[usize::try_from(seed).unwrap_or(0) % random.workloads.len()].to.host;
    let from = seconds(5) + Duration::from_millis(seed * 7919 % 30_000);
    let changes = [(from, What::Suspend { host }), (from + asleep, What::Resume { host })];
    Plan {
        changes: changes.map(|(at, what)| Change { at, what }).into(),
        flaps: Vec::new(),
        renumberings: Vec::new(),
        attack: None,
        duration: asleep + seconds(3600),
        ..random
    }
}

/// A plan like [`plan`] in which each uplink of the sleeping host gets another prefix in place of its old one.
fn plan_elsewhere(seed: u64, asleep: Duration) -> Plan {
    let mut plan = plan(seed, asleep);
    let [Change { what: What::Suspend { host }, .. }, resume] = plan.changes[..] else {
        panic!("{:?}", plan.changes)
    };
    let at = resume.at;
    let ports = (0..plan.hosts[host].uplinks.len()).map(|uplink| Port { host, uplink });
    let changes = ports.flat_map(|port| {
        [What::PrefixWithdrawn { uplink: port }, What::PrefixAdded { uplink: port }]
    });
    let changes = changes.map(|what| Change { at: at - Duration::from_millis(1), what });
    plan.changes.splice(1..1, changes);
    plan
}

/// Plays this number of seeds for each time of sleep. Returns how often traffic recovered.
fn recovered(seeds: u64, plan: impl Fn(u64, Duration) -> Plan) -> u32 {
    let mut recovered = 0;
    for asleep in [10, 600, 7200].map(seconds) {
        for seed in SEED..SEED + seeds {
            let plan = plan(seed, asleep);
            let outcome = run(seed, &plan);
            assert_eq!(outcome.violations, [], "seed {seed}\n{}", trace(seed, &plan));
            recovered += outcome.recovered;
        }
    }
    recovered
}

#[test]
fn a_host_that_wakes_up_with_the_same_links_goes_on() {
    recovered(SEEDS, plan);
}

#[test]
fn a_host_that_wakes_up_with_other_links_goes_on() {
    assert!(recovered(SEEDS, plan_elsewhere) > 0);
}

/// Reports of the data planes are under way when the host falls asleep, and the cores get them when it wakes up.
#[test]
fn a_host_that_wakes_up_sends_nothing_from_an_address_that_went_while_it_slept() {
    for seed in SEED..SEED + 12 {
        let mut plan = plan_elsewhere(seed, seconds(10));
        plan.hosts.iter_mut().for_each(|host| host.report_delay = Duration::from_millis(300));
        assert_eq!(run(seed, &plan).violations, [], "seed {seed}\n{}", trace(seed, &plan));
    }
}

const SEED: u64 = 70_000;
const SEEDS: u64 = 70;
