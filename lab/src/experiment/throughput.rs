//! Cost of Moorline while nothing fails: iperf3 over a path with Moorline and over the same path without.
//!
//! Five networks stand side by side. Three are without Moorline: with all offloads, without any, and without
//! segmentation offloads. Two are with Moorline: with traffic that has not moved, and with moved traffic. Runs are
//! paired: one directly follows the other, in alternating order, so that other load of the machine affects both. A
//! ratio belongs to one pair. If there are two processors, each host has its own. Then one thread sends and receives
//! through both networks, in alternating slices of some milliseconds. The slices show the cost of a packet on its whole
//! path, even while other programs use the machine.

mod ilnp;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use clap::builder::TypedValueParser as _;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::options::{as_seconds, count};
use super::pool::in_turns;
use super::recovery::{Flow, Scene, Silence, await_recovery};
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use crate::Failure;
use crate::demo::Protocol;
use crate::interrupt;
use crate::named::named;
use crate::netns::{ALL_OFFLOADS, SEGMENTATION};
use crate::processors::{self, Awake, on_processor};
use crate::topology::{HOSTS, ISPS, Impairment};
use crate::workload::{Direction, Speed, Traffic, WholeWay};

/// Throughput with Moorline against the same path without, before and after a move (as root).
///
/// Pairs of runs of iperf3, with the processor time of a packet. It wants a machine with nothing else to
/// do, and takes some minutes.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Throughput {
    /// shim6, or ilnp: traffic before and after a hand-off, both against plain IPv6.
    #[arg(long, value_name = "NAME", default_value = "shim6")]
    pub protocol: Protocol,
    /// Pairs of runs, with Moorline and without.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count)]
    pub pairs: usize,
    /// What is sent: tcp, udp.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp,udp")]
    #[serde(skip)]
    pub traffic: Vec<Traffic>,
    /// Length of a run in seconds.
    #[arg(long = "seconds", value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=3600).map(Duration::from_secs))]
    #[serde(rename = "duration_s", serialize_with = "as_seconds")]
    pub duration: Duration,
}

/// Results of one kind of traffic through one network.
#[derive(Clone, Debug, Serialize)]
struct Point {
    traffic: Traffic,
    path: Path,
    runs: usize,
    gbit_per_second: Percentiles,
    cpu_ns_per_packet: Percentiles,
    /// The path that this one is compared with.
    against: Option<Path>,
    /// Throughput of this path divided by that of the other, for each pair.
    ratio: Option<Percentiles>,
    /// Nanoseconds that one processor takes for a packet from one end to the other.
    whole_way_ns_per_packet: Percentiles,
    /// Time of a packet on the other path divided by the time on this one, for each pair of slices.
    whole_way_ratio: Option<Percentiles>,
}

/// Measurements of two paths. The path without Moorline is the first of each pair.
#[derive(Default)]
struct Measured {
    runs: Vec<[Speed; 2]>,
    /// Nanoseconds for each packet.
    slices: Vec<[f64; 2]>,
}

impl Experiment for Throughput {
    fn card(&self) -> Card {
        Card {
            name: "throughput",
            about: "throughput of traffic that has not moved, and has, against the same path without Moorline",
            needs: Needs::Daemons(&["iperf3", "ethtool"]),
            columns: "traffic path gbit_per_second.median cpu_ns_per_packet.median against \
                      ratio.p5 ratio.median ratio.p95 whole_way_ns_per_packet.median \
                      whole_way_ratio.median",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        // Moved traffic of Shim6 has an extra header, and its super-packets are segmented before the header is
        // inserted. Moved TCP of ILNP has no extra octet, so both states are compared with paths that have all
        // offloads.
        let (networks, comparisons): (_, &[Comparison]) = match self.protocol {
            Protocol::Shim6 => ("five networks", &COMPARISONS),
            Protocol::Ilnp => ("four networks", &ilnp::COMPARISONS),
        };
        watch.stage(networks);
        let paths = Paths::new(self.protocol, comparisons)?;
        let awake = Awake::keep();
        let all = self.pairs * self.traffic.len() * comparisons.len();
        let (mut points, mut summary, mut over) = (Vec::new(), Map::new(), 0);
        for &traffic in &self.traffic {
            for &Comparison { name, without, with } in comparisons {
                watch.stage(&format!("{traffic}, {with} against {without}"));
                let mut measured = Measured::default();
                for pair in 0..self.pairs {
                    watch.done(over as f64 / all as f64);
                    over += 1;
                    measured.runs.push(self.pair(&paths, traffic, [without, with], pair)?);
                }
                measured.slices = self.slices(&paths, traffic, [without, with])?;
                points.push(Point::of(traffic, without, None, &measured));
                let point = Point::of(traffic, with, Some(without), &measured);
                summary.extend(point.ratios(name));
                points.push(point);
            }
        }
        watch.done(1.0);
        let [one, other] = paths.processors;
        let machine = json!({"own_processors": one != other, "awake": awake.is_some()});
        let results = Results::new(self, &points)?.with_parameters(machine);
        let results = results.with_summary(Value::Object(summary));
        Ok(results.with_charts([chart(&points)]))
    }
}

impl Throughput {
    fn pair(
        &self,
        paths: &Paths,
        traffic: Traffic,
        pair: [Path; 2],
        number: usize,
    ) -> anyhow::Result<[Speed; 2]> {
        in_turns(number, pair, |path| {
            let scene = paths.scene(path)?;
            let [a, b] = &scene.ends;
            let directory = scene.lab.directory(HOSTS[0])?;
            Speed::measure([a, b], paths.processors, traffic, self.duration, &directory)
                .with_context(|| format!("{traffic} over the path {path}: {}", scene.logs()))
        })
    }

    /// Nanoseconds for each packet through both paths, in alternating slices.
    fn slices(
        &self,
        paths: &Paths,
        traffic: Traffic,
        pair: [Path; 2],
    ) -> anyhow::Result<Vec<[f64; 2]>> {
        let open = |path| {
            let [a, b] = &paths.scene(path)?.ends;
            WholeWay::open([a, b], traffic).with_context(|| format!("sockets of the path {path}"))
        };
        let [mut without, mut with] = [open(pair[0])?, open(pair[1])?];
        let [_, one] = paths.processors;
        on_processor(one, || {
            let mut slices = Vec::new();
            for number in 0..WARM_UP + self.pairs * SLICES {
                interrupt::check()?;
                let slice = in_turns(number, [&mut without, &mut with], WholeWay::slice)?;
                if number >= WARM_UP {
                    slices.push(slice);
                }
            }
            Ok(slices)
        })
    }
}

/// Draws each network once, in the order of the networks.
fn chart(points: &[Point]) -> Chart {
    let mut points: Vec<_> = points.iter().collect();
    points.sort_by_key(|point| (point.path, point.traffic));
    points.dedup_by_key(|point| (point.path, point.traffic));
    let bars = points.into_iter().map(|point| {
        (point.path, point.traffic.name().to_uppercase(), point.gbit_per_second.median)
    });
    Chart::bars("Median throughput", ["", "Gbit/s"], bars)
}

impl Point {
    /// The point of the second path of each pair if `against` is the first. Else the point of the first path.
    fn of(traffic: Traffic, path: Path, against: Option<Path>, measured: &Measured) -> Self {
        let Measured { runs, slices } = measured;
        let own = usize::from(against.is_some());
        let of_runs = |value: &dyn Fn(&[Speed; 2]) -> f64| Percentiles::of(runs.iter().map(value));
        let of_slices =
            |value: &dyn Fn(&[f64; 2]) -> f64| Percentiles::of(slices.iter().map(value));
        let ratio =
            |[without, with]: &[Speed; 2]| with.octets_per_second / without.octets_per_second;
        Self {
            traffic,
            path,
            runs: runs.len(),
            gbit_per_second: of_runs(&|pair| pair[own].octets_per_second * 8.0 / 1e9),
            cpu_ns_per_packet: of_runs(&|pair| pair[own].cpu_ns_per_packet),
            against,
            ratio: against.map(|_| of_runs(&ratio)),
            whole_way_ns_per_packet: of_slices(&|pair| pair[own]),
            whole_way_ratio: against.map(|_| of_slices(&|[without, with]| without / with)),
        }
    }

    /// The ratios of the point, named after a comparison.
    fn ratios(&self, name: &str) -> [(String, Value); 3] {
        // The names of TCP's ratios have no word for the protocol.
        let infix = if self.traffic == Traffic::Tcp { "" } else { "_udp" };
        let [ratio, whole_way] = [self.ratio, self.whole_way_ratio].map(Option::unwrap_or_default);
        let spread = json!({"p5": ratio.p5, "p95": ratio.p95});
        [
            (format!("{name}{infix}_ratio_spread"), spread),
            (format!("{name}{infix}_ratio"), json!(ratio.median)),
            (format!("{name}{infix}_whole_way_ratio"), json!(whole_way.median)),
        ]
    }
}

/// The networks by name, and the processors.
struct Paths {
    scenes: BTreeMap<Path, Scene>,
    /// Processors of the two hosts.
    processors: [usize; 2],
}

impl Paths {
    /// Builds the networks. Each host receives packets on its own processor, as a machine does. Else the sender's
    /// processor would do the work of both hosts.
    fn new(protocol: Protocol, comparisons: &[Comparison]) -> anyhow::Result<Self> {
        let processors = processors::of_two_hosts()?;
        let paths = comparisons.iter().flat_map(|one| [one.without, one.with]);
        let paths: BTreeSet<_> = paths.collect();
        let scenes = paths.into_iter().map(|path| Ok((path, path.build(protocol)?)));
        let scenes = scenes.collect::<anyhow::Result<BTreeMap<_, _>>>()?;
        for scene in scenes.values() {
            for (host, processor) in HOSTS.into_iter().zip(processors) {
                for uplink in ISPS {
                    scene.lab.namespace(host)?.receive_on(uplink, processor)?;
                }
            }
        }
        Ok(Self { scenes, processors })
    }

    fn scene(&self, path: Path) -> anyhow::Result<&Scene> {
        self.scenes.get(&path).with_context(|| format!("no path {path}"))
    }
}

impl Path {
    /// Builds the network of the path.
    fn build(self, protocol: Protocol) -> anyhow::Result<Scene> {
        match (self, protocol) {
            (Self::Plain, _) => Scene::plain(Impairment::default()),
            (Self::Detour, _) => ilnp::detour(),
            (Self::NoSegmentation, _) => switched_off(&SEGMENTATION),
            (Self::NoOffloads, _) => switched_off(&ALL_OFFLOADS),
            (Self::Unmoved, Protocol::Ilnp) => ilnp::session(false),
            (Self::Moved, Protocol::Ilnp) => ilnp::session(true),
            (Self::Unmoved | Self::Moved, Protocol::Shim6) => {
                let cables = Impairment::default();
                let mut scene = Scene::protected(cables, SEND_TIMEOUT, SETTINGS)?;
                let flow = contexts(&mut scene)?;
                if self == Self::Moved {
                    make_move(&scene, &flow)?;
                }
                Ok(scene)
            }
        }
    }
}

/// A network without Moorline and without these offloads.
fn switched_off(offloads: &[&str]) -> anyhow::Result<Scene> {
    let scene = Scene::plain(Impairment::default())?;
    for end in scene.lab.topology().links.iter().flat_map(|link| &link.ends) {
        scene.lab.namespace(&end.node)?.switch_off(&end.interface, offloads)?;
    }
    Ok(scene)
}

/// Triggers a context on both hosts.
fn contexts(scene: &mut Scene) -> anyhow::Result<Flow> {
    let flow = scene.datagrams(Direction::BothWays, 50, 100)?;
    flow.await_arrivals()?;
    scene.await_protection()?;
    Ok(flow)
}

/// Moves the traffic between the ends to ISP 2. ISP 1 stays silent.
fn make_move(scene: &Scene, flow: &Flow) -> anyhow::Result<()> {
    let cut = scene.lab.fail(Failure::Silent { router: ISPS[0].into() })?;
    let limit = SEND_TIMEOUT * 10;
    let silence = Silence { least: SEND_TIMEOUT / 4, stragglers: SEND_TIMEOUT / 4, limit };
    await_recovery(&flow.arrivals(), cut, silence)?
        .with_context(|| format!("traffic did not move: {}", scene.logs()))?;
    Ok(())
}

named! {
    /// The networks, in the order of the chart.
    enum Path {
        /// A network without Moorline.
        Plain = "plain",
        Unmoved = "unmoved",
        /// A network without Moorline, by the path of moved traffic, which has one router more.
        Detour = "detour",
        /// A network without Moorline and without segmentation offloads.
        NoSegmentation = "no-segmentation",
        /// A network without Moorline and without any offload.
        NoOffloads = "no-offloads",
        Moved = "moved",
    }
}

/// Two paths to compare.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    name: &'static str,
    without: Path,
    with: Path,
}

const COMPARISONS: [Comparison; 3] = [
    Comparison { name: "unmoved", without: Path::Plain, with: Path::Unmoved },
    Comparison { name: "moved", without: Path::NoOffloads, with: Path::Moved },
    Comparison { name: "moved_no_segmentation", without: Path::NoSegmentation, with: Path::Moved },
];
/// Slices of each path for each pair of runs, and slices before the first measured one.
const SLICES: usize = 50;
const WARM_UP: usize = 10;
/// Long enough that a busy processor is not taken for a failure.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);
const SETTINGS: &str = "profile = \"rfc\"\naddresses = \"hba\"\ntrigger-bytes = 500\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs() {
        let speed = |octets_per_second| Speed { octets_per_second, cpu_ns_per_packet: 5.0 };
        let runs =
            vec![[speed(1e9), speed(0.9e9)], [speed(2e9), speed(2e9)], [speed(1e9), speed(0.5e9)]];
        let slices = vec![[100.0, 125.0], [100.0, 110.0], [400.0, 500.0]];
        let measured = Measured { runs, slices };
        let point = Point::of(Traffic::Tcp, Path::Unmoved, Some(Path::Plain), &measured);
        assert_eq!(point.ratio.unwrap().median, Some(0.9));
        assert_eq!(point.gbit_per_second.median.map(f64::round), Some(7.0));
        assert_eq!(point.whole_way_ns_per_packet.median, Some(125.0));
        assert_eq!(point.whole_way_ratio.unwrap().median, Some(0.8));
        let plain = Point::of(Traffic::Tcp, Path::Plain, None, &measured);
        assert_eq!((plain.ratio, plain.whole_way_ratio), (None, None));
        assert_eq!(plain.whole_way_ns_per_packet.median, Some(100.0));
    }
}
