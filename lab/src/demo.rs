//! The demo: a transfer survives the death of its ISP, and what happens without Moorline.
//!
//! Two hosts with two ISPs each; a daemon in each host. curl downloads a file from B to A, iperf3
//! sends from A to B at the same time; ISP 1 dies silently in the middle of both. Then the same
//! once more without daemons, for as long as a person would wait twice over. With ILNP it is host A's cable to ISP 1 that
//! is cut: a host that changes its locator knows that it does (decision 076).

mod protocol;
mod report;
mod run;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

pub use protocol::Protocol;
pub use report::{Mode, Report};
pub use run::Outcome;

use crate::daemon::{DaemonOptions, start_both};
use crate::lab::Lab;
use crate::timeline::View;
use crate::topology::{self, HOSTS, ISPS, host_address};
use crate::{interrupt, preflight};

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The daemon to run.
    pub moorlined: PathBuf,
    /// What keeps the connections alive.
    pub protocol: Protocol,
    /// Its Send Timeout.
    pub send_timeout: Duration,
    /// Octets a second of each of the two programs.
    pub rate: u64,
}

impl DemoOptions {
    /// Rate unless chosen otherwise: half of what makes bars jump on a small machine.
    pub const RATE: u64 = 20_000_000;
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
    view.say(
        "Hosts A and B, each with an uplink to ISP 1 and one to ISP 2. curl downloads from B,",
    );
    view.say(options.protocol.words().plot);
    let protected = with_moorline(options, view).context("the run with Moorline")?;
    let control = without_moorline(options, view).context("the run without Moorline")?;
    let DemoOptions { protocol, send_timeout, .. } = *options;
    Ok(Report::of(&protected, &control, Mode::Namespaces, protocol, send_timeout))
}

fn with_moorline(options: &DemoOptions, view: &mut dyn View) -> anyhow::Result<Outcome> {
    let DemoOptions { ref moorlined, protocol, send_timeout, rate } = *options;
    let lab = Lab::build(topology::two_by_two(true))?;
    let started = DaemonOptions::with(moorlined, send_timeout, protocol.words().settings);
    let mut daemons = start_both(&lab, [&started; 2])?;
    let address = |host: usize| daemons[host].verifiable_address(ISPS[0]);
    let addresses = [address(0)?, address(1)?];
    view.begin("With Moorline on both hosts", &run::lanes(rate));
    run::run(&lab, addresses, &mut daemons, options, view)
}

/// The control run alone: the same programs and the same cut, without daemons, watched for twice
/// the Send Timeout and 2 s after the cut.
///
/// # Errors
/// As [`run`].
pub fn without_moorline(options: &DemoOptions, view: &mut dyn View) -> anyhow::Result<Outcome> {
    interrupt::install()?;
    let lab = Lab::build(topology::two_by_two(true))?;
    let addresses = HOSTS.map(|host| host_address(host, 1));
    view.begin("The same without Moorline", &run::lanes(options.rate));
    run::run(&lab, addresses, &mut [], options, view)
}
