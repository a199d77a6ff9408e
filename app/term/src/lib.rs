//! Output of the programs of Moorline on a terminal: tables, numbers with units, bars, and the end of a program.
#![forbid(unsafe_code)]

mod bar;
mod table;
pub mod units;

pub use bar::Bar;
pub use table::{TitledRow, table, titled_table};

use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs the main function of a program and prints its error. A closed output, as in `moorline events | head`, is no error.
pub fn run_main(
    program: &str,
    main: impl FnOnce(&mut dyn Write) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let mut out = io::stdout().lock();
    let result = main(&mut out).and_then(|code| Ok(out.flush().map(|()| code)?));
    match result {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes one JSON value, in the form of `--json`.
///
/// # Errors
/// The output is closed.
pub fn write_json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(value)?)?)
}

/// Exit code after Ctrl-C, as in a shell.
pub const EXIT_INTERRUPTED: u8 = 130;
