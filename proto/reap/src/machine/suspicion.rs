//! Suspicions: a trial tests the current pair after a failure hint of the data plane (decision 048).

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use super::unmoved::AFTER_TRIAL;
use crate::event::{Cause, Event, FailureHint};
use crate::monitor::{Check, PathMonitor, Round, Suspicion, Trial};
use crate::state::{Input, State};

impl Machine {
    /// The data plane doubts the current pair: nothing has come in since `since`. `usual` is the time that answers have
    /// taken lately (zero: unknown).
    ///
    /// The machine checks the current pair and the standby path in parallel. If the standby path answers and the answer
    /// of the current pair does not come in time, payload moves. If the current pair answers, or if anything is heard,
    /// nothing moves. After each trial the machine defers suspicions until a quiet time is over, which doubles each
    /// time.
    //= rfc5534#8-1
    pub fn handle_suspicion(
        &mut self,
        hint: FailureHint,
        since: Instant,
        usual: Duration,
        now: Instant,
    ) {
        self.on_suspicion(Suspicion { hint, since, usual }, now);
    }

    fn on_suspicion(&mut self, suspicion: Suspicion, now: Instant) {
        let Suspicion { hint, since, .. } = suspicion;
        let is_ready = self.config.profile.suspects && self.state == State::Operational;
        if !is_ready || since < self.heard && hint != FailureHint::Unreachable {
            return;
        }
        if self.is_looked_at(&suspicion) {
            return;
        }
        if hint == FailureHint::Unproven {
            return self.ask_for_proof(now);
        }
        self.consider_comparison(now);
        if self.monitor.as_ref().is_some_and(|monitor| now < monitor.quiet_until(hint)) {
            self.defer(suspicion);
            return self.refresh_watch();
        }
        self.try_pair(suspicion, now);
    }

    /// Whether a trial, a question or a deferred suspicion looks at the pair already. Anybody can forge an error, so the
    /// trial of an error keeps no other suspicion from its own, and an error takes the place of nothing else.
    fn is_looked_at(&self, suspicion: &Suspicion) -> bool {
        let Some(monitor) = &self.monitor else { return false };
        let covers = |before: &Suspicion| !before.is_error() || suspicion.is_error();
        let is_asked = monitor.flight.as_ref().is_some_and(|flight| flight.asked.is_some());
        let is_deferred = monitor.deferred().is_some_and(|before| !before.is_error());
        monitor.trial().is_some_and(|trial| covers(&trial.suspicion))
            || suspicion.is_error() && (is_asked || is_deferred)
    }

    /// Keeps a suspicion for the end of the quiet time. An error makes room for any other suspicion.
    fn defer(&mut self, suspicion: Suspicion) {
        let deferred = &mut self.flight().deferred;
        *deferred = deferred.filter(|before| !before.is_error() || suspicion.is_error());
        deferred.get_or_insert(suspicion);
    }

    /// Begins a trial of the current pair at once, whatever the damping says.
    pub(super) fn try_pair(&mut self, suspicion: Suspicion, now: Instant) {
        let hint = suspicion.hint;
        let others = match hint {
            FailureHint::Unreachable => Vec::new(),
            FailureHint::Retransmission | FailureHint::Silence | FailureHint::Unproven => {
                if self.monitor_mut().is_mute() {
                    return;
                }
                self.trial_pairs(now)
            }
        };
        if others.is_empty() && hint != FailureHint::Unreachable {
            return;
        }
        let (due, gap) = self.patience(suspicion, &others, now);
        let others_due = self.monitor_mut().standby_rtt.due().unwrap_or(UNKNOWN_DUE).max(due);
        let (due, end) = (now + due, now + others_due);
        self.begin_trial(Trial { gap, due, end, ..Trial::new(suspicion, others, now) });
    }

    /// Time by which the data plane's Send Timer runs out before the end of the Send Timeout. In this time a trial
    /// tells a peer that cannot be reached from a peer whose few packets got lost.
    ///
    /// Zero if the peer has never answered a check by this pair, or if its answer would come too late.
    pub(super) fn send_lead(&self) -> Duration {
        let lead = (self.config.send_timeout / LEAD_PART).min(MAX_LEAD);
        let due = self.monitor.as_ref().and_then(|monitor| monitor.current_rtt.due());
        let is_useful = self.has_trials() && due.is_some_and(|due| due <= lead);
        if is_useful { lead } else { Duration::ZERO }
    }

    fn has_trials(&self) -> bool {
        self.state == State::Operational && self.suspects() && self.has_current_answered()
    }

    /// Nothing has come back since `since`, and the Send Timeout is not over yet: the pair has a trial until then.
    /// Damping does not apply to this last trial. Returns false if there is no time or no reason to wait.
    pub(super) fn begin_last_trial(&mut self, since: Instant, now: Instant) -> bool {
        let expires = since + self.config.send_timeout;
        // The data plane may not know yet that there is no lead any more.
        let is_soon = now < expires && self.has_trials();
        if let Some(trial) = self.trial_mut().filter(|one| is_soon && !one.suspicion.is_error()) {
            trial.expires = Some(expires);
            return true;
        }
        if !is_soon {
            return false;
        }
        let left = expires.since(now);
        let answered_after = self.monitor_mut().current_rtt.known().unwrap_or(UNKNOWN_RTT);
        let gap = (left - answered_after.min(left / 2)) / CURRENT_CHECKS;
        let suspicion = Suspicion { hint: FailureHint::Silence, since, usual: Duration::ZERO };
        let trial = Trial::new(suspicion, self.trial_pairs(now), now);
        let (gap, due, end) = (gap.max(LEAST_GAP), expires, expires);
        self.begin_trial(Trial { expires: Some(expires), gap, due, end, ..trial });
        true
    }

    fn begin_trial(&mut self, trial: Trial) {
        let (hint, now) = (trial.suspicion.hint, trial.started);
        // The trial of an error makes room.
        self.clear_trial(now);
        let flight = self.flight();
        (flight.deferred, flight.asked) = (None, None);
        flight.tell(Event::Suspected { hint });
        flight.trial = Some(trial);
        self.on_trial_timeout(now);
        self.refresh_watch();
    }

    /// How long to wait for the answer of the current pair, and the time between its checks.
    ///
    /// An old round-trip time says nothing about the queues of the moment. The time that payload's answers have taken
    /// in the last seconds does. A retransmission already accounts for that time, if checks were answered lately. If
    /// comparisons have shown that all other pairs are worse, a short silence is no reason to leave the current pair.
    fn patience(
        &mut self,
        suspicion: Suspicion,
        others: &[LocatorPair],
        now: Instant,
    ) -> (Duration, Duration) {
        let has_worse_only = !others.is_empty() && self.are_all_worse(others);
        let least = if has_worse_only { UNKNOWN_DUE } else { Duration::ZERO };
        let rtt = self.monitor_mut().current_rtt;
        let hint = suspicion.hint;
        let usual = suspicion.usual.saturating_sub(DELAYED_ACK);
        let usual = match hint {
            FailureHint::Silence | FailureHint::Unproven => usual,
            FailureHint::Retransmission if !rtt.is_fresh(now) => usual,
            FailureHint::Retransmission | FailureHint::Unreachable => Duration::ZERO,
        };
        let most = match hint {
            FailureHint::Silence | FailureHint::Unproven => UNSEEN_AFTER_SILENCE,
            FailureHint::Retransmission => UNSEEN_AFTER_RETRANSMISSION,
            FailureHint::Unreachable => Duration::ZERO,
        };
        let measured = rtt.due().unwrap_or(UNKNOWN_DUE);
        let seen = if rtt.is_steady() && usual * 3 / 2 <= measured {
            measured
        } else {
            // There is a queue, so some of the checks will get lost in it.
            measured.max((usual * 3).max(measured * 2).min(UNKNOWN_DUE))
        };
        // Neither the few checks nor a flow with few packets have seen a queue that has just filled.
        let due = seen.max(measured + rtt.unseen_queue().min(most)).max(least);
        let answered_after = rtt.known().unwrap_or(UNKNOWN_RTT).max(usual).min(due / 2);
        // Spread the checks over the remaining time, so that a queue that is full for a moment does not drop all of
        // them.
        (due, ((due - answered_after) / CURRENT_CHECKS).max(LEAST_GAP))
    }

    fn are_all_worse(&self, pairs: &[LocatorPair]) -> bool {
        let past = self.monitor.as_ref().and_then(|monitor| monitor.past());
        past.is_some_and(|past| pairs.iter().all(|pair| past.worse.contains(pair)))
    }

    /// The next checks are due, or the verdict.
    pub(super) fn on_trial_timeout(&mut self, now: Instant) {
        let current = self.current();
        self.take_up_deferred(now);
        let Some(trial) = self.trial_mut() else { return };
        if trial.next.is_some_and(|next| next <= now) {
            trial.sent += 1;
            trial.next = Some(now + trial.gap).filter(|_| trial.sent < CURRENT_CHECKS);
            let has_answer = trial.answered.is_some();
            let asks_others = trial.sent <= OTHER_CHECKS && !has_answer;
            let others = if asks_others { trial.others.clone() } else { Vec::new() };
            self.send_check(current, now);
            for pair in others {
                self.send_check(pair, now);
            }
        }
        let Some(trial) = self.trial_mut() else { return };
        if now >= trial.due && (trial.knows_better() || now >= trial.end) {
            self.on_verdict(now);
        }
    }

    /// The quiet time is over. The data plane reports a suspicion once only, so the machine takes up the deferred one.
    fn take_up_deferred(&mut self, now: Instant) {
        let Some(monitor) = &mut self.monitor else { return };
        let Some(suspicion) = monitor.deferred() else { return };
        if now < monitor.quiet_until(suspicion.hint) {
            return;
        }
        if let Some(flight) = &mut monitor.flight {
            flight.deferred = None;
        }
        self.tidy_monitor(now);
        self.on_suspicion(suspicion, now);
    }

    /// The current pair has not answered in time.
    fn on_verdict(&mut self, now: Instant) {
        let Some(trial) = self.trial_mut() else { return };
        let (hint, started, answered) = (trial.suspicion.hint, trial.started, trial.answered);
        let is_expired = trial.expires.is_some_and(|at| at <= now);
        let is_peer_astray = trial.is_peer_astray;
        let has_asked = !trial.others.is_empty() && trial.sent >= OTHER_CHECKS;
        self.end_trial(now);
        let cause = if is_expired { Cause::SendTimeout } else { Cause::Suspicion };
        if is_peer_astray {
            // Payload of this host arrives. The peer's payload does not, and a probe by the same pair tells the peer.
            let current = self.current();
            return self.step(Input::SendTimeout, cause, Some(current), now);
        }
        match answered.filter(|&pair| self.is_candidate(pair)) {
            Some(pair) => self.leave_for(pair, cause, AFTER_TRIAL, now),
            // No other pair is better, and payload on another pair than the ULIDs has a header (decision 208).
            None if is_expired && has_asked && self.is_unmoved() => {
                self.step(Input::SendTimeout, cause, None, now);
            }
            None if is_expired => self.on_silence(now),
            // Payload still comes in, and no pair answers checks: a firewall may have begun to drop them. Payload that may
            // be anybody's is better than a pair that carries none. Payload that has left the ULIDs is dropped with the
            // checks, and an exploration takes it back (decision 208).
            None if hint == FailureHint::Unproven && self.is_unmoved() => {
                self.forget_checks();
                self.tell(Event::Cleared { hint, after: now.since(started) });
            }
            // A peer that has never answered a check may not know checks. Every peer knows exploration, which is the
            // most that an ICMPv6 error may cause (RFC 5534 s3.2).
            None if self.is_answerer() || hint == FailureHint::Unreachable => {
                self.step(Input::PathGone, cause, None, now);
                self.forget_checks();
            }
            None => {
                let monitor = self.monitor_mut();
                monitor.failed = monitor.failed.max(1);
                self.tell(Event::Cleared { hint, after: now.since(started) });
            }
        }
    }

    /// No pair answers checks, so the peer may have stopped answering them. Treat the peer as one that knows no checks
    /// until it answers one. The next traffic begins a round.
    fn forget_checks(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        (monitor.current_rtt, monitor.standby_rtt) = Default::default();
        monitor.knows_checks = false;
        monitor.end_rest();
    }

    /// The peer refuses checks: the trial ends, or waits for the end of the Send Timeout without more checks.
    pub(super) fn on_trial_refused(&mut self, now: Instant) {
        let Some(trial) = self.trial_mut() else { return };
        if trial.expires.is_some() {
            return trial.give_up_checks();
        }
        self.clear_trial(now);
    }

    /// The current pair has answered a check, or the peer was heard in another way.
    pub(super) fn on_current_answered(&mut self, now: Instant) {
        if let Some(flight) = self.flight_mut() {
            (flight.deferred, flight.asked) = (None, None);
        }
        if self.trial_mut().is_some() {
            self.clear_trial(now);
            self.refresh_watch();
        }
    }

    /// Ends the trial, if there is one, without a verdict against the pair.
    fn clear_trial(&mut self, now: Instant) {
        let Some(trial) = self.trial_mut() else { return };
        let (hint, started) = (trial.suspicion.hint, trial.started);
        self.end_trial(now);
        self.tell(Event::Cleared { hint, after: now.since(started) });
    }

    /// So far the peer has answered a check of the current pair by the way back only.
    pub(super) fn on_way_back(&mut self, check: Check) {
        let current = self.current();
        if let Some(trial) = self.trial_mut()
            && check.pair == current
            && check.at >= trial.started
        {
            trial.is_peer_astray = true;
        }
    }

    /// A pair other than the current one has answered a check.
    pub(super) fn on_other_answered(&mut self, check: Check, now: Instant) {
        let Some(trial) = self.trial_mut() else { return };
        if trial.others.contains(&check.pair) && check.at >= trial.started {
            trial.answered.get_or_insert(check.pair);
            if now >= trial.due {
                self.on_verdict(now);
            }
        }
    }

    /// When the running trial began.
    pub(super) fn trial_started(&self) -> Option<Instant> {
        self.monitor.as_ref()?.trial().map(|trial| trial.started)
    }

    /// Whether the data plane looks for reasons to doubt the current pair, since there are other pairs.
    #[must_use]
    pub fn suspects(&self) -> bool {
        self.config.profile.suspects && self.local.len() * self.peer.len() > 1
    }

    /// Whether a trial or a due check of the standby path needs to know of payload that comes in.
    pub(super) fn watches_traffic(&self) -> bool {
        let is_wanted = |v: &PathMonitor| {
            let is_in_trial = v.trial().is_some_and(|trial| !trial.wants_proof());
            v.round == Round::Awaiting || is_in_trial || v.deferred().is_some()
        };
        self.state == State::Operational && self.monitor.as_ref().is_some_and(|v| is_wanted(v))
    }

    /// Ends the trial: exploration answers the same question.
    pub(super) fn drop_trial(&mut self) {
        if let Some(flight) = self.flight_mut() {
            flight.drop_trial();
        }
    }

    fn end_trial(&mut self, now: Instant) {
        let current = self.current();
        let Some(monitor) = &mut self.monitor else { return };
        let mut hint = None;
        if let Some(flight) = &mut monitor.flight {
            hint = flight.trial.take().map(|trial| trial.suspicion.hint);
            flight.transmits.clear();
        }
        if let Some(hint) = hint {
            monitor.past_mut(current).quiet_mut(hint).begin(now);
        }
    }

    /// Whether the peer has answered a check by the current pair.
    pub(super) fn has_current_answered(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.current_rtt.known().is_some())
    }

    /// Whether the peer answers checks: by the current pair, or by another one while the current pair is new.
    pub(super) fn is_answerer(&self) -> bool {
        self.has_current_answered() || self.knows_checks()
    }

    pub(super) fn trial_mut(&mut self) -> Option<&mut Trial> {
        self.flight_mut()?.trial.as_mut()
    }

    /// The standby path, if it is known to work; otherwise the best candidates.
    fn trial_pairs(&self, now: Instant) -> Vec<LocatorPair> {
        if let Some(standby) = self.fresh_standby(now) {
            return [standby].into();
        }
        let standby = self.standby();
        let best = self.others().into_iter().filter(|pair| Some(*pair) != standby);
        standby.into_iter().chain(best).take(MAX_OTHERS).collect()
    }
}

/// Checks of the current pair in a trial: 8. If each direction loses one packet in seven, as in full queues, all eight
/// get lost in one trial of thirty thousand.
const CURRENT_CHECKS: u32 = 8;
/// Checks of each other pair: 3.
const OTHER_CHECKS: u32 = 3;
/// Other pairs in a trial: 2.
const MAX_OTHERS: usize = 2;
/// Assumed round-trip time of a pair that has never answered, and the time to wait for its answer, as in TCP (RFC 6298
/// s2.1).
const UNKNOWN_RTT: Duration = Duration::from_millis(200);
pub(super) const UNKNOWN_DUE: Duration = super::compare::ANSWER_DUE;
/// The delay of TCP acknowledgements of little data: 40 ms in Linux, 50 ms elsewhere. The usual time of answers
/// includes this delay; answers to checks have no such delay.
const DELAYED_ACK: Duration = Duration::from_millis(50);
/// The last trial takes this part of the Send Timeout, a quarter, and 1 s at most.
const LEAD_PART: u32 = 4;
const MAX_LEAD: Duration = Duration::from_secs(1);
/// Longest additional time for a queue that was never seen. Silence is reported after the usual time of an answer,
/// which includes queues. A retransmission is reported sooner.
const UNSEEN_AFTER_SILENCE: Duration = Duration::from_millis(250);
const UNSEEN_AFTER_RETRANSMISSION: Duration = Duration::from_millis(400);
/// Least time between checks of a trial: 2 ms.
const LEAST_GAP: Duration = Duration::from_millis(2);
