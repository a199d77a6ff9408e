use std::collections::BTreeSet;

use crate::{Addresses, HostPlan, Plan, What, random_plan, run, run_many, trace};

#[test]
fn equal_seeds_give_equal_packets_and_events() {
    for seed in 0..20 {
        let plan = random_plan(seed);
        assert_eq!(plan, random_plan(seed));
        let outcome = run(seed, &plan);
        assert_eq!(outcome, run(seed, &plan), "seed {seed}");
        assert_ne!(outcome.digest, run(seed + 1, &plan).digest, "another seed, the same plan");
    }
    let plan = random_plan(7);
    assert_eq!(trace(7, &plan), trace(7, &plan));
}

/// The test plays as many seeds as continuous integration; `moorline sim` plays more.
#[test]
fn two_thousand_random_schedules_hold_every_rule() {
    let total = run_many(
        0..SEEDS,
        |seed| run(seed, &random_plan(seed)),
        |_, outcome| outcome.violations.is_empty(),
    );
    if let Some(seed) = total.first_failing {
        panic!("{total:?}\n{}", trace(seed, &random_plan(seed)));
    }
    assert_eq!((total.seeds, total.violations), (SEEDS, 0));
    assert!(total.recovered > SEEDS * 3 / 4, "the schedules are too harmless: {total:?}");
    assert!(total.regained > SEEDS / 50, "hardly a context was lost: {total:?}");
}

/// Each of these has broken a rule: too many checks, a restart without a context, sources that were gone, a context
/// that a host called protected while it asked its peer for the context again.
#[test]
fn schedules_that_broke_a_rule_hold_it() {
    let seeds = [
        9_100_001_845,
        9_100_012_766,
        9_100_009_025,
        9_100_009_278,
        9_100_017_312,
        9_200_011_292,
        9_200_012_149,
    ];
    for seed in seeds {
        let plan = random_plan(seed);
        assert_eq!(run(seed, &plan).violations, [], "seed {seed}\n{}", trace(seed, &plan));
    }
}

/// Checks that no element of the plans is missing by accident.
#[test]
fn random_plans_have_everything() {
    let plans: Vec<_> = (0..SEEDS).map(random_plan).collect();
    let share = |is_so: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| is_so(plan)).count();
    let hosts = |plan: &Plan| plan.hosts.clone();
    let any_host =
        |is_so: fn(&HostPlan) -> bool| share(&|plan: &Plan| hosts(plan).iter().any(is_so));
    for (what, count) in [
        ("more than two hosts", share(&|plan| plan.hosts.len() > 2)),
        ("four ISPs", share(&|plan| isps(plan).len() == 4)),
        ("one ISP", share(&|plan| isps(plan).len() == 1)),
        ("flaps", share(&|plan| !plan.flaps.is_empty())),
        ("renumbering", share(&|plan| !plan.renumberings.is_empty())),
        ("an attacker", share(&|plan| plan.attack.is_some())),
        ("asymmetric links", any_host(|host| host.uplinks.iter().any(|u| u.out != u.inbound))),
        ("loss", any_host(|host| host.uplinks.iter().any(|uplink| uplink.out.loss.0 > 0))),
        ("CGAs", any_host(|host| host.addresses == Addresses::Cga)),
        ("compatible HBAs", any_host(|host| host.addresses == Addresses::HbaCompatible)),
        ("unprovable addresses", any_host(|host| host.addresses == Addresses::Plain)),
        ("servers", any_host(|host| !host.initiates)),
        ("plain IPv6", any_host(|host| !host.moorline)),
        ("killed cores", share(&|plan| has(plan, |what| matches!(what, What::Kill { .. })))),
        ("reboots", share(&|plan| has(plan, |what| matches!(what, What::Reboot { .. })))),
        ("sleep", share(&|plan| has(plan, |what| matches!(what, What::Suspend { .. })))),
        ("lost pairs", share(&|plan| has(plan, |what| matches!(what, What::CutProtected { .. })))),
        ("dead ISPs", share(&|plan| has(plan, |what| matches!(what, What::IspDown { .. })))),
    ] {
        assert!(count > 50, "{count} of {SEEDS} plans have {what}");
    }
}

fn has(plan: &Plan, is_it: fn(&What) -> bool) -> bool {
    plan.changes.iter().any(|change| is_it(&change.what))
}

fn isps(plan: &Plan) -> BTreeSet<usize> {
    plan.hosts.iter().flat_map(|host| &host.uplinks).map(|uplink| uplink.isp).collect()
}

const SEEDS: u64 = 2000;
