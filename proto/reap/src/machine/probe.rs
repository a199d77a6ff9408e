//! Probes that come in: which are believed, and what they prove (RFC 5534 s6.7 to 6.9).

use moorline_types::{DropReason, Instant, LocatorPair};

use super::checks::{is_answer, is_way_back};
use super::follow::{Wish, left_as_worse};
use super::{CHECK, Machine};
use crate::event::{Cause, Event};
use crate::exploration::Exploration;
use crate::message::{Probe, Report};
use crate::monitor::Check;
use crate::state::{Input, State};

/// What the reports of received probes in a probe amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There are none.
    Silent,
    /// They are about probes that we did not send, or sent too long ago.
    Unknown,
    /// The peer hears us, by pairs that are no candidates any more.
    Outdated,
    /// The peer hears us by this pair.
    Proven(LocatorPair),
}

impl Machine {
    /// A probe came in by `pair`, seen from us: to our `local` from the peer's `peer` locator.
    ///
    /// # Errors
    /// Nothing has changed then, but for one more probe in the count of the rate limit.
    /// [`BadFormat`](DropReason::BadFormat): it does not describe itself.
    /// [`WrongLocators`](DropReason::WrongLocators): it describes itself as sent by another pair.
    /// [`Replayed`](DropReason::Replayed): it came before.
    /// [`RateLimited`](DropReason::RateLimited): too many to answer.
    /// [`BadNonce`](DropReason::BadNonce): what it says to have received we have not sent.
    /// [`UnknownCriticalOption`](DropReason::UnknownCriticalOption): a check, and this host knows none.
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
        if let Some(report) = probe.sent.first().filter(|_| is_to_answer) {
            return self.answer_check(pair, *report, now);
        }
        let report = self.check(pair, probe, now)?;
        self.accept(report, now);
        if self.state == State::Exploring && report.data == CHECK {
            self.explore_by(pair, now);
            return Ok(());
        }
        // The peer sends checks in any case: one says nothing of what the peer hears.
        self.on_heard(pair, Cause::ProbeOperational, now);
        if self.is_question(pair) && self.takes_answer(pair, now) {
            self.probe(Some(pair), now);
        }
        Ok(())
    }

    /// A probe without the option of a check (decision 143): whatever its Probe Data, RFC 5534 says what becomes of it.
    ///
    /// # Errors
    /// As those of [`handle_probe`](Self::handle_probe).
    pub fn handle_plain_probe(
        &mut self,
        pair: LocatorPair,
        probe: &Probe,
        now: Instant,
    ) -> Result<(), DropReason> {
        let report = self.check(pair, probe, now)?;
        // A probe Exploring reports a check for another purpose.
        let is_exploring = probe.state == State::Exploring;
        let settled = if is_exploring { None } else { self.heed_answer(pair, probe, now) };
        let checked = if is_exploring { None } else { self.confirm_check(probe, now) };
        let is_way_back = is_way_back(probe);
        if let Some(check) = checked
            && self.state == State::Operational
        {
            self.on_check_answered(check, probe, now);
            if is_answer(probe) {
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
            (Verdict::Proven(_), Some(settled)) => Verdict::Proven(settled),
            (verdict, _) => verdict,
        };
        match probe.state {
            State::Exploring => {
                self.accept(report, now);
                self.on_exploring(pair, probe, now);
            }
            State::InboundOk => {
                let is_unknown = verdict == Verdict::Unknown;
                if is_unknown && !self.is_question(pair) && self.state != State::Operational {
                    return Err(DropReason::BadNonce);
                }
                self.accept(report, now);
                if is_unknown && self.is_question(pair) {
                    self.probe(Some(pair), now);
                } else {
                    self.on_inbound_ok(pair, verdict, now);
                }
            }
            State::Operational => {
                if verdict == Verdict::Unknown {
                    return Err(DropReason::BadNonce);
                }
                self.accept(report, now);
                self.on_operational(pair, verdict, now);
            }
        }
        Ok(())
    }

    /// Whether one of these reports is about a probe of ours that has left since then. An old message, repeated, has no such one.
    #[must_use]
    pub fn reports_since(&self, received: &[Report], since: Instant) -> bool {
        let checks = self.flight_now().into_iter().flat_map(|flight| &flight.checks);
        let checks = checks.map(|check| (check.pair, check.nonce, check.at));
        let records = self.exploration.iter().flat_map(|exploration| exploration.records.sent());
        let mut sent = checks.chain(records);
        sent.any(|(_, nonce, at)| at >= since && received.iter().any(|one| one.nonce == nonce))
    }

    /// The peer has answered another message than a probe, which went by this pair, by the way back. The pair works, but the
    /// peer knows nothing of an exploration yet: that goes on.
    pub fn handle_answered(&mut self, pair: LocatorPair, now: Instant) {
        let has_none = self.state == State::InboundOk && self.is_current_down;
        if (self.state == State::Exploring || has_none) && self.is_candidate(pair) {
            self.move_to(pair, Cause::ControlReceived, now);
        }
    }

    /// A check of another pair was answered after its trial was over: as [`Self::handle_answered`].
    fn on_late_answer(&mut self, check: Check, now: Instant) {
        if self.state == State::Exploring && self.is_candidate(check.pair) {
            self.move_to(check.pair, Cause::ProbeOperational, now);
        }
    }

    fn on_exploring(&mut self, pair: LocatorPair, probe: &Probe, now: Instant) {
        let via = self.answer_pair(pair);
        let current = self.current();
        // The peer hears nothing by our current pair, and comes by one that we know to work: no need to
        // wait for the end of the exploration.
        let is_proven = |e: &Exploration| e.records.is_proven(current);
        let is_settled =
            self.state != State::Operational && self.exploration.as_deref().is_some_and(is_proven);
        let wish = Wish {
            to: pair,
            cause: Cause::ProbeExploring,
            is_ready: !is_settled && self.fresh_standby(now) == Some(pair),
            is_vouched: self.takes_voucher(probe, now),
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
        match verdict {
            // The peer waits for an answer, which a pair that is in doubt may not carry.
            Verdict::Proven(proven) => via = (!self.follow(proven, cause, now)).then_some(proven),
            // RFC 5534 s6.8: "If no received probes have been reported, the current address pair is
            // unchanged": the peer must have heard our payload, which cannot be if we know better.
            Verdict::Silent | Verdict::Outdated if self.is_current_down => {
                return self.on_heard(pair, cause, now);
            }
            Verdict::Silent | Verdict::Outdated => {}
            // In Operational (see above) the peer may have waited for an answer until we had
            // forgotten what we sent. It gets one, by the way it came: ours may be dead, if what we
            // have forgotten was an exploration. Nothing else comes of it.
            Verdict::Unknown => {
                self.probe(self.answer_pair(pair), now);
                return self.refresh_forget(now);
            }
        }
        self.step(Input::ProbeInboundOk, cause, via, now);
    }

    fn on_operational(&mut self, pair: LocatorPair, verdict: Verdict, now: Instant) {
        let cause = Cause::ProbeOperational;
        // Only the answer to a probe of ours may end an exploration. One that proves nothing is taken
        // for such in InboundOk, where we did ask, and for a sign of life in Exploring: an old one
        // played again must not stop the search.
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

    /// A check of another pair than the peer's payload takes: the peer does not know that its payload is lost, and learns of it by a
    /// Probe Exploring only. InboundOk would say that the payload arrives (RFC 5534 s6.8).
    fn explore_by(&mut self, pair: LocatorPair, now: Instant) {
        if self.is_candidate(pair) && self.takes_answer(pair, now) {
            self.probe(Some(pair), now);
        }
    }

    /// The peer is alive, and that is all we know.
    fn on_heard(&mut self, pair: LocatorPair, cause: Cause, now: Instant) {
        let via = self.answer_pair(pair);
        self.step(Input::KeepaliveReceived, cause, via, now);
    }

    /// The pair to answer by: the one that the peer's probe came by, "as it appeared in the Probe"
    /// (RFC 5534 appendix A), in turn with the others, since it may work one way only.
    fn answer_pair(&self, pair: LocatorPair) -> Option<LocatorPair> {
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
        if probe.state != State::Operational && !self.takes_answer(pair, now) {
            return Err(DropReason::RateLimited);
        }
        Ok(*report)
    }

    /// Whether the peer may ask by a probe that came by this pair if the pair works, since somebody forges probes to both hosts: this
    /// host explores because of a probe alone, and answers.
    fn is_question(&self, pair: LocatorPair) -> bool {
        let explores = self.exploration.as_ref().is_some_and(|exploration| exploration.is_own);
        let is_current = pair == self.current() && self.is_candidate(pair);
        self.state == State::InboundOk && !explores && is_current
    }

    /// Whether one more probe by this pair is answered in this second.
    fn takes_answer(&mut self, pair: LocatorPair, now: Instant) -> bool {
        let is_current = usize::from(pair == self.current());
        self.explore().answers[is_current].take(now)
    }

    fn accept(&mut self, report: Report, now: Instant) {
        self.heard = now;
        let exploration = self.explore();
        exploration.keepalives = 0;
        exploration.left = None;
        exploration.records.note_received(report);
    }

    /// Believes those reports that name a nonce and the pair it went by.
    ///
    /// Of several the probe that left last counts, not the one listed first. In Operational the
    /// current pair stays if it is proven: the peer merely has not had our answer yet.
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
            self.explore().tell(Event::Answered { pair: sent.pair });
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
