//! | timer | armed by | disarmed by | when it runs out |
//! |---|---|---|---|
//! | Send | payload sent, if none is unanswered | payload received (*), `Heard`, `SendExpired`, timers taken away | `SendExpired` |
//! | Keepalive | payload received, if nothing was sent since the last such | payload sent, Keepalive Timeout passed, timers taken away | `KeepaliveDue`, again after an interval |
//! | Silence | payload sent that wants an answer, if none is waited for | payload received (*), `Heard`, hints or timers taken away, other locators | `Suspected` |
//! | Idle | the context's birth, each packet | removal | `Idle`, once for each last packet |
//! | proof | payload received that is no proof and stops the Send Timer, if proof came last | proof, `Heard`, other locators | `Suspected`, at the next such payload after a second |
//!
//! (*) While the answer to a TCP segment is awaited ([`Wait::of_flow`]), only payload of a sender who knows the tag
//! or the connection. While the answer to a datagram is awaited whose flow has a known label, only such payload and
//! datagrams with the label disarm the Silence timer; other payload still disarms the Send Timer.

use moorline_datapath::shim6::{ContextCounters, ContextEntry, ReapTimers, Report};
use moorline_types::Instant;

use core::time::Duration;

use crate::reports::Reports;
use crate::shim6::hint::{Missed, Wait};
use crate::shim6::proof::Unproven;

/// Time until a report that found no room is tried again. Not configurable.
pub(crate) const REPORT_RETRY: Duration = Duration::from_millis(100);

/// A look at a context: the decisions about the context, the way to report, and the time.
pub(crate) struct Look<'a> {
    pub(crate) entry: &'a ContextEntry,
    pub(crate) reports: &'a mut Reports,
    pub(crate) now: Instant,
}

/// Notes of a plane about a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) counters: ContextCounters,
    born: Instant,
    /// First payload sent since payload was last received.
    first_tx: Option<Instant>,
    /// First payload received since payload was last sent.
    first_rx: Option<Instant>,
    /// Time of the next keepalive, once one was due since `first_rx`.
    keepalive_due: Option<Instant>,
    /// Time of the last payload about which an `Idle` was reported.
    idle_seen: Option<Instant>,
    watch_seen: u32,
    pub(crate) wait: Wait,
    pub(crate) unproven: Unproven,
}

impl Live {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            counters: ContextCounters::default(),
            born: now,
            first_tx: None,
            first_rx: None,
            keepalive_due: None,
            idle_seen: None,
            watch_seen: 0,
            wait: Wait::default(),
            unproven: Unproven::default(),
        }
    }

    /// Notes sent payload. Returns the time to look at the timers, if a period begins with it.
    pub(crate) fn on_sent(&mut self, octets: usize, look: &Look<'_>) -> Option<Instant> {
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += octets as u64;
        self.counters.last_tx = look.now;
        self.set_first_rx(None);
        match look.entry.timers {
            Some(timers) if self.first_tx.is_none() => {
                self.first_tx = Some(look.now);
                Some(look.now + timers.send)
            }
            Some(_) | None => None,
        }
    }

    /// Notes received payload. Returns the time to look at the timers, if a period begins with it.
    pub(crate) fn on_received(&mut self, octets: usize, look: &Look<'_>) -> Option<Instant> {
        let (entry, now) = (look.entry, look.now);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += octets as u64;
        self.counters.last_rx = now;
        let timers = entry.timers.filter(|_| self.first_rx.is_none())?;
        self.set_first_rx(Some(now));
        has_keepalives(&timers).then(|| now + timers.keepalive_interval)
    }

    /// Payload came in that stops the Send Timer.
    pub(crate) fn on_sign_of_life(&mut self) {
        self.first_tx = None;
    }

    /// Payload came in that may be the answer that this host waits for.
    pub(crate) fn on_answer(&mut self, look: &mut Look<'_>) -> Missed {
        let (entry, now) = (look.entry, look.now);
        let missed = self.wait.on_received(now);
        if entry.watch != 0 && entry.watch != self.watch_seen {
            let report = Report::Received { context: entry.id, at: now };
            if look.reports.push(report) {
                self.watch_seen = entry.watch;
            }
        }
        missed
    }

    /// Whether payload was sent since payload was last received as an answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.first_tx.is_some()
    }

    /// The context has taken another pair, of which nothing is known.
    pub(crate) fn forget_pair(&mut self) {
        self.wait.forget();
        self.unproven.on_proof();
    }

    /// The core has heard from the peer by other means than payload.
    pub(crate) fn on_heard(&mut self, at: Instant) -> Missed {
        self.first_tx = self.first_tx.filter(|&first| first >= at);
        self.unproven.on_proof();
        self.wait.on_heard(at)
    }

    pub(crate) fn on_timers_taken_away(&mut self) {
        self.first_tx = None;
        self.set_first_rx(None);
    }

    /// Reports what is due. Returns the time to look again.
    pub(crate) fn look(&mut self, look: &mut Look<'_>) -> Option<Instant> {
        let timers = look.entry.timers;
        let send = timers.and_then(|timers| self.look_at_send(&timers, look));
        let keepalive = timers.and_then(|timers| self.look_at_keepalive(&timers, look));
        let silence = self.wait.look(look);
        let idle = self.look_at_idle(look);
        [send, keepalive, silence, idle].into_iter().flatten().min()
    }

    //= rfc5534#6.4
    fn look_at_send(&mut self, timers: &ReapTimers, look: &mut Look<'_>) -> Option<Instant> {
        let since = self.first_tx?;
        let due = since + timers.send;
        if look.now < due {
            return Some(due);
        }
        if !look.reports.push(Report::SendExpired { context: look.entry.id, since }) {
            return Some(look.now + REPORT_RETRY);
        }
        self.first_tx = None;
        None
    }

    //= rfc5534#4.1-3 rfc5534#6.1-2
    fn look_at_keepalive(&mut self, timers: &ReapTimers, look: &mut Look<'_>) -> Option<Instant> {
        let first = self.first_rx.filter(|_| has_keepalives(timers))?;
        let interval = timers.keepalive_interval;
        let due = self.keepalive_due.unwrap_or(first + interval);
        if look.now < due {
            return Some(due);
        }
        if due > self.counters.last_rx + timers.keepalive_timeout {
            self.set_first_rx(None);
            return None;
        }
        if !look.reports.push(Report::KeepaliveDue { context: look.entry.id }) {
            return Some(look.now + REPORT_RETRY);
        }
        let next = first_after(due, interval, look.now);
        self.keepalive_due = Some(next);
        Some(next)
    }

    //= rfc5533#9-2
    fn look_at_idle(&mut self, look: &mut Look<'_>) -> Option<Instant> {
        let (entry, now) = (look.entry, look.now);
        let since = match self.counters.last_tx.max(self.counters.last_rx) {
            Instant::ZERO => self.born,
            last => last,
        };
        if entry.idle.is_zero() || self.idle_seen == Some(since) {
            return None;
        }
        let due = since + entry.idle;
        if now < due {
            return Some(due);
        }
        if !look.reports.push(Report::Idle { context: entry.id, since }) {
            return Some(now + REPORT_RETRY);
        }
        self.idle_seen = Some(since);
        None
    }

    fn set_first_rx(&mut self, first: Option<Instant>) {
        self.first_rx = first;
        self.keepalive_due = None;
    }
}

fn has_keepalives(timers: &ReapTimers) -> bool {
    !timers.keepalive_timeout.is_zero() && !timers.keepalive_interval.is_zero()
}

/// Returns the first of `due`, `due + interval`, ... that is later than `now`. `now` is not before `due`.
fn first_after(due: Instant, interval: Duration, now: Instant) -> Instant {
    let missed = now.since(due).as_nanos() / interval.as_nanos().max(1);
    let intervals = u32::try_from(missed + 1).unwrap_or(u32::MAX);
    due + interval.saturating_mul(intervals)
}

#[cfg(test)]
mod tests;
