use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use super::super::options::{as_seconds, span};
use super::super::statistics::Samples;
use super::super::{Card, Chart, Experiment, Needs, Results, Watch};
use super::network::{Network, Protocol, System, Version};
use super::server::Task;
use crate::interrupt;

/// Times of question and answer, with the host stack in user space and with Linux (tables 1 and 2 of the 4.4BSD paper).
#[derive(Args, Clone, Debug, Serialize)]
pub struct StackLatency {
    /// Systems of the client.
    #[arg(long, value_delimiter = ',', default_value = "linux,moorline")]
    pub systems: Vec<System>,
    /// Versions of IP.
    #[arg(long, value_delimiter = ',', default_value = "ipv6,ipv4")]
    pub versions: Vec<Version>,
    /// Protocols.
    #[arg(long, value_delimiter = ',', default_value = "tcp,udp")]
    pub protocols: Vec<Protocol>,
    /// Octets of a question, and of its answer.
    #[arg(long, value_delimiter = ',', default_value = "1,64,1024,2048,4096,8192")]
    pub sizes: Vec<usize>,
    /// Time of a trial.
    #[arg(long, value_name = "TIME", default_value = "700ms", value_parser = span)]
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    pub time: Duration,
    /// Rounds of trials. The systems take turns.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
}

/// A system, a protocol and a size.
#[derive(Debug, Serialize)]
struct Point {
    system: System,
    version: Version,
    protocol: Protocol,
    octets: usize,
    exchanges: usize,
    /// Median of the best round.
    median_us: Option<f64>,
    /// 99th percentile of all rounds.
    p99_us: Option<f64>,
    /// Median in multiples of Linux's.
    of_linux: Option<f64>,
    /// Median in multiples of that of IPv4.
    of_ipv4: Option<f64>,
}

impl Experiment for StackLatency {
    fn card(&self) -> Card {
        Card {
            name: "stack-latency",
            about: "time of question and answer with the host stack in user space, and with Linux",
            needs: Needs::Network,
            columns: "system version protocol octets exchanges median_us p99_us of_linux of_ipv4",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(self.sizes.iter().all(|size| (1..=60_000).contains(size)), "1 to 60000 octets");
        let network = Network::build()?;
        let mut points = Vec::new();
        let whole = self.protocols.len() * self.sizes.len();
        for &protocol in &self.protocols {
            for &octets in &self.sizes {
                watch.stage(&format!("{protocol}, {octets} octets"));
                points.extend(self.compare(&network, protocol, octets)?);
                watch.done(points.len() as f64 / (whole * self.clients().count()) as f64);
            }
        }
        let charts = self.protocols.iter().map(|protocol| chart(*protocol, &points));
        Ok(Results::new(self, &points)?.with_charts(charts))
    }
}

impl StackLatency {
    fn clients(&self) -> impl Iterator<Item = (System, Version)> + Clone + '_ {
        let of_system = |system| self.versions.iter().map(move |version| (system, *version));
        self.systems.iter().flat_map(move |system| of_system(*system))
    }

    /// One point for each system and version, of rounds in turn.
    fn compare(
        &self,
        network: &Network,
        protocol: Protocol,
        octets: usize,
    ) -> anyhow::Result<Vec<Point>> {
        let mut rounds: Vec<Vec<Vec<f64>>> = vec![Vec::new(); self.clients().count()];
        for _ in 0..self.rounds {
            for (client, rounds) in self.clients().zip(&mut rounds) {
                interrupt::check()?;
                rounds.push(self.trial(network, client, protocol, octets)?);
            }
        }
        let points = self.clients().zip(rounds);
        let mut points: Vec<_> =
            points.map(|(client, rounds)| Point::of(client, protocol, octets, &rounds)).collect();
        let median = |system, version| {
            let is_it = |point: &&Point| (point.system, point.version) == (system, version);
            points.iter().find(is_it).and_then(|point| point.median_us)
        };
        let ratios: Vec<_> = points
            .iter()
            .map(|point| {
                let ratio = |to: Option<f64>| point.median_us.zip(to).map(|(this, to)| this / to);
                let of_linux = ratio(median(System::Linux, point.version));
                (of_linux, ratio(median(point.system, Version::Ipv4)))
            })
            .collect();
        for (point, (of_linux, of_ipv4)) in points.iter_mut().zip(ratios) {
            (point.of_linux, point.of_ipv4) = (of_linux, of_ipv4);
        }
        Ok(points)
    }

    fn trial(
        &self,
        network: &Network,
        (system, version): (System, Version),
        protocol: Protocol,
        octets: usize,
    ) -> anyhow::Result<Vec<f64>> {
        let (_, times) =
            network.run(system, version, protocol, Task::Echo, async |client, server| {
                match protocol {
                    Protocol::Tcp => {
                        client.connect(server).await?.exchange(octets, self.time).await
                    }
                    Protocol::Udp => {
                        client.datagrams(server).await?.exchange(octets, self.time).await
                    }
                }
            })?;
        Ok(times)
    }
}

impl Point {
    fn of(
        (system, version): (System, Version),
        protocol: Protocol,
        octets: usize,
        rounds: &[Vec<f64>],
    ) -> Self {
        let micros = |seconds: f64| 1e6 * seconds;
        let medians = rounds.iter().filter_map(|times| Samples::of(times.iter().copied()).at(0.5));
        let all = Samples::of(rounds.iter().flatten().copied());
        Self {
            system,
            version,
            protocol,
            octets,
            exchanges: rounds.iter().map(Vec::len).sum(),
            median_us: medians.min_by(f64::total_cmp).map(micros),
            p99_us: all.at(0.99).map(micros),
            of_linux: None,
            of_ipv4: None,
        }
    }
}

fn chart(protocol: Protocol, points: &[Point]) -> Chart {
    let points = points.iter().filter(|point| point.protocol == protocol);
    let bars = points.map(|point| {
        (point.octets, format!("{}, {}", point.system, point.version), point.median_us)
    });
    let title = format!("Question and answer by {protocol}, median of the best round");
    Chart::bars(title, ["octets", "microseconds"], bars)
}
