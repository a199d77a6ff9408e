use std::time::Duration;

use moorline_host::Event;
use moorline_types::{Instant, LocatorPair};

use crate::plan::{End, Failure, Fault, LinkPlan, Plan, Traffic, Workload};
use crate::world::{BEGIN, World};

/// The demo's parameters.
#[derive(Clone, Copy, Debug)]
pub struct DemoConfig {
    /// Everything random comes from it.
    pub seed: u64,
    /// Send Timeout of both hosts.
    pub send_timeout: Duration,
    /// When ISP 1 dies.
    pub cut_at: Duration,
    /// Octets a second that the transfer is limited to.
    pub rate: u64,
    /// One way, from host to host.
    pub delay: Duration,
    /// Length of the intervals that throughput is given for.
    pub interval: Duration,
}

impl Default for DemoConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            send_timeout: Duration::from_secs(2),
            cut_at: Duration::from_secs(2),
            rate: 2_000_000,
            delay: Duration::from_millis(10),
            interval: Duration::from_millis(100),
        }
    }
}

/// The same transfer and the same failure, with Moorline and without.
#[derive(Clone, Debug, PartialEq)]
pub struct Demo {
    /// Both hosts have Moorline.
    pub with: DemoRun,
    /// Neither has.
    pub without: DemoRun,
}

/// One transfer. Times are from the beginning of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoRun {
    /// Throughput, interval by interval, without gaps.
    pub intervals: Vec<Interval>,
    /// What the hosts told, in order.
    pub marks: Vec<Mark>,
    /// When ISP 1 died.
    pub cut_at: Duration,
    /// Every octet of the transfer arrived.
    pub survived: bool,
    /// Whatever arrived was what was sent, to the octet, and nothing forbidden happened.
    pub bytes_ok: bool,
    /// Octets that arrived.
    pub octets: u64,
    /// From the cut until both hosts had moved.
    pub moved: Option<Duration>,
    /// Where host A, number 0, moved to.
    pub moved_to: Option<LocatorPair>,
    /// From the cut to the first octet after the silence.
    pub recovery: Option<Duration>,
    /// How long it was watched after the cut.
    pub waited: Duration,
}

/// Throughput over one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its begin.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Octets that the application got in it.
    pub octets: u64,
}

/// Something that a host told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// When.
    pub at: Duration,
    /// Number of the host: 0 is A, 1 is B.
    pub host: usize,
    /// What.
    pub event: Event,
}

/// Two hosts with two ISPs each; B sends to A; ISP 1 dies silently on the way; once with Moorline and
/// once without. The simulator's counterpart of the lab's demo, in virtual time.
#[must_use]
pub fn demo_scenario(config: &DemoConfig) -> Demo {
    Demo { with: play(config, true), without: play(config, false) }
}

fn play(config: &DemoConfig, has_moorline: bool) -> DemoRun {
    let plan = plan(config, has_moorline);
    let total = match plan.workloads[0].traffic {
        Traffic::Stream { octets, .. } => octets,
        Traffic::Requests { .. } | Traffic::OneWay { .. } => 0,
    };
    let mut world = World::new(plan, config.seed);
    let cut = BEGIN + config.cut_at;
    let patience = cut + config.send_timeout * 2 + Duration::from_secs(2);
    loop {
        world.run_until(world.now + STEP);
        let octets: u64 = world.arrivals.iter().map(|arrival| arrival.2).sum();
        let is_over = world.now >= patience && recovery(&world, cut).is_none();
        if octets == total || is_over || world.now >= patience + LONGEST_END {
            return finish(&world, config, cut, octets == total);
        }
    }
}

fn plan(config: &DemoConfig, has_moorline: bool) -> Plan {
    let end = |host| End { host, isp: 0 };
    let seconds = (config.cut_at + config.send_timeout + AFTER_RECOVERY).as_millis();
    let octets = config.rate.saturating_mul(u64::try_from(seconds).unwrap_or(u64::MAX)) / 1000;
    let traffic = Traffic::Stream { octets, rate: config.rate };
    let silent =
        |host| Fault { at: config.cut_at, until: None, failure: Failure::Silent(end(host)) };
    Plan {
        plain_hosts: if has_moorline { Vec::new() } else { vec![0, 1] },
        link: LinkPlan {
            delay: config.delay / 2,
            rate: Some(config.rate.saturating_mul(2)),
            ..LinkPlan::default()
        },
        send_timeout: config.send_timeout,
        // Linux's.
        max_rto: Duration::from_secs(120),
        workloads: vec![Workload { traffic, from: end(1), to: end(0), start: Duration::ZERO }],
        // ISP 1 is the same for both hosts.
        faults: vec![silent(0), silent(1)],
        ..Plan::pair()
    }
}

fn finish(world: &World, config: &DemoConfig, cut: Instant, survived: bool) -> DemoRun {
    let mut moves = [None; 2];
    for (at, host, event) in &world.events {
        if let Event::Moved { to, .. } = event
            && *at >= cut
        {
            moves[*host].get_or_insert((at.since(cut), *to));
        }
    }
    let [a, b] = moves;
    DemoRun {
        intervals: intervals(world, config.interval),
        marks: world
            .events
            .iter()
            .map(|&(at, host, event)| Mark { at: at.since(BEGIN), host, event })
            .collect(),
        cut_at: config.cut_at,
        survived,
        bytes_ok: world.oracle.violations.is_empty(),
        octets: world.arrivals.iter().map(|arrival| arrival.2).sum(),
        moved: a.and_then(|(a, _)| b.map(|(b, _)| a.max(b))),
        moved_to: a.map(|(_, to)| to),
        recovery: recovery(world, cut),
        waited: world.now.since(cut),
    }
}

/// The first arrival after the packets that were under way at the cut: behind the longest silence.
fn recovery(world: &World, cut: Instant) -> Option<Duration> {
    let mut last = cut;
    let mut longest: Option<(Duration, Instant)> = None;
    for &(at, _, _) in world.arrivals.iter().filter(|arrival| arrival.0 > cut) {
        let silence = at.since(last);
        if silence > SHORT && longest.is_none_or(|(longest, _)| silence > longest) {
            longest = Some((silence, at));
        }
        last = at;
    }
    longest.map(|(_, at)| at.since(cut))
}

fn intervals(world: &World, length: Duration) -> Vec<Interval> {
    let length = length.max(Duration::from_millis(1));
    let count = world.elapsed().as_nanos().div_ceil(length.as_nanos());
    let mut intervals: Vec<_> = (0..u32::try_from(count).unwrap_or(u32::MAX))
        .map(|n| Interval { from: length * n, to: length * (n + 1), octets: 0 })
        .collect();
    for &(at, _, octets) in &world.arrivals {
        let index = at.since(BEGIN).as_nanos() / length.as_nanos();
        let interval = usize::try_from(index).ok().and_then(|index| intervals.get_mut(index));
        if let Some(interval) = interval {
            interval.octets += octets;
        }
    }
    intervals
}

const STEP: Duration = Duration::from_millis(100);
/// A pause shorter than this is the stream's own affair.
const SHORT: Duration = Duration::from_millis(100);
/// The transfer is long enough to be seen going on after the recovery.
const AFTER_RECOVERY: Duration = Duration::from_secs(4);
/// What it gets to end after it has recovered.
const LONGEST_END: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
