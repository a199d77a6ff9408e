//! Effect of a flood of made-up correspondents on an existing ILNP session.
//!
//! Two networks stand side by side, one without Moorline and one with a session. Measurements in the two networks are
//! paired: one directly follows the other, in alternating order. Each measures without and with a flood: classic IPv6
//! datagrams in the first network, the same datagrams with nonces in the second. Sender, receiver and flood share the
//! processors of the machine, so any flood lengthens round trips. The difference of the two networks is the cost of
//! Moorline.

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use moorline_types::Ilv;
use serde::Serialize;
use serde_json::json;

use super::options::{as_seconds, span};
use super::pool::in_turns;
use super::programs::{self, INGRESS, Programs};
use super::recovery::{Scene, pause};
use super::statistics::{Samples, median};
use super::{Card, Chart, Experiment, Needs, PolicyName, Results, Watch};
use crate::hop::Hop;
use crate::load::{Load, NONCE, Rate};
use crate::named::named;
use crate::topology::{ISPS, Impairment, host_address};
use crate::workload::{Generator, LONGEST_FLOOD, Ping, Pings};

/// Round trips and losses of an ILNP session under a flood of made-up correspondents (as root).
///
/// Between two real daemons in network namespaces, and beside it the same without them, in turns; a minute and a
/// half with the default parameters.
#[derive(Clone, Debug, Args, Serialize)]
pub struct IlnpFlood {
    /// Who decides on entries: admit, open.
    #[arg(long, value_name = "NAME", default_value = "admit")]
    pub policy: PolicyName,
    /// Pairs of times, in a network without Moorline and in one with a session.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub pairs: usize,
    /// How long each is without the flood, and as long with it.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = span)]
    #[serde(rename = "length_s", serialize_with = "as_seconds")]
    pub length: Duration,
    /// Datagrams a second of the session, each of them answered.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    #[serde(rename = "pings_per_s")]
    pub pings: u32,
    /// Datagrams a second of the flood; as many as a thread can send without it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(rename = "flood_per_s")]
    pub flood: Option<u64>,
}

named! {
    /// Protocol of the datagrams of a network.
    enum Protocol {
        /// IPv6 of a host without Moorline.
        Plain = "ipv6",
        Session = "ilnp",
    }
}

/// A measurement without the flood, and one with it.
#[derive(Debug, Serialize)]
struct Point {
    protocol: Protocol,
    quiet_median_us: Option<f64>,
    quiet_p99_us: Option<f64>,
    flooded_median_us: Option<f64>,
    flooded_p99_us: Option<f64>,
    sent: usize,
    lost: usize,
    flood_per_s: f64,
    /// Mean nanoseconds that the ingress programs take for a packet of flood or session. `None` if the kernel does not
    /// count.
    program_ns: Option<f64>,
    /// Entries in the victim's cache at the end.
    entries: Option<usize>,
}

impl Experiment for IlnpFlood {
    fn card(&self) -> Card {
        Card {
            name: "ilnp-flood",
            about: "round trips and losses of an ILNP session while its host is flooded by made-up correspondents",
            needs: Needs::Daemons(&["nft"]),
            columns: "protocol quiet_median_us quiet_p99_us flooded_median_us flooded_p99_us \
                      sent lost flood_per_s",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        ensure!(self.pairs > 0 && !self.length.is_zero() && self.pings > 0, "nothing to measure");
        ensure!(self.length <= LONGEST_FLOOD / 2, "a flood lasts {:?} at most", LONGEST_FLOOD / 2);
        let _counting = programs::Counting::start();
        watch.stage("two networks of two hosts");
        let place = |protocol, scene: Scene| {
            Pings::start(&scene.ends, self.pings).map(|pings| Place { protocol, pings, scene })
        };
        let plain = place(Protocol::Plain, Scene::plain(Impairment::default())?)?;
        let settings = self.policy.settings();
        let scene = Scene::as_it_is(Impairment::default(), SEND_TIMEOUT, &settings)?;
        let mut session = place(Protocol::Session, scene)?;
        session.scene.await_protection()?;
        watch.stage("without and with the flood");
        let (mut points, mut over) = (Vec::new(), 0);
        for number in 0..self.pairs {
            points.extend(in_turns(number, [&plain, &session], |place| {
                let point = self.times(place)?;
                over += 1;
                watch.done(f64::from(over) / (2 * self.pairs) as f64);
                Ok(point)
            })?);
        }
        for place in [plain, session] {
            place.pings.finish()?;
        }
        self.results(&points)
    }
}

/// A network and its pings.
struct Place {
    protocol: Protocol,
    pings: Pings,
    scene: Scene,
}

impl IlnpFlood {
    /// Measures without the flood, then with it.
    fn times(&self, place: &Place) -> anyhow::Result<Point> {
        let &Place { protocol, ref pings, ref scene } = place;
        let quiet = self.span(pings)?;
        // The flood comes by the other ISP, so that the queue of a link does not affect the result.
        let router = scene.lab.namespace(ISPS[1])?;
        let victim = host_address("a", 2);
        let (hop, source) = Hop::towards(router, victim)?;
        let rate = Some(self.flood.map_or(Rate::Line, Rate::PerSecond));
        let load = Load { echo: Some(0), rate, ..Load::of_rank(0, LONGEST_FLOOD) };
        let nonce = NONCE.filter(|_| protocol == Protocol::Session);
        let streams = load.streams(Ilv::of(source), victim, &hop, nonce);
        let programs = scene.daemons.first().and_then(|daemon| Programs::of(daemon, INGRESS));
        let runs = || programs.as_ref().and_then(Programs::runs);
        let (begin, before) = (Instant::now(), runs());
        let generator = Generator::start(router, &hop.interface, streams, LONGEST_FLOOD)?;
        let flooded = self.span(pings)?;
        let seconds = begin.elapsed().as_secs_f64();
        let flood_per_s = generator.sent() as f64 / seconds;
        generator.finish()?;
        let program_ns = before.zip(runs()).and_then(|(before, after)| after.since(before).mean());
        // Late answers may still arrive.
        pause(SETTLE)?;
        let all = pings.all();
        let [quiet, flooded] = [quiet, flooded].map(|(from, to)| -> Vec<_> {
            let within = all.iter().filter(|ping| (from..to).contains(&ping.sent));
            let micros = |ping: &Ping| ping.round_trip.map(|time| time.as_secs_f64() * 1e6);
            within.map(micros).collect()
        });
        let both = quiet.iter().chain(&flooded);
        let (sent, lost) = (both.clone().count(), both.filter(|trip| trip.is_none()).count());
        let [quiet, flooded] = [quiet, flooded].map(Samples::of);
        let entries = scene.daemons.first().map(|daemon| daemon.ilcc()).transpose()?;
        Ok(Point {
            protocol,
            quiet_median_us: quiet.at(0.5),
            quiet_p99_us: quiet.at(0.99),
            flooded_median_us: flooded.at(0.5),
            flooded_p99_us: flooded.at(0.99),
            sent,
            lost,
            flood_per_s,
            program_ns,
            entries: entries.map(|ilcc| ilcc.correspondents.len()),
        })
    }

    /// Waits a moment to settle and then for the length of a measurement. Gives start and end of the measurement.
    fn span(&self, pings: &Pings) -> anyhow::Result<(Duration, Duration)> {
        pause(SETTLE)?;
        let from = pings.now();
        pause(self.length)?;
        Ok((from, pings.now()))
    }

    fn results(&self, points: &[Point]) -> anyhow::Result<Results> {
        use Protocol::{Plain, Session};
        let of = |protocol: Protocol| points.iter().filter(move |one| one.protocol == protocol);
        let added = |of: fn(&Point) -> Option<f64>| {
            let pairs = points.chunks_exact(2);
            median(pairs.filter_map(|pair| Some(of(&pair[1])? - of(&pair[0])?)))
        };
        let summary = json!({
            "added_p99_us": added(|point| point.flooded_p99_us),
            "added_median_us": added(|point| point.flooded_median_us),
            "added_p99_quiet_us": added(|point| point.quiet_p99_us),
            "added_median_quiet_us": added(|point| point.quiet_median_us),
            "lost": of(Session).map(|point| point.lost).sum::<usize>(),
            "program_ns": median(of(Session).filter_map(|point| point.program_ns)),
            "flood_per_s": median(of(Session).map(|point| point.flood_per_s)),
        });
        let bars = points.chunks(2).zip(1..).flat_map(|(points, pair)| {
            points.iter().flat_map(move |point| {
                let protocol = if point.protocol == Plain { "IPv6" } else { "ILNP" };
                [
                    (pair, format!("{protocol}, quiet"), point.quiet_p99_us),
                    (pair, format!("{protocol}, flooded"), point.flooded_p99_us),
                ]
            })
        });
        let title = "Round trips (99th percentile) under a flood of made-up correspondents";
        let chart = Chart::bars(title, ["pairs of times", "us"], bars);
        Ok(Results::new(self, points)?.with_summary(summary).with_charts([chart]))
    }
}

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_millis(300);
