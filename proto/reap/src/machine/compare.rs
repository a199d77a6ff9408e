//! Comparisons: the machine compares a pair that works badly with the standby path, and leaves the pair if it is much
//! worse (decision 141).

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use super::rounds::RETRY;
use crate::comparison::{Comparison, Outcome, Purpose, Step, is_much_slower};
use crate::event::{Cause, Event};
use crate::monitor::{Check, Past, Rtt};
use crate::state::State;

/// Probe Data of a probe by which a host leaves a pair as much worse than another one: "MooW". The peer, like the host
/// itself, goes back to that pair only after a comparison.
pub const LEFT_AS_WORSE: u32 = 0x4d6f_6f57;

impl Machine {
    /// The data plane doubts the current pair, or the pair did not answer a check: begins a comparison with the
    /// [rival](Self::rival).
    pub(super) fn consider_comparison(&mut self, now: Instant) {
        self.compare_with(self.rival(now), now);
    }

    fn compare_with(&mut self, other: Option<LocatorPair>, now: Instant) {
        self.doubt_after_failure(now);
        if let Some(other) = other.filter(|pair| self.is_of_use(*pair)) {
            self.begin_comparison(other, Purpose::Leave, now, now);
        }
    }

    /// The pair to compare with the current pair: the standby path. If comparisons have shown that both lose many packets,
    /// the other pairs take turns, because the current pair and the standby path may share an ISP that loses packets.
    fn rival(&self, now: Instant) -> Option<LocatorPair> {
        match self.past().map_or(0, |past| past.rivals) {
            0 => self.fresh_standby(now),
            turn => self.rivals().get(usize::from(turn)).copied(),
        }
    }

    /// The pairs that take turns in comparisons, the standby path first.
    fn rivals(&self) -> Vec<LocatorPair> {
        let standby = self.standby();
        let is_rival = |pair: &LocatorPair| self.is_of_use(*pair) && !self.is_broken(*pair);
        let others = self.others().into_iter().filter(|pair| Some(*pair) != standby);
        standby.into_iter().chain(others.filter(is_rival)).collect()
    }

    /// A comparison has shown that the current pair and the other one lose many packets: the next pair takes its turn, as
    /// soon as the time between comparisons is over. Once all pairs have had a turn, the next comparison needs a hint
    /// again.
    fn compare_next(&mut self, now: Instant) {
        let (current, count) = (self.current(), self.rivals().len());
        let past = self.monitor_mut().past_mut(current);
        past.rivals = past.rivals.saturating_add(1);
        if usize::from(past.rivals) >= count {
            past.rivals = 0;
            return;
        }
        let at = past.compare_after.max(now);
        if let Some(rival) = self.rival(now) {
            self.begin_comparison(rival, Purpose::Leave, at, now);
        }
    }

    fn past(&self) -> Option<&Past> {
        self.monitor.as_ref()?.past()
    }

    /// This pair has answered a check. If a failure took payload from this pair, or to a pair that is known as worse,
    /// begins a comparison: the failure may be over (decision 177).
    pub(super) fn consider_going_back(&mut self, pair: LocatorPair, now: Instant) {
        let current = self.current();
        let past = self.past();
        let is_worthwhile = past.is_some_and(|past| past.is_worth_comparing(current, pair));
        if is_worthwhile && self.is_of_use(pair) {
            self.begin_comparison(pair, Purpose::AfterFailure, now, now);
        }
    }

    /// The pair that payload took before a failure, if payload may take it.
    pub(super) fn failed(&self) -> Option<LocatorPair> {
        let past = self.past();
        let failed = past.and_then(|past| past.failed);
        failed.filter(|pair| self.is_candidate(*pair) && self.is_of_use(*pair))
    }

    /// A failure has moved payload, and there is a hint that the new pair loses packets: checks the pair that payload took
    /// before, at most once in [`RETRY`].
    fn doubt_after_failure(&mut self, now: Instant) {
        let Some(failed) = self.failed() else { return };
        let current = self.current();
        self.monitor_mut().past_mut(current).is_doubted = true;
        let checks = self.flight_now().map_or(&[][..], |flight| &flight.checks);
        let is_asked = |pair: LocatorPair| {
            checks.iter().any(|check| check.pair == pair && now.since(check.at) < RETRY)
        };
        if !is_asked(failed) {
            self.send_check(failed, now);
        }
    }

    /// An exploration is over. The pair that payload took before may work again: the next traffic begins a round. The
    /// checks of a round that the exploration has interrupted are used up, and answers to earlier checks are no news.
    pub(super) fn ask_failed_soon(&mut self, now: Instant) {
        let current = self.current();
        if self.failed().is_some()
            && let Some(monitor) = &mut self.monitor
        {
            monitor.begin_anew();
            monitor.past_mut(current).explored_at = now;
        }
    }

    /// Whether an answer to a check that left at `at` says nothing about the pair that payload took before a failure.
    pub(super) fn is_before_failure(&self, at: Instant) -> bool {
        let past = self.past();
        self.failed().is_some() && past.is_some_and(|past| at < past.explored_at)
    }

    /// The current pair has answered a check after `rtt`. Begins a comparison if the standby path is much faster.
    pub(super) fn note_floor(&mut self, rtt: Duration, now: Instant) {
        let Some(monitor) = &mut self.monitor else { return };
        monitor.note_floor(rtt);
        if let (Some(floor), Some(standby)) = (monitor.floor(), monitor.standby_rtt.known())
            && is_much_slower(floor, standby)
        {
            self.compare_with(self.fresh_standby(now), now);
        }
    }

    /// Whether the checks to send can wait: they belong to a comparison, or nothing but a lack of proof speaks against
    /// the current pair.
    #[must_use]
    pub fn can_wait(&self) -> bool {
        self.flight_now().is_some_and(|flight| {
            (flight.compares() || self.wants_proof()) && flight.trial.is_none()
        })
    }

    /// Round-trip time of the current pair, measured by checks.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.monitor.as_ref()?.current_rtt.known()
    }

    /// `home` has answered its checks for the hold time: begins a comparison with the current pair. Returns false if
    /// payload goes back without a comparison, because this host compares nothing, a pin keeps payload on `home`, or
    /// several comparisons in a row have shown nothing.
    pub(super) fn compares_before_return(&mut self, home: LocatorPair, now: Instant) -> bool {
        let is_pin = self.extra.as_ref().is_some_and(|extra| extra.pin == Some(home));
        let past = self.past();
        let is_worse = past.is_some_and(|past| past.worse.contains(&home));
        let is_enough = past.is_some_and(|past| {
            past.interrupted >= MOST_INTERRUPTED && (!is_worse || past.may_leave(now))
        });
        let is_meant = self.config.profile.leaves_worse && !is_pin && !is_enough;
        if is_meant {
            let purpose = if is_worse { Purpose::Return } else { Purpose::FailBack };
            self.begin_comparison(home, purpose, now, now);
        }
        is_meant
    }

    /// An exploration interrupts the running comparison.
    pub(super) fn interrupt_comparison(&mut self) {
        let comparison = self.flight_mut().and_then(|flight| flight.comparison.take());
        if comparison.is_some_and(|comparison| comparison.purpose.is_before_return()) {
            self.note_interrupted();
        }
    }

    /// A comparison before a return has shown nothing. Whoever knows the context tag can forge probes that make a host
    /// explore, so payload waits for a limited number of such comparisons.
    fn note_interrupted(&mut self) {
        let current = self.current();
        let past = self.monitor_mut().past_mut(current);
        past.interrupted = past.interrupted.saturating_add(1);
    }

    /// The peer has left this pair as much worse than `to`, and has shown that these words are its own.
    pub(super) fn note_worse(&mut self, pair: LocatorPair, to: LocatorPair, now: Instant) {
        let current = self.current();
        if self.config.profile.leaves_worse && self.is_candidate(pair) {
            self.monitor_mut().past_mut(current).note_told(pair, (current, to), now);
        }
    }

    /// Begins a comparison at `at`, if no other one is under way.
    fn begin_comparison(
        &mut self,
        other: LocatorPair,
        purpose: Purpose,
        at: Instant,
        now: Instant,
    ) {
        let is_ready = self.config.profile.leaves_worse
            && self.state == State::Operational
            && self.switch().is_none()
            && (purpose.is_before_return() || !self.is_pinned());
        let Some(monitor) = self.monitor.as_mut().filter(|_| is_ready) else { return };
        let is_early = monitor.past().is_some_and(|past| match purpose {
            Purpose::Leave => at < past.compare_after || !past.may_leave(at),
            // Payload goes back to a pair left as worse only if payload may leave that pair again.
            Purpose::Return => !past.may_leave(now),
            Purpose::AfterFailure | Purpose::FailBack => false,
        });
        let is_in_vain = purpose == Purpose::Leave && monitor.is_asked_in_vain;
        let failed = monitor.past().and_then(|past| past.failed);
        // A comparison with the pair that had failed comes before others, and a comparison that waits comes last.
        let is_first = |running: &Comparison| {
            failed == Some(other) && running.other != other || !running.has_begun()
        };
        if is_early || is_in_vain || monitor.comparison().is_some_and(|one| !is_first(one)) {
            return;
        }
        let due = |rtt: Rtt| rtt.due().unwrap_or(ANSWER_DUE);
        let patience = due(monitor.current_rtt).max(due(monitor.standby_rtt)).max(ANSWER_DUE);
        self.flight().comparison = Some(Comparison::new(other, purpose, patience, at));
        self.on_comparison_timeout(now);
    }

    /// The peer has answered a check that may belong to the running comparison.
    pub(super) fn on_compared(&mut self, check: Check, rtt: Duration) {
        let current = self.current();
        let comparison = self.flight_mut().and_then(|flight| flight.comparison.as_mut());
        if let Some(comparison) = comparison
            && (check.pair == current || check.pair == comparison.other)
        {
            comparison.note(check.pair == current, check.at, rtt);
        }
    }

    pub(super) fn on_comparison_timeout(&mut self, now: Instant) {
        let floor = self.monitor.as_ref().and_then(|monitor| monitor.floor());
        let current = self.current();
        let Some(flight) = self.flight_mut() else { return };
        let Some(comparison) = &mut flight.comparison else { return };
        let (other, purpose, had_begun) =
            (comparison.other, comparison.purpose, comparison.has_begun());
        match comparison.step(floor, now) {
            Step::Wait => {}
            Step::Check if self.is_candidate(other) => {
                if purpose == Purpose::Leave && !had_begun {
                    self.monitor_mut().past_mut(current).note_comparison(now);
                }
                self.send_check(current, now);
                self.send_check(other, now);
            }
            Step::Check => self.end_comparison(Outcome::Stay, now),
            Step::End(outcome) => self.end_comparison(outcome, now),
        }
    }

    fn end_comparison(&mut self, outcome: Outcome, now: Instant) {
        let current = self.current();
        let Some(comparison) = self.flight_mut().and_then(|flight| flight.comparison.take()) else {
            return;
        };
        let Comparison { other, purpose, .. } = comparison;
        match outcome {
            Outcome::Stay if purpose == Purpose::Leave && comparison.are_both_bad() => {
                self.compare_next(now);
            }
            Outcome::Stay if purpose == Purpose::Leave && !comparison.is_current_bad() => {
                self.monitor_mut().past_mut(current).rivals = 0;
            }
            // The current pair is no worse, so further answers begin no such comparison.
            Outcome::Stay if purpose == Purpose::AfterFailure => {
                self.monitor_mut().past_mut(current).note_no_worse(current, other);
            }
            Outcome::Undecided => {
                self.monitor_mut().past_mut(current).note_undecided(current, other);
            }
            Outcome::Stay | Outcome::Unknown if !purpose.is_before_return() => {}
            Outcome::Unknown => self.note_interrupted(),
            Outcome::Stay => self.monitor_mut().past_mut(current).keep_away_from(other),
            // A switch that began meanwhile decides where payload goes.
            Outcome::Leave(cause) if self.switch().is_none() && self.is_of_use(other) => {
                self.tell(Event::Worse { pair: current, than: other, cause });
            }
            // The pair may have gone meanwhile, or the current pair may be on trial.
            Outcome::Return if self.may_return_to(other) => self.go_back(other, now),
            Outcome::Leave(_) | Outcome::Return => {}
        }
        self.tidy_monitor(now);
    }

    /// The host has no room for the checks of the running comparison, which goes on later or is given up. In the second
    /// case the answers of the hold time are enough for payload to go back to a pair that had failed.
    pub(super) fn postpone_comparison(&mut self, now: Instant) {
        let Some(flight) = self.flight_mut() else { return };
        let Some(comparison) = &mut flight.comparison else { return };
        if comparison.postpone(now) {
            return;
        }
        let (other, purpose) = (comparison.other, comparison.purpose);
        flight.comparison = None;
        if purpose == Purpose::FailBack && self.may_return_to(other) {
            self.go_back(other, now);
        }
    }

    /// If `cause` says so, records that payload left `from` as much worse than the current pair.
    pub(super) fn after_leaving(&mut self, from: LocatorPair, cause: Cause, now: Instant) {
        if matches!(cause, Cause::Lossy | Cause::Slow) {
            let to = self.current();
            self.monitor_mut().past_mut(from).note_left(from, to, now);
        }
    }

    /// Whether payload may leave the current pair for this one.
    fn is_of_use(&self, pair: LocatorPair) -> bool {
        let is_avoided = self.extra.as_ref().is_some_and(|extra| extra.avoided.contains(&pair));
        !is_avoided && !self.is_deprecated(pair)
    }

    fn may_return_to(&self, pair: LocatorPair) -> bool {
        self.home_to_check() == Some(pair)
            && !self.is_broken(pair)
            && self.trial_started().is_none()
            && self.switch().is_none()
    }
}

/// Least time to wait for an answer when there is no hurry: 1 s (RFC 6298 s2.1).
pub(super) const ANSWER_DUE: Duration = Duration::from_secs(1);
/// Comparisons in a row that may show nothing before payload goes back without a comparison: 6.
const MOST_INTERRUPTED: u8 = 6;
