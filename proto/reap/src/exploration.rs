//! State that a machine keeps only while it explores and shortly after.

use alloc::collections::VecDeque;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::bounded::{ALLOWANCES, Answers, push};
use crate::config::{Config, INITIAL_PROBES, MAX_PROBE_TIMEOUT, RECEIVED_REPORTS, SENT_REPORTS};
use crate::event::{Cause, Event};
use crate::message::{Message, Probe, Report, Transmit};
use crate::order::{Order, Sets};
use crate::random::Random;
use crate::records::Records;
use crate::state::State;
use crate::timers::Deadlines;

/// State of an exploration. The machine keeps it in a box, so that a context without failures pays for one pointer.
#[derive(Clone, Debug)]
pub(crate) struct Exploration {
    pub(crate) random: Random,
    pub(crate) records: Records,
    pub(crate) deadlines: Deadlines,
    order: Order,
    /// The preferred pair, and the standby path that had answered lately when the exploration began.
    pub(crate) worked: [Option<LocatorPair>; 2],
    /// Whether the next probe for payload goes by a pair that may not have worked yet.
    is_turn_of_others: bool,
    /// The pair that payload left after a silence, while the pair that payload takes now has not answered.
    pub(crate) left: Option<LocatorPair>,
    /// When the exploration began.
    pub(crate) began: Instant,
    /// The pair that payload takes if the ULIDs do not answer.
    pub(crate) rival: Option<Rival>,
    /// The wait for an answer by the pair that payload has moved to.
    pub(crate) awaited: Option<Awaited>,
    /// Probes sent without a request since the pace was last set to fast.
    paced: u32,
    /// Probes that were [`Questions`], and say nothing of other pairs.
    pub(crate) questions: u32,
    /// Whether the last probe for payload took the standby path.
    was_quick: bool,
    /// All probes sent in this exploration.
    probes: u32,
    /// When a change on the peer's side last set the pace to fast.
    hastened: Option<Instant>,
    /// When the last probe without a request left.
    last_probe: Instant,
    is_unreachable: bool,
    /// Whether the peer has been heard, but by no probe, since the last transition to Exploring.
    pub(crate) is_heard: bool,
    /// Whether this host itself has found the current pair silent or gone. Otherwise the peer alone explores.
    pub(crate) is_own: bool,
    /// The report that shows the peer that a Probe Exploring is ours: a check of the peer that came by the pair left.
    pub(crate) voucher: Option<Report>,
    /// Counts of answered probes, by [`Allowance`](crate::bounded::Allowance).
    pub(crate) answers: [Answers; ALLOWANCES],
    /// Counts of answered probes that were the first ones to report a probe of this host: the peer alone can send them.
    pub(crate) answers_to_reports: Answers,
    /// Keepalives since the last probe of the peer, or since the exploration began.
    pub(crate) keepalives: u32,
    /// Repetitions left of the Probe Operational that ended the exploration.
    pub(crate) repetitions: u8,
    /// Probes beyond the backoff since the peer's last probe.
    pub(crate) paid: u8,
    /// Watched payload counts only from this time on.
    pub(crate) watch_since: Instant,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
}

/// A pair that has answered, while this host asks whether the ULIDs answer as well (decision 208).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival {
    pub(crate) pair: LocatorPair,
    /// Cause of the move to this pair.
    pub(crate) cause: Cause,
    /// Whether the exploration ends with the move.
    pub(crate) is_end: bool,
    /// Time from a question to the next one, or to the end.
    pub(crate) gap: Duration,
    /// Number of questions sent by the ULIDs.
    pub(crate) asked: u32,
}

/// Payload takes a pair that is still to answer (decisions 208 and 221).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// End of the wait if the peer says that it does not hear this host.
    pub(crate) least: Instant,
    /// End of the wait.
    pub(crate) until: Instant,
    /// `None`: the walk alone asks the pair.
    pub(crate) questions: Option<Questions>,
    /// From this time on a Probe Exploring says that the peer does not hear this host by the pair.
    pub(crate) told_from: Instant,
}

/// Questions by one pair beside the walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Questions {
    /// Time from a question to the next one.
    pub(crate) gap: Duration,
    /// Number of questions left at this pace.
    pub(crate) left: u32,
}

impl Exploration {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            records: Records::default(),
            deadlines: Deadlines::default(),
            order: Order::default(),
            worked: [None; 2],
            is_turn_of_others: false,
            left: None,
            began: Instant::ZERO,
            rival: None,
            awaited: None,
            paced: 0,
            probes: 0,
            questions: 0,
            was_quick: false,
            hastened: None,
            last_probe: Instant::ZERO,
            is_unreachable: false,
            is_heard: false,
            is_own: false,
            voucher: None,
            answers: Default::default(),
            answers_to_reports: Answers::default(),
            keepalives: 0,
            repetitions: 0,
            paid: 0,
            watch_since: Instant::ZERO,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Begins an exploration: earlier results do not count.
    pub(crate) fn begin(
        &mut self,
        sets: Sets<'_>,
        failed: LocatorPair,
        hint: Option<LocatorPair>,
        now: Instant,
    ) {
        (self.keepalives, self.paid) = (0, 0);
        (self.began, self.left, self.awaited) = (now, None, None);
        self.is_own = false;
        self.order = Order::new(sets, failed, &mut self.random);
        if let Some(hint) = hint.filter(|hint| *hint != failed) {
            self.order.prefer(sets, |pair| pair == hint);
        }
        self.paced = 0;
        (self.probes, self.questions, self.was_quick) = (0, 0, false);
        self.hastened = None;
        self.is_unreachable = false;
    }

    /// Builds the order again, with the pairs first for which `is_new` holds.
    pub(crate) fn reorder(
        &mut self,
        sets: Sets<'_>,
        failed: LocatorPair,
        is_new: impl Fn(LocatorPair) -> bool,
    ) {
        self.order = Order::new(sets, failed, &mut self.random);
        self.order.prefer(sets, is_new);
    }

    /// Sets the pace to fast, at most once per Max Probe Timeout: a path that comes and goes must not defeat the
    /// backoff.
    pub(crate) fn hasten(&mut self, now: Instant) {
        if self.hastened.is_none_or(|at| now.since(at) >= MAX_PROBE_TIMEOUT) {
            self.hastened = Some(now);
            self.paced = 0;
        }
    }

    /// Sets the pace to fast. The next probe leaves as soon as this pace allows.
    pub(crate) fn probe_soon(&mut self, config: &Config, now: Instant) {
        self.paced = 0;
        let at = self.last_probe + config.probe_timeout(1);
        self.deadlines.retransmission = Some(at.max(now));
    }

    /// The pair to probe next, in order. Pairs that were probed a moment ago are passed over.
    //= rfc5534#4.3-1 rfc5534#4.3-2
    pub(crate) fn next_pair(
        &mut self,
        config: &Config,
        sets: Sets<'_>,
        now: Instant,
    ) -> Option<LocatorPair> {
        let mut next = None;
        for _ in 0..self.order.len() {
            let pair = self.order.advance(sets)?;
            let last = self.records.last_sent_by(pair);
            if last.is_none_or(|at| now.since(at) >= config.probe_timeout(1)) {
                return Some(pair);
            }
            next = next.or(Some(pair));
        }
        next
    }

    /// Payload has left although the peer is silent. Sends a probe for it, unless the last probe left a moment ago
    /// (decision 180): in turn by a pair that has worked, and by another pair with the peer locator of such a pair.
    pub(crate) fn probe_for_payload(&mut self, sets: Sets<'_>, current: LocatorPair, now: Instant) {
        let is_soon = now.since(self.last_probe) < PROBE_FOR_PAYLOAD;
        // Without a standby path the peer may know RFC 5534 alone, and begin its own wait anew with each answer.
        let is_walk_over = self.is_in_vain() || self.worked[1].is_some() && !self.is_initial();
        let is_early = !is_walk_over && self.left.is_none();
        if is_early || is_soon || !self.transmits.is_empty() {
            return;
        }
        let [home, standby] = self.worked;
        let worked = [home, Some(current), standby, self.left].into_iter().flatten();
        let (order, records) = (&mut self.order, &self.records);
        let left = self.left;
        let is_due = |pair: &LocatorPair| {
            let round = if left == Some(*pair) { PROBE_FOR_PAYLOAD } else { ROUND_FOR_PAYLOAD };
            records.last_sent_by(*pair).is_none_or(|at| now.since(at) >= round)
        };
        let due = worked.clone().filter(|pair| is_due(pair) && order.contains(sets, *pair));
        let best = due.min_by_key(|pair| records.last_sent_by(*pair));
        let is_meant = |pair: LocatorPair| {
            let has_worked = worked.clone().any(|worked| worked == pair);
            is_due(&pair) && !has_worked && worked.clone().any(|worked| worked.peer == pair.peer)
        };
        let is_quick_due = |pair: &LocatorPair| {
            let last = records.last_sent_by(*pair);
            let is_due = last.is_none_or(|at| now.since(at) >= QUICK_ROUND_FOR_PAYLOAD);
            *pair != current && is_due && order.contains(sets, *pair)
        };
        let quick = standby.filter(|pair| !self.was_quick && is_quick_due(pair));
        let pair = match quick.or_else(|| best.filter(|_| !self.is_turn_of_others)) {
            Some(best) => Some(best),
            None => order.advance_within(sets, is_meant).or(best),
        };
        if let Some(pair) = pair {
            self.was_quick = quick.is_some();
            self.is_turn_of_others ^= !self.was_quick;
            self.last_probe = now;
            self.send_probe(State::Exploring, pair, now);
        }
    }

    /// Sends a probe and keeps its nonce.
    pub(crate) fn send_probe(&mut self, state: State, pair: LocatorPair, now: Instant) {
        let transmit = self.make_probe(state, pair, now);
        push(&mut self.transmits, transmit);
    }

    /// Makes a probe for sending now and keeps its nonce.
    //= rfc5534#6.1-1 rfc5534#5.2-9
    pub(crate) fn make_probe(&mut self, state: State, pair: LocatorPair, now: Instant) -> Transmit {
        let mut nonce = self.random.nonce();
        while !self.records.is_nonce_free(nonce) {
            nonce = self.random.nonce();
        }
        self.records.note_sent(pair, nonce, state, now);
        self.probes = self.probes.saturating_add(1);
        //= rfc5534#5.2-5 rfc5534#5.2-6
        let mut received = self.records.received_reports(RECEIVED_REPORTS, pair);
        // RFC 5534 s5.2: "A sender MAY include additional sets of these received Probe fields in any state".
        received.extend(self.voucher.filter(|_| state == State::Exploring));
        let probe = Probe { state, sent: self.records.sent_reports(SENT_REPORTS), received };
        Transmit { pair, message: Message::Probe(probe) }
    }

    /// Arms the retransmission after a probe without a request. If there was no pair to probe, the timer is armed as
    /// well, so that the first pair that appears need not wait. `is_paid`: a probe of the peer has paid for this one, which
    /// keeps the initial pace, and the backoff waits (decision 214).
    //= rfc5534#4.3-2
    pub(crate) fn pace(&mut self, config: &Config, has_pair: bool, is_paid: bool, now: Instant) {
        if has_pair {
            self.last_probe = now;
        }
        let paced = self.paced.saturating_add(1);
        if is_paid && paced >= INITIAL_PROBES {
            self.paced = self.paced.max(INITIAL_PROBES);
            self.paid = self.paid.saturating_add(1);
            self.deadlines.retransmission = Some(now + config.probe_timeout(1));
            return;
        }
        self.paced = paced;
        let timeout = config.probe_timeout(self.paced);
        let is_initial = self.is_initial();
        let wait = if is_initial { timeout } else { self.random.jitter(timeout) };
        self.deadlines.retransmission = Some(now + wait);
        if timeout >= MAX_PROBE_TIMEOUT && !is_initial && !self.is_unreachable {
            self.is_unreachable = true;
            self.tell(Event::Unreachable { probes: self.probes });
        }
    }

    /// Whether the initial probes are still leaving.
    pub(crate) const fn is_initial(&self) -> bool {
        self.paced < INITIAL_PROBES
    }

    /// Whether so many probes have left that a path that works would have answered.
    pub(crate) const fn is_in_vain(&self) -> bool {
        self.probes.saturating_sub(self.questions) > IN_VAIN
    }

    /// Makes the next probe leave by this pair.
    pub(crate) fn prefer(&mut self, sets: Sets<'_>, pair: LocatorPair) {
        self.order.prefer(sets, |candidate| candidate == pair);
    }

    pub(crate) fn tell(&mut self, event: Event) {
        push(&mut self.events, event);
    }

    /// Whether a probe waits. Drops waiting probes whose state is no longer true.
    pub(crate) fn has_probe(&mut self, state: State) -> bool {
        //= rfc5534#6.1
        // The Sta field "MUST be set to a value that matches the conceptual state of the sender".
        self.transmits.retain(|t| !matches!(&t.message, Message::Probe(p) if p.state != state));
        !self.transmits.is_empty()
    }

    /// Takes the next probe that a message of the peer has drawn: those behind the one with the nonce `waiting`.
    pub(crate) fn pop_drawn(&mut self, waiting: Option<u32>, state: State) -> Option<Transmit> {
        self.has_probe(state);
        let waits = |one: &Transmit| waiting.is_some() && one.nonce() == waiting;
        let first = self.transmits.iter().position(waits).map_or(0, |last| last + 1);
        self.transmits.remove(first)
    }

    /// A probe leaves late. The next one leaves the initial interval later at the earliest.
    pub(crate) fn keep_interval(&mut self, config: &Config, now: Instant) {
        self.last_probe = now;
        let least = now + config.probe_timeout(1);
        let next = &mut self.deadlines.retransmission;
        *next = next.map(|at| at.max(least));
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.transmits.is_empty() && self.events.is_empty()
    }
}

/// Probes of an exploration after which an answer is unlikely: 6. With the intervals of RFC 5534 s7 they take 5 s.
const IN_VAIN: u32 = 6;
/// Time from a probe to a probe for payload: 1 s.
pub(crate) const PROBE_FOR_PAYLOAD: Duration = Duration::from_secs(1);
/// Time between two probes for payload by the standby path that had answered: 2 s.
const QUICK_ROUND_FOR_PAYLOAD: Duration = Duration::from_secs(2);
/// Time between two probes by another pair for payload: 4 s.
const ROUND_FOR_PAYLOAD: Duration = Duration::from_secs(4);
