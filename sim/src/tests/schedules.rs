use std::thread;

use crate::{Summary, random_plan, run, trace};

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

#[test]
fn a_thousand_random_schedules_hold_every_rule() {
    let summaries = thread::scope(|scope| {
        let shares: Vec<_> =
            (0..SHARES).map(|share| scope.spawn(move || play(share * SHARE, SHARE))).collect();
        shares.into_iter().map(|share| share.join().expect("no panic")).collect::<Vec<_>>()
    });
    let mut total = Summary::default();
    summaries.iter().for_each(|summary| total.merge(summary));
    if let Some(seed) = total.first_failing {
        panic!("{total:?}\n{}", trace(seed, &random_plan(seed)));
    }
    assert_eq!((total.seeds, total.violations), (SHARES * SHARE, 0));
    assert!(total.recovered > SHARES * SHARE, "the schedules are too harmless: {total:?}");
}

fn play(first: u64, count: u64) -> Summary {
    Summary::of(first, count, |seed, _, outcome| {
        outcome
            .violations
            .iter()
            .take(1)
            .for_each(|violation| println!("seed {seed}: {violation}"));
        true
    })
}

const SHARES: u64 = 4;
const SHARE: u64 = 250;
