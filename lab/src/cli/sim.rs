use super::args::SimArgs;
use super::show;
use crate::interrupt::{self, Interrupted};
use anyhow::Context;
use moorline_sim::{
    Outcome, Plan, Summary, random_mixed_plan, random_plan, random_stack_plan, run, run_addresses,
    run_many, trace, trace_addresses,
};
use serde::Serialize;
use std::fs;
use std::io::Write;

/// Result of a batch of seeds, which `moorline-lab sim --json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    first_seed: u64,
    #[serde(flatten)]
    summary: Summary,
    failures: Vec<Failure>,
}

/// A seed whose run broke rules, and the broken rules.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Failure {
    seed: u64,
    violations: Vec<String>,
}

/// Plays many runs. Prints each run that breaks a rule at once. If the only seed breaks a rule, or on request, also
/// prints the message sequence chart of the first seed.
pub(super) fn sim(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    interrupt::install()?;
    let fixed = args.plan.as_deref().map(|path| {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Plan::from_toml(&text).with_context(|| path.display().to_string())
    });
    let fixed = fixed.transpose()?;
    let random = match (args.ilnp, args.stacks) {
        (true, _) => random_mixed_plan,
        (false, true) => random_stack_plan,
        (false, false) => random_plan,
    };
    let plan = |seed| fixed.clone().unwrap_or_else(|| random(seed));
    if args.print_plan {
        write!(out, "{}", plan(args.first_seed).to_toml())?;
        return Ok(true);
    }
    let mut failures = Vec::new();
    let seeds = args.first_seed..args.first_seed.saturating_add(args.seeds);
    let mut outcome = Ok(());
    let play = |seed| if args.addresses { run_addresses(seed) } else { run(seed, &plan(seed)) };
    let summary = run_many(seeds, play, |seed, run| {
        let told = tell(args, out, &mut failures, seed, run);
        outcome = told.and_then(|()| Ok(interrupt::check()?));
        outcome.is_ok()
    });
    if let Err(error) = outcome {
        let told = format!("{} runs until then, {} violations", summary.seeds, summary.violations);
        return Err(if error.is::<Interrupted>() { error.context(told) } else { error });
    }
    let shown = failures.first().map(|failure| failure.seed);
    let is_alone = args.seeds == 1;
    // Whether a rule was broken or not.
    let asked = (args.trace || args.mermaid).then_some(args.first_seed);
    if let Some(seed) = shown.filter(|_| is_alone && !args.json).or(asked) {
        let chart = || trace(seed, &plan(seed));
        write!(
            out,
            "{}",
            match (args.addresses, args.mermaid) {
                (true, _) => trace_addresses(seed),
                (false, true) => chart().mermaid(),
                (false, false) => chart().to_string(),
            }
        )?;
    }
    let report = Report { first_seed: args.first_seed, summary, failures };
    show(out, args.json, &report, |report| report.text(args))?;
    Ok(summary.violations == 0)
}

fn tell(
    args: &SimArgs,
    out: &mut dyn Write,
    failures: &mut Vec<Failure>,
    seed: u64,
    run: &Outcome,
) -> anyhow::Result<()> {
    if run.violations.is_empty() {
        return Ok(());
    }
    let violations = run.violations.iter().map(ToString::to_string).collect();
    let failure = Failure { seed, violations };
    if !args.json && args.seeds > 1 {
        write!(out, "{failure}")?;
        out.flush()?;
    }
    failures.push(failure);
    Ok(())
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}

impl Report {
    fn text(&self, args: &SimArgs) -> String {
        let Summary { seeds, violations, recovered, unrecoverable, unsettled, .. } = self.summary;
        let mut text =
            format!("{seeds} runs, seeds from {}: {violations} violations\n", self.first_seed);
        if !args.addresses {
            text.push_str(&format!(
                "traffic was cut off {} times: {recovered} recovered in time, {unrecoverable} could not, \
                 {unsettled} had no time to\nthe longest recovery took {:.1} s\n",
                recovered + unrecoverable + unsettled,
                self.summary.longest_recovery.as_secs_f64(),
            ));
        }
        let packets = if args.addresses { "Router Advertisements" } else { "packets" };
        text.push_str(&format!(
            "{} {packets} in {} s of virtual time\n",
            self.summary.packets,
            self.summary.duration.as_secs()
        ));
        if let Some(first) = self.failures.first() {
            let plan = args.plan.as_ref().map(|path| format!(" --plan {}", path.display()));
            let (seed, plan) = (first.seed, plan.unwrap_or_default());
            let worlds = [
                (args.ilnp, " --ilnp"),
                (args.stacks, " --stacks"),
                (args.addresses, " --addresses"),
            ];
            let world = worlds.iter().find(|(is_it, _)| *is_it).map_or("", |(_, option)| *option);
            text.push_str(&format!(
                "again: moorline-lab sim --seeds 1 --first-seed {seed}{plan}{world}\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(seeds: u64, first_seed: u64) -> SimArgs {
        SimArgs {
            ilnp: false,
            stacks: false,
            addresses: false,
            seeds,
            first_seed,
            plan: None,
            print_plan: false,
            trace: false,
            mermaid: false,
            json: false,
        }
    }

    fn run(args: &SimArgs) -> String {
        let mut out = Vec::new();
        sim(args, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_same_seeds_give_the_same_words() {
        let text = run(&args(3, 7));
        assert!(text.starts_with("3 runs, seeds from 7: 0 violations\n"), "{text}");
        assert_eq!(text, run(&args(3, 7)));
    }

    #[test]
    fn the_world_of_addresses_is_played_and_told() {
        let with_addresses = SimArgs { addresses: true, ..args(2, 7) };
        let text = run(&with_addresses);
        assert!(text.starts_with("2 runs, seeds from 7: 0 violations\n"), "{text}");
        assert!(text.contains(" Router Advertisements in "), "{text}");
        let log = run(&SimArgs { trace: true, ..with_addresses });
        assert!(log.contains("the daemon starts\n") && log.contains("Moorline: Add"), "{log}");
    }

    #[test]
    fn networks_with_host_stacks_are_played_and_printed() {
        let with_stacks = SimArgs { stacks: true, ..args(2, 7) };
        let text = run(&with_stacks);
        assert!(text.starts_with("2 runs, seeds from 7: 0 violations\n"), "{text}");
        let toml = run(&SimArgs { print_plan: true, ..with_stacks });
        assert!(toml.contains("stack = true\n"), "{toml}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, &toml).unwrap();
        let again = run(&SimArgs { plan: Some(path), ..args(1, 7) });
        assert_eq!(again, run(&SimArgs { stacks: true, ..args(1, 7) }));
    }

    #[test]
    fn json_is_one_object() {
        let text = run(&SimArgs { json: true, ..args(10, 1) });
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["seeds"], &json["violations"]), (&10.into(), &0.into()));
        assert!(json["recovered"].as_u64().unwrap() > 0, "{json}");
        assert!(json["unrecoverable"].is_u64(), "{json}");
        assert_eq!(json["failures"], serde_json::json!([]));
    }

    #[test]
    fn a_plan_can_be_printed_changed_and_played() {
        let toml = run(&SimArgs { print_plan: true, ..args(1, 5) });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        fs::write(&path, &toml).unwrap();
        let with_plan = SimArgs { plan: Some(path.clone()), ..args(1, 5) };
        assert_eq!(run(&with_plan), run(&args(1, 5)), "the same seed, the same plan");
        fs::write(&path, toml.replace("[[host]]", "[[host]]\nspeed = 1")).unwrap();
        let error = format!("{:#}", sim(&with_plan, &mut Vec::new()).unwrap_err());
        assert!(error.contains("plan.toml") && error.contains("unknown field `speed`"), "{error}");
    }

    #[test]
    fn a_chart_comes_when_asked_for() {
        let chart = run(&SimArgs { trace: true, ..args(1, 5) });
        assert!(chart.starts_with("               A           B"), "{chart}");
        assert!(chart.contains("payload from now on"), "{chart}");
        let mermaid = run(&SimArgs { mermaid: true, ..args(1, 5) });
        assert!(mermaid.starts_with("sequenceDiagram\n"), "{mermaid}");
    }

    #[test]
    fn a_failure_says_how_to_see_it_again() {
        let failures = vec![Failure { seed: 9, violations: vec!["Recovery at 1 s".into()] }];
        assert_eq!(failures[0].to_string(), "seed 9\n  Recovery at 1 s\n");
        let summary = Summary { seeds: 10, violations: 1, ..Summary::default() };
        let report = Report { first_seed: 1, summary, failures };
        let text = report.text(&args(10, 1));
        assert!(text.contains(": 1 violations\n"), "{text}");
        assert!(text.ends_with("again: moorline-lab sim --seeds 1 --first-seed 9\n"), "{text}");
        let with_plan = SimArgs { plan: Some("my.toml".into()), ..args(10, 1) };
        let text = report.text(&with_plan);
        assert!(text.ends_with("--first-seed 9 --plan my.toml\n"), "{text}");
        let text = report.text(&SimArgs { stacks: true, ..args(10, 1) });
        assert!(text.ends_with("--first-seed 9 --stacks\n"), "{text}");
    }
}
