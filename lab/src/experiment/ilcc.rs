//! The study of the ILCC (Kadi et al., 2021): what correspondents, real and made up, cost a host.

mod answers;
mod charts;
mod growth;
mod host;
mod kernel;
mod latency;
mod target;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use clap::builder::TypedValueParser as _;
use moorline_types::Ilv;
use serde::Serialize;
use serde_json::json;

pub use growth::Growth;

use self::kernel::Seen;
use self::latency::Latency;
use self::target::{Second, Tally};
use super::options::as_seconds;
use super::programs::{self, Runs};
use super::{Card, Experiment, Results, Summary, Watch, recovery};
use crate::hop::Hop;
use crate::lab::Lab;
use crate::load::{ECHO_PORT, Load};
use crate::named::named;
use crate::processors::{self, Awake, on_processor};
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};
use crate::workload::Generator;
use crate::{interrupt, preflight};

/// Latency, entries and losses of a host by its ILNPv6 correspondents, real and made up (as root).
///
/// The study of the correspondent cache (ILCC), figures 3 to 16, for its eleven tests, with and without an
/// admission policy, and for both data planes. With the defaults it takes an hour and a half; `--ranks 0,5,10
/// --seconds 10` five minutes.
#[derive(Clone, Debug, Args, Serialize)]
pub struct IlccStudy {
    /// What handles the target's packets: user (in user space), ebpf (the kernel's programs, and a daemon).
    #[arg(long = "plane", value_name = "LIST", value_delimiter = ',', default_value = "user,ebpf")]
    pub planes: Vec<PlaneName>,
    /// Ranks of the study's tests: how much of the traffic is made up.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,1,2,3,4,5,6,7,8,9,10", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub ranks: Vec<u8>,
    /// Seconds of a test.
    #[arg(long = "seconds", value_name = "N", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600).map(Duration::from_secs))]
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    pub length: Duration,
    /// Times that each is done; the study has 10.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repetitions: usize,
    /// Who decides on entries: open, admit.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "open,admit")]
    #[serde(skip)]
    pub policies: Vec<PolicyName>,
    /// transport: with an echo service; network: idle.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "transport,network")]
    #[serde(skip)]
    pub layers: Vec<Layer>,
    /// Room for entries in the cache.
    #[arg(long, value_name = "N", default_value_t = moorline_ilnp::consts::MAX_SESSIONS, value_parser = room)]
    pub room: usize,
    /// Entries up to which the cost of growth is measured; a million takes a gigabyte.
    // By powers of ten.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[serde(skip)]
    pub grow: usize,
}

fn room(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|room| *room > 0).ok_or("a number of entries, at least 1")
}

named! {
    /// Who decides on entries in the cache.
    pub enum PolicyName {
        /// Each new correspondent has one: the study's kernel without policy.
        Open = "open",
        /// Both ends agree on it: its kernel with policy.
        Admit = "admit",
    }
}

named! {
    /// What handles the target's packets.
    pub enum PlaneName {
        /// The data plane in user space, in a program that gets all frames.
        User = "user",
        /// The programs of the kernel, and a daemon.
        Ebpf = "ebpf",
    }
}

named! {
    /// What the target does, which the study names after the layer that it looks at.
    pub enum Layer {
        /// An echo service, sent requests by a fixed source and datagrams by made-up ones.
        Transport = "transport",
        /// Nothing, and made-up sources send to it.
        Network = "network",
    }
}

impl PolicyName {
    /// Lines of a daemon's configuration.
    pub(super) fn settings(self) -> String {
        format!("addresses = \"off\"\nilnp = \"on\"\nilnp-policy = \"{self}\"\n")
    }
}

impl Layer {
    const fn port(self) -> Option<u16> {
        match self {
            Self::Transport => Some(ECHO_PORT),
            Self::Network => None,
        }
    }
}

/// What is tested, besides the plane.
#[derive(Clone, Copy, Debug, Serialize)]
struct Test {
    layer: Layer,
    rank: u8,
    policy: PolicyName,
}

/// A test of the study.
#[derive(Clone, Debug, Serialize)]
struct Point {
    plane: PlaneName,
    #[serde(flatten)]
    test: Test,
    /// In the cache at the end.
    entries: usize,
    /// Of the network layer, a packet that comes.
    #[serde(flatten)]
    latency: Latency,
    /// Of the way down, an answer.
    send_latency_us: Option<f64>,
    served_ratio: Option<f64>,
    dropped_ratio: f64,
    echo_per_s: f64,
    made_up_per_s: f64,
    /// Of a processor: the target as a whole, its protocol stack, and its share of the former.
    load_percent: Option<f64>,
    stack_load_percent: f64,
    stack_share_percent: Option<f64>,
    by_second: Vec<Second>,
}

/// What was sent in a test, and what came back.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    echo: u64,
    made_up: u64,
    answers: u64,
}

impl Traffic {
    fn add(&mut self, other: Self) {
        self.echo += other.echo;
        self.made_up += other.made_up;
        self.answers += other.answers;
    }

    /// What ought to be answered.
    fn asked(&self, layer: Layer) -> u64 {
        self.echo + if layer == Layer::Transport { self.made_up } else { 0 }
    }

    fn served_ratio(&self, layer: Layer) -> Option<f64> {
        let asked = self.asked(layer);
        (asked > 0).then(|| self.answers as f64 / asked as f64)
    }
}

impl Experiment for IlccStudy {
    fn card(&self) -> Card {
        Card {
            name: "ilcc",
            about: "latency, entries and losses of a host by its correspondents, real and made up, and by who decides on entries",
            needs: self.planes.contains(&PlaneName::Ebpf).then_some(&["nft", "bpftool"]),
            columns: &[
                "plane",
                "layer",
                "rank",
                "policy",
                "entries",
                "latency_us",
                "latency_median_us",
                "latency_p99_us",
                "served_ratio",
                "dropped_ratio",
            ],
        }
    }

    fn obstacles(&self) -> Vec<String> {
        self.card().needs.map_or_else(|| preflight::check(&[]), recovery::obstacles)
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(!self.ranks.is_empty() && !self.length.is_zero(), "nothing to measure");
        let _counting = programs::Counting::start();
        let awake = Awake::keep();
        let mut points = Vec::new();
        let tests = self.tests();
        for &(plane, test) in &tests {
            let Test { layer, rank, policy } = test;
            watch.stage(&format!("{plane} plane, {layer} layer, test {rank}, {policy}"));
            points.push(match plane {
                PlaneName::User => self.test(test)?,
                PlaneName::Ebpf => self.kernel_test(test)?,
            });
            watch.done(points.len() as f64 / (tests.len() + 1) as f64);
        }
        watch.stage("growth of the cache");
        let growth = growth::measure(self.grow)?;
        watch.done(1.0);
        self.results(&points, &growth, awake.is_some())
    }
}

impl IlccStudy {
    fn tests(&self) -> Vec<(PlaneName, Test)> {
        let mut tests = Vec::new();
        for &plane in &self.planes {
            for &layer in &self.layers {
                for &rank in &self.ranks {
                    let of = |&policy: &PolicyName| (plane, Test { layer, rank, policy });
                    tests.extend(self.policies.iter().map(of));
                }
            }
        }
        tests
    }

    fn kernel_test(&self, test: Test) -> anyhow::Result<Point> {
        let moorlined = recovery::daemon()?;
        let mut seen = Seen::default();
        for repetition in 0..self.repetitions.max(1) {
            let load = self.load(test, 1 + repetition as u64);
            seen.add(kernel::once(moorlined.clone(), test, self.room, &load)?);
        }
        Ok(kernel_point(test, &seen))
    }

    fn load(&self, test: Test, seed: u64) -> Load {
        let load = Load { seed, ..Load::of_rank(test.rank, self.length) };
        match test.layer {
            Layer::Transport => load,
            Layer::Network => Load { echo: 0, ..load },
        }
    }

    fn test(&self, test: Test) -> anyhow::Result<Point> {
        let (mut all, mut traffic) = (Tally::default(), Traffic::default());
        for repetition in 0..self.repetitions.max(1) {
            let (tally, one) = self.once(test, 1 + repetition as u64)?;
            traffic.add(one);
            all.add(tally);
        }
        Ok(point(test, &all, traffic))
    }

    fn once(&self, test: Test, seed: u64) -> anyhow::Result<(Tally, Traffic)> {
        let lab = Lab::build(shared_link(1))?;
        let [source, victim] = HOSTS.map(|host| lab.namespace(host));
        let (source, victim) = (source?, victim?);
        let out = Hop::across((source, SHARED_LINK), (victim, SHARED_LINK))?;
        let back = Hop::across((victim, SHARED_LINK), (source, SHARED_LINK))?;
        for host in [source, victim] {
            // What is on the cable is ours alone.
            host.sysctl(&format!("ipv6/conf/{SHARED_LINK}/disable_ipv6"), "1")?;
        }
        let [from, to] = HOSTS.map(|host| shared_address(host, 0));
        let [own, others] = processors::of_two_hosts()?;
        let start = || target::start(victim, back, Ilv::of(to), test, self.room);
        let at_work = on_processor(own, start)?;
        let answered = answers::count(source, SHARED_LINK)?;
        let load = self.load(test, seed);
        let streams = load.streams(Ilv::of(from), to, &out);
        let begin = Instant::now();
        let generator =
            on_processor(others, || Generator::start(source, SHARED_LINK, streams, self.length))?;
        while begin.elapsed() < self.length || !generator.is_finished() {
            interrupt::check()?;
            thread::sleep(interrupt::TICK);
        }
        let mut sent = generator.finish()?.into_iter();
        let echo = if load.echo > 0 { sent.next().unwrap_or(0) } else { 0 };
        let tally = at_work.finish()?;
        Ok((tally, Traffic { echo, made_up: sent.sum(), answers: answered.finish()? }))
    }

    fn results(&self, points: &[Point], growth: &[Growth], awake: bool) -> anyhow::Result<Results> {
        let parameters = json!({"packet_octets": 76, "awake": awake});
        let results = Results::new(self, points)?.with_parameters(parameters);
        let results = results.with_summary(json!({
            "growth": growth,
            "penalty_of_5000_entries": growth::penalty(growth, STUDIED_ENTRIES),
            "paper_penalty_with_walk": WITH_WALK,
            "paper_penalty_without_walk": WITHOUT_WALK,
        }));
        Ok(results.with_charts(charts::figures(points)))
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.received.extend(other.received);
        self.sent.extend(other.sent);
        self.service += other.service;
        self.cpu += other.cpu;
        self.time += other.time;
        self.packets += other.packets;
        self.dropped += other.dropped;
        self.served += other.served;
        self.entries = self.entries.max(other.entries);
        if self.seconds.is_empty() {
            // One repetition shows how it grew.
            self.seconds = other.seconds;
        }
    }
}

fn point(test: Test, tally: &Tally, traffic: Traffic) -> Point {
    let micros =
        |nanos: &[u32]| -> Vec<f64> { nanos.iter().map(|nanos| f64::from(*nanos) / 1e3).collect() };
    let latency = Latency::of(micros(&tally.received));
    let seconds = tally.time.as_secs_f64().max(f64::MIN_POSITIVE);
    let sum = |nanos: &[u32]| nanos.iter().map(|nanos| f64::from(*nanos)).sum::<f64>() / 1e9;
    let stack = sum(&tally.received) + sum(&tally.sent);
    let cpu = tally.cpu.as_secs_f64();
    Point {
        plane: PlaneName::User,
        test,
        entries: tally.entries,
        latency,
        send_latency_us: Summary::of(micros(&tally.sent)).map(|sent| sent.mean),
        served_ratio: traffic.served_ratio(test.layer),
        dropped_ratio: tally.dropped as f64 / tally.packets.max(1) as f64,
        echo_per_s: traffic.echo as f64 / seconds,
        made_up_per_s: traffic.made_up as f64 / seconds,
        load_percent: Some(100.0 * cpu / seconds),
        stack_load_percent: 100.0 * stack / seconds,
        stack_share_percent: (cpu > 0.0).then(|| (100.0 * stack / cpu).min(100.0)),
        by_second: tally.seconds.clone(),
    }
}

fn kernel_point(test: Test, seen: &Seen) -> Point {
    let &Seen { ref received, sent, time, entries, traffic } = seen;
    let came = traffic.echo + traffic.made_up;
    // Of more than one run each has the mean.
    let each = |runs: &Runs| {
        let mean = runs.mean_since(Runs::default());
        (0..runs.count).map(move |_| mean)
    };
    let nanos = received.iter().flat_map(each).flatten();
    // Where nothing came there was something of the host itself.
    let latency = Latency::of(nanos.filter(|_| came > 0).map(|nanos| nanos / 1e3).collect());
    let received = received.iter().copied().fold(Runs::default(), Runs::plus);
    let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
    let send_latency = sent.mean_since(Runs::default()).map(|nanos| nanos / 1e3);
    let dropped = came.saturating_sub(received.count);
    Point {
        plane: PlaneName::Ebpf,
        test,
        entries,
        latency,
        send_latency_us: send_latency.filter(|_| test.layer == Layer::Transport),
        served_ratio: traffic.served_ratio(test.layer),
        dropped_ratio: dropped as f64 / came.max(1) as f64,
        echo_per_s: traffic.echo as f64 / seconds,
        made_up_per_s: traffic.made_up as f64 / seconds,
        load_percent: None,
        stack_load_percent: (received.nanos + sent.nanos) as f64 / 1e7 / seconds,
        stack_share_percent: None,
        by_second: Vec::new(),
    }
}

/// Of which the St Andrews kernel was measured with its debug function and without.
const STUDIED_ENTRIES: usize = 5000;
/// By how much these entries slow its network layer down when `print_ilcc` walks through them for each packet.
const WITH_WALK: [f64; 2] = [7.0, 11.0];
/// The same when that function does nothing.
const WITHOUT_WALK: [f64; 2] = [1.6, 1.9];
