//! Comparison of two pairs, measured at the same moments: is one pair much worse than the other? (decision 141)

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::event::Cause;

/// A comparison of the current pair with another one. A check leaves by each pair every [`GAP`].
///
/// Both pairs are checked at the same moments, so a disturbance of both does not count. A comparison has
/// [parts](Purpose::parts) of [`PART`] checks. If a part decides, no further part follows.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) other: LocatorPair,
    pub(crate) purpose: Purpose,
    /// When the next checks are due, or the answers of this part.
    pub(crate) next: Instant,
    /// How long the answers may take at the end of a part.
    patience: Duration,
    /// When checks by both pairs left.
    sent: Vec<Instant>,
    /// Whether the time of the first checks has come, with room for them or not.
    has_begun: bool,
    /// How often the host had no room for the checks.
    postponed: u8,
    /// Whether the comparison waits for the answers of this part.
    is_waiting: bool,
    /// One bit for each check that does not count, by its place in `sent`: the machine has forgotten it.
    forgotten: u128,
    by_current: Tally,
    by_other: Tally,
}

/// The question of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Is the current pair so much worse that payload leaves it for the other pair?
    Leave,
    /// A failure has moved payload. Is the current pair worse than the other one, which answers again?
    AfterFailure,
    /// Is the other pair, which payload left as worse, as good as the current pair again?
    Return,
    /// Is the other pair, which had failed and answers again, as good as the current pair?
    FailBack,
}

impl Purpose {
    /// Number of parts. A pair that payload left as worse has to be good for longer than a pair that had failed.
    const fn parts(self) -> usize {
        match self {
            Self::Leave => 4,
            Self::AfterFailure => 5,
            Self::Return => 3,
            Self::FailBack => 1,
        }
    }

    /// Whether payload goes back to the preferred pair if the comparison ends well.
    pub(crate) const fn is_before_return(self) -> bool {
        match self {
            Self::Return | Self::FailBack => true,
            Self::Leave | Self::AfterFailure => false,
        }
    }
}

/// The next thing to do in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to do before [`Comparison::next`].
    Wait,
    /// Send a check by each pair.
    Check,
    /// The comparison is over.
    End(Outcome),
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Payload stays on its pair.
    Stay,
    /// The peer has answered by neither pair, so nothing is known. Payload stays.
    Unknown,
    /// After a failure: the current pair has lost more checks than the other one, but not enough, or too few checks
    /// count, or the other pair is silent again. Payload stays.
    Undecided,
    /// The current pair is much worse, for this cause.
    Leave(Cause),
    /// The other pair is as good as the current one.
    Return,
}

/// The answers by one pair.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// One bit for each answered check, by its place in [`Comparison::sent`].
    answered: u128,
    /// The least round-trip time of these checks.
    least: Option<Duration>,
}

impl Comparison {
    /// Makes a comparison that begins at `at`. `patience`: how long the last answers of a part may take.
    pub(crate) fn new(
        other: LocatorPair,
        purpose: Purpose,
        patience: Duration,
        at: Instant,
    ) -> Self {
        Self {
            other,
            purpose,
            next: at,
            patience: patience.min(MAX_PATIENCE),
            sent: Vec::new(),
            has_begun: false,
            postponed: 0,
            is_waiting: false,
            forgotten: 0,
            by_current: Tally::default(),
            by_other: Tally::default(),
        }
    }

    /// Whether the time of the first checks has come. Before, the comparison waits for its turn.
    pub(crate) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// When the last checks of the comparison were sent.
    pub(crate) fn last_sent(&self) -> Option<Instant> {
        self.sent.last().copied()
    }

    /// Notes the answer to a check: it left at `at`, took `rtt`, and went by the current pair or by the other one.
    pub(crate) fn note(&mut self, is_current: bool, at: Instant, rtt: Duration) {
        // Checks of other origin by these pairs do not count.
        let Some(place) = self.sent.iter().position(|sent| *sent == at) else { return };
        let tally = if is_current { &mut self.by_current } else { &mut self.by_other };
        tally.answered |= 1 << place;
        tally.least = Some(tally.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// The machine waits no longer for the answer to a check that left at `at`, so the checks of this moment do not count.
    pub(crate) fn forget(&mut self, at: Instant) {
        if let Some(place) = self.sent.iter().position(|sent| *sent == at) {
            self.forgotten |= 1 << place;
        }
    }

    /// Tells what to do at `now`: nothing before [`next`](Self::next). `floor`: the least round-trip time of the
    /// current pair since it became current.
    pub(crate) fn step(&mut self, floor: Option<Duration>, now: Instant) -> Step {
        if now < self.next {
            return Step::Wait;
        }
        let is_in_vain = self.by_current.answered | self.by_other.answered == 0;
        if is_in_vain && self.sent.len() >= IN_VAIN {
            return Step::End(Outcome::Unknown);
        }
        if self.is_waiting {
            if let Some(outcome) = self.judge(floor) {
                return Step::End(outcome);
            }
            self.is_waiting = false;
        }
        self.has_begun = true;
        self.sent.push(now);
        self.is_waiting = self.sent.len().is_multiple_of(PART);
        self.next = now + if self.is_waiting { self.patience } else { GAP };
        Step::Check
    }

    /// The host had no room for the last checks. The comparison goes on later, after a time that doubles. Returns false
    /// if the comparison has waited often enough and ends.
    pub(crate) fn postpone(&mut self, now: Instant) -> bool {
        self.sent.pop();
        self.is_waiting = false;
        self.next = now + POSTPONED * (1 << self.postponed);
        self.postponed += 1;
        self.postponed < MOST_POSTPONED
    }

    /// The checks that count, one bit for each. If the question is whether payload leaves the current pair, checks do not
    /// count that left while the other pair was silent: a silence is a failure, and no loss at random. A pair that is
    /// silent for most of the time has no such silence.
    fn counted(&self) -> u128 {
        let all = u128::MAX.checked_shr(u128::BITS - bits(self.sent.len())).unwrap_or(0);
        let all = all & !self.forgotten;
        let lost = all & !self.by_other.answered;
        // Each bit is the beginning of SILENCE lost checks in a row.
        let begins = (1..SILENCE).fold(lost, |begins, place| begins & lost >> place);
        let silent = (0..SILENCE).fold(0, |silent, place| silent | begins << place);
        let silent = silent | self.last_silent(lost);
        let is_most = silent.count_ones() * 2 > all.count_ones();
        if self.purpose.is_before_return() || is_most { all } else { all & !silent }
    }

    /// After a failure: the last checks in a row that are `lost`. Another silence may have begun.
    fn last_silent(&self, lost: u128) -> u128 {
        let unused = u128::BITS - bits(self.sent.len());
        let last = lost.checked_shl(unused).unwrap_or(0).leading_ones();
        let before = u128::MAX.checked_shr(unused + last).unwrap_or(0);
        if self.purpose == Purpose::AfterFailure { lost & !before } else { 0 }
    }

    fn losses(&self) -> Losses {
        let counted = self.counted();
        let lost = |tally: Tally| (counted & !tally.answered).count_ones();
        let (current, other) = (lost(self.by_current), lost(self.by_other));
        Losses { sent: counted.count_ones(), current, other }
    }

    /// Whether the current pair has lost one check in ten, at least.
    pub(crate) fn is_current_bad(&self) -> bool {
        self.losses().is_current_bad()
    }

    /// Whether both pairs are bad, and the current one does not lose much more than the other one.
    pub(crate) fn are_both_bad(&self) -> bool {
        let losses = self.losses();
        losses.is_current_bad() && !losses.is_other_better()
    }

    /// Decides at the end of a part. `None`: another part follows.
    fn judge(&self, floor: Option<Duration>) -> Option<Outcome> {
        let losses = self.losses();
        let Losses { sent, current, other } = losses;
        let floor = [floor, self.by_current.least].into_iter().flatten().min();
        // A pair without an answer is no better, however bad the current pair is. After a failure it may be silent again.
        let is_after_failure = self.purpose == Purpose::AfterFailure;
        let without = if is_after_failure { Outcome::Undecided } else { Outcome::Stay };
        let Some(least) = self.by_other.least else { return Some(without) };
        let is_as_good = other <= current + sent / AS_GOOD;
        let (outcome, is_open) = match self.purpose {
            Purpose::Leave if current >= other * 2 + MUCH_MORE_LOST => {
                return Some(Outcome::Leave(Cause::Lossy));
            }
            Purpose::Leave => {
                let is_slow = is_as_good && floor.is_some_and(|floor| is_much_slower(floor, least));
                let outcome = if is_slow { Outcome::Leave(Cause::Slow) } else { Outcome::Stay };
                (outcome, is_slow || losses.is_other_better())
            }
            Purpose::AfterFailure => {
                let is_slow = floor.is_some_and(|floor| is_much_slower(floor, least));
                let cause = if is_slow { Cause::Slow } else { Cause::Lossy };
                let more = MORE_LOST_AFTER_FAILURE + sent / PART_MORE_AFTER_FAILURE;
                if is_slow && is_as_good || current >= other + more {
                    return Some(Outcome::Leave(cause));
                }
                // A pair that loses 15 % one way loses no check of 20 in one comparison of 26, and none of 40 in one of 700.
                let is_open = sent < COUNTED || current > other;
                (if is_open { Outcome::Undecided } else { Outcome::Stay }, is_open)
            }
            Purpose::Return | Purpose::FailBack => {
                let is_slow = floor.is_some_and(|floor| is_much_slower(least * 2, floor));
                let is_good = is_as_good && !is_slow;
                (if is_good { Outcome::Return } else { Outcome::Stay }, is_good)
            }
        };
        let is_final = self.sent.len() >= self.purpose.parts() * PART;
        (is_final || !is_open).then_some(outcome)
    }
}

/// Checks that count, and how many of them each pair has lost.
#[derive(Clone, Copy, Debug)]
struct Losses {
    sent: u32,
    current: u32,
    other: u32,
}

impl Losses {
    const fn is_current_bad(self) -> bool {
        self.current > 0 && self.current >= self.sent / MORE_LOST
    }

    const fn is_other_better(self) -> bool {
        self.current >= self.other * 2 + self.sent / MORE_LOST
    }
}

/// A number of checks, at most 128.
fn bits(checks: usize) -> u32 {
    u32::try_from(checks).unwrap_or(u32::MAX).min(u128::BITS)
}

/// Whether a pair with the least round-trip time `floor` is so much slower than one with `other` that a comparison is
/// worthwhile.
pub(crate) fn is_much_slower(floor: Duration, other: Duration) -> bool {
    floor > other * MUCH_SLOWER + SLOWER_BY
}

/// Time between checks: 200 ms, so 5 checks a second by each pair. A peer answers 20 a second by its current pair, and
/// 20 by all other pairs; checks that repeat an answer by the current or the preferred pair have their own 20 each.
const GAP: Duration = Duration::from_millis(200);
/// First time between checks if the host has no room: 1 s.
const POSTPONED: Duration = Duration::from_secs(1);
/// The comparison ends after half a minute without room. Otherwise each context of a full host would wake again and
/// again.
const MOST_POSTPONED: u8 = 6;
/// Checks by each pair in a part: 20, in 4 s.
const PART: usize = 20;
/// Number of checks by each pair after which the comparison ends if none is answered: 10. Then there is no path, or the
/// peer answers no checks any more.
const IN_VAIN: usize = 10;
/// The longest time for answers at the end of a part: 4 s.
const MAX_PATIENCE: Duration = Duration::from_secs(4);
/// The current pair is much worse if its losses exceed twice the losses of the other pair by this number of checks at
/// the end of a part. Two pairs that lose 5 % of packets each way differ by this much in one comparison of 40,000.
const MUCH_MORE_LOST: u32 = 14;
/// If the difference is at least one check in ten, another part follows.
const MORE_LOST: u32 = 10;
/// A pair that a failure has led to is worse if its losses exceed those of the other pair by this number of checks, and
/// one check in fifty. A pair that loses 15 % one way is seen in 399 of 400 comparisons with a pair that loses nothing.
/// Two pairs that lose 5 % of checks each differ by this much in one comparison of 13.
const MORE_LOST_AFTER_FAILURE: u32 = 4;
const PART_MORE_AFTER_FAILURE: u32 = 50;
/// Checks that have to count before a pair that a failure has led to is no worse: 40.
const COUNTED: u32 = 40;
/// Lost checks in a row that are a silence: 4, in 800 ms.
const SILENCE: usize = 4;
/// The other pair is as good if its losses exceed those of the current pair by at most one check in twenty.
const AS_GOOD: u32 = 20;
/// The current pair is much slower if its round trip takes more than four times as long plus 200 ms.
const MUCH_SLOWER: u32 = 4;
const SLOWER_BY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
