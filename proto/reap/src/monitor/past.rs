//! State of contexts that have moved, prefer another pair, or have had a suspicion.

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Wait;
use crate::event::{Cause, FailureHint};
use crate::machine::SeenAnswer;

/// State of contexts that have moved, prefer another pair, or have had a suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    /// The preferred pair, to which traffic goes back when the pair works. `None`: no pair is better than the others.
    pub(crate) home: Option<LocatorPair>,
    /// The wait for the preferred pair.
    pub(crate) wait: Wait,
    /// The last answer that came by the preferred pair while another pair was current.
    pub(crate) home_answer: Option<SeenAnswer>,
    /// Number of comparisons in a row, before a return, that have shown nothing.
    pub(crate) interrupted: u8,
    /// When traffic last went back, and how often that was a mistake.
    pub(crate) went_home: Instant,
    pub(crate) mistakes: u8,
    /// The quiet time after trials that payload has caused.
    quiet: Quiet,
    /// The quiet time after trials that ICMPv6 errors have caused. Anybody can forge errors.
    quiet_of_errors: Quiet,
    /// Pairs that payload left as much worse than others, at most [`MAX_WORSE`]. Traffic goes back to them only after a
    /// comparison.
    pub(crate) worse: Vec<LocatorPair>,
    /// The pair that payload took before a failure moved it. Once this pair answers again, the current pair is compared
    /// with it.
    pub(crate) failed: Option<LocatorPair>,
    /// Whether there has been a hint that the current pair loses packets, since a failure moved payload.
    pub(crate) is_doubted: bool,
    /// When the last exploration ended. Checks that left before say nothing about the pair that payload took before a
    /// failure.
    pub(crate) explored_at: Instant,
    /// Number of comparisons with that pair, since the last move, that have not decided.
    undecided: u8,
    /// The pair for which the peer last said that it leaves a worse one, and when it said so.
    told: Option<(LocatorPair, Instant)>,
    /// No comparison that may end in a move away from the current pair begins before this time.
    pub(crate) compare_after: Instant,
    /// Number of pairs in a row that comparisons have shown to lose many packets, as the current pair does.
    pub(crate) rivals: u8,
    /// When the moves away from worse pairs so far will be paid for ([`Past::may_leave`]).
    leaves_paid_at: Instant,
}

/// The time after a trial in which the machine acts on no suspicion of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiet {
    pub(crate) until: Instant,
    doublings: u8,
}

impl Quiet {
    const NONE: Self = Self { until: Instant::ZERO, doublings: 0 };

    /// A trial has ended. Each further quiet time is twice as long.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.forgive(now);
        self.until = now + QUIET * (1 << self.doublings);
        self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
    }

    fn forgive(&mut self, now: Instant) {
        if now.since(self.until) >= FORGIVE {
            *self = Self::NONE;
        }
    }
}

impl Past {
    pub(super) fn new(home: LocatorPair) -> Self {
        Self {
            home: Some(home),
            wait: Wait::default(),
            home_answer: None,
            interrupted: 0,
            went_home: Instant::ZERO,
            mistakes: 0,
            quiet: Quiet::NONE,
            quiet_of_errors: Quiet::NONE,
            worse: Vec::new(),
            failed: None,
            is_doubted: false,
            explored_at: Instant::ZERO,
            undecided: 0,
            told: None,
            compare_after: Instant::ZERO,
            rivals: 0,
            leaves_paid_at: Instant::ZERO,
        }
    }

    /// Records that payload leaves this pair as much worse than `to`. The words of both hosts about the same move count
    /// once. A move that makes a failure good does not count: it leaves a pair known as worse, or goes back to the pair
    /// that had failed.
    pub(crate) fn note_left(&mut self, pair: LocatorPair, to: LocatorPair, now: Instant) {
        if self.note_worse(pair) && self.failed != Some(to) {
            let paid_at = self.leaves_paid_at.max(now) + BETWEEN_LEAVES;
            // A peer that moves more often than its share puts off the moves of this host no further.
            self.leaves_paid_at = paid_at.min(now + BETWEEN_LEAVES * LEAVES_AT_ONCE);
        }
    }

    /// Records that this pair is worse than the current one. If the list is full, the oldest entry goes. Returns false
    /// if the list has the pair already.
    fn note_worse(&mut self, pair: LocatorPair) -> bool {
        let is_new = !self.worse.contains(&pair);
        if is_new {
            if self.worse.len() >= MAX_WORSE {
                self.worse.remove(0);
            }
            self.worse.push(pair);
        }
        self.failed = self.failed.filter(|failed| *failed != pair);
        is_new
    }

    /// The peer says that it leaves this pair as worse than `to`. If payload of this host takes another pair than
    /// `pair`, the move does not count: whoever sees the current pair could forge such words for each pair, and so put
    /// off this host's own moves.
    pub(crate) fn note_told(
        &mut self,
        pair: LocatorPair,
        (current, to): (LocatorPair, LocatorPair),
        now: Instant,
    ) {
        if pair == current {
            self.note_left(pair, to, now);
        } else {
            self.note_worse(pair);
        }
        self.told = Some((to, now));
    }

    /// Payload has moved. If a host has chosen the new pair, the pair is not known as worse any more. After a failure
    /// the machine keeps what it knows about both pairs.
    pub(crate) fn note_move(
        &mut self,
        from: LocatorPair,
        to: LocatorPair,
        cause: Cause,
        now: Instant,
    ) {
        let is_told = self.told.take().is_some_and(|(told, at)| told == to && is_lately(at, now));
        if cause.is_choice() || is_told {
            self.acquit(to);
            let is_comparison = is_told || matches!(cause, Cause::Lossy | Cause::Slow);
            self.failed = self.failed.filter(|_| is_comparison);
        } else if !self.worse.contains(&from) {
            self.failed.get_or_insert(from);
        }
        self.failed = self.failed.filter(|failed| *failed != to);
        (self.is_doubted, self.undecided, self.rivals) = (false, 0, 0);
    }

    /// A comparison after a failure has shown that `current` is no worse than `other`: further answers of `other` begin
    /// no such comparison.
    pub(crate) fn note_no_worse(&mut self, current: LocatorPair, other: LocatorPair) {
        self.acquit(current);
        self.failed = self.failed.filter(|failed| *failed != other);
    }

    /// A comparison of `current` with `other` after a failure has not decided. The next answer of `other` begins another
    /// one, if `current` is known as worse or the next hint says that it loses packets. After [`MOST_UNDECIDED`] such
    /// comparisons `current` counts as no worse: a pair that loses hardly more is not checked without end.
    pub(crate) fn note_undecided(&mut self, current: LocatorPair, other: LocatorPair) {
        (self.is_doubted, self.undecided) = (false, self.undecided.saturating_add(1));
        if self.undecided >= MOST_UNDECIDED {
            self.undecided = 0;
            self.note_no_worse(current, other);
        }
    }

    /// This pair is not known as worse any more.
    pub(crate) fn acquit(&mut self, pair: LocatorPair) {
        self.worse.retain(|worse| *worse != pair);
    }

    /// Whether `current` should be compared with `other`, which has answered: a failure took payload from `other` to a
    /// pair that is in doubt, or to a pair that is known as worse.
    pub(crate) fn is_worth_comparing(&self, current: LocatorPair, other: LocatorPair) -> bool {
        let is_in_doubt = self.is_doubted && self.failed == Some(other);
        (is_in_doubt || self.worse.contains(&current))
            && other != current
            && !self.worse.contains(&other)
    }

    /// Whether payload may leave another pair as worse: [`LEAVES_AT_ONCE`] times in short succession, and then once in
    /// [`BETWEEN_LEAVES`]. So payload does this 7 times in an hour at most, whatever the paths do.
    pub(crate) fn may_leave(&self, now: Instant) -> bool {
        self.leaves_paid_at <= now + BETWEEN_LEAVES * (LEAVES_AT_ONCE - 1)
    }

    /// Whether a move away from a worse pair still counts.
    #[cfg(test)]
    pub(crate) fn is_unpaid(&self, now: Instant) -> bool {
        self.leaves_paid_at > now
    }

    /// A comparison begins that may end in a move away from the current pair.
    pub(crate) fn note_comparison(&mut self, now: Instant) {
        self.compare_after = now + BETWEEN_COMPARISONS;
    }

    pub(crate) const fn quiet(&self, hint: FailureHint) -> &Quiet {
        match hint {
            FailureHint::Unreachable => &self.quiet_of_errors,
            FailureHint::Retransmission | FailureHint::Silence | FailureHint::Unproven => {
                &self.quiet
            }
        }
    }

    pub(crate) const fn quiet_mut(&mut self, hint: FailureHint) -> &mut Quiet {
        match hint {
            FailureHint::Unreachable => &mut self.quiet_of_errors,
            FailureHint::Retransmission | FailureHint::Silence | FailureHint::Unproven => {
                &mut self.quiet
            }
        }
    }

    /// A comparison has shown that the preferred pair is worse than the current one: payload waits longer for it.
    pub(crate) fn keep_away_from(&mut self, home: LocatorPair) {
        self.note_worse(home);
        (self.wait, self.interrupted) = (Wait::default(), 0);
        self.mistakes = self.mistakes.max((self.mistakes + 1).min(MAX_MISTAKES_BY_COMPARISON));
    }

    /// Makes the quiet time short again after a while without a trial, and clears times that are over.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.quiet.forgive(now);
        self.quiet_of_errors.forgive(now);
        for time in [&mut self.compare_after, &mut self.leaves_paid_at] {
            if *time <= now {
                *time = Instant::ZERO;
            }
        }
        self.told = self.told.filter(|(_, at)| is_lately(*at, now));
        if self.failed.is_none() {
            self.explored_at = Instant::ZERO;
        }
    }
}

fn is_lately(told: Instant, now: Instant) -> bool {
    now.since(told) <= TOLD_LATELY
}

/// Quiet time after the first trial: 250 ms, doubled at most 6 times, to 16 s.
const QUIET: Duration = Duration::from_millis(250);
const MAX_DOUBLINGS: u8 = 6;
/// Time without a trial after which the quiet time is short again: 60 s.
const FORGIVE: Duration = Duration::from_secs(60);
/// Time between the beginnings of two comparisons that may end in a move away from the current pair: 30 s. A comparison
/// takes 20 s, so there is time for two in a minute.
const BETWEEN_COMPARISONS: Duration = Duration::from_secs(30);
/// Moves away from worse pairs in short succession: 4.
const LEAVES_AT_ONCE: u32 = 4;
/// Time after which one more such move is possible: 20 min.
const BETWEEN_LEAVES: Duration = Duration::from_secs(20 * 60);
/// Comparisons that keep payload away from its preferred pair double the hold time at most 3 times: to 4 min by
/// default.
const MAX_MISTAKES_BY_COMPARISON: u8 = 3;
/// Time within which payload follows a peer that leaves a pair as worse: 10 s. A switch has at most four probes.
const TOLD_LATELY: Duration = Duration::from_secs(10);
/// Comparisons in a row after a failure that may end without a decision: 3, a minute of checks.
const MOST_UNDECIDED: u8 = 3;
/// Pairs kept as left for a better one: 4, enough for a host with four uplinks.
const MAX_WORSE: usize = 4;
