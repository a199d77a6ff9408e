use std::time::Duration;

use moorline_host::{Event, ReapState};
use moorline_types::Instant;

use crate::outcome::{Outcome, WorkloadOutcome};
use crate::plan::{End, Plan, Traffic, Workload};
use crate::world::{BEGIN, World};

/// Plays a plan. Equal seeds and plans give equal outcomes.
#[must_use]
pub fn run(seed: u64, plan: &Plan) -> Outcome {
    let mut world = World::new(plan.clone(), seed);
    world.run_until(BEGIN + plan.settled());
    let settled = world.now;
    let prospects: Vec<_> =
        plan.workloads.iter().map(|workload| Prospect::of(&world, workload)).collect();
    let longest = prospects.iter().map(|prospect| prospect.bound).max().unwrap_or_default();
    let end = settled + longest.min(plan.limit) + OBSERVATION;
    // Until then a failure may not have been noticed yet.
    let earliest = settled + plan.send_timeout * 2 + OBSERVATION;
    while world.now < end {
        world.run_until(world.now + STEP);
        let is_done =
            |(index, prospect): (usize, &Prospect)| !prospect.could_go_on || flows(&world, index);
        if world.now >= earliest && prospects.iter().enumerate().all(is_done) {
            break;
        }
        if !world.oracle.violations.is_empty() {
            break;
        }
    }
    finish(world, settled, &prospects)
}

fn finish(mut world: World, settled: Instant, prospects: &[Prospect]) -> Outcome {
    if world.plan.attack_interval.is_zero() {
        check_false_alarms(&mut world);
        for (index, node) in world.nodes.iter().enumerate() {
            world.oracle.on_drops(index, "core", node.host.drops(), world.now);
            world.oracle.on_drops(index, "data plane", node.plane.drops(), world.now);
        }
    }
    let workloads: Vec<_> = prospects
        .iter()
        .enumerate()
        .map(|(index, prospect)| WorkloadOutcome {
            octets: octets(&world, index),
            was_protected: prospect.was_protected,
            could_go_on: prospect.could_go_on,
            went_on: flows(&world, index),
            recovered_after: recovered_after(&world, index, settled),
            bound: prospect.bound,
        })
        .collect();
    let could: Vec<_> = workloads.iter().filter(|workload| workload.could_go_on).collect();
    let is_in_time = |workload: &&WorkloadOutcome| {
        workload.went_on && workload.recovered_after <= workload.bound
    };
    Outcome {
        survived: could.iter().all(is_in_time) && world.oracle.violations.is_empty(),
        recovered_after: could.iter().map(|w| w.recovered_after).max().unwrap_or_default(),
        violations: std::mem::take(&mut world.oracle.violations),
        ended: world.elapsed(),
        explorations: world.events.iter().filter(|(_, _, event)| is_exploring(event)).count(),
        moves: world.events.iter().filter(|e| matches!(e.2, Event::Moved { .. })).count(),
        packets: world.packets,
        fingerprint: world.fingerprint,
        workloads,
    }
}

/// While nothing fails and no packet is lost or late, nobody may suspect anything.
fn check_false_alarms(world: &mut World) {
    let link = &world.plan.link;
    if link.loss_ppm > 0 || link.reorder_ppm > 0 {
        return;
    }
    let first = world.plan.faults.iter().map(|fault| BEGIN + fault.at).min();
    let first = first.unwrap_or(world.now);
    let alarm = world.events.iter().find(|(at, _, event)| *at < first && is_exploring(event));
    if let Some(&(at, host, event)) = alarm {
        world.oracle.violation(at, format!("host {host}: false alarm, {event:?}"));
    }
}

fn is_exploring(event: &Event) -> bool {
    matches!(event, Event::StateChanged { to: ReapState::Exploring, .. })
}

/// What may be expected of a workload once the network does not change any more.
struct Prospect {
    was_protected: bool,
    could_go_on: bool,
    bound: Duration,
}

impl Prospect {
    fn of(world: &World, workload: &Workload) -> Self {
        let was_protected = is_protected(world, workload);
        let Workload { from, to, .. } = *workload;
        let could_go_on = if was_protected {
            is_connected(world, from.host, to.host) && is_connected(world, to.host, from.host)
        } else {
            world.network.works(from, to) && world.network.works(to, from)
        };
        Self { was_protected, could_go_on, bound: bound(&world.plan) }
    }
}

/// Whether both ends have a context for it.
fn is_protected(world: &World, workload: &Workload) -> bool {
    let ulids = world.ulids(workload);
    let has_context = |host: usize, local, peer| {
        world.nodes[host].host.contexts().any(|context| {
            (context.ulids.local, context.ulids.peer) == (local, peer)
                && context.established.is_some()
        })
    };
    has_context(workload.from.host, ulids.local, ulids.peer)
        && has_context(workload.to.host, ulids.peer, ulids.local)
}

/// Whether any pair of uplinks gets packets from one host to the other.
fn is_connected(world: &World, from: usize, to: usize) -> bool {
    let isps = world.plan.isps;
    let ends = |host| (0..isps).map(move |isp| End { host, isp });
    ends(from).any(|source| ends(to).any(|destination| world.network.works(source, destination)))
}

/// How long recovery may take: noticing it, then every pair once in each direction, probed at intervals
/// that have grown with the outage and go on growing to Max Probe Timeout (RFC 5534 s4.3), then the
/// next retransmission of the stream. Twice that where probes get lost.
fn bound(plan: &Plan) -> Duration {
    let first = plan.faults.iter().map(|fault| fault.at).min();
    let outage = plan.settled().saturating_sub(first.unwrap_or(plan.settled()));
    let mut interval = outage.clamp(LEAST_BACKOFF, MAX_PROBE_TIMEOUT);
    let mut bound = plan.send_timeout * 3;
    for _ in 0..2 * plan.isps * plan.isps {
        bound += interval * 12 / 10;
        interval = (interval * 2).min(MAX_PROBE_TIMEOUT);
    }
    let is_bad = plan.link.loss_ppm > 0 || !plan.attack_interval.is_zero();
    bound * (1 + u32::from(is_bad)) + plan.max_rto * 4
}

/// Whether octets have been coming in for a while, or are all there.
fn flows(world: &World, index: usize) -> bool {
    if let Traffic::Stream { octets: total, .. } = world.plan.workloads[index].traffic
        && octets(world, index) == total
    {
        return true;
    }
    let since = world.now - OBSERVATION;
    let mut last = world.now;
    for &(at, _, _) in world.arrivals.iter().rev().filter(|arrival| arrival.1 == index) {
        if last.since(at) > silence(&world.plan) {
            return false;
        }
        last = at;
        if at < since {
            return true;
        }
    }
    false
}

/// The end of the last long silence, counted from when the network had settled.
fn recovered_after(world: &World, index: usize, settled: Instant) -> Duration {
    let mut last = BEGIN;
    let mut recovered = Duration::ZERO;
    for &(at, _, _) in world.arrivals.iter().filter(|arrival| arrival.1 == index) {
        if at > settled && at.since(last) > silence(&world.plan) {
            recovered = at.since(settled);
        }
        last = at;
    }
    recovered
}

fn octets(world: &World, index: usize) -> u64 {
    world.arrivals.iter().filter(|arrival| arrival.1 == index).map(|arrival| arrival.2).sum()
}

/// What a stream that lost a retransmission may be silent for.
fn silence(plan: &Plan) -> Duration {
    plan.max_rto + Duration::from_secs(1)
}

/// A workload goes on if it does for this long.
const OBSERVATION: Duration = Duration::from_secs(6);
const STEP: Duration = Duration::from_secs(1);
/// Interval between probes when an outage was short: the first after the initial ones.
const LEAST_BACKOFF: Duration = Duration::from_secs(1);
/// RFC 5534 s7.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
