//! The preferred pair, to which traffic goes back once the pair has worked for a while, and deprecated addresses, which
//! traffic leaves (decision 047).

use core::time::Duration;
use moorline_types::{Instant, Locator, LocatorPair};

use super::Machine;
use crate::event::Cause;
use crate::monitor::{Check, Wait};
use crate::state::State;

impl Machine {
    /// Sets the pair to which traffic goes back once the pair has worked for a while. `None`: traffic stays on its
    /// pair. Until the first call the preferred pair is the pair that the context began with.
    pub fn handle_preferred(&mut self, pair: Option<LocatorPair>, now: Instant) {
        if self.config.profile.checks_nothing()
            || self.monitor.is_none() && pair == Some(self.current())
        {
            return;
        }
        let current = self.current();
        self.monitor_mut();
        if self.home() != pair {
            let past = self.monitor_mut().past_mut(current);
            (past.home, past.wait, past.home_answer) = (pair, Wait::default(), None);
            (past.interrupted, past.mistakes) = (0, 0);
            self.refresh_standby(now);
            self.refresh_watch();
        }
    }

    /// Sets our locators that still work and that the host will lose soon: deprecated addresses (RFC 4862 s5.5.4).
    /// Traffic leaves them gently, once another pair has answered.
    pub fn handle_deprecated(&mut self, deprecated: &[Locator], now: Instant) {
        let known = self.extra.as_ref().map_or(&[][..], |extra| &extra.deprecated);
        if *known == *deprecated || self.config.profile.checks_nothing() {
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

    /// The pair to which traffic goes back when the pair works. `None`: no pair is better than the others.
    pub(super) fn home(&self) -> Option<LocatorPair> {
        self.monitor.as_ref()?.past().map_or(Some(self.current()), |past| past.home)
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
        past.wait.on_answer(check.at);
        // The peer learns nothing of a gentle move, and would stay on a pair that has failed. So the trial of that pair
        // comes first.
        if !past.wait.is_over(hold, now) || monitor.trial().is_some() {
            return;
        }
        if !self.compares_before_return(home, now) {
            self.go_back(home, now);
        }
    }

    /// Moves traffic back to the preferred pair.
    pub(super) fn go_back(&mut self, home: LocatorPair, now: Instant) {
        let current = self.current();
        self.monitor_mut().past_mut(current).went_home = now;
        self.move_to(home, Cause::FailBack, now);
        self.refresh_forget(now);
    }

    /// Whether traffic has gone back to the preferred pair lately, and the peer may still be on its way: the peer goes
    /// back by itself, and maybe later. A peer that was back and takes another pair now has left the preferred pair.
    pub(super) fn is_home_again(&self, now: Instant) -> bool {
        let monitor = self.monitor.as_ref().filter(|monitor| !monitor.was_peer_here());
        let past = monitor.and_then(|monitor| monitor.past());
        past.is_some_and(|past| {
            let is_lately = now.since(past.went_home) < GOES_BACK;
            past.home == Some(self.current()) && past.went_home != Instant::ZERO && is_lately
        })
    }

    /// How long the preferred pair must have worked. Each mistaken return doubles this time.
    pub(super) fn hold(&self) -> Duration {
        let past = self.monitor.as_ref().and_then(|monitor| monitor.past());
        let mistakes = past.map_or(0, |past| past.mistakes);
        self.config.profile.fail_back * (1 << mistakes.min(MAX_MISTAKES))
    }

    /// The preferred pair, if it is another pair than the current one and traffic may go back to it.
    pub(super) fn home_to_check(&self) -> Option<LocatorPair> {
        if self.config.profile.fail_back.is_zero() {
            return None;
        }
        let home = self.home()?;
        let is_good = self.is_candidate(home) && !self.is_deprecated(home);
        (home != self.current() && is_good).then_some(home)
    }
}

/// Time within which both hosts go back: 60 s, one interval of checks and more.
const GOES_BACK: Duration = Duration::from_secs(60);
/// The hold time doubles at most this often.
pub(super) const MAX_MISTAKES: u8 = 6;
