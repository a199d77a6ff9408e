//! The study of the ILCC (Kadi et al., 2021): the cost of correspondents, real and made up, for a host.

mod answers;
mod charts;
mod growth;
mod host;
mod kernel;
mod seen;
mod target;

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use clap::builder::TypedValueParser as _;
use serde::Serialize;
use serde_json::json;

pub use growth::Growth;

use self::seen::{Point, Seen};
use super::options::as_seconds;
use super::{Card, Experiment, Needs, Results, Watch, programs};
use crate::load::{ECHO_PORT, Load};
use crate::named::named;
use crate::processors::Awake;

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
    // Measured at powers of ten.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[serde(skip)]
    pub grow: usize,
}

fn room(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|room| *room > 0).ok_or("a number of entries, at least 1")
}

named! {
    /// Policy for new entries in the cache.
    pub enum PolicyName {
        /// Each new correspondent gets an entry, as in the study's kernel without policy.
        Open = "open",
        /// Both ends agree on an entry, as in the study's kernel with policy.
        Admit = "admit",
    }
}

named! {
    /// Data plane that handles the target's packets.
    pub enum PlaneName {
        /// The user-space data plane, in a program that receives all frames.
        User = "user",
        /// The eBPF programs in the kernel, and a daemon.
        Ebpf = "ebpf",
    }
}

named! {
    /// Service of the target. The study names the service after the layer that the study measures.
    pub enum Layer {
        /// An echo service. A fixed source sends requests, and made-up sources send datagrams.
        Transport = "transport",
        /// No service. Made-up sources send datagrams.
        Network = "network",
    }
}

impl PolicyName {
    /// Lines for a daemon's configuration file.
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

/// A test of the study.
#[derive(Clone, Copy, Debug, Serialize)]
struct Test {
    plane: PlaneName,
    layer: Layer,
    rank: u8,
    policy: PolicyName,
}

impl Experiment for IlccStudy {
    fn card(&self) -> Card {
        Card {
            name: "ilcc",
            about: "latency, entries and losses of a host by its correspondents, real and made up, and by who decides on entries",
            needs: match self.planes.contains(&PlaneName::Ebpf) {
                true => Needs::Daemons(&["nft", "bpftool"]),
                false => Needs::Network,
            },
            columns: "plane layer rank policy entries latency_us latency_median_us \
                      latency_p99_us served_ratio dropped_ratio",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(!self.ranks.is_empty() && !self.length.is_zero(), "nothing to measure");
        let _counting = programs::Counting::start();
        let awake = Awake::keep();
        let mut points = Vec::new();
        let tests = self.tests();
        for &test in &tests {
            let Test { plane, layer, rank, policy } = test;
            watch.stage(&format!("{plane} plane, {layer} layer, test {rank}, {policy}"));
            points.push(Point::of(test, &self.test(test)?));
            watch.done(points.len() as f64 / (tests.len() + 1) as f64);
        }
        watch.stage("growth of the cache");
        let growth = growth::measure(self.grow)?;
        watch.done(1.0);
        self.results(&points, &growth, awake.is_some())
    }
}

impl IlccStudy {
    fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for &plane in &self.planes {
            for &layer in &self.layers {
                for &rank in &self.ranks {
                    let of = |&policy: &PolicyName| Test { plane, layer, rank, policy };
                    tests.extend(self.policies.iter().map(of));
                }
            }
        }
        tests
    }

    /// Runs all repetitions of a test.
    fn test(&self, test: Test) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        for repetition in 0..self.repetitions.max(1) {
            let load = self.load(test, 1 + repetition as u64);
            seen.add(match test.plane {
                PlaneName::User => target::once(test, self.room, &load)?,
                PlaneName::Ebpf => kernel::once(test, self.room, &load)?,
            });
        }
        Ok(seen)
    }

    fn load(&self, test: Test, seed: u64) -> Load {
        let load = Load { seed, ..Load::of_rank(test.rank, self.length) };
        match test.layer {
            Layer::Transport => load,
            Layer::Network => Load { echo: Some(0), ..load },
        }
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

/// Number of entries at which the study measured the St Andrews kernel with and without its debug function.
const STUDIED_ENTRIES: usize = 5000;
/// Slowdown of that kernel's network layer with these entries, if `print_ilcc` walks through them for each packet:
/// least and most.
const WITH_WALK: [f64; 2] = [7.0, 11.0];
/// Slowdown if that function does nothing: least and most.
const WITHOUT_WALK: [f64; 2] = [1.6, 1.9];
