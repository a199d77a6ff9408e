//! Cost of an I2 at the responder: figure 10 of the LinShim6 paper, and three decades more.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use clap::builder::TypedValueParser as _;
use serde::Serialize;

use super::options::{List, as_names};
use super::statistics::Samples;
use super::{Card, Chart, Experiment, Needs, Results, Watch, exact};
use crate::cost::{Peer, Peers, Responder, Security};

/// Time to process an I2 against the number of contexts that are there.
///
/// Figure 10 of the LinShim6 paper and three decades more, on the core machine itself. A minute or
/// two with a million contexts, and half a gigabyte.
#[derive(Clone, Debug, Args, Serialize)]
pub struct I2Cost {
    /// Most contexts; from one on, by powers of ten.
    #[arg(long = "most", value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(1..=10_000_000).map(decades))]
    pub contexts: List<u32>,
    /// Kinds of peers.
    #[arg(skip = [Security::Hba, Security::Cga { bits: 1024 }, Security::Cga { bits: 2048 }])]
    #[serde(serialize_with = "as_names")]
    pub securities: Vec<Security>,
    /// I2s timed for each point.
    // Each I2 is timed three times, and the fastest time counts, so that other load of the machine has no effect.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
}

/// The powers of ten up to `most`.
fn decades(most: u32) -> List<u32> {
    let decades = (0..).map_while(|decade| 10u32.checked_pow(decade));
    decades.take_while(|contexts| *contexts <= most).collect()
}

/// Times from the octets of the I2 to the octets of the R2, with all queues drained.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// Number of existing contexts.
    contexts: u32,
    /// Kind of peer.
    security: String,
    median_us: Option<f64>,
    p99_us: Option<f64>,
    samples: usize,
}

impl Experiment for I2Cost {
    fn card(&self) -> Card {
        Card {
            name: "i2-cost",
            about: "time to process an I2 against the number of contexts that are there",
            needs: Needs::Nothing,
            columns: "security contexts samples median_us p99_us",
        }
    }

    /// Times I2s. Each makes a new context, which is removed soon after. The existing contexts belong to HBA peers and
    /// were established in the same way.
    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let most = self.contexts.last().context("no number of contexts to measure at")?;
        ensure!(self.samples > 0, "no I2 to time");
        let mut responder = Responder::new(most.saturating_add(BATCH.into()))?;
        let population = Peers::new(Security::Hba)?;
        let mut asking = Vec::new();
        for &security in &self.securities {
            let peers = Peers::new(security)?;
            // Numbers count down from the greatest, so that they differ from those of the population.
            let made: Result<Vec<_>, _> =
                (0..self.samples).map(|number| peers.peer(u32::MAX - number)).collect();
            asking.push((security, made?));
        }
        let all = self.contexts.len() * self.securities.len();
        let mut points = Vec::new();
        let mut there = 0;
        for &contexts in &self.contexts {
            while there < contexts {
                responder.establish(&population.peer(there)?)?;
                there += 1;
            }
            for (security, peers) in &asking {
                watch.stage(&format!("{contexts} contexts, {security}"));
                let point = Point::measure(&mut responder, contexts, security.to_string(), peers)?;
                points.push(point);
                watch.done(points.len() as f64 / all as f64);
            }
        }
        Ok(Results::new(self, &points)?.with_charts([chart(&points)]))
    }
}

fn chart(points: &[Point]) -> Chart {
    let places = points.iter().flat_map(|point| {
        let (security, decade) = (&point.security, f64::from(point.contexts).log10());
        [
            (format!("{security}, median"), decade, exact(point.median_us)),
            (format!("{security}, 99th percentile"), decade, exact(point.p99_us)),
        ]
    });
    let axes = ["contexts, as a power of ten", "microseconds"];
    Chart::lines("Processing of an I2 at the responder", axes, places).in_decades()
}

impl Point {
    fn measure(
        responder: &mut Responder,
        contexts: u32,
        security: String,
        peers: &[Peer],
    ) -> anyhow::Result<Self> {
        let mut fastest = vec![Duration::MAX; peers.len()];
        for _ in 0..ROUNDS {
            let round = accept_all(responder, peers)?;
            fastest.iter_mut().zip(round).for_each(|(best, new)| *best = new.min(*best));
        }
        let samples = Samples::of(fastest.iter().map(|time| time.as_secs_f64() * 1e6));
        let (median_us, p99_us) = (samples.at(0.5), samples.at(0.99));
        Ok(Self { contexts, security, median_us, p99_us, samples: peers.len() })
    }
}

/// Sends all I1s of a batch before the first I2, as if a round trip earlier. So no I2 finds data of its own I1 in the
/// processor's caches.
fn accept_all(responder: &mut Responder, peers: &[Peer]) -> anyhow::Result<Vec<Duration>> {
    let mut samples = Vec::with_capacity(peers.len());
    for batch in peers.chunks(BATCH.into()) {
        let prepared: Result<Vec<_>, _> =
            batch.iter().map(|peer| responder.prepare(peer)).collect();
        let mut made = Vec::new();
        for (i2, locators) in prepared? {
            let begin = Instant::now();
            let outcome = responder.handle(&i2, locators);
            samples.push(begin.elapsed());
            made.push(outcome.context.context("an I2 was dropped")?);
        }
        made.into_iter().for_each(|context| responder.forget(context));
    }
    Ok(samples)
}

/// Most contexts beyond the number of the point. These contexts matter only at the smallest points.
const BATCH: u16 = 100;
/// Number of times that each I2 is timed.
const ROUNDS: u32 = 3;
