//! How fast a connection leaves an uplink that has lost its carrier: the host is told at once, so neither
//! timers nor round trips need be waited for.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::pool::{mixed, part, run_groups};
use super::recovery::{self, Scene, obstacles, pause, segments_sent_again};
use super::{Chart, Data, Experiment, Percentiles, Ranges, Results, Scale, Watch};
use crate::Failure;
use crate::capture::Capture;
use crate::daemon::DaemonOptions;
use crate::topology::{HOSTS, ISPS, Impairment};

/// Parameters.
#[derive(Clone, Debug)]
pub struct LocalEvent {
    /// The daemon to run; found if not told.
    pub moorlined: Option<PathBuf>,
    /// Round-trip times.
    pub rtts: Vec<Duration>,
    /// Failures for each of them and each flow.
    pub repetitions: usize,
    /// Networks side by side.
    pub parallel: usize,
    /// Of the moments of the failures.
    pub seed: u64,
}

impl Default for LocalEvent {
    fn default() -> Self {
        let rtts = [1, 20, 80].map(Duration::from_millis).into();
        Self { moorlined: None, rtts, repetitions: 20, parallel: 1, seed: 1 }
    }
}

#[derive(Debug, Serialize)]
struct Parameters {
    repetitions: usize,
    parallel: usize,
    seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    flow: &'static str,
    rtt_ms: f64,
    repetitions: usize,
    /// From the loss of the carrier to the first packet that left by the other uplink.
    first_packet_ms: Percentiles,
    /// Longest silence of the application after it.
    goodput_gap_ms: Percentiles,
    /// Datagrams lost, or segments that the host sent again.
    packets_lost: Percentiles,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    is_tcp: bool,
    rtt: Duration,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    first_packet: Option<Duration>,
    gap: Option<Duration>,
    packets_lost: u64,
}

impl Experiment for LocalEvent {
    fn name(&self) -> &'static str {
        "local-event"
    }

    fn about(&self) -> &'static str {
        "time from the loss of a carrier to the first packet by the other uplink"
    }

    fn obstacles(&self) -> Vec<String> {
        obstacles(self.moorlined.as_ref(), &["tcpdump"])
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let moorlined = recovery::daemon(self.moorlined.as_deref())?;
        let jobs = self.jobs();
        let groups: Vec<_> = jobs.chunks(self.repetitions.max(1)).collect();
        let name = |job: &Job| {
            let rtt = job.rtt.as_secs_f64() * 1e3;
            format!("{}, RTT {rtt} ms", job.flow())
        };
        let outcomes = run_groups(&groups, self.parallel, |job| run(&moorlined, job), name, watch)?;
        let made = groups.iter().zip(&outcomes);
        let points: Vec<_> =
            made.filter_map(|(jobs, outcomes)| Point::of(jobs.first()?, outcomes)).collect();
        let &Self { repetitions, parallel, seed, .. } = self;
        let results = Results::new(self, &Parameters { repetitions, parallel, seed }, &points)?;
        Ok(results.with_columns(&COLUMNS).with_charts(vec![chart(&points)]))
    }
}

impl LocalEvent {
    fn jobs(&self) -> Vec<Job> {
        let flows = [true, false].into_iter();
        let all = flows.flat_map(|is_tcp| self.rtts.iter().map(move |&rtt| (is_tcp, rtt)));
        let repeated = all.flat_map(|what| std::iter::repeat_n(what, self.repetitions));
        let job = |(number, (is_tcp, rtt))| Job { is_tcp, rtt, seed: mixed(self.seed, number) };
        (0..).zip(repeated).map(job).collect()
    }
}

impl Job {
    fn flow(&self) -> &'static str {
        if self.is_tcp { "tcp-bulk" } else { "udp-bidir" }
    }
}

impl Point {
    fn of(job: &Job, outcomes: &[Outcome]) -> Option<Self> {
        let percentiles = |value: fn(&Outcome) -> Option<f64>| {
            Percentiles::of(&outcomes.iter().map(value).collect::<Vec<_>>())
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        outcomes.first()?;
        Some(Self {
            flow: job.flow(),
            rtt_ms: ms(job.rtt),
            repetitions: outcomes.len(),
            first_packet_ms: percentiles(|one| one.first_packet.map(|t| t.as_secs_f64() * 1e3)),
            goodput_gap_ms: percentiles(|one| one.gap.map(|t| t.as_secs_f64() * 1e3)),
            packets_lost: percentiles(|one| Some(one.packets_lost as f64)),
        })
    }
}

/// One loss of the carrier at host A.
fn run(moorlined: &Path, job: &Job) -> anyhow::Result<Outcome> {
    let cables = Impairment { seed: job.seed, ..Impairment::delay(job.rtt / 2) };
    let mut options = DaemonOptions::new(moorlined.to_owned(), SEND_TIMEOUT);
    options.settings = SETTINGS.into();
    let mut scene = Scene::protected(cables, &options)?;
    let flow = scene.start(job.is_tcp)?;
    flow.await_arrivals()?;
    scene.await_contexts()?;
    let host = scene.lab.namespace(HOSTS[0])?.clone();
    let capture = Capture::start(&host, ISPS[1], &scene.lab.directory(HOSTS[0])?)?;
    pause(SETTLING + SPREAD.mul_f64(part(job.seed, 0)))?;
    let before = segments_sent_again(&host)?;
    let failure = Failure::CarrierDown { node: HOSTS[0].into(), interface: ISPS[0].into() };
    let armed = scene.lab.arm(failure)?;
    ensure!(!scene.has_moved(), "{job:?}: traffic moved before: {}", scene.logs());
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?;
    let cut = armed.strike()?.at;
    let gap = recovery::watch(&flow.arrivals(), cut)
        .with_context(|| format!("{job:?}: {}", scene.logs()))?;
    let again = segments_sent_again(&host)?.saturating_sub(before);
    let packets_lost = flow.lost(again)?;
    let frames = capture.finish()?;
    let mut moved =
        frames.iter().filter(|frame| frame.at >= since_1970 && frame.is_moved_payload());
    let first_packet = moved.next().map(|frame| frame.at.saturating_sub(since_1970));
    Ok(Outcome { first_packet, gap, packets_lost })
}

fn chart(points: &[Point]) -> Chart {
    let line = |flow: &str, what: &str, value: fn(&Point) -> Percentiles| {
        let own = points.iter().filter(|point| point.flow == flow);
        let place = |point: &Point| Some((point.rtt_ms, value(point).range()?));
        Ranges { name: format!("{what}, {flow}"), points: own.filter_map(place).collect() }
    };
    let lines = ["tcp-bulk", "udp-bidir"].into_iter().flat_map(|flow| {
        [
            line(flow, "first packet", |point| point.first_packet_ms),
            line(flow, "gap of the application", |point| point.goodput_gap_ms),
        ]
    });
    Chart {
        title: "After the loss of a carrier".into(),
        x: "round-trip time (ms)".into(),
        y: "milliseconds".into(),
        scale: Scale::Linear,
        data: Data::Ranges { series: lines.filter(|line| !line.points.is_empty()).collect() },
    }
}

const COLUMNS: [&str; 8] = [
    "flow",
    "rtt_ms",
    "first_packet_ms.median",
    "first_packet_ms.p95",
    "goodput_gap_ms.median",
    "goodput_gap_ms.p95",
    "packets_lost.median",
    "packets_lost.p95",
];
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const SETTINGS: &str = "addresses = \"hba\"\ntrigger-bytes = 500\n";
/// Until the standby pair is known.
const SETTLING: Duration = Duration::from_millis(2500);
const SPREAD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_make_points_of_both_flows() {
        let event = LocalEvent { repetitions: 2, ..LocalEvent::default() };
        let jobs = event.jobs();
        assert_eq!(jobs.len(), 2 * 3 * 2);
        let outcome = |ms| Outcome {
            first_packet: Some(Duration::from_millis(ms)),
            gap: None,
            packets_lost: ms,
        };
        let point = Point::of(&jobs[0], &[outcome(2), outcome(4)]).unwrap();
        assert_eq!((point.first_packet_ms.median, point.goodput_gap_ms.median), (Some(3.0), None));
        assert_eq!(point.packets_lost.median, Some(3.0));
    }
}
