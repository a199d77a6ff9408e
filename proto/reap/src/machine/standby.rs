//! The standby pair: chosen, checked now and then while traffic flows, and used when the current one is
//! known to be gone (decision 045). The preferred pair is checked likewise, and gone back to gently
//! (decision 047).

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, Locator, LocatorPair};

use super::Machine;
use crate::event::{Cause, Event};
use crate::monitor::{Check, Round, Suspicion};
use crate::state::{Input, State};

/// What a host knows of a pair from other contexts with the same peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// Another context is finding out.
    Asked,
    /// The peer has answered a check by it that left at `at`, after `rtt`.
    Verified {
        /// When the check left.
        at: Instant,
        /// How long the answer took.
        rtt: Duration,
    },
}

/// The pairs besides the current one, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standby {
    /// There is none.
    None,
    /// None is checked, as [`Profile::standby_interval`](crate::Profile::standby_interval) has it.
    Unchecked,
    /// No check has been answered or given up yet.
    Untried,
    /// Pairs did not answer.
    Failing {
        /// Pairs in a row that did not answer.
        tried: usize,
        /// All pairs besides the current one.
        pairs: usize,
        /// Nor has the current one answered a check, ever.
        is_peer_mute: bool,
    },
    /// An answer has come, longer ago than two intervals.
    Stale,
    /// The peer has answered a check not long ago.
    Answered {
        /// By this pair.
        pair: LocatorPair,
        /// When the check left.
        at: Instant,
    },
}

impl Machine {
    /// The pairs besides the current one, as far as they are known.
    #[must_use]
    pub fn standby_state(&self, now: Instant) -> Standby {
        let verified = self.monitor.as_ref().and_then(|monitor| monitor.verified);
        if let (Some(pair), Some(at)) = (self.fresh_standby(now), verified) {
            return Standby::Answered { pair, at };
        }
        let pairs = self.candidates().count();
        if pairs == 0 {
            return Standby::None;
        }
        if self.config.profile.standby_interval.is_zero() {
            return Standby::Unchecked;
        }
        match &self.monitor {
            Some(monitor) if monitor.failed > 0 => Standby::Failing {
                tried: usize::from(monitor.failed),
                pairs,
                is_peer_mute: monitor.current_rtt.known().is_none(),
            },
            Some(_) if verified.is_some() => Standby::Stale,
            _ => Standby::Untried,
        }
    }

    /// Whether the next round of checks waits for traffic.
    #[must_use]
    pub fn awaits_traffic(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.round == Round::Awaiting)
    }

    /// The standby path that is due to be checked: [`handle_known`](Self::handle_known) says whether others have.
    #[must_use]
    pub fn question(&self) -> Option<LocatorPair> {
        self.monitor.as_ref().filter(|monitor| monitor.round == Round::Asking)?;
        self.standby().or(self.home())
    }

    /// The answer to [`question`](Self::question).
    pub fn handle_known(&mut self, known: Known, now: Instant) {
        let interval = self.round_interval();
        let Some(monitor) = self.monitor.as_mut().filter(|monitor| monitor.round == Round::Asking)
        else {
            return;
        };
        match known {
            Known::Nothing => self.begin_round(None, now),
            Known::Asked => monitor.rest(now + RETRY.min(interval)),
            Known::Verified { at, rtt }
                if monitor.standby.is_some() && now.since(at) < interval =>
            {
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

    /// Answers of the standby path from before do not count: the peer has lost the context, or a pair by one of the same locators has failed. The
    /// next traffic begins a round of checks. Gives the standby path.
    pub fn handle_standby_suspected(&mut self, now: Instant) -> Option<LocatorPair> {
        let monitor = self.monitor.as_mut()?;
        monitor.verified = None;
        monitor.end_rest();
        self.tidy_monitor(now);
        self.refresh_watch();
        self.standby()
    }

    /// The peer has the context from now on. That it did not answer before says nothing of the pairs: the next traffic begins
    /// a round of checks with the best of them.
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

    /// The pair to which traffic goes back once it has worked for a while; `None`: it stays where it is.
    /// Until then it is the pair that the context began with.
    pub fn handle_preferred(&mut self, pair: Option<LocatorPair>, now: Instant) {
        if self.config.profile.is_rfc() || self.monitor.is_none() && pair == Some(self.current()) {
            return;
        }
        let current = self.current();
        self.monitor_mut();
        if self.home() != pair {
            let past = self.monitor_mut().past_mut(current);
            (past.home, past.home_since, past.mistakes) = (pair, None, 0);
            self.refresh_standby(now);
            self.refresh_watch();
        }
    }

    /// Our locators that work and are not to be relied on: deprecated addresses (RFC 4862 s5.5.4). Traffic
    /// leaves them gently, once another pair has answered.
    pub fn handle_deprecated(&mut self, deprecated: &[Locator], now: Instant) {
        let known = self.extra.as_ref().map_or(&[][..], |extra| &extra.deprecated);
        if *known == *deprecated || self.config.profile.is_rfc() {
            return;
        }
        self.change_extra(|extra| extra.deprecated = deprecated.into());
        if self.standby().is_some_and(|standby| deprecated.contains(&standby.local)) {
            self.keep_standby(None);
        }
        self.refresh_standby(now);
        self.leave_deprecated(now);
        if self.is_deprecated(self.current())
            && let Some(monitor) = &mut self.monitor
        {
            monitor.end_rest();
        }
        self.refresh_watch();
    }

    /// The standby path, if the peer has answered a check by it not long ago.
    #[must_use]
    pub fn fresh_standby(&self, now: Instant) -> Option<LocatorPair> {
        let monitor = self.monitor.as_ref()?;
        let lifetime = self.config.profile.standby_interval * 2;
        let is_fresh = monitor.verified.is_some_and(|at| now.since(at) <= lifetime);
        let is_usable = |pair: &LocatorPair| {
            *pair != self.current() && self.is_candidate(*pair) && !self.is_broken(*pair)
        };
        self.standby().filter(|_| is_fresh).filter(is_usable)
    }

    /// The pair that is kept, or being tried out for that.
    #[must_use]
    pub fn standby(&self) -> Option<LocatorPair> {
        self.pair_at(self.monitor.as_ref()?.standby?)
    }

    /// Has this pair be the standby path; one that is not of the two sets is none.
    pub(super) fn keep_standby(&mut self, standby: Option<LocatorPair>) {
        let places = standby.and_then(|standby| self.places_of(standby));
        if let Some(monitor) = &mut self.monitor {
            monitor.standby = places;
        }
    }

    /// The pair that traffic goes back to when it works; `None`: none is better than others.
    fn home(&self) -> Option<LocatorPair> {
        self.monitor.as_ref()?.past().map_or(Some(self.current()), |past| past.home)
    }

    /// The current pair is known to be of no use. With a standby path that is known to work, payload takes it
    /// at once; either way exploration begins, which tells the peer.
    pub(super) fn on_path_gone(&mut self, cause: Cause, now: Instant) {
        self.is_current_down = true;
        let current = self.current();
        // Which locator has gone is plain from the candidates; else it is our end that has failed.
        let shares =
            |standby: &LocatorPair| cause == Cause::LocalFailure && standby.local == current.local;
        self.leave_or_explore(|standby| !shares(standby), Input::PathGone, cause, now);
    }

    /// The peer says that its locator of the current pair is broken, which may not be so from here.
    pub(super) fn on_path_broken(&mut self, now: Instant) {
        let peer = self.current().peer;
        let is_apart = |standby: &LocatorPair| standby.peer != peer;
        self.leave_or_explore(is_apart, Input::PathGone, Cause::LocatorBroken, now);
    }

    /// Nothing has come back for a Send Timeout. The standby path is what exploration tries first, and where payload
    /// is to go if it answers: payload need not wait for that on a pair that is no better.
    //= rfc5534#6.4
    pub(super) fn on_silence(&mut self, now: Instant) {
        self.leave_or_explore(|_| true, Input::SendTimeout, Cause::SendTimeout, now);
    }

    /// Payload takes the standby path if that is known to work and this says that it is apart from what has failed; else exploration
    /// finds out.
    fn leave_or_explore(
        &mut self,
        is_apart: impl Fn(&LocatorPair) -> bool,
        input: Input,
        cause: Cause,
        now: Instant,
    ) {
        match self.fresh_standby(now).filter(is_apart) {
            Some(standby) if self.state == State::Operational => {
                let left = Some(self.current()).filter(|_| cause == Cause::SendTimeout);
                self.leave_for(standby, cause, now);
                self.explore().left = left;
            }
            _ => self.step(input, cause, None, now),
        }
    }

    /// Leaves Operational with payload on a pair that is known to work; the first probe takes it too.
    pub(super) fn leave_for(&mut self, to: LocatorPair, cause: Cause, now: Instant) {
        self.change_extra(|extra| extra.hint = Some(to));
        self.step(Input::PathGone, cause, None, now);
        self.move_to(to, cause, now);
    }

    /// Payload came in, or a keepalive that answers payload of ours: traffic flows.
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
                // One check of the current pair that is lost must not make the peer one that knows none.
                let current = (!monitor.knows_checks && suspects).then_some(current);
                for pair in [self.standby(), current].into_iter().flatten() {
                    self.send_check(pair, now);
                }
            }
            Round::Checking => self.on_standby_failed(now),
            Round::Off | Round::Awaiting | Round::Asking => {}
        }
        self.tidy_monitor(now);
        self.refresh_watch();
    }

    /// The host had no room for the checks of this context.
    pub fn handle_checks_refused(&mut self, now: Instant) {
        let (interval, current) = (self.round_interval(), self.current());
        let Some(monitor) = &mut self.monitor else { return };
        if let Some(flight) = &mut monitor.flight {
            flight.transmits.clear();
            flight.checks.clear();
            flight.asked = None;
            flight.comparison = flight
                .comparison
                .take()
                .and_then(|mut comparison| comparison.postpone(now).then_some(comparison));
            if let Some(trial) = flight.trial.as_mut().filter(|trial| trial.expires.is_some()) {
                trial.give_up_checks();
            } else if let Some(trial) = flight.trial.take() {
                flight.deferred = Some(Suspicion { since: trial.started, ..trial.suspicion });
                monitor.past_mut(current).quiet_until = now + RETRY / 4;
            }
        }
        if monitor.round == Round::Checking {
            monitor.rest(now + interval / 8);
        }
        self.tidy_monitor(now);
        self.refresh_watch();
    }

    /// The sets or the current pair changed: is the standby path still the one to keep?
    pub(super) fn refresh_standby(&mut self, now: Instant) {
        if self.config.profile.is_rfc() {
            return;
        }
        let is_good = |standby| standby != self.current() && self.is_candidate(standby);
        let keeps = self.standby().is_some_and(is_good);
        let standby = if keeps { None } else { self.choose_standby() };
        if self.monitor.is_none() && standby.is_none() {
            return;
        }
        let is_away = self.home_to_check().is_some();
        let has_better = keeps && self.better_standby().is_some();
        let monitor = self.monitor_mut();
        if !keeps {
            monitor.verified = None;
            monitor.standby_rtt = Default::default();
            self.keep_standby(standby);
        }
        let interval = self.round_interval();
        let monitor = self.monitor_mut();
        if is_away && monitor.round == Round::Resting {
            // The preferred pair may be back, and rounds without it are further apart.
            monitor.due = monitor.due.min(now + interval);
        }
        if has_better && monitor.round == Round::Resting {
            // Another uplink may be back: until it is asked, the standby path shares an end with the current pair.
            monitor.due = monitor.due.min(now + (interval / 10).max(RETRY));
        }
        let has_any = monitor.standby.is_some() || is_away;
        if !has_any {
            monitor.round = Round::Off;
        } else if !keeps || monitor.round == Round::Off {
            monitor.round = Round::Awaiting;
        }
        self.tidy_monitor(now);
    }

    /// Another pair is current.
    pub(super) fn after_move(&mut self, from: LocatorPair, now: Instant) {
        let fail_back = self.config.profile.fail_back;
        let current = self.current();
        let is_standby = self.standby() == Some(current);
        let Some(monitor) = &mut self.monitor else { return };
        monitor.current_rtt = if is_standby { monitor.standby_rtt } else { Default::default() };
        monitor.forget_floor();
        (monitor.failed, monitor.standby, monitor.is_asked_in_vain) = (0, None, false);
        monitor.flight.iter_mut().for_each(|flight| flight.drop_trial());
        let past = monitor.past_mut(from);
        (past.home_since, past.is_home_asked) = (None, false);
        past.worse.retain(|worse| *worse != current);
        if past.home == Some(from) && past.went_home != Instant::ZERO {
            let stayed = now.since(past.went_home);
            let is_mistake = stayed < (fail_back * STEADY).max(STEADY_AT_LEAST);
            past.mistakes = if is_mistake { (past.mistakes + 1).min(MAX_MISTAKES) } else { 0 };
        }
        self.refresh_standby(now);
        self.refresh_watch();
    }

    pub(super) fn leave_deprecated(&mut self, now: Instant) {
        let standby = self.fresh_standby(now).filter(|standby| !self.is_deprecated(*standby));
        if let Some(standby) = standby
            && self.state == State::Operational
            && self.trial_started().is_none()
            && self.is_deprecated(self.current())
        {
            self.move_to(standby, Cause::Deprecated, now);
            self.refresh_forget(now);
        }
    }

    pub(super) fn is_deprecated(&self, pair: LocatorPair) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.deprecated.contains(&pair.local))
    }

    pub(super) fn on_home_answered(&mut self, check: Check, now: Instant) {
        let hold = self.hold();
        let Some(home) = self.home_to_check().filter(|home| *home == check.pair) else { return };
        if self.state != State::Operational || self.is_broken(home) {
            return;
        }
        let current = self.current();
        let Some(monitor) = &mut self.monitor else { return };
        let past = monitor.past_mut(current);
        past.is_home_asked = false;
        let since = *past.home_since.get_or_insert(check.at);
        // The peer is not told of a gentle move. It would stay on a pair that has failed, so the trial of that pair comes first.
        if now.since(since) < hold || monitor.trial().is_some() {
            return;
        }
        if !self.compares_before_return(home, now) {
            self.go_back(home, now);
        }
    }

    /// Traffic goes back to the preferred pair.
    pub(super) fn go_back(&mut self, home: LocatorPair, now: Instant) {
        let current = self.current();
        self.monitor_mut().past_mut(current).went_home = now;
        self.move_to(home, Cause::FailBack, now);
        self.refresh_forget(now);
    }

    /// Time between rounds of checks: what is known from others counts for so long.
    #[must_use]
    pub fn round_interval(&self) -> Duration {
        let standby = self.config.profile.standby_interval;
        if self.home_to_check().is_none() {
            return standby;
        }
        let home = (self.hold() / 3).max(RETRY);
        if standby.is_zero() { home } else { home.min(standby) }
    }

    /// How long the preferred pair must have worked: longer after each time that it was a mistake.
    fn hold(&self) -> Duration {
        let past = self.monitor.as_ref().and_then(|monitor| monitor.past());
        let mistakes = past.map_or(0, |past| past.mistakes);
        self.config.profile.fail_back * (1 << mistakes.min(MAX_MISTAKES))
    }

    /// The pair to go back to.
    pub(super) fn home_to_check(&self) -> Option<LocatorPair> {
        if self.config.profile.fail_back.is_zero() {
            return None;
        }
        let home = self.home()?;
        let is_good = self.is_candidate(home) && !self.is_deprecated(home);
        (home != self.current() && is_good).then_some(home)
    }

    /// Sends the checks of a round; `known`: when another context's check of the standby path left.
    fn begin_round(&mut self, known: Option<Instant>, now: Instant) {
        let interval = self.round_interval();
        let home = self.home_to_check();
        let (current, suspects) = (self.current(), self.config.profile.suspects);
        let standby = self.standby().filter(|_| known.is_none());
        let Some(monitor) = &mut self.monitor else { return };
        let wait = monitor.standby_rtt.due().unwrap_or(RETRY).max(RETRY);
        // At the same time as the other one: it finds out for both again, or this one does.
        let next = known.unwrap_or(now) + interval;
        let until = if standby.is_some() { now + wait } else { next.max(now + RETRY) };
        monitor.round = if standby.is_some() { Round::Checking } else { Round::Resting };
        (monitor.due, monitor.tries) = (until, 1);
        // Without a past the preferred pair is the current one, and is not asked.
        if monitor.past().is_some() {
            let past = monitor.past_mut(current);
            if core::mem::replace(&mut past.is_home_asked, home.is_some()) {
                past.home_since = None;
            }
        }
        let is_known = known.is_some() && monitor.current_rtt.known().is_some();
        let current = Some(current).filter(|_| suspects && !is_known);
        // Without a check of the standby path the round of another context decides.
        monitor.is_round_open = current.is_some() && monitor.round == Round::Checking;
        let home = home.filter(|pair| Some(*pair) != standby);
        let better = self.better_standby().filter(|pair| Some(*pair) != home);
        for pair in [standby, home, better, current].into_iter().flatten() {
            self.send_check(pair, now);
        }
    }

    /// The standby path does not answer: another one may.
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
            // The preferred pair is waited for.
            let most = if is_away { standby_interval.max(interval) } else { Duration::MAX };
            (interval * (1 << doublings)).min(most)
        };
        monitor.rest(now + wait);
        self.keep_standby(self.choose_standby());
    }

    /// The best pair besides the current one, after those that failed.
    fn choose_standby(&self) -> Option<LocatorPair> {
        if self.config.profile.standby_interval.is_zero() {
            return None;
        }
        let others = self.others();
        let failed = self.monitor.as_ref().map_or(0, |monitor| usize::from(monitor.failed));
        others.get(failed % others.len().max(1)).copied()
    }

    /// The best pair, if it shares fewer ends with the current one than the standby path does: less breaks both.
    pub(super) fn better_standby(&self) -> Option<LocatorPair> {
        let (standby, current) = (self.standby()?, self.current());
        let best = self.others().first().copied()?;
        let is_better = best.shared_ends(current) < standby.shared_ends(current);
        is_better.then_some(best)
    }

    /// All pairs but the current one, the best first: those that share no end with it, then as the peer
    /// prefers.
    pub(super) fn others(&self) -> Vec<LocatorPair> {
        let current = self.current();
        let mut pairs: Vec<_> = self.candidates().collect();
        pairs.sort_by_cached_key(|&pair| {
            let rank = self.rank_of(pair);
            let is_bad = (rank.is_broken, self.is_deprecated(pair));
            (is_bad, pair.shared_ends(current), rank)
        });
        pairs
    }

    /// All pairs but the current one, in no order.
    fn candidates(&self) -> impl Iterator<Item = LocatorPair> + '_ {
        let current = self.current();
        let to_each = |&local| self.peer.iter().map(move |&peer| LocatorPair::new(local, peer));
        let pairs = self.local.iter().flat_map(to_each);
        pairs.filter(move |&pair| pair != current && self.is_candidate(pair))
    }

    pub(super) fn tell(&mut self, event: Event) {
        match &mut self.exploration {
            Some(exploration) => exploration.tell(event),
            None if self.monitor.is_some() => self.flight().tell(event),
            None => self.explore().tell(event),
        }
    }
}

/// Between checks that are not answered, and before another context is asked again: 1 s.
const RETRY: Duration = Duration::from_secs(1);
/// Checks of a pair before it counts as failed.
const TRIES: u8 = 3;
/// A path that was gone back to and left again within so many hold times is not steady.
const STEADY: u32 = 10;
const STEADY_AT_LEAST: Duration = Duration::from_secs(60);
const MAX_MISTAKES: u8 = 6;
/// Of the interval, while no pair answers: 16 times.
const MAX_DOUBLINGS: usize = 4;
