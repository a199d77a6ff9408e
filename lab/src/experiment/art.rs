//! Application Recovery Time against the Send Timeout: figure 9 of the LinShim6 paper and figures 2, 3 and 4 of the
//! empirical evaluation.
//!
//! Both papers define the recovery time as the time from the last packet by the old path to the first packet by the new
//! path. An ISP fails silently at a random moment under a flow with an RTT of 80 +- 20 ms. Every repetition has its own
//! network and daemons, so all start alike, with traffic that has never moved. The simulator runs the same trials on a
//! virtual clock, in minutes for all runs of the papers.

mod simulated;
mod trial;

use std::time::Duration;

use clap::{ArgAction, Args};
use serde::Serialize;
use serde_json::json;

use super::options::{count, send_timeout};
use super::pool::{Trials, processors};
use super::statistics::ms;
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use crate::named::named;

/// Time until TCP and UDP go on after a silent failure, by the Send Timeout (as root, or simulated).
///
/// Figure 9 of the LinShim6 paper and figures 2 to 4 of the empirical evaluation: the Application
/// Recovery Time at a round trip of 80 +- 20 ms. The defaults are the papers' and take hours; add
/// `--simulated` for the same in minutes, or choose fewer.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Art {
    /// Send Timeouts in seconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.2,0.5,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", value_parser = send_timeout)]
    #[serde(skip)]
    pub send_timeouts: Vec<Duration>,
    /// Failures for each Send Timeout and flow.
    #[arg(long, value_name = "N", default_value_t = 45, value_parser = count)]
    pub repetitions: usize,
    /// What is hit: tcp, tcp-no-notice, udp-oneway, udp-bidir.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tcp,tcp-no-notice,udp-oneway,udp-bidir"
    )]
    #[serde(skip)]
    pub flows: Vec<ArtFlow>,
    /// Keep no standby pair: RFC 5534 and nothing else.
    // With a standby path (decision 045), traffic moves to it when the Send Timeout expires (decision 057).
    #[arg(long = "no-standby", action = ArgAction::SetFalse)]
    pub standby: bool,
    /// On a virtual clock, by the simulator: minutes for all of the paper's runs, and no root.
    #[arg(long)]
    #[serde(rename = "is_simulated")]
    pub simulated: bool,
    /// Networks side by side; they mostly wait.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count)]
    pub parallel: usize,
    /// What the moments of failures, delays and losses follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

named! {
    /// Kinds of traffic.
    pub enum ArtFlow {
        /// A transfer whose sender retransmits at once when the path has changed (RFC 6069).
        Tcp = "tcp",
        /// A transfer that waits for its retransmission timer.
        TcpNoNotice = "tcp-no-notice",
        /// 50 datagrams of 20 octets a second, as G.729 sends them.
        UdpOneWay = "udp-oneway",
        /// 50 datagrams of 20 octets a second in both directions.
        UdpBothWays = "udp-bidir",
    }
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    flow: ArtFlow,
    send_timeout_ms: u64,
    repetitions: usize,
    /// Repetitions that recovered.
    recovered: usize,
    art_ms: Percentiles,
    /// Longest time without new data for the application. The first TCP segment by the new path may bring none: its
    /// receiver has it already if only its acknowledgement was lost.
    application_ms: Percentiles,
}

/// Recovery times of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Time from the last packet by the old path to the first packet by the new path.
    art: Option<Duration>,
    /// Longest silence of the application.
    application: Option<Duration>,
}

/// Parameters of a failure.
#[derive(Clone, Copy, Debug)]
struct Case {
    flow: ArtFlow,
    send_timeout: Duration,
    standby: bool,
}

impl Experiment for Art {
    fn card(&self) -> Card {
        Card {
            name: "art",
            about: "time until TCP and UDP go on after a silent failure, by the Send Timeout",
            needs: if self.simulated { Needs::Nothing } else { Needs::Daemons(&["tcpdump"]) },
            columns: "flow send_timeout_ms recovered art_ms.p5 art_ms.median art_ms.p95 \
                      application_ms.median",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let parallel = if self.simulated { processors() } else { self.parallel };
        let run = if self.simulated { simulated::run } else { trial::run };
        let seconds = |case: &Case| case.send_timeout.as_secs_f64();
        let name = |case: &Case| format!("{}, Send Timeout {} s", case.flow, seconds(case));
        let tried = self.trials(parallel).run(watch, name, run)?;
        let points: Vec<_> = tried.iter().map(|(case, times)| Point::of(case, times)).collect();
        let parameters =
            json!({"rtt_ms": ms(RTT), "rtt_stddev_ms": ms(RTT_STDDEV), "profile": "rfc"});
        let results = Results::new(self, &points)?.with_parameters(parameters);
        Ok(results.with_charts(charts(&points)))
    }
}

impl Art {
    fn trials(&self, parallel: usize) -> Trials<Case> {
        let Self { ref send_timeouts, repetitions, ref flows, standby, seed, .. } = *self;
        let cases = flows.iter().flat_map(|&flow| {
            let case = move |&send_timeout| (Case { flow, send_timeout, standby }, repetitions);
            send_timeouts.iter().map(case)
        });
        Trials { cases: cases.collect(), seed, parallel }
    }
}

impl Point {
    fn of(case: &Case, times: &[Times]) -> Self {
        Self {
            flow: case.flow,
            send_timeout_ms: u64::try_from(case.send_timeout.as_millis()).unwrap_or(u64::MAX),
            repetitions: times.len(),
            recovered: times.iter().filter(|one| one.art.is_some()).count(),
            art_ms: Percentiles::of(times.iter().map(|one| one.art.map(ms))),
            application_ms: Percentiles::of(times.iter().map(|one| one.application.map(ms))),
        }
    }
}

/// The charts of the papers.
fn charts(points: &[Point]) -> [Chart; 3] {
    use ArtFlow::{Tcp, TcpNoNotice, UdpBothWays, UdpOneWay};
    let chart = |title: &str, flows: &[ArtFlow]| {
        let own = |&flow: &ArtFlow| points.iter().filter(move |point| point.flow == flow);
        let places = flows.iter().flat_map(own).map(|point| {
            let range = point.art_ms.range().map(|range| range.map(|ms| ms / 1e3));
            (point.flow, point.send_timeout_ms as f64 / 1e3, range)
        });
        Chart::lines(title, ["Send Timeout (s)", "Application Recovery Time (s)"], places)
    };
    [
        chart(
            "TCP with and without the notice (LinShim6, figure 9; evaluation, figure 3)",
            &[Tcp, TcpNoNotice],
        ),
        chart("UDP one way and both ways (evaluation, figure 2)", &[UdpOneWay, UdpBothWays]),
        chart("UDP and TCP (evaluation, figure 4)", &[UdpBothWays, Tcp, TcpNoNotice]),
    ]
}

/// Round trip time and its standard deviation.
const RTT: Duration = Duration::from_millis(80);
const RTT_STDDEV: Duration = Duration::from_millis(20);
/// Longest time for which an application is watched after a failure.
const LIMIT: Duration = Duration::from_secs(60);
/// Rate and size of the datagrams of G.729.
const PER_SECOND: u32 = 50;
const OCTETS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

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
        let cases = art.trials(1).cases;
        let groups = cases.iter().zip(times.chunks(2));
        let points: Vec<_> = groups.map(|((case, _), times)| Point::of(case, times)).collect();
        let medians = points.iter().map(|point| point.art_ms.median.map(|ms| ms.round()));
        assert_eq!(medians.collect::<Vec<_>>(), [None, Some(25.0)]);
        assert_eq!((points[0].recovered, points[1].recovered), (1, 2));
        assert_eq!(points[1].application_ms.median.map(f64::round), Some(50.0));
        assert_eq!((points[0].send_timeout_ms, points[1].send_timeout_ms), (1000, 2000));
        assert!(cases.iter().all(|(_, times)| *times == 2));
    }
}
