//! State of a move that the peer asks for, while this host asks the current pair whether it works (decision 153).

use moorline_types::{Instant, LocatorPair};

use crate::config::TRIES;
use crate::event::Cause;
use crate::machine::Wish;
use crate::message::{Report, is_about};

/// A move that probes of the peer ask for. An attacker on the path of another pair can forge such a probe, and cannot
/// answer a question by the current pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Follow {
    /// The pair that was current. This host asks by this pair.
    pub(crate) from: LocatorPair,
    /// The pair to which the peer wants payload to move. If the peer names none, this is `from`.
    pub(crate) to: LocatorPair,
    pub(crate) cause: Cause,
    /// Whether `to` has answered.
    pub(crate) is_ready: bool,
    /// A pair that the peer has left as much worse than another one.
    pub(crate) worse: Option<LocatorPair>,
    /// Start of the questions. An answer to an earlier question does not count.
    pub(crate) began: Instant,
    /// Number of questions sent.
    pub(crate) tries: u8,
    /// Nonces of the questions that were probes. An exploration that begins forgets the records of such probes.
    pub(crate) probes: [Option<u32>; TRIES as usize],
    /// When the next question leaves, or the stage ends.
    pub(crate) next: Instant,
    /// When the answer is due.
    pub(crate) due: Instant,
    pub(crate) stage: Stage,
}

/// The answer of the asked pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no answer yet.
    Asking,
    /// The peer has answered by the asked pair: payload stays.
    Refused,
    /// No answer came in time: payload moves.
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
    /// Begins questions by the current pair from `next` on. The answer is due at `due`.
    pub(crate) const fn asking(
        from: LocatorPair,
        wish: Wish,
        began: Instant,
        next: Instant,
        due: Instant,
    ) -> Self {
        let Wish { to, cause, is_ready, worse, .. } = wish;
        let (tries, probes, stage) = (0, [None; TRIES as usize], Stage::Asking);
        Self { from, to, cause, is_ready, worse, began, tries, probes, next, due, stage }
    }

    /// Makes a move without a question: payload may move until `end`.
    pub(crate) const fn vouched(from: LocatorPair, wish: Wish, now: Instant, end: Instant) -> Self {
        let asking = Self::asking(from, wish, now, end, now);
        Self { stage: Stage::Vouched, ..asking }
    }

    /// The pair that the peer has left as much worse, if the peer has shown that the probe is its own. Whoever knows the
    /// context tag can write these words.
    pub(crate) fn shown_worse(&self) -> Option<LocatorPair> {
        self.worse.filter(|_| self.stage == Stage::Vouched)
    }

    /// Whether the peer reports a question that was a probe.
    pub(crate) fn is_reported_by(&self, received: &[Report]) -> bool {
        let mut asked = self.probes.iter().flatten();
        asked.any(|nonce| received.iter().any(|report| is_about(report, self.from, *nonce)))
    }

    /// Takes another probe of the peer into account while this host asks. A pair that has answered is preferred.
    pub(crate) fn or(self, wish: Wish) -> Self {
        let worse = wish.worse.or(self.worse);
        if self.is_ready && !wish.is_ready {
            return Self { worse, ..self };
        }
        Self { to: wish.to, cause: wish.cause, is_ready: wish.is_ready, worse, ..self }
    }
}
