//! One failure under a flow between two real hosts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{ArtFlow, Job, LIMIT, OCTETS, PER_SECOND, RTT, RTT_STDDEV};
use crate::Failure;
use crate::daemon::DaemonOptions;
use crate::experiment::pool::part;
use crate::experiment::recovery::{Flow, Scene, Silence, await_recovery, pause};
use crate::topology::{ISPS, Impairment};
use crate::workload::{Direction, Gap, Sender, TcpOptions, TcpTransfer, UdpFlow, UdpOptions};

/// The recovery time; none if there was no recovery.
///
/// A Send Timeout that a busy machine exceeds, or not much longer than a round trip, makes traffic move
/// before the failure, which does not hit it then: another run takes the place of such a one.
pub(super) fn run(moorlined: &Path, job: &Job) -> anyhow::Result<Option<Duration>> {
    for _ in 0..ATTEMPTS {
        if let Some(time) = attempt(moorlined, job)? {
            return Ok(time);
        }
    }
    bail!("{job:?}: traffic moved before the failure {ATTEMPTS} times");
}

/// None if a false alarm came before the failure.
fn attempt(moorlined: &Path, job: &Job) -> anyhow::Result<Option<Option<Duration>>> {
    let cables = Impairment {
        delay: RTT / 2,
        // Two independent ways make up a round trip.
        jitter: RTT_STDDEV.mul_f64(std::f64::consts::FRAC_1_SQRT_2),
        seed: job.seed,
        ..Impairment::default()
    };
    let notice = if job.flow == ArtFlow::TcpNoNotice { "tcp-notice = false\n" } else { "" };
    let options = DaemonOptions {
        binary: moorlined.to_owned(),
        send_timeout: job.send_timeout,
        settings: format!("{SETTINGS}{notice}"),
    };
    let mut scene = Scene::protected(cables, &options)?;
    let flow = start(&scene, job.flow)?;
    flow.await_arrivals()?;
    scene.await_contexts()?;
    // Keepalives come every third of the Send Timeout: any moment between two of them.
    let spread = (job.send_timeout / 3).max(LEAST_SPREAD);
    pause(SETTLING + spread.mul_f64(part(job.seed, 0)))?;
    let armed = scene.lab.arm(Failure::Silent { router: ISPS[0].into() })?;
    if scene.has_moved() {
        return Ok(None);
    }
    let fault = armed.strike()?;
    let silence = Silence { least: LEAST_SILENCE, stragglers: STRAGGLERS, limit: LIMIT };
    let gap = await_recovery(&flow.arrivals(), fault.at, silence)
        .with_context(|| format!("{job:?}: {}", scene.logs()))?;
    Ok(Some(gap.as_ref().map(Gap::length)))
}

fn start(scene: &Scene, flow: ArtFlow) -> anyhow::Result<Flow> {
    let direction = match flow {
        ArtFlow::Tcp | ArtFlow::TcpNoNotice => {
            let [client, server] = scene.ends.clone();
            let options =
                TcpOptions { client, server, sender: Sender::Client, bytes: ENDLESS, rate: RATE };
            return TcpTransfer::start(&options).map(Flow::Tcp);
        }
        ArtFlow::UdpOneWay => Direction::OneWay,
        ArtFlow::UdpBothWays => Direction::BothWays,
    };
    let ends = scene.ends.clone();
    UdpFlow::start(&UdpOptions { ends, direction, per_second: PER_SECOND, size: OCTETS })
        .map(Flow::Udp)
}

/// The Send Timeout is the detector. Sets without a key are made at once, and contexts too.
const SETTINGS: &str = "profile = \"rfc\"\naddresses = \"hba\"\ntrigger-bytes = 500\n";
/// Between the context and the failure at least.
const SETTLING: Duration = Duration::from_secs(1);
const LEAST_SPREAD: Duration = Duration::from_secs(1);
/// Longer than jitter makes any gap of these flows, shorter than any Send Timeout leaves one.
const LEAST_SILENCE: Duration = Duration::from_millis(110);
/// One way, five standard deviations, and a busy machine.
const STRAGGLERS: Duration = Duration::from_millis(130);
/// Runs that may have had a false alarm.
const ATTEMPTS: usize = 5;
const ENDLESS: u64 = 1 << 40;
/// Octets a second: always under way, and without a queue.
const RATE: u64 = 1_000_000;
