//! Two hosts, a flow between them, and the end of a silence: what the experiments about failures share.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, ensure};
use moorline_api::EventKind;

use super::Needs;
use super::pool::part;
use crate::Failure;
use crate::daemon::{Daemon, DaemonOptions, start_both};
use crate::lab::Lab;
use crate::named::named;
use crate::netns::Namespace;
use crate::topology::{self, HOSTS, ISPS, Impairment, THREE_HOSTS, Topology, host_address};
use crate::workload::{
    Arrivals, Carriage, Direction, Endpoint, Gap, Sender, TcpOptions, TcpTransfer, UdpFlow,
    UdpOptions,
};
use crate::{interrupt, preflight};

/// The network of the demo with the cables of both hosts impaired, and the ends of a flow by ISP 1.
pub(crate) struct Scene {
    /// Before the lab, so that they are stopped before it goes.
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) lab: Lab,
    /// What a daemon tells when a flow is protected.
    protection: EventKind,
}

impl Scene {
    /// Without Moorline.
    pub(crate) fn plain(cables: Impairment) -> anyhow::Result<Self> {
        Self::in_network(build(topology::two_by_two(true), &HOSTS, cables)?)
    }

    /// The same with a third host.
    pub(super) fn of_three(cables: Impairment) -> anyhow::Result<Self> {
        Self::in_network(build(topology::two_by_three(true), &THREE_HOSTS, cables)?)
    }

    fn in_network(lab: Lab) -> anyhow::Result<Self> {
        let ends = ends(&lab, HOSTS.map(|host| host_address(host, 1)))?;
        Ok(Self { daemons: Vec::new(), ends, lab, protection: EventKind::ContextEstablished })
    }

    /// With a daemon in each host, and contexts between addresses that the daemons made.
    pub(crate) fn protected(
        cables: Impairment,
        send_timeout: Duration,
        settings: &str,
    ) -> anyhow::Result<Self> {
        let mut scene = Self::as_it_is(cables, send_timeout, settings)?;
        scene.protection = EventKind::ContextEstablished;
        for (end, daemon) in scene.ends.iter_mut().zip(&scene.daemons) {
            end.address = daemon.verifiable_address(ISPS[0])?;
        }
        Ok(scene)
    }

    /// With a daemon in each host, and sessions between the addresses that the hosts have without.
    pub(super) fn as_it_is(
        cables: Impairment,
        send_timeout: Duration,
        settings: &str,
    ) -> anyhow::Result<Self> {
        let options = DaemonOptions::new(send_timeout, settings)?;
        let scene = Self::plain(cables)?;
        let daemons = start_both(&scene.lab, [&options; 2])?;
        Ok(Self { daemons, protection: EventKind::SessionEstablished, ..scene })
    }

    /// Starts a flow with something under way each four milliseconds.
    pub(super) fn start(&self, flow: FlowName) -> anyhow::Result<Flow> {
        match flow {
            FlowName::Bulk => self.transfer(RATE, Carriage { chunk: CHUNK, ..Carriage::default() }),
            FlowName::Datagrams => self.datagrams(Direction::BothWays, PER_SECOND, 100),
        }
    }

    /// Starts an endless transfer from the first end, at so many octets a second.
    pub(super) fn transfer(&self, rate: u64, carriage: Carriage) -> anyhow::Result<Flow> {
        let ([client, server], sender) = (self.ends.clone(), Sender::Client);
        let options = TcpOptions { client, server, sender, bytes: 1 << 40, rate };
        TcpTransfer::start_as(&options, carriage).map(Flow::Tcp)
    }

    /// Starts datagrams of so many octets, so many a second.
    pub(super) fn datagrams(
        &self,
        direction: Direction,
        per_second: u32,
        size: usize,
    ) -> anyhow::Result<Flow> {
        let ends = self.ends.clone();
        UdpFlow::start(&UdpOptions { ends, direction, per_second, size }).map(Flow::Udp)
    }

    /// Waits until every daemon has a context or a session for the flow.
    pub(super) fn await_protection(&mut self) -> anyhow::Result<()> {
        let Self { daemons, protection, .. } = self;
        let mut daemons = daemons.iter_mut();
        daemons.try_for_each(|daemon| daemon.wait_for(protection, PROTECTION_LIMIT).map(drop))
    }

    /// Waits until a flow is protected, and the hosts know of each other what they want to, and then until a moment that follows
    /// from the seed.
    pub(super) fn settle(&mut self, flow: &Flow, seed: u64) -> anyhow::Result<()> {
        flow.await_arrivals()?;
        self.await_protection()?;
        pause(SETTLING + SPREAD.mul_f64(part(seed, 0)))
    }

    /// Makes ISP 1 of both hosts go silent; none if traffic has moved away from it before.
    pub(super) fn silence(&mut self) -> anyhow::Result<Option<Instant>> {
        let armed = self.lab.arm(Failure::Silent { router: ISPS[0].into() })?;
        if self.has_moved() {
            return Ok(None);
        }
        Ok(Some(armed.strike()?))
    }

    /// Takes the carrier of its first uplink from host A.
    pub(super) fn drop_carrier(&self) -> anyhow::Result<Instant> {
        let failure = Failure::CarrierDown { node: HOSTS[0].into(), interface: ISPS[0].into() };
        self.lab.fail(failure)
    }

    /// Brings about a change that host A is told of, and watches the flow until it has settled.
    pub(super) fn disturb(
        &mut self,
        flow: Flow,
        change: impl FnOnce(&Self) -> anyhow::Result<Instant>,
    ) -> anyhow::Result<Disturbance> {
        let host = self.lab.namespace(HOSTS[0])?.clone();
        let counters = || -> anyhow::Result<[u64; 2]> {
            Ok([segments_sent_again(&host)?, segments_had_already(&host)?])
        };
        let before = counters()?;
        ensure!(!self.has_moved(), "traffic moved before");
        let cut = change(self)?;
        let gap = watch(&flow.arrivals(), cut)?;
        let after = counters()?;
        let [again, needless] = [0, 1].map(|at| after[at].saturating_sub(before[at]));
        let needless = matches!(flow, Flow::Tcp(_)).then_some(needless);
        Ok(Disturbance { gap, packets_lost: flow.lost(again)?, needless })
    }

    /// Whether a daemon has moved traffic away.
    pub(super) fn has_moved(&mut self) -> bool {
        let moved = |daemon: &mut Daemon| {
            daemon.events().iter().any(|event| event.kind == EventKind::Moved)
        };
        self.daemons.iter_mut().any(moved)
    }

    /// The ends of the daemons' logs, for an error.
    pub(crate) fn logs(&self) -> String {
        self.daemons.iter().map(Daemon::tail).collect::<Vec<_>>().join("\n")
    }
}

/// What a change did to a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disturbance {
    /// Longest silence of the application after it.
    pub(super) gap: Option<Duration>,
    /// Datagrams lost, or segments that the host sent again.
    pub(super) packets_lost: u64,
    /// Of those segments, what the other host says it had already.
    pub(super) needless: Option<u64>,
}

/// What the cables do is shared out over those of two hosts, so that what fails is in the middle of the
/// path: one way of it crosses two cables.
fn build(topology: Topology, hosts: &[&str], cables: Impairment) -> anyhow::Result<Lab> {
    // An impairment that does nothing is no reason for a wire.
    let plain = Impairment { seed: cables.seed, ..Impairment::default() };
    if cables == plain {
        return Lab::build(topology);
    }
    let jitter = cables.jitter.mul_f64(std::f64::consts::FRAC_1_SQRT_2);
    let half = Impairment { delay: cables.delay / 2, jitter, ..cables };
    Lab::build(hosts.iter().fold(topology, |all, host| all.with_cables_of(host, half)))
}

/// Both hosts of a network with two, at these addresses.
pub(super) fn ends(lab: &Lab, [a, b]: [Ipv6Addr; 2]) -> anyhow::Result<[Endpoint; 2]> {
    let end = |host, address| -> anyhow::Result<Endpoint> {
        Ok(Endpoint { namespace: lab.namespace(host)?.clone(), address })
    };
    Ok([end(HOSTS[0], a)?, end(HOSTS[1], b)?])
}

named! {
    /// Kinds of traffic.
    pub(super) enum FlowName {
        /// A slow transfer.
        Bulk = "tcp-bulk",
        /// Datagrams both ways.
        Datagrams = "udp-bidir",
    }
}

/// Traffic between the ends.
pub(super) enum Flow {
    Tcp(TcpTransfer),
    Udp(UdpFlow),
}

impl Flow {
    /// Of each direction that it uses.
    pub(super) fn arrivals(&self) -> Vec<Arrivals> {
        match self {
            Self::Tcp(transfer) => vec![transfer.arrivals().clone()],
            Self::Udp(flow) => flow.arrivals().into_iter().cloned().collect(),
        }
    }

    /// Waits until something has arrived in every direction.
    pub(super) fn await_arrivals(&self) -> anyhow::Result<()> {
        let arrivals = self.arrivals();
        interrupt::wait_for("traffic", BEGIN_LIMIT, || {
            Ok(arrivals.iter().all(|arrivals| arrivals.total() > 0).then_some(()))
        })
    }

    /// Ends it and gives what it has lost: datagrams, or segments of which the caller knows how many were sent `again`.
    pub(super) fn lost(self, again: u64) -> anyhow::Result<u64> {
        match self {
            Self::Tcp(transfer) => transfer.abandon().map(|_| again),
            Self::Udp(flow) => {
                let ways = flow.finish()?;
                Ok(ways.iter().map(|way| way.sent.saturating_sub(way.received)).sum())
            }
        }
    }
}

/// How a silence is told from the gaps that a flow has anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// At least so long, or followed by [`GOES_ON`] of traffic.
    pub(super) least: Duration,
    /// What was under way at the cut has arrived by then.
    pub(super) stragglers: Duration,
    /// When nobody waits any longer.
    pub(super) limit: Duration,
}

/// Waits until every direction flows again after a cut, and for a moment more; gives the longest
/// silence, from the last arrival before to the first one after, or none if there was no end.
pub(super) fn await_recovery(
    arrivals: &[Arrivals],
    cut: Instant,
    silence: Silence,
) -> anyhow::Result<Option<Gap>> {
    let settled = cut + silence.stragglers;
    let flows_again = |arrivals: &Arrivals| {
        // Nothing comes by the dead path after a while: what goes on has another one, however short the
        // silence was.
        let goes_on = |last: Instant| {
            arrivals.resumed_after(cut, silence.least).is_some() || last > settled + GOES_ON
        };
        arrivals.last().is_some_and(|last| last > settled && goes_on(last))
    };
    while !arrivals.iter().all(flows_again) {
        interrupt::check()?;
        if cut.elapsed() > silence.limit {
            return Ok(None);
        }
        thread::sleep(interrupt::TICK);
    }
    pause(LINGER)?;
    let gaps = arrivals.iter().filter_map(|arrivals| arrivals.longest_gap_after(cut));
    Ok(gaps.max_by_key(Gap::length))
}

/// Watches every direction until [`WATCHED`] after a cut and gives the longest silence since, however short: for cuts that
/// the host is told of.
fn watch(arrivals: &[Arrivals], cut: Instant) -> anyhow::Result<Option<Duration>> {
    interrupt::wait_for("traffic after the cut", RETURN_LIMIT, || {
        let mut lasts = arrivals.iter().map(Arrivals::last);
        Ok(lasts.all(|last| last.is_some_and(|last| last > cut + WATCHED)).then_some(()))
    })?;
    let gaps = arrivals.iter().filter_map(|arrivals| arrivals.longest_gap_after(cut));
    Ok(gaps.map(|gap| gap.length()).max())
}

/// Sleeps, and wakes for Ctrl-C.
pub(crate) fn pause(length: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + length;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        interrupt::check()?;
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(interrupt::check()?)
}

/// Segments that the sockets of a host have sent again.
pub(super) fn segments_sent_again(host: &Namespace) -> anyhow::Result<u64> {
    counter(host, "snmp", "Tcp:", "RetransSegs")
}

/// Segments that peers say they had already (RFC 2883).
fn segments_had_already(host: &Namespace) -> anyhow::Result<u64> {
    counter(host, "netstat", "TcpExt:", "TCPDSACKRecv")
}

fn counter(host: &Namespace, file: &str, group: &str, wanted: &str) -> anyhow::Result<u64> {
    host.enter(|| {
        let counters = fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
        let mut lines = counters.lines().filter(|line| line.starts_with(group));
        let (names, values) = lines.next().zip(lines.next()).context("counters of TCP")?;
        let mut both = names.split_whitespace().zip(values.split_whitespace());
        let value = both.find(|(name, _)| *name == wanted).map(|(_, value)| value.parse());
        Ok(value.with_context(|| format!("no counter {wanted}"))??)
    })
    .with_context(|| format!("counters in {file}"))
}

impl Needs {
    /// What of it is not here, for a person.
    pub(super) fn obstacles(self) -> Vec<String> {
        let programs = match self {
            Self::Nothing => return Vec::new(),
            Self::Network => return preflight::check(&[]),
            Self::Daemons(programs) => programs,
        };
        let mut obstacles = preflight::check(programs);
        if obstacles.is_empty() {
            obstacles.extend(preflight::check_bpf());
        }
        if preflight::find_daemon().is_none() {
            obstacles.push("moorlined is neither next to this program nor on PATH".into());
        }
        obstacles
    }
}

/// Octets a second, and at a time: one in four milliseconds.
const RATE: u64 = 2_000_000;
const CHUNK: usize = 8 * 1024;
/// The same of datagrams.
const PER_SECOND: u32 = 250;
/// Longest time until a flow has begun.
const BEGIN_LIMIT: Duration = Duration::from_secs(15);
/// Longest time until a context or a session protects it.
const PROTECTION_LIMIT: Duration = Duration::from_secs(60);
/// Until standby pairs, subflows and round trips are known; or locators have been exchanged and packets carry no nonce any more.
pub(super) const SETTLING: Duration = Duration::from_millis(2500);
const SPREAD: Duration = Duration::from_secs(1);
/// How long a flow is watched after a cut that is no silence to be waited for.
const WATCHED: Duration = Duration::from_secs(1);
/// Longest time until it flows again.
const RETURN_LIMIT: Duration = Duration::from_secs(60);
/// Traffic for so long after a cut is there to stay.
const GOES_ON: Duration = Duration::from_secs(1);
/// How long a flow is watched after its return: a longer silence may follow one that was none.
const LINGER: Duration = Duration::from_millis(200);
