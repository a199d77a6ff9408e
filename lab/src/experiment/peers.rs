//! Alternatives compared: the same silent failure under plain TCP, under the kernel's MPTCP and under Moorline, at
//! several round trip times.
//!
//! Every repetition has its own network. ISP 1 fails silently for both hosts. The result is the time from the last
//! octets before the failure to the first octets after it.

mod contender;
mod trial;

use std::time::Duration;

use clap::Args;
use serde::Serialize;

pub use contender::{PeerFlow, PeerSystem};

use super::options::{as_millis, count, rtt, span};
use super::pool::Trials;
use super::statistics::{median, ms};
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use trial::Outcome;

/// Time until Moorline, the kernel's MPTCP and plain TCP go on after the same silent failure (as root).
///
/// Transfers, messages and datagrams at several round-trip times, with what was lost and the lines of
/// configuration that each takes. With the defaults it takes an hour or two.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Peers {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80,200", value_parser = rtt)]
    #[serde(skip)]
    pub rtts: Vec<Duration>,
    /// Failures for each combination; three at most for plain TCP, which is waited for in vain.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count)]
    pub repetitions: usize,
    /// Who is compared: moorline, moorline-rfc, mptcp, mptcp-fullmesh, tcp.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "moorline,moorline-rfc,mptcp,mptcp-fullmesh,tcp"
    )]
    #[serde(skip)]
    pub systems: Vec<PeerSystem>,
    /// What is hit: tcp-bulk, messages, udp-bidir (by Moorline alone).
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tcp-bulk,messages,udp-bidir"
    )]
    #[serde(skip)]
    pub flows: Vec<PeerFlow>,
    /// Send Timeout of Moorline in both profiles.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    #[serde(rename = "send_timeout_ms", serialize_with = "as_millis")]
    pub send_timeout: Duration,
    /// How long anybody is waited for.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    #[serde(rename = "limit_ms", serialize_with = "as_millis")]
    pub limit: Duration,
    /// Networks side by side.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count)]
    pub parallel: usize,
    /// What the moments of failures follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    system: PeerSystem,
    flow: PeerFlow,
    rtt_ms: f64,
    repetitions: usize,
    /// Repetitions that recovered.
    recovered: usize,
    recovery_ms: Percentiles,
    /// Octets that the application never received: median of the repetitions that recovered.
    bytes_lost: Option<f64>,
    /// Datagrams lost, or segments sent again: median of all repetitions.
    packets_lost: Option<f64>,
    /// Lines that an administrator writes, on both hosts together.
    configuration_lines: usize,
    /// Runs that did not count, because traffic had moved before the failure.
    false_alarms: u64,
    /// Reason why there is no median.
    reason: Option<String>,
}

/// A system, a flow and their parameters.
#[derive(Clone, Copy, Debug)]
struct Case {
    system: PeerSystem,
    flow: PeerFlow,
    rtt: Duration,
    send_timeout: Duration,
    limit: Duration,
}

impl Experiment for Peers {
    fn card(&self) -> Card {
        Card {
            name: "peers",
            about: "time until Moorline, the kernel's MPTCP and plain TCP go on after the same silent failure",
            needs: if self.has_moorline() { Needs::Daemons(&[]) } else { Needs::Network },
            columns: "flow rtt_ms system recovered recovery_ms.p5 recovery_ms.median \
                      recovery_ms.p95 bytes_lost packets_lost configuration_lines",
        }
    }

    fn obstacles(&self) -> Vec<String> {
        let mut reasons = self.card().needs.obstacles();
        if self.systems.iter().any(|system| system.is_mptcp()) && !contender::has_mptcp() {
            reasons.push("this kernel has no MPTCP".into());
        }
        reasons
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let name = |case: &Case| format!("{}, {}, RTT {} ms", case.system, case.flow, ms(case.rtt));
        let tried = self.trials().run(watch, name, trial::run)?;
        let points: Vec<_> = tried.iter().map(|(case, all)| Point::of(case, all)).collect();
        Ok(Results::new(self, &points)?.with_charts(self.charts(&points)))
    }
}

impl Peers {
    fn has_moorline(&self) -> bool {
        self.systems.iter().any(|system| system.is_moorline())
    }

    fn trials(&self) -> Trials<Case> {
        let Self { repetitions, send_timeout, limit, parallel, seed, .. } = *self;
        let mut cases = Vec::new();
        for &flow in &self.flows {
            for &rtt in &self.rtts {
                let case = |&system: &PeerSystem| {
                    // Without a recovery, the result does not vary, so a few runs are enough.
                    let most = if system == PeerSystem::Tcp { HOPELESS } else { usize::MAX };
                    (Case { system, flow, rtt, send_timeout, limit }, repetitions.min(most))
                };
                cases.extend(self.systems.iter().filter(|one| one.carries(flow)).map(case));
            }
        }
        Trials { cases, seed, parallel }
    }

    fn charts(&self, points: &[Point]) -> Vec<Chart> {
        let chart = |&flow: &PeerFlow| {
            let title = format!("Silent failure of ISP 1 under {}", flow.about());
            let own = points.iter().filter(|point| point.flow == flow);
            let places = own.map(|point| (point.system, point.rtt_ms, point.recovery_ms.range()));
            Chart::lines(title, ["round-trip time (ms)", "recovery (ms)"], places).in_decades()
        };
        self.flows.iter().map(chart).collect()
    }
}

impl Point {
    fn of(case: &Case, all: &[Outcome]) -> Self {
        let count = |count: fn(&Outcome) -> Option<u64>| {
            median(all.iter().filter_map(count).map(|count| count as f64))
        };
        let recovery_ms = Percentiles::of(all.iter().map(|one| one.recovery.map(ms)));
        let reason = recovery_ms.median.is_none().then(|| {
            format!("nothing arrived within {} s of the failure", case.limit.as_secs_f64())
        });
        Self {
            system: case.system,
            flow: case.flow,
            rtt_ms: ms(case.rtt),
            repetitions: all.len(),
            recovered: all.iter().filter(|one| one.recovery.is_some()).count(),
            recovery_ms,
            bytes_lost: count(|one| one.bytes_lost),
            packets_lost: count(|one| Some(one.packets_lost)),
            configuration_lines: all.first().map_or(0, |one| one.configuration_lines),
            false_alarms: all.iter().map(|one| one.false_alarms).sum(),
            reason,
        }
    }
}

/// Greatest number of failures under plain TCP.
const HOPELESS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_what_it_carries_and_plain_tcp_is_not_waited_for_often() {
        let peers = Peers { rtts: vec![Duration::from_millis(1)], ..Peers::default() };
        let cases = peers.trials().cases;
        // Five systems with two flows each, and datagrams for the two systems that carry them.
        assert_eq!(cases.len(), 5 * 2 + 2);
        for (case, times) in cases {
            assert_eq!(times, if case.system == PeerSystem::Tcp { HOPELESS } else { 20 });
        }
    }

    #[test]
    fn who_does_not_recover_has_a_reason() {
        let (case, _) = Peers::default().trials().cases[0];
        let lost = Outcome { configuration_lines: 7, ..Outcome::default() };
        let point = Point::of(&case, &[lost.clone(), lost.clone()]);
        assert_eq!((point.recovered, point.recovery_ms.median, point.bytes_lost), (0, None, None));
        assert_eq!(point.configuration_lines, 7);
        assert_eq!(point.reason.unwrap(), "nothing arrived within 30 s of the failure");
        let found = Outcome { recovery: Some(Duration::from_millis(300)), ..lost };
        let point = Point::of(&case, &[found]);
        assert_eq!((point.recovered, point.reason), (1, None));
    }
}
