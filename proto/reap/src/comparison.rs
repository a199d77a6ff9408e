//! Two pairs measured at the same moments: is one much worse than the other? (decision 141)

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::event::Cause;

/// The current pair and another one, with a check by each every [`GAP`].
///
/// Both pairs are checked at the same moments, so a disturbance of both does not count. A comparison has [parts](Purpose::parts) of [`PART`] checks.
/// If a part decides, there is no further one.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) other: LocatorPair,
    purpose: Purpose,
    /// When the next checks are due, or the answers to those of this part.
    pub(crate) next: Instant,
    /// How long answers are waited for at the end of a part.
    patience: Duration,
    /// When checks by both pairs left.
    sent: Vec<Instant>,
    /// How often there was no room for checks.
    postponed: u8,
    /// Whether the answers to the checks of this part are waited for.
    is_waiting: bool,
    by_current: Tally,
    by_other: Tally,
}

/// The question of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Whether the current pair is so much worse that payload leaves it for the other one.
    Leave,
    /// Whether the other pair, which was left as worse, is as good as the current one again.
    Return,
}

impl Purpose {
    /// Parts of a comparison: a pair that was left has to be good for longer.
    const fn parts(self) -> usize {
        match self {
            Self::Leave => 2,
            Self::Return => 3,
        }
    }
}

/// The next thing to do in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before [`Comparison::next`].
    Wait,
    /// A check by each pair.
    Check,
    /// The comparison is over.
    End(Outcome),
}

/// The answer of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Payload stays where it is.
    Stay,
    /// The current pair is much worse, for this cause.
    Leave(Cause),
    /// The other pair is as good.
    Return,
}

/// Answers by one pair.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// One bit for each check that was answered, by its place in [`Comparison::sent`].
    answered: u64,
    /// The least round-trip time of them.
    least: Option<Duration>,
}

impl Comparison {
    /// Begins now. `patience`: how long the last answer of a part may take.
    pub(crate) fn new(
        other: LocatorPair,
        purpose: Purpose,
        patience: Duration,
        now: Instant,
    ) -> Self {
        Self {
            other,
            purpose,
            next: now,
            patience: patience.min(MAX_PATIENCE),
            sent: Vec::new(),
            postponed: 0,
            is_waiting: false,
            by_current: Tally::default(),
            by_other: Tally::default(),
        }
    }

    /// A check that left at `at` was answered after `rtt`, by the current pair or by the other one.
    pub(crate) fn note(&mut self, is_current: bool, at: Instant, rtt: Duration) {
        // Others send checks by these pairs, too: those do not count.
        let Some(place) = self.sent.iter().position(|sent| *sent == at) else { return };
        let tally = if is_current { &mut self.by_current } else { &mut self.by_other };
        tally.answered |= 1 << place;
        tally.least = Some(tally.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// Time has come to [`next`](Self::next), or not yet. `floor`: the least round-trip time of the current pair since it is current.
    pub(crate) fn step(&mut self, floor: Option<Duration>, now: Instant) -> Step {
        if now < self.next {
            return Step::Wait;
        }
        let is_in_vain = self.by_current.answered | self.by_other.answered == 0;
        if is_in_vain && self.sent.len() >= IN_VAIN {
            return Step::End(Outcome::Stay);
        }
        if self.is_waiting {
            let outcome = self.judge(floor);
            if outcome == Outcome::Stay || self.sent.len() >= self.purpose.parts() * PART {
                return Step::End(outcome);
            }
            self.is_waiting = false;
        }
        self.sent.push(now);
        self.is_waiting = self.sent.len().is_multiple_of(PART);
        self.next = now + if self.is_waiting { self.patience } else { GAP };
        Step::Check
    }

    /// There was no room for the last checks: the comparison goes on later, each time after twice the time. False: it has waited often
    /// enough, and is to be given up.
    pub(crate) fn postpone(&mut self, now: Instant) -> bool {
        self.sent.pop();
        self.is_waiting = false;
        self.next = now + POSTPONED * (1 << self.postponed);
        self.postponed += 1;
        self.postponed < MOST_POSTPONED
    }

    fn judge(&self, floor: Option<Duration>) -> Outcome {
        let sent = u32::try_from(self.sent.len()).unwrap_or(u32::MAX);
        let lost = |tally: Tally| sent - tally.answered.count_ones();
        let (current, other) = (lost(self.by_current), lost(self.by_other));
        // After the first part a hint is enough to go on.
        let is_final = self.sent.len() >= self.purpose.parts() * PART;
        let more = sent / if is_final { MORE_LOST } else { MORE_LOST * 2 };
        let floor = [floor, self.by_current.least].into_iter().flatten().min();
        match (self.purpose, floor, self.by_other.least) {
            // A pair without an answer is no better, whatever the current one is.
            (_, _, None) => Outcome::Stay,
            (Purpose::Leave, _, Some(_)) if current >= other * 2 + more => {
                Outcome::Leave(Cause::Lossy)
            }
            (Purpose::Leave, Some(floor), Some(least))
                if is_much_slower(floor, least) && other <= current + sent / AS_GOOD =>
            {
                Outcome::Leave(Cause::Slow)
            }
            (Purpose::Leave, _, Some(_)) => Outcome::Stay,
            (Purpose::Return, floor, Some(least)) => {
                let is_slow = floor.is_some_and(|floor| is_much_slower(least * 2, floor));
                let is_lossy = other > current + sent / AS_GOOD;
                if is_slow || is_lossy { Outcome::Stay } else { Outcome::Return }
            }
        }
    }
}

/// Whether a pair with this least round-trip time is worth a comparison with one that answers after `other`.
pub(crate) fn is_much_slower(floor: Duration, other: Duration) -> bool {
    floor > other * MUCH_SLOWER + SLOWER_BY
}

/// Between checks: 200 ms. With checks by both pairs half of the answers that a peer gives in a second.
const GAP: Duration = Duration::from_millis(200);
/// The same if a host has no room for them.
const POSTPONED: Duration = Duration::from_secs(1);
/// The comparison is given up after half a minute without room. Without an end, each context of a full host would wake it again and again.
const MOST_POSTPONED: u8 = 6;
/// Checks by each pair in a part: 4 s of them.
const PART: usize = 20;
/// Checks by each pair without an answer after which the comparison ends: there is no path, or the peer answers no checks any more.
const IN_VAIN: usize = 10;
/// The longest time that answers are waited for at the end of a part.
const MAX_PATIENCE: Duration = Duration::from_secs(4);
/// The current pair is much worse if it loses one check in five more than twice as many as the other pair: 8 of 40. Two pairs that lose
/// 5 % of packets each way differ by so much in one comparison of a thousand.
const MORE_LOST: u32 = 5;
/// The other pair is as good if it loses no more than one check in twenty more than the current pair.
const AS_GOOD: u32 = 20;
/// The current pair is much slower if its round trip takes four times as long, and 200 ms on top of that.
const MUCH_SLOWER: u32 = 4;
const SLOWER_BY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
