//! Turns Ctrl-C, SIGTERM and SIGHUP into an error that unwinds, so that every `Drop` cleans up.

use moorline_term::EXIT_INTERRUPTED;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Error: a signal asked the run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Installs handlers for the three signals. A second signal ends the process at once. The guardian of the running lab
/// then cleans up.
///
/// # Errors
/// The handlers could not be installed.
pub fn install() -> anyhow::Result<()> {
    if INTERRUPTED.get().is_some() {
        return Ok(());
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), Arc::clone(&flag))
            .and_then(|_| flag::register(signal, Arc::clone(&flag)))
            .context("install signal handlers")?;
    }
    // If two threads race, a second pair of handlers stays. The second pair does no harm.
    let _ = INTERRUPTED.set(flag);
    Ok(())
}

/// A flag that is set once a signal has come.
#[must_use]
pub fn flag() -> &'static AtomicBool {
    static NEVER: AtomicBool = AtomicBool::new(false);
    INTERRUPTED.get().map_or(&NEVER, |flag| flag)
}

/// Fails with [`Interrupted`] once a signal has come.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if flag().load(Ordering::SeqCst) { Err(Interrupted) } else { Ok(()) }
}

/// Calls `condition` every few milliseconds until it gives a value.
///
/// # Errors
/// A signal came, the condition failed, or `limit` passed. The error names `what`.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = condition().with_context(|| format!("while waiting for {what}"))? {
            return Ok(value);
        }
        check()?;
        if Instant::now() >= end {
            anyhow::bail!("{what}: not within {:.1} s", limit.as_secs_f64());
        }
        thread::sleep(TICK);
    }
}

/// Interval at which waiting loops look.
pub const TICK: Duration = Duration::from_millis(10);
