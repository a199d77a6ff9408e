//! Output of the programs of Moorline on a terminal: tables, numbers with units, bars, and the end of a program.
#![forbid(unsafe_code)]

mod bar;
mod table;
pub mod units;

pub use bar::Bar;
pub use table::{TitledRow, table, titled_table};

use serde::Serialize;
use std::borrow::Cow;
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
            eprintln!("{}", printable(&format!("{program}: {error:#}")));
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

/// Writes text for people. Interfaces and names of the DNS may have control characters in their names: these are escaped, so that they do nothing
/// to a terminal.
///
/// # Errors
/// The output is closed.
pub fn write_text(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(printable(text).as_bytes())
}

/// Text whose control characters other than line feeds are escaped.
fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |one: char| one.is_control() && one != '\n';
    if !text.contains(is_unsafe) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        if is_unsafe(one) { escaped.extend(one.escape_default()) } else { escaped.push(one) }
    }
    escaped.into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_to_a_terminal() {
        let mut out = vec![];
        write_text(&mut out, "eth0\u{1b}[2J\u{9b}31m\r is up\nwän0 is down\n").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "eth0\\u{1b}[2J\\u{9b}31m\\r is up\nwän0 is down\n");
    }
}
