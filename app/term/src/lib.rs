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

/// Runs the main function of a program and says what went wrong. A reader that is gone, as in `moorline events | head`, is not
/// worth a word.
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

/// One JSON value, as `--json` prints it.
///
/// # Errors
/// Nobody takes the output.
pub fn write_json(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string_pretty(value)?)?)
}

/// Exit code of a program that Ctrl-C has ended, as a shell gives it.
pub const EXIT_INTERRUPTED: u8 = 130;
