//! A failure under a flow between two real hosts.

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{ArtFlow, Case, LIMIT, OCTETS, PER_SECOND, RTT, RTT_STDDEV, Times};
use crate::capture::{Capture, Frame};
use crate::experiment::pool::{Trial, part};
use crate::experiment::recovery::{Flow, Scene, Silence, await_recovery, pause};
use crate::topology::{HOSTS, ISPS, Impairment, Prefix, host_address, prefix_of};
use crate::workload::{Carriage, Direction, Gap};

/// Runs a trial and gives its recovery times. `None` for a flow that did not recover.
///
/// If a busy machine, or a round trip, takes as long as the Send Timeout, traffic moves before the failure, so the
/// failure does not affect it. A pause of the machine may also look like the silence, so that the captures end before
/// the silence. In both cases another run replaces this one.
pub(super) fn run(job: &Trial<Case>) -> anyhow::Result<Times> {
    for _ in 0..ATTEMPTS {
        if let Some(times) = attempt(job)? {
            return Ok(times);
        }
    }
    bail!("{job:?}: no silence to be measured in {ATTEMPTS} runs");
}

/// Runs a trial once. `None` if a false alarm came before the failure, or if a flow went on and no packet came by the
/// new path.
fn attempt(job: &Trial<Case>) -> anyhow::Result<Option<Times>> {
    let cables = Impairment {
        delay: RTT / 2,
        // A round trip has two independent directions.
        jitter: RTT_STDDEV.mul_f64(std::f64::consts::FRAC_1_SQRT_2),
        seed: job.seed,
        ..Impairment::default()
    };
    let notice = if job.flow == ArtFlow::TcpNoNotice { "tcp-notice = false\n" } else { "" };
    let standby = if job.standby { STANDBY } else { "" };
    let settings = format!("{SETTINGS}{standby}{notice}");
    let mut scene = Scene::protected(cables, job.send_timeout, &settings)?;
    let flow = start(&scene, job.flow)?;
    flow.await_arrivals()?;
    scene.await_protection()?;
    // A host checks the standby path of one-way traffic at the first keepalive. The failure then comes at any moment
    // between two keepalives.
    let keepalive = job.send_timeout / KEEPALIVE_DIVISOR;
    let spread = keepalive.max(LEAST_SPREAD);
    pause(SETTLING + keepalive + spread.mul_f64(part(job.seed, 0)))?;
    let captures = captures(&scene, job.flow)?;
    let Some(cut) = scene.silence()? else { return Ok(None) };
    let silence = Silence { least: LEAST_SILENCE, stragglers: STRAGGLERS, limit: LIMIT };
    let gap = await_recovery(&flow.arrivals(), cut, silence)
        .with_context(|| format!("{job:?}: {}", scene.logs()))?;
    let arts: Vec<_> = captures.into_iter().map(Way::finish).collect::<anyhow::Result<_>>()?;
    // The longer of the two directions. `None` if a direction did not recover.
    let art = arts.into_iter().collect::<Option<Vec<_>>>().and_then(|arts| arts.into_iter().max());
    if art.is_none() && gap.is_some() {
        return Ok(None);
    }
    Ok(Some(Times { art, application: gap.as_ref().map(Gap::length) }))
}

/// One direction of a flow: captures at its receiver, at both ISPs.
struct Way {
    prefixes: [Prefix; 2],
    old: Capture,
    new: Capture,
}

impl Way {
    fn start(scene: &Scene, host: &str) -> anyhow::Result<Self> {
        let (namespace, directory) = (scene.lab.namespace(host)?, scene.lab.directory(host)?);
        let [old, new] = ISPS.map(|isp| Capture::start(namespace, isp, &directory));
        let prefixes = [1, 2].map(|isp| prefix_of(host_address(host, isp)));
        Ok(Self { prefixes, old: old?, new: new? })
    }

    /// Time from the last packet by the old path to the first packet by the new path.
    fn finish(self) -> anyhow::Result<Option<Duration>> {
        let comes_in = |frame: &&Frame| {
            let to = frame.destination().map(prefix_of);
            let is_payload = frame.is_plain_payload() || frame.is_moved_payload();
            is_payload && to.is_some_and(|to| self.prefixes.contains(&to))
        };
        let (old, new) = (self.old.finish()?, self.new.finish()?);
        let last = old.iter().filter(comes_in).map(|frame| frame.at).max();
        let last = last.context("no packet by the old path")?;
        let first = new.iter().filter(comes_in).map(|frame| frame.at).find(|&at| at > last);
        Ok(first.map(|first| first.saturating_sub(last)))
    }
}

/// Starts captures at the receivers of the flow. The acknowledgements of a transfer do not count.
fn captures(scene: &Scene, flow: ArtFlow) -> anyhow::Result<Vec<Way>> {
    let ends = if flow == ArtFlow::UdpBothWays { &HOSTS[..] } else { &HOSTS[1..] };
    ends.iter().map(|host| Way::start(scene, host)).collect()
}

fn start(scene: &Scene, flow: ArtFlow) -> anyhow::Result<Flow> {
    match flow {
        ArtFlow::Tcp | ArtFlow::TcpNoNotice => scene.transfer(RATE, Carriage::default()),
        ArtFlow::UdpOneWay => scene.datagrams(Direction::OneWay, PER_SECOND, OCTETS),
        ArtFlow::UdpBothWays => scene.datagrams(Direction::BothWays, PER_SECOND, OCTETS),
    }
}

/// With profile `rfc`, the Send Timeout detects the failure. HBA sets without a key are made at once, and contexts
/// after 500 octets.
const SETTINGS: &str = "profile = \"rfc\"\naddresses = \"hba\"\ntrigger-bytes = 500\n";
/// The standby interval of the default profile.
const STANDBY: &str = "standby-interval = \"60s\"\n";
/// Least time from the context, or its first keepalive, to the failure.
const SETTLING: Duration = Duration::from_secs(1);
/// Keepalives in a Send Timeout, by default.
const KEEPALIVE_DIVISOR: u32 = 3;
const LEAST_SPREAD: Duration = Duration::from_secs(1);
/// Longer than any gap that jitter makes in these flows, and shorter than any silence that a Send Timeout leaves.
const LEAST_SILENCE: Duration = Duration::from_millis(110);
/// One-way delay, five standard deviations, and an allowance for a busy machine.
const STRAGGLERS: Duration = Duration::from_millis(130);
/// Most runs of a trial. A run without a usable silence is repeated.
const ATTEMPTS: usize = 5;
/// Octets a second: packets are always on their way, and no queue builds up.
const RATE: u64 = 1_000_000;
