use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::super::options::{as_seconds, span};
use super::super::{Card, Chart, Experiment, Needs, Results, Watch};
use super::network::{Network, Protocol, System, Version};
use super::server::{Received, Task};
use crate::interrupt;

/// Throughput of the host stack in user space, and of Linux (tables 3 and 4 of the 4.4BSD paper).
#[derive(Args, Clone, Debug, Serialize)]
pub struct StackThroughput {
    /// Systems of the client.
    #[arg(long, value_delimiter = ',', default_value = "linux,moorline")]
    pub systems: Vec<System>,
    /// Version of IP.
    #[arg(long, default_value = "ipv6")]
    pub version: Version,
    /// Octets of each write to a TCP connection.
    #[arg(long, value_delimiter = ',', default_value = "4096,8192,32768")]
    pub tcp_sizes: Vec<usize>,
    /// Octets of each datagram.
    #[arg(long, value_delimiter = ',', default_value = "64,1024")]
    pub udp_sizes: Vec<usize>,
    /// Time of a trial.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span)]
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    pub time: Duration,
    /// Rounds of trials. The systems take turns.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
}

/// Which way the octets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Direction {
    /// The client sends.
    Out,
    /// The client receives.
    In,
}

/// A system, a protocol, a size and a direction.
#[derive(Debug, Serialize)]
struct Point {
    system: System,
    protocol: Protocol,
    octets: usize,
    direction: Direction,
    /// Octets that arrived, of the best round.
    gbit_per_s: Option<f64>,
    /// Throughput in multiples of Linux's.
    of_linux: Option<f64>,
}

impl Experiment for StackThroughput {
    fn card(&self) -> Card {
        Card {
            name: "stack-throughput",
            about: "throughput of the host stack in user space, and of Linux",
            needs: Needs::Network,
            columns: "system protocol octets direction gbit_per_s of_linux",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(self.udp_sizes.iter().all(|size| (1..=60_000).contains(size)), "1 to 60000 octets");
        let network = Network::build()?;
        let of_tcp = self.tcp_sizes.iter().map(|size| (Protocol::Tcp, *size));
        let of_udp = self.udp_sizes.iter().map(|size| (Protocol::Udp, *size));
        let cases: Vec<_> = of_tcp.chain(of_udp).collect();
        let mut points = Vec::new();
        for (number, (protocol, octets)) in cases.iter().enumerate() {
            for direction in [Direction::Out, Direction::In] {
                watch.stage(&format!("{protocol}, {octets} octets, {direction:?}"));
                points.extend(self.compare(&network, *protocol, *octets, direction)?);
            }
            watch.done((number + 1) as f64 / cases.len() as f64);
        }
        let charts = [Protocol::Tcp, Protocol::Udp].map(|protocol| chart(protocol, &points));
        Ok(Results::new(self, &points)?.with_charts(charts))
    }
}

impl StackThroughput {
    /// One point for each system, of rounds in turn.
    fn compare(
        &self,
        network: &Network,
        protocol: Protocol,
        octets: usize,
        direction: Direction,
    ) -> anyhow::Result<Vec<Point>> {
        let mut best: Vec<Option<f64>> = vec![None; self.systems.len()];
        for _ in 0..self.rounds {
            for (system, best) in self.systems.iter().zip(&mut best) {
                interrupt::check()?;
                let received = self.trial(network, *system, protocol, octets, direction)?;
                *best = received.rate().into_iter().chain(*best).max_by(f64::total_cmp);
            }
        }
        let rates = self.systems.iter().zip(best);
        let linux = rates.clone().find(|(system, _)| **system == System::Linux);
        let linux = linux.and_then(|(_, rate)| rate);
        let point = |(system, rate): (&System, Option<f64>)| Point {
            system: *system,
            protocol,
            octets,
            direction,
            gbit_per_s: rate.map(|rate| rate / 1e9),
            of_linux: rate.zip(linux).map(|(ours, linux)| ours / linux),
        };
        Ok(rates.map(point).collect())
    }

    fn trial(
        &self,
        network: &Network,
        system: System,
        protocol: Protocol,
        size: usize,
        direction: Direction,
    ) -> anyhow::Result<Received> {
        let time = self.time;
        let task = match direction {
            Direction::Out => Task::Sink,
            Direction::In => Task::Source(time, size),
        };
        let (counted, received) =
            network.run(system, self.version, protocol, task, async |client, server| {
                Ok(match (protocol, direction) {
                    (Protocol::Tcp, Direction::Out) => {
                        client.connect(server).await?.send(size, time).await?;
                        None
                    }
                    (Protocol::Tcp, Direction::In) => {
                        Some(client.connect(server).await?.receive().await?)
                    }
                    (Protocol::Udp, Direction::Out) => {
                        client.datagrams(server).await?.send(size, time).await?;
                        None
                    }
                    (Protocol::Udp, Direction::In) => {
                        Some(client.datagrams(server).await?.receive().await?)
                    }
                })
            })?;
        Ok(received.or(counted).unwrap_or_default())
    }
}

fn chart(protocol: Protocol, points: &[Point]) -> Chart {
    let points = points.iter().filter(|point| point.protocol == protocol);
    let bars = points.map(|point| {
        let way = match point.direction {
            Direction::Out => "sent",
            Direction::In => "received",
        };
        (format!("{}, {way}", point.octets), point.system, point.gbit_per_s)
    });
    let title = format!("Throughput of {protocol}, best round");
    Chart::bars(title, ["octets of a write", "Gbit/s"], bars)
}
