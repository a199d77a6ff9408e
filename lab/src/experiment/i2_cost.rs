//! What an I2 costs the responder: figure 10 of the LinShim6 paper, and three decades more.

use anyhow::ensure;

use super::{Card, Chart, Experiment, Line, Results, Watch};
use crate::cost::{self, I2Cost, I2Point};

impl Experiment for I2Cost {
    fn card(&self) -> Card {
        Card {
            name: "i2-cost",
            about: "time to process an I2 against the number of contexts that are there",
            needs: None,
            columns: &["security", "contexts", "samples", "median_us", "p99_us"],
        }
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
        Ok(Results::new(self, &points)?.with_charts([self.chart(&points)]))
    }
}

impl I2Cost {
    fn chart(&self, points: &[I2Point]) -> Chart {
        let line = |security: &String, what: &str, of: fn(&I2Point) -> f64| {
            let own = points.iter().filter(|point| point.security == *security);
            let places = own.map(|point| (f64::from(point.contexts).log10(), of(point)));
            Line::new(format!("{security}, {what}"), places)
        };
        let names = self.securities.iter().map(ToString::to_string);
        let lines = names.flat_map(|name| {
            [
                line(&name, "median", |point| point.spread.median_us),
                line(&name, "99th percentile", |point| point.spread.p99_us),
            ]
        });
        let axes = ["contexts, as a power of ten", "microseconds"];
        Chart::lines("Processing of an I2 at the responder", axes, lines).in_decades()
    }
}
