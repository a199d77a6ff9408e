//! The machine itself: inputs, outputs, and the walk through the table.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use moorline_types::{DropReason, Instant, Locator, LocatorPair, Locators};

use crate::config::{Config, MAX_EXPLORING_KEEPALIVES, MAX_LOCATORS, keepalive_interval};
use crate::event::{Cause, Event};
use crate::exploration::Exploration;
use crate::message::{Message, Transmit};
use crate::monitor::PathMonitor;
use crate::order::Rank;
use crate::state::{Input, State};
use crate::timers::{Timer, Timers};

mod checks;
mod compare;
mod follow;
mod home;
mod keepalives;
mod paths;
mod place;
mod probe;
mod refused;
mod rounds;
mod standby;
mod suspicion;
mod switch;
mod transitions;

pub use checks::{CHECK, CHECK_CURRENT};
pub use compare::LEFT_AS_WORSE;
pub(crate) use follow::Wish;
use paths::Parallel;
pub use paths::{PATH_INTERVAL, PATH_MISSES};
use refused::Refused;
pub use rounds::Known;
pub use standby::Standby;
pub use switch::SWITCH_PROBES;
use switch::Switch;

/// REAP for one context: see the [crate] for the algorithm.
///
/// Inputs are the `handle_*` functions. After each one the caller drains
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event), hands
/// [`current_pair`](Self::current_pair), [`timers`](Self::timers) and [`watch`](Self::watch) to the
/// data plane if they changed, and asks [`poll_timeout`](Self::poll_timeout) how long to sleep.
///
/// Whoever calls has already found that a message is for this context and comes from locators of it.
#[derive(Clone, Debug)]
pub struct Machine {
    config: Arc<Config>,
    seed: Seed,
    /// Where payload goes: places of its locators in our set and in the peer's. `None`: one is not there
    /// any more, and the pair is [`Extra::gone`].
    current: Option<[u8; 2]>,
    local: Locators,
    peer: Locators,
    /// What most machines have nothing of.
    extra: Option<Box<Extra>>,
    /// Keepalive Timeout: what the peer named, or the default.
    keepalive_millis: u32,
    /// When anything of the peer's was last heard by way of the core.
    heard: Instant,
    /// Streams of the seed that were used up.
    explorations: u32,
    /// Number of the last watch, and whether its payload is still to come.
    watch: u32,
    is_watching: bool,
    state: State,
    /// We know that the current pair does not work, whatever the peer may not have noticed yet.
    is_current_down: bool,
    is_keepalive_due: bool,
    exploration: Option<Box<Exploration>>,
    /// What is done beyond the RFC.
    monitor: Option<Box<PathMonitor>>,
}

impl Machine {
    /// A context just established, on the pair its messages took. Until
    /// [`handle_candidates`](Self::handle_candidates) that pair is the only candidate.
    ///
    /// `seed` must be secret and different for each context: nonces come from it.
    #[must_use]
    pub fn new(
        config: impl Into<Arc<Config>>,
        current: LocatorPair,
        seed: [u8; 16],
        now: Instant,
    ) -> Self {
        let config = config.into();
        Self {
            keepalive_millis: millis(config.keepalive_timeout),
            config,
            seed: Seed(seed),
            current: Some([0, 0]),
            local: (&[current.local]).into(),
            peer: (&[current.peer]).into(),
            extra: None,
            heard: now,
            explorations: 0,
            watch: 0,
            is_watching: false,
            state: State::Operational,
            is_current_down: false,
            is_keepalive_due: false,
            exploration: None,
            monitor: None,
        }
    }

    /// The peer's Keepalive Timeout option: its Send Timeout (RFC 5534 s5.3).
    //= rfc5534#5.3-4
    pub fn handle_keepalive_timeout(&mut self, timeout: Duration) {
        self.keepalive_millis = millis(timeout);
    }

    /// The peer has not shown that it has the context. Payload of the next Initial Probe Timeout may come there before the message that
    /// makes the context, and draws no keepalive then. With a short Send Timeout that silence says nothing. With a longer one
    /// later payload draws a keepalive in time.
    pub fn handle_unconfirmed(&mut self, now: Instant) {
        let probe_timeout = self.config.initial_probe_timeout;
        if self.config.send_timeout < probe_timeout * 4 {
            self.heard = now + probe_timeout;
        }
    }

    /// The data plane's Send Timer ran out: payload left at `since` and nothing came back.
    ///
    /// Ignored if the peer was heard since then: the data plane had not been told yet. It may run out before the
    /// Send Timeout is over, see [`timers`](Self::timers): then exploration begins when that is over, unless the
    /// peer is heard.
    //= rfc5534#3.3-1
    pub fn handle_send_expired(&mut self, since: Instant, now: Instant) {
        if now.since(since) > self.config.send_timeout * 2 {
            // A whole period too late: this host was suspended, or stood still. What came in meanwhile may not be known yet.
            self.handle_suspicion(
                crate::FailureHint::Silence,
                since,
                self.config.send_timeout,
                now,
            );
        } else if since >= self.heard && !self.begin_last_trial(since, now) {
            self.on_silence(now);
        }
    }

    /// The data plane's Keepalive Interval ran out.
    pub fn handle_keepalive_due(&mut self, now: Instant) {
        self.step(Input::KeepaliveTimeout, Cause::PayloadReceived, None, now);
    }

    /// The payload that [`watch`](Self::watch) asked for came in.
    pub fn handle_payload(&mut self, at: Instant, now: Instant) {
        self.is_watching = false;
        self.note_payload_after_refusal(at);
        if !self.wants_payload() {
            return self.refresh_watch();
        }
        let fresh_from = self.exploration.as_ref().map_or(Instant::ZERO, |e| e.watch_since);
        if at < fresh_from {
            // Was on its way up when the timer it would stop was started: watch for another one.
            self.refresh_watch();
            return;
        }
        if self.trial_started().is_some_and(|started| started > at) {
            self.refresh_watch();
            return;
        }
        self.heard = self.heard.max(at);
        self.on_current_answered(now);
        self.on_traffic();
        self.step(Input::PayloadReceived, Cause::PayloadReceived, None, now);
        self.refresh_watch();
    }

    /// A Shim6 control message other than Keepalive and Probe came in.
    ///
    /// In an exploration of a pair that we know not to work it is a sign of life and no more: the first new pair that
    /// comes is probed at once.
    pub fn handle_control(&mut self, now: Instant) {
        self.heard = now;
        if self.is_current_down && self.state == State::Exploring {
            return;
        }
        self.step(Input::ControlReceived, Cause::ControlReceived, None, now);
    }

    /// A Shim6 control message other than Keepalive and Probe was sent on this context.
    pub fn handle_control_sent(&mut self, now: Instant) {
        self.step(Input::ControlSent, Cause::ControlReceived, None, now);
    }

    /// A keepalive came in.
    ///
    /// # Errors
    /// [`Replayed`](DropReason::Replayed): too many without a probe. Nothing tells a new keepalive from a
    /// repeated one, so in an exploration, where the peer owes us probes, only
    /// [`MAX_EXPLORING_KEEPALIVES`] of them pass for a sign of life.
    pub fn handle_keepalive(&mut self, now: Instant) -> Result<(), DropReason> {
        //= rfc5534#6.6
        if let (true, Some(exploration)) = (self.state != State::Operational, &mut self.exploration)
        {
            exploration.keepalives = exploration.keepalives.saturating_add(1);
            if exploration.keepalives > MAX_EXPLORING_KEEPALIVES {
                return Err(DropReason::Replayed);
            }
            exploration.left = None;
        }
        self.heard = now;
        self.on_keepalive(now);
        self.on_traffic();
        self.step(Input::KeepaliveReceived, Cause::KeepaliveReceived, None, now);
        self.refresh_watch();
        Ok(())
    }

    /// Other settings from now on. Timers that run are left as they are.
    pub fn handle_config(&mut self, config: impl Into<Arc<Config>>) {
        let profile = self.config.profile;
        self.config = config.into();
        if self.config.profile != profile {
            // The next change of candidates brings what the new profile wants.
            self.monitor = None;
            self.refresh_watch();
        }
    }

    /// The locators of either side, all of them: ours that work, the peer's that are verified, and what the peer says of its own, in
    /// their order; empty: nothing. Pairs whose packets do not leave by the uplink of their source, `unrouted`, are no candidates.
    ///
    /// If the current pair is not among them any more, or the peer says that its locator is broken (RFC 5533 s10.4), exploration begins
    /// at once. If new ones turn up during an exploration, they are tried first. Only the first [`MAX_LOCATORS`] of a side count.
    //= rfc5534#3.1-1 rfc5534#4.1-1
    pub fn handle_candidates(
        &mut self,
        local: impl Into<Locators>,
        peer: impl Into<Locators>,
        ranks: &[Rank],
        unrouted: &[LocatorPair],
        now: Instant,
    ) {
        let was_broken = self.is_current_broken();
        let (current, standby) = (self.current(), self.standby());
        let old_local = core::mem::replace(&mut self.local, cut_set(local.into()));
        let old_peer = core::mem::replace(&mut self.peer, cut_set(peer.into()));
        self.set_current(current);
        self.keep_standby(standby);
        let has_new_ranks = *self.ranks() != *ranks;
        if has_new_ranks {
            self.change_extra(|extra| extra.ranks = cut(ranks));
        }
        let old_unrouted = self.unrouted().to_vec();
        let has_other_routes = *old_unrouted != *unrouted;
        if has_other_routes {
            self.change_extra(|extra| extra.unrouted = unrouted.into());
        }
        let has_same_locators = *old_local == *self.local && *old_peer == *self.peer;
        if has_same_locators && !has_new_ranks && !has_other_routes {
            return;
        }
        let was_operational = self.state == State::Operational;
        // A pair that works is not left because of a route.
        if !self.has_locators_of(self.current()) {
            self.on_path_gone(Cause::LocatorGone, now);
        } else if self.is_current_broken() && !was_broken {
            self.on_path_broken(now);
        }
        self.refresh_standby(now);
        self.refresh_watch();
        if was_operational {
            return;
        }
        let is_new = |pair: LocatorPair| {
            let was_known = old_local.contains(&pair.local) && old_peer.contains(&pair.peer);
            !was_known || old_unrouted.contains(&pair)
        };
        self.rearrange(is_new, now);
    }

    /// What this host thinks of pairs: those that it would rather try, the best first, and those that it
    /// tries last. That is an order and nothing else.
    pub fn handle_order(&mut self, order: &[LocatorPair], avoided: &[LocatorPair]) {
        if !order.is_empty() || !avoided.is_empty() || self.extra.is_some() {
            self.change_extra(|extra| {
                (extra.order, extra.avoided) = (order.into(), avoided.into());
            });
        }
    }

    /// Somebody who does not know the context, perhaps the peer, has sent by this pair: an exploration probes the pair next, and soon.
    pub fn handle_claimed(&mut self, pair: LocatorPair, now: Instant) {
        if self.state != State::Operational && self.is_candidate(pair) {
            self.rearrange(|one| one == pair, now);
        }
    }

    /// Another context has left the pair that is current here, and found this one to work: the next
    /// exploration tries it first, if it is a candidate. `None`: there is no such thing.
    pub fn handle_hint(&mut self, hint: Option<LocatorPair>) {
        if hint.is_some() || self.extra.is_some() {
            self.change_extra(|extra| extra.hint = hint);
        }
    }

    /// The host knows that the current pair does not work: carrier lost, route gone. The locators
    /// stay candidates and are tried last.
    //= rfc5534#3.2-2 rfc5534#4.1-1
    pub fn handle_local_failure(&mut self, now: Instant) {
        self.on_path_gone(Cause::LocalFailure, now);
    }

    /// Time has come to a point that [`poll_timeout`](Self::poll_timeout) named, or gone past it.
    ///
    /// However late the call, each timer runs out once.
    pub fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..Self::TIMERS {
            match self.poll_timeout() {
                Some((at, timer)) if at <= now => self.on_timeout(timer, at, now),
                _ => return,
            }
        }
    }

    /// The next message to send; `None` until the next input.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(answer) = self.pop_answer() {
            return Some(answer);
        }
        let switch = self.extra.as_mut().and_then(|extra| extra.switch.as_mut()?.transmit.take());
        if switch.is_some() {
            return switch;
        }
        let probe = self.exploration.as_mut().and_then(|e| e.transmits.pop_front());
        if probe.is_some() {
            return probe;
        }
        if core::mem::take(&mut self.is_keepalive_due) {
            return Some(Transmit { pair: self.current(), message: Message::Keepalive });
        }
        self.pop_check()
    }

    /// Whether the next message is a probe. One that is waiting still when its exploration is over is not
    /// sent any more.
    #[must_use]
    pub fn has_probe(&mut self) -> bool {
        let state = self.state;
        if self.has_answer() {
            return false;
        }
        let has_switch = self.switch().is_some_and(|switch| switch.transmit.is_some());
        has_switch
            || self.exploration.as_mut().is_some_and(|exploration| exploration.has_probe(state))
    }

    /// Whether the next message is a check, for which the host may have no room:
    /// [`handle_checks_refused`](Self::handle_checks_refused).
    #[must_use]
    pub fn has_check(&mut self) -> bool {
        !self.has_answer() && !self.has_probe() && !self.is_keepalive_due && self.has_check_queued()
    }

    /// What happened since the last call; `None` until the next input.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.pop_event();
        event.or_else(|| self.exploration.as_mut()?.events.pop_front())
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest; changes with each input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let exploration = self.exploration.as_ref().and_then(|e| e.deadlines.next());
        let monitor = self.monitor.as_ref().and_then(|monitor| monitor.next_timeout());
        let switch = self.switch().map(|switch| (switch.next, Timer::Switch));
        let paths = self.parallel().map(|parallel| (parallel.next, Timer::Paths));
        [exploration, monitor, switch, paths].into_iter().flatten().min_by_key(|&(at, _)| at)
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether nothing comes from the peer, and several probes have found no pair that works.
    #[must_use]
    pub fn explores_in_vain(&self) -> bool {
        let is_in_vain =
            self.exploration.as_ref().is_some_and(|one| one.is_in_vain() && !one.is_heard);
        self.state == State::Exploring && is_in_vain
    }

    /// Where payload goes. Unchanged by an exploration until another pair is proven.
    #[must_use]
    pub fn current_pair(&self) -> LocatorPair {
        self.current()
    }

    /// Whether the peer was at this locator when it was last heard: in the current pair, or in the one that an exploration began with, as
    /// long as payload takes a standby path that has not answered yet.
    #[must_use]
    pub fn was_peer_at(&self, locator: Locator) -> bool {
        let left = self.exploration.as_ref().and_then(|exploration| exploration.left);
        let left = left.filter(|_| self.state != State::Operational);
        self.current().peer == locator || left.is_some_and(|left| left.peer == locator)
    }

    /// Timers for the data plane to run, `None` in Exploring (RFC 5534 s6). Send is the Send Timeout, less the time
    /// in which the current pair has its last trial (decision 059).
    #[must_use]
    pub fn timers(&self) -> Option<Timers> {
        let keepalive_timeout = match self.state {
            State::Operational => self.keepalive_timeout(),
            State::Exploring => return None,
            State::InboundOk => Duration::ZERO,
        };
        Some(Timers {
            send: self.send_period(self.state) - self.send_lead(),
            keepalive_interval: keepalive_interval(self.keepalive_timeout()),
            keepalive_timeout,
        })
    }

    /// Nonzero: payload coming in is to be told by [`handle_payload`](Self::handle_payload), once for
    /// each value.
    #[must_use]
    pub const fn watch(&self) -> u32 {
        if self.is_watching { self.watch } else { 0 }
    }

    /// When the peer was last heard by way of the core; payload that was not watched does not count.
    #[must_use]
    pub const fn heard(&self) -> Instant {
        self.heard
    }
}

/// What most machines have nothing of, so that it costs them a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Extra {
    /// What the peer says of its locators, in their order; empty: nothing.
    ranks: Box<[Rank]>,
    /// The pair to try first in the next exploration.
    hint: Option<LocatorPair>,
    /// The pair that is to be current once it has answered.
    switch: Option<Switch>,
    /// Our locators that are not to be relied on any more.
    deprecated: Box<[Locator]>,
    /// Pairs that payload may take besides the current one.
    parallel: Option<Parallel>,
    /// Pairs that this host would rather use, the best first; the others come after them.
    order: Box<[LocatorPair]>,
    /// Pairs that this host uses only when no other works.
    avoided: Box<[LocatorPair]>,
    /// Pairs whose packets do not leave by the uplink of their source.
    unrouted: Box<[LocatorPair]>,
    /// The pair on which this host keeps payload while that works.
    pin: Option<LocatorPair>,
    /// The kernel of the peer has refused payload.
    refused: Option<Refused>,
    /// The current pair, if it is not of the two sets.
    gone: Option<Box<LocatorPair>>,
}

/// Not for logs.
#[derive(Clone)]
struct Seed([u8; 16]);

impl Seed {
    /// As the generator takes it: 128 bits are as hard to guess as need be.
    fn expanded(&self) -> [u8; 32] {
        core::array::from_fn(|at| self.0[at % 16])
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// As fine as a peer can name it (RFC 5534 s5.3 has seconds, our private option milliseconds).
fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn cut_set(set: Locators) -> Locators {
    if set.len() <= MAX_LOCATORS { set } else { set.iter().take(MAX_LOCATORS).copied().collect() }
}

fn cut<T: Copy>(set: &[T]) -> Box<[T]> {
    set.iter().take(MAX_LOCATORS).copied().collect()
}

#[cfg(test)]
mod tests;
