//! The command line of the lab: demo, simulator and experiments.

mod args;
mod demo;
mod experiments;
mod progress;
mod render;
mod sim;
mod simulated;
mod soak;

pub use args::{Args, Command};

use std::io::Write;
use std::process::ExitCode;

use moorline_term::{EXIT_INTERRUPTED, write_json};
use serde::Serialize;

use crate::interrupt::Interrupted;

/// Carries out the command and writes its output to `out`.
///
/// # Errors
/// The command failed. The text says what was wrong and what to do.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (is_success, if_interrupted) = match &args.command {
        Command::Demo(demo) => (demo::demo(demo, out), "everything the demo made is gone"),
        Command::Sim(sim) => (sim::sim(sim, out), ""),
        Command::List(format) => (experiments::list(*format, out), ""),
        Command::Run(run) => (experiments::run(run, out), "nothing was written"),
        Command::Load(load) => (experiments::load(load, out), "sending has ended"),
        Command::Soak(soak) => (soak::soak(soak, out), "the soak has no result"),
        Command::Report(report) => (experiments::report(report, out), ""),
    };
    match is_success {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) if error.is::<Interrupted>() => {
            // The error of `sim` already says how far it came.
            let left =
                if if_interrupted.is_empty() { error.to_string() } else { if_interrupted.into() };
            eprintln!("moorline-lab: interrupted; {left}");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
        Err(error) => Err(error),
    }
}

/// Shows the result of a command: as JSON, or as text for a person.
fn show<T: Serialize>(
    out: &mut dyn Write,
    is_json: bool,
    result: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    if is_json { write_json(out, result) } else { Ok(out.write_all(text(result).as_bytes())?) }
}
