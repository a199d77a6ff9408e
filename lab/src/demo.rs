//! The demo: a transfer survives the failure of its ISP with Moorline, and stalls without.
//!
//! There are two hosts with two ISPs each, and a daemon on each host. curl downloads a file from B to A, and iperf3
//! sends from A to B at the same time. ISP 1 fails silently in the middle of both. Then the same scenario runs again
//! without daemons, for twice as long as a person would wait.

mod protocol;
mod report;
mod run;

use std::time::Duration;

use anyhow::Context as _;

pub use protocol::Protocol;
pub use report::{Mode, Report};
pub use run::Outcome;

use crate::experiment::{Scene, options};
use crate::timeline::View;
use crate::topology::Impairment;
use crate::{interrupt, preflight};

/// What can be chosen.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(about = None, long_about = None)]
pub struct DemoOptions {
    /// Protocol that keeps the connections alive when their ISP dies silently: shim6 or ilnp.
    #[arg(long, value_name = "PROTOCOL", default_value_t = Protocol::Shim6)]
    pub protocol: Protocol,
    /// Silence that counts as failure (RFC 5534: Send Timeout); of no account for ilnp.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = send_timeout)]
    pub send_timeout: Duration,
    /// Octets a second of each program, for machines that are slow or emulated.
    // The default is half of the rate at which bars start to jump on a small machine.
    #[arg(long, value_name = "OCTETS", default_value_t = 20_000_000, hide = true)]
    pub rate: u64,
}

impl Default for DemoOptions {
    fn default() -> Self {
        options::defaults()
    }
}

/// Parses a Send Timeout within the limits of the daemon.
fn send_timeout(text: &str) -> Result<Duration, String> {
    let span = options::span(text).map_err(|error| format!("{error}; write for example 500ms"))?;
    if (Duration::from_millis(200)..=Duration::from_secs(100)).contains(&span) {
        Ok(span)
    } else {
        Err("outside 200ms to 100s".into())
    }
}

/// Programs that the demo runs.
pub const PROGRAMS: [&str; 2] = ["curl", "iperf3"];

/// Gives the reasons, in words for people, why the demo cannot run on this machine. Empty if it can run.
#[must_use]
pub fn obstacles() -> Vec<String> {
    let mut obstacles = preflight::check(&PROGRAMS);
    obstacles.extend(preflight::check_bpf());
    obstacles
}

/// Runs the demo and shows it.
///
/// # Errors
/// The demo failed, or was interrupted ([`interrupt::Interrupted`]). A connection that did not survive is no error: the
/// [`Report`] says so.
pub fn run(options: &DemoOptions, view: &mut dyn View) -> anyhow::Result<Report> {
    interrupt::install()?;
    let &DemoOptions { protocol, send_timeout, .. } = options;
    view.say(
        "Hosts A and B, each with an uplink to ISP 1 and one to ISP 2. curl downloads from B,",
    );
    view.say("iperf3 sends to B. Then ISP 1 dies: it drops every packet and says nothing.");
    let settings = protocol.words().settings;
    let protected = Scene::protected(Impairment::default(), send_timeout, settings)
        .and_then(|scene| run::run(scene, "With Moorline on both hosts", options, view))
        .context("the run with Moorline")?;
    let control = without_moorline(options, view).context("the run without Moorline")?;
    Ok(Report::of(&protected, &control, Mode::Namespaces, protocol, send_timeout))
}

/// Runs the scenario without daemons only: the same programs and the same cut. Watches the programs for twice the Send
/// Timeout (ILNP: 12 s) and 2 s after the cut.
///
/// # Errors
/// The same errors as [`run`].
pub fn without_moorline(options: &DemoOptions, view: &mut dyn View) -> anyhow::Result<Outcome> {
    interrupt::install()?;
    let scene = Scene::plain(Impairment::default())?;
    run::run(scene, "The same without Moorline", options, view)
}
