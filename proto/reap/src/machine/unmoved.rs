//! Payload between the ULIDs (decision 208). Such payload is plain IPv6. By each other pair it has the payload extension
//! header, and a firewall that drops protocol 140 drops it with the probes.
//!
//! So while no pair answers, payload takes the ULIDs, as it would without a context; and when an exploration that has
//! found nothing for a while gets its first answer by another pair, this host asks the ULIDs as well, and waits a moment
//! for their answer.

use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use crate::event::Cause;
use crate::exploration::{Awaited, Exploration, Questions, Rival};
use crate::state::{Input, State};

impl Machine {
    /// Sets the ULIDs of the context. Until the first call they are the pair that the context began with. The caller
    /// sets them again after each change of the candidates: a ULID may have become a locator again.
    pub fn handle_ulids(&mut self, ulids: LocatorPair) {
        self.ulids = self.places_of(ulids);
    }

    pub(super) fn ulids(&self) -> Option<LocatorPair> {
        self.pair_at(self.ulids?)
    }

    /// Whether payload takes the ULIDs.
    pub(super) fn is_unmoved(&self) -> bool {
        self.ulids() == Some(self.current())
    }

    /// Whether payload stays on the ULIDs until another pair has answered: this host has probed for a while, for itself
    /// or for the peer, and no pair has answered.
    pub(super) fn finds_nothing(&self, now: Instant) -> bool {
        let explores = self.exploration.as_ref().is_some_and(|one| now >= one.began + A_WHILE);
        self.suspects()
            && self.state != State::Operational
            && explores
            && self.is_unmoved()
            && !self.is_current_down
            && self.is_candidate(self.current())
    }

    /// Payload has moved to the current pair, which has not answered since the failure. If no answer comes in time,
    /// payload takes the ULIDs.
    pub(super) fn await_answer(&mut self, patience: Patience, now: Instant) {
        if !self.suspects() || self.state == State::Operational || self.is_unmoved() {
            return;
        }
        let Patience { wait, longer, asks } = patience;
        let known = self.monitor.as_ref().and_then(|monitor| monitor.current_rtt.known());
        let rtt = known.unwrap_or_default();
        let gap = (wait / QUESTIONS).clamp(LEAST_GAP, MOST_GAP).max(rtt);
        let (least, told_from) = (now + wait, now + rtt);
        let until = least + longer;
        let exploration = self.explore();
        let questions = asks.then_some(Questions { gap, left: QUESTIONS });
        exploration.awaited = Some(Awaited { least, until, questions, told_from });
        exploration.deadlines.ulids = Some(if asks { until.min(now + gap) } else { until });
    }

    /// A Probe Exploring came in: the peer does not hear this host, so the wait for an answer is short.
    pub(super) fn note_unheard(&mut self, now: Instant) {
        let Some(exploration) = &mut self.exploration else { return };
        let awaited = exploration.awaited.as_mut().filter(|awaited| now > awaited.told_from);
        if let Some(awaited) = awaited {
            awaited.until = awaited.until.min(awaited.least.max(now));
            let until = awaited.until;
            exploration.deadlines.ulids = exploration.deadlines.ulids.map(|at| at.min(until));
        }
    }

    /// Whether payload has left the ULIDs for a pair that is still to answer.
    pub(super) fn is_answer_awaited(&self) -> bool {
        let awaits = |one: &Exploration| one.deadlines.ulids.is_some();
        !self.is_unmoved() && self.exploration.as_deref().is_some_and(awaits)
    }

    /// Moves payload to a pair because of a probe of the peer. The peer hears nothing by the current pair, and the pair
    /// `to` may carry nothing from here.
    pub(super) fn move_for_peer(&mut self, to: LocatorPair, cause: Cause, now: Instant) {
        let (was_unmoved, wait) = (self.is_unmoved(), self.moment());
        self.move_to(to, cause, now);
        let is_proven = self.exploration.as_ref().is_some_and(|one| one.records.is_proven(to));
        if was_unmoved && !is_proven {
            let patience = Patience { longer: wait * 2, ..Patience::asking(wait) };
            self.await_answer(patience, now);
        }
    }

    /// Time for the answer of a pair that payload has moved to because the pair answered before the failure.
    pub(super) fn moment(&self) -> Duration {
        let known = self.monitor.as_ref().and_then(|monitor| monitor.standby_rtt.known());
        MOMENT.max(known.unwrap_or_default() * 3)
    }

    /// The peer has answered by the pair `to`. If nothing has answered for a while and payload takes the ULIDs, asks
    /// these first, and returns true. `by`: the pair of the peer's probe. `is_end`: whether the exploration ends with
    /// the move.
    pub(super) fn asks_ulids_first(
        &mut self,
        to: LocatorPair,
        by: Option<LocatorPair>,
        (cause, is_end): (Cause, bool),
        now: Instant,
    ) -> bool {
        let current = self.current();
        let is_wanted = self.switch().is_some_and(|switch| switch.pair == to);
        // A machine that is guarded asks its current pair first in any case.
        if to == current || is_wanted || self.is_guarded() || !self.finds_nothing(now) {
            return false;
        }
        let rtt = self.explore().records.age_of_last_by(to, now).unwrap_or_default();
        let rtt = rtt.max(self.round_trip().unwrap_or_default());
        let exploration = self.explore();
        if exploration.rival.is_none() {
            let gap = (rtt * 3).clamp(LEAST_WAIT, MOST_WAIT) / ASKED;
            exploration.rival = Some(Rival { pair: to, cause, is_end, gap, asked: 0 });
            self.on_ulids_timeout(now);
        } else if by == Some(current) {
            // The peer may ask its own way of the same pair, and waits as well.
            self.probe(by, now);
        }
        true
    }

    /// The next question by the ULIDs is due, or the time for an answer is over: theirs or that of the pair that payload
    /// has moved to.
    pub(super) fn on_ulids_timeout(&mut self, now: Instant) {
        let current = self.current();
        let may_ask = self.is_candidate(current);
        let exploration = self.explore();
        exploration.deadlines.ulids = None;
        match &mut exploration.rival {
            None => self.on_wait_timeout(now),
            Some(rival) if rival.asked < ASKED && may_ask => {
                rival.asked += 1;
                exploration.deadlines.ulids = Some(now + rival.gap);
                self.probe(Some(current), now);
            }
            Some(rival) => {
                let rival = *rival;
                self.explore().rival = None;
                self.take_rival(rival, now);
            }
        }
    }

    /// The current pair is of no use, while another pair has answered and waits for it: payload takes the other pair.
    /// Returns false if no pair waits that does not share the failure.
    pub(super) fn takes_rival_at_once(&mut self, cause: Cause, now: Instant) -> bool {
        let current = self.current();
        let rival = self.exploration.as_mut().and_then(|exploration| exploration.rival.take());
        let shares = |rival: &Rival| {
            cause == Cause::LocalFailure && rival.pair.local == current.local
                || !self.is_candidate(rival.pair)
        };
        let Some(rival) = rival.filter(|rival| !shares(rival)) else { return false };
        self.explore().deadlines.ulids = None;
        self.take_rival(rival, now);
        true
    }

    /// The exploration is over while another pair waits for the answer of the ULIDs. If they have not answered, payload
    /// takes the other pair.
    pub(super) fn settle_rival(&mut self, now: Instant) {
        let current = self.current();
        let exploration = self.explore();
        let rival = exploration.rival.take();
        let has_answered = exploration.records.is_proven(current);
        if let Some(rival) = rival.filter(|_| !has_answered)
            && self.is_candidate(rival.pair)
        {
            self.move_to(rival.pair, rival.cause, now);
        }
    }

    /// Whether the ULIDs have answered in the exploration that is over, and payload takes them.
    pub(super) fn have_ulids_answered(&self) -> bool {
        let current = self.current();
        let is_proven = |one: &Exploration| one.records.is_proven(current);
        self.suspects()
            && self.state == State::Operational
            && self.is_unmoved()
            && self.exploration.as_deref().is_some_and(is_proven)
    }

    fn take_rival(&mut self, Rival { pair, cause, is_end, .. }: Rival, now: Instant) {
        if self.state == State::Operational || !self.is_candidate(pair) {
            return;
        }
        self.move_to(pair, cause, now);
        if is_end {
            self.step(Input::ProbeInboundOk, cause, None, now);
        }
    }

    /// The next question by the pair that payload has moved to is due, or the time for its answer is over.
    fn on_wait_timeout(&mut self, now: Instant) {
        let (current, slow) = (self.current(), self.config.probe_timeout(1));
        let is_usable = !self.is_current_down && self.is_candidate(current);
        let exploration = self.explore();
        let awaited = exploration.awaited.as_mut().filter(|one| is_usable && now < one.until);
        let Some(awaited) = awaited else {
            exploration.awaited = None;
            return self.go_back_unanswered(now);
        };
        let mut next = awaited.until;
        if let Some(Questions { gap, left }) = &mut awaited.questions {
            *left = left.saturating_sub(1);
            next = next.min(now + if *left > 0 { *gap } else { slow.max(*gap) });
            exploration.questions = exploration.questions.saturating_add(1);
            self.probe(Some(current), now);
        }
        self.explore().deadlines.ulids = Some(next);
    }

    /// No pair has answered: payload takes the ULIDs. The exploration goes on, and asks the pair that payload has left
    /// more often than others.
    fn go_back_unanswered(&mut self, now: Instant) {
        let left = self.current();
        let is_wanted = |ulids| self.switch().is_some_and(|switch| switch.pair == ulids);
        let ulids = self.ulids().filter(|&ulids| self.is_candidate(ulids) && !is_wanted(ulids));
        if let Some(ulids) =
            ulids.filter(|&ulids| self.state != State::Operational && ulids != left)
        {
            self.move_to(ulids, Cause::Unanswered, now);
            self.explore().left = Some(left);
        }
    }
}

/// How long this host waits for the answer of a pair that payload has moved to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    wait: Duration,
    /// Further time if the peer does not say in `wait` that it hears nothing.
    longer: Duration,
    /// Whether this host asks the pair beside its walk.
    asks: bool,
}

impl Patience {
    /// Only the walk asks the pair.
    pub(super) const fn silent(wait: Duration) -> Self {
        Self { wait, longer: Duration::ZERO, asks: false }
    }

    /// The pair had answered before the failure, and may lose packets.
    pub(super) const fn asking(wait: Duration) -> Self {
        Self { wait, longer: Duration::ZERO, asks: true }
    }
}

/// Time without an answer after which payload on the ULIDs does not leave them for the first pair that answers: 1 s. Not
/// configurable.
const A_WHILE: Duration = Duration::from_secs(1);
/// Least time for the answer of a pair that payload has moved to because the pair answered before the failure: 1 s, two
/// probes. Not configurable.
const MOMENT: Duration = Duration::from_secs(1);
/// Time for an answer when payload takes another pair than the ULIDs, and this pair has fallen silent: 2 s, the initial
/// probes. Not configurable.
pub(super) const WALK: Duration = Duration::from_secs(2);
/// Time for an answer by a pair that has just answered in a trial: 10 s. Not configurable.
pub(super) const AFTER_TRIAL: Duration = Duration::from_secs(10);
/// Questions by a pair that payload has moved to: 8 at this pace, at least one round trip apart, and others each Initial
/// Probe Timeout. Not configurable.
const QUESTIONS: u32 = 8;
const LEAST_GAP: Duration = Duration::from_millis(125);
const MOST_GAP: Duration = Duration::from_millis(250);
/// Questions by the ULIDs: 2.
const ASKED: u32 = 2;
/// Time for their answers: three round trips, and 200 ms to 1 s. Not configurable.
const LEAST_WAIT: Duration = Duration::from_millis(200);
const MOST_WAIT: Duration = Duration::from_secs(1);
