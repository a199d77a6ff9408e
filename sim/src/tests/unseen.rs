//! Seeds that nobody has tried: each run draws others, so no code can be fitted to them. `MOORLINE_FIRST_SEED` plays
//! the seeds of another run.

use std::env;
use std::hash::{BuildHasher as _, RandomState};

use crate::{
    Outcome, Plan, random_mixed_plan, random_plan, run, run_addresses, run_many, trace,
    trace_addresses,
};

#[test]
fn no_rule_is_broken_over_seeds_that_nobody_has_seen() {
    hold_plans(random_plan, "");
}

#[test]
fn no_rule_is_broken_over_unseen_seeds_where_hosts_speak_both_protocols() {
    hold_plans(random_mixed_plan, " --ilnp");
}

#[test]
fn no_rule_is_broken_over_unseen_seeds_about_a_hosts_own_addresses() {
    hold(run_addresses, trace_addresses, " --addresses");
}

fn hold_plans(plan: fn(u64) -> Plan, option: &str) {
    hold(|seed| run(seed, &plan(seed)), |seed| trace(seed, &plan(seed)).to_string(), option);
}

fn hold(run: impl Fn(u64) -> Outcome + Sync, trace: impl Fn(u64) -> String, option: &str) {
    let first = first_seed();
    println!("seeds from {first} on");
    let seeds = first..first + SEEDS;
    let total = run_many(seeds, run, |_, outcome| outcome.violations.is_empty());
    if let Some(seed) = total.first_failing {
        let again = format!("moorline-lab sim --seeds 1 --first-seed {seed}{option}");
        panic!("{total:?}\nplay it again: {again}\n{}", trace(seed));
    }
    assert_eq!(total.seeds, SEEDS);
}

/// The first seed: far from the seeds in test files, and short enough to type.
fn first_seed() -> u64 {
    let drawn = || RandomState::new().hash_one(0) % 1_000_000_000_000 + 100_000_000_000;
    let asked = env::var("MOORLINE_FIRST_SEED").ok();
    asked.map_or_else(drawn, |seed| seed.parse().expect("MOORLINE_FIRST_SEED is a number"))
}

const SEEDS: u64 = 500;
