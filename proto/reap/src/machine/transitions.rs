//! Steps through the transition table, with their effects.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::unmoved::{Patience, WALK};
use super::{Extra, Machine};
use crate::config::{LINGER, keepalive_interval};
use crate::event::{Cause, Event};
use crate::exploration::Exploration;
use crate::order::{self, Sets};
use crate::random::Random;
use crate::state::{self, Act, Input, Send, State, Transition, transition};
use crate::timers::Timer;

/// Transitions.
impl Machine {
    /// Number of timers, and so the most that can run out at once.
    pub(super) const TIMERS: usize = 12;

    pub(super) fn on_timeout(&mut self, timer: Timer, at: Instant, now: Instant) {
        match timer {
            Timer::Send => self.on_send_timeout(at, now),
            Timer::Retransmission => self.on_retransmission(now),
            Timer::Keepalive => self.on_keepalive_interval(now),
            Timer::Forget => self.on_forget(now),
            Timer::Standby => self.on_round_timeout(now),
            Timer::Trial => self.on_trial_timeout(now),
            Timer::Answer => self.on_answer_timeout(now),
            Timer::Comparison => self.on_comparison_timeout(now),
            Timer::Follow => self.on_follow_timeout(now),
            Timer::Switch => self.on_switch_timeout(now),
            Timer::Paths => self.on_paths_timeout(now),
            Timer::Ulids => self.on_ulids_timeout(now),
        }
    }

    pub(super) fn on_send_timeout(&mut self, at: Instant, now: Instant) {
        let period = self.send_period(self.state);
        if now.since(at) > period {
            // This host was suspended: for a whole period it could hear nothing. The peer gets a fresh period.
            self.explore().deadlines.send = Some(now + period);
            return;
        }
        self.on_silence(now);
    }

    pub(super) fn on_keepalive_interval(&mut self, now: Instant) {
        let interval = keepalive_interval(self.keepalive_timeout());
        // The peer may have told a shorter Keepalive Timeout since the first keepalive.
        let end = now + self.keepalive_timeout();
        let deadlines = &mut self.explore().deadlines;
        deadlines.keepalive_end = deadlines.keepalive_end.map(|known| known.min(end));
        let next = now + interval;
        deadlines.keepalive = Some(next).filter(|&at| deadlines.keepalive_end >= Some(at));
        if deadlines.keepalive.is_none() {
            deadlines.keepalive_end = None;
        }
        self.step(Input::KeepaliveTimeout, Cause::ControlReceived, None, now);
    }

    pub(super) fn on_forget(&mut self, now: Instant) {
        let exploration = self.explore();
        if exploration.is_drained() {
            self.exploration = None;
        } else {
            exploration.deadlines.forget = Some(now + LINGER);
        }
    }

    /// Carries out one cell of the table. `via` is the pair for the probe, if it matters.
    pub(super) fn step(
        &mut self,
        input: Input,
        cause: Cause,
        via: Option<LocatorPair>,
        now: Instant,
    ) {
        let from = self.state;
        let cell = transition(from, input);
        if cell == state::nothing(from) {
            return;
        }
        if from == State::Exploring && cell.next == State::InboundOk && !self.has_report() {
            return self.on_heard_without_probe(now);
        }
        if from == State::Operational && cell.next != State::Operational {
            self.begin(now);
        }
        self.run_timers(cell, now);
        self.state = cell.next;
        if cell.next != from {
            self.on_entry(from, cause, now);
        }
        if input == Input::ProbeInboundOk {
            self.await_confirmation(now);
        }
        let mut has_pair = false;
        match cell.send {
            Send::Nothing => {}
            Send::Keepalive => self.is_keepalive_due = true,
            Send::Probe => has_pair = self.probe(via, now),
        }
        // An answer without a transition does not count in the pace: each answer needs a probe of the peer.
        let is_answer = input == Input::ProbeExploring && cell.next == from;
        if cell.send == Send::Probe && cell.next != State::Operational && !is_answer {
            let (config, is_paid) = (Arc::clone(&self.config), self.is_paid_for());
            self.explore().pace(&config, has_pair, is_paid, now);
        }
        self.refresh_forget(now);
        self.refresh_watch();
    }

    /// Whether a probe of the peer has come in that InboundOk can report.
    fn has_report(&self) -> bool {
        self.exploration.as_ref().is_some_and(|exploration| exploration.records.has_report())
    }

    /// In Exploring the peer was heard, but by no probe. InboundOk "MUST include copies of the fields of at least one
    /// of the inbound probes" (RFC 5534 s5.2). So the state stays until a probe comes in. A Probe Exploring, which the
    /// peer answers with a probe, leaves at once, and others follow at the pace of a new exploration (decision 144).
    //= rfc5534#5.2-5
    fn on_heard_without_probe(&mut self, now: Instant) {
        let exploration = self.explore();
        if !core::mem::replace(&mut exploration.is_heard, true) {
            exploration.hasten(now);
            self.step(Input::Retransmission, Cause::SendTimeout, None, now);
        }
        self.refresh_watch();
    }

    /// Payload leaves in Exploring.
    pub(super) fn on_payload_in_vain(&mut self, now: Instant) {
        if self.suspects() {
            let current = self.current();
            let (exploration, sets) = self.explore_with_sets();
            exploration.probe_for_payload(sets, current, now);
        }
    }

    /// Begins an exploration.
    pub(super) fn begin(&mut self, now: Instant) {
        self.is_keepalive_due = false;
        let current = self.current();
        let hint = self.extra.as_ref().and_then(|extra| extra.hint).or(self.fresh_standby(now));
        self.handle_hint(None);
        self.interrupt_comparison();
        self.drop_trial();
        let voucher = self.voucher();
        let worked = [self.home(), self.fresh_standby(now)];
        // The peer may want the same pair at the same moment. Then its answer to the switch comes during the exploration.
        let switch = self.switch().map(|switch| (switch.pair, switch.began));
        let (exploration, sets) = self.explore_with_sets();
        exploration.records.forget_sent(switch);
        exploration.begin(sets, current, hint, now);
        exploration.worked = worked;
        exploration.voucher = voucher;
    }

    pub(super) fn on_entry(&mut self, from: State, cause: Cause, now: Instant) {
        let to = self.state;
        let exploration = self.explore();
        exploration.tell(Event::StateChanged { from, to, cause });
        match to {
            State::Operational => {
                (exploration.deadlines.retransmission, exploration.deadlines.ulids) = (None, None);
                self.settle_rival(now);
                self.ask_failed_soon(now);
            }
            State::Exploring => {
                exploration.records.retire_received();
                exploration.watch_since = now;
                exploration.is_heard = false;
                exploration.is_own = true;
                self.await_answer(Patience::silent(WALK), now);
            }
            State::InboundOk if from == State::Exploring => exploration.hasten(now),
            // The peer hears nothing by the current pair.
            State::InboundOk => self.await_answer(Patience::silent(WALK), now),
        }
    }

    /// The Send Timeout in this state.
    pub(super) fn send_period(&self, state: State) -> Duration {
        match state {
            State::Operational | State::Exploring => self.config.send_timeout,
            State::InboundOk => self.config.inbound_ok_timeout(self.local.len() * self.peer.len()),
        }
    }

    /// Applies START, RESTART and STOP to the timers that this machine runs.
    pub(super) fn run_timers(&mut self, cell: Transition, now: Instant) {
        let starts = |act| matches!(act, Act::Start | Act::Restart);
        if self.exploration.is_none() && !starts(cell.send_timer) && !starts(cell.keepalive_timer) {
            return;
        }
        let send = now + self.send_period(cell.next);
        let interval = now + keepalive_interval(self.keepalive_timeout());
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

    /// Sends the probe that the state demands. The probe leaves by `via`, if given. Otherwise it leaves by the current
    /// pair in Operational, and by the next pair in order during an exploration. Returns false if there is no pair.
    pub(super) fn probe(&mut self, via: Option<LocatorPair>, now: Instant) -> bool {
        let config = Arc::clone(&self.config);
        let (state, current) = (self.state, self.current());
        let (exploration, sets) = self.explore_with_sets();
        let pair = match (state, via) {
            (_, Some(via)) => Some(via),
            (State::Operational, None) => Some(current),
            (_, None) => exploration.next_pair(&config, sets, now),
        };
        if let Some(pair) = pair {
            exploration.send_probe(state, pair, now);
        }
        pair.is_some()
    }

    /// Makes a pair current that the peer has proven.
    //= rfc5533#7.2-3
    pub(super) fn move_to(&mut self, to: LocatorPair, cause: Cause, now: Instant) {
        let from = self.current();
        self.set_current(to);
        self.is_current_down = false;
        if let Some(exploration) = &mut self.exploration {
            (exploration.left, exploration.rival, exploration.awaited) = (None, None, None);
            exploration.deadlines.ulids = None;
        }
        let cause = self.take_switch(to).unwrap_or(cause);
        if from != to {
            self.tell(Event::Moved { from, to, cause });
            self.after_leaving(from, cause, now);
            self.after_move(from, cause, now);
        }
    }

    /// The sets have changed in an exploration. Rebuilds the order of pairs.
    pub(super) fn rearrange(&mut self, is_new: impl Fn(LocatorPair) -> bool, now: Instant) {
        let config = Arc::clone(&self.config);
        let current = self.current();
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

    /// Keeps the records for [`LINGER`] after the last transition to Operational.
    pub(super) fn refresh_forget(&mut self, now: Instant) {
        let forget = now + LINGER;
        if let Some(exploration) = &mut self.exploration {
            let deadline = &mut exploration.deadlines.forget;
            let is_over = self.state == State::Operational;
            *deadline = is_over.then(|| deadline.unwrap_or(forget));
        }
    }

    /// Whether something waits for incoming payload as a sign of life.
    pub(super) fn wants_payload(&self) -> bool {
        let is_wanted = self.exploration.as_ref().is_some_and(|e| {
            let is_unheard = self.state == State::Exploring && !e.is_heard;
            is_unheard || e.deadlines.send.is_some() || e.deadlines.keepalive.is_some()
        });
        is_wanted || self.watches_traffic()
    }

    pub(super) fn refresh_watch(&mut self) {
        let is_wanted = self.wants_payload() || self.awaits_payload_after_refusal();
        if is_wanted && !self.is_watching {
            self.watch = self.watch.checked_add(1).unwrap_or(1);
        }
        self.is_watching = is_wanted;
    }

    pub(super) fn keepalive_timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.keepalive_millis))
    }

    pub(super) fn change_extra(&mut self, change: impl FnOnce(&mut Extra)) {
        let mut extra = self.extra.take().unwrap_or_default();
        change(&mut extra);
        self.extra = Some(extra).filter(|extra| **extra != Extra::default());
    }

    pub(super) fn is_candidate(&self, pair: LocatorPair) -> bool {
        self.has_locators_of(pair) && !self.unrouted().contains(&pair)
    }

    pub(super) fn has_locators_of(&self, pair: LocatorPair) -> bool {
        self.local.contains(&pair.local) && self.peer.contains(&pair.peer) && order::is_usable(pair)
    }

    pub(super) fn unrouted(&self) -> &[LocatorPair] {
        self.extra.as_ref().map_or(&[], |extra| &extra.unrouted)
    }

    pub(super) fn explore(&mut self) -> &mut Exploration {
        self.explore_with_sets().0
    }

    pub(super) fn explore_with_sets(&mut self) -> (&mut Exploration, Sets<'_>) {
        let (seed, explorations) = (self.seed.expanded(), &mut self.explorations);
        let exploration = self.exploration.get_or_insert_with(|| {
            *explorations = explorations.wrapping_add(1);
            Box::new(Exploration::new(Random::new(seed, u64::from(*explorations))))
        });
        let extra = self.extra.as_deref();
        let sets = Sets {
            local: &self.local,
            peer: &self.peer,
            ranks: extra.map_or(&[], |extra| &extra.ranks),
            order: extra.map_or(&[], |extra| &extra.order),
            avoided: extra.map_or(&[], |extra| &extra.avoided),
            unrouted: extra.map_or(&[], |extra| &extra.unrouted),
            proven: extra.map_or(&[], |extra| &extra.proven),
        };
        (exploration, sets)
    }
}
