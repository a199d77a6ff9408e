//! Time in which a connection leaves an uplink that has lost its carrier. The host learns of the loss at once, so it
//! waits neither for timers nor for round trips.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::options::{count, rtt};
use super::pool::{Trial, Trials};
use super::recovery::{Disturbance, FlowName, Scene};
use super::statistics::ms;
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use crate::capture::Capture;
use crate::topology::{HOSTS, ISPS, Impairment};

/// Time from the loss of a carrier to the first packet by the other uplink (as root).
///
/// With the silence of the application and the packets that were lost.
#[derive(Clone, Debug, Args, Serialize)]
pub struct LocalEvent {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80", value_parser = rtt)]
    #[serde(skip)]
    pub rtts: Vec<Duration>,
    /// Failures for each of them, under a transfer and under datagrams.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count)]
    pub repetitions: usize,
    /// Networks side by side.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub parallel: usize,
    /// What the moments of failures follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    flow: FlowName,
    rtt_ms: f64,
    repetitions: usize,
    /// Time from the loss of the carrier to the first packet by the other uplink.
    first_packet_ms: Percentiles,
    /// Longest silence of the application after the loss.
    goodput_gap_ms: Percentiles,
    /// Datagrams lost, or segments that the host sent again.
    packets_lost: Percentiles,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    flow: FlowName,
    rtt: Duration,
}

struct Outcome {
    first_packet: Option<Duration>,
    application: Disturbance,
}

impl Experiment for LocalEvent {
    fn card(&self) -> Card {
        Card {
            name: "local-event",
            about: "time from the loss of a carrier to the first packet by the other uplink",
            needs: Needs::Daemons(&["tcpdump"]),
            columns: "flow rtt_ms first_packet_ms.median first_packet_ms.p95 \
                      goodput_gap_ms.median goodput_gap_ms.p95 packets_lost.median \
                      packets_lost.p95",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let name = |case: &Case| format!("{}, RTT {} ms", case.flow, ms(case.rtt));
        let tried = self.trials().run(watch, name, run)?;
        let points: Vec<_> = tried.iter().map(|(case, all)| Point::of(case, all)).collect();
        Ok(Results::new(self, &points)?.with_charts([chart(&points)]))
    }
}

impl LocalEvent {
    fn trials(&self) -> Trials<Case> {
        let &Self { ref rtts, repetitions, parallel, seed } = self;
        let of_flow = |&flow| rtts.iter().map(move |&rtt| (Case { flow, rtt }, repetitions));
        Trials { cases: FlowName::ALL.iter().flat_map(of_flow).collect(), seed, parallel }
    }
}

impl Point {
    fn of(case: &Case, all: &[Outcome]) -> Self {
        Self {
            flow: case.flow,
            rtt_ms: ms(case.rtt),
            repetitions: all.len(),
            first_packet_ms: Percentiles::of(all.iter().map(|one| one.first_packet.map(ms))),
            goodput_gap_ms: Percentiles::of(all.iter().map(|one| one.application.gap.map(ms))),
            packets_lost: Percentiles::of(
                all.iter().map(|one| one.application.packets_lost as f64),
            ),
        }
    }
}

/// Runs one loss of the carrier at host A.
fn run(trial: &Trial<Case>) -> anyhow::Result<Outcome> {
    let cables = Impairment { seed: trial.seed, ..Impairment::delay(trial.rtt / 2) };
    let mut scene = Scene::protected(cables, SEND_TIMEOUT, SETTINGS)?;
    let flow = scene.start(trial.flow)?;
    let (host, directory) = (scene.lab.namespace(HOSTS[0])?, scene.lab.directory(HOSTS[0])?);
    let capture = Capture::start(host, ISPS[1], &directory)?;
    scene.settle(&flow, trial.seed)?;
    let mut since_1970 = Duration::ZERO;
    let application = scene
        .disturb(flow, |scene| {
            since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock")?;
            scene.drop_carrier()
        })
        .with_context(|| format!("{trial:?}: {}", scene.logs()))?;
    let frames = capture.finish()?;
    let mut moved =
        frames.iter().filter(|frame| frame.at >= since_1970 && frame.is_moved_payload());
    let first_packet = moved.next().map(|frame| frame.at.saturating_sub(since_1970));
    Ok(Outcome { first_packet, application })
}

fn chart(points: &[Point]) -> Chart {
    let places = points.iter().flat_map(|point| {
        let Point { flow, rtt_ms, first_packet_ms, goodput_gap_ms, .. } = point;
        [
            (format!("first packet, {flow}"), *rtt_ms, first_packet_ms.range()),
            (format!("gap of the application, {flow}"), *rtt_ms, goodput_gap_ms.range()),
        ]
    });
    Chart::lines("After the loss of a carrier", ["round-trip time (ms)", "milliseconds"], places)
}

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const SETTINGS: &str = "addresses = \"hba\"\ntrigger-bytes = 500\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_make_points_of_both_flows() {
        let event = LocalEvent { repetitions: 2, ..LocalEvent::default() };
        let cases = event.trials().cases;
        assert_eq!(cases.iter().map(|(_, times)| times).sum::<usize>(), 2 * 3 * 2);
        let outcome = |ms| Outcome {
            first_packet: Some(Duration::from_millis(ms)),
            application: Disturbance { gap: None, packets_lost: ms, needless: None },
        };
        let point = Point::of(&cases[0].0, &[outcome(2), outcome(4)]);
        assert_eq!((point.first_packet_ms.median, point.goodput_gap_ms.median), (Some(3.0), None));
        assert_eq!(point.packets_lost.median, Some(3.0));
    }
}
