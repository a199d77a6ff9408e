//! Reactions to congestion that the data plane sees: events, and a policy that moves contexts away from it.

use alloc::collections::BTreeMap;
use core::cmp::Reverse;
use core::time::Duration;

use moorline_reap::{Cause, State};
use moorline_types::{ContextId, DropReason, Instant, LocatorPair};

use crate::event::EventKind;
use crate::machine::Contexts;
use crate::rules::Preference;

/// Says when a context leaves a congested pair, and how long a context that moves again and again is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionPolicy {
    /// Number of marks (CE received) and echoes (ECE received) within [`window`](Self::window) that is too high.
    pub threshold: u32,
    /// Time in which the signals count.
    pub window: Duration,
    /// Time for which a context that has left a pair stays. If the context leaves again within four times this time,
    /// the time doubles, up to [`MAX_HOLD`].
    pub hold: Duration,
}

/// The longest time for which a context is held after moves for congestion: 1 h. Not configurable.
pub const MAX_HOLD: Duration = Duration::from_secs(3600);
/// Least time between two events about the congestion of a context: 1 s. Not configurable.
pub const CONGESTED_EVERY: Duration = Duration::from_secs(1);

impl Default for CongestionPolicy {
    fn default() -> Self {
        Self { threshold: 50, window: Duration::from_secs(5), hold: Duration::from_secs(60) }
    }
}

/// State of the reactions to congestion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Congestion {
    policy: Option<CongestionPolicy>,
    /// Pairs that contexts left, and the time until which no context is moved there for congestion.
    left: BTreeMap<LocatorPair, Instant>,
}

/// State of a congested context.
#[derive(Clone, Debug)]
pub(crate) struct Congested {
    /// Signals that no event has told yet.
    ce: u32,
    ece: u32,
    told: Option<Instant>,
    /// Signals since `since`.
    signals: u32,
    since: Instant,
    /// When the context last moved for congestion, and how long it is held after that.
    moved: Option<(Instant, Duration)>,
}

impl Contexts {
    /// Sets the policy by which contexts leave congested pairs. `None`, the initial state: contexts stay.
    pub fn set_congestion_policy(&mut self, policy: Option<CongestionPolicy>) {
        self.congestion.policy = policy;
    }

    /// The data plane has seen signals of congestion.
    pub(crate) fn on_congested(
        &mut self,
        id: ContextId,
        (ce, ece): (u32, u32),
        now: Instant,
    ) -> Result<(), DropReason> {
        let active = self.active.get(&id).ok_or(DropReason::Gone)?;
        let locators = active.reap.current_pair();
        let ulids = self.ulids(id).ok_or(DropReason::Gone)?;
        let window = self.congestion.policy.map_or(Duration::ZERO, |policy| policy.window);
        let fresh = Congested { ce: 0, ece: 0, told: None, signals: 0, since: now, moved: None };
        let context = self.notes.entry(id).or_default().congested.get_or_insert(fresh);
        context.ce = context.ce.saturating_add(ce);
        context.ece = context.ece.saturating_add(ece);
        if now.since(context.since) > window {
            (context.signals, context.since) = (0, now);
        }
        context.signals = context.signals.saturating_add(ce).saturating_add(ece);
        if context.told.is_none_or(|told| now.since(told) >= CONGESTED_EVERY) {
            context.told = Some(now);
            let (ce, ece) = (core::mem::take(&mut context.ce), core::mem::take(&mut context.ece));
            self.tell(id, ulids, EventKind::Congested { locators, ce, ece });
        }
        self.leave_congestion(id, locators, now);
        Ok(())
    }

    /// Moves a context to another pair if the policy says so.
    fn leave_congestion(&mut self, id: ContextId, from: LocatorPair, now: Instant) {
        let Some(policy) = self.congestion.policy else { return };
        let Some(context) = self.notes.get(&id).and_then(|notes| notes.congested.as_ref()) else {
            return;
        };
        let is_held = context.moved.is_some_and(|(at, hold)| now.since(at) < hold);
        if context.signals < policy.threshold || is_held || self.pinned(id).is_some() {
            return;
        }
        let Some(to) = self.way_out(id, from, now) else { return };
        let Some(active) = self.active.get_mut(&id) else { return };
        if active.reap.state() != State::Operational || active.reap.pending_switch().is_some() {
            return;
        }
        let notes = self.notes.get_mut(&id);
        let Some(context) = notes.and_then(|notes| notes.congested.as_mut()) else { return };
        let hold = match context.moved {
            Some((at, hold)) if now.since(at) < hold * 4 => (hold * 2).min(MAX_HOLD),
            _ => policy.hold,
        };
        context.moved = Some((now, hold));
        context.signals = 0;
        if self.congestion.left.len() >= MAX_LEFT {
            self.congestion.left.retain(|_, until| *until > now);
        }
        if self.congestion.left.len() < MAX_LEFT {
            self.congestion.left.insert(from, now + hold);
        }
        // The pair is a candidate.
        let _ = active.reap.handle_switch(to, Cause::Congested, now);
        self.drain_reap(id, now);
    }

    /// The pair that shares the fewest ends with the congested pair. Avoided pairs, and pairs that contexts have left
    /// for congestion, do not count.
    fn way_out(&self, id: ContextId, from: LocatorPair, now: Instant) -> Option<LocatorPair> {
        let is_left = |pair| self.congestion.left.get(&pair).is_some_and(|until| *until > now);
        let others = self.paths(id).into_iter().filter(|path| {
            path.is_usable
                && path.preference != Preference::Avoid
                && path.pair != from
                && !is_left(path.pair)
        });
        others
            .min_by_key(|path| (path.pair.shared_ends(from), Reverse(path.preference)))
            .map(|path| path.pair)
    }
}

/// Limit of the pairs in the memory of left pairs.
const MAX_LEFT: usize = 1024;
