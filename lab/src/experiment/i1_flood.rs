//! Effect of a flood of I1s on the traffic of an existing context.

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::options::{as_seconds, span};
use super::recovery::{Scene, pause};
use super::statistics::median;
use super::{Card, Chart, Experiment, Needs, Results, Watch};
use crate::topology::{ISPS, Impairment};
use crate::workload::{Arrivals, I1Flood, LONGEST_FLOOD, Sender, TcpOptions, TcpTransfer};

/// Goodput of a context while its host is flooded with I1s from sources made up (as root).
///
/// Between two real daemons in network namespaces; 44 s with the default parameters.
#[derive(Clone, Debug, Args, Serialize)]
pub struct FloodCost {
    /// Pairs of a time without and a time with the flood.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pairs: usize,
    /// Length of each.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span)]
    #[serde(rename = "length_s", serialize_with = "as_seconds")]
    pub length: Duration,
    /// Octets a second of the transfer.
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(rename = "rate_octets_per_s")]
    pub rate: u64,
    /// I1s a second; as many as a thread can send without it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(rename = "flood_per_s")]
    pub flood: Option<u64>,
}

/// A measurement without the flood, and one with it.
#[derive(Debug, Serialize)]
struct Point {
    quiet_mb_per_s: f64,
    flooded_mb_per_s: f64,
    ratio: f64,
    i1_per_s: f64,
    r1_per_s: f64,
}

impl Experiment for FloodCost {
    fn card(&self) -> Card {
        Card {
            name: "i1-flood",
            about: "goodput of a context while its host is flooded with I1s from sources made up",
            needs: Needs::Daemons(&["nft"]),
            columns: "quiet_mb_per_s flooded_mb_per_s ratio i1_per_s r1_per_s",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(self.pairs > 0 && !self.length.is_zero() && self.rate > 0, "nothing to measure");
        ensure!(self.length <= LONGEST_FLOOD / 2, "a flood lasts {:?} at most", LONGEST_FLOOD / 2);
        watch.stage("two hosts with a context");
        let mut scene = Scene::protected(Impairment::default(), SEND_TIMEOUT, "")?;
        let [client, server] = scene.ends.clone();
        let transfer = TcpTransfer::start(&TcpOptions {
            client,
            server,
            sender: Sender::Server,
            bytes: u64::MAX,
            rate: self.rate,
        })?;
        scene.await_protection()?;
        watch.stage("transfer, without and with the flood");
        let mut points = Vec::new();
        for pair in 0..self.pairs {
            points.push(self.pair(&scene, transfer.arrivals())?);
            watch.done((pair + 1) as f64 / self.pairs as f64);
        }
        ensure!(!scene.has_moved(), "the flood moved the context\n{}", scene.logs());
        transfer.abandon()?;
        self.results(&points)
    }
}

impl FloodCost {
    fn pair(&self, scene: &Scene, arrivals: &Arrivals) -> anyhow::Result<Point> {
        let quiet = self.goodput(arrivals)?;
        // The flood comes by the other ISP, so that the queue of a link does not affect the result.
        let router = scene.lab.namespace(ISPS[1])?;
        let victim = scene.daemons[0].verifiable_address(ISPS[1])?;
        let flood = I1Flood::start(router, victim, self.flood)?;
        let begin = Instant::now();
        let flooded = self.goodput(arrivals)?;
        let seconds = begin.elapsed().as_secs_f64();
        let (sent, answered) = (flood.sent(), flood.answered()?);
        flood.finish()?;
        Ok(Point {
            quiet_mb_per_s: quiet / 1e6,
            flooded_mb_per_s: flooded / 1e6,
            ratio: flooded / quiet.max(1.0),
            i1_per_s: sent as f64 / seconds,
            r1_per_s: answered as f64 / seconds,
        })
    }

    /// Octets a second that arrive, measured after a moment to settle.
    fn goodput(&self, arrivals: &Arrivals) -> anyhow::Result<f64> {
        pause(SETTLE)?;
        let (begin, before) = (Instant::now(), arrivals.total());
        pause(self.length)?;
        Ok((arrivals.total() - before) as f64 / begin.elapsed().as_secs_f64())
    }

    fn results(&self, points: &[Point]) -> anyhow::Result<Results> {
        let median = |of: fn(&Point) -> f64| median(points.iter().map(of));
        let bars = points.iter().zip(1..).flat_map(|(point, pair)| {
            [
                (pair, "quiet", Some(point.quiet_mb_per_s)),
                (pair, "flooded", Some(point.flooded_mb_per_s)),
            ]
        });
        let title = "A transfer without and with a flood of I1s";
        let chart = Chart::bars(title, ["pairs of times", "MB/s"], bars);
        let summary = json!({
            "median_ratio": median(|point| point.ratio),
            "median_i1_per_s": median(|point| point.i1_per_s),
            "median_r1_per_s": median(|point| point.r1_per_s),
        });
        Ok(Results::new(self, points)?.with_summary(summary).with_charts([chart]))
    }
}

const SEND_TIMEOUT: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_millis(200);
