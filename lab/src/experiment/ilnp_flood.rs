//! What a flood of made-up correspondents does to an ILNP session that is there.
//!
//! Two networks stand side by side, without Moorline and with a session. Times in them are paired, one right after the
//! other and each time in the other order, each without and with a flood: in the one of classic IPv6 datagrams, in the
//! other of the same ones with nonces. Sender, receiver and flood share the processors of the machine, so a flood costs
//! round trips whatever its packets are; the session's less those of the other network are what is Moorline's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use moorline_types::Ilv;
use serde::Serialize;
use serde_json::json;

use super::programs::{self, Programs};
use super::recovery::{self, Scene, obstacles, pause};
use super::{Bars, Chart, Data, Experiment, PolicyName, Results, Scale, Summary, Watch};
use crate::daemon::DaemonOptions;
use crate::hop::Hop;
use crate::interrupt;
use crate::load::{Load, Rate};
use crate::topology::{ISPS, Impairment, host_address};
use crate::workload::{Generator, LONGEST_FLOOD, Ping, Pings};

/// The experiment.
#[derive(Clone, Debug)]
pub struct IlnpFlood {
    /// The daemon; else the one next to this program or on PATH.
    pub moorlined: Option<PathBuf>,
    /// Who decides on entries of the victim.
    pub policy: PolicyName,
    /// Pairs of times in both networks.
    pub pairs: usize,
    /// Length of each.
    pub length: Duration,
    /// Datagrams a second of the session, each of them answered.
    pub pings: u32,
    /// Datagrams a second of the flood; as many as a thread can send without it.
    pub flood: Option<u64>,
}

impl Default for IlnpFlood {
    fn default() -> Self {
        Self {
            moorlined: None,
            policy: PolicyName::Admit,
            pairs: 5,
            length: Duration::from_secs(4),
            pings: 500,
            flood: None,
        }
    }
}

/// The parameters, for JSON.
#[derive(Debug, Serialize)]
struct Parameters {
    policy: PolicyName,
    pairs: usize,
    length_s: f64,
    pings_per_s: u32,
    flood_per_s: Option<u64>,
}

/// A time without and a time with the flood.
#[derive(Debug, Serialize)]
struct Point {
    /// Plain IPv6, or an ILNP session.
    protocol: &'static str,
    quiet_median_us: Option<f64>,
    quiet_p99_us: Option<f64>,
    flooded_median_us: Option<f64>,
    flooded_p99_us: Option<f64>,
    sent: usize,
    lost: usize,
    flood_per_s: f64,
    /// Of the programs for what comes in, a packet of the flood or the session; where the kernel tells.
    program_ns: Option<f64>,
    /// In the victim's cache at the end.
    entries: Option<usize>,
}

impl Experiment for IlnpFlood {
    fn name(&self) -> &'static str {
        "ilnp-flood"
    }

    fn about(&self) -> &'static str {
        "round trips and losses of an ILNP session while its host is flooded by made-up correspondents"
    }

    fn obstacles(&self) -> Vec<String> {
        obstacles(self.moorlined.as_ref(), &["nft"])
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(self.pairs > 0 && !self.length.is_zero() && self.pings > 0, "nothing to measure");
        ensure!(self.length <= LONGEST_FLOOD / 2, "a flood lasts {:?} at most", LONGEST_FLOOD / 2);
        let moorlined = recovery::daemon(self.moorlined.as_deref())?;
        let options = DaemonOptions {
            settings: format!(
                "addresses = \"off\"\nilnp = \"on\"\nilnp-policy = \"{}\"\n",
                self.policy.name()
            ),
            ..DaemonOptions::new(moorlined, SEND_TIMEOUT)
        };
        let _counting = programs::Counting::start();
        watch.stage("two networks of two hosts");
        let plain = Place::new(PLAIN, Scene::plain(Impairment::default())?, self.pings)?;
        let scene = Scene::as_it_is(Impairment::default(), &options)?;
        let session = Place::new(SESSION, scene, self.pings)?;
        await_session(&session.scene)?;
        watch.stage("without and with the flood");
        let mut points = Vec::new();
        for number in 0..self.pairs {
            let mut places = [&plain, &session];
            if !number.is_multiple_of(2) {
                places.reverse();
            }
            let mut pair = Vec::new();
            for place in places {
                pair.push(self.times(place)?);
                watch.done((points.len() + pair.len()) as f64 / (2 * self.pairs) as f64);
            }
            pair.sort_by_key(|point| point.protocol == SESSION);
            points.append(&mut pair);
        }
        for place in [plain, session] {
            place.pings.finish()?;
        }
        self.results(&points)
    }
}

/// A network, and datagrams to and fro in it.
struct Place {
    protocol: &'static str,
    pings: Pings,
    scene: Scene,
}

impl Place {
    fn new(protocol: &'static str, scene: Scene, pings: u32) -> anyhow::Result<Self> {
        Ok(Self { protocol, pings: Pings::start(&scene.ends, pings)?, scene })
    }
}

impl IlnpFlood {
    /// Without and with the flood.
    fn times(&self, place: &Place) -> anyhow::Result<Point> {
        let Place { protocol, pings, scene } = place;
        let quiet = self.span(pings)?;
        // By the other ISP: what is measured is not the queue of a link.
        let router = scene.lab.namespace(ISPS[1])?;
        let victim = host_address("a", 2);
        let (hop, source) = Hop::towards(router, victim)?;
        let made_up = self.flood.map_or(Rate::Line { threads: 1 }, Rate::PerSecond);
        let load = Load { echo: 0, made_up, ..Load::of_rank(0, LONGEST_FLOOD) };
        let streams = match *protocol {
            PLAIN => load.as_classic(Ilv::of(source), victim, &hop),
            _ => load.streams(Ilv::of(source), victim, &hop),
        };
        let programs = scene.daemons.first().and_then(Programs::ingress);
        let runs = || programs.as_ref().and_then(Programs::runs);
        let (begin, before) = (Instant::now(), runs());
        let generator = Generator::start(router, &hop.interface, streams, LONGEST_FLOOD)?;
        let flooded = self.span(pings)?;
        let seconds = begin.elapsed().as_secs_f64();
        let flood_per_s = generator.sent() as f64 / seconds;
        generator.finish()?;
        let program_ns = before.zip(runs()).and_then(|(before, after)| after.mean_since(before));
        // Late ones have their time, too.
        pause(SETTLE)?;
        let all = pings.all();
        let within = |(from, to): (Duration, Duration)| -> Vec<Ping> {
            all.iter().filter(|ping| (from..to).contains(&ping.sent)).copied().collect()
        };
        let (quiet, flooded) = (within(quiet), within(flooded));
        let both: Vec<_> = quiet.iter().chain(&flooded).collect();
        let entries = scene.daemons.first().map(|daemon| daemon.ilcc()).transpose()?;
        Ok(Point {
            protocol,
            quiet_median_us: part_of(&quiet, 0.5),
            quiet_p99_us: part_of(&quiet, 0.99),
            flooded_median_us: part_of(&flooded, 0.5),
            flooded_p99_us: part_of(&flooded, 0.99),
            sent: both.len(),
            lost: both.iter().filter(|ping| ping.round_trip.is_none()).count(),
            flood_per_s,
            program_ns,
            entries: entries.map(|ilcc| ilcc.correspondents.len()),
        })
    }

    /// From when to when, after a moment to settle.
    fn span(&self, pings: &Pings) -> anyhow::Result<(Duration, Duration)> {
        pause(SETTLE)?;
        let from = pings.now();
        pause(self.length)?;
        Ok((from, pings.now()))
    }

    fn results(&self, points: &[Point]) -> anyhow::Result<Results> {
        let parameters = Parameters {
            policy: self.policy,
            pairs: self.pairs,
            length_s: self.length.as_secs_f64(),
            pings_per_s: self.pings,
            flood_per_s: self.flood,
        };
        let median = |protocol: &str, of: &dyn Fn(&Point) -> Option<f64>| {
            let values: Vec<_> =
                points.iter().filter(|point| point.protocol == protocol).filter_map(of).collect();
            Summary::of(&values).map(|summary| summary.median)
        };
        let added = |of: fn(&Point) -> Option<f64>| {
            let pairs = points.chunks_exact(2);
            let added = pairs.filter_map(|pair| Some(of(&pair[1])? - of(&pair[0])?));
            Summary::of(&added.collect::<Vec<_>>()).map(|summary| summary.median)
        };
        let lost: usize =
            points.iter().filter(|point| point.protocol == SESSION).map(|point| point.lost).sum();
        let mut results = Results::new(self, &parameters, points)?.with_columns(&COLUMNS);
        for (name, value) in [
            ("added_p99_us", json!(added(|point| point.flooded_p99_us))),
            ("added_median_us", json!(added(|point| point.flooded_median_us))),
            ("added_p99_quiet_us", json!(added(|point| point.quiet_p99_us))),
            ("added_median_quiet_us", json!(added(|point| point.quiet_median_us))),
            ("lost", json!(lost)),
            ("program_ns", json!(median(SESSION, &|point| point.program_ns))),
            ("flood_per_s", json!(median(SESSION, &|point| Some(point.flood_per_s)))),
        ] {
            results.summary.insert(name.into(), value);
        }
        let bars = |name: &str, protocol: &str, of: fn(&Point) -> Option<f64>| Bars {
            name: name.into(),
            values: points.iter().filter(|point| point.protocol == protocol).map(of).collect(),
        };
        let chart = Chart {
            title: "Round trips (99th percentile) under a flood of made-up correspondents".into(),
            x: "pairs of times".into(),
            y: "us".into(),
            scale: Scale::Linear,
            data: Data::Bars {
                groups: (1..=self.pairs).map(|pair| pair.to_string()).collect(),
                series: vec![
                    bars("IPv6, quiet", PLAIN, |point| point.quiet_p99_us),
                    bars("IPv6, flooded", PLAIN, |point| point.flooded_p99_us),
                    bars("ILNP, quiet", SESSION, |point| point.quiet_p99_us),
                    bars("ILNP, flooded", SESSION, |point| point.flooded_p99_us),
                ],
            },
        };
        Ok(results.with_charts(vec![chart]))
    }
}

fn await_session(scene: &Scene) -> anyhow::Result<()> {
    for daemon in &scene.daemons {
        interrupt::wait_for("an ILNP session", SESSION_LIMIT, || {
            let ilcc = daemon.ilcc()?;
            ensure!(ilcc.on, "the daemon has no ILNP");
            let is_there = ilcc
                .correspondents
                .iter()
                .any(|one| one.state == moorline_api::SessionState::Established);
            Ok(is_there.then_some(()))
        })
        .with_context(|| scene.logs())?;
    }
    Ok(())
}

/// The round trip that this part of them is below, in microseconds. Those lost took for ever.
fn part_of(pings: &[Ping], part: f64) -> Option<f64> {
    let mut times: Vec<_> = pings
        .iter()
        .map(|ping| ping.round_trip.map_or(f64::INFINITY, |time| time.as_secs_f64() * 1e6))
        .collect();
    times.sort_by(f64::total_cmp);
    let place = (0..times.len()).rfind(|&at| at as f64 <= part * (times.len() - 1) as f64)?;
    times.get(place).copied().filter(|time| time.is_finite())
}

const PLAIN: &str = "ipv6";
const SESSION: &str = "ilnp";
const COLUMNS: [&str; 8] = [
    "protocol",
    "quiet_median_us",
    "quiet_p99_us",
    "flooded_median_us",
    "flooded_p99_us",
    "sent",
    "lost",
    "flood_per_s",
];
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const SESSION_LIMIT: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_millis(300);
