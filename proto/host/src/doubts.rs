//! Uplinks that carry nothing, found by peers of contexts. When a context has left an uplink, the host asks several
//! peers by that uplink and by another one at the same moments. Both questions go to the same address of the peer.
//!
//! The uplink *fails* if [`WITNESSES`] peers answer by the other uplink alone, and no peer answers by this one. Both
//! questions go to the same address, so a peer whose own ISP has failed answers by neither uplink and shows nothing.
//! Peers in one network of 48 bits count as one peer, so one peer alone cannot make the host leave an uplink. While
//! the uplink fails, the host goes on asking the peers, one after another. The uplink is used again when peers have
//! answered by it for a while, which doubles with each failure.
//!
//! If Neighbor Unreachability Detection has given up a router, the router's uplink fails for [`HELD`].

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use moorline_contexts::Reply;
use moorline_types::{ContextId, Instant, LocatorPair};

use crate::health::{CALM, FEW, HASTY, LONGEST, MARGIN, MOST_DOUBLED, REMEMBERED, STEADY};

/// The first 48 bits of an address: the network of one site.
pub(crate) type Network = [u16; 3];

/// An address of a peer that the host asks by two uplinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) context: ContextId,
    /// Number of the peer: the targets of one peer have the same number.
    pub(crate) peer: usize,
    /// The pair by the uplink in doubt, and the pair by another uplink, with the same address of the peer.
    pub(crate) pairs: [LocatorPair; 2],
    /// Usual time of an answer by the uplink in doubt; zero if it is not known.
    pub(crate) usual: Duration,
}

/// Uplinks that are in doubt, or fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    uplinks: BTreeMap<u32, Uplink>,
    /// Uplinks whose router is lost, each with the time until which the loss counts.
    lost: BTreeMap<u32, Instant>,
    /// By uplink: the networks of the last peer that ICMPv6 errors reported as unreachable, and the time.
    unreachable: BTreeMap<u32, (BTreeSet<Network>, Instant)>,
}

#[derive(Clone, Debug)]
struct Uplink {
    /// Empty if the host asks nobody.
    targets: Vec<Target>,
    rounds: VecDeque<Round>,
    state: State,
    next: Instant,
    /// Number of targets asked so far, to take turns.
    asked: usize,
    /// Longest recent time of an answer, by the uplink and by the other one.
    slowest: [Duration; 2],
    failures: u32,
    failed_at: Option<Instant>,
    /// Time when the host last looked for targets because it could ask nobody.
    replaced_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The uplink accepts no doubt before `until`.
    Quiet {
        until: Instant,
    },
    Asking {
        since: Instant,
    },
    Failing(Failing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failing {
    since: Instant,
    /// Time since which peers answer by the uplink again.
    good_since: Option<Instant>,
    /// Number of questions in a row that peers answered by the other uplink alone.
    missed: usize,
    /// Time when a peer last answered by the other uplink.
    other_at: Instant,
    /// Whether no peer answers by the other uplink either: then the peers may have failed.
    is_unknown: bool,
    /// Time when the host could last ask a peer.
    asked_at: Instant,
}

/// A question to one target by both pairs.
#[derive(Clone, Copy, Debug)]
struct Round {
    at: Instant,
    target: Target,
    answered: [bool; 2],
}

impl Doubts {
    /// Uplinks that carry nothing.
    pub(crate) fn failing(&self) -> BTreeSet<u32> {
        let failing = self.uplinks.iter().filter(|(_, uplink)| uplink.is_failing());
        failing.map(|(ifindex, _)| *ifindex).chain(self.lost.keys().copied()).collect()
    }

    pub(crate) fn has_lost_router(&self, ifindex: u32) -> bool {
        self.lost.contains_key(&ifindex)
    }

    /// Forgets all uplinks that are not there.
    pub(crate) fn follow(&mut self, is_there: impl Fn(u32) -> bool) {
        self.uplinks.retain(|ifindex, _| is_there(*ifindex));
        self.lost.retain(|ifindex, _| is_there(*ifindex));
        self.unreachable.retain(|ifindex, _| is_there(*ifindex));
    }

    /// Whether a doubt about an uplink is accepted now.
    pub(crate) fn is_open_to(&self, ifindex: u32, now: Instant) -> bool {
        self.uplinks.get(&ifindex).is_none_or(|uplink| match uplink.state {
            State::Quiet { until } => until <= now,
            State::Asking { .. } | State::Failing(_) => false,
        })
    }

    /// Begins to ask. With too few peers no answer would count, so the host asks nobody.
    pub(crate) fn begin(&mut self, ifindex: u32, targets: Vec<Target>, now: Instant) {
        let uplink = self.uplinks.entry(ifindex).or_insert_with(|| Uplink::new(now));
        if peers(targets.iter()) < WITNESSES {
            return uplink.rest(now);
        }
        (uplink.targets, uplink.state, uplink.next) = (targets, State::Asking { since: now }, now);
        uplink.rounds.clear();
        uplink.slowest[OTHER] = Duration::ZERO;
        let usual = uplink.targets.iter().map(|target| target.usual).max().unwrap_or_default();
        uplink.slowest[OWN] = uplink.slowest[OWN].max(usual);
    }

    /// Notes ICMPv6 errors that say that a peer with these networks cannot be reached by an uplink. Returns whether
    /// this is a doubt: errors have reported another peer within [`TOGETHER`].
    pub(crate) fn handle_unreachable(
        &mut self,
        ifindex: u32,
        networks: BTreeSet<Network>,
        now: Instant,
    ) -> bool {
        let before = self.unreachable.insert(ifindex, (networks.clone(), now));
        before.is_some_and(|(other, at)| now.since(at) < TOGETHER && other.is_disjoint(&networks))
    }

    /// Notes that the only router of an uplink does not answer. Returns whether the uplink did not fail before.
    pub(crate) fn handle_router_lost(&mut self, ifindex: u32, now: Instant) -> bool {
        let is_new = !self.failing().contains(&ifindex);
        self.lost.insert(ifindex, now + HELD);
        is_new
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let asking = self.uplinks.values().filter(|uplink| !uplink.is_quiet());
        asking.map(|uplink| uplink.next).chain(self.lost.values().copied()).min()
    }

    /// An uplink that fails and has had nobody to ask for a while: the caller gives it [others](Self::replace).
    pub(crate) fn lacks_targets(&self, now: Instant) -> Option<u32> {
        let lacks = |uplink: &Uplink| match uplink.state {
            State::Failing(failing) => {
                now.since(failing.asked_at.max(uplink.replaced_at)) >= LACKING
            }
            State::Quiet { .. } | State::Asking { .. } => false,
        };
        self.uplinks.iter().find(|(_, uplink)| lacks(uplink)).map(|(ifindex, _)| *ifindex)
    }

    /// Replaces the targets of an uplink that fails.
    pub(crate) fn replace(&mut self, ifindex: u32, targets: Vec<Target>, now: Instant) {
        if let Some(uplink) = self.uplinks.get_mut(&ifindex) {
            (uplink.targets, uplink.replaced_at) = (targets, now);
            uplink.rounds.clear();
        }
    }

    /// Asks the targets that are due with `ask`, which says whether a check has left. Returns whether the failing
    /// uplinks have changed.
    pub(crate) fn handle_timeout(
        &mut self,
        mut ask: impl FnMut(ContextId, LocatorPair) -> bool,
        now: Instant,
    ) -> bool {
        let before = self.failing();
        self.lost.retain(|_, until| *until > now);
        for uplink in self.uplinks.values_mut() {
            if !uplink.is_quiet() && uplink.next <= now {
                uplink.judge(now);
                uplink.ask(&mut ask, now);
            }
        }
        self.failing() != before
    }

    /// Takes the answer of a peer. Returns whether the failing uplinks have changed.
    pub(crate) fn handle_reply(&mut self, reply: Reply, now: Instant) -> bool {
        let before = self.failing();
        for uplink in self.uplinks.values_mut().filter(|uplink| !uplink.is_quiet()) {
            uplink.handle_reply(reply, now);
        }
        self.failing() != before
    }
}

impl Uplink {
    const fn new(now: Instant) -> Self {
        Self {
            targets: Vec::new(),
            rounds: VecDeque::new(),
            state: State::Quiet { until: now },
            next: now,
            asked: 0,
            slowest: [Duration::ZERO; 2],
            failures: 0,
            failed_at: None,
            replaced_at: now,
        }
    }

    fn is_quiet(&self) -> bool {
        matches!(self.state, State::Quiet { .. })
    }

    fn is_failing(&self) -> bool {
        matches!(self.state, State::Failing(Failing { is_unknown: false, .. }))
    }

    fn rest(&mut self, now: Instant) {
        self.state = State::Quiet { until: now + QUIET };
        (self.targets, self.rounds) = (Vec::new(), VecDeque::new());
    }

    fn due(&self) -> Duration {
        let [own, other] = self.slowest;
        (own.max(other) * 2 + MARGIN).clamp(SHORTEST, LONGEST)
    }

    fn ask(&mut self, ask: &mut impl FnMut(ContextId, LocatorPair) -> bool, now: Instant) {
        match &mut self.state {
            State::Quiet { .. } => {}
            State::Asking { .. } => {
                self.next = now + HASTY;
                let mut asked =
                    |target: &Target| target.pairs.map(|pair| ask(target.context, pair));
                let rounds = &mut self.rounds;
                for target in &self.targets {
                    let of_target = rounds.iter().filter(|round| round.target == *target);
                    if of_target.count() < LOST && asked(target) == [true; 2] {
                        rounds.push_back(Round { at: now, target: *target, answered: [false; 2] });
                    }
                }
            }
            State::Failing(failing) => {
                self.next = now + CALM;
                let Some(target) = self.targets.get(self.asked % self.targets.len().max(1)) else {
                    return;
                };
                self.asked = self.asked.wrapping_add(1);
                if target.pairs.map(|pair| ask(target.context, pair)) == [true; 2] {
                    failing.asked_at = now;
                    self.rounds.push_back(Round { at: now, target: *target, answered: [false; 2] });
                }
            }
        }
    }

    fn handle_reply(&mut self, reply: Reply, now: Instant) {
        let is_of = |target: &Target, by: usize| {
            target.context == reply.context && target.pairs.get(by) == Some(&reply.pair)
        };
        for by in [OWN, OTHER] {
            if !self.targets.iter().any(|target| is_of(target, by)) {
                continue;
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
        match &mut self.state {
            State::Failing(failing) if by == OTHER => {
                (failing.other_at, failing.is_unknown) = (now, false);
            }
            // The uplink was slow, not dead.
            State::Failing(failing) if left <= failing.since => self.rest(now),
            State::Failing(failing) => {
                failing.missed = 0;
                failing.good_since.get_or_insert(now);
            }
            State::Asking { since } if by == OWN && left >= *since => self.rest(now),
            State::Asking { .. } if by == OTHER => self.judge_asking(now),
            State::Asking { .. } | State::Quiet { .. } => {}
        }
    }

    fn judge(&mut self, now: Instant) {
        match self.state {
            State::Quiet { .. } => {}
            State::Asking { .. } => self.judge_asking(now),
            State::Failing(_) => self.judge_failing(now),
        }
    }

    /// Decides whether enough peers answer by the other uplink alone. No peer has answered by this one.
    fn judge_asking(&mut self, now: Instant) {
        let State::Asking { since } = self.state else { return };
        let is_witness = |target: &&Target| self.is_witness(target, now);
        if peers(self.targets.iter().filter(is_witness)) >= WITNESSES {
            let is_again = self.failed_at.is_some_and(|at| now.since(at) < REMEMBERED);
            self.failures = if is_again { self.failures.saturating_add(1) } else { 1 };
            self.failed_at = Some(now);
            self.state = State::Failing(Failing {
                since: now,
                good_since: None,
                missed: 0,
                other_at: now,
                is_unknown: false,
                asked_at: now,
            });
            self.rounds.clear();
        } else if now.since(since) >= LONGEST_DOUBT {
            self.rest(now);
        }
    }

    /// Whether a peer has answered no question by the uplink, and goes on answering by the other one.
    fn is_witness(&self, target: &Target, now: Instant) -> bool {
        let due = self.due();
        let rounds = self.rounds.iter().filter(|round| round.target == *target);
        let rounds: Vec<_> = rounds.filter(|round| now.since(round.at) >= due).collect();
        let is_last = |round: &&Round| round.answered[OTHER];
        let is_alive = rounds.iter().rev().take(2).any(is_last);
        rounds.len() >= LOST && is_alive && rounds.iter().all(|round| !round.answered[OWN])
    }

    fn judge_failing(&mut self, now: Instant) {
        let due = self.due();
        let steady = STEADY * (1 << self.failures.saturating_sub(1).min(MOST_DOUBLED));
        let State::Failing(failing) = &mut self.state else { return };
        while let Some(round) = self.rounds.pop_front_if(|round| now.since(round.at) >= due) {
            match round.answered {
                [true, _] => failing.missed = 0,
                [false, true] => failing.missed = failing.missed.saturating_add(1),
                [false, false] => {}
            }
        }
        if failing.missed >= FEW {
            failing.good_since = None;
        }
        failing.is_unknown = now.since(failing.other_at) >= SILENT;
        let is_good = failing.good_since.is_some_and(|since| now.since(since) >= steady);
        if is_good || now.since(failing.asked_at) >= FORGOTTEN {
            self.failed_at = Some(now);
            self.rest(now);
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
const LOST: usize = 4;
/// Shortest time after which an answer counts as missing.
const SHORTEST: Duration = Duration::from_millis(150);
/// Time after which a doubt without a result ends.
const LONGEST_DOUBT: Duration = Duration::from_secs(2);
/// Time after a doubt in which no other doubt about the same uplink begins.
const QUIET: Duration = Duration::from_secs(10);
/// Time within which ICMPv6 errors about two peers are a doubt.
const TOGETHER: Duration = Duration::from_secs(1);
/// Time without an answer by the other uplink after which nothing is known of the failing one.
const SILENT: Duration = Duration::from_secs(3);
/// Time without anybody to ask after which the host looks for other targets.
const LACKING: Duration = Duration::from_secs(2);
/// Time without anybody to ask after which a failing uplink fails no more.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Time for which an uplink fails whose router is lost. The kernel repeats the report as long as it looks for the
/// router.
const HELD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
