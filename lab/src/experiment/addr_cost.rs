//! Cost of making addresses: figure 6 of the LinShim6 paper, and the remark below it that the cost of an HBA set hardly
//! grows with the set while the cost of CGAs is linear.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;
use moorline_addr::{Error, Request, Shard, parse_sec};
use moorline_cga::{Engine, MAX_PREFIXES, PublicKey, RsaKey, Sec, Signer as _};
use serde::{Serialize, Serializer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::options::{List, sizes};
use super::statistics::Seconds;
use super::{Card, Chart, Experiment, Needs, Results, Watch, exact};
use crate::interrupt;
use crate::named::named;

/// Time to make two addresses, CGA and HBA, and how it grows with their number.
///
/// Figure 6 of the LinShim6 paper. With the default parameters it takes about a quarter of an hour
/// on two cores with AVX-512, nearly all of it for Sec 2; `--secs 1` takes half a minute.
// Equal parameters make equal addresses with equal numbers of tries on every machine. Only the times differ.
#[derive(Clone, Debug, Args, Serialize)]
pub struct AddrCost {
    /// Times that two addresses are made with Sec 0 and 1.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub trials: usize,
    /// The same with Sec 2.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub sec_2_trials: usize,
    /// Security parameters.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2", value_parser = parse_sec)]
    #[serde(serialize_with = "as_numbers")]
    pub secs: Vec<Sec>,
    /// Numbers of threads; `all` for as many as there are processors.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,all", value_parser = threads)]
    pub threads: Vec<NonZeroUsize>,
    /// Numbers of addresses whose cost is compared, with Sec 1 on one thread; `none` for none.
    #[arg(long, value_name = "LIST", default_value = "2-10", value_parser = sizes)]
    pub sizes: List<usize>,
    /// Times for each of these numbers.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub size_trials: usize,
    /// Bits of the RSA key of the CGAs, 1024 to 4096.
    #[arg(long, value_name = "BITS", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1024..=4096))]
    pub key_bits: u32,
    /// What the addresses follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// A task: addresses to make and time. Each task is a bar of the figure, or a point of the lines below it.
#[derive(Clone, Copy, Debug, Serialize)]
struct Task {
    part: Part,
    kind: Kind,
    #[serde(serialize_with = "as_number")]
    sec: Sec,
    threads: NonZeroUsize,
    addresses: usize,
    trials: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    #[serde(flatten)]
    task: Task,
    #[serde(flatten)]
    times: Seconds,
    /// Mean number of modifiers tried for the addresses of a trial. The mean shows the share of luck in the times.
    mean_tries: f64,
}

named! {
    enum Part {
        /// Bars of the figure.
        Pairs = "addresses",
        /// Lines below the figure.
        Sizes = "sizes",
    }
}

named! {
    enum Kind {
        Cga = "cga",
        Hba = "hba",
    }
}

impl Experiment for AddrCost {
    fn card(&self) -> Card {
        Card {
            name: "addr-cost",
            about: "time to make two addresses, CGA and HBA, and how it grows with their number",
            needs: Needs::Nothing,
            columns: "part kind sec threads addresses trials mean_s stddev_s mean_tries",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        self.check()?;
        let mut options = self.clone();
        options.threads.dedup();
        let tasks = options.tasks();
        let mut seed = options.draw("key", &[]);
        let key = RsaKey::generate(options.key_bits, &mut seed).context("key of the CGAs")?;
        let all = tasks.iter().map(Task::expected_tries).sum();
        let key = key.public_key().clone();
        let mut bench = Bench { options: &options, key, watch, all, over: 0.0 };
        let tasks = tasks.into_iter().filter(|task| task.trials > 0);
        let points: Vec<_> =
            tasks.map(|task| bench.measure(task)).collect::<anyhow::Result<_>>()?;
        let charts = [options.pairs(&points), sizes_chart(&points)];
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let machine = json!({"engine": Engine::fastest().name(), "cores": cores});
        let results = Results::new(&options, &points)?.with_parameters(machine);
        Ok(results.with_charts(charts))
    }
}

impl AddrCost {
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

    fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        for &sec in &self.secs {
            let trials = if sec < Sec::TWO { self.trials } else { self.sec_2_trials };
            for &kind in Kind::ALL {
                let task =
                    |&threads| Task { part: Part::Pairs, kind, sec, threads, addresses: 2, trials };
                tasks.extend(self.threads.iter().map(task));
            }
        }
        let (part, sec, threads, trials) =
            (Part::Sizes, Sec::ONE, NonZeroUsize::MIN, self.size_trials);
        for &addresses in &self.sizes {
            let task = |&kind| Task { part, kind, sec, threads, addresses, trials };
            tasks.extend(Kind::ALL.iter().map(task));
        }
        tasks
    }

    /// The chart of figure 6.
    fn pairs(&self, points: &[Point]) -> Chart {
        let pairs = points.iter().filter(|point| point.task.part == Part::Pairs);
        let bars = pairs.map(|Point { task: Task { kind, sec, threads, .. }, times, .. }| {
            let plural = if *threads == NonZeroUsize::MIN { "" } else { "s" };
            let group = format!("Sec {sec}, {threads} thread{plural}");
            (group, kind.legend(self.key_bits), times.mean_s)
        });
        Chart::bars("Mean time to make two addresses", ["", "seconds"], bars).in_decades()
    }

    /// 32 octets in place of random ones, derived from the seed, a purpose and numbers.
    fn draw(&self, purpose: &str, what: &[usize]) -> [u8; 32] {
        let mut digest = Sha256::new().chain_update(self.seed.to_be_bytes()).chain_update(purpose);
        for &number in what {
            digest.update((number as u64).to_be_bytes());
        }
        digest.finalize().0
    }
}

fn sizes_chart(points: &[Point]) -> Chart {
    let sizes = points.iter().filter(|point| point.task.part == Part::Sizes);
    let places = sizes.map(|Point { task, times, .. }| {
        let mean_ms = times.mean_s.map(|mean| 1e3 * mean);
        (task.kind.legend(0), task.addresses as f64, exact(mean_ms))
    });
    let title = "Mean time against the number of addresses, Sec 1, one thread";
    Chart::lines(title, ["addresses", "milliseconds"], places)
}

impl Kind {
    fn legend(self, key_bits: u32) -> String {
        match (self, key_bits) {
            (Self::Cga, 0) => "CGA, one after the other".into(),
            (Self::Cga, bits) => format!("CGA, RSA-{bits}"),
            (Self::Hba, _) => "HBA set without a key".into(),
        }
    }
}

impl Task {
    /// Expected number of tries of all trials.
    fn expected_tries(&self) -> f64 {
        let searches = if self.kind == Kind::Cga { self.addresses } else { 1 };
        expected_tries(self.sec) * (searches * self.trials) as f64
    }
}

/// Runs tasks and times them.
struct Bench<'a> {
    options: &'a AddrCost,
    key: PublicKey,
    watch: &'a mut dyn Watch,
    /// Expected tries of all trials, and of the finished ones.
    all: f64,
    over: f64,
}

impl Bench<'_> {
    /// Runs all trials of a task. The task has at least one.
    fn measure(&mut self, task: Task) -> anyhow::Result<Point> {
        let Task { kind, sec, threads, addresses, trials, .. } = task;
        let name = kind.legend(self.options.key_bits);
        self.watch.stage(&format!("{addresses} x {name}, Sec {sec}, threads: {threads}"));
        let (mut times, mut tries) = (Vec::new(), 0.0);
        for trial in 0..trials {
            let began = Instant::now();
            tries += self.make(task, trial)?;
            times.push(began.elapsed().as_secs_f64());
        }
        Ok(Point { task, times: Seconds::of(times), mean_tries: tries / trials as f64 })
    }

    /// Makes the addresses of one trial. Gives the number of tries up to and including the successful ones.
    fn make(&mut self, task: Task, trial: usize) -> anyhow::Result<f64> {
        let Task { kind, sec, threads, addresses, .. } = task;
        let prefixes: Vec<_> = (0..addresses).map(prefix).collect();
        let in_a_set = if kind == Kind::Cga { 1 } else { addresses };
        let mut tries = 0.0;
        for (index, prefixes) in prefixes.chunks(in_a_set).enumerate() {
            interrupt::check()?;
            let what = [usize::from(sec.value()), addresses, trial, index];
            let request = Request {
                prefixes: prefixes.to_vec(),
                hba: kind == Kind::Hba,
                key: (kind == Kind::Cga).then(|| self.key.clone()),
                sec,
                start: None,
                seed: Some(self.options.draw(&kind.legend(0), &what)),
                shard: Shard::WHOLE,
            };
            let mut search = request.resolve(None)?;
            search.threads = threads;
            let found = search.run(interrupt::flag(), |progress| {
                // The progress counts a search as an average one, however long it takes.
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

fn expected_tries(sec: Sec) -> f64 {
    2_f64.powi(16 * i32::from(sec.value()))
}

/// The prefix 2001:db8:N::/64.
fn prefix(number: usize) -> [u8; 8] {
    let [.., high, low] = number.to_be_bytes();
    [0x20, 0x01, 0x0d, 0xb8, high, low, 0, 0]
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match text {
        "all" => Ok(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        number => {
            number.parse().map_err(|_| format!("{number} is no number of threads: 1, 2, all"))
        }
    }
}

fn as_number<S: Serializer>(sec: &Sec, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u8(sec.value())
}

fn as_numbers<S: Serializer>(secs: &[Sec], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(secs.iter().map(|sec| sec.value()))
}
