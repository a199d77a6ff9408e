use core::time::Duration;

use moorline_types::Instant;

use super::plan::IspPlan;

/// An ISP: it carries packets with a delay and at a rate, and drops what waits too long.
#[derive(Clone, Debug)]
pub struct Isp {
    pub(super) plan: IspPlan,
    pub(super) is_alive: bool,
    /// Times when the last packet of each host has left its queue.
    idle_from: [Instant; 2],
    /// Packets that were carried.
    pub carried: u64,
    /// Packets that were dropped because the ISP was dead.
    pub swallowed: u64,
    /// Packets that were dropped because the queue was full.
    pub overflowed: u64,
}

impl Isp {
    pub(super) const fn new(plan: IspPlan) -> Self {
        let idle_from = [Instant::ZERO; 2];
        Self { plan, is_alive: true, idle_from, carried: 0, swallowed: 0, overflowed: 0 }
    }

    /// Carries a packet of a host that comes in at this time. Returns when it comes out; `None` if it is dropped.
    pub(super) fn carry(&mut self, host: usize, len: usize, at: Instant) -> Option<Instant> {
        if !self.is_alive {
            self.swallowed += 1;
            return None;
        }
        let idle_from = self.idle_from.get_mut(host)?;
        let begins = (*idle_from).max(at);
        if begins.since(at) > LONGEST_QUEUE {
            self.overflowed += 1;
            return None;
        }
        let nanos = u64::try_from(len).unwrap_or(u64::MAX).saturating_mul(1_000_000_000);
        *idle_from = begins + Duration::from_nanos(nanos / self.plan.rate.max(1));
        self.carried += 1;
        Some(*idle_from + self.plan.delay)
    }
}

/// Longest time that a packet waits in a queue.
const LONGEST_QUEUE: Duration = Duration::from_millis(100);
