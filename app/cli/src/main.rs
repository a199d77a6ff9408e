//! `moorline`, the command line program.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = moorline::Args::parse();
    moorline_term::run_main("moorline", |out| moorline::run(&args, out))
}
