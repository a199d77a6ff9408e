//! The demo: a transfer survives the death of its ISP, and what happens without Moorline.
//!
//! Two hosts with two ISPs each; a daemon in each host. curl downloads a file from B to A, iperf3
//! sends from A to B at the same time; ISP 1 dies silently in the middle of both. Then the same
//! once more without daemons, for as long as a person would wait twice over. With ILNP it is host A's cable to ISP 1 that
//! is cut: a host that changes its locator knows that it does (decision 076).

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
    /// What keeps the connections alive: shim6, over an ISP that dies silently, or ilnp, on a host that is cut off from its
    /// ISP.
    #[arg(long, value_name = "PROTOCOL", default_value_t = Protocol::Shim6)]
    pub protocol: Protocol,
    /// Silence that counts as failure (RFC 5534: Send Timeout); of no account for ilnp.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = send_timeout)]
    pub send_timeout: Duration,
    /// Octets a second of each program, for machines that are slow or emulated.
    // The default is half of what makes bars jump on a small machine.
    #[arg(long, value_name = "OCTETS", default_value_t = 20_000_000, hide = true)]
    pub rate: u64,
}

impl Default for DemoOptions {
    fn default() -> Self {
        options::defaults()
    }
}

/// A Send Timeout that the daemon takes too.
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

/// Why the demo cannot run on this machine's kernel, for a person; empty when it can.
#[must_use]
pub fn obstacles() -> Vec<String> {
    let mut obstacles = preflight::check(&PROGRAMS);
    obstacles.extend(preflight::check_bpf());
    obstacles
}

/// Runs the demo and shows it.
///
/// # Errors
/// It could not be carried out, or was interrupted ([`interrupt::Interrupted`]). A connection that
/// did not survive is no error but a [`Report`].
pub fn run(options: &DemoOptions, view: &mut dyn View) -> anyhow::Result<Report> {
    interrupt::install()?;
    let &DemoOptions { protocol, send_timeout, .. } = options;
    view.say(
        "Hosts A and B, each with an uplink to ISP 1 and one to ISP 2. curl downloads from B,",
    );
    view.say(protocol.words().plot);
    let settings = protocol.words().settings;
    let protected = Scene::protected(Impairment::default(), send_timeout, settings)
        .and_then(|scene| run::run(scene, "With Moorline on both hosts", options, view))
        .context("the run with Moorline")?;
    let control = without_moorline(options, view).context("the run without Moorline")?;
    Ok(Report::of(&protected, &control, Mode::Namespaces, protocol, send_timeout))
}

/// The control run alone: the same programs and the same cut, without daemons, watched for twice
/// the Send Timeout and 2 s after the cut.
///
/// # Errors
/// As [`run`].
pub fn without_moorline(options: &DemoOptions, view: &mut dyn View) -> anyhow::Result<Outcome> {
    interrupt::install()?;
    let scene = Scene::plain(Impairment::default())?;
    run::run(scene, "The same without Moorline", options, view)
}
