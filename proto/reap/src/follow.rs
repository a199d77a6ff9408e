//! A pair that the peer would have payload take, while the current pair is asked whether it works (decision 153).

use moorline_types::{Instant, LocatorPair};

use crate::event::Cause;
use crate::machine::Wish;

/// A move that probes of the peer's ask for. Who is on the path of another pair only can forge such a probe, and cannot answer
/// a question by the current pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Follow {
    /// The pair that was current, and is asked.
    pub(crate) from: LocatorPair,
    /// The pair that the peer would have payload take.
    pub(crate) to: LocatorPair,
    pub(crate) cause: Cause,
    /// Whether `to` has answered.
    pub(crate) is_ready: bool,
    /// A pair that the peer has left as much worse than another one.
    pub(crate) worse: Option<LocatorPair>,
    /// Answers to questions that left before do not count.
    pub(crate) began: Instant,
    /// Questions that have left.
    pub(crate) tries: u8,
    /// When the next one leaves, or the stage is over.
    pub(crate) next: Instant,
    /// When the answer is due.
    pub(crate) due: Instant,
    pub(crate) stage: Stage,
}

/// The answer of the pair that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is none yet.
    Asking,
    /// The peer has answered by that pair: payload stays.
    Refused,
    /// There was none in time: payload moves.
    Unanswered,
    /// The peer has shown in another way that the probe is its own: payload moves.
    Vouched,
}

impl Stage {
    /// Whether payload may move.
    pub(crate) const fn is_granted(self) -> bool {
        matches!(self, Self::Unanswered | Self::Vouched)
    }
}

impl Follow {
    /// The current pair is asked from `next` on, and answers at `due` at the latest.
    pub(crate) const fn asking(
        from: LocatorPair,
        wish: Wish,
        began: Instant,
        next: Instant,
        due: Instant,
    ) -> Self {
        let Wish { to, cause, is_ready, worse, .. } = wish;
        Self { from, to, cause, is_ready, worse, began, tries: 0, next, due, stage: Stage::Asking }
    }

    /// There is nothing to ask, and payload may move until `end`.
    pub(crate) const fn vouched(from: LocatorPair, wish: Wish, now: Instant, end: Instant) -> Self {
        let asking = Self::asking(from, wish, now, end, now);
        Self { stage: Stage::Vouched, ..asking }
    }

    /// Another probe of the peer's, while the pair is asked: a pair that has answered is the better one.
    pub(crate) fn or(self, wish: Wish) -> Self {
        let worse = wish.worse.or(self.worse);
        if self.is_ready && !wish.is_ready {
            return Self { worse, ..self };
        }
        Self { to: wish.to, cause: wish.cause, is_ready: wish.is_ready, worse, ..self }
    }
}
