//! Uplinks that carry nothing, as peers of contexts show: when a context has left an uplink, several peers are asked by that uplink and by
//! another one at the same moments, each to the same address of the peer.
//!
//! The uplink *fails* when [`WITNESSES`] peers answer by the other uplink alone, and no peer answers by this one. The address is the same, so a
//! peer whose own ISP has failed answers by neither uplink and shows nothing. Peers that share a network of 48 bits are one peer, so no
//! single one can have the host leave an uplink. While the uplink fails, the peers are asked on, one after another. The uplink is used again when they
//! have answered by it for a while, which doubles with each failure.
//!
//! A router that Neighbor Unreachability Detection has given up makes its uplink fail for [`HELD`].

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use moorline_contexts::Reply;
use moorline_types::{ContextId, Instant, LocatorPair};

use crate::health::{CALM, FEW, HASTY, LONGEST, MARGIN, MOST_DOUBLED, REMEMBERED, STEADY};

/// The first 48 bits of an address: a network that is one site's.
pub(crate) type Network = [u16; 3];

/// An address of a peer, which is asked by two uplinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) context: ContextId,
    /// Number of the peer: targets of one peer have the same.
    pub(crate) peer: usize,
    /// By the uplink in doubt, and by another one. The peer's address is the same.
    pub(crate) pairs: [LocatorPair; 2],
    /// How long an answer by the uplink in doubt took before, if that is known; else zero.
    pub(crate) usual: Duration,
}

/// Uplinks that are in doubt, or fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    uplinks: BTreeMap<u32, Uplink>,
    /// Uplinks whose router is lost, and until when that counts.
    lost: BTreeMap<u32, Instant>,
    /// By uplink: the networks of the last peer that ICMPv6 errors said to be unreachable, and when.
    unreachable: BTreeMap<u32, (BTreeSet<Network>, Instant)>,
}

#[derive(Clone, Debug)]
struct Uplink {
    /// Empty: nobody is asked.
    targets: Vec<Target>,
    rounds: VecDeque<Round>,
    state: State,
    next: Instant,
    /// Targets asked so far, for turns.
    asked: usize,
    /// Longest time that an answer by the uplink, and by the other one, has lately taken.
    slowest: [Duration; 2],
    failures: u32,
    failed_at: Option<Instant>,
    /// When targets were last looked for because nobody could be asked.
    replaced_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No doubt is taken up before this time.
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
    /// Since when peers answer by the uplink again.
    good_since: Option<Instant>,
    /// Questions in a row that were answered by the other uplink alone.
    missed: usize,
    /// When a peer last answered by the other uplink.
    other_at: Instant,
    /// No peer answers by the other uplink either: perhaps it is the peers that have failed.
    is_unknown: bool,
    /// When somebody could last be asked.
    asked_at: Instant,
}

/// One target, asked by both pairs.
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

    /// Only these uplinks are there.
    pub(crate) fn follow(&mut self, is_there: impl Fn(u32) -> bool) {
        self.uplinks.retain(|ifindex, _| is_there(*ifindex));
        self.lost.retain(|ifindex, _| is_there(*ifindex));
        self.unreachable.retain(|ifindex, _| is_there(*ifindex));
    }

    /// Whether a doubt about an uplink would be taken up.
    pub(crate) fn is_open_to(&self, ifindex: u32, now: Instant) -> bool {
        self.uplinks.get(&ifindex).is_none_or(|uplink| match uplink.state {
            State::Quiet { until } => until <= now,
            State::Asking { .. } | State::Failing(_) => false,
        })
    }

    /// Begins to ask. With too few peers there is no answer that would count, and nobody is asked.
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

    /// ICMPv6 errors say that a peer with these networks cannot be reached by an uplink. Result: whether another peer was said to be so within a
    /// second, which is a doubt.
    pub(crate) fn handle_unreachable(
        &mut self,
        ifindex: u32,
        networks: BTreeSet<Network>,
        now: Instant,
    ) -> bool {
        let before = self.unreachable.insert(ifindex, (networks.clone(), now));
        before.is_some_and(|(other, at)| now.since(at) < TOGETHER && other.is_disjoint(&networks))
    }

    /// The only router of an uplink does not answer. Result: whether the uplink did not fail before.
    pub(crate) fn handle_router_lost(&mut self, ifindex: u32, now: Instant) -> bool {
        let is_new = !self.failing().contains(&ifindex);
        self.lost.insert(ifindex, now + HELD);
        is_new
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let asking = self.uplinks.values().filter(|uplink| !uplink.is_quiet());
        asking.map(|uplink| uplink.next).chain(self.lost.values().copied()).min()
    }

    /// Whether an uplink that fails has had nobody to ask for a while, so that the caller is to give [others](Self::replace).
    pub(crate) fn lacks_targets(&self, now: Instant) -> Option<u32> {
        let lacks = |uplink: &Uplink| match uplink.state {
            State::Failing(failing) => {
                now.since(failing.asked_at.max(uplink.replaced_at)) >= LACKING
            }
            State::Quiet { .. } | State::Asking { .. } => false,
        };
        self.uplinks.iter().find(|(_, uplink)| lacks(uplink)).map(|(ifindex, _)| *ifindex)
    }

    /// Other targets for an uplink that fails.
    pub(crate) fn replace(&mut self, ifindex: u32, targets: Vec<Target>, now: Instant) {
        if let Some(uplink) = self.uplinks.get_mut(&ifindex) {
            (uplink.targets, uplink.replaced_at) = (targets, now);
            uplink.rounds.clear();
        }
    }

    /// Asks where it is due, by `ask`, which says whether a check has left. Result: whether other uplinks fail than before.
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

    /// A peer has answered. Result: whether other uplinks fail than before.
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
            // An answer to a later check stands for those before.
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
            // The uplink was slow, and is not dead.
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

    /// Whether enough peers answer by the other uplink alone. None has answered by this one.
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

    /// Whether a peer has answered nothing by the uplink, and goes on answering by the other one.
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

/// How many peers there are among these targets.
fn peers<'a>(targets: impl Iterator<Item = &'a Target>) -> usize {
    targets.map(|target| target.peer).collect::<BTreeSet<_>>().len()
}

/// Places in [`Target::pairs`].
const OWN: usize = 0;
const OTHER: usize = 1;
/// Peers that have to show that an uplink carries nothing.
const WITNESSES: usize = 2;
/// Peers that are asked at most, with [`ADDRESSES`] each.
pub(crate) const MOST_PEERS: usize = 4;
/// Addresses of a peer that are asked: its ISP may have failed with ours. A peer answers 20 checks a second, and is asked 16 times.
pub(crate) const ADDRESSES: usize = 2;
/// Questions in a row without an answer by the uplink. At a loss of 5 % each way, those of two peers are lost once in some 100 million doubts.
const LOST: usize = 4;
/// An answer is due after so long at the earliest.
const SHORTEST: Duration = Duration::from_millis(150);
/// A doubt that has led to nothing is given up.
const LONGEST_DOUBT: Duration = Duration::from_secs(2);
/// For so long after a doubt there is no other one about the same uplink.
const QUIET: Duration = Duration::from_secs(10);
/// ICMPv6 errors about two peers within this time are a doubt.
const TOGETHER: Duration = Duration::from_secs(1);
/// Without an answer by the other uplink for so long, nothing is known of the one that fails.
const SILENT: Duration = Duration::from_secs(3);
/// When nobody could be asked for so long, others are looked for.
const LACKING: Duration = Duration::from_secs(2);
/// An uplink that nobody could be asked about for so long fails no more.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// How long an uplink fails whose router is lost. The kernel tells of the loss again as long as it looks for the router.
const HELD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
