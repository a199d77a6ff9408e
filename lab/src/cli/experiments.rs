use super::args::{FormatArgs, LoadArgs, ReportArgs, RunArgs};
use super::progress::bar;
use super::{render, show};
use crate::experiment::{self, Card, Experiment};
use serde::Serialize;
use std::io::Write;

pub(super) fn list(format: FormatArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let all = experiment::all();
    let experiments: Vec<_> = all.iter().map(|one| Listed::new(one.as_ref())).collect();
    show(out, format.json, &experiments, |all| render::experiments(all))?;
    Ok(true)
}

/// A line of `moorline-lab list`.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Reasons why the experiment cannot run here. Empty if it can run.
    pub(super) obstacles: Vec<String>,
}

impl Listed {
    fn new(experiment: &dyn Experiment) -> Self {
        let Card { name, about, .. } = experiment.card();
        Self { name, about, obstacles: experiment.obstacles() }
    }
}

pub(super) fn report(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let report = experiment::report(&args.out)?;
    show(out, args.json, &report, render::report)?;
    Ok(true)
}

pub(super) fn load(args: &LoadArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let sent = args.load.run(&mut bar())?;
    show(out, args.json, &sent, render::sent)?;
    Ok(true)
}

pub(super) fn run(args: &RunArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    if let Some(folder) = &args.out {
        // Fail before the measurement if the folder cannot be made.
        experiment::check_folder(folder)?;
    }
    let results = experiment::run(args.experiment.experiment(), &mut bar())?;
    let written = args.out.as_deref().map(|folder| results.write(folder)).transpose();
    let files = written.as_ref().ok().and_then(Option::as_ref);
    show(out, args.json, &results, |results| render::results(results, files))?;
    written?;
    for fault in &results.faults {
        eprintln!("moorline-lab: {fault}");
    }
    Ok(results.faults.is_empty())
}
