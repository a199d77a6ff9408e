//! How long a connection under ILNP is silent when its host changes its locator, and what it loses: in a hard hand-off
//! the old one is gone, in a soft one both are valid together.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use moorline_api::EventKind;
use serde::Serialize;

use super::pool::{mixed, part, run_groups};
use super::recovery::{self, Scene, obstacles, pause, segments_had_already, segments_sent_again};
use super::{Chart, Data, Experiment, Percentiles, Ranges, Results, Scale, Watch};
use crate::Failure;
use crate::daemon::DaemonOptions;
use crate::topology::{HOSTS, ISPS, Impairment, Prefix};

/// Parameters.
#[derive(Clone, Debug)]
pub struct HandOff {
    /// The daemon to run; found if not told.
    pub moorlined: Option<PathBuf>,
    /// Round-trip times.
    pub rtts: Vec<Duration>,
    /// Hand-offs for each of them, each kind and each flow.
    pub repetitions: usize,
    /// Of the moments of the hand-offs.
    pub seed: u64,
}

impl Default for HandOff {
    fn default() -> Self {
        let rtts = [1, 20, 80].map(Duration::from_millis).into();
        Self { moorlined: None, rtts, repetitions: 10, seed: 1 }
    }
}

#[derive(Debug, Serialize)]
struct Parameters {
    repetitions: usize,
    seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    hand_off: &'static str,
    flow: &'static str,
    rtt_ms: f64,
    repetitions: usize,
    /// Longest silence of the application after it.
    gap_ms: Percentiles,
    /// Of the hand-offs, those with no longer silence than a round trip and 10 ms.
    in_time_ratio: f64,
    /// Datagrams lost, or segments that the host sent again.
    packets_lost: Percentiles,
    /// Of those segments, what the other host says it had already.
    needless: Percentiles,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    is_soft: bool,
    is_tcp: bool,
    rtt: Duration,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    gap: Option<Duration>,
    packets_lost: u64,
    needless: Option<u64>,
}

impl Experiment for HandOff {
    fn name(&self) -> &'static str {
        "handoff"
    }

    fn about(&self) -> &'static str {
        "silence and loss when a host under ILNP changes its locator"
    }

    fn obstacles(&self) -> Vec<String> {
        obstacles(self.moorlined.as_ref(), &[])
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let moorlined = recovery::daemon(self.moorlined.as_deref())?;
        let jobs = self.jobs();
        let groups: Vec<_> = jobs.chunks(self.repetitions.max(1)).collect();
        let name = |job: &Job| {
            let rtt = job.rtt.as_secs_f64() * 1e3;
            format!("{}, {}, RTT {rtt} ms", job.kind(), job.flow())
        };
        let outcomes = run_groups(&groups, 1, |job| run(&moorlined, job), name, watch)?;
        let made = groups.iter().zip(&outcomes);
        let points: Vec<_> =
            made.filter_map(|(jobs, outcomes)| Point::of(jobs.first()?, outcomes)).collect();
        let &Self { repetitions, seed, .. } = self;
        let results = Results::new(self, &Parameters { repetitions, seed }, &points)?;
        Ok(results.with_columns(&COLUMNS).with_charts(vec![chart(&points)]))
    }
}

impl HandOff {
    fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (is_soft, is_tcp) in [(false, true), (false, false), (true, true), (true, false)] {
            for &rtt in &self.rtts {
                for _ in 0..self.repetitions {
                    let seed = mixed(self.seed, jobs.len() as u64);
                    jobs.push(Job { is_soft, is_tcp, rtt, seed });
                }
            }
        }
        jobs
    }
}

impl Job {
    fn kind(&self) -> &'static str {
        if self.is_soft { "soft" } else { "hard" }
    }

    fn flow(&self) -> &'static str {
        if self.is_tcp { "tcp-bulk" } else { "udp-bidir" }
    }

    /// Host A changes its locator; gives when, or just before.
    fn change(&self, scene: &Scene) -> anyhow::Result<Instant> {
        if !self.is_soft {
            let failure = Failure::CarrierDown { node: HOSTS[0].into(), interface: ISPS[0].into() };
            return Ok(scene.lab.arm(failure)?.strike()?.at);
        }
        let at = Instant::now();
        deprecate(scene)?;
        Ok(at)
    }

    /// A round trip, what the daemon may take, and what is between two arrivals anyway.
    fn budget(&self) -> Duration {
        self.rtt + ALLOWED
    }
}

impl Point {
    fn of(job: &Job, outcomes: &[Outcome]) -> Option<Self> {
        let percentiles = |value: fn(&Outcome) -> Option<f64>| {
            Percentiles::of(&outcomes.iter().map(value).collect::<Vec<_>>())
        };
        outcomes.first()?;
        let is_in_time = |one: &&Outcome| one.gap.is_none_or(|gap| gap <= job.budget());
        let in_time = outcomes.iter().filter(is_in_time).count();
        Some(Self {
            hand_off: job.kind(),
            flow: job.flow(),
            rtt_ms: job.rtt.as_secs_f64() * 1e3,
            repetitions: outcomes.len(),
            gap_ms: percentiles(|one| one.gap.map(|gap| gap.as_secs_f64() * 1e3)),
            in_time_ratio: in_time as f64 / outcomes.len() as f64,
            packets_lost: percentiles(|one| Some(one.packets_lost as f64)),
            needless: percentiles(|one| one.needless.map(|count| count as f64)),
        })
    }
}

/// A soft hand-off: new traffic of host A is not to use its address at ISP 1.
pub(super) fn deprecate(scene: &Scene) -> anyhow::Result<()> {
    let address = Prefix::host(scene.ends[0].address).to_string();
    let change = ["-6", "addr", "change", &address, "dev", ISPS[0], "preferred_lft", "0"];
    scene.lab.namespace(HOSTS[0])?.ip(&change)?;
    Ok(())
}

/// One hand-off of host A.
fn run(moorlined: &Path, job: &Job) -> anyhow::Result<Outcome> {
    let cables = Impairment { seed: job.seed, ..Impairment::delay(job.rtt / 2) };
    let mut options = DaemonOptions::new(moorlined.to_owned(), SEND_TIMEOUT);
    options.settings = SETTINGS.into();
    let mut scene = Scene::as_it_is(cables, &options)?;
    let flow = scene.start(job.is_tcp)?;
    flow.await_arrivals()?;
    for daemon in &mut scene.daemons {
        daemon.wait_for(&EventKind::SessionEstablished, SESSION_LIMIT)?;
    }
    pause(SETTLING + SPREAD.mul_f64(part(job.seed, 0)))?;
    let host = scene.lab.namespace(HOSTS[0])?.clone();
    let before = [segments_sent_again(&host)?, segments_had_already(&host)?];
    ensure!(!scene.has_moved(), "{job:?}: the session moved before: {}", scene.logs());
    let cut = job.change(&scene)?;
    let gap = recovery::watch(&flow.arrivals(), cut)
        .with_context(|| format!("{job:?}: {}", scene.logs()))?;
    ensure!(scene.has_moved(), "{job:?}: the session did not move: {}", scene.logs());
    let again = segments_sent_again(&host)?.saturating_sub(before[0]);
    let needless = segments_had_already(&host)?.saturating_sub(before[1]);
    let packets_lost = flow.lost(again)?;
    Ok(Outcome { gap, packets_lost, needless: job.is_tcp.then_some(needless) })
}

fn chart(points: &[Point]) -> Chart {
    let line = |hand_off: &str, flow: &str| {
        let own = points.iter().filter(|point| point.flow == flow && point.hand_off == hand_off);
        let place = |point: &Point| Some((point.rtt_ms, point.gap_ms.range()?));
        Ranges { name: format!("{hand_off}, {flow}"), points: own.filter_map(place).collect() }
    };
    let kinds = ["hard", "soft"].into_iter();
    let lines = kinds.flat_map(|kind| [line(kind, "tcp-bulk"), line(kind, "udp-bidir")]);
    Chart {
        title: "Silence after a hand-off".into(),
        x: "round-trip time (ms)".into(),
        y: "milliseconds".into(),
        scale: Scale::Linear,
        data: Data::Ranges { series: lines.filter(|line| !line.points.is_empty()).collect() },
    }
}

const COLUMNS: [&str; 8] = [
    "hand_off",
    "flow",
    "rtt_ms",
    "gap_ms.median",
    "gap_ms.p95",
    "in_time_ratio",
    "packets_lost.median",
    "needless.median",
];
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const SETTINGS: &str = "addresses = \"off\"\nilnp = \"on\"\n";
/// Until locators have been exchanged and packets carry no nonce any more.
pub(super) const SETTLING: Duration = Duration::from_millis(2500);
const SPREAD: Duration = Duration::from_secs(1);
const SESSION_LIMIT: Duration = Duration::from_secs(60);
/// For the daemon, and for the 4 ms between two arrivals.
const ALLOWED: Duration = Duration::from_millis(14);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_offs_in_time_are_counted() {
        let experiment = HandOff { repetitions: 2, ..HandOff::default() };
        let jobs = experiment.jobs();
        assert_eq!(jobs.len(), 2 * 2 * 3 * 2);
        let outcome = |ms| {
            let gap = Some(Duration::from_millis(ms));
            Outcome { gap, packets_lost: ms, needless: Some(0) }
        };
        let point = Point::of(&jobs[0], &[outcome(10), outcome(40)]).unwrap();
        assert_eq!((point.hand_off, point.flow, point.rtt_ms), ("hard", "tcp-bulk", 1.0));
        assert!((point.in_time_ratio - 0.5).abs() < 1e-9);
        assert_eq!(point.gap_ms.median, Some(25.0));
    }
}
