//! Budgets of messages for the core, so that a flood takes no more than a part of a processor.

use alloc::collections::BTreeMap;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::{ContextId, DropReason, Instant, Prefix};

use crate::shim6::both_ways::Standing;

/// The budgets of contexts, and the budget that all other messages share. Messages of strangers leave a part of it to
/// payload with an unknown tag and to messages between addresses whose traffic goes both ways: so a handshake passes in a
/// flood of made-up sources.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    shared: Budget,
    /// Payload with an unknown tag: the payload of a peer whose context this host has lost must not keep the messages
    /// that make the context again from arriving.
    unknown: Budget,
    /// By the lower bits of the id. Contexts whose lower bits are equal share a budget.
    contexts: BTreeMap<u32, Budget>,
    /// Peers at addresses whose traffic goes both ways.
    prefixes: OfPrefixes,
}

impl Budgets {
    /// Takes a message: from the budget of its context, if the context is known and the budget has room, else from the
    /// shared one.
    pub(crate) fn take(
        &mut self,
        context: Option<ContextId>,
        (peer, standing): (Ipv6Addr, Standing),
        now: Instant,
    ) -> Result<(), DropReason> {
        let of_context = context.is_some_and(|ContextId(id)| {
            self.contexts.entry(id % CONTEXT_BUDGETS).or_default().take(CONTEXT, now)
        });
        if of_context {
            return Ok(());
        }
        let prefix = Prefix::new(peer, 64);
        let is_heard = standing > Standing::Stranger && self.prefixes.has(prefix, PREFIX, now);
        self.take_shared(if is_heard { standing } else { Standing::Stranger }, now)?;
        // A message that is dropped makes no entry, whatever its source.
        if is_heard {
            self.prefixes.take([(prefix, PREFIX)], now);
        }
        Ok(())
    }

    /// Takes payload with an unknown tag, which the core answers with R1bis.
    pub(crate) fn take_unknown(&mut self, now: Instant) -> Result<(), DropReason> {
        if !self.unknown.has(UNKNOWN, now) {
            return Err(DropReason::RateLimited);
        }
        self.take_shared(Standing::BothWays, now)?;
        self.unknown.take(UNKNOWN, now);
        Ok(())
    }

    fn take_shared(&mut self, standing: Standing, now: Instant) -> Result<(), DropReason> {
        let burst = match standing {
            Standing::Stranger => BURST_OF_STRANGERS,
            Standing::BothWays => BURST_BOTH_WAYS,
            Standing::Known => BURST_OF_KNOWN,
        };
        let rate = Rate { interval: SHARED_INTERVAL, burst };
        self.shared.take(rate, now).then_some(()).ok_or(DropReason::RateLimited)
    }
}

/// Budgets of prefixes.
#[derive(Debug, Default)]
pub(crate) struct OfPrefixes {
    /// A prefix whose budget has no debt may be missing. An event takes from these budgets only after another budget has
    /// allowed it, so few prefixes have a debt at the same time.
    budgets: BTreeMap<Prefix, Budget>,
}

impl OfPrefixes {
    /// Whether the budget of this prefix has room for one message.
    pub(crate) fn has(&self, prefix: Prefix, rate: Rate, now: Instant) -> bool {
        self.budgets.get(&prefix).is_none_or(|budget| budget.has(rate, now))
    }

    /// Takes one message from each of these budgets.
    pub(crate) fn take(
        &mut self,
        prefixes: impl IntoIterator<Item = (Prefix, Rate)>,
        now: Instant,
    ) {
        if self.budgets.len() > MAX_PREFIXES {
            self.budgets.retain(|_, budget| !budget.is_whole(now));
        }
        for (prefix, rate) in prefixes {
            self.budgets.entry(prefix).or_default().take(rate, now);
        }
    }
}

/// Time at which a budget has no debt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget(Instant);

impl Budget {
    /// Takes one message; false: the budget is used up.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let is_left = self.has(rate, now);
        if is_left {
            self.0 = now + self.0.since(now) + rate.interval;
        }
        is_left
    }

    /// Whether the budget has room for one message.
    pub(crate) fn has(&self, rate: Rate, now: Instant) -> bool {
        self.0.since(now) <= rate.interval * (rate.burst - 1)
    }

    /// Whether the budget has no debt.
    pub(crate) fn is_whole(&self, now: Instant) -> bool {
        self.0 <= now
    }
}

/// Number of messages that a budget allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) interval: Duration,
    pub(crate) burst: u32,
}

/// 16,000 messages a second that are in no budget of a context. The daemon reads 20,000, so its queue stays short.
const SHARED_INTERVAL: Duration = Duration::from_nanos(62_500);
/// The same messages at once. A message that shows more finds more room.
const BURST_OF_STRANGERS: u32 = 1000;
const BURST_BOTH_WAYS: u32 = 1500;
const BURST_OF_KNOWN: u32 = 2000;
/// 100 messages a second, and 100 at once, between addresses whose traffic goes both ways, for a prefix of the peer.
const PREFIX: Rate = Rate { interval: Duration::from_millis(10), burst: 100 };
/// 4,000 packets of payload with an unknown tag a second, and 400 at once.
const UNKNOWN: Rate = Rate { interval: Duration::from_micros(250), burst: 400 };
/// 1,000 messages of a context a second, and 1,000 at once.
const CONTEXT: Rate = Rate { interval: Duration::from_millis(1), burst: 1000 };
const CONTEXT_BUDGETS: u32 = 4096;
/// Number of prefixes with budgets above which those without debt are forgotten.
const MAX_PREFIXES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// A million messages a second between addresses of contexts, each from another prefix.
    #[test]
    fn a_flood_from_many_prefixes_makes_few_entries_and_few_walks() {
        let mut budgets = Budgets::default();
        let (mut taken, mut walks) = (0, 0);
        for n in 0..300_000_u32 {
            let now = Instant::from_nanos(1_000_000_000 + u64::from(n) * 1000);
            let peer = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 64);
            let entries = budgets.prefixes.budgets.len();
            taken += u32::from(budgets.take(None, (peer, Standing::Known), now).is_ok());
            assert!(budgets.prefixes.budgets.len() <= MAX_PREFIXES + 1);
            let is_changed = budgets.prefixes.budgets.len() != entries;
            walks += u32::from(entries > MAX_PREFIXES && is_changed);
        }
        assert!((6799..=6801).contains(&taken), "{taken}");
        assert!(walks <= taken / 1000, "{walks}");
    }

    #[test]
    fn a_dropped_message_takes_from_no_budget() {
        let mut budgets = Budgets::default();
        let peer = |n: u128| (Ipv6Addr::from_bits(n << 64), Standing::BothWays);
        let now = Instant::from_nanos(1_000_000_000);
        for n in 0..BURST_BOTH_WAYS {
            budgets.take(None, peer(u128::from(n)), now).expect("room");
        }
        let late = peer(1 << 32);
        for _ in 0..500 {
            budgets.take(None, late, now).expect_err("no room");
            budgets.take_unknown(now).expect_err("no room");
        }
        let later = now + SHARED_INTERVAL * (PREFIX.burst + UNKNOWN.burst);
        for _ in 0..PREFIX.burst {
            budgets.take(None, late, later).expect("room");
        }
        for _ in 0..UNKNOWN.burst {
            budgets.take_unknown(later).expect("room");
        }
    }
}
