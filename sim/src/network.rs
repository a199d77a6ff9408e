use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_types::{Instant, Locator};

use crate::plan::{End, Failure, LinkPlan};
use crate::random::Random;

/// The uplinks of every host and what lies between them.
#[derive(Debug)]
pub(crate) struct Network {
    link: LinkPlan,
    ends: BTreeMap<Ipv6Addr, End>,
    /// Failures in force; the same one may be in force twice.
    failures: Vec<Failure>,
    /// When the queue of an uplink is empty, outbound and inbound.
    free_at: BTreeMap<(End, bool), Instant>,
}

impl Network {
    pub(crate) fn new(link: LinkPlan) -> Self {
        Self { link, ends: BTreeMap::new(), failures: Vec::new(), free_at: BTreeMap::new() }
    }

    pub(crate) fn attach(&mut self, address: Locator, end: End) {
        self.ends.insert(address.0, end);
    }

    pub(crate) fn end_of(&self, address: Ipv6Addr) -> Option<End> {
        self.ends.get(&address).copied()
    }

    pub(crate) fn begin(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    pub(crate) fn cease(&mut self, failure: Failure) {
        if let Some(at) = self.failures.iter().position(|&f| f == failure) {
            self.failures.swap_remove(at);
        }
    }

    /// Whether the host knows that it cannot use this uplink.
    pub(crate) fn is_down(&self, end: End) -> bool {
        self.failures.iter().any(|&f| f == Failure::Carrier(end) || f == Failure::Address(end))
    }

    /// Whether the host's daemon is not running.
    pub(crate) fn is_daemon_dead(&self, host: usize) -> bool {
        self.failures.contains(&Failure::Daemon { host })
    }

    /// Whether packets get from one end to another, but for bad luck.
    pub(crate) fn works(&self, from: End, to: End) -> bool {
        self.leaves(from, to) && self.arrives(to)
    }

    /// When copies of a packet arrive at the other end; not at all if it is lost on the way.
    pub(crate) fn send(
        &mut self,
        from: End,
        to: End,
        octets: usize,
        random: &mut Random,
        now: Instant,
    ) -> Vec<Instant> {
        if !self.leaves(from, to) || random.chance(self.link.loss_ppm) {
            return Vec::new();
        }
        let Some(out) = self.queue((from, true), octets, now) else { return Vec::new() };
        let Some(at) = self.queue((to, false), octets, out + self.link.delay) else {
            return Vec::new();
        };
        let copies = 1 + usize::from(random.chance(self.link.duplicate_ppm));
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let mut arrival = at + self.link.delay;
            if !self.link.jitter.is_zero() {
                arrival = arrival + random.duration(Duration::ZERO, self.link.jitter);
            }
            if random.chance(self.link.reorder_ppm) {
                arrival = arrival + random.duration(Duration::ZERO, LATE);
            }
            arrivals.push(arrival);
        }
        arrivals
    }

    /// Whether what arrives at an uplink now gets through to the host.
    pub(crate) fn arrives(&self, to: End) -> bool {
        !self.failures.iter().any(|&failure| match failure {
            Failure::Silent(end)
            | Failure::Inbound(end)
            | Failure::Carrier(end)
            | Failure::Address(end) => end == to,
            Failure::Outbound(_) | Failure::Path { .. } | Failure::Daemon { .. } => false,
        })
    }

    fn leaves(&self, sender: End, receiver: End) -> bool {
        !self.failures.iter().any(|&failure| match failure {
            Failure::Silent(end)
            | Failure::Outbound(end)
            | Failure::Carrier(end)
            | Failure::Address(end) => end == sender,
            Failure::Path { from, to } => from == sender && to == receiver,
            Failure::Inbound(_) | Failure::Daemon { .. } => false,
        })
    }

    /// When the last bit is through; `None` if the queue is full.
    fn queue(&mut self, key: (End, bool), octets: usize, now: Instant) -> Option<Instant> {
        let Some(rate) = self.link.rate else { return Some(now) };
        let begin = self.free_at.get(&key).map_or(now, |&free| free.max(now));
        if begin.since(now) > LONGEST_QUEUE {
            return None;
        }
        let nanos = octets as u64 * 1_000_000_000 / rate.max(1);
        let end = begin + Duration::from_nanos(nanos);
        self.free_at.insert(key, end);
        Some(end)
    }
}

/// A packet that is out of order is late by up to this much.
const LATE: Duration = Duration::from_secs(1);
/// What a queue holds, in time: packets beyond are lost.
const LONGEST_QUEUE: Duration = Duration::from_millis(50);
