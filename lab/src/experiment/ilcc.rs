//! The study of the ILCC (Kadi et al., 2021): what correspondents, real and made up, cost a host.

mod answers;
mod charts;
mod growth;
mod host;
mod kernel;
mod latency;
mod target;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use moorline_types::Ilv;
use serde::Serialize;
use serde_json::json;

pub use growth::Growth;

use self::answers::Answers;
use self::kernel::Seen;
use self::latency::Latency;
use self::target::{Second, Tally, Target};
use super::programs::{self, Runs};
use super::{Experiment, Results, Summary, Watch, recovery};
use crate::hop::Hop;
use crate::lab::Lab;
use crate::load::{ECHO_PORT, Load};
use crate::processors::{self, Awake, on_processor};
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};
use crate::workload::Generator;
use crate::{interrupt, preflight};

/// The experiment.
#[derive(Clone, Debug)]
pub struct IlccStudy {
    /// The daemon, for the kernel's data plane; else the one next to this program or on PATH.
    pub moorlined: Option<PathBuf>,
    /// What handles the target's packets.
    pub planes: Vec<PlaneName>,
    /// Ranks of the study's tests.
    pub ranks: Vec<u8>,
    /// Length of a test.
    pub length: Duration,
    /// Times that each is done.
    pub repetitions: usize,
    /// Who decides on entries.
    pub policies: Vec<PolicyName>,
    /// Whether there is a service.
    pub layers: Vec<Layer>,
    /// Room for entries in the cache.
    pub room: usize,
    /// Entries up to which the cost of growth is measured, by powers of ten.
    pub grow: usize,
}

impl Default for IlccStudy {
    fn default() -> Self {
        Self {
            moorlined: None,
            planes: vec![PlaneName::User, PlaneName::Ebpf],
            ranks: (0..=10).collect(),
            length: Duration::from_secs(60),
            repetitions: 1,
            policies: vec![PolicyName::Open, PolicyName::Admit],
            layers: vec![Layer::Transport, Layer::Network],
            room: moorline_ilnp::consts::MAX_SESSIONS,
            grow: 100_000,
        }
    }
}

/// Who decides on entries in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Each new correspondent has one: the study's kernel without policy.
    Open,
    /// Both ends agree on it: its kernel with policy.
    Admit,
}

impl PolicyName {
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Admit => "admit",
        }
    }
}

/// What handles the target's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneName {
    /// The data plane in user space, in a program that gets all frames.
    User,
    /// The programs of the kernel, and a daemon.
    Ebpf,
}

impl PlaneName {
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Ebpf => "ebpf",
        }
    }
}

/// What the target does, which the study names after the layer that it looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// An echo service, sent requests by a fixed source and datagrams by made-up ones.
    Transport,
    /// Nothing, and made-up sources send to it.
    Network,
}

impl Layer {
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Network => "network",
        }
    }

    const fn port(self) -> Option<u16> {
        match self {
            Self::Transport => Some(ECHO_PORT),
            Self::Network => None,
        }
    }
}

/// The parameters, for JSON.
#[derive(Debug, Serialize)]
struct Parameters<'a> {
    ranks: &'a [u8],
    seconds: f64,
    repetitions: usize,
    room: usize,
    packet_octets: u32,
    planes: &'a [PlaneName],
    /// Whether processors did not go to sleep between packets.
    awake: bool,
}

/// A test of the study.
#[derive(Clone, Debug, Serialize)]
struct Point {
    plane: PlaneName,
    layer: Layer,
    rank: u8,
    policy: PolicyName,
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
    fn name(&self) -> &'static str {
        "ilcc"
    }

    fn about(&self) -> &'static str {
        "latency, entries and losses of a host by its correspondents, real and made up, and by who decides on entries"
    }

    fn obstacles(&self) -> Vec<String> {
        if self.planes.contains(&PlaneName::Ebpf) {
            return recovery::obstacles(self.moorlined.as_ref(), &["nft", "bpftool"]);
        }
        preflight::check(&[])
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(!self.ranks.is_empty() && !self.length.is_zero(), "nothing to measure");
        let _counting = programs::Counting::start();
        let awake = Awake::keep();
        let mut points = Vec::new();
        let tests = self.tests();
        for &(plane, layer, rank, policy) in &tests {
            watch.stage(&format!(
                "{} plane, {} layer, test {rank}, {}",
                plane.name(),
                layer.name(),
                policy.name()
            ));
            points.push(match plane {
                PlaneName::User => self.test(layer, rank, policy)?,
                PlaneName::Ebpf => self.kernel_test(layer, rank, policy)?,
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
    fn tests(&self) -> Vec<(PlaneName, Layer, u8, PolicyName)> {
        let mut tests = Vec::new();
        for &plane in &self.planes {
            for &layer in &self.layers {
                for &rank in &self.ranks {
                    let of = |policy: &PolicyName| (plane, layer, rank, *policy);
                    tests.extend(self.policies.iter().map(of));
                }
            }
        }
        tests
    }

    fn kernel_test(&self, layer: Layer, rank: u8, policy: PolicyName) -> anyhow::Result<Point> {
        let moorlined = recovery::daemon(self.moorlined.as_deref())?;
        let mut seen = Seen::default();
        for repetition in 0..self.repetitions.max(1) {
            let load = self.load(layer, rank, 1 + repetition as u64);
            seen.add(kernel::once(moorlined.clone(), (layer, policy, self.room), &load)?);
        }
        Ok(kernel_point(layer, rank, policy, &seen))
    }

    fn load(&self, layer: Layer, rank: u8, seed: u64) -> Load {
        let load = Load { seed, ..Load::of_rank(rank, self.length) };
        match layer {
            Layer::Transport => load,
            Layer::Network => Load { echo: 0, ..load },
        }
    }

    fn test(&self, layer: Layer, rank: u8, policy: PolicyName) -> anyhow::Result<Point> {
        let (mut all, mut traffic) = (Tally::default(), Traffic::default());
        for repetition in 0..self.repetitions.max(1) {
            let seed = 1 + repetition as u64;
            let (tally, one) = self.once(layer, rank, policy, seed)?;
            traffic.add(one);
            all.add(tally);
        }
        Ok(point(layer, rank, policy, &all, traffic))
    }

    fn once(
        &self,
        layer: Layer,
        rank: u8,
        policy: PolicyName,
        seed: u64,
    ) -> anyhow::Result<(Tally, Traffic)> {
        let lab = Lab::build(shared_link(1))?;
        let [source, target] = HOSTS.map(|host| lab.namespace(host));
        let (source, target) = (source?, target?);
        let out = Hop::across((source, SHARED_LINK), (target, SHARED_LINK))?;
        let back = Hop::across((target, SHARED_LINK), (source, SHARED_LINK))?;
        for host in [source, target] {
            // What is on the cable is ours alone.
            host.sysctl(&format!("ipv6/conf/{SHARED_LINK}/disable_ipv6"), "1")?;
        }
        let [from, to] = HOSTS.map(|host| shared_address(host, 0));
        let [own, others] = processors::of_two_hosts()?;
        let start = || Target::start(target, back, Ilv::of(to), (policy, layer, self.room));
        let at_work = on_processor(own, start)?;
        let answers = Answers::start(source, SHARED_LINK)?;
        let load = self.load(layer, rank, seed);
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
        Ok((tally, Traffic { echo, made_up: sent.sum(), answers: answers.finish()? }))
    }

    fn results(&self, points: &[Point], growth: &[Growth], awake: bool) -> anyhow::Result<Results> {
        let parameters = Parameters {
            ranks: &self.ranks,
            seconds: self.length.as_secs_f64(),
            repetitions: self.repetitions,
            room: self.room,
            packet_octets: 76,
            planes: &self.planes,
            awake,
        };
        let mut results = Results::new(self, &parameters, points)?.with_columns(&COLUMNS);
        let penalty = growth::penalty(growth, STUDIED_ENTRIES);
        for (name, value) in [
            ("growth", json!(growth)),
            ("penalty_of_5000_entries", json!(penalty)),
            ("paper_penalty_with_walk", json!(WITH_WALK)),
            ("paper_penalty_without_walk", json!(WITHOUT_WALK)),
        ] {
            results.summary.insert(name.into(), value);
        }
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

fn point(layer: Layer, rank: u8, policy: PolicyName, tally: &Tally, traffic: Traffic) -> Point {
    let micros =
        |nanos: &[u32]| -> Vec<f64> { nanos.iter().map(|nanos| f64::from(*nanos) / 1e3).collect() };
    let latency = Latency::of(micros(&tally.received));
    let seconds = tally.time.as_secs_f64().max(f64::MIN_POSITIVE);
    let sum = |nanos: &[u32]| nanos.iter().map(|nanos| f64::from(*nanos)).sum::<f64>() / 1e9;
    let stack = sum(&tally.received) + sum(&tally.sent);
    let cpu = tally.cpu.as_secs_f64();
    Point {
        plane: PlaneName::User,
        layer,
        rank,
        policy,
        entries: tally.entries,
        latency,
        send_latency_us: Summary::of(&micros(&tally.sent)).map(|sent| sent.mean),
        served_ratio: traffic.served_ratio(layer),
        dropped_ratio: tally.dropped as f64 / tally.packets.max(1) as f64,
        echo_per_s: traffic.echo as f64 / seconds,
        made_up_per_s: traffic.made_up as f64 / seconds,
        load_percent: Some(100.0 * cpu / seconds),
        stack_load_percent: 100.0 * stack / seconds,
        stack_share_percent: (cpu > 0.0).then(|| (100.0 * stack / cpu).min(100.0)),
        by_second: tally.seconds.clone(),
    }
}

fn kernel_point(layer: Layer, rank: u8, policy: PolicyName, seen: &Seen) -> Point {
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
        layer,
        rank,
        policy,
        entries,
        latency,
        send_latency_us: send_latency.filter(|_| layer == Layer::Transport),
        served_ratio: traffic.served_ratio(layer),
        dropped_ratio: dropped as f64 / came.max(1) as f64,
        echo_per_s: traffic.echo as f64 / seconds,
        made_up_per_s: traffic.made_up as f64 / seconds,
        load_percent: None,
        stack_load_percent: (received.nanos + sent.nanos) as f64 / 1e7 / seconds,
        stack_share_percent: None,
        by_second: Vec::new(),
    }
}

const COLUMNS: [&str; 10] = [
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
];
/// Of which the St Andrews kernel was measured with its debug function and without.
const STUDIED_ENTRIES: usize = 5000;
/// By how much these entries slow its network layer down when `print_ilcc` walks through them for each packet.
const WITH_WALK: [f64; 2] = [7.0, 11.0];
/// The same when that function does nothing.
const WITHOUT_WALK: [f64; 2] = [1.6, 1.9];
