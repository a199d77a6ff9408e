use std::collections::BTreeMap;

use super::world::{Fault, World};
use super::{run_addresses, trace_addresses};
use crate::{Rule, run_many};

#[test]
fn addresses_live_as_without_moorline() {
    let total = run_many(0..SEEDS, run_addresses, |_, outcome| outcome.violations.is_empty());
    if let Some(seed) = total.first_failing {
        panic!("seed {seed}\n{}", trace_addresses(seed));
    }
    assert_eq!(total.seeds, SEEDS);
    assert!(total.packets > 100 * SEEDS, "{total:?}");
}

/// The routers of the link sent nothing after the start, and no event made the host look at the addresses of a killed
/// run.
#[test]
fn what_a_killed_run_has_left_ends_on_a_silent_link() {
    let seed = 976_740_175_895;
    assert_eq!(run_addresses(seed).violations, [], "{}", trace_addresses(seed));
}

/// A run was killed before its address was known to be no duplicate, so the kernel had no end for the address.
#[test]
fn a_temporary_address_that_a_killed_run_has_left_goes_two_hours_after_it_was_found() {
    for seed in [2_450_020_000_248, 2_450_020_000_496] {
        assert_eq!(run_addresses(seed).violations, [], "{}", trace_addresses(seed));
    }
}

#[test]
fn each_fault_breaks_the_rule_that_is_about_it() {
    let faults = [
        (Fault::RemovesOthers, Rule::OwnAddresses, 10),
        (Fault::SetsLifetimesOnce, Rule::LifetimesInStep, 10),
        // One second for each new address.
        (Fault::AddsForever, Rule::LifetimesInStep, 4),
        (Fault::PrefersForLong, Rule::LifetimesInStep, 10),
        (Fault::AddsNoMore, Rule::LifetimesInStep, 10),
    ];
    for (fault, rule, least) in faults {
        let mut broken = BTreeMap::new();
        for seed in 0..20 {
            for violation in World::new(seed, Some(fault)).run().0.violations {
                *broken.entry(violation.rule).or_insert(0) += 1;
            }
        }
        assert!(broken.get(&rule).is_some_and(|times| *times > least), "{fault:?}: {broken:?}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    assert_eq!(trace_addresses(3), trace_addresses(3));
    assert_ne!(trace_addresses(3), trace_addresses(4));
}

const SEEDS: u64 = 100;
