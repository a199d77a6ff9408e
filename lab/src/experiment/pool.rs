//! Parallel trials, for experiments that mostly wait.

use std::iter;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use sha2::{Digest as _, Sha256};

use super::Watch;
use crate::interrupt::Interrupted;

/// Cases of an experiment and their trials. Each case makes a point.
#[derive(Clone, Debug)]
pub(super) struct Trials<C> {
    /// Cases, each with its number of trials.
    pub(super) cases: Vec<(C, usize)>,
    /// Seed from which the seeds of the trials follow.
    pub(super) seed: u64,
    /// Number of trials at the same time.
    pub(super) parallel: usize,
}

/// A trial of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<C> {
    case: C,
    /// Seed of the trial. No two trials share one.
    pub(super) seed: u64,
}

impl<C> Deref for Trial<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.case
    }
}

impl<C: Copy + Sync> Trials<C> {
    /// Runs all trials and gives the results by case. Shows the name of a case when its first trial begins.
    pub(super) fn run<R: Send>(
        &self,
        watch: &mut dyn Watch,
        name: impl Fn(&C) -> String + Sync,
        work: impl Fn(&Trial<C>) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<(C, Vec<R>)>> {
        let tried = self.cases.iter().flat_map(|&(case, times)| iter::repeat_n(case, times));
        let trial = |(number, case)| Trial { case, seed: mixed(self.seed, number) };
        let trials: Vec<_> = (0..).zip(tried).map(trial).collect();
        let mut shown = String::new();
        let begun = |trial: &Trial<C>, over: usize| {
            let name = name(&trial.case);
            if shown != name {
                watch.stage(&name);
                shown = name;
            }
            watch.done(over as f64 / trials.len() as f64);
        };
        let mut outcomes = run_all(&trials, self.parallel, work, begun)?.into_iter();
        watch.done(1.0);
        let cases = self.cases.iter().filter(|(_, times)| *times > 0);
        Ok(cases.map(|&(case, times)| (case, outcomes.by_ref().take(times).collect())).collect())
    }
}

/// Runs all jobs, `parallel` at a time, and gives their results in the order of the jobs. Calls `begun` when a job
/// begins, with the number of finished jobs.
///
/// A failed job runs a second time: one failure on a busy machine is no reason to drop thousands of results.
fn run_all<J: Sync, R: Send>(
    jobs: &[J],
    parallel: usize,
    work: impl Fn(&J) -> anyhow::Result<R> + Sync,
    begun: impl FnMut(&J, usize) + Send,
) -> anyhow::Result<Vec<R>> {
    let (next, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let begun = Mutex::new(begun);
    let worker = || {
        let mut results = Vec::new();
        loop {
            // One lock covers taking and showing a job, so jobs are shown in order.
            let mut shown = begun.lock().unwrap_or_else(PoisonError::into_inner);
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return Ok(results) };
            shown(job, over.load(Ordering::Relaxed));
            drop(shown);
            let again = |error: anyhow::Error| match error.is::<Interrupted>() {
                true => Err(error),
                false => work(job),
            };
            // If a job fails for good, no worker takes another job.
            let end = |_: &anyhow::Error| next.store(jobs.len(), Ordering::Relaxed);
            results.push((index, work(job).or_else(again).inspect_err(end)?));
            over.fetch_add(1, Ordering::Relaxed);
        }
    };
    let results: anyhow::Result<Vec<_>> = thread::scope(|scope| {
        let workers = 0..parallel.clamp(1, jobs.len().max(1));
        let workers: Vec<_> = workers.map(|_| scope.spawn(worker)).collect();
        let join = |one: ScopedJoinHandle<'_, _>| one.join().unwrap_or_else(|it| resume_unwind(it));
        workers.into_iter().map(join).collect()
    });
    let mut results: Vec<_> = results?.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Does the same work with both values of a pair. Even numbers begin with the first, odd numbers with the second.
pub(super) fn in_turns<T, R>(
    number: usize,
    [without, with]: [T; 2],
    mut work: impl FnMut(T) -> anyhow::Result<R>,
) -> anyhow::Result<[R; 2]> {
    if number.is_multiple_of(2) {
        let first = work(without)?;
        Ok([first, work(with)?])
    } else {
        let first = work(with)?;
        Ok([work(without)?, first])
    }
}

/// Number of jobs at a time for work that does not wait.
pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// A pseudo-random number from 0 to less than 1, by seed and number.
pub(super) fn part(seed: u64, number: u64) -> f64 {
    (mixed(seed, number) >> 11) as f64 / (1u64 << 53) as f64
}

/// A different seed for each number.
pub(super) fn mixed(seed: u64, number: u64) -> u64 {
    let digest: [u8; 32] =
        Sha256::digest([seed.to_be_bytes(), number.to_be_bytes()].concat()).into();
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_jobs_and_one_failure_is_forgiven() {
        let failures = Mutex::new(0);
        let jobs: Vec<usize> = (0..20).collect();
        let mut begun = 0;
        let work = |job: &usize| {
            if *job == 7 && std::mem::replace(&mut *failures.lock().unwrap(), 1) == 0 {
                anyhow::bail!("once");
            }
            Ok(job * 2)
        };
        let results = run_all(&jobs, 3, work, |_, _| begun += 1).unwrap();
        assert_eq!(results, jobs.iter().map(|job| job * 2).collect::<Vec<_>>());
        assert_eq!(begun, 20);
        assert!(
            run_all(&jobs, 3, |_| anyhow::bail!("always") as anyhow::Result<()>, |_, _| ())
                .is_err()
        );
    }

    #[derive(Default)]
    struct Seen(Vec<String>, Vec<f64>);

    impl Watch for Seen {
        fn stage(&mut self, what: &str) {
            self.0.push(what.to_owned());
        }

        fn done(&mut self, part: f64) {
            self.1.push(part);
        }
    }

    #[test]
    fn cases_have_their_own_results_and_seeds_and_are_shown_once() {
        let cases = vec![("a", 3), ("none", 0), ("b", 1), ("b", 1), ("c", 1)];
        let trials = Trials { cases, seed: 1, parallel: 2 };
        let mut seen = Seen::default();
        let results =
            trials.run(&mut seen, |case| (*case).into(), |trial| Ok((trial.len(), trial.seed)));
        let results = results.unwrap();
        let counts: Vec<_> = results.iter().map(|(case, all)| (*case, all.len())).collect();
        assert_eq!(counts, [("a", 3), ("b", 1), ("b", 1), ("c", 1)]);
        let seeds: Vec<_> = results.iter().flat_map(|(_, all)| all).collect();
        assert_eq!(
            seeds,
            (0..6)
                .map(|number| (1, mixed(1, number)))
                .collect::<Vec<_>>()
                .iter()
                .collect::<Vec<_>>()
        );
        assert!(seeds.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(seen.0, ["a", "b", "c"]);
        assert!(seen.1.is_sorted() && seen.1.last() == Some(&1.0));
    }

    #[test]
    fn parts_are_spread_and_follow_from_the_seed() {
        let parts: Vec<_> = (0..1000).map(|number| part(1, number)).collect();
        assert!(parts.iter().all(|part| (0.0..1.0).contains(part)));
        let mean = parts.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert_eq!(part(1, 5), parts[5]);
        assert_ne!(part(2, 5), parts[5]);
    }
}
