use std::collections::BTreeMap;
use std::iter;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::outcome::{Outcome, Summary};

/// Runs each of these seeds, on all processors. `each` gets the runs in the order of the seeds, as soon as all
/// earlier ones have ended, and says whether to go on.
pub fn run_many(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Outcome + Sync,
    mut each: impl FnMut(u64, &Outcome) -> bool,
) -> Summary {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut summary = Summary::default();
    let mut first = seeds.start;
    while first < seeds.end {
        let batch = first..seeds.end.min(first.saturating_add(BATCH));
        first = batch.end;
        let runs = play(batch, &run, threads);
        for (seed, outcome) in runs {
            summary.add(seed, &outcome);
            if !each(seed, &outcome) {
                return summary;
            }
        }
    }
    summary
}

fn play(
    batch: Range<u64>,
    run: &(impl Fn(u64) -> Outcome + Sync),
    threads: usize,
) -> BTreeMap<u64, Outcome> {
    let next = AtomicU64::new(batch.start);
    let next = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| batch.contains(seed));
    let work = || iter::from_fn(next).map(|seed| (seed, run(seed))).collect::<Vec<_>>();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.flatten().collect()
    })
}

/// Number of runs between two looks whether to go on.
const BATCH: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{random_plan, run};

    #[test]
    fn runs_come_in_order_and_as_if_played_alone() {
        let mut seen = Vec::new();
        let summary = run_many(
            7..90,
            |seed| run(seed, &random_plan(seed)),
            |seed, outcome| {
                seen.push((seed, outcome.digest));
                seed < 80
            },
        );
        assert_eq!(summary.seeds, 74);
        let seeds: Vec<_> = seen.iter().map(|(seed, _)| *seed).collect();
        assert_eq!(seeds, (7..=80).collect::<Vec<_>>());
        for &(seed, digest) in seen.iter().step_by(25) {
            assert_eq!(run(seed, &random_plan(seed)).digest, digest, "seed {seed}");
        }
    }
}
