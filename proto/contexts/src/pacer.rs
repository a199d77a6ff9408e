use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use moorline_types::{ContextId, Instant, LocatorPair};

/// Paces the probes that a host sends without a request: a burst at once, then one in each interval, however many
/// contexts have lost their path at the same time (RFC 5534 s4.3, "signaling storm"). While contexts wait, each answer
/// lets [`PROBES_PER_ANSWER`] more probes go at once. Answers show that probes arrive, and how many. So the pace
/// doubles with each round trip if the network is alive, and does not change otherwise.
///
/// In any `t` seconds at most `burst + t * rate` probes leave, and `PROBES_PER_ANSWER` more for each answer in this
/// time. Answers to the peer's probes do not count: each needs a probe of the peer, and they have a limit of their own.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    interval: Duration,
    burst: u32,
    /// When the probes sent so far will be paid for.
    paid_at: Instant,
    /// Probes of waiting contexts that answers have paid for.
    credit: u32,
    waiting: Waiting,
}

/// Contexts with a probe to send. The /64 prefixes of their peers take turns, so that one prefix with many exploring
/// contexts delays no other. Contexts of one prefix go in the order in which they asked.
#[derive(Clone, Debug, Default)]
struct Waiting {
    by_prefix: BTreeMap<[u8; 8], VecDeque<ContextId>>,
    /// The prefixes with waiting contexts, each once.
    turns: VecDeque<[u8; 8]>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn push(&mut self, prefix: [u8; 8], id: ContextId) {
        let contexts = self.by_prefix.entry(prefix).or_default();
        if contexts.is_empty() {
            self.turns.push_back(prefix);
        }
        contexts.push_back(id);
    }

    fn pop(&mut self) -> Option<ContextId> {
        let prefix = self.turns.pop_front()?;
        let contexts = self.by_prefix.get_mut(&prefix)?;
        let id = contexts.pop_front();
        if contexts.is_empty() {
            self.by_prefix.remove(&prefix);
        } else {
            self.turns.push_back(prefix);
        }
        id
    }
}

impl Pacer {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            interval: Duration::from_secs(1) / per_second.max(1),
            burst: burst.max(1),
            paid_at: Instant::ZERO,
            credit: 0,
            waiting: Waiting::default(),
        }
    }

    /// Takes room for a probe, unless others wait for their turn.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let may = self.waiting.is_empty() && self.next_free() <= now;
        if may {
            self.pay(now);
        }
        may
    }

    /// Takes room for a probe that can be left out. Half of a burst stays for probes that cannot.
    pub(crate) fn take_standby(&mut self, now: Instant) -> bool {
        self.waiting.is_empty()
            && self.paid_at <= now + self.interval * (self.burst / 2)
            && self.take(now)
    }

    /// Takes room for a comparison. Three quarters of a burst stay for checks that find failures, and for explorations.
    pub(crate) fn take_comparison(&mut self, now: Instant) -> bool {
        self.has_room_for_comparison(now) && self.take_standby(now)
    }

    /// Whether three quarters of a burst are left and no context waits.
    pub(crate) fn has_room_for_comparison(&self, now: Instant) -> bool {
        self.waiting.is_empty() && self.paid_at <= now + self.interval * (self.burst / 4)
    }

    /// Queues a context that is not in the queue, by the /64 of its peer's ULID.
    pub(crate) fn wait(&mut self, prefix: [u8; 8], id: ContextId) {
        self.waiting.push(prefix, id);
    }

    /// A probe was answered. If no context waits, the answer is not saved up.
    pub(crate) fn on_answer(&mut self) {
        if !self.waiting.is_empty() {
            self.credit = self.credit.saturating_add(PROBES_PER_ANSWER);
        }
    }

    /// Gives the context whose turn it is. If it still has a probe, the caller [pays](Self::pay_turn) for the probe.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<ContextId> {
        if self.credit == 0 && self.next_free() > now {
            return None;
        }
        let id = self.waiting.pop();
        if id.is_none() {
            self.credit = 0;
        }
        id
    }

    pub(crate) fn pay_turn(&mut self, now: Instant) {
        match self.credit.checked_sub(1) {
            Some(left) => self.credit = left,
            None => self.pay(now),
        }
    }

    /// When the next turn comes.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then(|| self.next_free())
    }

    fn next_free(&self) -> Instant {
        self.paid_at - self.interval * (self.burst - 1)
    }

    fn pay(&mut self, now: Instant) {
        self.paid_at = self.paid_at.max(now) + self.interval;
    }
}

/// Knowledge about pairs that contexts share: a context that leaves a pair first tries the pair that has worked for
/// others that left it. This saves probes and proves nothing: each context probes for itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    /// By the left pair: the found pair, and the time.
    by_failed: BTreeMap<LocatorPair, (LocatorPair, Instant)>,
}

impl Learned {
    pub(crate) fn note(&mut self, from: LocatorPair, to: LocatorPair, now: Instant) {
        // The pair works now, at least for one context, so its earlier failure no longer counts.
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

/// Probes that an answered probe allows to waiting contexts.
const PROBES_PER_ANSWER: u32 = 2;
/// Limit of the left pairs in the memory.
const MAX_LEARNED: usize = 1024;
/// Lifetime of such an entry.
const LEARNED_LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::net::Ipv6Addr;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const PEERS: [u8; 8] = [0x20, 1, 0xd, 0xb8, 0, 0xb, 0, 0];
    const OTHERS: [u8; 8] = [0x20, 1, 0xd, 0xb8, 0, 0xc, 0, 0];

    #[test]
    fn a_prefix_with_many_contexts_holds_no_other_up() {
        let mut pacer = Pacer::new(10, 1);
        (0..100).for_each(|n| pacer.wait(PEERS, ContextId(n)));
        (100..102).for_each(|n| pacer.wait(OTHERS, ContextId(n)));
        (0..104).for_each(|_| pacer.on_answer());
        let order: Vec<_> = core::iter::from_fn(|| pacer.pop(NOW)).map(|id| id.0).collect();
        assert_eq!(order[..6], [0, 100, 1, 101, 2, 3]);
        assert_eq!(order[6..], (4..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_in_turn() {
        let mut pacer = Pacer::new(10, 3);
        assert!((0..3).all(|_| pacer.take(NOW)));
        assert!(!pacer.take(NOW));
        (0..20).for_each(|n| pacer.wait(PEERS, ContextId(n)));
        let mut now = NOW;
        let mut times = Vec::new();
        while let Some(at) = pacer.next_turn() {
            now = now.max(at);
            let id = pacer.pop(now).expect("its turn");
            pacer.pay_turn(now);
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
        let taken = (0..100).filter(|_| pacer.take_standby(NOW)).count();
        assert_eq!(taken, 51);
        assert_eq!((0..100).filter(|_| pacer.take(NOW)).count(), 49);
        pacer.wait(PEERS, ContextId(1));
        assert!(!pacer.take_standby(NOW + Duration::from_secs(60)));
    }

    #[test]
    fn an_answer_lets_two_more_go_and_no_answer_none() {
        let mut pacer = Pacer::new(10, 1);
        pacer.on_answer();
        assert!(pacer.take(NOW) && !pacer.take(NOW), "nobody waited: nothing was saved up");
        (0..9).for_each(|n| pacer.wait(PEERS, ContextId(n)));
        assert_eq!(pacer.pop(NOW), None);
        pacer.on_answer();
        for n in 0..2 {
            assert_eq!(pacer.pop(NOW), Some(ContextId(n)));
            pacer.pay_turn(NOW);
        }
        assert_eq!(pacer.pop(NOW), None);
        assert_eq!(pacer.next_turn(), Some(NOW + Duration::from_millis(100)), "the rest in turn");
        pacer.on_answer();
        // A context without anything left to send costs no turn.
        assert_eq!(pacer.pop(NOW), Some(ContextId(2)));
        (3..9).for_each(|_| pacer.on_answer());
        (3..9).for_each(|n| assert_eq!(pacer.pop(NOW), Some(ContextId(n))));
        assert_eq!(pacer.pop(NOW), None);
        pacer.wait(PEERS, ContextId(9));
        assert_eq!(pacer.pop(NOW), None, "what was left is gone with the last that waited");
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
