//! Observations of a target, and results computed from them.

use std::time::Duration;

use serde::Serialize;

use super::{Layer, Test};
use crate::experiment::programs::Runs;
use crate::experiment::statistics::Samples;
use crate::load::Counts;

/// Observations of a target in one or several repetitions of a test.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Runs of the network layer for incoming packets, by increase of the counters. Nearly each increase is one packet.
    pub(super) received: Vec<Runs>,
    /// Runs of the send path for answers.
    pub(super) sent: Runs,
    /// Processor time of the whole target. `None` if it is not known.
    pub(super) cpu: Option<Duration>,
    /// Length of the test.
    pub(super) time: Duration,
    /// Packets that reached the target, and packets that the target dropped.
    pub(super) packets: u64,
    pub(super) dropped: u64,
    /// Packets that were sent to the target.
    pub(super) load: Counts,
    /// Answers that reached the source.
    pub(super) answers: u64,
    pub(super) entries: usize,
    pub(super) seconds: Vec<Second>,
}

/// A second of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Second {
    /// Entries in the cache at the end of the second.
    pub(super) entries: usize,
    /// Packets dropped in the second.
    pub(super) dropped: u64,
    /// Mean time of a packet in the network layer in the second.
    pub(super) latency_us: Option<f64>,
}

impl Seen {
    pub(super) fn add(&mut self, other: Self) {
        self.received.extend(other.received);
        self.sent = self.sent.plus(other.sent);
        self.cpu = self.cpu.into_iter().chain(other.cpu).reduce(|one, other| one + other);
        self.time += other.time;
        self.packets += other.packets;
        self.dropped += other.dropped;
        self.load.echo += other.load.echo;
        self.load.made_up += other.load.made_up;
        self.answers += other.answers;
        self.entries = self.entries.max(other.entries);
        if self.seconds.is_empty() {
            // The growth of one repetition is enough.
            self.seconds = other.seconds;
        }
    }

    /// Answers for each packet that should be answered. `None` if no packet should be.
    fn served_ratio(&self, layer: Layer) -> Option<f64> {
        let asked = self.load.echo + if layer == Layer::Transport { self.load.made_up } else { 0 };
        (asked > 0).then(|| self.answers as f64 / asked as f64)
    }

    /// Microseconds of each packet. The packets of an increase by several runs all have their mean.
    fn latencies(&self) -> Samples {
        // If the load sent nothing, the runs were packets of the host itself.
        let received = self.received.iter().filter(|_| self.load.all() > 0);
        let each = |runs: &Runs| {
            let micros = runs.mean().map(|nanos| nanos / 1e3);
            (0..runs.count).filter_map(move |_| micros)
        };
        Samples::of(received.flat_map(each))
    }
}

/// A test of the study.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    #[serde(flatten)]
    pub(super) test: Test,
    /// Entries in the cache at the end.
    entries: usize,
    /// Time of an incoming packet in the network layer: mean, standard deviation and percentiles.
    pub(super) latency_us: Option<f64>,
    latency_sd_us: Option<f64>,
    latency_median_us: Option<f64>,
    latency_p99_us: Option<f64>,
    /// The longest time. If a table grows, one packet waits for the growth.
    latency_max_us: Option<f64>,
    /// Time of an answer on the send path.
    pub(super) send_latency_us: Option<f64>,
    pub(super) served_ratio: Option<f64>,
    pub(super) dropped_ratio: f64,
    pub(super) echo_per_s: f64,
    pub(super) made_up_per_s: f64,
    /// Load of a processor: by the whole target, by its protocol stack, and the share of the stack in the load of the
    /// target.
    pub(super) load_percent: Option<f64>,
    pub(super) stack_load_percent: f64,
    pub(super) stack_share_percent: Option<f64>,
    pub(super) by_second: Vec<Second>,
}

impl Point {
    pub(super) fn of(test: Test, seen: &Seen) -> Self {
        let latencies = seen.latencies();
        let seconds = seen.time.as_secs_f64().max(f64::MIN_POSITIVE);
        let received = seen.received.iter().copied().fold(Runs::default(), Runs::plus);
        let stack = (received.nanos + seen.sent.nanos) as f64 / 1e9;
        let cpu = seen.cpu.map(|cpu| cpu.as_secs_f64());
        let send_latency_us = seen.sent.mean().map(|nanos| nanos / 1e3);
        Self {
            test,
            entries: seen.entries,
            latency_us: latencies.mean(),
            latency_sd_us: latencies.stddev(),
            latency_median_us: latencies.at(0.5),
            latency_p99_us: latencies.at(0.99),
            latency_max_us: latencies.at(1.0),
            send_latency_us: send_latency_us.filter(|_| test.layer == Layer::Transport),
            served_ratio: seen.served_ratio(test.layer),
            dropped_ratio: seen.dropped as f64 / seen.packets.max(1) as f64,
            echo_per_s: seen.load.echo as f64 / seconds,
            made_up_per_s: seen.load.made_up as f64 / seconds,
            load_percent: cpu.map(|cpu| 100.0 * cpu / seconds),
            stack_load_percent: 100.0 * stack / seconds,
            stack_share_percent: cpu
                .filter(|cpu| *cpu > 0.0)
                .map(|cpu| (100.0 * stack / cpu).min(100.0)),
            by_second: seen.seconds.clone(),
        }
    }
}
