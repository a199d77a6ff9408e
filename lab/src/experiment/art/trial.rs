//! One failure under a flow between two real hosts.

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{ArtFlow, Case, LIMIT, OCTETS, PER_SECOND, RTT, RTT_STDDEV, Times};
use crate::capture::{Capture, Frame};
use crate::experiment::pool::{Trial, part};
use crate::experiment::recovery::{Flow, Scene, Silence, await_recovery, pause};
use crate::topology::{HOSTS, ISPS, Impairment, Prefix, host_address, prefix_of};
use crate::workload::{Carriage, Direction, Gap};

/// The recovery times, none for what did not recover.
///
/// A Send Timeout that a busy machine exceeds, or not much longer than a round trip, makes traffic move
/// before the failure, which does not hit it then; and a pause of the machine may be taken for the silence, so that
/// captures end before it: another run takes the place of such a one.
pub(super) fn run(job: &Trial<Case>) -> anyhow::Result<Times> {
    for _ in 0..ATTEMPTS {
        if let Some(times) = attempt(job)? {
            return Ok(times);
        }
    }
    bail!("{job:?}: no silence to be measured in {ATTEMPTS} runs");
}

/// None if a false alarm came before the failure, or a flow went on but not by the new path.
fn attempt(job: &Trial<Case>) -> anyhow::Result<Option<Times>> {
    let cables = Impairment {
        delay: RTT / 2,
        // Two independent ways make up a round trip.
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
    // One-way traffic has its standby path checked at the first keepalive; then any moment between two of them.
    let keepalive = job.send_timeout / KEEPALIVE_DIVISOR;
    let spread = keepalive.max(LEAST_SPREAD);
    pause(SETTLING + keepalive + spread.mul_f64(part(job.seed, 0)))?;
    let captures = captures(&scene, job.flow)?;
    let Some(cut) = scene.silence()? else { return Ok(None) };
    let silence = Silence { least: LEAST_SILENCE, stragglers: STRAGGLERS, limit: LIMIT };
    let gap = await_recovery(&flow.arrivals(), cut, silence)
        .with_context(|| format!("{job:?}: {}", scene.logs()))?;
    let arts: Vec<_> = captures.into_iter().map(Way::finish).collect::<anyhow::Result<_>>()?;
    // Of two ways the one that took longer; none if one of them is not back.
    let art = arts.into_iter().collect::<Option<Vec<_>>>().and_then(|arts| arts.into_iter().max());
    if art.is_none() && gap.is_some() {
        return Ok(None);
    }
    Ok(Some(Times { art, application: gap.as_ref().map(Gap::length) }))
}

/// One way of a flow, as packets come in at its end by either ISP.
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

    /// From the last packet by the old path to the first one by the new path.
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

/// At the ends where packets of the flow come in: a transfer's acknowledgements do not count.
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

/// The Send Timeout is the detector. Sets without a key are made at once, and contexts too.
const SETTINGS: &str = "profile = \"rfc\"\naddresses = \"hba\"\ntrigger-bytes = 500\n";
/// The default of the default profile.
const STANDBY: &str = "standby-interval = \"60s\"\n";
/// Between the context, or its first keepalive, and the failure at least.
const SETTLING: Duration = Duration::from_secs(1);
/// Keepalives in a Send Timeout, by default.
const KEEPALIVE_DIVISOR: u32 = 3;
const LEAST_SPREAD: Duration = Duration::from_secs(1);
/// Longer than jitter makes any gap of these flows, shorter than any Send Timeout leaves one.
const LEAST_SILENCE: Duration = Duration::from_millis(110);
/// One way, five standard deviations, and a busy machine.
const STRAGGLERS: Duration = Duration::from_millis(130);
/// Runs in which that may happen.
const ATTEMPTS: usize = 5;
/// Octets a second: always under way, and without a queue.
const RATE: u64 = 1_000_000;
