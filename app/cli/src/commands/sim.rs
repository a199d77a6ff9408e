use super::write_json;
use crate::args::SimArgs;
use moorline_lab::interrupt;
use moorline_sim::{Outcome, random_plan, trace};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Result of a batch of seeds; `moorline sim --json` prints it.
#[derive(Debug, Default, Serialize)]
struct Report {
    first_seed: u64,
    seeds: u64,
    /// Rules broken.
    violations: u64,
    /// Times that traffic was cut off and flowed again in time.
    recovered: u64,
    /// Times that nothing could have brought it back.
    unrecoverable: u64,
    /// Times that the next change came first.
    unsettled: u64,
    packets: u64,
    virtual_s: u64,
    failures: Vec<Failure>,
}

/// A seed that broke rules, and which.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Failure {
    seed: u64,
    violations: Vec<String>,
}

/// Plays random failure schedules. One that breaks a rule is told at once; played alone, it is told
/// message by message.
pub(crate) fn sim(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let mut report = Report { first_seed: args.first_seed, ..Report::default() };
    let mut summary = moorline_sim::Summary::default();
    for seed in (0..args.seeds).map(|n| args.first_seed.wrapping_add(n)) {
        interrupt::check()?;
        let plan = random_plan(seed);
        let outcome = moorline_sim::run(seed, &plan);
        summary.add(seed, &outcome);
        let Some(failure) = failure(seed, &outcome) else { continue };
        if !args.json {
            if args.seeds == 1 {
                write!(out, "{plan:#?}\n{}", trace(seed, &plan))?;
            } else {
                write!(out, "{failure}")?;
            }
            out.flush()?;
        }
        report.failures.push(failure);
    }
    report.fill(&summary);
    if args.json {
        write_json(out, &report)?;
    } else {
        write!(out, "{}", report.text())?;
    }
    Ok(if report.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn failure(seed: u64, outcome: &Outcome) -> Option<Failure> {
    let violations: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
    (!violations.is_empty()).then_some(Failure { seed, violations })
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}

impl Report {
    fn fill(&mut self, summary: &moorline_sim::Summary) {
        self.seeds = summary.seeds;
        self.violations = summary.violations;
        self.recovered = summary.recovered;
        self.unrecoverable = summary.unrecoverable;
        self.unsettled = summary.unsettled;
        self.packets = summary.packets;
        self.virtual_s = summary.duration.as_secs();
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} failure schedules, seeds from {}: {} violations\n\
             traffic was cut off {} times: {} recovered in time, {} could not, {} had no time to\n\
             {} packets in {} s of virtual time\n",
            self.seeds,
            self.first_seed,
            self.violations,
            self.recovered + self.unrecoverable + self.unsettled,
            self.recovered,
            self.unrecoverable,
            self.unsettled,
            self.packets,
            self.virtual_s,
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
        assert!(text.starts_with("3 failure schedules, seeds from 7: 0 violations\n"), "{text}");
        assert_eq!(text, run(3, 7, false));
    }

    #[test]
    fn json_is_one_object() {
        let json: serde_json::Value = serde_json::from_str(&run(10, 1, true)).unwrap();
        assert_eq!((&json["seeds"], &json["violations"]), (&10.into(), &0.into()));
        assert!(json["recovered"].as_u64().unwrap() > 0, "{json}");
        assert!(json["unrecoverable"].is_u64(), "{json}");
        assert_eq!(json["failures"], serde_json::json!([]));
    }

    #[test]
    fn a_failure_says_how_to_see_it_again() {
        let failures = vec![Failure { seed: 9, violations: vec!["Recovery at 1 s".into()] }];
        assert_eq!(failures[0].to_string(), "seed 9\n  Recovery at 1 s\n");
        let report =
            Report { first_seed: 1, seeds: 10, violations: 1, failures, ..Report::default() };
        let text = report.text();
        assert!(text.contains(": 1 violations\n"), "{text}");
        assert!(text.ends_with("again: moorline sim --seeds 1 --first-seed 9\n"), "{text}");
    }
}
