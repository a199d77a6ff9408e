//! What an I2 costs the responder: figure 10 of the LinShim6 paper, and three decades more.

use anyhow::ensure;
use serde::Serialize;

use super::{Chart, Data, Experiment, Line, Results, Scale, Watch};
use crate::cost::{self, I2Cost, I2Point};

/// The parameters, for JSON.
#[derive(Debug, Serialize)]
struct Parameters {
    contexts: Vec<u32>,
    securities: Vec<String>,
    samples: u32,
}

impl Experiment for I2Cost {
    fn name(&self) -> &'static str {
        "i2-cost"
    }

    fn about(&self) -> &'static str {
        "time to process an I2 against the number of contexts that are there"
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(!self.contexts.is_empty(), "no number of contexts to measure at");
        let all = (self.contexts.len() * self.securities.len()).max(1);
        let mut done = 0;
        let points = cost::i2_cost(self, |point| {
            done += 1;
            watch.stage(&format!("{} contexts, {}", point.contexts, point.security));
            watch.done(f64::from(done) / all as f64);
        })?;
        let parameters = Parameters {
            contexts: self.contexts.clone(),
            securities: self.securities.iter().map(ToString::to_string).collect(),
            samples: self.samples,
        };
        let results = Results::new(self, &parameters, &points)?.with_columns(&COLUMNS);
        Ok(results.with_charts(vec![self.chart(&points)]))
    }
}

impl I2Cost {
    fn chart(&self, points: &[I2Point]) -> Chart {
        let line = |security: &String, what: &str, of: fn(&I2Point) -> f64| {
            let points = points.iter().filter(|point| point.security == *security);
            Line {
                name: format!("{security}, {what}"),
                points: points
                    .map(|point| (f64::from(point.contexts).log10(), of(point)))
                    .collect(),
            }
        };
        let names = self.securities.iter().map(ToString::to_string);
        let series = names.flat_map(|name| {
            [
                line(&name, "median", |point| point.spread.median_us),
                line(&name, "99th percentile", |point| point.spread.p99_us),
            ]
        });
        Chart {
            title: "Processing of an I2 at the responder".into(),
            x: "contexts, as a power of ten".into(),
            y: "microseconds".into(),
            scale: Scale::Log,
            data: Data::Lines { series: series.collect() },
        }
    }
}

const COLUMNS: [&str; 5] = ["security", "contexts", "samples", "median_us", "p99_us"];
