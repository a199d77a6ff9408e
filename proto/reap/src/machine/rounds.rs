//! Rounds of checks: the machine checks the standby path at intervals while traffic flows, unless another context of
//! the host has done so (decision 045).

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use crate::comparison::Comparison;
use crate::config::TRIES;
use crate::event::Event;
use crate::monitor::{Check, Round, Suspicion};
use crate::state::State;

/// Knowledge of a host about a pair, from other contexts with the same peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// No other context knows the pair.
    Nothing,
    /// Another context is checking the pair.
    Asked,
    /// The peer has answered a check by the pair that left at `at`, after `rtt`.
    Verified {
        /// When the check left.
        at: Instant,
        /// How long the answer took.
        rtt: Duration,
    },
}

impl Machine {
    /// Whether the next round of checks waits for traffic.
    #[must_use]
    pub fn awaits_traffic(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.round == Round::Awaiting)
    }

    /// The standby path that is due for a check. The host answers by [`handle_known`](Self::handle_known) whether other
    /// contexts have checked it.
    #[must_use]
    pub fn question(&self) -> Option<LocatorPair> {
        self.monitor.as_ref().filter(|monitor| monitor.round == Round::Asking)?;
        self.standby().or(self.home())
    }

    /// Takes the host's answer to [`question`](Self::question).
    pub fn handle_known(&mut self, known: Known, now: Instant) {
        let interval = self.round_interval();
        let is_news = |at: Instant| now.since(at) < interval && !self.is_before_failure(at);
        let is_known = matches!(known, Known::Verified { at, .. } if is_news(at));
        let Some(monitor) = self.monitor.as_mut().filter(|monitor| monitor.round == Round::Asking)
        else {
            return;
        };
        match known {
            Known::Nothing => self.begin_round(None, now),
            Known::Asked => monitor.rest(now + RETRY.min(interval)),
            Known::Verified { at, rtt } if monitor.standby.is_some() && is_known => {
                monitor.verified = monitor.verified.max(Some(at));
                monitor.failed = 0;
                if monitor.standby_rtt.known().is_none() {
                    monitor.standby_rtt.observe(rtt, now);
                }
                self.begin_round(Some(at), now);
            }
            Known::Verified { .. } => self.begin_round(None, now),
        }
    }

    /// Earlier answers of the standby path do not count any more: the peer has lost the context, or another pair by one
    /// of the same locators has failed. The next traffic begins a round of checks. Returns the standby path.
    pub fn handle_standby_suspected(&mut self, now: Instant) -> Option<LocatorPair> {
        let monitor = self.monitor.as_mut()?;
        monitor.verified = None;
        monitor.end_rest();
        self.tidy_monitor(now);
        self.refresh_watch();
        self.standby()
    }

    /// The peer has the context from now on. Earlier silence says nothing about the pairs, so the next traffic begins a
    /// round of checks with the best pair.
    pub fn handle_confirmed(&mut self, now: Instant) {
        self.heard = self.heard.min(now);
        let Some(monitor) = self.monitor.as_mut().filter(|monitor| monitor.verified.is_none())
        else {
            return;
        };
        monitor.failed = 0;
        self.keep_standby(None);
        self.refresh_standby(now);
        self.refresh_watch();
    }

    /// Traffic flows: payload came in, or a keepalive that answers our payload.
    pub(super) fn on_traffic(&mut self) {
        if let Some(monitor) = &mut self.monitor
            && monitor.round == Round::Awaiting
            && self.state == State::Operational
        {
            monitor.round = Round::Asking;
        }
    }

    pub(super) fn on_round_timeout(&mut self, now: Instant) {
        let (current, suspects) = (self.current(), self.config.profile.suspects);
        let interval = self.round_interval();
        let Some(monitor) = &mut self.monitor else { return };
        match monitor.round {
            Round::Resting if monitor.is_round_open => {
                monitor.rest(now + interval);
                self.consider_comparison(now);
            }
            Round::Resting => monitor.end_rest(),
            Round::Checking if monitor.tries < TRIES && self.state == State::Operational => {
                monitor.tries += 1;
                let wait = monitor.standby_rtt.due().unwrap_or(RETRY).max(RETRY);
                monitor.due = now + wait * u32::from(monitor.tries);
                // One lost check of the current pair must not class the peer as one that knows no checks.
                let current = (!monitor.knows_checks && suspects).then_some(current);
                let failed = self.failed().filter(|pair| Some(*pair) != self.standby());
                let pairs = [self.standby(), current, failed];
                self.ask_home_again(&pairs, now);
                for pair in pairs.into_iter().flatten() {
                    self.send_check(pair, now);
                }
            }
            Round::Checking => {
                if let Some(pair) = self.standby().filter(|_| self.knows_checks()) {
                    self.flight().tell(Event::Missed { pair });
                }
                self.on_standby_failed(now);
            }
            Round::Off | Round::Awaiting | Round::Asking => {}
        }
        self.tidy_monitor(now);
        self.refresh_watch();
    }

    /// A round asks these pairs again, the preferred pair among them or not.
    fn ask_home_again(&mut self, pairs: &[Option<LocatorPair>], now: Instant) {
        let (current, home) = (self.current(), self.home_to_check());
        if home.is_some()
            && pairs.contains(&home)
            && let Some(monitor) = &mut self.monitor
        {
            monitor.past_mut(current).wait.on_retry(now);
        }
    }

    /// The host has no room for the checks of this context.
    pub fn handle_checks_refused(&mut self, now: Instant) {
        let (interval, current) = (self.round_interval(), self.current());
        let Some(monitor) = &mut self.monitor else { return };
        let mut compares = false;
        if let Some(flight) = &mut monitor.flight {
            // Earlier checks have left, and their answers count.
            let transmits: Vec<_> = flight.transmits.drain(..).collect();
            let is_refused =
                |check: &&Check| transmits.iter().any(|one| one.nonce() == Some(check.nonce));
            let compared = flight.comparison.as_ref().and_then(Comparison::last_sent);
            let mut refused = flight.checks.iter().filter(is_refused);
            compares = refused.any(|check| Some(check.at) == compared);
            flight.checks.retain(|check| !is_refused(&check));
            flight.asked = None;
            if let Some(trial) = flight.trial.as_mut().filter(|trial| trial.expires.is_some()) {
                trial.give_up_checks();
            } else if let Some(trial) = flight.trial.take() {
                let before = flight.deferred.filter(|before| !before.is_error());
                let suspicion = Suspicion { since: trial.started, ..trial.suspicion };
                flight.deferred = before.or(Some(suspicion));
                let quiet = monitor.past_mut(current).quiet_mut(trial.suspicion.hint);
                quiet.until = now + RETRY / 4;
            }
        }
        if monitor.round == Round::Checking {
            monitor.rest(now + interval / 8);
        }
        if compares {
            self.postpone_comparison(now);
        }
        self.tidy_monitor(now);
        self.refresh_watch();
    }

    /// Time between rounds of checks. Knowledge from other contexts holds for the same time.
    #[must_use]
    pub fn round_interval(&self) -> Duration {
        let standby = self.config.profile.standby_interval;
        if self.home_to_check().or(self.failed()).is_none() {
            return standby;
        }
        let home = (self.hold() / 3).max(RETRY);
        if standby.is_zero() { home } else { home.min(standby) }
    }

    /// Sends the checks of a round. `known`: when another context sent its check of the standby path.
    fn begin_round(&mut self, known: Option<Instant>, now: Instant) {
        let interval = self.round_interval();
        let (home, failed) = (self.home_to_check(), self.failed());
        let (current, suspects) = (self.current(), self.config.profile.suspects);
        let standby = self.standby().filter(|_| known.is_none());
        let Some(monitor) = &mut self.monitor else { return };
        let wait = monitor.standby_rtt.due().unwrap_or(RETRY).max(RETRY);
        // The next rounds of both contexts are due at the same time, so one of the two checks for both.
        let next = known.unwrap_or(now) + interval;
        let until = if standby.is_some() { now + wait } else { next.max(now + RETRY) };
        monitor.round = if standby.is_some() { Round::Checking } else { Round::Resting };
        (monitor.due, monitor.tries) = (until, 1);
        // Without a past the preferred pair is the current pair, so the machine does not check it separately.
        if monitor.past().is_some() {
            monitor.past_mut(current).wait.on_round(home.is_some(), now);
        }
        let is_known = known.is_some() && monitor.current_rtt.known().is_some();
        let current = Some(current).filter(|_| suspects && !is_known);
        // If this context does not check the standby path, the round of the other context decides.
        monitor.is_round_open = current.is_some() && monitor.round == Round::Checking;
        let home = home.filter(|pair| Some(*pair) != standby);
        let better = self.better_standby().filter(|pair| Some(*pair) != home);
        let failed = failed.filter(|pair| ![standby, home, better].contains(&Some(*pair)));
        for pair in [standby, home, better, failed, current].into_iter().flatten() {
            self.send_check_once(pair, now);
        }
    }

    /// The standby path does not answer. Another pair may.
    pub(super) fn on_standby_failed(&mut self, now: Instant) {
        let pairs = self.candidates().count();
        let (interval, standby_interval) =
            (self.round_interval(), self.config.profile.standby_interval);
        let is_away = self.home_to_check().is_some();
        let Some(monitor) = &mut self.monitor else { return };
        monitor.failed = monitor.failed.saturating_add(1);
        (monitor.verified, monitor.standby_rtt) = (None, Default::default());
        let failed = usize::from(monitor.failed);
        //= rfc5534#4.3-2
        let wait = if monitor.is_mute() {
            standby_interval * (1 << (failed - 1).min(MAX_DOUBLINGS))
        } else if failed < pairs {
            (interval / 10).max(RETRY)
        } else {
            let doublings = failed.saturating_sub(pairs).min(MAX_DOUBLINGS);
            // The machine waits for the preferred pair, so the rest has an upper bound.
            let most = if is_away { standby_interval.max(interval) } else { Duration::MAX };
            (interval * (1 << doublings)).min(most)
        };
        monitor.rest(now + wait);
        self.keep_standby(self.choose_standby());
    }
}

/// Time between unanswered checks, and before the machine asks about another context again: 1 s.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// While no pair answers, the interval doubles at most 4 times, to 16 times its length.
const MAX_DOUBLINGS: usize = 4;
