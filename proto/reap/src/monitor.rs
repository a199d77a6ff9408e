//! What a machine keeps beyond RFC 5534: the standby pair, checks under way, a trial of the current pair.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::bounded::{Answers, push};
use crate::comparison::Comparison;
use crate::event::{Event, FailureHint};
use crate::follow::Follow;
use crate::message::{Report, Transmit};
use crate::random::Random;
use crate::timers::Timer;

/// Boxed, and there for contexts with more than one pair only.
#[derive(Clone, Debug)]
pub(crate) struct PathMonitor {
    /// The pair that is kept, or being tried out for that: places in the machine's two sets.
    pub(crate) standby: Option<[u8; 2]>,
    /// When the check by the standby path left that was answered last.
    pub(crate) verified: Option<Instant>,
    pub(crate) standby_rtt: Rtt,
    pub(crate) current_rtt: Rtt,
    /// The least round-trip time of the current pair since it is current, in milliseconds and one; zero: not known.
    floor: u16,
    pub(crate) round: Round,
    /// When resting is over, or the answer of the checks is due.
    pub(crate) due: Instant,
    /// Checks sent in this round.
    pub(crate) tries: u8,
    /// Pairs in a row that have not answered.
    pub(crate) failed: u8,
    /// The peer has answered a check, or sent one: it knows them.
    pub(crate) knows_checks: bool,
    /// A trial that a keepalive gave rise to has begun, and the current pair has answered no check since.
    pub(crate) is_asked_in_vain: bool,
    /// The current pair has not answered the check of this round.
    pub(crate) is_round_open: bool,
    /// Nonce of the last check of the current pair that the peer has answered by that pair.
    pub(crate) answered_nonce: Option<NonZeroU32>,
    /// Nonce of the last check that the peer has sent by the current pair.
    pub(crate) seen_nonce: Option<NonZeroU32>,
    /// Checks that are answered, those by the current pair apart.
    pub(crate) answers: [Answers; 2],
    /// `None`: all of it is as [`Past::new`] has it, with the current pair.
    past: Option<Box<Past>>,
    pub(crate) flight: Option<Box<Flight>>,
}

/// What there is for contexts that have moved, prefer another pair, or have had a suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    /// The pair that traffic goes back to when it works; `None`: none is better than others.
    pub(crate) home: Option<LocatorPair>,
    /// Since when the preferred pair has answered each check.
    pub(crate) home_since: Option<Instant>,
    /// Whether its last check has not been answered.
    pub(crate) is_home_asked: bool,
    /// When traffic went back last, and how often that was a mistake.
    pub(crate) went_home: Instant,
    pub(crate) mistakes: u8,
    /// Suspicions are not acted upon before this.
    pub(crate) quiet_until: Instant,
    /// How often the quiet time has doubled.
    pub(crate) doublings: u8,
    /// Pairs that were left as much worse than others, at most [`MAX_WORSE`]. Traffic goes back to them only after a comparison.
    pub(crate) worse: Vec<LocatorPair>,
    /// There is no comparison before this.
    pub(crate) compare_after: Instant,
    /// How often the time between comparisons has doubled.
    comparisons: u8,
}

/// Where the checks of the standby path are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// There is no other pair.
    Off,
    /// The next one is not due yet.
    Resting,
    /// Due as soon as traffic flows.
    Awaiting,
    /// The host is to say what it knows of the standby path.
    Asking,
    /// Checks are under way.
    Checking,
}

/// A probe outside of explorations, to find out whether a pair works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub(crate) pair: LocatorPair,
    pub(crate) nonce: u32,
    /// Which kind of a check: its Probe Data.
    pub(crate) data: u32,
    pub(crate) at: Instant,
}

/// What the data plane told of the current pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    pub(crate) hint: FailureHint,
    /// Since when nothing has come in.
    pub(crate) since: Instant,
    /// How long answers have taken lately; zero: not known.
    pub(crate) usual: Duration,
}

/// Whether the current pair works is found out by checks of it and of others, in parallel.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) suspicion: Suspicion,
    pub(crate) started: Instant,
    /// When the Send Timeout is over, if it is soon: exploration begins then, whatever others answer.
    pub(crate) expires: Option<Instant>,
    /// The other pairs that are checked.
    pub(crate) others: Vec<LocatorPair>,
    /// The first of them that answered.
    pub(crate) answered: Option<LocatorPair>,
    /// The current pair has answered by the way back, which the peer's payload does not take.
    pub(crate) is_peer_astray: bool,
    /// Rounds of checks sent.
    pub(crate) sent: u32,
    /// The next round of checks.
    pub(crate) next: Option<Instant>,
    pub(crate) gap: Duration,
    /// The current pair's answer is due by then.
    pub(crate) due: Instant,
    /// So are those of the others.
    pub(crate) end: Instant,
}

/// A keepalive came in, and the current pair is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// When the answer is due.
    pub(crate) due: Instant,
    /// Checks sent.
    pub(crate) tries: u8,
}

/// What is there only while checks are under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) random: Random,
    pub(crate) checks: Vec<Check>,
    pub(crate) trial: Option<Trial>,
    /// A suspicion that came too soon after a trial.
    pub(crate) deferred: Option<Suspicion>,
    pub(crate) asked: Option<Asked>,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) follow: Option<Follow>,
    /// The host has asked by checks of its own ([`Machine::send_one_check`](crate::Machine::send_one_check)), and is told of answers.
    pub(crate) is_asked: bool,
    pub(crate) answers: VecDeque<Transmit>,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
}

impl Trial {
    /// One that begins now and ends now: the caller gives the pairs time for their answers.
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

    /// Whether there is no need to wait longer than for the current pair's answer.
    pub(crate) fn knows_better(&self) -> bool {
        self.answered.is_some() || self.is_peer_astray
    }

    /// Its end is that of the Send Timeout, without more checks.
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
            is_round_open: false,
            answered_nonce: None,
            seen_nonce: None,
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

    /// Checks were sent in vain to a peer that has never shown that it knows them, or the peer refuses them (decisions 121, 143).
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

    /// Another pair is current.
    pub(crate) fn forget_floor(&mut self) {
        (self.floor, self.is_round_open) = (0, false);
        (self.answered_nonce, self.seen_nonce) = (None, None);
    }

    pub(crate) fn comparison(&self) -> Option<&Comparison> {
        self.flight.as_ref()?.comparison.as_ref()
    }

    pub(crate) fn rest(&mut self, until: Instant) {
        (self.round, self.due, self.is_round_open) = (Round::Resting, until, false);
    }

    /// The next round is due with the next traffic.
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

    /// Suspicions are not acted upon before this.
    pub(crate) fn quiet_until(&self) -> Instant {
        self.past().map_or(Instant::ZERO, |past| past.quiet_until)
    }

    /// Lets go of what is over: checks too old to be answered, a time that is quiet no more, and the boxes
    /// if they are empty.
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
            went_home: Instant::ZERO,
            mistakes: 0,
            quiet_until: Instant::ZERO,
            doublings: 0,
            worse: Vec::new(),
            compare_after: Instant::ZERO,
            comparisons: 0,
        }
    }

    /// This pair was left as much worse than another one. The oldest makes room.
    pub(crate) fn note_worse(&mut self, pair: LocatorPair, now: Instant) {
        self.worse.retain(|worse| *worse != pair);
        if self.worse.len() >= MAX_WORSE {
            self.worse.remove(0);
        }
        self.worse.push(pair);
        self.damp_comparisons(true, now);
    }

    /// There is no comparison for a while, which doubles each time, and more often after a move.
    pub(crate) fn damp_comparisons(&mut self, has_moved: bool, now: Instant) {
        let most = if has_moved { MAX_DOUBLINGS_AFTER_MOVES } else { MAX_DOUBLINGS };
        let wait = BETWEEN_COMPARISONS * (1 << self.comparisons);
        self.compare_after = self.compare_after.max(now + wait);
        self.comparisons = self.comparisons.max((self.comparisons + 1).min(most));
    }

    /// After a while without a trial the quiet time is short again, and so is the time between comparisons.
    pub(crate) fn forgive(&mut self, now: Instant) {
        if now.since(self.quiet_until) >= FORGIVE {
            (self.quiet_until, self.doublings) = (Instant::ZERO, 0);
        }
        if now.since(self.compare_after) >= FORGIVE_COMPARISONS {
            (self.compare_after, self.comparisons) = (Instant::ZERO, 0);
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

    /// A nonce for a check by this pair, kept until it is answered.
    pub(crate) fn note_check(&mut self, pair: LocatorPair, data: u32, now: Instant) -> u32 {
        let nonce = self.random.nonce();
        if self.checks.len() >= MAX_CHECKS {
            self.checks.remove(0);
        }
        self.checks.push(Check { pair, nonce, data, at: now });
        nonce
    }

    /// Takes out the check that this report is about, and those that left before it by the same pair.
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

    /// The check that this report is about.
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

    /// Nothing is put to the test any more.
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

/// Round-trip time as checks have shown it. They come at steady times, so one says much of the next.
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

    /// Whether it tells of the queues of now.
    pub(crate) fn is_fresh(self, now: Instant) -> bool {
        self.is_within(RTT_FRESH, now)
    }

    /// Whether the last sample is no older than that, to a second.
    pub(crate) fn is_within(self, age: Duration, now: Instant) -> bool {
        self.known().is_some() && u64::from(seconds(now).wrapping_sub(self.at)) <= age.as_secs()
    }

    /// Whether no more is waited than a steady path wants.
    pub(crate) fn is_steady(self) -> bool {
        self.shown.variation() * 4 <= self.known().unwrap_or_default() / 2 + MARGIN
    }

    pub(crate) fn known(self) -> Option<Duration> {
        self.shown.known()
    }

    /// By how much a queue may have filled since the last check.
    pub(crate) fn unseen_queue(self) -> Duration {
        self.known().unwrap_or_default() * UNSEEN_QUEUE
    }

    /// Within this time an answer comes, if one comes.
    pub(crate) fn due(self) -> Option<Duration> {
        let rtt = self.known()?;
        let spread = self.shown.variation() * 4;
        Some((rtt + spread.max(rtt / 2 + MARGIN)).max(LEAST_DUE))
    }
}

/// That they start anew after a century does no harm.
fn seconds(at: Instant) -> u32 {
    u32::try_from(at.since(Instant::ZERO).as_secs() & u64::from(u32::MAX)).unwrap_or(0)
}

/// A check unanswered for so long never is: longer than any path with its queues takes.
pub(crate) const CHECK_LIFETIME: Duration = Duration::from_secs(10);
/// For a quiet time to be short again.
const FORGIVE: Duration = Duration::from_secs(60);
/// Time between the beginnings of two comparisons: 30 s, doubled up to 4 min, or up to 32 min if payload moves each time.
const BETWEEN_COMPARISONS: Duration = Duration::from_secs(30);
const MAX_DOUBLINGS: u8 = 3;
const MAX_DOUBLINGS_AFTER_MOVES: u8 = 6;
/// Pairs that a context has left one after another: a host with four uplinks.
const MAX_WORSE: usize = 4;
/// For that time to be short again.
const FORGIVE_COMPARISONS: Duration = Duration::from_secs(600);
/// Checks whose answers are waited for.
const MAX_CHECKS: usize = 32;
/// Queues fill and empty in some seconds: 10.
const RTT_FRESH: Duration = Duration::from_secs(10);
/// For the hosts themselves, on top of half a round trip.
const MARGIN: Duration = Duration::from_millis(10);
const LEAST_DUE: Duration = Duration::from_millis(20);
/// Round trips that a queue may hold.
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
        assert!(size_of::<PathMonitor>() <= 88, "{}", size_of::<PathMonitor>());
    }
}
