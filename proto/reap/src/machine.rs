//! The machine itself: inputs, outputs, and the walk through the table.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use moorline_types::{DropReason, Instant, LocatorPair, Locators};

use crate::config::{Config, MAX_EXPLORING_KEEPALIVES, MAX_LOCATORS};
use crate::event::{Cause, Event};
use crate::exploration::Exploration;
use crate::message::{Message, Transmit};
use crate::order::{self, Rank, Sets};
use crate::random::Random;
use crate::state::{self, Act, Input, Send, State, Transition, transition};
use crate::timers::{Timer, Timers};

mod probe;

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
    /// Where payload goes.
    current: LocatorPair,
    local: Locators,
    peer: Locators,
    /// What most machines have nothing of.
    extra: Option<Box<Extra>>,
    /// Keepalive Timeout: what the peer named, or the default.
    keepalive_nanos: u64,
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
            keepalive_nanos: nanos(config.keepalive_timeout),
            config,
            seed: Seed(seed),
            current,
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
        }
    }

    /// The peer's Keepalive Timeout option: its Send Timeout (RFC 5534 s5.3).
    //= rfc5534#5.3-4
    pub fn handle_keepalive_timeout(&mut self, timeout: Duration) {
        self.keepalive_nanos = nanos(timeout);
    }

    /// The data plane's Send Timer ran out: payload left at `since` and nothing came back.
    ///
    /// Ignored if the peer was heard since then: the data plane had not been told yet.
    //= rfc5534#3.3-1
    pub fn handle_send_expired(&mut self, since: Instant, now: Instant) {
        if since >= self.heard {
            self.step(Input::SendTimeout, Cause::SendTimeout, None, now);
        }
    }

    /// The data plane's Keepalive Interval ran out.
    pub fn handle_keepalive_due(&mut self, now: Instant) {
        self.step(Input::KeepaliveTimeout, Cause::PayloadReceived, None, now);
    }

    /// The payload that [`watch`](Self::watch) asked for came in.
    pub fn handle_payload(&mut self, at: Instant, now: Instant) {
        self.is_watching = false;
        let fresh_from = self.exploration.as_ref().map_or(Instant::ZERO, |e| e.watch_since);
        if at < fresh_from {
            // Was on its way up when the timer it would stop was started: watch for another one.
            self.refresh_watch();
            return;
        }
        self.heard = self.heard.max(at);
        self.step(Input::PayloadReceived, Cause::PayloadReceived, None, now);
    }

    /// A Shim6 control message other than Keepalive and Probe came in.
    pub fn handle_control(&mut self, now: Instant) {
        self.heard = now;
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
        }
        self.heard = now;
        self.step(Input::KeepaliveReceived, Cause::KeepaliveReceived, None, now);
        Ok(())
    }

    /// Other settings from now on. Timers that run are left as they are.
    pub fn handle_config(&mut self, config: impl Into<Arc<Config>>) {
        self.config = config.into();
    }

    /// The locators of either side, all of them: ours that work, the peer's that are verified.
    ///
    /// If the current pair is not among them any more, exploration begins at once. If new ones turn
    /// up during an exploration, they are tried first. Only the first [`MAX_LOCATORS`] of a side count.
    //= rfc5534#3.1-1 rfc5534#4.1-1
    pub fn handle_candidates(
        &mut self,
        local: impl Into<Locators>,
        peer: impl Into<Locators>,
        now: Instant,
    ) {
        self.handle_ranked_candidates(local, peer, &[], now);
    }

    /// [`handle_candidates`](Self::handle_candidates) with what the peer says of its locators, in their
    /// order; empty: nothing. If it says that the one in use is broken, exploration begins (RFC 5533
    /// s10.4).
    pub fn handle_ranked_candidates(
        &mut self,
        local: impl Into<Locators>,
        peer: impl Into<Locators>,
        ranks: &[Rank],
        now: Instant,
    ) {
        let was_broken = self.is_current_broken();
        let old_local = core::mem::replace(&mut self.local, cut_set(local.into()));
        let old_peer = core::mem::replace(&mut self.peer, cut_set(peer.into()));
        let has_new_ranks = *self.ranks() != *ranks;
        if has_new_ranks {
            self.change_extra(|extra| extra.ranks = cut(ranks));
        }
        if *old_local == *self.local && *old_peer == *self.peer && !has_new_ranks {
            return;
        }
        let was_operational = self.state == State::Operational;
        if !self.is_candidate(self.current) {
            self.is_current_down = true;
            self.step(Input::PathGone, Cause::LocatorGone, None, now);
        } else if self.is_current_broken() && !was_broken {
            self.step(Input::PathGone, Cause::LocatorBroken, None, now);
        }
        if was_operational {
            return;
        }
        let is_new =
            |pair: LocatorPair| !old_local.contains(&pair.local) || !old_peer.contains(&pair.peer);
        self.rearrange(is_new, now);
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
        self.is_current_down = true;
        self.step(Input::PathGone, Cause::LocalFailure, None, now);
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
        let probe = self.exploration.as_mut().and_then(|e| e.pop_transmit());
        if probe.is_some() || !self.is_keepalive_due {
            return probe;
        }
        self.is_keepalive_due = false;
        Some(Transmit { pair: self.current, message: Message::Keepalive })
    }

    /// Whether the next message is a probe. One that is waiting still when its exploration is over is not
    /// sent any more.
    #[must_use]
    pub fn has_probe(&mut self) -> bool {
        let state = self.state;
        self.exploration.as_mut().is_some_and(|exploration| exploration.has_probe(state))
    }

    /// What happened since the last call; `None` until the next input.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.exploration.as_mut().and_then(|e| e.pop_event())
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest; changes with each input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        self.exploration.as_ref()?.deadlines.next()
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Where payload goes. Unchanged by an exploration until another pair is proven.
    #[must_use]
    pub const fn current_pair(&self) -> LocatorPair {
        self.current
    }

    /// Timers for the data plane to run, `None` in Exploring (RFC 5534 s6).
    #[must_use]
    pub fn timers(&self) -> Option<Timers> {
        let keepalive_timeout = match self.state {
            State::Operational => self.keepalive_timeout(),
            State::Exploring => return None,
            State::InboundOk => Duration::ZERO,
        };
        Some(Timers {
            send: self.send_period(self.state),
            keepalive_interval: self.config.keepalive_interval(self.keepalive_timeout()),
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

/// Transitions.
impl Machine {
    /// How many timers there are, and so how many can run out at once.
    const TIMERS: usize = 4;

    fn on_timeout(&mut self, timer: Timer, at: Instant, now: Instant) {
        match timer {
            Timer::Send => self.on_send_timeout(at, now),
            Timer::Retransmission => {
                self.step(Input::Retransmission, Cause::SendTimeout, None, now);
            }
            Timer::Keepalive => self.on_keepalive_interval(now),
            Timer::Forget => self.on_forget(now),
        }
    }

    fn on_send_timeout(&mut self, at: Instant, now: Instant) {
        let period = self.send_period(self.state);
        if now.since(at) > period {
            // We were suspended rather than deaf: a whole period went by in which we would not have
            // heard anything. The peer gets a fresh one.
            self.explore().deadlines.send = Some(now + period);
            return;
        }
        self.step(Input::SendTimeout, Cause::SendTimeout, None, now);
    }

    fn on_keepalive_interval(&mut self, now: Instant) {
        let interval = self.config.keepalive_interval(self.keepalive_timeout());
        let deadlines = &mut self.explore().deadlines;
        let next = now + interval;
        deadlines.keepalive = Some(next).filter(|&at| deadlines.keepalive_end >= Some(at));
        if deadlines.keepalive.is_none() {
            deadlines.keepalive_end = None;
        }
        self.step(Input::KeepaliveTimeout, Cause::ControlReceived, None, now);
    }

    fn on_forget(&mut self, now: Instant) {
        let linger = self.config.linger;
        let exploration = self.explore();
        if exploration.is_drained() {
            self.exploration = None;
        } else {
            exploration.deadlines.forget = Some(now + linger);
        }
    }

    /// Carries out one cell of the table. `via` is the pair for the probe, if it matters.
    fn step(&mut self, input: Input, cause: Cause, via: Option<LocatorPair>, now: Instant) {
        let from = self.state;
        let cell = transition(from, input);
        if cell == state::nothing(from) {
            return;
        }
        if from == State::Operational && cell.next != State::Operational {
            self.begin();
        }
        self.run_timers(cell, now);
        self.state = cell.next;
        if cell.next != from {
            self.on_entry(from, cause, now);
        }
        match cell.send {
            Send::Nothing => {}
            Send::Keepalive => self.is_keepalive_due = true,
            Send::Probe => self.probe(via, now),
        }
        // An answer without a transition is paid for by the probe it answers: the pace stays.
        let is_answer = input == Input::ProbeExploring && cell.next == from;
        if cell.send == Send::Probe && cell.next != State::Operational && !is_answer {
            let config = Arc::clone(&self.config);
            self.explore().pace(&config, now);
        }
        self.refresh_forget(now);
        self.refresh_watch();
    }

    /// An exploration begins.
    fn begin(&mut self) {
        self.is_keepalive_due = false;
        let current = self.current;
        let hint = self.extra.as_ref().and_then(|extra| extra.hint);
        self.handle_hint(None);
        let (exploration, sets) = self.explore_with_sets();
        exploration.begin(sets, current, hint);
    }

    fn on_entry(&mut self, from: State, cause: Cause, now: Instant) {
        let to = self.state;
        let config = Arc::clone(&self.config);
        let exploration = self.explore();
        exploration.tell(Event::StateChanged { from, to, cause });
        match to {
            State::Operational => {
                exploration.deadlines.retransmission = None;
            }
            State::Exploring => {
                exploration.records.retire_received();
                exploration.watch_since = now;
            }
            State::InboundOk if from == State::Exploring => exploration.hasten(&config, now),
            State::InboundOk => {}
        }
    }

    /// The Send Timeout in this state.
    fn send_period(&self, state: State) -> Duration {
        match state {
            State::Operational | State::Exploring => self.config.send_timeout,
            State::InboundOk => self.config.inbound_ok_timeout(self.local.len() * self.peer.len()),
        }
    }

    /// START, RESTART and STOP of the timers that are ours.
    fn run_timers(&mut self, cell: Transition, now: Instant) {
        let starts = |act| matches!(act, Act::Start | Act::Restart);
        if self.exploration.is_none() && !starts(cell.send_timer) && !starts(cell.keepalive_timer) {
            return;
        }
        let send = now + self.send_period(cell.next);
        let interval = now + self.config.keepalive_interval(self.keepalive_timeout());
        let end = now + self.keepalive_timeout();
        let exploration = self.explore();
        let deadlines = &mut exploration.deadlines;
        let starts_send = match cell.send_timer {
            Act::Start => deadlines.send.is_none(),
            Act::Restart => true,
            Act::Stop | Act::Keep => false,
        };
        if starts_send {
            deadlines.send = Some(send);
        }
        if cell.send_timer == Act::Stop {
            deadlines.send = None;
        }
        let starts_keepalive = starts(cell.keepalive_timer) && deadlines.keepalive.is_none();
        if starts_keepalive {
            deadlines.keepalive = Some(interval);
            deadlines.keepalive_end = Some(end);
        }
        if cell.keepalive_timer == Act::Stop {
            deadlines.stop_keepalive();
        }
        if starts_send || starts_keepalive {
            exploration.watch_since = now;
        }
    }

    /// Sends the probe that the state calls for: by `via`, or the next pair in order.
    fn probe(&mut self, via: Option<LocatorPair>, now: Instant) {
        let config = Arc::clone(&self.config);
        let (state, current) = (self.state, self.current);
        let (exploration, sets) = self.explore_with_sets();
        let pair = match (state, via) {
            (State::Operational, _) => Some(current),
            (_, Some(via)) => Some(via),
            (_, None) => exploration.next_pair(&config, sets, now),
        };
        if let Some(pair) = pair {
            exploration.send_probe(&config, state, pair, now);
        }
    }

    /// Makes a pair current that the peer has proven.
    //= rfc5534#8-1
    //= rfc5533#7.2-3
    fn move_to(&mut self, to: LocatorPair, cause: Cause) {
        let from = core::mem::replace(&mut self.current, to);
        self.is_current_down = false;
        if from != to {
            self.explore().tell(Event::Moved { from, to, cause });
        }
    }

    /// The sets changed in an exploration.
    fn rearrange(&mut self, is_new: impl Fn(LocatorPair) -> bool, now: Instant) {
        let config = Arc::clone(&self.config);
        let current = self.current;
        let any_new = self
            .local
            .iter()
            .flat_map(|&l| self.peer.iter().map(move |&p| LocatorPair::new(l, p)))
            .any(&is_new);
        let (exploration, sets) = self.explore_with_sets();
        exploration.reorder(sets, current, is_new);
        if any_new {
            exploration.probe_soon(&config, now);
        }
    }

    /// Records are kept for a while after the last transition to Operational.
    fn refresh_forget(&mut self, now: Instant) {
        let forget = now + self.config.linger;
        if let Some(exploration) = &mut self.exploration {
            let deadline = &mut exploration.deadlines.forget;
            let is_over = self.state == State::Operational;
            *deadline = is_over.then(|| deadline.unwrap_or(forget));
        }
    }

    fn refresh_watch(&mut self) {
        let is_wanted = self.exploration.as_ref().is_some_and(|e| {
            let is_exploring = self.state == State::Exploring;
            is_exploring || e.deadlines.send.is_some() || e.deadlines.keepalive.is_some()
        });
        if is_wanted && !self.is_watching {
            self.watch = self.watch.checked_add(1).unwrap_or(1);
        }
        self.is_watching = is_wanted;
    }

    const fn keepalive_timeout(&self) -> Duration {
        Duration::from_nanos(self.keepalive_nanos)
    }

    fn is_current_broken(&self) -> bool {
        let index = self.peer.iter().position(|peer| *peer == self.current.peer);
        index.and_then(|index| self.ranks().get(index)).is_some_and(|rank| rank.is_broken)
    }

    fn ranks(&self) -> &[Rank] {
        self.extra.as_ref().map_or(&[], |extra| &extra.ranks)
    }

    fn change_extra(&mut self, change: impl FnOnce(&mut Extra)) {
        let mut extra = self.extra.take().unwrap_or_default();
        change(&mut extra);
        self.extra = Some(extra).filter(|extra| **extra != Extra::default());
    }

    fn is_candidate(&self, pair: LocatorPair) -> bool {
        self.local.contains(&pair.local) && self.peer.contains(&pair.peer) && order::is_usable(pair)
    }

    fn explore(&mut self) -> &mut Exploration {
        self.explore_with_sets().0
    }

    fn explore_with_sets(&mut self) -> (&mut Exploration, Sets<'_>) {
        let (seed, explorations) = (self.seed.expanded(), &mut self.explorations);
        let exploration = self.exploration.get_or_insert_with(|| {
            *explorations = explorations.wrapping_add(1);
            Box::new(Exploration::new(Random::new(seed, u64::from(*explorations))))
        });
        let ranks = self.extra.as_ref().map_or(&[][..], |extra| &extra.ranks);
        (exploration, Sets { local: &self.local, peer: &self.peer, ranks })
    }
}

/// What most machines have nothing of, so that it costs them a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Extra {
    /// What the peer says of its locators, in their order; empty: nothing.
    ranks: Box<[Rank]>,
    /// The pair to try first in the next exploration.
    hint: Option<LocatorPair>,
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn cut_set(set: Locators) -> Locators {
    if set.len() <= MAX_LOCATORS { set } else { set.iter().take(MAX_LOCATORS).copied().collect() }
}

fn cut<T: Copy>(set: &[T]) -> Box<[T]> {
    set.iter().take(MAX_LOCATORS).copied().collect()
}

#[cfg(test)]
mod tests;
