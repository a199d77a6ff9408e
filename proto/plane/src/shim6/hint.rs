//! Failure hints: reasons to doubt the current pair before the Send Timer expires.
//!
//! Payload that calls for an answer (all but TCP segments without data) begins a wait. The next received payload ends
//! the wait. The first TCP segment that is sent in the wait of other payload begins the wait anew: the segment's own
//! answer comes a round trip later. Then payload ends the wait only if its sender knows the tag, or a
//! connection of this host: anybody can send other payload with the ULIDs as addresses. The same holds for the first
//! datagram whose flow has a known label ([`Labels`](crate::shim6::label::Labels)), until a segment is sent, and then
//! such datagrams end the wait, too. The usual wait is the longest one of the current stretch of time and the stretch
//! before. Silence is a wait that exceeds the usual wait by as much again, and by [`SILENCE_FLOOR`] at least. A TCP
//! retransmission is a hint too if the wait has been as long as usual. A retransmission before that repairs a loss of
//! which the peer has told TCP.
//!
//! If a hint turns out wrong, both limits double for that context. In the first stretch of a context they do not: if
//! it began amid a burst of answers, no round trip has been measured. Each stretch without a mistake halves the
//! limits again.

use core::time::Duration;

use moorline_datapath::shim6::{ContextEntry, FailureHint, Report};
use moorline_types::Instant;

use crate::shim6::live::{Look, REPORT_RETRY};
use crate::shim6::tcp::Flow;

/// Notes of a plane about the answers on a context. Times are rounded as in the eBPF programs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    /// Time when the first payload without an answer was sent, in units of 2^16 ns; `None`: no answer is awaited.
    asked: Option<u64>,
    /// The first TCP connection, or flow of datagrams with a known label, of which a packet was sent in this wait.
    flow: Option<Awaited>,
    /// Longest waits in the current stretch and the stretch before, in units of 2^22 ns; 0: none.
    longest: u8,
    longest_before: u8,
    stretch: u8,
    mistakes: u8,
    is_reported: bool,
    /// Time when an unreachable was last reported, modulo [`UNREACHABLE_TIMES`] units of 2^30 ns.
    unreachable: Option<u64>,
}

/// A flow whose answer the plane can tell from payload of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A TCP connection.
    Tcp(Flow),
    /// Datagrams whose label is known.
    Datagrams(Flow),
}

/// The flow of datagrams about which a doubt was wrong.
pub(crate) type Missed = Option<Flow>;

impl Wait {
    /// Whether labels of datagrams are learned or compared. Also without a wait, labels are learned: an attacker may
    /// end each wait at once.
    pub(crate) fn wants_label(&self) -> bool {
        self.flow.is_none() || self.asked.is_some()
    }

    /// The flow that waits for an answer.
    pub(crate) fn of_flow(&self) -> Option<Awaited> {
        self.flow.filter(|_| self.asked.is_some())
    }

    /// Notes sent payload that calls for an answer. `flow`: its flow. `again`: TCP has sent it before.
    /// Returns the time to look, if a wait begins.
    pub(crate) fn on_sent(
        &mut self,
        flow: Option<Awaited>,
        again: bool,
        look: &mut Look<'_>,
    ) -> Option<Instant> {
        if !is_watched(look.entry) {
            return None;
        }
        if self.asked.is_none() {
            self.asked = Some(asked_at(look.now));
            self.flow = flow;
            return self.silence_due(look.now);
        }
        if again {
            self.suspect_again(look);
        }
        // Anybody can have this host send other payload, such as an Echo Reply. So the first packet of a flow of higher
        // rank begins the wait anew, twice at most, and no later payload does.
        if rank(flow) > rank(self.flow) {
            (self.asked, self.flow) = (Some(asked_at(look.now)), flow);
        }
        None
    }

    /// Received payload ends a wait.
    pub(crate) fn on_received(&mut self, now: Instant) -> Missed {
        let asked = self.asked.take()?;
        let waited = elapsed(asked, now) >> (WAIT_SHIFT - ASKED_SHIFT);
        let wait = u8::try_from(waited).map_or(u8::MAX, |waited| waited.saturating_add(1));
        let [stretch, ..] = (now.as_nanos() >> STRETCH_SHIFT).to_le_bytes();
        let was_reported = self.is_reported;
        let missed = self.note_mistake_if_reported();
        if !was_reported && stretch != self.stretch {
            self.mistakes = self.mistakes.saturating_sub(1);
        }
        if stretch != self.stretch {
            self.stretch = stretch;
            self.longest_before = core::mem::take(&mut self.longest);
        }
        self.longest = self.longest.max(wait);
        missed
    }

    /// The core has heard from the peer by other means, at this time.
    pub(crate) fn on_heard(&mut self, at: Instant) -> Missed {
        self.asked.filter(|&asked| at.as_nanos() >> ASKED_SHIFT >= asked)?;
        self.asked = None;
        self.note_mistake_if_reported()
    }

    /// The core explores and needs no hints.
    pub(crate) fn cancel(&mut self) {
        self.asked = None;
        self.is_reported = false;
    }

    /// The context has taken another pair, of which nothing is known.
    pub(crate) fn forget(&mut self) {
        *self = Self { stretch: self.stretch, ..Self::default() };
    }

    /// Reports silence. Returns the time to look again.
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

    /// Handles an ICMPv6 Destination Unreachable about a packet that went by the current pair.
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

    /// Time when the wait becomes silence.
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

    pub(crate) fn usual_wait(&self) -> Duration {
        Duration::from_nanos(u64::from(self.usual()) << WAIT_SHIFT)
    }

    fn since(&self, now: Instant) -> Instant {
        let elapsed = self.asked.map_or(0, |asked| elapsed(asked, now));
        Instant::from_nanos(((now.as_nanos() >> ASKED_SHIFT) - elapsed) << ASKED_SHIFT)
    }

    fn note_mistake_if_reported(&mut self) -> Missed {
        if !core::mem::take(&mut self.is_reported) {
            return None;
        }
        if self.longest_before != 0 {
            self.mistakes = (self.mistakes + 1).min(MAX_MISTAKES);
        }
        match self.flow? {
            Awaited::Datagrams(flow) => Some(flow),
            Awaited::Tcp(_) => None,
        }
    }
}

pub(crate) fn is_watched(entry: &ContextEntry) -> bool {
    entry.suspects && entry.timers.is_some()
}

/// How well the answers to a flow are told from payload of others.
fn rank(flow: Option<Awaited>) -> u8 {
    match flow {
        None => 0,
        Some(Awaited::Datagrams(_)) => 1,
        Some(Awaited::Tcp(_)) => 2,
    }
}

/// The time in units of 2^16 ns.
fn asked_at(now: Instant) -> u64 {
    (now.as_nanos() >> ASKED_SHIFT).max(1)
}

/// Time since `asked` in units of 2^16 ns, 0 if `asked` is later than `now`.
fn elapsed(asked: u64, now: Instant) -> u64 {
    (now.as_nanos() >> ASKED_SHIFT).saturating_sub(asked)
}

/// Time by which silence exceeds the usual wait at least: 100 ms. No flow pauses so long by chance of scheduling. Not
/// configurable.
const SILENCE_FLOOR: Duration = Duration::from_millis(100);
/// Largest number of mistakes, each of which doubles the limits. With 7, the floor is 13 s, more than the Send
/// Timeout. Not configurable.
const MAX_MISTAKES: u8 = 7;
/// Unit of the start of a wait: 2^16 ns, 65.5 us.
const ASKED_SHIFT: u32 = 16;
/// Unit of the length of a wait: 2^22 ns, 4.2 ms. The longest wait that is told apart from longer ones is 1.1 s.
const WAIT_SHIFT: u32 = 22;
/// Length of a stretch: 2^32 ns, 4.3 s.
const STRETCH_SHIFT: u32 = 32;
/// Time between two reports of unreachables: 2^30 ns, 1.1 s; and the number of such times that are told apart.
const UNREACHABLE_SHIFT: u32 = 30;
const UNREACHABLE_TIMES: u64 = 15;

#[cfg(test)]
mod tests;
