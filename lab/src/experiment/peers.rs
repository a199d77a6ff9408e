//! What a user would otherwise pick: the same silent failure under plain TCP, under the kernel's MPTCP and
//! under Moorline, at several round-trip times.
//!
//! Every repetition has a network of its own. ISP 1 of both hosts goes silently; what counts is the time from
//! the last octets that came before to the first ones that came after.

mod contender;
mod trial;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use contender::{PeerFlow, PeerSystem};

use super::pool::{mixed, run_groups};
use super::recovery::{self, obstacles};
use super::{Chart, Data, Experiment, Percentiles, Ranges, Results, Scale, Watch};
use crate::preflight;
use trial::Outcome;

/// Parameters.
#[derive(Clone, Debug)]
pub struct Peers {
    /// The daemon to run; found if not told.
    pub moorlined: Option<PathBuf>,
    /// Round-trip times.
    pub rtts: Vec<Duration>,
    /// Failures for each combination.
    pub repetitions: usize,
    /// Who is compared.
    pub systems: Vec<PeerSystem>,
    /// What is hit.
    pub flows: Vec<PeerFlow>,
    /// Send Timeout of both of Moorline's profiles.
    pub send_timeout: Duration,
    /// How long anybody is waited for.
    pub limit: Duration,
    /// Networks side by side.
    pub parallel: usize,
    /// Of the moments of the failures.
    pub seed: u64,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            moorlined: None,
            rtts: [1, 20, 80, 200].map(Duration::from_millis).into(),
            repetitions: 20,
            systems: PeerSystem::ALL.into(),
            flows: PeerFlow::ALL.into(),
            send_timeout: Duration::from_secs(10),
            limit: Duration::from_secs(30),
            parallel: 2,
            seed: 1,
        }
    }
}

#[derive(Debug, Serialize)]
struct Parameters {
    repetitions: usize,
    send_timeout_ms: u128,
    limit_ms: u128,
    parallel: usize,
    seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    system: &'static str,
    flow: &'static str,
    rtt_ms: f64,
    repetitions: usize,
    /// Repetitions that flowed again.
    recovered: usize,
    recovery_ms: Percentiles,
    /// Octets that the application never got, of those that recovered; the median.
    bytes_lost: Option<f64>,
    /// Datagrams lost, or segments sent again; the median of all.
    packets_lost: Option<f64>,
    /// What an administrator writes on both hosts together.
    configuration_lines: usize,
    /// Runs that did not count, as traffic had moved before the failure.
    false_alarms: u64,
    /// Why there is no median.
    reason: Option<String>,
}

/// One failure.
#[derive(Clone, Copy, Debug)]
struct Job {
    system: PeerSystem,
    flow: PeerFlow,
    rtt: Duration,
    send_timeout: Duration,
    limit: Duration,
    seed: u64,
}

impl Experiment for Peers {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn about(&self) -> &'static str {
        "time until Moorline, the kernel's MPTCP and plain TCP go on after the same silent failure"
    }

    fn obstacles(&self) -> Vec<String> {
        let systems = self.systems.iter();
        let mut reasons = if systems.clone().any(|system| system.is_moorline()) {
            obstacles(self.moorlined.as_ref(), &[])
        } else {
            preflight::check(&[])
        };
        if systems.clone().any(|system| system.is_mptcp()) && !contender::has_mptcp() {
            reasons.push("this kernel has no MPTCP".into());
        }
        reasons
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let moorlined = if self.systems.iter().any(|system| system.is_moorline()) {
            recovery::daemon(self.moorlined.as_deref())?
        } else {
            PathBuf::new()
        };
        let combinations = self.combinations();
        let groups: Vec<_> = combinations.iter().map(Vec::as_slice).collect();
        let name = |job: &Job| {
            let (system, flow) = (job.system.name(), job.flow.name());
            format!("{system}, {flow}, RTT {} ms", milliseconds(job.rtt))
        };
        let work = |job: &Job| trial::run(&moorlined, job);
        let outcomes = run_groups(&groups, self.parallel, work, name, watch)?;
        let made = groups.iter().zip(&outcomes);
        let points: Vec<_> =
            made.filter_map(|(jobs, outcomes)| self.point(jobs.first()?, outcomes)).collect();
        let parameters = Parameters {
            repetitions: self.repetitions,
            send_timeout_ms: self.send_timeout.as_millis(),
            limit_ms: self.limit.as_millis(),
            parallel: self.parallel,
            seed: self.seed,
        };
        let charts = self.charts(&points);
        let results = Results::new(self, &parameters, &points)?;
        Ok(results.with_columns(&COLUMNS).with_charts(charts))
    }
}

impl Peers {
    /// The repetitions of each combination, in the order of the points.
    fn combinations(&self) -> Vec<Vec<Job>> {
        let mut combinations = Vec::new();
        let mut number = 0;
        for &flow in &self.flows {
            for &rtt in &self.rtts {
                for &system in self.systems.iter().filter(|system| system.carries(flow)) {
                    // Nothing about waiting in vain is a matter of chance.
                    let most = if system == PeerSystem::Tcp { HOPELESS } else { usize::MAX };
                    let job = |_| {
                        number += 1;
                        let seed = mixed(self.seed, number);
                        let (send_timeout, limit) = (self.send_timeout, self.limit);
                        Job { system, flow, rtt, send_timeout, limit, seed }
                    };
                    combinations.push((0..self.repetitions.min(most)).map(job).collect());
                }
            }
        }
        combinations
    }

    fn point(&self, job: &Job, outcomes: &[Outcome]) -> Option<Point> {
        let times: Vec<_> = outcomes.iter().map(|outcome| outcome.recovery).collect();
        let times: Vec<_> =
            times.iter().map(|time| time.map(|time| time.as_secs_f64() * 1e3)).collect();
        let recovery_ms = Percentiles::of(&times);
        let median = |count: fn(&Outcome) -> Option<u64>| {
            let counts: Vec<_> =
                outcomes.iter().filter_map(count).map(|n| Some(n as f64)).collect();
            Percentiles::of(&counts).median
        };
        let reason = recovery_ms.median.is_none().then(|| {
            format!("nothing arrived within {} s of the failure", self.limit.as_secs_f64())
        });
        Some(Point {
            system: job.system.name(),
            flow: job.flow.name(),
            rtt_ms: milliseconds(job.rtt),
            repetitions: outcomes.len(),
            recovered: times.iter().flatten().count(),
            recovery_ms,
            bytes_lost: median(|outcome| outcome.bytes_lost),
            packets_lost: median(|outcome| outcome.packets_lost),
            configuration_lines: outcomes.first()?.configuration_lines,
            false_alarms: outcomes.iter().map(|outcome| outcome.false_alarms).sum(),
            reason,
        })
    }

    fn charts(&self, points: &[Point]) -> Vec<Chart> {
        let line = |flow: PeerFlow, system: PeerSystem| {
            let own = points
                .iter()
                .filter(|point| point.flow == flow.name() && point.system == system.name());
            let place = |point: &Point| Some((point.rtt_ms, point.recovery_ms.range()?));
            Ranges { name: system.name().into(), points: own.filter_map(place).collect() }
        };
        let chart = |flow: PeerFlow| {
            let lines = self.systems.iter().map(|&system| line(flow, system));
            Chart {
                title: format!("Silent failure of ISP 1 under {}", flow.about()),
                x: "round-trip time (ms)".into(),
                y: "recovery (ms)".into(),
                scale: Scale::Log,
                data: Data::Ranges { series: lines.filter(|l| !l.points.is_empty()).collect() },
            }
        };
        let charts = self.flows.iter().map(|&flow| chart(flow));
        charts.filter(|chart| !chart.is_empty()).collect()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const COLUMNS: [&str; 10] = [
    "flow",
    "rtt_ms",
    "system",
    "recovered",
    "recovery_ms.p5",
    "recovery_ms.median",
    "recovery_ms.p95",
    "bytes_lost",
    "packets_lost",
    "configuration_lines",
];
/// Failures under plain TCP, however many are asked for.
const HOPELESS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_systems_and_flows() {
        for system in PeerSystem::ALL {
            assert_eq!(PeerSystem::of_name(system.name()), Some(system));
        }
        for flow in PeerFlow::ALL {
            assert_eq!(PeerFlow::of_name(flow.name()), Some(flow));
        }
        assert_eq!((PeerSystem::of_name("sctp"), PeerFlow::of_name("sctp")), (None, None));
    }

    #[test]
    fn each_system_has_what_it_carries_and_plain_tcp_is_not_waited_for_often() {
        let peers = Peers { rtts: vec![Duration::from_millis(1)], ..Peers::default() };
        let combinations = peers.combinations();
        // Five systems with two flows each, and datagrams for those that carry them.
        assert_eq!(combinations.len(), 5 * 2 + 2);
        for jobs in combinations {
            let expected = if jobs[0].system == PeerSystem::Tcp { HOPELESS } else { 20 };
            assert_eq!(jobs.len(), expected);
        }
    }

    #[test]
    fn who_does_not_recover_has_a_reason() {
        let peers = Peers::default();
        let job = peers.combinations()[0][0];
        let lost = Outcome { configuration_lines: 7, ..Outcome::default() };
        let point = peers.point(&job, &[lost.clone(), lost.clone()]).unwrap();
        assert_eq!((point.recovered, point.recovery_ms.median, point.bytes_lost), (0, None, None));
        assert_eq!(point.configuration_lines, 7);
        assert_eq!(point.reason.unwrap(), "nothing arrived within 30 s of the failure");
        let found = Outcome { recovery: Some(Duration::from_millis(300)), ..lost };
        let point = peers.point(&job, &[found]).unwrap();
        assert_eq!((point.recovered, point.reason), (1, None));
    }
}
