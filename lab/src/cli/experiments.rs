use super::args::{FormatArgs, LoadArgs, ReportArgs, RunArgs};
use super::progress::StageBar;
use super::render;
use crate::experiment::{self, Card, Experiment};
use crate::interrupt::Interrupted;
use moorline_term::{EXIT_INTERRUPTED, write_json};
use serde::Serialize;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

pub(super) fn list(format: FormatArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let all = experiment::all();
    let experiments: Vec<_> = all.iter().map(|one| Listed::new(one.as_ref())).collect();
    if format.json {
        write_json(out, &experiments)?;
    } else {
        out.write_all(render::experiments(&experiments).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line of `moorline-lab list`.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Why it cannot run here; empty when it can.
    pub(super) obstacles: Vec<String>,
}

impl Listed {
    fn new(experiment: &dyn Experiment) -> Self {
        let Card { name, about, .. } = experiment.card();
        Self { name, about, obstacles: experiment.obstacles() }
    }
}

pub(super) fn report(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let report = experiment::report(&args.out)?;
    if args.json {
        let told = json!({"report": report.file, "experiments": report.experiments});
        write_json(out, &told)?;
    } else {
        writeln!(out, "report       {}", report.file.display())?;
        writeln!(out, "experiments  {}", report.experiments.join(", "))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn load(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut bar = StageBar::new();
    let sent = args.load().run(&mut bar);
    drop(bar);
    let sent = match sent {
        Err(error) if error.is::<Interrupted>() => return Ok(interrupted("sending has ended")),
        sent => sent?,
    };
    if args.json {
        write_json(out, &sent)?;
    } else {
        out.write_all(render::sent(&sent).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn interrupted(what: &str) -> ExitCode {
    eprintln!("moorline-lab: interrupted; {what}");
    ExitCode::from(EXIT_INTERRUPTED)
}

pub(super) fn run(args: &RunArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.out {
        // A folder that cannot be made is better known now.
        experiment::check_folder(folder)?;
    }
    let mut bar = StageBar::new();
    let results = experiment::run(args.experiment.experiment(), &mut bar);
    drop(bar);
    let results = match results {
        Err(error) if error.is::<Interrupted>() => {
            return Ok(interrupted("nothing was written"));
        }
        results => results?,
    };
    let written = args.out.as_deref().map(|folder| results.write(folder)).transpose();
    if args.json {
        write_json(out, &results)?;
    } else {
        let files = written.as_ref().ok().and_then(Option::as_ref);
        out.write_all(render::results(&results, files).as_bytes())?;
    }
    written?;
    for fault in &results.faults {
        eprintln!("moorline-lab: {fault}");
    }
    Ok(if results.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
