//! The machine itself: inputs, outputs, and the walk through the transition table.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{DropReason, Instant, Locator, LocatorPair, Locators};

use crate::config::{Config, MAX_EXPLORING_KEEPALIVES, MAX_LOCATORS};
use crate::event::Cause;
use crate::exploration::Exploration;
use crate::monitor::PathMonitor;
use crate::order::Rank;
use crate::state::{Input, State};

mod broken;
mod checks;
mod compare;
mod follow;
mod heard;
mod home;
mod keepalives;
mod outputs;
mod paths;
mod place;
mod probe;
mod proven;
mod refused;
mod rounds;
mod shown;
mod standby;
mod suspicion;
mod switch;
mod transitions;
mod unmoved;

pub(crate) use checks::is_of_check;
pub use checks::{CHECK, CHECK_CURRENT};
pub use compare::LEFT_AS_WORSE;
pub(crate) use follow::Wish;
use paths::Parallel;
pub use paths::{PATH_INTERVAL, PATH_MISSES};
use refused::Refused;
pub use rounds::Known;
pub(crate) use shown::SeenAnswer;
pub use standby::Standby;
pub use switch::SWITCH_PROBES;
use switch::Switch;

/// REAP for one context: see the [crate] for the algorithm.
///
/// Inputs are the `handle_*` functions. After each one the caller drains [`poll_transmit`](Self::poll_transmit) and
/// [`poll_event`](Self::poll_event), hands [`current_pair`](Self::current_pair), [`timers`](Self::timers) and
/// [`watch`](Self::watch) to the data plane if they changed, and asks [`poll_timeout`](Self::poll_timeout) how long to
/// sleep.
///
/// The caller has already checked that a message is for this context and comes from locators of the context.
#[derive(Clone, Debug)]
pub struct Machine {
    config: Arc<Config>,
    seed: Seed,
    /// The pair that payload takes: places of its locators in our set and in the peer's set. `None`: one of the
    /// locators is in no set any more, and the pair is in [`Extra::gone`].
    current: Option<[u8; 2]>,
    /// The ULIDs, between which payload has no payload extension header: their places. `None`: one of them is no locator
    /// now.
    ulids: Option<[u8; 2]>,
    local: Locators,
    peer: Locators,
    /// State that most machines do not have.
    extra: Option<Box<Extra>>,
    /// Keepalive Timeout: the value that the peer named, or the default.
    keepalive_millis: u32,
    /// When the core last heard the peer. Payload that was not watched does not count.
    heard: Instant,
    /// Number of streams of the seed in use so far.
    explorations: u32,
    /// Number of the last watch, and whether the payload of that watch is still to come.
    watch: u32,
    is_watching: bool,
    state: State,
    /// Whether this host knows that the current pair does not work, even if the peer has not noticed yet.
    is_current_down: bool,
    is_keepalive_due: bool,
    exploration: Option<Box<Exploration>>,
    /// State of the parts beyond the RFC.
    monitor: Option<Box<PathMonitor>>,
}

impl Machine {
    /// Makes the machine of a context that has just been established, on the pair that its messages took. Until
    /// [`handle_candidates`](Self::handle_candidates) is called, that pair is the only candidate.
    ///
    /// `seed` must be secret and different for each context, because nonces are derived from it.
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
            ulids: Some([0, 0]),
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

    /// Takes the value of the peer's Keepalive Timeout option, which is the peer's Send Timeout (RFC 5534 s5.3).
    //= rfc5534#5.3-4
    pub fn handle_keepalive_timeout(&mut self, timeout: Duration) {
        self.keepalive_millis = millis(timeout);
    }

    /// The peer has not shown that it has the context. Payload of the next Initial Probe Timeout may reach the peer
    /// before the message that makes the context, and then draws no keepalive. With a short Send Timeout the machine
    /// ignores that silence. With a longer Send Timeout later payload draws a keepalive in time.
    pub fn handle_unconfirmed(&mut self, now: Instant) {
        let probe_timeout = self.config.initial_probe_timeout;
        if self.config.send_timeout < probe_timeout * 4 {
            self.heard = now + probe_timeout;
        }
    }

    /// The data plane's Send Timer ran out: payload left at `since` and nothing has come back.
    ///
    /// The machine ignores the report if it has heard the peer since then, because the data plane did not know that
    /// yet. The timer may run out before the end of the Send Timeout, see [`timers`](Self::timers). In that case
    /// exploration begins at the end of the Send Timeout, unless the peer is heard.
    ///
    /// In Exploring the report says that payload still leaves. Each report is good for one probe, so probes are never
    /// more than payload packets (decision 180).
    //= rfc5534#3.3-1
    pub fn handle_send_expired(&mut self, since: Instant, now: Instant) {
        if self.state == State::Exploring {
            self.on_payload_in_vain(now);
        } else if now.since(since) > self.config.send_timeout * 2 {
            // The report is a whole period late, so this host was suspended. Packets that came in meanwhile may still
            // wait.
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

    /// The payload that [`watch`](Self::watch) asked for came in at `at`.
    pub fn handle_payload(&mut self, at: Instant, now: Instant) {
        self.is_watching = false;
        self.note_payload_after_refusal(at);
        if !self.wants_payload() {
            return self.refresh_watch();
        }
        let fresh_from = self.exploration.as_ref().map_or(Instant::ZERO, |e| e.watch_since);
        if at < fresh_from {
            // This payload came in before the timer that it would stop was started. Watch for another packet.
            self.refresh_watch();
            return;
        }
        if self.trial_started().is_some_and(|started| started > at) {
            self.refresh_watch();
            return;
        }
        self.heard = self.heard.max(at);
        if !self.wants_proof() {
            self.on_current_answered(now);
        }
        self.on_traffic();
        self.step(Input::PayloadReceived, Cause::PayloadReceived, None, now);
        self.refresh_watch();
    }

    /// A Shim6 control message other than Keepalive and Probe came in.
    ///
    /// If this host explores because it knows that the current pair does not work, the message is a sign of life only,
    /// and the machine probes the first new pair at once.
    pub fn handle_control(&mut self, now: Instant) {
        self.heard = now;
        self.handle_request_answered(now);
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
    /// [`Replayed`](DropReason::Replayed): too many keepalives without a probe. A repeated keepalive looks like a new
    /// one. So in an exploration, in which the peer has to send probes, at most [`MAX_EXPLORING_KEEPALIVES`] keepalives
    /// count as a sign of life.
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
        self.note_confirmation();
        self.on_keepalive(now);
        self.on_traffic();
        self.step(Input::KeepaliveReceived, Cause::KeepaliveReceived, None, now);
        self.refresh_watch();
        Ok(())
    }

    /// Changes the settings. Running timers keep their deadlines.
    pub fn handle_config(&mut self, config: impl Into<Arc<Config>>) {
        let profile = self.config.profile;
        self.config = config.into();
        if self.config.profile != profile {
            // The next change of candidates sets up the monitor for the new profile.
            self.monitor = None;
            self.refresh_watch();
        }
    }

    /// Sets all locators of both sides: our working locators (`local`), the verified locators of the peer (`peer`), and
    /// `ranks`, the peer's preferences for its locators, in the order of `peer`. Empty `ranks`: the peer has stated
    /// none. The pairs in `unrouted`, whose packets do not leave by the uplink of their source, are no candidates.
    ///
    /// If the current pair is not among the locators any more, exploration begins at once. If the peer says that its
    /// locator of the current pair is broken (RFC 5533 s10.4), exploration begins unless the pair answers (decision
    /// 164). If new pairs turn up during an exploration, the machine tries them first. Only the first [`MAX_LOCATORS`]
    /// of each side count.
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
        let (current, standby, ulids) = (self.current(), self.standby(), self.ulids());
        let old_local = core::mem::replace(&mut self.local, cut_set(local.into()));
        let old_peer = core::mem::replace(&mut self.peer, cut_set(peer.into()));
        self.set_current(current);
        self.keep_standby(standby);
        self.ulids = ulids.and_then(|ulids| self.places_of(ulids));
        self.refresh_proven();
        let has_new_ranks = *self.ranks() != *ranks;
        let old_unrouted = self.unrouted().to_vec();
        let has_other_routes = *old_unrouted != *unrouted;
        if has_other_routes {
            self.change_extra(|extra| extra.unrouted = unrouted.into());
        }
        let has_same_peers = *old_peer == *self.peer;
        if has_new_ranks || self.has_ranks() && !has_same_peers {
            self.note_ranks(ranks, has_same_peers, now);
        }
        let has_same_locators = *old_local == *self.local && has_same_peers;
        if has_same_locators && !has_new_ranks && !has_other_routes {
            return;
        }
        let was_operational = self.state == State::Operational;
        // A change of routes does not take payload from a pair that works.
        if !self.has_locators_of(self.current()) {
            self.on_path_gone(Cause::LocatorGone, now);
        } else if self.is_current_broken() && !was_broken {
            self.doubt_broken(now);
        }
        if has_new_ranks {
            self.doubt_broken_standby(now);
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

    /// Sets this host's preferences: `order` holds the pairs to try first, the best first; `avoided` holds the pairs to
    /// try last. The preferences affect the order of pairs only.
    pub fn handle_order(&mut self, order: &[LocatorPair], avoided: &[LocatorPair]) {
        if !order.is_empty() || !avoided.is_empty() || self.extra.is_some() {
            self.change_extra(|extra| {
                (extra.order, extra.avoided) = (order.into(), avoided.into());
            });
        }
    }

    /// A sender without this context, perhaps the peer, has used this pair. During an exploration the machine probes
    /// the pair next, and soon.
    pub fn handle_claimed(&mut self, pair: LocatorPair, now: Instant) {
        if self.state != State::Operational && self.is_candidate(pair) {
            self.rearrange(|one| one == pair, now);
        }
    }

    /// Another context has left the pair that is current here, and found `hint` to work. The next exploration tries
    /// `hint` first, if it is a candidate. `None`: there is no hint.
    pub fn handle_hint(&mut self, hint: Option<LocatorPair>) {
        if hint.is_some() || self.extra.is_some() {
            self.change_extra(|extra| extra.hint = hint);
        }
    }

    /// The host knows that the current pair does not work: the carrier is lost, or the route is gone. The locators stay
    /// candidates, and exploration tries the pair last.
    //= rfc5534#3.2-2 rfc5534#4.1-1
    pub fn handle_local_failure(&mut self, now: Instant) {
        self.on_path_gone(Cause::LocalFailure, now);
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come or passed.
    ///
    /// Each timer runs out once, however late the call is.
    pub fn handle_timeout(&mut self, now: Instant) {
        for _ in 0..Self::TIMERS {
            match self.poll_timeout() {
                Some((at, timer)) if at <= now => self.on_timeout(timer, at, now),
                _ => return,
            }
        }
    }
}

/// State that most machines do not have. Without it a machine pays for one pointer only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Extra {
    /// The peer's preferences for its locators, in their order. Empty: the peer has stated none.
    ranks: Box<[Rank]>,
    /// When the peer stated them.
    ranked: Instant,
    /// A bit for each locator of the peer: a later answer has shown that the locator is not broken.
    refuted: u32,
    /// The pair to try first in the next exploration.
    hint: Option<LocatorPair>,
    /// A pair that becomes current once it has answered.
    switch: Option<Switch>,
    /// Our locators that the host will lose soon.
    deprecated: Box<[Locator]>,
    /// Pairs that payload may take besides the current one.
    parallel: Option<Parallel>,
    /// Pairs that this host prefers, the best first. All other pairs come after them.
    order: Box<[LocatorPair]>,
    /// Pairs that this host uses only if no other pair works.
    avoided: Box<[LocatorPair]>,
    /// Pairs whose packets do not leave by the uplink of their source.
    unrouted: Box<[LocatorPair]>,
    /// Locators of both sides that are known to work. Empty unless there are many locators.
    proven: Vec<Locator>,
    /// The pair on which this host keeps payload while the pair works.
    pin: Option<LocatorPair>,
    /// State after the peer's kernel has refused payload.
    refused: Option<Refused>,
    /// The current pair, if one of its locators is in neither set.
    gone: Option<Box<LocatorPair>>,
}

/// A secret: `Debug` does not print it.
#[derive(Clone)]
struct Seed([u8; 16]);

impl Seed {
    /// The seed at the length that the generator takes. Its 128 bits are hard enough to guess.
    fn expanded(&self) -> [u8; 32] {
        core::array::from_fn(|at| self.0[at % 16])
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// Milliseconds, the finest unit in which a peer can name a timeout (RFC 5534 s5.3 has seconds, our private option has
/// milliseconds).
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
