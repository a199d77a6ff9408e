//! Time for which new connections to a host without Moorline fail after the failure of an uplink: the kernel goes on
//! choosing the uplink, and each of its connections waits there.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use serde::Serialize;

use super::options::{as_millis, count, rtt, span};
use super::pool::{Trial, Trials, part};
use super::recovery::{Scene, pause};
use super::statistics::ms;
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use crate::Failure;
use crate::daemon::{Daemon, DaemonOptions, is_protected};
use crate::interrupt::{self, wait_for};
use crate::named::named;
use crate::topology::{HOSTS, ISPS, Impairment, THREE_HOSTS};
use crate::workload::{Direction, Endpoint, UdpFlow, UdpOptions};

/// Time from the failure of an uplink to the first new connection to a host without Moorline (as root).
///
/// A program opens a connection every 50 ms, once with Moorline on its host and once without.
#[derive(Clone, Debug, Args, Serialize)]
pub struct NewConnections {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80", value_parser = rtt)]
    #[serde(skip)]
    pub rtts: Vec<Duration>,
    /// Failures for each combination; at most three if no connection is made in time.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count)]
    pub repetitions: usize,
    /// Longest wait for a connection.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = span)]
    #[serde(rename = "limit_ms", serialize_with = "as_millis")]
    pub limit: Duration,
    /// Number of networks side by side.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub parallel: usize,
    /// Seed of the moments of failures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    failure: Kind,
    system: System,
    rtt_ms: f64,
    repetitions: usize,
    /// Repetitions in which a connection was made.
    connected: usize,
    /// Time from the failure to the first connection.
    first_connection_ms: Percentiles,
    /// Connections that began after the failure and before the first one that was made.
    lost: Percentiles,
}

named! {
    /// The failure: the ISP drops packets silently, or the link has no carrier.
    enum Kind {
        Silent = "silent",
        Carrier = "carrier",
    }
}

named! {
    /// System of host A: Moorline with `uplink-probes`, Moorline without a setting and with two peers that have it,
    /// or none.
    enum System {
        Moorline = "moorline",
        Peers = "peers",
        None = "none",
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    system: System,
    rtt: Duration,
    limit: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    first: Option<Duration>,
    lost: u32,
}

impl Experiment for NewConnections {
    fn card(&self) -> Card {
        Card {
            name: "new-connections",
            about: "time from a failure of an uplink to the first new connection to a host without Moorline",
            needs: Needs::Daemons(&[]),
            columns: "failure system rtt_ms connected repetitions first_connection_ms.median \
                      first_connection_ms.p95 lost.median",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let name = |case: &Case| format!("{}, {}, RTT {} ms", case.kind, case.system, ms(case.rtt));
        let tried = self.trials().run(watch, name, run)?;
        let points: Vec<_> = tried.iter().map(|(case, all)| Point::of(case, all)).collect();
        Ok(Results::new(self, &points)?.with_charts([chart(&points)]))
    }
}

impl NewConnections {
    fn trials(&self) -> Trials<Case> {
        let &Self { ref rtts, repetitions, limit, parallel, seed } = self;
        let mut cases = Vec::new();
        for &kind in Kind::ALL {
            for &system in System::ALL {
                let is_vain = kind == Kind::Silent && system == System::None;
                let times = if is_vain { repetitions.min(MOST_IN_VAIN) } else { repetitions };
                cases.extend(rtts.iter().map(|&rtt| (Case { kind, system, rtt, limit }, times)));
            }
        }
        Trials { cases, seed, parallel }
    }
}

impl Point {
    fn of(case: &Case, all: &[Outcome]) -> Self {
        Self {
            failure: case.kind,
            system: case.system,
            rtt_ms: ms(case.rtt),
            repetitions: all.len(),
            connected: all.iter().filter(|one| one.first.is_some()).count(),
            first_connection_ms: Percentiles::of(all.iter().map(|one| one.first.map(ms))),
            lost: Percentiles::of(all.iter().map(|one| f64::from(one.lost))),
        }
    }
}

/// Runs one failure of ISP 1, which the kernel of host A prefers.
fn run(trial: &Trial<Case>) -> anyhow::Result<Outcome> {
    let cables = Impairment { seed: trial.seed, ..Impairment::delay(trial.rtt) };
    let (scene, _flows) = scene(trial.system, cables)?;
    let server = SocketAddrV6::new(SERVER, PORT, 0, 0);
    let listen = || TcpListener::bind(server).context("listen");
    let _listener = scene.lab.namespace(ISPS[1])?.enter(listen)?;
    let host = scene.lab.namespace(HOSTS[0])?.clone();
    host.enter(|| first_connection(server, trial.limit, Instant::now()))?;
    pause(SETTLING + SPREAD.mul_f64(part(trial.seed, 0)))?;
    let cut = scene.lab.fail(match trial.kind {
        Kind::Silent => Failure::Silent { router: ISPS[0].into() },
        Kind::Carrier => Failure::CarrierDown { node: HOSTS[0].into(), interface: ISPS[0].into() },
    })?;
    host.enter(|| first_connection(server, trial.limit, cut))
        .with_context(|| format!("{trial:?}: {}", scene.logs()))
}

/// The network with its daemons, and flows with peers if these are asked.
fn scene(system: System, cables: Impairment) -> anyhow::Result<(Scene, Vec<UdpFlow>)> {
    let options = |settings: String| DaemonOptions::new(SEND_TIMEOUT, settings);
    match system {
        System::None => Ok((Scene::plain(cables)?, Vec::new())),
        System::Moorline => {
            let mut scene = Scene::plain(cables)?;
            let options = options(format!("uplink-probes = [\"{SERVER}\"]\n"))?;
            scene.daemons.push(Daemon::start(&scene.lab, HOSTS[0], &options)?);
            Ok((scene, Vec::new()))
        }
        System::Peers => {
            let mut scene = Scene::of_three(cables)?;
            let options = options(String::new())?;
            for host in THREE_HOSTS {
                scene.daemons.push(Daemon::start(&scene.lab, host, &options)?);
            }
            let flows = flows(&scene)?;
            wait_for("two contexts with standby paths", PROTECTION_LIMIT, || {
                let contexts = scene.daemons[0].contexts()?;
                Ok((contexts.iter().filter(|one| is_protected(one)).count() == 2).then_some(()))
            })?;
            Ok((scene, flows))
        }
    }
}

/// Datagrams in both directions between host A and each of the others.
fn flows(scene: &Scene) -> anyhow::Result<Vec<UdpFlow>> {
    let ends = THREE_HOSTS.iter().zip(&scene.daemons).map(|(host, daemon)| {
        let namespace = scene.lab.namespace(host)?.clone();
        Ok(Endpoint { namespace, address: daemon.verifiable_address(ISPS[0])? })
    });
    let ends = ends.collect::<anyhow::Result<Vec<_>>>()?;
    let [a, peers @ ..] = &ends[..] else { return Ok(Vec::new()) };
    let flow = |peer: &Endpoint| {
        let (ends, direction) = ([a.clone(), peer.clone()], Direction::BothWays);
        UdpFlow::start(&UdpOptions { ends, direction, per_second: 250, size: 100 })
    };
    peers.iter().map(flow).collect()
}

/// Opens connections until one is made.
fn first_connection(
    server: SocketAddrV6,
    limit: Duration,
    since: Instant,
) -> anyhow::Result<Outcome> {
    // Open connections, each with the number of those that began before it.
    let mut open: Vec<(u32, OwnedFd)> = Vec::new();
    let mut started = 0;
    while since.elapsed() < limit {
        interrupt::check()?;
        let next = Instant::now() + EACH;
        open.extend(begin(server)?.map(|one| (started, one)));
        started += 1;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let mut polled: Vec<_> =
                open.iter().map(|(_, one)| PollFd::new(one, PollFlags::OUT)).collect();
            poll(&mut polled, Some(&Timespec::try_from(left)?))?;
            let is_over: Vec<_> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            for (at, _) in is_over.iter().enumerate().filter(|(_, is_over)| **is_over) {
                let (lost, one) = &open[at];
                if socket_error(one)?.is_ok() {
                    return Ok(Outcome { first: Some(since.elapsed()), lost: *lost });
                }
            }
            let mut is_over = is_over.into_iter();
            open.retain(|_| !is_over.next().unwrap_or_default());
        }
    }
    Ok(Outcome { first: None, lost: started })
}

/// Begins a connection; `None` if the host knows at once that it cannot be made.
fn begin(server: SocketAddrV6) -> io::Result<Option<OwnedFd>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let one = socket_with(AddressFamily::INET6, SocketType::STREAM, flags, None)?;
    match connect(&one, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(Some(one)),
        Err(Errno::HOSTUNREACH | Errno::NETUNREACH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn chart(points: &[Point]) -> Chart {
    let places = points.iter().map(|point| {
        let Point { failure, system, rtt_ms, first_connection_ms, .. } = point;
        (format!("{failure}, {system}"), *rtt_ms, first_connection_ms.range())
    });
    let axes = ["round-trip time (ms)", "milliseconds"];
    Chart::lines("First new connection after an uplink has failed", axes, places).in_decades()
}

/// The router of ISP 2, on its link to ISP 1: both ISPs lead there, and it has no Moorline.
const SERVER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);
const PORT: u16 = 7000;
/// Time between two connections.
const EACH: Duration = Duration::from_millis(50);
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const PROTECTION_LIMIT: Duration = Duration::from_secs(60);
/// Time in which the daemon hears the server by both uplinks.
const SETTLING: Duration = Duration::from_secs(2);
const SPREAD: Duration = Duration::from_millis(500);
const MOST_IN_VAIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_make_points_of_both_systems_and_those_in_vain_are_few() {
        let experiment = NewConnections::default();
        let cases = experiment.trials().cases;
        assert_eq!(
            cases.iter().map(|(_, times)| times).sum::<usize>(),
            3 * (10 + 10 + 3 + 10 + 10 + 10)
        );
        let outcome =
            |first: Option<u64>| Outcome { first: first.map(Duration::from_millis), lost: 4 };
        let all = [outcome(Some(600)), outcome(Some(700)), outcome(None)];
        let point = Point::of(&cases[0].0, &all);
        assert_eq!((point.connected, point.repetitions), (2, 3));
        assert_eq!(point.first_connection_ms.median, Some(700.0), "none is later than any");
    }

    #[test]
    fn the_first_connection_is_found() {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V6(server) = listener.local_addr().unwrap() else {
            panic!("IPv4")
        };
        let limit = Duration::from_secs(60);
        let found = first_connection(server, limit, Instant::now()).unwrap();
        assert!(found.first.is_some() && found.lost == 0);
        drop(listener);
        let refused = first_connection(server, Duration::from_millis(1), Instant::now()).unwrap();
        assert!(refused.first.is_none() && refused.lost == 1);
    }
}
