//! One uplink that is in doubt, fails, or is watched: the questions to peers, and the verdict.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use moorline_contexts::Reply;
use moorline_types::{ContextId, Instant, LocatorPair};

use super::{QUIET, Target};
use crate::health::{CALM, FEW, HASTY, MARGIN, MOST_DOUBLED, REMEMBERED, STEADY};

#[derive(Clone, Debug)]
pub(super) struct Uplink {
    /// Empty if the host asks nobody.
    targets: Vec<Target>,
    rounds: VecDeque<Round>,
    pub(super) state: State,
    next: Instant,
    /// Number of targets asked so far, to take turns.
    asked: usize,
    /// Time of the doubt because of which the host asks, or last asked.
    doubted_at: Instant,
    /// Another uplink that is in doubt, and the context whose peer answers by this uplink alone.
    pub(super) other_doubt: Option<(u32, ContextId)>,
    /// Longest recent time of an answer, by the uplink and by the other one.
    slowest: [Duration; 2],
    failures: u32,
    failed_at: Option<Instant>,
    /// The last doubt that no verdict and no answer has settled: the context, if it is the doubt of one, and the time.
    pub(super) waiting: Option<(Option<ContextId>, Instant)>,
    /// End of the time in which the host asks rarely, after a failure.
    watched_until: Instant,
    /// Time when the host could last ask a peer.
    asked_at: Instant,
    /// Time when the host last looked for targets because nobody answered.
    replaced_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No doubt about the uplink begins before `until`.
    Quiet {
        until: Instant,
    },
    Asking {
        /// End of these questions, if the answers do not take longer.
        until: Instant,
    },
    /// No peer has answered by this uplink, and too few by the other one. The host asks one after another, until peers
    /// answer.
    Silent {
        since: Instant,
    },
    Failing(Failing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failing {
    since: Instant,
    /// Time since which peers answer by the uplink again.
    good_since: Option<Instant>,
    /// Whether a peer has answered by the uplink since the failure.
    has_answered: bool,
    /// Questions in a row that peers answered by the other uplink alone.
    missed: Missed,
    /// Time when a peer last answered by the other uplink.
    other_at: Instant,
    /// Whether no peer answers by the other uplink either: then the peers may have failed.
    is_unknown: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missed {
    count: usize,
    first_peer: Option<usize>,
    has_two_peers: bool,
}

impl Missed {
    fn add(&mut self, peer: usize) {
        self.count = self.count.saturating_add(1);
        self.has_two_peers |= *self.first_peer.get_or_insert(peer) != peer;
    }
}

/// A question to one target by both pairs.
#[derive(Clone, Copy, Debug)]
struct Round {
    at: Instant,
    target: Target,
    answered: [bool; 2],
}

impl Uplink {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            targets: Vec::new(),
            rounds: VecDeque::new(),
            state: State::Quiet { until: now },
            next: now,
            asked: 0,
            doubted_at: now,
            other_doubt: None,
            slowest: [Duration::ZERO; 2],
            failures: 0,
            failed_at: None,
            waiting: None,
            watched_until: now,
            asked_at: now,
            replaced_at: now,
        }
    }

    pub(super) fn is_failing(&self) -> bool {
        matches!(self.state, State::Failing(Failing { is_unknown: false, .. }))
    }

    /// Whether the uplink has failed and a peer has answered by it since, not for long enough yet. If answers get lost now
    /// and then, this does not change.
    pub(super) const fn answers_again(&self) -> bool {
        matches!(self.failed(), Some(true))
    }

    /// Whether a peer has answered by the uplink since its failure; `None` if it has not failed, or is used again.
    pub(super) const fn failed(&self) -> Option<bool> {
        match self.state {
            State::Failing(failing) => Some(failing.has_answered),
            State::Quiet { .. } | State::Asking { .. } | State::Silent { .. } => None,
        }
    }

    pub(super) fn begin(&mut self, targets: Vec<Target>, now: Instant) {
        self.waiting = None;
        if peers(targets.iter()) < WITNESSES {
            self.rest(now);
            self.state = State::Quiet { until: now + SOON };
            return;
        }
        // The minute of a silence goes on with each further doubt.
        if !matches!(self.state, State::Silent { .. }) {
            self.doubted_at = now;
        }
        self.targets = targets;
        self.slowest[OTHER] = Duration::ZERO;
        let usual = self.targets.iter().map(|target| target.usual).max().unwrap_or_default();
        self.slowest[OWN] = self.slowest[OWN].max(usual);
        self.ask_from(now);
    }

    fn ask_from(&mut self, now: Instant) {
        (self.state, self.next) = (State::Asking { until: now + LONGEST_DOUBT }, now);
        self.rounds.clear();
    }

    /// Goes on asking rarely, for a minute in all.
    fn on_silence(&mut self, now: Instant) {
        if now.since(self.doubted_at) >= FORGOTTEN {
            return self.rest(now);
        }
        (self.state, self.next) = (State::Silent { since: now }, now + PATIENTLY);
        self.rounds.clear();
    }

    pub(super) fn replace(&mut self, targets: Vec<Target>, now: Instant) {
        (self.targets, self.replaced_at) = (targets, now);
        self.rounds.clear();
    }

    pub(super) fn lacks_targets(&self, now: Instant) -> bool {
        let (heard, patience) = match self.state {
            State::Failing(failing) => (self.asked_at.min(failing.other_at), LACKING),
            State::Silent { since } => (since, LACKING),
            State::Quiet { .. } if self.is_watched() => (self.asked_at, LACKING + RARELY),
            State::Quiet { .. } | State::Asking { .. } => return false,
        };
        now.since(heard.max(self.replaced_at)) >= patience
    }

    /// Whether the next question belongs to the watch after a failure.
    fn is_watched(&self) -> bool {
        self.next < self.watched_until
    }

    /// Time of the next question, or of the verdict about an earlier question of the watch.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        match self.state {
            State::Quiet { .. } => {
                let answer = self.rounds.front().map(|round| round.at + self.due());
                let turn = answer.map_or(self.next, |due| due.min(self.next));
                self.is_watched().then_some(turn)
            }
            State::Asking { .. } | State::Silent { .. } | State::Failing(_) => Some(self.next),
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [self.doubt_due(), self.next_turn()].into_iter().flatten().min()
    }

    /// Time when the waiting doubt is due.
    pub(super) fn doubt_due(&self) -> Option<Instant> {
        self.waiting?;
        match self.state {
            State::Quiet { until } => Some(until),
            State::Silent { since } => Some(since + QUIET),
            State::Asking { .. } | State::Failing(_) => None,
        }
    }

    fn rest(&mut self, now: Instant) {
        (self.state, self.next) = (State::Quiet { until: now + QUIET }, now + RARELY);
        self.rounds.clear();
        if !self.is_watched() {
            self.targets.clear();
        }
    }

    fn due(&self) -> Duration {
        let [own, other] = self.slowest;
        (own.max(other) * 2 + MARGIN).clamp(SHORTEST, LONGEST_DUE)
    }

    pub(super) fn ask(
        &mut self,
        ask: &mut impl FnMut(ContextId, LocatorPair) -> bool,
        now: Instant,
    ) {
        match self.state {
            State::Asking { until } => {
                self.next = now + HASTY;
                if !self.ask_all(ask, now) {
                    let until = (until + HASTY).min(self.doubted_at + FORGOTTEN);
                    self.state = State::Asking { until };
                }
            }
            State::Silent { .. } => self.ask_next(PATIENTLY, ask, now),
            State::Failing(_) => self.ask_next(CALM, ask, now),
            State::Quiet { .. } if self.next <= now => self.ask_next(RARELY, ask, now),
            State::Quiet { .. } => {}
        }
    }

    /// Asks all targets that have not had all questions. Returns false if there are such targets, and none could be
    /// asked.
    fn ask_all(
        &mut self,
        ask: &mut impl FnMut(ContextId, LocatorPair) -> bool,
        now: Instant,
    ) -> bool {
        let (mut is_asked, mut is_refused) = (false, false);
        let rounds = &mut self.rounds;
        for target in &self.targets {
            let of_target = rounds.iter().filter(|round| round.target == *target);
            if of_target.count() >= LOST {
                continue;
            }
            if target.pairs.map(|pair| ask(target.context, pair)) == [true; 2] {
                is_asked = true;
                rounds.push_back(Round { at: now, target: *target, answered: [false; 2] });
            } else {
                is_refused = true;
            }
        }
        is_asked || !is_refused
    }

    /// Asks the next target in turn that can be asked, and another one after `pause`.
    fn ask_next(
        &mut self,
        pause: Duration,
        ask: &mut impl FnMut(ContextId, LocatorPair) -> bool,
        now: Instant,
    ) {
        self.next = now + pause;
        for _ in 0..self.targets.len() {
            let Some(target) = self.targets.get(self.asked % self.targets.len()) else { return };
            self.asked = self.asked.wrapping_add(1);
            if target.pairs.map(|pair| ask(target.context, pair)) == [true; 2] {
                self.asked_at = now;
                self.rounds.push_back(Round { at: now, target: *target, answered: [false; 2] });
                return;
            }
        }
    }

    pub(super) fn handle_reply(&mut self, reply: Reply, now: Instant) {
        let is_of = |target: &Target, by: usize| {
            target.context == reply.context && target.pairs.get(by) == Some(&reply.pair)
        };
        for by in [OWN, OTHER] {
            let Some(target) = self.targets.iter().find(|target| is_of(target, by)) else {
                continue;
            };
            if by == OWN && matches!(self.state, State::Silent { .. }) {
                self.other_doubt = Some((target.other, target.context));
            }
            let took = now.since(reply.at);
            self.slowest[by] = took.max(self.slowest[by] - self.slowest[by] / 8);
            let rounds = self.rounds.iter_mut();
            // An answer to a later check by this uplink counts for earlier checks as well.
            for round in rounds.filter(|round| is_of(&round.target, by) && round.at <= reply.at) {
                round.answered[by] |= by == OWN || round.at == reply.at;
            }
            self.on_answer(by, reply.at, now);
        }
    }

    fn on_answer(&mut self, by: usize, left: Instant, now: Instant) {
        if by == OWN {
            self.waiting = self.waiting.filter(|(_, at)| left < *at);
        }
        match &mut self.state {
            State::Failing(failing) if by == OTHER => {
                (failing.other_at, failing.is_unknown) = (now, false);
            }
            // The uplink was slow, not dead.
            State::Failing(failing) if left <= failing.since => self.rest(now),
            State::Failing(failing) => {
                (failing.missed, failing.has_answered) = (Missed::default(), true);
                failing.good_since.get_or_insert(now);
            }
            State::Asking { .. } | State::Silent { .. } if left < self.doubted_at => {}
            State::Asking { .. } | State::Silent { .. } if by == OWN => self.rest(now),
            State::Asking { .. } => self.judge_asking(now),
            // Peers answer again, so the next questions show which uplink works.
            State::Silent { .. } => self.ask_from(now),
            State::Quiet { .. } => {}
        }
    }

    pub(super) fn judge(&mut self, now: Instant) {
        match self.state {
            State::Quiet { .. } => self.judge_watched(now),
            State::Asking { .. } => self.judge_asking(now),
            State::Silent { .. } if now.since(self.doubted_at) >= FORGOTTEN => self.rest(now),
            State::Silent { .. } => self.rounds.clear(),
            State::Failing(_) => self.judge_failing(now),
        }
    }

    /// A peer that has answered by the other uplink alone is a doubt.
    fn judge_watched(&mut self, now: Instant) {
        let due = self.due();
        while let Some(round) = self.rounds.pop_front_if(|round| now.since(round.at) >= due) {
            if round.answered == [false, true] {
                self.waiting = Some((Some(round.target.context), round.at));
            }
        }
    }

    /// Decides whether enough peers answer by the other uplink alone. No peer has answered by this one.
    fn judge_asking(&mut self, now: Instant) {
        let State::Asking { until, .. } = self.state else { return };
        let is_witness = |target: &&Target| self.is_witness(target, now);
        if peers(self.targets.iter().filter(is_witness)) >= WITNESSES {
            let is_again = self.failed_at.is_some_and(|at| now.since(at) < REMEMBERED);
            self.failures = if is_again { self.failures.saturating_add(1) } else { 1 };
            (self.failed_at, self.asked_at, self.waiting) = (Some(now), now, None);
            self.state = State::Failing(Failing {
                since: now,
                good_since: None,
                has_answered: false,
                missed: Missed::default(),
                other_at: now,
                is_unknown: false,
            });
            self.rounds.clear();
        } else if now >= until + self.due() || self.is_everything_unanswered(now) {
            self.on_silence(now);
        }
    }

    /// Whether no peer has answered any question by either uplink in time.
    fn is_everything_unanswered(&self, now: Instant) -> bool {
        let due = self.due();
        let is_missed = |round: &Round| round.answered == [false; 2] && now.since(round.at) >= due;
        !self.rounds.is_empty() && self.rounds.iter().all(is_missed)
    }

    /// Whether a peer has answered no question by the uplink, and goes on answering by the other one.
    fn is_witness(&self, target: &Target, now: Instant) -> bool {
        let due = self.due();
        let rounds = self.rounds.iter().filter(|round| round.target == *target);
        let rounds: Vec<_> = rounds.filter(|round| now.since(round.at) >= due).collect();
        // Where the other uplink loses many packets, few of the last answers come.
        let is_alive = rounds.iter().skip(1).any(|round| round.answered[OTHER]);
        rounds.len() >= LOST && is_alive && rounds.iter().all(|round| !round.answered[OWN])
    }

    fn judge_failing(&mut self, now: Instant) {
        let due = self.due();
        let steady = STEADY * (1 << self.failures.saturating_sub(1).min(MOST_DOUBLED));
        let State::Failing(failing) = &mut self.state else { return };
        while let Some(round) = self.rounds.pop_front_if(|round| now.since(round.at) >= due) {
            match round.answered {
                [true, is_other] => {
                    failing.missed = Missed::default();
                    if !is_other && now.since(failing.other_at) >= SOON {
                        self.other_doubt = Some((round.target.other, round.target.context));
                    }
                }
                [false, true] => failing.missed.add(round.target.peer),
                [false, false] => {}
            }
        }
        if failing.missed.count >= FEW {
            failing.good_since = None;
        }
        // Another uplink that has failed and answers again may be better now than this one.
        failing.has_answered &= failing.missed.count < LOST || !failing.missed.has_two_peers;
        failing.is_unknown = now.since(failing.other_at) >= SILENT;
        let is_good = failing.good_since.is_some_and(|since| now.since(since) >= steady);
        let known = self.asked_at.min(failing.other_at);
        if is_good || now.since(known) >= FORGOTTEN {
            (self.failed_at, self.watched_until) = (Some(now), now + WATCHED);
            self.rest(now);
            // No doubt has just ended, so the next one need not wait.
            self.state = State::Quiet { until: now };
        }
    }
}

/// Number of peers among these targets.
fn peers<'a>(targets: impl Iterator<Item = &'a Target>) -> usize {
    targets.map(|target| target.peer).collect::<BTreeSet<_>>().len()
}

/// Indices of [`Target::pairs`].
const OWN: usize = 0;
const OTHER: usize = 1;
/// Number of peers that have to show that an uplink carries nothing.
const WITNESSES: usize = 2;
/// Largest number of peers that are asked, with [`ADDRESSES`] each.
pub(crate) const MOST_PEERS: usize = 4;
/// Number of a peer's addresses that are asked: the ISP of one address may have failed with ours. A peer answers 20
/// checks a second, and gets 16.
pub(crate) const ADDRESSES: usize = 2;
/// Number of questions in a row without an answer by the uplink. At a loss of 5 % each way, chance loses all of two
/// peers' answers once in some 100 million doubts.
pub(super) const LOST: usize = 4;
/// Shortest time after which an answer counts as missing.
const SHORTEST: Duration = Duration::from_millis(150);
/// Longest time after which an answer counts as missing. The queue of a mobile network may hold seconds of packets.
const LONGEST_DUE: Duration = Duration::from_secs(5);
/// Time after which a doubt without a result ends, if no answers are due. Time in which nobody can be asked does not
/// count.
const LONGEST_DOUBT: Duration = Duration::from_secs(2);
/// Time between two questions while no peer answers.
const PATIENTLY: Duration = Duration::from_millis(500);
/// Time after a doubt about which nobody could be asked until the next one begins; and time without an answer by the
/// other uplink after which an answer by this one makes the other one a doubt.
const SOON: Duration = Duration::from_secs(1);
/// Time after a failure in which the host watches the uplink.
pub(super) const WATCHED: Duration = Duration::from_secs(120);
/// Time between two questions about an uplink that is watched.
const RARELY: Duration = Duration::from_secs(2);
/// Time without an answer by the other uplink after which nothing is known of the failing one.
const SILENT: Duration = Duration::from_secs(3);
/// Time without an answer, or without anybody to ask, after which the host looks for other targets.
const LACKING: Duration = Duration::from_secs(2);
/// Time without an answer, or without anybody to ask, after which a failing uplink fails no more. A doubt ends then too.
const FORGOTTEN: Duration = Duration::from_secs(60);
