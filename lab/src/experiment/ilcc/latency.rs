//! Where the latencies of a test lie.

use serde::Serialize;

use crate::experiment::Summary;

/// What packets took, in microseconds; `None` if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Latency {
    #[serde(rename = "latency_us")]
    pub(super) mean: Option<f64>,
    #[serde(rename = "latency_sd_us")]
    stddev: Option<f64>,
    #[serde(rename = "latency_median_us")]
    median: Option<f64>,
    #[serde(rename = "latency_p99_us")]
    p99: Option<f64>,
    /// The one that took longest: where tables grow, it waits for all of them.
    #[serde(rename = "latency_max_us")]
    max: Option<f64>,
}

impl Latency {
    pub(super) fn of(mut micros: Vec<f64>) -> Self {
        let summary = Summary::of(micros.iter().copied());
        micros.sort_by(f64::total_cmp);
        Self {
            mean: summary.map(|summary| summary.mean),
            stddev: summary.map(|summary| summary.stddev),
            median: summary.map(|summary| summary.median),
            p99: micros.get(micros.len() * 99 / 100).copied(),
            max: summary.map(|summary| summary.max),
        }
    }
}
