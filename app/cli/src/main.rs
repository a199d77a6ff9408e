//! `moorline`: everything a person types.
#![forbid(unsafe_code)]

use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = moorline::Args::parse();
    let mut out = io::stdout().lock();
    let result = moorline::run(&args, &mut out).and_then(|code| Ok(out.flush().map(|()| code)?));
    match result {
        Ok(code) => code,
        Err(error) if moorline::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("moorline: {error:#}");
            ExitCode::FAILURE
        }
    }
}
