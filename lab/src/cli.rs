//! The command line of the lab: demo, simulator and experiments.

mod args;
mod demo;
mod experiments;
mod progress;
mod render;
mod sim;
mod simulated;

pub use args::{Args, Command};

use std::io::Write;
use std::process::ExitCode;

/// Carries out the command; what it shows goes to `out`.
///
/// # Errors
/// When it cannot be carried out; the text says what was wrong and what to do.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Demo(demo) => demo::demo(demo, out),
        Command::Sim(sim) => sim::sim(sim, out),
        Command::List(format) => experiments::list(*format, out),
        Command::Run(run) => experiments::run(run, out),
        Command::Load(load) => experiments::load(load, out),
        Command::Report(report) => experiments::report(report, out),
    }
}
