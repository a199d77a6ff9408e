//! `moorlined`, the Moorline daemon.
#![forbid(unsafe_code)]

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser;
use moorlined::{Args, Config};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let args = Args::parse();
    let filter = EnvFilter::try_from_env("MOORLINE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    match start(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.reset {
        // Do not read the configuration: an error in it may have ended the daemon.
        let (state, pins) =
            (args.state_dir.display().to_string(), args.pin_dir.display().to_string());
        runtime.block_on(moorlined::reset(args))?;
        // Ignore a closed output: the command has succeeded.
        let _ = writeln!(
            io::stdout(),
            "Moorline is down: its links, addresses, routes and rules are gone from this host, and its programs in {pins} (state \
             directory {state})."
        );
        return Ok(());
    }
    let config = Config::load(args.config.as_deref())?;
    if args.check {
        return config.check_files();
    }
    runtime.block_on(moorlined::run(args, config))
}
