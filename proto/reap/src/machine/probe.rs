//! Incoming probes: which ones the machine believes, and what they prove (RFC 5534 s6.7 to 6.9).

use moorline_types::{DropReason, Instant, LocatorPair};

use super::checks::{is_answer, is_way_back};
use super::follow::{Wish, left_as_worse};
use super::{CHECK, Machine};
use crate::bounded::Allowance;
use crate::event::{Cause, Event};
use crate::exploration::Exploration;
use crate::message::{Probe, Report};
use crate::monitor::Check;
use crate::state::{Input, State};

/// The result of the reports of received probes in one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The probe has no reports.
    Silent,
    /// The reports are about probes that this host did not send, or sent too long ago.
    Unknown,
    /// The peer hears this host, by pairs that are no candidates any more.
    Outdated,
    /// The peer hears this host by this pair.
    Proven(LocatorPair),
}

impl Machine {
    /// A probe came in by `pair`, seen from this host: to our `local` from the peer's `peer` locator.
    ///
    /// # Errors
    /// On error nothing has changed, except counts of limits.
    /// [`BadFormat`](DropReason::BadFormat): the probe has no report of itself.
    /// [`WrongLocators`](DropReason::WrongLocators): the probe names another pair for itself.
    /// [`Replayed`](DropReason::Replayed): the same probe came before.
    /// [`RateLimited`](DropReason::RateLimited): there are too many probes to answer.
    /// [`BadNonce`](DropReason::BadNonce): the probe reports only probes that this host has not sent.
    /// [`Unasked`](DropReason::Unasked): the same, in Operational.
    /// [`UnknownCriticalOption`](DropReason::UnknownCriticalOption): the probe is a check, and this host knows no
    /// checks.
    pub fn handle_probe(
        &mut self,
        pair: LocatorPair,
        probe: &Probe,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !probe.is_check() {
            return self.handle_plain_probe(pair, probe, now);
        }
        if !self.config.profile.answers_checks {
            return Err(DropReason::UnknownCriticalOption);
        }
        let is_to_answer = self.state == State::Operational;
        if is_to_answer {
            return self.answer_check(pair, probe, now);
        }
        let report = self.check(pair, probe, now)?;
        self.accept(report, now);
        if self.state == State::Exploring && report.data == CHECK {
            self.explore_by(pair, probe, now);
            return Ok(());
        }
        // The peer sends checks whatever it hears, so a check says nothing about what the peer hears.
        self.on_heard(pair, Cause::ProbeOperational, now);
        if self.is_question(pair, probe, now) && self.takes_answer(pair, probe, now) {
            self.probe(Some(pair), now);
        }
        Ok(())
    }

    /// A probe without the option of a check came in (decision 143). Whatever its Probe Data, RFC 5534 says how to
    /// process the probe.
    ///
    /// # Errors
    /// The errors of [`handle_probe`](Self::handle_probe).
    pub fn handle_plain_probe(
        &mut self,
        pair: LocatorPair,
        probe: &Probe,
        now: Instant,
    ) -> Result<(), DropReason> {
        let report = self.check(pair, probe, now)?;
        // A Probe Exploring reports a check for another purpose.
        let is_exploring = probe.state == State::Exploring;
        let settled = if is_exploring { None } else { self.heed_answer(pair, probe, now) };
        let checked = if is_exploring { None } else { self.confirm_check(probe, now) };
        if let Some(check) = checked {
            self.note_proven(check.pair);
        }
        let is_way_back = is_way_back(probe);
        if let Some(check) = checked
            && self.state == State::Operational
        {
            self.on_check_answered(check, probe, now);
            if is_answer(probe) {
                self.note_confirmation();
                return Ok(());
            }
        }
        if let Some(check) = checked
            && self.state != State::Operational
            && (check.data == CHECK && is_answer(probe) || is_way_back)
        {
            self.on_late_answer(check, now);
            return Ok(());
        }
        let verdict = match (self.judge(probe, now), checked) {
            (Verdict::Unknown, Some(_)) if self.state == State::Operational => Verdict::Silent,
            (Verdict::Unknown, Some(check)) if self.is_candidate(check.pair) => {
                Verdict::Proven(check.pair)
            }
            (Verdict::Unknown, Some(_)) => Verdict::Outdated,
            (verdict, _) => verdict,
        };
        let verdict = match (verdict, settled) {
            (Verdict::Proven(_) | Verdict::Unknown, Some(settled)) => Verdict::Proven(settled),
            (verdict, _) => verdict,
        };
        match probe.state {
            State::Exploring => {
                self.accept(report, now);
                self.on_exploring(pair, probe, now);
            }
            State::InboundOk => {
                let is_unknown = verdict == Verdict::Unknown;
                if is_unknown
                    && !self.is_question(pair, probe, now)
                    && self.state != State::Operational
                {
                    return Err(DropReason::BadNonce);
                }
                self.accept(report, now);
                if is_unknown && self.is_question(pair, probe, now) {
                    self.probe(Some(pair), now);
                } else {
                    self.on_inbound_ok(pair, verdict, now);
                }
            }
            State::Operational => {
                if verdict == Verdict::Unknown {
                    // In Operational the reports are of checks whose answers are here already, or of probes of before.
                    let is_asking = self.state != State::Operational;
                    return Err(if is_asking { DropReason::BadNonce } else { DropReason::Unasked });
                }
                self.accept(report, now);
                self.on_operational(pair, verdict, now);
            }
        }
        Ok(())
    }

    /// Whether one of these reports is about a probe that this host sent at or after `since`. A replayed message has no
    /// such report.
    #[must_use]
    pub fn reports_since(&self, received: &[Report], since: Instant) -> bool {
        let mut sent = self.sent_since(since);
        sent.any(|(_, nonce)| received.iter().any(|one| one.nonce == nonce))
    }

    /// Pairs and nonces of the checks and probes that this host sent at or after `since`, and still remembers.
    pub(super) fn sent_since(
        &self,
        since: Instant,
    ) -> impl Iterator<Item = (LocatorPair, u32)> + '_ {
        let checks = self.flight_now().into_iter().flat_map(|flight| &flight.checks);
        let checks = checks.map(|check| (check.pair, check.nonce, check.at));
        let records = self.exploration.iter().flat_map(|exploration| exploration.records.sent());
        let sent = checks.chain(records).filter(move |(_, _, at)| *at >= since);
        sent.map(|(pair, nonce, _)| (pair, nonce))
    }

    /// The peer has answered another message than a probe. That message went by `pair`, and the answer came by the way
    /// back. So the pair works. The peer knows nothing of an exploration yet, so the exploration goes on.
    pub fn handle_answered(&mut self, pair: LocatorPair, now: Instant) {
        let has_none = self.state == State::InboundOk && self.is_current_down;
        if (self.state == State::Exploring || has_none) && self.is_candidate(pair) {
            let cause = Cause::ControlReceived;
            if !self.asks_ulids_first(pair, None, (cause, false), now) {
                self.move_to(pair, cause, now);
            }
        }
    }

    /// The peer has answered a check of another pair after the trial was over. The effect is that of
    /// [`Self::handle_answered`], in Exploring only.
    fn on_late_answer(&mut self, check: Check, now: Instant) {
        if self.state == State::Exploring && self.is_candidate(check.pair) {
            let cause = Cause::ProbeOperational;
            if !self.asks_ulids_first(check.pair, None, (cause, false), now) {
                self.move_to(check.pair, cause, now);
            }
        }
    }

    fn on_exploring(&mut self, pair: LocatorPair, probe: &Probe, now: Instant) {
        let via = self.answer_pair(pair);
        let current = self.current();
        self.note_unheard(now);
        // The peer hears nothing by our current pair, and its probe came by a pair that is known to work. There is no
        // need to wait for the end of the exploration.
        let is_proven = |e: &Exploration| e.records.is_proven(current);
        let is_settled =
            self.state != State::Operational && self.exploration.as_deref().is_some_and(is_proven);
        let wish = Wish {
            to: pair,
            cause: Cause::ProbeExploring,
            is_ready: !is_settled
                && self.fresh_standby(now) == Some(pair)
                && !self.finds_nothing(now),
            is_vouched: pair != current && self.takes_voucher(probe, now),
            worse: left_as_worse(probe, current),
        };
        let trial = self.trial_started();
        self.step(Input::ProbeExploring, Cause::ProbeExploring, via, now);
        if pair != current {
            self.on_wish(wish, trial, now);
        }
    }

    fn on_inbound_ok(&mut self, pair: LocatorPair, verdict: Verdict, now: Instant) {
        let cause = Cause::ProbeInboundOk;
        let mut via = None;
        if self.settles_later(pair, verdict, cause, now) {
            return;
        }
        match verdict {
            // The peer waits for an answer, which a pair in doubt may not carry.
            Verdict::Proven(proven) => via = (!self.follow(proven, cause, now)).then_some(proven),
            // RFC 5534 s6.8: "If no received probes have been reported, the current address pair is unchanged". The
            // rule assumes that the peer has heard our payload, which is impossible if the current pair is down.
            Verdict::Silent | Verdict::Outdated if self.is_current_down => {
                return self.on_heard(pair, cause, now);
            }
            Verdict::Silent | Verdict::Outdated => {}
            // In Operational the peer may have waited for an answer until this host had forgotten its probes. The peer
            // gets an answer by the pair that its probe came by, because the current pair may be dead. The probe has no
            // other effect.
            Verdict::Unknown => {
                self.probe(self.answer_pair(pair), now);
                return self.refresh_forget(now);
            }
        }
        self.step(Input::ProbeInboundOk, cause, via, now);
    }

    fn on_operational(&mut self, pair: LocatorPair, verdict: Verdict, now: Instant) {
        let cause = Cause::ProbeOperational;
        self.note_confirmation();
        if self.settles_later(pair, verdict, cause, now) {
            return;
        }
        // Only the answer to a probe of ours may end an exploration. A probe that proves nothing counts as an answer in
        // InboundOk, where this host has asked. In Exploring it is a sign of life only, because a replayed probe must
        // not stop the search.
        let is_answer = match verdict {
            Verdict::Proven(proven) => {
                self.follow(proven, cause, now);
                true
            }
            Verdict::Silent => self.state != State::Exploring && !self.is_current_down,
            Verdict::Outdated | Verdict::Unknown => !self.is_current_down,
        };
        if is_answer {
            self.step(Input::ProbeOperational, cause, None, now);
        } else {
            self.on_heard(pair, cause, now);
        }
    }

    /// Whether this host asks the ULIDs before it ends the exploration by this verdict about another pair.
    fn settles_later(
        &mut self,
        by: LocatorPair,
        verdict: Verdict,
        cause: Cause,
        now: Instant,
    ) -> bool {
        let Verdict::Proven(proven) = verdict else { return false };
        self.asks_ulids_first(proven, Some(by), (cause, true), now)
    }

    /// A check came by another pair than the peer's payload takes. The peer does not know that its payload is lost, and
    /// learns it only from a Probe Exploring. A Probe InboundOk would say that the payload arrives (RFC 5534 s6.8).
    fn explore_by(&mut self, pair: LocatorPair, probe: &Probe, now: Instant) {
        if self.is_candidate(pair) && self.takes_answer(pair, probe, now) {
            self.probe(Some(pair), now);
        }
    }

    /// The peer is alive. Nothing else is known.
    fn on_heard(&mut self, pair: LocatorPair, cause: Cause, now: Instant) {
        let via = self.answer_pair(pair);
        self.step(Input::KeepaliveReceived, cause, via, now);
    }

    /// The pair for the answer: the pair that the peer's probe came by, "as it appeared in the Probe" (RFC 5534
    /// appendix A), in turn with the other pairs, since a pair may work one way only.
    pub(super) fn answer_pair(&self, pair: LocatorPair) -> Option<LocatorPair> {
        let last = self.exploration.as_ref().and_then(|e| e.records.last_sent());
        let is_repetition = self.state == State::InboundOk
            && last.is_some_and(|s| s.pair == pair && s.state == State::InboundOk);
        Some(pair).filter(|&pair| self.is_candidate(pair) && !is_repetition)
    }

    fn check(
        &mut self,
        pair: LocatorPair,
        probe: &Probe,
        now: Instant,
    ) -> Result<Report, DropReason> {
        let report = probe.sent.first().ok_or(DropReason::BadFormat)?;
        if report.src != pair.peer || report.dst != pair.local {
            return Err(DropReason::WrongLocators);
        }
        let Some(exploration) = &self.exploration else { return Ok(*report) };
        if exploration.records.is_known(report) {
            return Err(DropReason::Replayed);
        }
        let is_answer = probe.state == State::InboundOk && self.is_first_report(pair, probe, now);
        let is_taken = probe.state == State::Operational
            || is_answer && self.explore().answers_to_reports.take(now)
            || self.takes_answer(pair, probe, now);
        if is_taken { Ok(*report) } else { Err(DropReason::RateLimited) }
    }

    /// Whether the probe is the first one that reports a probe or check of ours by this pair. So it answers a message
    /// of ours, and forged probes, whatever their number, do not keep it out. A report that is taken is noted, so the same
    /// report counts for one probe. Each answer of this host is a probe that the peer can report in turn, so such probes
    /// have a limit as well.
    fn is_first_report(&self, pair: LocatorPair, probe: &Probe, now: Instant) -> bool {
        let by_pair =
            |one: &&Report| LocatorPair::new(one.src, one.dst) == pair && !is_way_back(probe);
        probe.received.iter().filter(by_pair).any(|report| {
            let flight = self.flight_now();
            let is_check = flight.is_some_and(|flight| flight.find(pair, report, now).is_some());
            let exploration = self.exploration.as_deref();
            is_check || exploration.is_some_and(|one| one.records.awaits(report, now))
        })
    }

    /// Whether a probe of the peer by this pair may be a question whether the pair works. An attacker may forge probes
    /// to both hosts. So if this host explores only because of a probe, it answers questions by its current pair, and
    /// those by the preferred pair whose sender sees that pair.
    fn is_question(&self, pair: LocatorPair, probe: &Probe, now: Instant) -> bool {
        let explores = self.exploration.as_ref().is_some_and(|exploration| exploration.is_own);
        let is_asked = match self.allowance(pair, probe, now) {
            Allowance::Current | Allowance::Shown | Allowance::ShownHome => self.is_candidate(pair),
            Allowance::Others => false,
        };
        self.state == State::InboundOk && !explores && is_asked
    }

    /// Counts a probe by this pair against the limit of answers in a second. Returns false if the limit is reached.
    fn takes_answer(&mut self, pair: LocatorPair, probe: &Probe, now: Instant) -> bool {
        let allowance = self.allowance(pair, probe, now);
        self.explore().answers[allowance as usize].take(now)
    }

    fn accept(&mut self, report: Report, now: Instant) {
        self.heard = now;
        let exploration = self.explore();
        (exploration.keepalives, exploration.paid) = (0, 0);
        exploration.left = None;
        exploration.records.note_received(report);
    }

    /// Judges the reports: only a report of a nonce and the pair that carried it counts.
    ///
    /// Of several such reports, the report of the probe that left last decides, not the first in the list. In
    /// Operational the current pair stays if it is proven, because the peer has merely not received our answer yet.
    fn judge(&mut self, probe: &Probe, now: Instant) -> Verdict {
        if probe.received.is_empty() {
            return Verdict::Silent;
        }
        let mut verdict = Verdict::Unknown;
        let mut newest = None;
        for report in &probe.received {
            let records = self.exploration.as_mut().map(|e| &mut e.records);
            let Some(sent) = records.and_then(|r| r.confirm(report, now)) else {
                continue;
            };
            self.explore().tell(Event::Answered { pair: sent.pair, rtt: None });
            self.note_proven(sent.pair);
            if !self.is_candidate(sent.pair) {
                if verdict == Verdict::Unknown {
                    verdict = Verdict::Outdated;
                }
            } else if newest.is_none_or(|at| sent.at > at) {
                newest = Some(sent.at);
                verdict = Verdict::Proven(sent.pair);
            }
        }
        let is_switch = |pair| self.switch().is_some_and(|switch| switch.pair == pair);
        let is_settled = self.state == State::Operational
            && self.is_candidate(self.current())
            && self.exploration.as_ref().is_some_and(|e| e.records.is_proven(self.current()));
        match verdict {
            Verdict::Proven(pair) if is_settled && !is_switch(pair) => {
                Verdict::Proven(self.current())
            }
            Verdict::Proven(_) | Verdict::Silent | Verdict::Outdated | Verdict::Unknown => verdict,
        }
    }
}
