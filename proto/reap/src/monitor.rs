//! State of the path monitor, beyond RFC 5534: the standby path, checks under way, a trial of the current pair.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::bounded::{ALLOWANCES, Answers, push};
use crate::comparison::Comparison;
use crate::event::{Event, FailureHint};
use crate::follow::Follow;
use crate::machine::SeenAnswer;
use crate::message::{Report, Transmit};
use crate::random::Random;
use crate::timers::Timer;

/// State of the path monitor. The machine keeps it in a box, and only for contexts with more than one pair.
#[derive(Clone, Debug)]
pub(crate) struct PathMonitor {
    /// The standby path, or the pair that is being checked to become it: places in the machine's two sets.
    pub(crate) standby: Option<[u8; 2]>,
    /// When the last answered check by the standby path left.
    pub(crate) verified: Option<Instant>,
    pub(crate) standby_rtt: Rtt,
    pub(crate) current_rtt: Rtt,
    /// The least round-trip time of the current pair since it became current, in milliseconds plus one. Zero: unknown.
    floor: u16,
    pub(crate) round: Round,
    /// When the rest ends, or the answers to the checks are due.
    pub(crate) due: Instant,
    /// Checks sent in this round.
    pub(crate) tries: u8,
    /// Number of pairs in a row that have not answered.
    pub(crate) failed: u8,
    /// Whether the peer knows checks: it has answered one or sent one.
    pub(crate) knows_checks: bool,
    /// Whether a keepalive has led to a trial and the current pair has answered no check since.
    pub(crate) is_asked_in_vain: bool,
    /// Whether the context was new when the checks began.
    pub(crate) is_new: bool,
    /// Whether the check of the current pair in this round is unanswered.
    pub(crate) is_round_open: bool,
    /// Nonce of the last check of the current pair that the peer has answered by that pair.
    pub(crate) answered_nonce: Option<NonZeroU32>,
    /// Nonce of the last check that the peer has sent by the current pair.
    pub(crate) seen_nonce: Option<NonZeroU32>,
    /// Whether the sender of that check has shown that it sees this host's answers.
    pub(crate) is_seen_shown: bool,
    /// The last answer that came by the current pair, and the last one by the standby path.
    pub(crate) current_answer: Option<SeenAnswer>,
    pub(crate) standby_answer: Option<SeenAnswer>,
    /// Counts of answered checks, by [`Allowance`].
    pub(crate) answers: [Answers; ALLOWANCES],
    /// `None`: the state is as [`Past::new`] makes it for the current pair.
    past: Option<Box<Past>>,
    pub(crate) flight: Option<Box<Flight>>,
}

/// State of contexts that have moved, prefer another pair, or have had a suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    /// The preferred pair, to which traffic goes back when the pair works. `None`: no pair is better than the others.
    pub(crate) home: Option<LocatorPair>,
    /// Time since which the preferred pair has answered each check.
    pub(crate) home_since: Option<Instant>,
    /// Whether the last check of the preferred pair is unanswered.
    pub(crate) is_home_asked: bool,
    /// The last answer that came by the preferred pair while another pair was current.
    pub(crate) home_answer: Option<SeenAnswer>,
    /// Number of comparisons in a row, before a return, that have shown nothing.
    pub(crate) interrupted: u8,
    /// When traffic last went back, and how often that was a mistake.
    pub(crate) went_home: Instant,
    pub(crate) mistakes: u8,
    /// The machine acts on no suspicion before this time.
    pub(crate) quiet_until: Instant,
    /// Number of doublings of the quiet time.
    pub(crate) doublings: u8,
    /// Pairs that payload left as much worse than others, at most [`MAX_WORSE`]. Traffic goes back to them only after a
    /// comparison.
    pub(crate) worse: Vec<LocatorPair>,
    /// No comparison that may end in a move away from the current pair begins before this time.
    pub(crate) compare_after: Instant,
    /// When the moves away from worse pairs so far will be paid for ([`Past::may_leave`]).
    leaves_paid_at: Instant,
}

/// Stage of the checks of the standby path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// There is no other pair.
    Off,
    /// The next round is not due yet.
    Resting,
    /// The next round begins as soon as traffic flows.
    Awaiting,
    /// The machine asks the host what other contexts know about the standby path.
    Asking,
    /// Checks are under way.
    Checking,
}

/// A probe outside of explorations, to find out whether a pair works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub(crate) pair: LocatorPair,
    pub(crate) nonce: u32,
    /// Kind of the check: its Probe Data.
    pub(crate) data: u32,
    pub(crate) at: Instant,
}

/// A report of the data plane about the current pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    pub(crate) hint: FailureHint,
    /// Time since which nothing has come in.
    pub(crate) since: Instant,
    /// How long answers have taken lately. Zero: unknown.
    pub(crate) usual: Duration,
}

/// A trial finds out whether the current pair works: checks of the current pair and of other pairs in parallel.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) suspicion: Suspicion,
    pub(crate) started: Instant,
    /// End of the Send Timeout, if it is near. At that time exploration begins, whatever other pairs answer.
    pub(crate) expires: Option<Instant>,
    /// The other pairs in the trial.
    pub(crate) others: Vec<LocatorPair>,
    /// The first of the other pairs that answered.
    pub(crate) answered: Option<LocatorPair>,
    /// Whether the current pair has answered by the way back, which is not the pair of the peer's payload.
    pub(crate) is_peer_astray: bool,
    /// Number of rounds of checks sent.
    pub(crate) sent: u32,
    /// When the next round of checks is due.
    pub(crate) next: Option<Instant>,
    pub(crate) gap: Duration,
    /// When the answer of the current pair is due.
    pub(crate) due: Instant,
    /// When the answers of the other pairs are due.
    pub(crate) end: Instant,
}

/// A question by the current pair: checks after a keepalive came in, or a request of Shim6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When the answer is due.
    pub(crate) due: Instant,
    pub(crate) by: Question,
}

/// The question of [`Asked`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// Number of checks sent.
    Checks(u8),
    Request,
}

/// State while checks are under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) random: Random,
    pub(crate) checks: Vec<Check>,
    pub(crate) trial: Option<Trial>,
    /// A suspicion that came within the quiet time after a trial.
    pub(crate) deferred: Option<Suspicion>,
    pub(crate) asked: Option<Asked>,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) follow: Option<Follow>,
    /// Whether the host has sent a check of its own ([`Machine::send_one_check`](crate::Machine::send_one_check)). If
    /// so, the machine tells the host of answers.
    pub(crate) is_asked: bool,
    pub(crate) answers: VecDeque<Transmit>,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
}

impl Trial {
    /// Makes a trial that begins and ends at `now`. The caller sets the times for the answers.
    pub(crate) const fn new(suspicion: Suspicion, others: Vec<LocatorPair>, now: Instant) -> Self {
        Self {
            suspicion,
            started: now,
            expires: None,
            others,
            answered: None,
            is_peer_astray: false,
            sent: 0,
            next: Some(now),
            gap: Duration::ZERO,
            due: now,
            end: now,
        }
    }

    /// Whether the trial need not wait beyond the answer of the current pair.
    pub(crate) fn knows_better(&self) -> bool {
        self.answered.is_some() || self.is_peer_astray
    }

    /// Sends no more checks. The trial ends with the Send Timeout.
    pub(crate) fn give_up_checks(&mut self) {
        self.next = None;
        self.due = self.expires.unwrap_or(self.due);
        self.end = self.due;
    }
}

impl PathMonitor {
    pub(crate) fn new() -> Self {
        Self {
            standby: None,
            verified: None,
            standby_rtt: Rtt::default(),
            current_rtt: Rtt::default(),
            floor: 0,
            round: Round::Off,
            due: Instant::ZERO,
            tries: 0,
            failed: 0,
            knows_checks: false,
            is_asked_in_vain: false,
            is_new: false,
            is_round_open: false,
            answered_nonce: None,
            seen_nonce: None,
            is_seen_shown: false,
            current_answer: None,
            standby_answer: None,
            answers: Default::default(),
            past: None,
            flight: None,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<(Instant, Timer)> {
        let round = match self.round {
            Round::Resting | Round::Checking => Some((self.due, Timer::Standby)),
            Round::Off | Round::Awaiting | Round::Asking => None,
        };
        let trial = self.trial().map(|trial| {
            let due = if trial.knows_better() { trial.due } else { trial.end };
            (trial.next.unwrap_or(due).min(due), Timer::Trial)
        });
        let deferred = self.deferred().map(|_| (self.quiet_until(), Timer::Trial));
        let asked = self.flight.as_ref().and_then(|flight| flight.asked);
        let answer = asked.map(|asked| (asked.due, Timer::Answer));
        let comparison = self.comparison().map(|comparison| (comparison.next, Timer::Comparison));
        let follow = self.flight.as_ref().and_then(|flight| flight.follow);
        let follow = follow.map(|follow| (follow.next, Timer::Follow));
        [round, trial.or(deferred), answer, comparison, follow]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }

    pub(crate) fn trial(&self) -> Option<&Trial> {
        self.flight.as_ref()?.trial.as_ref()
    }

    pub(crate) fn deferred(&self) -> Option<Suspicion> {
        self.flight.as_ref()?.deferred
    }

    /// Whether the peer seems to know no checks: it has answered none and sent none, and checks were in vain or the
    /// peer refused them (decisions 121, 143).
    pub(crate) fn is_mute(&self) -> bool {
        self.failed > 0 && !self.knows_checks
    }

    pub(crate) fn floor(&self) -> Option<Duration> {
        self.floor.checked_sub(1).map(|floor| Duration::from_millis(floor.into()))
    }

    /// The current pair has answered a check after `rtt`.
    pub(crate) fn note_floor(&mut self, rtt: Duration) {
        let rtt = u16::try_from(rtt.as_millis() + 1).unwrap_or(u16::MAX);
        self.floor = if self.floor == 0 { rtt } else { self.floor.min(rtt) };
    }

    /// Another pair has become current: forgets what is known about the previous one.
    pub(crate) fn forget_floor(&mut self) {
        (self.floor, self.is_round_open) = (0, false);
        (self.answered_nonce, self.seen_nonce, self.is_seen_shown) = (None, None, false);
    }

    /// Whether the peer's payload has taken the current pair since payload of this host takes the pair: the peer has
    /// answered a check by its own current pair there, or has sent a check of its current pair.
    pub(crate) fn was_peer_here(&self) -> bool {
        self.answered_nonce.is_some() || self.is_seen_shown
    }

    pub(crate) fn comparison(&self) -> Option<&Comparison> {
        self.flight.as_ref()?.comparison.as_ref()
    }

    pub(crate) fn rest(&mut self, until: Instant) {
        (self.round, self.due, self.is_round_open) = (Round::Resting, until, false);
    }

    /// Ends the rest: the next traffic begins a round.
    pub(crate) fn end_rest(&mut self) {
        if self.round == Round::Resting {
            self.round = Round::Awaiting;
        }
    }

    pub(crate) fn past(&self) -> Option<&Past> {
        self.past.as_deref()
    }

    pub(crate) fn past_mut(&mut self, current: LocatorPair) -> &mut Past {
        self.past.get_or_insert_with(|| Box::new(Past::new(current)))
    }

    /// The machine acts on no suspicion before this time.
    pub(crate) fn quiet_until(&self) -> Instant {
        self.past().map_or(Instant::ZERO, |past| past.quiet_until)
    }

    /// Drops what is over: checks too old for an answer, a quiet time that has ended, and empty boxes.
    pub(crate) fn tidy(&mut self, current: LocatorPair, now: Instant) {
        if let Some(past) = &mut self.past {
            past.forgive(now);
            if **past == Past::new(current) {
                self.past = None;
            }
        }
        let Some(flight) = &mut self.flight else { return };
        flight.checks.retain(|check| now.since(check.at) <= CHECK_LIFETIME);
        if flight.is_over() {
            self.flight = None;
        }
    }
}

impl Past {
    fn new(home: LocatorPair) -> Self {
        Self {
            home: Some(home),
            home_since: None,
            is_home_asked: false,
            home_answer: None,
            interrupted: 0,
            went_home: Instant::ZERO,
            mistakes: 0,
            quiet_until: Instant::ZERO,
            doublings: 0,
            worse: Vec::new(),
            compare_after: Instant::ZERO,
            leaves_paid_at: Instant::ZERO,
        }
    }

    /// Records that payload left this pair as much worse than another one. The words of both hosts about the same move
    /// count once.
    pub(crate) fn note_left(&mut self, pair: LocatorPair, now: Instant) {
        if self.note_worse(pair) {
            let paid_at = self.leaves_paid_at.max(now) + BETWEEN_LEAVES;
            // A peer that moves more often than its share puts off the moves of this host no further.
            self.leaves_paid_at = paid_at.min(now + BETWEEN_LEAVES * LEAVES_AT_ONCE);
        }
    }

    /// Records that this pair is worse than the current one. If the list is full, the oldest entry goes. Returns false
    /// if the list has the pair already.
    fn note_worse(&mut self, pair: LocatorPair) -> bool {
        let is_new = !self.worse.contains(&pair);
        if is_new {
            if self.worse.len() >= MAX_WORSE {
                self.worse.remove(0);
            }
            self.worse.push(pair);
        }
        is_new
    }

    /// Whether payload may leave another pair as worse: [`LEAVES_AT_ONCE`] times in short succession, and then once in
    /// [`BETWEEN_LEAVES`]. So payload does this 7 times in an hour at most, whatever the paths do.
    pub(crate) fn may_leave(&self, now: Instant) -> bool {
        self.leaves_paid_at <= now + BETWEEN_LEAVES * (LEAVES_AT_ONCE - 1)
    }

    /// A comparison begins that may end in a move away from the current pair.
    pub(crate) fn note_comparison(&mut self, now: Instant) {
        self.compare_after = now + BETWEEN_COMPARISONS;
    }

    /// A comparison has shown that the preferred pair is worse than the current one: payload waits longer for it.
    pub(crate) fn keep_away_from(&mut self, home: LocatorPair) {
        self.note_worse(home);
        (self.home_since, self.interrupted) = (None, 0);
        self.mistakes = self.mistakes.max((self.mistakes + 1).min(MAX_MISTAKES_BY_COMPARISON));
    }

    /// Makes the quiet time short again after a while without a trial, and clears times that are over.
    pub(crate) fn forgive(&mut self, now: Instant) {
        if now.since(self.quiet_until) >= FORGIVE {
            (self.quiet_until, self.doublings) = (Instant::ZERO, 0);
        }
        for time in [&mut self.compare_after, &mut self.leaves_paid_at] {
            if *time <= now {
                *time = Instant::ZERO;
            }
        }
    }
}

impl Flight {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            random,
            checks: Vec::new(),
            trial: None,
            deferred: None,
            asked: None,
            comparison: None,
            follow: None,
            is_asked: false,
            answers: VecDeque::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Makes a nonce for a check by this pair, and keeps the check until it is answered.
    pub(crate) fn note_check(&mut self, pair: LocatorPair, data: u32, now: Instant) -> u32 {
        let nonce = self.random.nonce();
        if self.checks.len() >= MAX_CHECKS {
            self.checks.remove(0);
        }
        self.checks.push(Check { pair, nonce, data, at: now });
        nonce
    }

    /// Takes out the check that this report is about, and the earlier checks by the same pair.
    pub(crate) fn confirm(
        &mut self,
        pair: LocatorPair,
        report: &Report,
        now: Instant,
    ) -> Option<Check> {
        let found = self.find(pair, report, now);
        if let Some(found) = found {
            // In a comparison each check counts, in whatever order the answers come.
            let is_older = |check: &Check| check.pair == pair && check.at <= found.at;
            let compares = self.comparison.is_some();
            self.checks
                .retain(|check| check.nonce != found.nonce && (compares || !is_older(check)));
        }
        found
    }

    /// Finds the check that this report is about.
    pub(crate) fn find(&self, pair: LocatorPair, report: &Report, now: Instant) -> Option<Check> {
        let is_meant = |check: &&Check| {
            check.pair == pair && (check.nonce, check.data) == (report.nonce, report.data)
        };
        let found = self.checks.iter().find(is_meant).copied();
        found.filter(|found| now.since(found.at) <= CHECK_LIFETIME)
    }

    pub(crate) fn tell(&mut self, event: Event) {
        push(&mut self.events, event);
    }

    /// Ends the trial, the deferred suspicion, the question by the current pair, and the comparison.
    pub(crate) fn drop_trial(&mut self) {
        (self.trial, self.deferred, self.asked, self.comparison) = (None, None, None, None);
    }

    fn is_over(&self) -> bool {
        self.checks.is_empty()
            && self.trial.is_none()
            && self.deferred.is_none()
            && self.asked.is_none()
            && self.comparison.is_none()
            && self.follow.is_none()
            && self.answers.is_empty()
            && self.transmits.is_empty()
            && self.events.is_empty()
    }
}

/// Round-trip time as checks have shown it. Checks come at steady intervals, so one sample says much about the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rtt {
    shown: moorline_types::Rtt<8>,
    /// When the last sample came, in seconds.
    at: u32,
}

impl Rtt {
    pub(crate) fn observe(&mut self, sample: Duration, now: Instant) {
        self.at = seconds(now);
        self.shown.observe(sample);
    }

    /// Whether the last sample is recent enough to tell of the present queues.
    pub(crate) fn is_fresh(self, now: Instant) -> bool {
        self.is_within(RTT_FRESH, now)
    }

    /// Whether the last sample is no older than `age`, to a second.
    pub(crate) fn is_within(self, age: Duration, now: Instant) -> bool {
        self.known().is_some() && u64::from(seconds(now).wrapping_sub(self.at)) <= age.as_secs()
    }

    /// Whether the round-trip time varies so little that it does not lengthen the wait for an answer.
    pub(crate) fn is_steady(self) -> bool {
        self.shown.variation() * 4 <= self.known().unwrap_or_default() / 2 + MARGIN
    }

    pub(crate) fn known(self) -> Option<Duration> {
        self.shown.known()
    }

    /// Largest delay of a queue that may have filled since the last check.
    pub(crate) fn unseen_queue(self) -> Duration {
        self.known().unwrap_or_default() * UNSEEN_QUEUE
    }

    /// Time within which an answer comes, if one comes.
    pub(crate) fn due(self) -> Option<Duration> {
        let rtt = self.known()?;
        let spread = self.shown.variation() * 4;
        Some((rtt + spread.max(rtt / 2 + MARGIN)).max(LEAST_DUE))
    }
}

/// Seconds since the zero of the clock. The value wraps after a century, which does no harm.
fn seconds(at: Instant) -> u32 {
    u32::try_from(at.since(Instant::ZERO).as_secs() & u64::from(u32::MAX)).unwrap_or(0)
}

/// Age at which a check is given up: 10 s. No path with its queues takes longer.
pub(crate) const CHECK_LIFETIME: Duration = Duration::from_secs(10);
/// Time without a trial after which the quiet time is short again: 60 s.
const FORGIVE: Duration = Duration::from_secs(60);
/// Time between the beginnings of two comparisons that may end in a move away from the current pair: 30 s. A comparison
/// takes 20 s, so there is time for two in a minute.
const BETWEEN_COMPARISONS: Duration = Duration::from_secs(30);
/// Moves away from worse pairs in short succession: 4.
const LEAVES_AT_ONCE: u32 = 4;
/// Time after which one more such move is possible: 20 min.
const BETWEEN_LEAVES: Duration = Duration::from_secs(20 * 60);
/// Comparisons that keep payload away from its preferred pair double the hold time at most 3 times: to 4 min by
/// default.
const MAX_MISTAKES_BY_COMPARISON: u8 = 3;
/// Pairs kept as left for a better one: 4, enough for a host with four uplinks.
const MAX_WORSE: usize = 4;
/// Checks that can wait for answers: 32.
const MAX_CHECKS: usize = 32;
/// Age up to which a sample tells of the present queues: 10 s. Queues fill and empty within some seconds.
const RTT_FRESH: Duration = Duration::from_secs(10);
/// Time for the hosts themselves, on top of half a round trip: 10 ms.
const MARGIN: Duration = Duration::from_millis(10);
const LEAST_DUE: Duration = Duration::from_millis(20);
/// Delay that a queue may add, in round trips: 10.
const UNSEEN_QUEUE: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_due_soon_on_a_steady_path_and_later_on_an_unsteady_one() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::default();
        assert_eq!((rtt.known(), rtt.due()), (None, None));
        let now = Instant::ZERO + ms(1000);
        rtt.observe(ms(1), now);
        assert_eq!(rtt.due(), Some(ms(20)));
        assert!(rtt.is_fresh(now + ms(10_000)) && !rtt.is_fresh(now + ms(11_000)));
        let mut rtt = Rtt::default();
        assert!(!rtt.is_fresh(now));
        rtt.observe(ms(80), now);
        assert_eq!(rtt.due(), Some(ms(130)));
        assert!(rtt.is_steady());
        rtt.observe(ms(400), now);
        assert!(!rtt.is_steady());
        assert!(rtt.due().expect("known") > ms(400), "{rtt:?}");
    }

    #[test]
    fn a_path_monitor_is_small() {
        assert!(size_of::<PathMonitor>() <= 112, "{}", size_of::<PathMonitor>());
    }
}
