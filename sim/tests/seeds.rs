//! A thousand random schedules. A seed that fails is a test case: `MOORLINE_SEED=<n> cargo test -p
//! moorline-sim --test seeds` plays it alone; `MOORLINE_SEEDS=<first>..<end>` plays others.

use std::ops::Range;
use std::thread;

use moorline_sim::{Outcome, Plan, run};

#[test]
fn random_schedules_are_survived() {
    let seeds = seeds();
    let outcomes = play(seeds.clone());
    let complaints: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| !outcome.survived)
        .map(|(seed, outcome)| outcome.complaint(*seed, &Plan::random(*seed).workloads))
        .collect();
    assert!(
        complaints.is_empty(),
        "{} of {} seeds:\n{}",
        complaints.len(),
        outcomes.len(),
        complaints.join("\n")
    );
    if seeds == ALL {
        is_worth_it(&outcomes);
    }
}

/// The schedules must put protection to the test, or surviving them would mean nothing.
fn is_worth_it(outcomes: &[(u64, Outcome)]) {
    let workloads = outcomes.iter().flat_map(|(_, outcome)| &outcome.workloads);
    let protected = workloads.clone().filter(|w| w.was_protected && w.could_go_on).count();
    let total = workloads.clone().count();
    let recovered = workloads.filter(|w| !w.recovered_after.is_zero()).count();
    let moves: usize = outcomes.iter().map(|(_, outcome)| outcome.moves).sum();
    eprintln!(
        "{total} workloads, {protected} protected; {moves} moves, {recovered} recoveries at the end"
    );
    assert!(moves > 2 * outcomes.len(), "only {moves} moves");
    assert!(protected * 2 > total, "{protected} of {total} workloads were protected");
    assert!(recovered > outcomes.len() / 10, "only {recovered} recoveries");
}

fn seeds() -> Range<u64> {
    let number = |text: &str| text.parse().expect("a number");
    if let Ok(seed) = std::env::var("MOORLINE_SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    match std::env::var("MOORLINE_SEEDS") {
        Ok(range) => {
            let (first, end) = range.split_once("..").expect("first..end");
            number(first)..number(end)
        }
        Err(_) => ALL,
    }
}

fn play(seeds: Range<u64>) -> Vec<(u64, Outcome)> {
    let workers = thread::available_parallelism().map_or(1, usize::from) as u64;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|worker| {
                let mine = seeds.clone().filter(move |seed| seed % workers == worker);
                scope.spawn(|| mine.map(|seed| (seed, run(seed, &Plan::random(seed)))).collect())
            })
            .collect();
        let mut outcomes: Vec<(u64, Outcome)> = workers
            .into_iter()
            .flat_map(|worker| -> Vec<_> { worker.join().expect("no panic in a run") })
            .collect();
        outcomes.sort_by_key(|(seed, _)| *seed);
        outcomes
    })
}

const ALL: Range<u64> = 0..1000;
