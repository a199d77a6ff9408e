//! Probes whose sender shows that it sees this host's answers on the current pair (decision 164).
//!
//! Whoever knows the context tag can forge checks with the addresses of the current pair, and so use up a limit of
//! answers. Then a question of the true peer would find no answer. So each answer to a check can be recognized: its
//! nonce is a keyed hash of its Probe Data and of the pair that the answer takes. A question by that pair repeats both.
//! Only a host that reads packets on the pair knows them, and the host that has answered keeps no state for this. The
//! hash covers the time in steps of [`STEP`], so whoever has read packets on the pair once cannot repeat them for ever.

use core::hash::{Hash, Hasher};
use core::num::NonZeroU32;
use core::time::Duration;

use moorline_types::{Instant, LocatorPair};
use siphasher::sip::SipHasher24;

use super::Machine;
use crate::bounded::Allowance;
use crate::message::{Probe, Report};

/// Nonce and Probe Data of an answer to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenAnswer {
    pub(super) nonce: u32,
    pub(super) data: NonZeroU32,
}

impl SeenAnswer {
    /// Reads the report that an answer holds of itself. `None`: the peer is of a version without this.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let data = NonZeroU32::new(report.data).filter(|data| data.get() & MARK != 0)?;
        Some(Self { nonce: report.nonce, data })
    }
}

impl Machine {
    /// The nonce and Probe Data of an answer that leaves by `via` now.
    pub(super) fn recognizable(&self, via: LocatorPair, drawn: u32, now: Instant) -> SeenAnswer {
        let data = NonZeroU32::MIN | drawn | MARK;
        SeenAnswer { nonce: self.nonce_of_answer(via, data, step_of(now)), data }
    }

    fn nonce_of_answer(&self, via: LocatorPair, data: NonZeroU32, step: u64) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.seed.0);
        (via.local, via.peer, data, step).hash(&mut hasher);
        let [_, _, _, _, nonce @ ..] = hasher.finish().to_be_bytes();
        u32::from_be_bytes(nonce)
    }

    /// Whether an answer of ours by `via` has left in this step of time or in the one before.
    fn is_ours(&self, via: LocatorPair, seen: SeenAnswer, now: Instant) -> bool {
        let step = step_of(now);
        let steps = [Some(step), step.checked_sub(1)].into_iter().flatten();
        steps
            .map(|step| self.nonce_of_answer(via, seen.data, step))
            .any(|nonce| nonce == seen.nonce)
    }

    /// The report of the last answer that came by this pair, for a question by the pair. Only answers by the current
    /// pair and by the preferred pair are of use ([`Self::allowance`]).
    pub(super) fn shown_answer(&self, pair: LocatorPair) -> Option<Report> {
        let monitor = self.monitor.as_ref()?;
        let answer = if pair == self.current() {
            monitor.current_answer
        } else {
            let past = monitor.past().filter(|past| past.home == Some(pair));
            past.and_then(|past| past.home_answer)
        };
        let SeenAnswer { nonce, data } = answer?;
        Some(Report { src: pair.peer, dst: pair.local, nonce, data: data.get() })
    }

    /// The limit that a probe by this pair counts against.
    pub(super) fn allowance(&self, pair: LocatorPair, probe: &Probe, now: Instant) -> Allowance {
        let (unshown, shown) = if pair == self.current() {
            (Allowance::Current, Allowance::Shown)
        } else if self.home() == Some(pair) {
            (Allowance::Others, Allowance::ShownHome)
        } else {
            return Allowance::Others;
        };
        let is_ours = |report: &Report| {
            let is_by = LocatorPair::new(report.src, report.dst) == pair;
            let seen = SeenAnswer::of(report).filter(|_| is_by);
            seen.is_some_and(|seen| self.is_ours(pair, seen, now))
        };
        let mut reports = probe.sent.iter().chain(&probe.received).take(MOST_READ);
        if reports.any(is_ours) { shown } else { unshown }
    }
}

fn step_of(now: Instant) -> u64 {
    now.since(Instant::ZERO).as_secs() / STEP.as_secs()
}

/// Step of time: 512 s. A host can repeat an answer for one to two steps. After a longer time without answers its next
/// question shows nothing.
const STEP: Duration = Duration::from_secs(512);
/// Set in the Probe Data of an answer that can be recognized. No Probe Data with a meaning has this bit.
const MARK: u32 = 1 << 31;
/// Reports of a probe that are compared with answers: 8. This host puts the report of an answer among fewer.
const MOST_READ: usize = 8;
