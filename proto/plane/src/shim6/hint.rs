//! Reasons to doubt the current pair before the Send Timer runs out.
//!
//! Payload that wants an answer (all but TCP segments without data) begins a wait, which the next payload received
//! ends. The usual wait is the longest of this stretch of time and the one before. A wait of twice as long, and
//! [`SILENCE_FLOOR`] longer, is silence. TCP that sends the same again when the wait has been as long as usual is
//! suspicious too: sooner, it repairs a loss that it was told of.
//!
//! What turns out wrong doubles both on that context, but in its first stretch: if that began amid a burst of answers, no
//! round trip had been seen. Each stretch without a mistake halves them again.

use core::time::Duration;

use moorline_datapath::shim6::{ContextEntry, FailureHint, Report};
use moorline_types::Instant;

use crate::shim6::live::{Look, REPORT_RETRY};

/// What a plane notes of the answers on a context. Times are rounded as in the eBPF programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    /// When the first payload left that wants an answer and has had none, in units of 2^16 ns.
    asked: Option<u64>,
    /// The longest waits in this stretch and the one before, in units of 2^22 ns; 0: none.
    longest: u8,
    longest_before: u8,
    stretch: u8,
    mistakes: u8,
    is_reported: bool,
    /// When an unreachable was last reported, as far as it is kept.
    unreachable: Option<u64>,
}

impl Wait {
    /// Payload was sent that wants an answer; `again`: that TCP had sent before. The time to look, if a wait begins.
    pub(crate) fn on_sent(&mut self, again: bool, look: &mut Look<'_>) -> Option<Instant> {
        if !is_watched(look.entry) {
            return None;
        }
        if self.asked.is_none() {
            self.asked = Some((look.now.as_nanos() >> ASKED_SHIFT).max(1));
            return self.silence_due(look.now);
        }
        if again {
            self.suspect_again(look);
        }
        None
    }

    /// Payload came in.
    pub(crate) fn on_received(&mut self, now: Instant) {
        let Some(asked) = self.asked.take() else { return };
        let waited = elapsed(asked, now) >> (WAIT_SHIFT - ASKED_SHIFT);
        let wait = u8::try_from(waited).map_or(u8::MAX, |waited| waited.saturating_add(1));
        let [stretch, ..] = (now.as_nanos() >> STRETCH_SHIFT).to_le_bytes();
        if self.is_reported {
            self.note_mistake();
        } else if stretch != self.stretch {
            self.mistakes = self.mistakes.saturating_sub(1);
        }
        if stretch != self.stretch {
            self.stretch = stretch;
            self.longest_before = core::mem::take(&mut self.longest);
        }
        self.longest = self.longest.max(wait);
    }

    /// The peer was heard from by other means, at that time.
    pub(crate) fn on_heard(&mut self, at: Instant) {
        if self.asked.is_some_and(|asked| at.as_nanos() >> ASKED_SHIFT >= asked) {
            self.asked = None;
            if self.is_reported {
                self.note_mistake();
            }
        }
    }

    /// The core explores, and needs no hints.
    pub(crate) fn cancel(&mut self) {
        self.asked = None;
        self.is_reported = false;
    }

    /// Another pair: nothing is known of it.
    pub(crate) fn forget(&mut self) {
        *self = Self { stretch: self.stretch, ..Self::default() };
    }

    /// Reports silence; the time to look again.
    pub(crate) fn look(&mut self, look: &mut Look<'_>) -> Option<Instant> {
        let due = self.silence_due(look.now).filter(|_| is_watched(look.entry))?;
        if look.now < due {
            return Some(due);
        }
        if !self.report(FailureHint::Silence, look) {
            return Some(look.now + REPORT_RETRY);
        }
        None
    }

    /// An ICMPv6 Destination Unreachable came about what went by the current pair.
    pub(crate) fn on_unreachable(&mut self, Look { entry, reports, now }: Look<'_>) {
        let time = Some((now.as_nanos() >> UNREACHABLE_SHIFT) % UNREACHABLE_TIMES);
        if !is_watched(entry) || self.unreachable == time {
            return;
        }
        let (hint, usual) = (FailureHint::Unreachable, self.usual_wait());
        if reports.push(Report::Suspected { context: entry.id, hint, since: now, usual }) {
            self.unreachable = time;
        }
    }

    fn suspect_again(&mut self, look: &mut Look<'_>) {
        let least = u64::from(self.usual().max(1)) << WAIT_SHIFT << self.mistakes;
        let waited = look.now.since(self.since(look.now));
        if !self.is_reported && waited.as_nanos() >= u128::from(least) {
            self.report(FailureHint::Retransmission, look);
        }
    }

    fn report(&mut self, hint: FailureHint, look: &mut Look<'_>) -> bool {
        let (since, usual) = (self.since(look.now), self.usual_wait());
        let report = Report::Suspected { context: look.entry.id, hint, since, usual };
        self.is_reported = look.reports.push(report);
        self.is_reported
    }

    /// When the wait becomes silence.
    fn silence_due(&self, now: Instant) -> Option<Instant> {
        let usual = self.usual();
        if self.asked.is_none() || usual == 0 || usual == u8::MAX || self.is_reported {
            return None;
        }
        let usual = self.usual_wait();
        let wait = usual + usual.max(SILENCE_FLOOR);
        Some(self.since(now) + wait.saturating_mul(1 << self.mistakes))
    }

    fn usual(&self) -> u8 {
        self.longest.max(self.longest_before)
    }

    fn usual_wait(&self) -> Duration {
        Duration::from_nanos(u64::from(self.usual()) << WAIT_SHIFT)
    }

    fn since(&self, now: Instant) -> Instant {
        let elapsed = self.asked.map_or(0, |asked| elapsed(asked, now));
        Instant::from_nanos(((now.as_nanos() >> ASKED_SHIFT) - elapsed) << ASKED_SHIFT)
    }

    fn note_mistake(&mut self) {
        self.is_reported = false;
        if self.longest_before != 0 {
            self.mistakes = (self.mistakes + 1).min(MAX_MISTAKES);
        }
    }
}

fn is_watched(entry: &ContextEntry) -> bool {
    entry.suspects && entry.timers.is_some()
}

/// Never more than there is since time began.
fn elapsed(asked: u64, now: Instant) -> u64 {
    (now.as_nanos() >> ASKED_SHIFT).saturating_sub(asked)
}

/// Silence is longer than usual by this at least: 100 ms, which no flow stops for by chance of scheduling. Not
/// configurable.
const SILENCE_FLOOR: Duration = Duration::from_millis(100);
/// Doublings: with 7, the floor has become 13 s, more than the Send Timeout. Not configurable.
const MAX_MISTAKES: u8 = 7;
/// Nanoseconds that waits begin at: 65.5 us.
const ASKED_SHIFT: u32 = 16;
/// Nanoseconds that waits are measured in: 4.2 ms. The longest that is told from others is 1.1 s.
const WAIT_SHIFT: u32 = 22;
/// Nanoseconds of a stretch: 4.3 s.
const STRETCH_SHIFT: u32 = 32;
/// Nanoseconds between reports of unreachables: 1.1 s, of which so many are told apart.
const UNREACHABLE_SHIFT: u32 = 30;
const UNREACHABLE_TIMES: u64 = 15;

#[cfg(test)]
mod tests;
