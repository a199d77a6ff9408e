//! Checks: probes that test a pair while nothing is wrong (decision 046).
//!
//! A check is a Probe Operational that has [`CHECK`] or [`CHECK_CURRENT`] in its Probe Data and reports nothing. A
//! critical option makes hosts without this extension refuse the check (decision 143).
//!
//! A host in Operational that knows checks answers with a Probe Operational that reports the check. The answer to
//! [`CHECK`] takes the pair that the check came by. The answer to [`CHECK_CURRENT`], which tests the current pair,
//! takes the pair of the answering host's own payload, so this answer shows that both directions work. If that is
//! another pair, the host sends a second answer by the way back, with [`CHECK`] in the Probe Data of the answer.
//!
//! A check of the current pair, or of the preferred pair, also holds what the last answer by that pair said of itself,
//! in a second report of a sent probe (decision 164).

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use moorline_types::{DropReason, Instant, LocatorPair};

use super::compare::ANSWER_DUE;
use super::{Machine, SeenAnswer};
use crate::bounded::{Allowance, push};
use crate::event::Event;
use crate::message::{Message, Probe, Report, Transmit};
use crate::monitor::{Check, Flight, PathMonitor, Round, Trial};
use crate::random::Random;
use crate::state::{Act, State, Transition, nothing};

/// Probe Data of a check, which the answer copies (RFC 5534 s5.2): "Moor".
pub const CHECK: u32 = 0x4d6f_6f72;
/// Probe Data of a check of the current pair: "MooR".
pub const CHECK_CURRENT: u32 = 0x4d6f_6f52;

impl Machine {
    /// Sends a check by this pair for the host, which wants to know whether the pair works. [`Event::Replied`] tells
    /// the host of the answer.
    ///
    /// The machine sends no check to a peer that has not shown that it knows checks, and none during an exploration.
    /// Returns false if it sends no check.
    pub fn send_one_check(&mut self, pair: LocatorPair, now: Instant) -> bool {
        let is_known = pair == self.current() || self.is_candidate(pair);
        let may = self.state == State::Operational && self.knows_checks() && is_known;
        if may {
            self.flight().is_asked = true;
            // The answer to [`CHECK`] comes by the pair of the check, whichever pair the peer's payload takes.
            self.send_check_with(CHECK, pair, now);
        }
        may
    }

    /// Whether the peer has answered a check, or sent one.
    #[must_use]
    pub fn knows_checks(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.knows_checks)
    }

    /// The peer has shown an earlier run of this host that it knows checks.
    pub fn handle_known_checks(&mut self) {
        if let Some(monitor) = &mut self.monitor {
            monitor.knows_checks = true;
        }
    }

    /// Answers a check of the peer. The check says nothing about the current pair.
    pub(super) fn answer_check(
        &mut self,
        pair: LocatorPair,
        probe: &Probe,
        now: Instant,
    ) -> Result<(), DropReason> {
        let check = *probe.sent.first().ok_or(DropReason::BadFormat)?;
        if check.src != pair.peer || check.dst != pair.local {
            return Err(DropReason::WrongLocators);
        }
        let current = self.current();
        let allowance = self.allowance(pair, probe, now);
        let monitor = self.monitor_mut();
        if !monitor.answers[allowance as usize].take(now) {
            return Err(DropReason::RateLimited);
        }
        monitor.knows_checks = true;
        self.note_proven(pair);
        self.note_confirmation();
        let monitor = self.monitor_mut();
        let is_shown = allowance == Allowance::Shown;
        if pair == current && check.data == CHECK_CURRENT && (is_shown || !monitor.is_seen_shown) {
            (monitor.seen_nonce, monitor.is_seen_shown) = (NonZeroU32::new(check.nonce), is_shown);
        }
        let back = Some(pair).filter(|&pair| self.is_candidate(pair));
        if check.data == CHECK {
            self.queue_answer(back.unwrap_or(current), check, 0, now);
        } else {
            self.queue_answer(current, check, 0, now);
            if let Some(back) = back.filter(|&back| back != current) {
                self.queue_answer(back, check, CHECK, now);
            }
        }
        Ok(())
    }

    fn queue_answer(&mut self, via: LocatorPair, check: Report, data: u32, now: Instant) {
        let drawn = self.flight().random.nonce();
        let (nonce, data) = if data == 0 {
            let seen = self.recognizable(via, drawn, now);
            (seen.nonce, seen.data.get())
        } else {
            (drawn, data)
        };
        let flight = self.flight();
        let own = Report { src: via.local, dst: via.peer, nonce, data };
        let probe = Probe { state: State::Operational, sent: vec![own], received: vec![check] };
        let transmit = Transmit { pair: via, message: Message::Probe(probe) };
        push(&mut flight.answers, transmit);
    }

    /// The peer's Error says that the peer knows no checks; the Error quotes the check with this nonce (decision 143).
    /// From now on checks are rare, and no trial waits for answers.
    ///
    /// The Error starts the peer's Send Timer (RFC 5534 s6.2), so this host owes keepalives. The Error says nothing
    /// about the pair that payload takes, and stops no timer.
    ///
    /// # Errors
    /// [`BadNonce`](DropReason::BadNonce): no check with this nonce waits for its answer.
    pub fn handle_check_refused(&mut self, nonce: u32, now: Instant) -> Result<(), DropReason> {
        let checks = self.flight_now().into_iter().flat_map(|flight| &flight.checks);
        let refused = checks.copied().find(|check| check.nonce == nonce);
        let refused = refused.ok_or(DropReason::BadNonce)?;
        let is_current = refused.pair == self.current();
        if !is_current && self.has_current_answered() {
            // An attacker on the path of another pair can forge the Error. The same attacker can drop the check, and
            // the Error has no more effect than that.
            return Ok(());
        }
        self.on_trial_refused(now);
        let is_standby = self.standby() == Some(refused.pair);
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        // Checks by other pairs wait for their own answers: each shows that the peer knows checks.
        if let Some(flight) = &mut monitor.flight {
            flight.refuse(refused.pair);
            flight.asked = flight.asked.filter(|_| !is_current);
        }
        if is_current {
            monitor.current_rtt = Default::default();
        } else if is_standby {
            monitor.standby_rtt = Default::default();
        }
        let is_round = monitor.round == Round::Checking;
        (monitor.knows_checks, monitor.failed) = (false, monitor.failed.max(u8::from(!is_round)));
        if is_round && is_standby {
            self.on_standby_failed(now);
        }
        if self.state == State::Operational {
            let owed = Transition { keepalive_timer: Act::Start, ..nothing(self.state) };
            self.run_timers(owed, now);
        }
        self.tidy_monitor(now);
        self.refresh_watch();
        Ok(())
    }

    /// Finds the newest of our checks that `probe` reports. An answer by the way back does not remove the check,
    /// because another answer may follow.
    pub(super) fn confirm_check(&mut self, probe: &Probe, now: Instant) -> Option<Check> {
        let flight = self.flight_mut()?;
        if is_way_back(probe) {
            let report = probe.received.first()?;
            return flight.find(LocatorPair::new(report.src, report.dst), report, now);
        }
        let confirmed = probe.received.iter().filter(|report| is_of_check(report.data));
        let confirmed = confirmed.filter_map(|report| {
            let pair = LocatorPair::new(report.src, report.dst);
            flight.confirm(pair, report, now)
        });
        let confirmed: Vec<_> = confirmed.collect();
        confirmed.into_iter().max_by_key(|check| check.at)
    }

    /// The peer has reported a check in `probe`, and this host is in Operational.
    ///
    /// A report in a probe of an exploration proves the pair only: that probe left when a timer of the peer ran out,
    /// and peers that know no checks send such reports, too.
    pub(super) fn on_check_answered(&mut self, check: Check, probe: &Probe, now: Instant) {
        if is_way_back(probe) {
            return self.on_way_back(check);
        }
        let rtt = now.since(check.at);
        self.refute_broken_by(check);
        let is_answer = is_answer(probe);
        if is_answer && self.flight_now().is_some_and(|flight| flight.is_asked) {
            self.flight().tell(Event::Replied { pair: check.pair, at: check.at });
        }
        self.on_path_answered(check);
        if is_answer {
            self.on_compared(check, rtt);
        }
        let current = self.current();
        let interval = self.round_interval();
        let Some(monitor) = &mut self.monitor else { return };
        monitor.knows_checks |= is_answer;
        // A peer without this pair answers by another one. What only that pair has carried must not go out by this one.
        let is_by = |own: &&Report| LocatorPair::new(own.dst, own.src) == check.pair;
        let own = probe.sent.first().filter(|_| is_answer).filter(is_by);
        let seen = own.map(SeenAnswer::of);
        if check.pair == current {
            if let Some(seen) = seen {
                monitor.current_answer = seen;
            }
            if is_answer {
                if check.data == CHECK_CURRENT {
                    monitor.answered_nonce =
                        NonZeroU32::new(check.nonce).filter(|_| seen.is_some());
                }
                monitor.current_rtt.observe(rtt, now);
                monitor.is_asked_in_vain = false;
                if monitor.is_round_open && monitor.round == Round::Resting {
                    monitor.rest(now + interval);
                }
                monitor.is_round_open = false;
                self.note_floor(rtt, now);
            }
            if check.data == CHECK_CURRENT {
                self.heard = now;
                // A check that left before the trial began says nothing about the failure that the trial examines.
                let is_new = |trial: &mut Trial| check.at >= trial.asked_since();
                if self.trial_mut().is_none_or(is_new) {
                    self.on_current_answered(now);
                }
            }
        }
        if is_answer && self.better_standby() == Some(check.pair) {
            self.keep_standby(Some(check.pair));
            self.monitor_mut().standby_rtt = Default::default();
        }
        let is_standby = self.standby() == Some(check.pair);
        let is_home = self.home_to_check() == Some(check.pair);
        let Some(monitor) = &mut self.monitor else { return };
        if let Some(seen) = seen {
            if is_standby {
                monitor.standby_answer = seen;
            }
            if is_home {
                monitor.past_mut(current).home_answer = seen;
            }
        }
        if is_standby {
            if is_answer {
                monitor.standby_rtt.observe(rtt, now);
            }
            monitor.verified = Some(check.at);
            monitor.failed = 0;
            if monitor.round == Round::Checking {
                // When this rest ends, the current pair has answered or its check is lost.
                let is_open = monitor.is_round_open;
                let due = monitor.current_rtt.due().unwrap_or_default().max(ANSWER_DUE);
                monitor.rest(now + if is_open { interval.min(due) } else { interval });
                monitor.is_round_open = is_open;
            }
            // A report in a probe of an exploration may be late, so it gives no round-trip time.
            let event = if is_answer {
                Event::Checked { pair: check.pair, at: check.at, rtt }
            } else {
                Event::Answered { pair: check.pair, rtt: None }
            };
            self.flight().tell(event);
        } else if is_answer && check.pair == current {
            self.flight().tell(Event::Answered { pair: check.pair, rtt: Some(rtt) });
        }
        self.on_other_answered(check, now);
        self.on_home_answered(check, now);
        if is_answer {
            self.consider_going_back(check.pair, now);
        }
        self.leave_deprecated(now);
        self.tidy_monitor(now);
    }

    pub(super) fn send_check(&mut self, pair: LocatorPair, now: Instant) {
        let data = if pair == self.current() { CHECK_CURRENT } else { CHECK };
        self.send_check_with(data, pair, now);
    }

    /// Checks a pair, unless a check has left by it at this time: one serves a round and a keepalive that begins it.
    pub(super) fn send_check_once(&mut self, pair: LocatorPair, now: Instant) {
        let is_sent = |check: &Check| check.pair == pair && check.at == now;
        if !self.flight().checks.iter().any(is_sent) {
            self.send_check(pair, now);
        }
    }

    fn send_check_with(&mut self, data: u32, pair: LocatorPair, now: Instant) {
        let shown = self.shown_answer(pair);
        let flight = self.flight();
        let nonce = flight.note_check(pair, data, now);
        let own = Report { src: pair.local, dst: pair.peer, nonce, data };
        let sent = [own].into_iter().chain(shown).collect();
        let probe = Probe { state: State::Operational, sent, received: Vec::new() };
        push(&mut flight.transmits, Transmit { pair, message: Message::Probe(probe) });
    }

    /// Takes the next answer to a check of the peer.
    pub(super) fn pop_answer(&mut self) -> Option<Transmit> {
        self.flight_mut()?.answers.pop_front()
    }

    /// Takes the next check, if the state is still Operational.
    pub(super) fn pop_check(&mut self) -> Option<Transmit> {
        let is_operational = self.state == State::Operational;
        let flight = self.flight_mut()?;
        if !is_operational {
            //= rfc5534#6.1
            // The Sta field "MUST be set to a value that matches the conceptual state of the sender".
            flight.transmits.clear();
        }
        flight.transmits.pop_front()
    }

    pub(super) fn has_check_queued(&self) -> bool {
        let has_check = |flight: &Flight| !flight.transmits.is_empty();
        self.state == State::Operational && self.flight_now().is_some_and(has_check)
    }

    pub(super) fn pop_event(&mut self) -> Option<Event> {
        self.flight_mut()?.events.pop_front()
    }

    pub(super) fn has_answer(&self) -> bool {
        self.flight_now().is_some_and(|flight| !flight.answers.is_empty())
    }

    /// The checks under way, if there are any.
    pub(super) fn flight_now(&self) -> Option<&Flight> {
        self.monitor.as_ref()?.flight.as_deref()
    }

    pub(super) fn monitor_mut(&mut self) -> &mut PathMonitor {
        self.monitor.get_or_insert_with(|| alloc::boxed::Box::new(PathMonitor::new()))
    }

    /// The checks under way, if there are any, for changes.
    pub(super) fn flight_mut(&mut self) -> Option<&mut Flight> {
        self.monitor.as_mut()?.flight.as_deref_mut()
    }

    /// The checks under way, for changes; begins an empty set if there is none.
    pub(super) fn flight(&mut self) -> &mut Flight {
        let (seed, stream) = (self.seed.expanded(), self.explorations.wrapping_add(1));
        let monitor =
            self.monitor.get_or_insert_with(|| alloc::boxed::Box::new(PathMonitor::new()));
        if monitor.flight.is_none() {
            self.explorations = stream;
        }
        monitor.flight.get_or_insert_with(|| {
            alloc::boxed::Box::new(Flight::new(Random::new(seed, u64::from(stream))))
        })
    }

    pub(super) fn tidy_monitor(&mut self, now: Instant) {
        let current = self.current();
        if let Some(monitor) = &mut self.monitor {
            monitor.tidy(current, now);
        }
    }
}

/// Whether this answer to a check of our current pair came by the way back, because the peer's payload takes another
/// pair.
pub(super) fn is_way_back(probe: &Probe) -> bool {
    !probe.received.is_empty() && probe.sent.first().is_some_and(|report| report.data == CHECK)
}

/// Whether this probe has the form of an answer to a check. A peer that follows RFC 5534 alone also reports probes of
/// an exploration, if it reports a check at all.
pub(super) fn is_answer(probe: &Probe) -> bool {
    probe.state == State::Operational && probe.received.len() == 1
}

pub(crate) fn is_of_check(data: u32) -> bool {
    data == CHECK || data == CHECK_CURRENT
}
