use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::ensure;
use moorline_datapath::shim6::TriggerPolicy;
use moorline_plane::shim6::{Flows, MAX_FLOWS, Passage};
use moorline_types::{Instant, Ulid, UlidPair};
use serde::Serialize;

use crate::trace::Packet;

/// The contexts that the traffic of a host, or of all hosts, would make.
///
/// The code of the user-space data plane counts the traffic, with its bounds. When that code reports a trigger, a
/// context begins at once. The context ends after some time without a packet.
pub(super) struct State {
    host: Option<Ipv6Addr>,
    policy: TriggerPolicy,
    collect: Duration,
    flows: Flows,
    /// Time of the last packet of each context.
    contexts: HashMap<UlidPair, Duration>,
    /// Times at which a context may have ended.
    looks: BinaryHeap<Reverse<(Duration, UlidPair)>>,
    step: Duration,
    /// Time up to which the current step is counted.
    clock: Duration,
    /// End of the current step.
    until: Duration,
    current: Step,
    /// Contexts times nanoseconds: of the current step, and of all finished steps.
    area: u128,
    pub(super) whole_area: u128,
    /// The finished steps.
    pub(super) steps: Vec<Step>,
}

/// Counts of a step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Step {
    /// Most contexts at the same time.
    #[serde(rename = "contexts")]
    pub(super) most: usize,
    /// Mean number of contexts.
    pub(super) mean: f64,
    /// Number of contexts made.
    pub(super) made: u64,
}

impl State {
    /// A state without contexts. If `host` is given, only its traffic counts.
    pub(super) fn new(
        host: Option<Ipv6Addr>,
        policy: TriggerPolicy,
        collect: Duration,
        step: Duration,
    ) -> Self {
        Self {
            host,
            policy,
            collect,
            flows: Flows::new(MAX_FLOWS),
            contexts: HashMap::new(),
            looks: BinaryHeap::new(),
            step,
            clock: Duration::ZERO,
            until: step,
            current: Step::default(),
            area: 0,
            whole_area: 0,
            steps: Vec::new(),
        }
    }

    /// Handles a packet. `packet.at` is the time since the start. An error says that the trace is too long for such
    /// steps.
    pub(super) fn handle(&mut self, packet: &Packet) -> anyhow::Result<()> {
        let Some(pair) = self.pair(packet) else { return Ok(()) };
        self.advance(packet.at)?;
        if let Some(last) = self.contexts.get_mut(&pair) {
            *last = packet.at.max(*last);
            return Ok(());
        }
        let now = instant(packet.at);
        let octets = usize::try_from(packet.octets).unwrap_or(usize::MAX);
        // A trace does not say what a peer has accepted: each pair counts as one with traffic in both directions.
        let mut is_news = self.flows.count(pair, (octets, Passage::Sent), &self.policy, now);
        if self.policy.packets <= MAX_TRIGGER_PACKETS {
            // The entry stands for several packets.
            for _ in 1..packet.packets.min(self.policy.packets) {
                is_news |= self.flows.count(pair, (0, Passage::Sent), &self.policy, now);
            }
        }
        if is_news {
            self.flows.forget(pair);
            self.contexts.insert(pair, packet.at);
            self.looks.push(Reverse((packet.at + self.collect, pair)));
            self.current.made += 1;
            self.current.most = self.current.most.max(self.contexts.len());
        }
        Ok(())
    }

    /// Ends the last step at `end`, the time of the last packet. An error says that the trace is too long for such
    /// steps.
    pub(super) fn finish(&mut self, end: Duration) -> anyhow::Result<()> {
        self.advance(end)?;
        let part = self.step.saturating_sub(self.until.saturating_sub(end));
        if !part.is_zero() {
            self.end_step(part)?;
        }
        Ok(())
    }

    /// The pair of a packet. `None` for traffic that does not count: multicast and ICMP, as in the data planes, and
    /// traffic of other hosts.
    fn pair(&self, packet: &Packet) -> Option<UlidPair> {
        let Packet { source, destination, protocol, .. } = *packet;
        let is_icmp = matches!(protocol, Some(1 | 58));
        if is_icmp || !is_unicast(source) || !is_unicast(destination) || source == destination {
            return None;
        }
        let (local, peer) = match self.host {
            None => (source.min(destination), source.max(destination)),
            Some(host) if host == source => (source, destination),
            Some(host) if host == destination => (destination, source),
            Some(_) => return None,
        };
        Some(UlidPair::new(Ulid(local), Ulid(peer)))
    }

    /// Advances to `now` and removes contexts that ended before.
    fn advance(&mut self, now: Duration) -> anyhow::Result<()> {
        while let Some(&Reverse((at, pair))) =
            self.looks.peek().filter(|Reverse((at, _))| *at <= now)
        {
            self.pass(at)?;
            self.looks.pop();
            let Some(&last) = self.contexts.get(&pair) else { continue };
            if last + self.collect <= at {
                self.contexts.remove(&pair);
            } else {
                self.looks.push(Reverse((last + self.collect, pair)));
            }
        }
        self.pass(now)
    }

    /// Lets time pass without an event.
    fn pass(&mut self, now: Duration) -> anyhow::Result<()> {
        while now >= self.until {
            self.pass_within(self.until);
            self.end_step(self.step)?;
            self.until = self.until.saturating_add(self.step);
        }
        self.pass_within(now);
        Ok(())
    }

    fn pass_within(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.clock);
        self.area += passed.as_nanos() * self.contexts.len() as u128;
        self.clock = self.clock.max(now);
    }

    fn end_step(&mut self, length: Duration) -> anyhow::Result<()> {
        let most = MAX_STEPS;
        ensure!(self.steps.len() < most, "the trace is longer than {most} steps: take longer ones");
        let mean = self.area as f64 / length.as_nanos() as f64;
        self.whole_area += std::mem::take(&mut self.area);
        self.steps.push(Step { mean, ..self.current });
        self.current = Step { most: self.contexts.len(), ..Step::default() };
        Ok(())
    }
}

fn is_unicast(address: Ipv6Addr) -> bool {
    let is_v4_unicast = address
        .to_ipv4_mapped()
        .is_none_or(|v4| !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified());
    !address.is_multicast() && !address.is_unspecified() && is_v4_unicast
}

fn instant(at: Duration) -> Instant {
    // No event occurs at time zero.
    Instant::ZERO + Duration::from_secs(1) + at
}

/// Most steps of a trace: almost a year at five minutes each.
const MAX_STEPS: usize = 100_000;
/// Greatest number of packets that a policy may wait for.
const MAX_TRIGGER_PACKETS: u32 = 10_000;

#[cfg(test)]
mod tests;
