//! Budgets of messages for the core, so that a flood takes no more than a part of a processor.

use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_types::{ContextId, DropReason, Instant};

/// The budgets of contexts, that of payload with an unknown tag, and the budget that all other messages share.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    strangers: Budget,
    /// The payload of a peer whose context this host has lost must not keep the messages that make the context again
    /// from arriving.
    unknown: Budget,
    /// By the lower bits of the id. Contexts whose lower bits are equal share a budget.
    contexts: BTreeMap<u32, Budget>,
}

impl Budgets {
    /// Takes a message: from the budget of its context, if the context is known and the budget has room, else from
    /// that of strangers.
    pub(crate) fn take(
        &mut self,
        context: Option<ContextId>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let of_context = context.is_some_and(|ContextId(id)| {
            self.contexts.entry(id % CONTEXT_BUDGETS).or_default().take(CONTEXT, now)
        });
        if of_context || self.strangers.take(STRANGERS, now) {
            return Ok(());
        }
        Err(DropReason::RateLimited)
    }

    /// Takes payload with an unknown tag, which the core answers with R1bis.
    pub(crate) fn take_unknown(&mut self, now: Instant) -> Result<(), DropReason> {
        self.unknown.take(UNKNOWN, now).then_some(()).ok_or(DropReason::RateLimited)
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

/// 20,000 messages of strangers a second, and 2,000 at once.
const STRANGERS: Rate = Rate { interval: Duration::from_micros(50), burst: 2000 };
/// 4,000 packets of payload with an unknown tag a second, and 400 at once.
const UNKNOWN: Rate = Rate { interval: Duration::from_micros(250), burst: 400 };
/// 1,000 messages of a context a second, and 1,000 at once.
const CONTEXT: Rate = Rate { interval: Duration::from_millis(1), burst: 1000 };
const CONTEXT_BUDGETS: u32 = 4096;
