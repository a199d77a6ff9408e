use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use moorline_types::{ContextId, Instant, LocatorPair};

/// Probes that a host sends of its own accord: so many at once, then one in an interval, whatever
/// number of contexts have lost their path at the same time (RFC 5534 s4.3, "signaling storm").
///
/// In any `t` seconds at most `burst + t * rate` leave. Answers to the peer's probes are not counted:
/// they are paid for by the probe that asks, and have a limit of their own.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    interval: Duration,
    burst: u32,
    /// When all that was sent will have been paid for.
    paid_at: Instant,
    /// Contexts with a probe to send, in the order in which they asked.
    waiting: VecDeque<ContextId>,
}

impl Pacer {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, burst: burst.max(1), paid_at: Instant::ZERO, waiting: VecDeque::new() }
    }

    /// Takes one, unless others wait for their turn.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let may = self.waiting.is_empty() && self.next_free() <= now;
        if may {
            self.pay(now);
        }
        may
    }

    /// Takes one for a probe that can be left out: half of a burst stays for those that cannot.
    pub(crate) fn take_spare(&mut self, now: Instant) -> bool {
        self.waiting.is_empty()
            && self.paid_at <= now + self.interval * (self.burst / 2)
            && self.take(now)
    }

    /// Queues a context that is not in the queue yet.
    pub(crate) fn wait(&mut self, id: ContextId) {
        self.waiting.push_back(id);
    }

    /// The context whose turn it is; it has been paid for.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<ContextId> {
        if self.next_free() > now {
            return None;
        }
        let id = self.waiting.pop_front()?;
        self.pay(now);
        Some(id)
    }

    /// When the next turn is.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        self.waiting.front().map(|_| self.next_free())
    }

    fn next_free(&self) -> Instant {
        self.paid_at - self.interval * (self.burst - 1)
    }

    fn pay(&mut self, now: Instant) {
        self.paid_at = self.paid_at.max(now) + self.interval;
    }
}

/// What contexts have found out about pairs, for those that share them: who leaves a pair tries first
/// what has worked for the others that have left it. That saves probes, and is no proof: each context
/// probes for itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    /// By the pair that was left: the one that was found, and when.
    by_failed: BTreeMap<LocatorPair, (LocatorPair, Instant)>,
}

impl Learned {
    pub(crate) fn note(&mut self, from: LocatorPair, to: LocatorPair, now: Instant) {
        // What failed there works now, at least for one.
        self.by_failed.remove(&to);
        if self.by_failed.len() >= MAX_LEARNED {
            self.by_failed.retain(|_, (_, at)| now.since(*at) <= LEARNED_LIFETIME);
        }
        if self.by_failed.len() < MAX_LEARNED {
            self.by_failed.insert(from, (to, now));
        }
    }

    pub(crate) fn recall(&self, failed: LocatorPair, now: Instant) -> Option<LocatorPair> {
        let (to, at) = self.by_failed.get(&failed)?;
        (now.since(*at) <= LEARNED_LIFETIME).then_some(*to)
    }
}

/// Pairs of which something is remembered, at most.
const MAX_LEARNED: usize = 1024;
/// How long.
const LEARNED_LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn a_burst_goes_at_once_and_the_rest_in_turn() {
        let mut pacer = Pacer::new(10, 3);
        assert!((0..3).all(|_| pacer.take(NOW)));
        assert!(!pacer.take(NOW));
        (0..20).for_each(|n| pacer.wait(ContextId(n)));
        let mut now = NOW;
        let mut times = Vec::new();
        while let Some(at) = pacer.next_turn() {
            now = now.max(at);
            let id = pacer.pop(now).expect("its turn");
            assert_eq!(id.0 as usize, times.len(), "first come, first served");
            assert!(!pacer.take(now), "nobody passes the queue");
            times.push(now.since(NOW));
        }
        assert_eq!(times[0], Duration::from_millis(100));
        assert_eq!(times[19], Duration::from_secs(2), "10 a second");
        assert!((0..3).all(|_| pacer.take(now + Duration::from_secs(9))), "a burst again");
    }

    #[test]
    fn probes_that_can_be_left_out_leave_half_of_a_burst() {
        let mut pacer = Pacer::new(10, 100);
        let taken = (0..100).filter(|_| pacer.take_spare(NOW)).count();
        assert_eq!(taken, 51);
        assert_eq!((0..100).filter(|_| pacer.take(NOW)).count(), 49);
        pacer.wait(ContextId(1));
        assert!(!pacer.take_spare(NOW + Duration::from_secs(60)));
    }

    #[test]
    fn what_was_learned_is_recalled_for_a_minute_and_within_a_cap() {
        let pair = |n: u16| {
            let locator = |host| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, host).into();
            LocatorPair::new(locator(1), locator(2))
        };
        let mut learned = Learned::default();
        learned.note(pair(1), pair(2), NOW);
        assert_eq!(learned.recall(pair(1), NOW + LEARNED_LIFETIME), Some(pair(2)));
        let late = NOW + LEARNED_LIFETIME + Duration::from_secs(1);
        assert_eq!(learned.recall(pair(1), late), None);
        learned.note(pair(2), pair(1), NOW);
        assert_eq!(learned.recall(pair(1), NOW), None, "it works again");
        for n in 3..=u16::try_from(MAX_LEARNED).expect("fits") + 10 {
            learned.note(pair(n), pair(2000), NOW);
        }
        assert_eq!(learned.by_failed.len(), MAX_LEARNED);
        learned.note(pair(9000), pair(1), late);
        assert_eq!(learned.by_failed.len(), 1, "the old ones went");
    }
}
