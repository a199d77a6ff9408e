//! Application Recovery Time against the Send Timeout: figure 9 of the LinShim6 paper and figures 2, 3
//! and 4 of the empirical evaluation.
//!
//! The time from the last packet that came by the old path to the first one by the new path, as both
//! papers define it, when an ISP fails silently at a random moment under a flow with an RTT of 80 +- 20 ms.
//! Every repetition has a network and daemons of its own, so that all begin alike, with traffic that has
//! never moved. The same on a virtual clock, by the simulator, takes minutes for all of the paper's runs.

mod simulated;
mod trial;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::pool::{mixed, processors, run_groups};
use super::recovery::{self, obstacles};
use super::{Chart, Data, Experiment, Percentiles, Ranges, Results, Scale, Watch};

/// Parameters. The defaults are the papers', and two Send Timeouts below theirs.
#[derive(Clone, Debug)]
pub struct Art {
    /// The daemon to run; found if not told.
    pub moorlined: Option<PathBuf>,
    /// Send Timeouts of both hosts.
    pub send_timeouts: Vec<Duration>,
    /// Failures for each combination.
    pub repetitions: usize,
    /// What is hit by them.
    pub flows: Vec<ArtFlow>,
    /// A standby pair is kept (decision 045), to which traffic moves when the Send Timeout is over (decision
    /// 057); without, RFC 5534 and nothing else.
    pub standby: bool,
    /// On a virtual clock.
    pub simulated: bool,
    /// Networks side by side.
    pub parallel: usize,
    /// Of the moments of the failures and of the delays.
    pub seed: u64,
}

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtFlow {
    /// A transfer whose sender is made to retransmit once the path has changed (RFC 6069).
    Tcp,
    /// A transfer that waits for its retransmission timer.
    TcpNoNotice,
    /// 50 datagrams of 20 octets a second, as G.729 sends them.
    UdpOneWay,
    /// The same in both directions.
    UdpBothWays,
}

impl ArtFlow {
    /// All.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::TcpNoNotice, Self::UdpOneWay, Self::UdpBothWays];

    /// As in the results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpNoNotice => "tcp-no-notice",
            Self::UdpOneWay => "udp-oneway",
            Self::UdpBothWays => "udp-bidir",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flow| flow.name() == name)
    }
}

impl Default for Art {
    fn default() -> Self {
        let short = [200, 500].map(Duration::from_millis);
        Self {
            moorlined: None,
            send_timeouts: short.into_iter().chain((1..=15).map(Duration::from_secs)).collect(),
            repetitions: 45,
            flows: ArtFlow::ALL.into(),
            standby: true,
            simulated: false,
            parallel: 4,
            seed: 1,
        }
    }
}

#[derive(Debug, Serialize)]
struct Parameters {
    repetitions: usize,
    rtt_ms: f64,
    rtt_stddev_ms: f64,
    is_simulated: bool,
    profile: &'static str,
    standby: bool,
    parallel: usize,
    seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    flow: &'static str,
    send_timeout_ms: u64,
    repetitions: usize,
    /// Repetitions that flowed again.
    recovered: usize,
    art_ms: Percentiles,
    /// The longest time in which the application got nothing new. TCP's first segment by the new path is one
    /// whose acknowledgement was lost: its receiver has it already.
    application_ms: Percentiles,
}

/// How long it took.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// From the last packet by the old path to the first one by the new path.
    art: Option<Duration>,
    /// For the application.
    application: Option<Duration>,
}

/// One failure.
#[derive(Clone, Copy, Debug)]
struct Job {
    flow: ArtFlow,
    send_timeout: Duration,
    standby: bool,
    seed: u64,
}

impl Experiment for Art {
    fn name(&self) -> &'static str {
        "art"
    }

    fn about(&self) -> &'static str {
        "time until TCP and UDP go on after a silent failure, by the Send Timeout"
    }

    fn obstacles(&self) -> Vec<String> {
        if self.simulated {
            return Vec::new();
        }
        obstacles(self.moorlined.as_ref(), &["tcpdump"])
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let jobs = self.jobs();
        let groups: Vec<_> = jobs.chunks(self.repetitions.max(1)).collect();
        let name = |job: &Job| {
            let seconds = job.send_timeout.as_secs_f64();
            format!("{}, Send Timeout {seconds} s", job.flow.name())
        };
        let times = if self.simulated {
            run_groups(&groups, processors(), simulated::run, name, watch)?
        } else {
            let moorlined = recovery::daemon(self.moorlined.as_deref())?;
            let work = |job: &Job| trial::run(&moorlined, job);
            run_groups(&groups, self.parallel, work, name, watch)?
        };
        let made = groups.iter().zip(&times);
        let points: Vec<_> =
            made.filter_map(|(jobs, times)| Point::of(jobs.first()?, times)).collect();
        let charts = charts(&points);
        let results = Results::new(self, &self.parameters(), &points)?;
        Ok(results.with_columns(&COLUMNS).with_charts(charts))
    }
}

impl Art {
    /// All repetitions of a combination one after the other.
    fn jobs(&self) -> Vec<Job> {
        let combinations = self
            .flows
            .iter()
            .flat_map(|&flow| self.send_timeouts.iter().map(move |&timeout| (flow, timeout)));
        let repeated = combinations.flat_map(|what| std::iter::repeat_n(what, self.repetitions));
        let job = |(number, (flow, send_timeout))| Job {
            flow,
            send_timeout,
            standby: self.standby,
            seed: mixed(self.seed, number),
        };
        (0..).zip(repeated).map(job).collect()
    }

    fn parameters(&self) -> Parameters {
        Parameters {
            repetitions: self.repetitions,
            rtt_ms: RTT.as_secs_f64() * 1e3,
            rtt_stddev_ms: RTT_STDDEV.as_secs_f64() * 1e3,
            is_simulated: self.simulated,
            profile: "rfc",
            standby: self.standby,
            parallel: self.parallel,
            seed: self.seed,
        }
    }
}

impl Point {
    fn of(job: &Job, times: &[Times]) -> Option<Self> {
        let of = |time: fn(&Times) -> Option<Duration>| -> Vec<_> {
            times.iter().map(|one| time(one).map(|time| time.as_secs_f64() * 1e3)).collect()
        };
        let arts = of(|times| times.art);
        Some(Self {
            flow: job.flow.name(),
            send_timeout_ms: u64::try_from(job.send_timeout.as_millis()).ok()?,
            repetitions: times.len(),
            recovered: arts.iter().flatten().count(),
            art_ms: Percentiles::of(&arts),
            application_ms: Percentiles::of(&of(|times| times.application)),
        })
    }
}

/// As in the papers.
fn charts(points: &[Point]) -> Vec<Chart> {
    let line = |flow: ArtFlow| {
        let of_flow = points.iter().filter(|point| point.flow == flow.name());
        let place = |point: &Point| {
            let range = point.art_ms.range()?.map(|ms| ms / 1e3);
            Some((point.send_timeout_ms as f64 / 1e3, range))
        };
        Ranges { name: flow.name().into(), points: of_flow.filter_map(place).collect() }
    };
    let chart = |title: &str, flows: &[ArtFlow]| Chart {
        title: title.into(),
        x: "Send Timeout (s)".into(),
        y: "Application Recovery Time (s)".into(),
        scale: Scale::Linear,
        data: Data::Ranges {
            series: flows.iter().map(|&flow| line(flow)).filter(|l| !l.points.is_empty()).collect(),
        },
    };
    use ArtFlow::{Tcp, TcpNoNotice, UdpBothWays, UdpOneWay};
    let all = [
        chart(
            "TCP with and without the notice (LinShim6, figure 9; evaluation, figure 3)",
            &[Tcp, TcpNoNotice],
        ),
        chart("UDP one way and both ways (evaluation, figure 2)", &[UdpOneWay, UdpBothWays]),
        chart("UDP and TCP (evaluation, figure 4)", &[UdpBothWays, Tcp, TcpNoNotice]),
    ];
    all.into_iter().filter(|chart| !chart.is_empty()).collect()
}

const COLUMNS: [&str; 7] = [
    "flow",
    "send_timeout_ms",
    "recovered",
    "art_ms.p5",
    "art_ms.median",
    "art_ms.p95",
    "application_ms.median",
];
/// Round trip, with its standard deviation.
const RTT: Duration = Duration::from_millis(80);
const RTT_STDDEV: Duration = Duration::from_millis(20);
/// How long an application is watched after a failure.
const LIMIT: Duration = Duration::from_secs(60);
/// Datagrams of G.729.
const PER_SECOND: u32 = 50;
const OCTETS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_names() {
        for flow in ArtFlow::ALL {
            assert_eq!(ArtFlow::of_name(flow.name()), Some(flow));
        }
        assert_eq!(ArtFlow::of_name("sctp"), None);
    }

    #[test]
    fn repetitions_of_a_combination_make_a_point() {
        let art = Art {
            send_timeouts: [1, 2].map(Duration::from_secs).into(),
            repetitions: 2,
            flows: vec![ArtFlow::Tcp],
            ..Art::default()
        };
        let times = [Some(10), None, Some(20), Some(30)].map(|ms| {
            let art = ms.map(Duration::from_millis);
            Times { art, application: art.map(|art| art * 2) }
        });
        let jobs = art.jobs();
        let groups = jobs.chunks(2).zip(times.chunks(2));
        let points: Vec<_> =
            groups.filter_map(|(jobs, times)| Point::of(&jobs[0], times)).collect();
        let medians = points.iter().map(|point| point.art_ms.median.map(|ms| ms.round()));
        assert_eq!(medians.collect::<Vec<_>>(), [None, Some(25.0)]);
        assert_eq!((points[0].recovered, points[1].recovered), (1, 2));
        assert_eq!(points[1].application_ms.median.map(f64::round), Some(50.0));
        assert_eq!((points[0].send_timeout_ms, points[1].send_timeout_ms), (1000, 2000));
        let seeds: Vec<_> = jobs.iter().map(|job| job.seed).collect();
        assert!(seeds.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
