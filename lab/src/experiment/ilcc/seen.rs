//! What was seen of a target, and what it comes to.

use std::time::Duration;

use serde::Serialize;

use super::{Layer, Test};
use crate::experiment::programs::Runs;
use crate::experiment::statistics::Samples;
use crate::load::Counts;

/// What was seen of a target in one repetition of a test, or in several.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Of the network layer for what comes in, as its counters went up: nearly each is one packet.
    pub(super) received: Vec<Runs>,
    /// Of the way down for answers.
    pub(super) sent: Runs,
    /// Processor time of all, where it can be told.
    pub(super) cpu: Option<Duration>,
    /// For how long.
    pub(super) time: Duration,
    /// Packets that came to it, and those of them that it dropped.
    pub(super) packets: u64,
    pub(super) dropped: u64,
    /// What was sent to it.
    pub(super) load: Counts,
    /// What came back.
    pub(super) answers: u64,
    pub(super) entries: usize,
    pub(super) seconds: Vec<Second>,
}

/// A second of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Second {
    /// In the cache at its end.
    pub(super) entries: usize,
    /// Packets dropped in it.
    pub(super) dropped: u64,
    /// Mean of the network layer in it.
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
            // One repetition shows how it grew.
            self.seconds = other.seconds;
        }
    }

    /// Of what ought to be answered.
    fn served_ratio(&self, layer: Layer) -> Option<f64> {
        let asked = self.load.echo + if layer == Layer::Transport { self.load.made_up } else { 0 };
        (asked > 0).then(|| self.answers as f64 / asked as f64)
    }

    /// Microseconds of each packet. Of more than one run each has the mean.
    fn latencies(&self) -> Samples {
        // Where nothing came there was something of the host itself.
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
    /// In the cache at the end.
    entries: usize,
    /// Of the network layer, a packet that comes: mean, standard deviation, and where the latencies lie.
    pub(super) latency_us: Option<f64>,
    latency_sd_us: Option<f64>,
    latency_median_us: Option<f64>,
    latency_p99_us: Option<f64>,
    /// The one that took longest: where tables grow, it waits for all of them.
    latency_max_us: Option<f64>,
    /// Of the way down, an answer.
    pub(super) send_latency_us: Option<f64>,
    pub(super) served_ratio: Option<f64>,
    pub(super) dropped_ratio: f64,
    pub(super) echo_per_s: f64,
    pub(super) made_up_per_s: f64,
    /// Of a processor: the target as a whole, its protocol stack, and its share of the former.
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
