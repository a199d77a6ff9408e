//! `moorline-lab`: demo, simulator and experiments.
#![forbid(unsafe_code)]

use clap::Parser;
use moorline_lab::cli::{Args, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    moorline_term::run_main("moorline-lab", |out| run(&args, out))
}
