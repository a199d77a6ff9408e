use super::write_json;
use crate::args::SimArgs;
use moorline_sim::{Outcome, Plan};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Result of a batch of seeds; `moorline sim --json` prints it.
#[derive(Debug, Serialize)]
struct Summary {
    first_seed: u64,
    seeds: u64,
    survived: u64,
    packets: u64,
    virtual_s: u64,
    slowest_recovery_ms: u64,
    slowest_seed: u64,
    failures: Vec<Failure>,
}

/// A seed that went wrong, and how.
#[derive(Debug, Serialize)]
struct Failure {
    seed: u64,
    complaint: String,
}

/// Plays random failure schedules; any that goes wrong is told at once and can be played alone.
pub(crate) fn sim(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut summary = Summary {
        first_seed: args.first_seed,
        seeds: args.seeds,
        survived: 0,
        packets: 0,
        virtual_s: 0,
        slowest_recovery_ms: 0,
        slowest_seed: args.first_seed,
        failures: Vec::new(),
    };
    let mut virtual_time = Duration::ZERO;
    for seed in (0..args.seeds).map(|n| args.first_seed.wrapping_add(n)) {
        let plan = Plan::random(seed);
        let outcome = moorline_sim::run(seed, &plan);
        virtual_time += outcome.ended;
        summary.add(seed, &outcome, &plan);
        let told = summary.failures.last().filter(|failure| failure.seed == seed);
        if let (false, Some(failure)) = (args.json, told) {
            writeln!(out, "{}", failure.complaint)?;
            out.flush()?;
        }
    }
    summary.virtual_s = virtual_time.as_secs();
    if args.json {
        write_json(out, &summary)?;
    } else {
        write!(out, "{}", summary.text())?;
    }
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Summary {
    fn add(&mut self, seed: u64, outcome: &Outcome, plan: &Plan) {
        self.packets += outcome.packets;
        let recovery = u64::try_from(outcome.recovered_after.as_millis()).unwrap_or(u64::MAX);
        if recovery > self.slowest_recovery_ms {
            (self.slowest_recovery_ms, self.slowest_seed) = (recovery, seed);
        }
        if outcome.survived {
            self.survived += 1;
        } else {
            let complaint = outcome.complaint(seed, &plan.workloads);
            self.failures.push(Failure { seed, complaint });
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} of {} failure schedules survived, seeds from {}: {} packets in {} s of virtual time, \
             slowest recovery {}.{:03} s (seed {})\n",
            self.survived,
            self.seeds,
            self.first_seed,
            self.packets,
            self.virtual_s,
            self.slowest_recovery_ms / 1000,
            self.slowest_recovery_ms % 1000,
            self.slowest_seed,
        );
        if let Some(first) = self.failures.first() {
            text.push_str(&format!("again: moorline sim --seeds 1 --first-seed {}\n", first.seed));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seeds: u64, first_seed: u64, json: bool) -> String {
        let mut out = Vec::new();
        sim(&SimArgs { seeds, first_seed, json }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_same_seeds_give_the_same_words() {
        let text = run(3, 7, false);
        assert!(text.contains("3 of 3 failure schedules survived, seeds from 7"), "{text}");
        assert_eq!(text, run(3, 7, false));
    }

    #[test]
    fn json_is_one_object() {
        let json: serde_json::Value = serde_json::from_str(&run(2, 1, true)).unwrap();
        assert_eq!((&json["seeds"], &json["survived"]), (&2.into(), &2.into()));
        assert_eq!(json["failures"], serde_json::json!([]));
    }

    #[test]
    fn a_failure_says_how_to_see_it_again() {
        let failures = vec![Failure { seed: 9, complaint: "seed 9".into() }];
        let summary = Summary {
            first_seed: 1,
            seeds: 10,
            survived: 9,
            packets: 1,
            virtual_s: 2,
            slowest_recovery_ms: 3004,
            slowest_seed: 5,
            failures,
        };
        let text = summary.text();
        assert!(text.starts_with("9 of 10 "), "{text}");
        assert!(text.contains("3.004 s (seed 5)"), "{text}");
        assert!(text.ends_with("again: moorline sim --seeds 1 --first-seed 9\n"), "{text}");
    }
}
