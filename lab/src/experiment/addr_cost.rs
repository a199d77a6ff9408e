//! What addresses cost to make: figure 6 of the LinShim6 paper, and the remark below it that the cost
//! of an HBA set hardly grows with the set while that of CGAs is linear.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use moorline_addr::{Error, Request, Shard};
use moorline_cga::{Engine, MAX_PREFIXES, PublicKey, RsaKey, Sec, Signer as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Bars, Chart, Data, Experiment, Line, Results, Scale, Summary, Watch};
use crate::interrupt;

/// Parameters. Equal ones make equal addresses with equal numbers of tries on every machine; what
/// differs is the time.
#[derive(Clone, Debug)]
pub struct AddrCost {
    /// Times two addresses are made with Sec 0 and 1. As in the paper: 100.
    pub trials: usize,
    /// The same with Sec 2, where an address takes a minute or so on one core.
    pub sec_2_trials: usize,
    /// Security parameters.
    pub secs: Vec<Sec>,
    /// Numbers of threads.
    pub threads: Vec<NonZeroUsize>,
    /// How many addresses, for the growth of the cost, with Sec 1 on one thread.
    pub sizes: Vec<usize>,
    /// Times for each size.
    pub size_trials: usize,
    /// Of the RSA key of the CGAs. The HBA sets have no key.
    pub key_bits: u32,
    /// Of everything that is drawn at random.
    pub seed: u64,
}

impl Default for AddrCost {
    fn default() -> Self {
        let all = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let mut threads = vec![NonZeroUsize::MIN, all];
        threads.dedup();
        Self {
            trials: 100,
            sec_2_trials: 2,
            secs: vec![Sec::ONE, Sec::TWO],
            threads,
            sizes: (2..=10).collect(),
            size_trials: 300,
            key_bits: 1024,
            seed: 1,
        }
    }
}

/// What was asked for and what did it.
#[derive(Debug, Serialize)]
struct Parameters {
    trials: usize,
    sec_2_trials: usize,
    secs: Vec<u8>,
    threads: Vec<usize>,
    sizes: Vec<usize>,
    size_trials: usize,
    key_bits: u32,
    seed: u64,
    engine: &'static str,
    cores: usize,
}

/// A bar of the figure, or a point of the lines below it.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// `addresses` (the figure) or `sizes`.
    part: &'static str,
    kind: Kind,
    sec: u8,
    threads: usize,
    addresses: usize,
    trials: usize,
    mean_s: f64,
    median_s: f64,
    stddev_s: f64,
    min_s: f64,
    max_s: f64,
    /// Modifiers tried for the addresses of a trial, which is the luck in the time.
    mean_tries: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Cga,
    Hba,
}

const KINDS: [Kind; 2] = [Kind::Cga, Kind::Hba];

impl Experiment for AddrCost {
    fn name(&self) -> &'static str {
        "addr-cost"
    }

    fn about(&self) -> &'static str {
        "time to make two addresses, CGA and HBA, and how it grows with their number"
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        self.check()?;
        let mut bench = Bench::new(self, watch)?;
        let mut points = Vec::new();
        for &sec in &self.secs {
            for kind in KINDS {
                points.extend(bench.measure(
                    PAIR,
                    kind,
                    sec,
                    &self.threads,
                    2,
                    self.trials(sec),
                )?);
            }
        }
        for &size in &self.sizes {
            for kind in KINDS {
                let one = [NonZeroUsize::MIN];
                let trials = self.size_trials;
                points.extend(bench.measure(SIZES, kind, Sec::ONE, &one, size, trials)?);
            }
        }
        let charts = vec![self.pairs(&points), sizes(&points)];
        let charts = charts.into_iter().filter(|chart| !chart.is_empty()).collect();
        let results = Results::new(self, &self.parameters(), &points)?;
        Ok(results.with_columns(&COLUMNS).with_charts(charts))
    }
}

impl AddrCost {
    fn trials(&self, sec: Sec) -> usize {
        if sec < Sec::TWO { self.trials } else { self.sec_2_trials }
    }

    fn check(&self) -> anyhow::Result<()> {
        for sec in &self.secs {
            ensure!(sec.is_sha1(), "Sec {sec} stands for no hash function yet");
        }
        for size in &self.sizes {
            let most = MAX_PREFIXES;
            ensure!((1..=most).contains(size), "a set has 1 to {most} addresses, not {size}");
        }
        Ok(())
    }

    fn parameters(&self) -> Parameters {
        let Self { trials, sec_2_trials, ref sizes, size_trials, key_bits, seed, .. } = *self;
        Parameters {
            trials,
            sec_2_trials,
            secs: self.secs.iter().map(|sec| sec.value()).collect(),
            threads: self.threads.iter().map(|threads| threads.get()).collect(),
            sizes: sizes.clone(),
            size_trials,
            key_bits,
            seed,
            engine: Engine::fastest().name(),
            cores: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }

    /// Figure 6.
    fn pairs(&self, points: &[Point]) -> Chart {
        let cases: Vec<_> = self
            .secs
            .iter()
            .flat_map(|sec| self.threads.iter().map(|threads| (sec.value(), threads.get())))
            .collect();
        let mean = |kind: Kind, (sec, threads): (u8, usize)| {
            let is_it = |point: &&Point| {
                (point.part, point.kind, point.sec, point.threads) == (PAIR, kind, sec, threads)
            };
            points.iter().find(is_it).map(|point| point.mean_s)
        };
        let bars = |kind: Kind| Bars {
            name: kind.name(self.key_bits),
            values: cases.iter().map(|&case| mean(kind, case)).collect(),
        };
        let groups = cases.iter().map(|&(sec, threads)| {
            format!("Sec {sec}, {threads} thread{}", if threads == 1 { "" } else { "s" })
        });
        Chart {
            title: "Mean time to make two addresses".into(),
            x: String::new(),
            y: "seconds".into(),
            scale: Scale::Log,
            data: Data::Bars { groups: groups.collect(), series: KINDS.map(bars).into() },
        }
    }
}

fn sizes(points: &[Point]) -> Chart {
    let line = |kind: Kind| {
        let of_kind = points.iter().filter(|point| point.part == SIZES && point.kind == kind);
        let points = of_kind.map(|point| (point.addresses as f64, 1e3 * point.mean_s)).collect();
        Line { name: kind.name(0), points }
    };
    Chart {
        title: "Mean time against the number of addresses, Sec 1, one thread".into(),
        x: "addresses".into(),
        y: "milliseconds".into(),
        scale: Scale::Linear,
        data: Data::Lines { series: KINDS.map(line).into() },
    }
}

impl Kind {
    fn name(self, key_bits: u32) -> String {
        match (self, key_bits) {
            (Self::Cga, 0) => "CGA, one after the other".into(),
            (Self::Cga, bits) => format!("CGA, RSA-{bits}"),
            (Self::Hba, _) => "HBA set without a key".into(),
        }
    }
}

/// Who makes addresses and takes the time.
struct Bench<'a> {
    options: &'a AddrCost,
    key: PublicKey,
    watch: &'a mut dyn Watch,
    /// Tries that are expected of all trials, and of those that are over.
    all: f64,
    over: f64,
}

impl<'a> Bench<'a> {
    fn new(options: &'a AddrCost, watch: &'a mut dyn Watch) -> anyhow::Result<Self> {
        let mut seed = options.draw("key", &[]);
        let key = RsaKey::generate(options.key_bits, &mut seed).context("key of the CGAs")?;
        let pairs = options.secs.iter().map(|&sec| {
            let searches: usize = KINDS.iter().map(|&kind| searches(kind, 2)).sum();
            expected_tries(sec) * (searches * options.threads.len() * options.trials(sec)) as f64
        });
        let sizes = options.sizes.iter().map(|&size| {
            let searches: usize = KINDS.iter().map(|&kind| searches(kind, size)).sum();
            expected_tries(Sec::ONE) * (searches * options.size_trials) as f64
        });
        let all = pairs.chain(sizes).sum();
        let key = key.public_key().clone();
        Ok(Self { options, key, watch, all, over: 0.0 })
    }

    /// The same trials with each number of threads.
    fn measure(
        &mut self,
        part: &'static str,
        kind: Kind,
        sec: Sec,
        threads: &[NonZeroUsize],
        addresses: usize,
        trials: usize,
    ) -> anyhow::Result<Vec<Point>> {
        let name = kind.name(self.options.key_bits);
        let mut points = Vec::new();
        for &threads in threads {
            self.watch.stage(&format!("{addresses} x {name}, Sec {sec}, threads: {threads}"));
            let mut times = Vec::new();
            let mut tries = 0.0;
            for trial in 0..trials {
                let began = Instant::now();
                tries += self.make(kind, sec, threads, addresses, trial)?;
                times.push(began.elapsed().as_secs_f64());
            }
            let Some(times) = Summary::of(&times) else { continue };
            points.push(Point {
                part,
                kind,
                sec: sec.value(),
                threads: threads.get(),
                addresses,
                trials,
                mean_s: times.mean,
                median_s: times.median,
                stddev_s: times.stddev,
                min_s: times.min,
                max_s: times.max,
                mean_tries: tries / trials as f64,
            });
        }
        Ok(points)
    }

    /// Makes the addresses of one trial, and tells how many tries it took up to the last that counted.
    fn make(
        &mut self,
        kind: Kind,
        sec: Sec,
        threads: NonZeroUsize,
        addresses: usize,
        trial: usize,
    ) -> anyhow::Result<f64> {
        let prefixes: Vec<_> = (0..addresses).map(prefix).collect();
        let sets: Vec<_> = match kind {
            Kind::Cga => prefixes.chunks(1).collect(),
            Kind::Hba => vec![&prefixes[..]],
        };
        let mut tries = 0.0;
        for (index, prefixes) in sets.into_iter().enumerate() {
            interrupt::check()?;
            let what = [usize::from(sec.value()), addresses, trial, index];
            let request = Request {
                prefixes: prefixes.to_vec(),
                hba: kind == Kind::Hba,
                key: (kind == Kind::Cga).then(|| self.key.clone()),
                sec,
                start: None,
                seed: Some(self.options.draw(&kind.name(0), &what)),
                shard: Shard::WHOLE,
            };
            let search = request.resolve(None)?.with_threads(threads);
            let found = search.run(interrupt::flag(), |progress| {
                // However long this search takes: it counts as the average.
                let part = expected_tries(sec) * progress.probability;
                self.watch.done((self.over + part) / self.all);
            });
            let found = match found {
                Err(Error::Cancelled { .. }) => return Err(interrupt::Interrupted.into()),
                other => other?,
            };
            tries += found.offset as f64 + 1.0;
            self.over += expected_tries(sec);
            self.watch.done(self.over / self.all);
        }
        Ok(tries)
    }
}

impl AddrCost {
    /// What stands in for 32 random octets.
    fn draw(&self, purpose: &str, what: &[usize]) -> [u8; 32] {
        let mut digest = Sha256::new().chain_update(self.seed.to_be_bytes()).chain_update(purpose);
        for &number in what {
            digest.update((number as u64).to_be_bytes());
        }
        digest.finalize().0
    }
}

/// Searches for a modifier that so many addresses take.
fn searches(kind: Kind, addresses: usize) -> usize {
    match kind {
        Kind::Cga => addresses,
        Kind::Hba => 1,
    }
}

fn expected_tries(sec: Sec) -> f64 {
    2_f64.powi(16 * i32::from(sec.value()))
}

/// 2001:db8:N::/64
fn prefix(number: usize) -> [u8; 8] {
    let [.., high, low] = number.to_be_bytes();
    [0x20, 0x01, 0x0d, 0xb8, high, low, 0, 0]
}

const COLUMNS: [&str; 9] =
    ["part", "kind", "sec", "threads", "addresses", "trials", "mean_s", "stddev_s", "mean_tries"];
const PAIR: &str = "addresses";
const SIZES: &str = "sizes";
