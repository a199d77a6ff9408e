//! The standby path: choice, upkeep, and use when the current pair is known to be gone (decision 045).

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use super::home::MAX_MISTAKES;
use super::rounds::RETRY;
use super::unmoved::Patience;
use crate::event::{Cause, Event};
use crate::monitor::{Round, Wait};
use crate::order::PairDepths;
use crate::state::{Input, State};

/// Knowledge about the pairs besides the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standby {
    /// There is no other pair.
    None,
    /// The machine checks no pair, because [`Profile::standby_interval`](crate::Profile::standby_interval) is zero.
    Unchecked,
    /// The peer has answered no check yet, and no pair has failed yet.
    Untried,
    /// Pairs did not answer.
    Failing {
        /// Pairs in a row that did not answer.
        tried: usize,
        /// All pairs besides the current one.
        pairs: usize,
        /// Whether the current pair has never answered a check either.
        is_peer_mute: bool,
    },
    /// The last answer is older than two intervals.
    Stale,
    /// The peer has answered a check within two intervals.
    Answered {
        /// The standby path.
        pair: LocatorPair,
        /// When the check left.
        at: Instant,
    },
}

impl Machine {
    /// Tells what is known about the pairs besides the current one.
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

    /// The standby path, if the peer has answered a check by it within two intervals and payload may take it.
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

    /// The standby path, or the pair that is being checked to become the standby path.
    #[must_use]
    pub fn standby(&self) -> Option<LocatorPair> {
        self.pair_at(self.monitor.as_ref()?.standby?)
    }

    /// Makes this pair the standby path. A pair that is not of the two sets counts as none.
    pub(super) fn keep_standby(&mut self, standby: Option<LocatorPair>) {
        let places = standby.and_then(|standby| self.places_of(standby));
        if let Some(monitor) = self.monitor.as_mut().filter(|monitor| monitor.standby != places) {
            (monitor.standby, monitor.standby_answer) = (places, None);
        }
    }

    /// The host knows that the current pair is of no use. If a standby path is known to work, payload takes it at once.
    /// In both cases exploration begins, which tells the peer.
    pub(super) fn on_path_gone(&mut self, cause: Cause, now: Instant) {
        self.is_current_down = true;
        let current = self.current();
        if self.takes_rival_at_once(cause, now) {
            return;
        }
        // On `LocatorGone` the candidates already lack the lost locator. On `LocalFailure` our end has failed.
        let shares =
            |standby: &LocatorPair| cause == Cause::LocalFailure && standby.local == current.local;
        self.leave_or_explore(|standby| !shares(standby), Input::PathGone, cause, now);
    }

    /// The peer says that its locator of the current pair is broken. Seen from here the locator may still work.
    pub(super) fn on_path_broken(&mut self, now: Instant) {
        let peer = self.current().peer;
        let is_apart = |standby: &LocatorPair| standby.peer != peer;
        self.leave_or_explore(is_apart, Input::PathGone, Cause::LocatorBroken, now);
    }

    /// Nothing has come back for a Send Timeout. Exploration would try the standby path first, and payload would move
    /// there after an answer. So payload takes the standby path at once: the current pair is no better.
    //= rfc5534#6.4
    pub(super) fn on_silence(&mut self, now: Instant) {
        self.leave_or_explore(|_| true, Input::SendTimeout, Cause::SendTimeout, now);
    }

    /// Moves payload to the standby path, if it is known to work and `is_apart` says that it does not share the
    /// failure. Otherwise begins an exploration.
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
                self.leave_for(standby, cause, self.moment(), now);
                self.explore().left = left;
            }
            _ => self.step(input, cause, None, now),
        }
    }

    /// Leaves Operational with payload on a pair that is known to work. The first probe takes this pair, too.
    /// `wait`: time for an answer by this pair.
    pub(super) fn leave_for(
        &mut self,
        to: LocatorPair,
        cause: Cause,
        wait: Duration,
        now: Instant,
    ) {
        self.change_extra(|extra| extra.hint = Some(to));
        self.step(Input::PathGone, cause, None, now);
        let is_down = self.is_current_down && self.is_unmoved();
        self.move_to(to, cause, now);
        if !is_down {
            self.await_answer(Patience::asking(wait), now);
        }
    }

    /// The sets or the current pair changed: keeps the standby path or chooses another one.
    pub(super) fn refresh_standby(&mut self, now: Instant) {
        if self.config.profile.checks_nothing() {
            return;
        }
        let is_good = |standby| standby != self.current() && self.is_candidate(standby);
        let keeps = self.standby().is_some_and(is_good);
        let standby = if keeps { None } else { self.choose_standby() };
        if self.monitor.is_none() && standby.is_none() {
            return;
        }
        let is_away = self.home_to_check().is_some();
        if !is_away && let Some(past) = self.monitor.as_mut().and_then(|one| one.past_if_any()) {
            past.wait = Wait::default();
        }
        let has_better = keeps && self.better_standby().is_some();
        let monitor = self.monitor_mut();
        if !keeps {
            monitor.verified = None;
            monitor.standby_rtt = Default::default();
            self.keep_standby(standby);
        }
        let (interval, heard) = (self.round_interval(), self.heard);
        let monitor = self.monitor_mut();
        if is_away && monitor.round == Round::Resting {
            // The preferred pair may be back, and rounds without this pair are further apart.
            monitor.due = monitor.due.min(now + interval);
        }
        if has_better && monitor.round == Round::Resting {
            // Another uplink may be back. Until a check by it is answered, the standby path shares an end with the
            // current pair.
            monitor.due = monitor.due.min(now + (interval / 10).max(RETRY));
        }
        let has_any = monitor.standby.is_some() || is_away;
        if !has_any {
            monitor.round = Round::Off;
        } else if !keeps || monitor.round == Round::Off {
            // The peer may learn of the locators some round trips after the handshake.
            monitor.is_new = now.since(heard) < RETRY;
            monitor.round = Round::Awaiting;
        }
        self.tidy_monitor(now);
    }

    /// Another pair has become current.
    pub(super) fn after_move(&mut self, from: LocatorPair, cause: Cause, now: Instant) {
        let fail_back = self.config.profile.fail_back;
        let current = self.current();
        let is_standby = self.standby() == Some(current);
        let is_home = self.home() == Some(current);
        let Some(monitor) = &mut self.monitor else { return };
        monitor.current_rtt = if is_standby { monitor.standby_rtt } else { Default::default() };
        let standby_answer = monitor.standby_answer.take().filter(|_| is_standby);
        monitor.forget_floor();
        (monitor.failed, monitor.standby, monitor.is_asked_in_vain) = (0, None, false);
        monitor.flight.iter_mut().for_each(|flight| flight.drop_trial());
        let past = monitor.past_mut(from);
        (past.wait, past.interrupted) = (Wait::default(), 0);
        let home_answer = past.home_answer.take().filter(|_| is_home);
        past.note_move(from, current, cause, now);
        if past.home == Some(from) && past.went_home != Instant::ZERO {
            let stayed = now.since(past.went_home);
            let is_mistake = stayed < (fail_back * STEADY).max(STEADY_AT_LEAST);
            past.mistakes = if is_mistake { (past.mistakes + 1).min(MAX_MISTAKES) } else { 0 };
        }
        monitor.current_answer = standby_answer.or(home_answer);
        self.refresh_standby(now);
        self.refresh_watch();
    }

    /// Chooses the best pair besides the current one, after the pairs that failed.
    pub(super) fn choose_standby(&self) -> Option<LocatorPair> {
        if self.config.profile.standby_interval.is_zero() {
            return None;
        }
        let others = self.others();
        let failed = self.monitor.as_ref().map_or(0, |monitor| usize::from(monitor.failed));
        others.get(failed % others.len().max(1)).copied()
    }

    /// The best pair, if it shares fewer ends with the current pair than the standby path does. Fewer failures break
    /// both pairs then.
    pub(super) fn better_standby(&self) -> Option<LocatorPair> {
        let (standby, current) = (self.standby()?, self.current());
        let best = self.others().first().copied()?;
        let is_better = best.shared_ends(current) < standby.shared_ends(current);
        is_better.then_some(best)
    }

    /// All pairs but the current one, the best first: pairs that are neither broken nor deprecated, then pairs that
    /// share fewer ends with the current pair, then the peer's preference. If there are many locators, pairs of locators
    /// that are known to work come first.
    pub(super) fn others(&self) -> Vec<LocatorPair> {
        let current = self.current();
        let depths = PairDepths::new(&self.local, &self.peer, current, self.proven());
        let mut pairs: Vec<_> = self.candidates().collect();
        pairs.sort_by_cached_key(|&pair| {
            let rank = self.rank_of(pair);
            let is_bad = (rank.is_broken, self.is_deprecated(pair));
            let depth = depths.of(pair);
            (is_bad, depth.most, pair.shared_ends(current), rank, depth.sum)
        });
        pairs
    }

    /// All pairs but the current one, in no order.
    pub(super) fn candidates(&self) -> impl Iterator<Item = LocatorPair> + '_ {
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

/// If traffic leaves a pair again within this number of hold times after a return, the pair is not steady.
const STEADY: u32 = 10;
const STEADY_AT_LEAST: Duration = Duration::from_secs(60);
