//! Moves that probes of the peer ask for. This host asks the current pair first, unless the peer shows that the probe
//! is its own (decision 153).
//!
//! Each check carries the context tag and the ULIDs, so the ISP of a standby path knows them and can forge probes by
//! that path. That ISP does not see packets on the current pair. So one of two facts shows that the peer sent a probe:
//! the probe reports a check that went by the current pair, or the current pair is silent, as an exploring peer answers
//! no question there. A peer that calls its locator broken is not believed either before the current pair is silent.

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::checks::{is_answer, is_way_back};
use super::suspicion::UNKNOWN_DUE;
use super::{CHECK_CURRENT, LEFT_AS_WORSE, Machine};
use crate::bounded::push;
use crate::config::TRIES;
use crate::event::Cause;
use crate::follow::{Follow, Stage};
use crate::message::{Message, Probe, Report, Transmit, is_about};
use crate::monitor::PathMonitor;
use crate::state::State;

impl Machine {
    /// Sets the pair `pin`, on which this host keeps payload while the pair works. This host does not follow a peer
    /// that leaves such a pair. `None`: no pair is pinned.
    pub fn handle_pinned(&mut self, pin: Option<LocatorPair>) {
        if pin.is_some() || self.extra.is_some() {
            self.change_extra(|extra| extra.pin = pin);
        }
    }

    /// Whether the current pair is pinned.
    pub(super) fn is_pinned(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.pin == Some(self.current()))
    }

    /// A Probe Exploring of the peer came by this pair, and this host has answered it. `trial`: start of the trial of
    /// the current pair that was running then.
    pub(super) fn on_wish(&mut self, wish: Wish, trial: Option<Instant>, now: Instant) {
        if self.is_guarded() && !wish.is_vouched {
            return self.ask_current_pair(wish, trial, now);
        }
        if let Some(worse) = wish.worse.filter(|_| wish.is_vouched) {
            self.note_worse(worse, wish.to, now);
        }
        if self.is_guarded() {
            let from = self.current();
            self.flight().follow = Some(Follow::vouched(from, wish, now, now + LATE));
        }
        if wish.is_ready {
            self.move_for_peer(wish.to, wish.cause, now);
        }
    }

    /// A probe of the peer proves the pair `to`: payload takes it, or this host asks the current pair first. Returns
    /// false if this host asks.
    pub(super) fn follow(&mut self, to: LocatorPair, cause: Cause, now: Instant) -> bool {
        let is_wanted = self.switch().is_some_and(|switch| switch.pair == to);
        let is_return = self.ulids() == Some(to) && self.is_answer_awaited();
        let is_open = !self.is_guarded() || self.is_granted() || is_return;
        let may_move = to == self.current() || is_wanted || is_open;
        if may_move {
            let from = self.current();
            let asked = self.follow_now().filter(|asked| (asked.from, asked.to) == (from, to));
            if let Some(worse) = asked.and_then(Follow::shown_worse) {
                self.note_worse(worse, to, now);
            }
            self.move_to(to, cause, now);
        } else {
            let wish = Wish { to, cause, is_ready: true, is_vouched: false, worse: None };
            self.ask_current_pair(wish, None, now);
        }
        may_move
    }

    /// Whether a probe of the peer alone takes no payload from the current pair: the pair has answered, and this host has no
    /// reason of its own to leave it.
    pub(super) fn is_guarded(&self) -> bool {
        let is_own = self.exploration.as_ref().is_some_and(|exploration| exploration.is_own);
        // The machine keeps an exploration that is over for a while.
        let explores = match self.state {
            State::Operational => false,
            State::InboundOk => is_own,
            State::Exploring => true,
        };
        (self.has_current_answered() || self.is_untried() || self.have_ulids_answered())
            && !self.is_current_down
            && self.is_candidate(self.current())
            && !explores
    }

    /// Whether the context is new: the pair that it began with has carried the handshake, and the first answer to a
    /// check is still to come.
    fn is_untried(&self) -> bool {
        let is_untried = |one: &PathMonitor| one.is_new && !one.is_mute() && one.past().is_none();
        self.suspects() && self.monitor.as_deref().is_some_and(is_untried)
    }

    fn is_granted(&self) -> bool {
        let follow = self.follow_now();
        follow.is_some_and(|follow| follow.stage.is_granted() && follow.from == self.current())
    }

    fn follow_now(&self) -> Option<&Follow> {
        self.flight_now()?.follow.as_ref()
    }

    /// Asks the current pair before payload leaves it. The answer may take as long as answers to earlier checks of the
    /// pair. If a trial of the pair has begun, this time counts from the start of the trial.
    fn ask_current_pair(&mut self, wish: Wish, trial: Option<Instant>, now: Instant) {
        let from = self.current();
        let due = self.monitor.as_ref().and_then(|monitor| monitor.current_rtt.due());
        let patience = due.unwrap_or(UNKNOWN_DUE);
        let before = self.flight().follow;
        // The question that payload was moved by stays: its answer may be late.
        if let Some(left) = before.filter(|one| one.stage == Stage::Unanswered && one.from != from)
        {
            self.flight().left = Some(left);
        }
        let before = before.filter(|before| before.from == from);
        let follow = match before {
            Some(before) if before.stage == Stage::Asking => before.or(wish),
            Some(before) if before.stage.is_granted() => return,
            // The peer answers a limited number of questions.
            before => {
                let next = before.map_or(now, |before| now.max(before.began + APART));
                let began = trial.unwrap_or(next);
                // The peer tells why in the probes of its switch alone, and moves afterwards.
                let same = before.filter(|before| before.to == wish.to);
                let worse = wish.worse.or(same.and_then(|before| before.worse));
                let wish = Wish { worse, ..wish };
                Follow::asking(from, wish, began, next, began + patience)
            }
        };
        self.flight().follow = Some(follow);
        self.on_follow_timeout(now);
    }

    /// The next question is due, or the time for an answer is over and payload moves.
    pub(super) fn on_follow_timeout(&mut self, now: Instant) {
        let Some(follow) = self.follow_now().copied().filter(|follow| follow.next <= now) else {
            return;
        };
        let is_open =
            follow.stage == Stage::Asking && follow.from == self.current() && self.is_guarded();
        if !is_open {
            self.flight().follow = None;
            return self.tidy_monitor(now);
        }
        if now >= follow.due && self.has_asked(follow) {
            return self.end_follow(follow, Stage::Unanswered, now);
        }
        if now >= follow.due {
            return self.ask_again(follow, now);
        }
        let rtt = self.round_trip().unwrap_or_default();
        let gap =
            (follow.due.since(follow.next).saturating_sub(rtt) / u32::from(TRIES)).max(LEAST_GAP);
        let tries = follow.tries + 1;
        let next = if tries < TRIES { (now + gap).min(follow.due) } else { follow.due };
        self.flight().follow = Some(Follow { tries, next, ..follow });
        match self.state {
            State::Operational => self.send_check(follow.from, now),
            // A check says Operational, which is not the state here. The peer also answers a Probe InboundOk.
            State::InboundOk => {
                let nonce = self.ask_by_probe(follow.from, now);
                if let Some(follow) = &mut self.flight().follow {
                    follow.probes[usize::from(follow.tries - 1) % usize::from(TRIES)] = nonce;
                }
            }
            State::Exploring => {}
        }
    }

    /// Sends a Probe InboundOk by the current pair. The probe shows the peer that this host sees the peer's answers.
    fn ask_by_probe(&mut self, current: LocatorPair, now: Instant) -> Option<u32> {
        let shown = self.shown_answer(current);
        let mut transmit = self.explore().make_probe(State::InboundOk, current, now);
        if let Message::Probe(probe) = &mut transmit.message {
            probe.received.extend(shown);
        }
        let nonce = transmit.nonce();
        push(&mut self.explore().transmits, transmit);
        nonce
    }

    /// Whether a question has left. The host may have had no room for it.
    fn has_asked(&self, follow: Follow) -> bool {
        let checks = self.flight_now().into_iter().flat_map(|flight| &flight.transmits);
        let probes = self.exploration.iter().flat_map(|exploration| &exploration.transmits);
        let waiting: Vec<_> = checks.chain(probes).filter_map(Transmit::nonce).collect();
        let sent = self.sent_since(follow.began).filter(|(by, _)| *by == follow.from);
        let mut asked = sent.map(|(_, nonce)| nonce).chain(follow.probes.into_iter().flatten());
        asked.any(|nonce| !waiting.contains(&nonce))
    }

    /// The peer says that its locator of the current pair is broken: this host asks the pair, if it has answered
    /// before.
    pub(super) fn doubt_broken(&mut self, now: Instant) {
        if !self.is_guarded() {
            return self.on_path_broken(now);
        }
        let asks = self.follow_now().is_some_and(|follow| follow.stage == Stage::Asking);
        if !asks {
            let (to, cause) = (self.current(), Cause::LocatorBroken);
            let wish = Wish { to, cause, is_ready: false, is_vouched: false, worse: None };
            self.ask_current_pair(wish, None, now);
        }
    }

    /// The peer has answered by the pair that it wants, or the current pair has not answered in time: payload moves. A
    /// late answer takes payload back.
    fn end_follow(&mut self, follow: Follow, stage: Stage, now: Instant) {
        let follow = Follow { stage, next: now + LATE, ..follow };
        self.flight().follow = Some(follow);
        if follow.cause == Cause::LocatorBroken && stage == Stage::Unanswered {
            self.on_path_broken(now);
        } else if follow.is_ready && self.is_candidate(follow.to) && !self.is_broken(follow.to) {
            if let Some(worse) = follow.shown_worse() {
                self.note_worse(worse, follow.to, now);
            }
            self.move_for_peer(follow.to, follow.cause, now);
        }
        self.refresh_forget(now);
    }

    /// Whether `probe` answers a question by the pair that this host asks. Returns the pair that payload of this host
    /// takes then.
    ///
    /// The answer to a check takes the pair of the peer's own payload. An attacker with forged probes can draw other
    /// answers to other pairs.
    pub(super) fn heed_answer(
        &mut self,
        pair: LocatorPair,
        probe: &Probe,
        now: Instant,
    ) -> Option<LocatorPair> {
        if let Some(late) = self.late_answer(pair, probe, now) {
            self.move_to(late.from, Cause::ProbeOperational, now);
            self.refuse(late, now);
            return Some(self.current());
        }
        let follow = *self.follow_now()?;
        if follow.stage != Stage::Asking || is_way_back(probe) || !self.is_answered(follow, probe) {
            return None;
        }
        let is_elsewhere = pair == follow.to && pair != follow.from;
        let says_where = is_answer(probe) && self.is_check_by(follow, &probe.received[0]);
        let is_wish = says_where && !self.is_pinned() && !self.is_home_again(now);
        if is_elsewhere && is_wish {
            self.end_follow(follow, Stage::Vouched, now);
        } else if is_elsewhere && !says_where {
            self.ask_again(follow, now);
            return None;
        } else {
            self.refuse(follow, now);
        }
        Some(self.current())
    }

    /// The question whose answer this probe is, if the answer comes late by the pair that was asked, and payload has
    /// left that pair.
    ///
    /// The answer may say that the peer's payload takes another pair. But a peer that explores hears no question. So
    /// the pair works, and the probe that took payload away was not the peer's, whatever it says of the pair.
    fn late_answer(&self, pair: LocatorPair, probe: &Probe, now: Instant) -> Option<Follow> {
        let flight = self.flight_now()?;
        let mut asked = [flight.follow, flight.left].into_iter().flatten();
        asked.find(|one| {
            one.stage == Stage::Unanswered
                && one.from == pair
                && now < one.next
                && self.has_followed(*one)
                && self.is_answered(*one, probe)
        })
    }

    /// Whether the probe reports a question.
    fn is_answered(&self, follow: Follow, probe: &Probe) -> bool {
        follow.is_reported_by(&probe.received)
            || self.reports_by(follow.from, &probe.received, follow.began)
    }

    /// Whether payload still takes the pair to which it has moved because the asked pair was silent.
    fn has_followed(&self, follow: Follow) -> bool {
        let current = self.current();
        current == follow.to || follow.to == follow.from && current != follow.from
    }

    /// The asked pair works: payload stays.
    fn refuse(&mut self, follow: Follow, now: Instant) {
        self.refute_broken(follow.from.peer);
        let refused = Follow { stage: Stage::Refused, next: now + LATE, ..follow };
        self.flight().follow = Some(refused);
    }

    /// The asked pair works, but the peer's payload may take another pair; or no question has left. Asks again.
    fn ask_again(&mut self, follow: Follow, now: Instant) {
        let began = now.max(follow.began + APART);
        let due = began + follow.due.since(follow.began);
        let probes = [None; TRIES as usize];
        self.flight().follow = Some(Follow { began, next: began, due, tries: 0, probes, ..follow });
    }

    /// Whether one of these reports is about a check or probe that this host has sent by `pair` at or after `since`.
    fn reports_by(&self, pair: LocatorPair, received: &[Report], since: Instant) -> bool {
        let mut sent = self.sent_since(since).filter(|(by, _)| *by == pair);
        sent.any(|(_, nonce)| received.iter().any(|report| is_about(report, pair, nonce)))
    }

    /// Whether this report is about a check of the pair that is asked. An attacker that knows the nonce of a probe can
    /// report the probe as a check.
    fn is_check_by(&self, follow: Follow, report: &Report) -> bool {
        let mut checks = self.flight_now().into_iter().flat_map(|flight| &flight.checks);
        checks.any(|check| {
            check.pair == follow.from
                && check.data == report.data
                && check.at >= follow.began
                && is_about(report, check.pair, check.nonce)
        })
    }

    /// Whether a Probe Exploring reports a check that went by the current pair. Each such check vouches for one probe.
    /// If the current pair is pinned, no check vouches: this host asks whether the pair works, whoever wants payload
    /// elsewhere.
    pub(super) fn takes_voucher(&mut self, probe: &Probe, now: Instant) -> bool {
        let (current, is_pinned) = (self.current(), self.is_pinned());
        let Some(monitor) = self.monitor.as_mut().filter(|_| !is_pinned) else { return false };
        let mut by_current = probe.received.iter().filter(|report| {
            report.data == CHECK_CURRENT && LocatorPair::new(report.src, report.dst) == current
        });
        by_current.any(|report| {
            let is_last =
                monitor.answered_nonce.take_if(|nonce| nonce.get() == report.nonce).is_some();
            let flight = monitor.flight.as_mut();
            is_last || flight.is_some_and(|one| one.confirm(current, report, now).is_some())
        })
    }

    /// The last check that has come by the current pair. If this host leaves the pair, its Probe Exploring reports that
    /// check.
    pub(super) fn voucher(&self) -> Option<Report> {
        let nonce = self.monitor.as_ref()?.seen_nonce?;
        let LocatorPair { local, peer } = self.current();
        Some(Report { src: peer, dst: local, nonce: nonce.get(), data: CHECK_CURRENT })
    }
}

/// The pair, as seen from here, that the peer leaves by this probe as much worse than another one. A peer of an earlier
/// version names no pair; then the result is `current`.
pub(super) fn left_as_worse(probe: &Probe, current: LocatorPair) -> Option<LocatorPair> {
    let (own, others) = probe.sent.split_first()?;
    let named = others.iter().find(|report| report.data == LEFT_AS_WORSE);
    let named = named.map(|report| LocatorPair::new(report.dst, report.src));
    (own.data == LEFT_AS_WORSE).then_some(named.unwrap_or(current))
}

/// A move that a probe of the peer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) to: LocatorPair,
    pub(crate) cause: Cause,
    /// Whether `to` has answered.
    pub(crate) is_ready: bool,
    /// Whether the peer has shown that the probe is its own.
    pub(crate) is_vouched: bool,
    /// A pair that the peer has left as much worse than another one.
    pub(crate) worse: Option<LocatorPair>,
}

/// Least time between questions: 2 ms.
const LEAST_GAP: Duration = Duration::from_millis(2);
/// Time between the beginnings of two series of questions: 500 ms. A peer answers 20 questions a second.
const APART: Duration = Duration::from_millis(500);
/// After a move without an answer, a late answer takes payload back within this time: 10 s.
const LATE: Duration = Duration::from_secs(10);
