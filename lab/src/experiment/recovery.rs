//! Two hosts, a flow between them, and the end of its silence: shared parts of the experiments about failures.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, ensure};
use moorline_api::{Event, EventKind, Pair};

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

/// The network of the demo with impaired cables at both hosts, and the ends of a flow by ISP 1.
pub(crate) struct Scene {
    /// Declared before the lab, so that daemons stop before the lab is removed.
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) lab: Lab,
    /// The event by which a daemon reports that a flow is protected.
    protection: EventKind,
}

impl Scene {
    /// A scene without Moorline.
    pub(crate) fn plain(cables: Impairment) -> anyhow::Result<Self> {
        Self::in_network(build(topology::two_by_two(true), &HOSTS, cables)?)
    }

    /// A scene without Moorline and with a third host.
    pub(super) fn of_three(cables: Impairment) -> anyhow::Result<Self> {
        Self::in_network(build(topology::two_by_three(true), &THREE_HOSTS, cables)?)
    }

    fn in_network(lab: Lab) -> anyhow::Result<Self> {
        let ends = ends(&lab, HOSTS.map(|host| host_address(host, 1)))?;
        Ok(Self { daemons: Vec::new(), ends, lab, protection: EventKind::ContextEstablished })
    }

    /// A scene with a daemon on each host, and contexts between addresses that the daemons made.
    pub(crate) fn protected(
        cables: Impairment,
        send_timeout: Duration,
        settings: &str,
    ) -> anyhow::Result<Self> {
        Self::as_it_is(cables, send_timeout, settings)?.between_provable_addresses()
    }

    /// A scene with a daemon on each host, and sessions between the static addresses of the hosts.
    pub(super) fn as_it_is(
        cables: Impairment,
        send_timeout: Duration,
        settings: &str,
    ) -> anyhow::Result<Self> {
        let options = DaemonOptions::new(send_timeout, settings)?;
        Self::between(cables, [&options; 2])
    }

    /// A scene with these daemons, and sessions between the static addresses of the hosts.
    fn between(cables: Impairment, options: [&DaemonOptions; 2]) -> anyhow::Result<Self> {
        let scene = Self::plain(cables)?;
        let daemons = start_both(&scene.lab, options)?;
        Ok(Self { daemons, protection: EventKind::SessionEstablished, ..scene })
    }

    /// A scene in which host A speaks both protocols, and host B too if `is_ilnp`. The ends of flows are addresses that the
    /// daemons made, or static addresses if the flow is a session. Both files have `settings` in addition.
    pub(crate) fn of_both_protocols(
        send_timeout: Duration,
        settings: &str,
        is_ilnp: bool,
    ) -> anyhow::Result<Self> {
        let both = DaemonOptions::new(send_timeout, format!("ilnp = \"on\"\n{settings}"))?;
        let shim6 = DaemonOptions::new(send_timeout, settings)?;
        let scene =
            Self::between(Impairment::default(), [&both, if is_ilnp { &both } else { &shim6 }])?;
        if is_ilnp { Ok(scene) } else { scene.between_provable_addresses() }
    }

    /// The same scene with contexts between addresses that the daemons made.
    fn between_provable_addresses(mut self) -> anyhow::Result<Self> {
        self.protection = EventKind::ContextEstablished;
        for (end, daemon) in self.ends.iter_mut().zip(&self.daemons) {
            end.address = daemon.verifiable_address(ISPS[0])?;
        }
        Ok(self)
    }

    /// Starts a flow that sends every four milliseconds.
    pub(super) fn start(&self, flow: FlowName) -> anyhow::Result<Flow> {
        match flow {
            FlowName::Bulk => self.transfer(RATE, Carriage { chunk: CHUNK, ..Carriage::default() }),
            FlowName::Datagrams => self.datagrams(Direction::BothWays, PER_SECOND, 100),
        }
    }

    /// Starts an endless transfer from the first end, at `rate` octets a second.
    pub(crate) fn transfer(&self, rate: u64, carriage: Carriage) -> anyhow::Result<Flow> {
        let ([client, server], sender) = (self.ends.clone(), Sender::Client);
        let options = TcpOptions { client, server, sender, bytes: 1 << 40, rate };
        TcpTransfer::start_as(&options, carriage).map(Flow::Tcp)
    }

    /// Starts a flow of datagrams of `size` octets.
    pub(super) fn datagrams(
        &self,
        direction: Direction,
        per_second: u32,
        size: usize,
    ) -> anyhow::Result<Flow> {
        let ends = self.ends.clone();
        UdpFlow::start(&UdpOptions { ends, direction, per_second, size }).map(Flow::Udp)
    }

    /// Waits until every daemon has a context or session for the flow.
    pub(super) fn await_protection(&mut self) -> anyhow::Result<()> {
        let Self { daemons, protection, .. } = self;
        let mut daemons = daemons.iter_mut();
        daemons.try_for_each(|daemon| daemon.wait_for(protection, PROTECTION_LIMIT).map(drop))
    }

    /// Waits until every daemon has a context or session between the ends. False if a daemon has none in time.
    pub(super) fn protected_within(&mut self, limit: Duration) -> anyhow::Result<bool> {
        let end = Instant::now() + limit;
        while !self.is_protected() {
            interrupt::check()?;
            if Instant::now() > end {
                return Ok(false);
            }
            thread::sleep(interrupt::TICK);
        }
        Ok(true)
    }

    fn is_protected(&mut self) -> bool {
        let Self { daemons, ends, protection, .. } = self;
        let is_of_ends =
            |pair: &Pair| ends.iter().all(|end| [pair.local, pair.peer].contains(&end.address));
        let is_it = |event: &Event| {
            event.kind == *protection && event.ulids.as_ref().is_some_and(is_of_ends)
        };
        daemons.iter_mut().all(|daemon| daemon.events().iter().any(is_it))
    }

    /// Waits until a flow is protected, then for [`SETTLING`] so that both hosts know the locators of each other, then
    /// for a moment that follows from the seed.
    pub(crate) fn settle(&mut self, flow: &Flow, seed: u64) -> anyhow::Result<()> {
        flow.await_arrivals()?;
        self.await_protection()?;
        pause(SETTLING + SPREAD.mul_f64(part(seed, 0)))
    }

    /// Makes ISP 1 fail silently for both hosts. `None` if traffic has moved before.
    pub(super) fn silence(&mut self) -> anyhow::Result<Option<Instant>> {
        let armed = self.lab.arm(Failure::Silent { router: ISPS[0].into() })?;
        if self.has_moved() {
            return Ok(None);
        }
        Ok(Some(armed.strike()?))
    }

    /// Makes host A lose the carrier of its first uplink.
    pub(super) fn drop_carrier(&self) -> anyhow::Result<Instant> {
        let failure = Failure::CarrierDown { node: HOSTS[0].into(), interface: ISPS[0].into() };
        self.lab.fail(failure)
    }

    /// Makes a change that host A notices, and watches the flow until it has settled.
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

    /// Whether a daemon has moved traffic.
    pub(super) fn has_moved(&mut self) -> bool {
        let moved = |daemon: &mut Daemon| {
            daemon.events().iter().any(|event| event.kind == EventKind::Moved)
        };
        self.daemons.iter_mut().any(moved)
    }

    /// The last lines of the daemons' logs, for an error.
    pub(crate) fn logs(&self) -> String {
        self.daemons.iter().map(Daemon::tail).collect::<Vec<_>>().join("\n")
    }
}

/// Effects of a change on a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disturbance {
    /// Longest silence of the application after the change.
    pub(super) gap: Option<Duration>,
    /// Datagrams lost, or segments that the host sent again.
    pub(super) packets_lost: u64,
    /// Repeated segments that the other host reports as received before. `None` for datagrams.
    pub(super) needless: Option<u64>,
}

/// Builds the network. The cables of the hosts share the impairment, so that the failure is in the middle of the path:
/// each direction crosses two impaired cables.
fn build(topology: Topology, hosts: &[&str], cables: Impairment) -> anyhow::Result<Lab> {
    // An impairment without effect needs no wire.
    let plain = Impairment { seed: cables.seed, ..Impairment::default() };
    if cables == plain {
        return Lab::build(topology);
    }
    let jitter = cables.jitter.mul_f64(std::f64::consts::FRAC_1_SQRT_2);
    let half = Impairment { delay: cables.delay / 2, jitter, ..cables };
    Lab::build(hosts.iter().fold(topology, |all, host| all.with_cables_of(host, half)))
}

/// The two hosts of a network, at these addresses.
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
        /// Datagrams in both directions.
        Datagrams = "udp-bidir",
    }
}

/// Traffic between the ends.
pub(crate) enum Flow {
    Tcp(TcpTransfer),
    Udp(UdpFlow),
}

impl Flow {
    /// Arrivals by direction.
    pub(crate) fn arrivals(&self) -> Vec<Arrivals> {
        match self {
            Self::Tcp(transfer) => vec![transfer.arrivals().clone()],
            Self::Udp(flow) => flow.arrivals().into_iter().cloned().collect(),
        }
    }

    /// Waits until bytes have arrived in every direction.
    pub(super) fn await_arrivals(&self) -> anyhow::Result<()> {
        let arrivals = self.arrivals();
        interrupt::wait_for("traffic", BEGIN_LIMIT, || {
            Ok(arrivals.iter().all(|arrivals| arrivals.total() > 0).then_some(()))
        })
    }

    /// Ends the flow. Gives the number of lost datagrams, or of repeated segments: the caller passes these as `again`.
    pub(crate) fn lost(self, again: u64) -> anyhow::Result<u64> {
        match self {
            Self::Tcp(transfer) => transfer.abandon().map(|_| again),
            Self::Udp(flow) => {
                let ways = flow.finish()?;
                Ok(ways.iter().map(|way| way.sent.saturating_sub(way.received)).sum())
            }
        }
    }
}

/// Tells a silence from the usual gaps of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// Least length of a silence. A shorter one counts if [`GOES_ON`] of traffic follows.
    pub(super) least: Duration,
    /// Time after the cut by which packets on their way have arrived.
    pub(super) stragglers: Duration,
    /// Time after the cut at which the wait ends.
    pub(super) limit: Duration,
}

/// Waits until every direction flows again after a cut, and then for [`LINGER`]. Gives the longest silence, from the
/// last arrival before the silence to the first arrival after. `None` if a silence did not end.
pub(super) fn await_recovery(
    arrivals: &[Arrivals],
    cut: Instant,
    silence: Silence,
) -> anyhow::Result<Option<Gap>> {
    let settled = cut + silence.stragglers;
    let flows_again = |arrivals: &Arrivals| {
        // After `stragglers`, nothing arrives by the dead path. A flow that goes on has another path, even after a very
        // short silence.
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

/// Watches every direction until [`WATCHED`] after a cut and gives the longest silence since, even a very short one.
/// For cuts that the host notices.
fn watch(arrivals: &[Arrivals], cut: Instant) -> anyhow::Result<Option<Duration>> {
    interrupt::wait_for("traffic after the cut", RETURN_LIMIT, || {
        let mut lasts = arrivals.iter().map(Arrivals::last);
        Ok(lasts.all(|last| last.is_some_and(|last| last > cut + WATCHED)).then_some(()))
    })?;
    let gaps = arrivals.iter().filter_map(|arrivals| arrivals.longest_gap_after(cut));
    Ok(gaps.map(|gap| gap.length()).max())
}

/// Sleeps. Ctrl-C ends the sleep.
pub(crate) fn pause(length: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + length;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        interrupt::check()?;
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    Ok(interrupt::check()?)
}

/// Segments that the sockets of a host have retransmitted.
pub(super) fn segments_sent_again(host: &Namespace) -> anyhow::Result<u64> {
    counter(host, "snmp", "Tcp:", "RetransSegs")
}

/// Segments that peers report as received before, by D-SACK (RFC 2883).
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
    /// Gives the missing requirements, in words for people.
    pub(crate) fn obstacles(self) -> Vec<String> {
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

/// Octets a second, and octets of a write: one write in four milliseconds.
const RATE: u64 = 2_000_000;
const CHUNK: usize = 8 * 1024;
/// Datagrams a second: one in four milliseconds.
const PER_SECOND: u32 = 250;
/// Longest time until a flow has started.
const BEGIN_LIMIT: Duration = Duration::from_secs(15);
/// Longest time until a context or session protects a flow.
const PROTECTION_LIMIT: Duration = Duration::from_secs(60);
/// Time after which standby paths, subflows and round trip times are known. With ILNP, locators have been exchanged and
/// packets carry no nonce any more.
pub(super) const SETTLING: Duration = Duration::from_millis(2500);
const SPREAD: Duration = Duration::from_secs(1);
/// Time for which a flow is watched after a cut that the host notices.
const WATCHED: Duration = Duration::from_secs(1);
/// Longest time until a flow goes on.
const RETURN_LIMIT: Duration = Duration::from_secs(60);
/// Traffic that goes on this long after a cut has recovered.
const GOES_ON: Duration = Duration::from_secs(1);
/// Time for which a flow is watched after its recovery. A longer silence may follow a short one that was no silence.
const LINGER: Duration = Duration::from_millis(200);
