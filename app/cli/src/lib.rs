//! The Moorline command line: shows what the daemon does, undoes it, makes addresses.
//!
//! Commands that read take `--json`. They print the JSON of `moorline-api`, so scripts may use the command or the socket.
//! [`render`] makes the text for people from values alone, so tests can check every line.
#![forbid(unsafe_code)]

mod args;
mod commands;
pub mod render;

pub use args::{Args, Command};

use commands::{client, show};
use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the command, and writes its output to `out`.
///
/// # Errors
/// The command fails; the text says what was wrong and what to do.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Status(format) => {
            let text = |status: &_| render::status(status, now_unix_ms());
            show(out, format.json, &client(args)?.status()?, text)
        }
        Command::Contexts(format) => {
            let client = client(args)?;
            let contexts = client.contexts()?;
            if format.json {
                return show(out, true, &contexts, |_| String::new());
            }
            // The table does not have the connections without a context, and the user wants to know their reason.
            let status = client.status()?;
            show(out, false, &contexts, |all| render::contexts(all, &status, now_unix_ms()))
        }
        Command::Ilcc(format) => show(out, format.json, &client(args)?.ilcc()?, render::ilcc),
        Command::Events(events) => commands::events(args, events, out),
        Command::Path(command) => commands::path(args, command, out),
        #[cfg(feature = "dns")]
        Command::DnsRecords(records) => commands::dns_records(args, records, out),
        #[cfg(feature = "dns")]
        Command::Ilnp(command) => commands::ilnp(args, command, out),
        Command::Doctor(doctor) => commands::doctor(args, doctor, out),
        Command::Down(down) => commands::down(args, down, out),
        Command::Demo(lab) => commands::lab(Some("demo"), lab),
        Command::Sim(lab) => commands::lab(Some("sim"), lab),
        Command::Addr(command) => commands::addr(args, command, out),
        Command::Key(command) => commands::key(command, out),
        Command::Stack(command) => commands::stack(command, out),
        Command::Lab(lab) => commands::lab(None, lab),
    }
}

fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
