//! Uplinks that carry nothing, found by peers of contexts. When a context or a session has left an uplink, the host asks
//! several peers by that uplink and by another one at the same moments. Both questions go to the same address of the peer.
//!
//! The uplink *fails* if [`WITNESSES`] peers answer by the other uplink alone, and no peer answers by this one. Both
//! questions go to the same address, so a peer whose own ISP has failed answers by neither uplink and shows nothing.
//! Peers in one network of 48 bits count as one peer, so one peer alone cannot make the host leave an uplink. While
//! the uplink fails, the host goes on asking the peers, one after another. The uplink is used again when peers have
//! answered by it for a while, which doubles with each failure; if no other uplink works, an answer is enough. Then
//! the host *watches* it for a while: no context may use the uplink yet, so no context would notice another failure.
//!
//! If no peer answers by either uplink, the host goes on asking, one peer after another. It asks all of them again when
//! a peer answers by the other uplink. If a peer answers by the uplink, and by the other one no peer has for a while, the
//! other one is in doubt.
//!
//! A doubt that comes while the host asks, or within [`QUIET`] after a doubt, waits: an answer to an earlier question
//! does not settle it.
//!
//! If Neighbor Unreachability Detection has given up a router, the router's uplink fails for [`HELD`].

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use moorline_contexts::Reply;
use moorline_types::{ContextId, Instant, LocatorPair};

pub(crate) use asked::{ADDRESSES, MOST_PEERS};
use asked::{State, Uplink};

mod asked;

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
    /// Interface of the other uplink.
    pub(crate) other: u32,
    /// Usual time of an answer, by the uplink that takes longer; zero if it is not known.
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

impl Doubts {
    /// Uplinks that carry nothing.
    pub(crate) fn failing(&self) -> BTreeSet<u32> {
        let failing = self.uplinks.iter().filter(|(_, uplink)| uplink.is_failing());
        failing.map(|(ifindex, _)| *ifindex).chain(self.lost.keys().copied()).collect()
    }

    /// Uplinks that have failed and by which peers answer again, not for long enough yet.
    pub(crate) fn answering_again(&self) -> BTreeSet<u32> {
        let answering = self.uplinks.iter().filter(|(_, uplink)| uplink.answers_again());
        let answering = answering.map(|(ifindex, _)| *ifindex);
        answering.filter(|ifindex| !self.has_lost_router(*ifindex)).collect()
    }

    /// Whether an uplink has failed, and is not used again. The answer says whether peers answer by it again, not for long
    /// enough yet.
    pub(crate) fn failed(&self, ifindex: u32) -> Option<bool> {
        self.uplinks.get(&ifindex)?.failed()
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

    /// Takes a doubt of a context or session about an uplink. The doubt waits until it is [due](Self::poll_doubt). The
    /// uplink's failure settles it, and the answer to a later question.
    pub(crate) fn handle_doubt(&mut self, ifindex: u32, first: Option<ContextId>, now: Instant) {
        let uplink = self.uplinks.entry(ifindex).or_insert_with(|| Uplink::new(now));
        if !matches!(uplink.state, State::Failing(_)) {
            uplink.waiting = Some((first, now));
        }
    }

    /// The next uplink about which a doubt is due, and the context that doubts. The caller [begins](Self::begin).
    pub(crate) fn poll_doubt(&self, now: Instant) -> Option<(u32, Option<ContextId>)> {
        let is_due = |uplink: &&Uplink| uplink.doubt_due().is_some_and(|at| at <= now);
        let mut uplinks = self.uplinks.iter();
        uplinks
            .find_map(|(ifindex, uplink)| Some((*ifindex, Some(uplink).filter(is_due)?.waiting?.0)))
    }

    /// Begins to ask. With too few peers no answer would count, so the host asks nobody.
    pub(crate) fn begin(&mut self, ifindex: u32, targets: Vec<Target>, now: Instant) {
        self.uplinks.entry(ifindex).or_insert_with(|| Uplink::new(now)).begin(targets, now);
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

    /// Notes that the router of an uplink answers. Returns whether the failing uplinks have changed.
    pub(crate) fn handle_router_found(&mut self, ifindex: u32) -> bool {
        self.lost.remove(&ifindex).is_some() && !self.failing().contains(&ifindex)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let asking = self.uplinks.values().filter_map(Uplink::poll_timeout);
        asking.chain(self.lost.values().copied()).min()
    }

    /// An uplink that fails, is watched, or by which no peer answers, without answers for a while: the caller gives it
    /// [other peers](Self::replace).
    pub(crate) fn lacks_targets(&self, now: Instant) -> Option<u32> {
        self.uplinks
            .iter()
            .find(|(_, uplink)| uplink.lacks_targets(now))
            .map(|(ifindex, _)| *ifindex)
    }

    /// Replaces the targets of an uplink that is asked about.
    pub(crate) fn replace(&mut self, ifindex: u32, targets: Vec<Target>, now: Instant) {
        if let Some(uplink) = self.uplinks.get_mut(&ifindex) {
            uplink.replace(targets, now);
        }
    }

    /// Asks the targets that are due with `ask`, which says whether a check has left. Returns whether the failing
    /// uplinks have changed, or those that answer again.
    pub(crate) fn handle_timeout(
        &mut self,
        mut ask: impl FnMut(ContextId, LocatorPair) -> bool,
        now: Instant,
    ) -> bool {
        let before = self.judged();
        self.lost.retain(|_, until| *until > now);
        for uplink in self.uplinks.values_mut() {
            if uplink.next_turn().is_some_and(|at| at <= now) {
                uplink.judge(now);
                uplink.ask(&mut ask, now);
            }
        }
        self.doubt_others(now);
        self.judged() != before
    }

    /// Takes the doubts about uplinks by which no peer answered when they answered by another one again.
    fn doubt_others(&mut self, now: Instant) {
        let others = self.uplinks.values_mut().filter_map(|uplink| uplink.other_doubt.take());
        for (other, context) in others.collect::<Vec<_>>() {
            self.handle_doubt(other, Some(context), now);
        }
    }

    /// Takes the answer of a peer. Returns whether the failing uplinks have changed, or those that answer again.
    pub(crate) fn handle_reply(&mut self, reply: Reply, now: Instant) -> bool {
        let before = self.judged();
        for uplink in self.uplinks.values_mut() {
            uplink.handle_reply(reply, now);
        }
        self.doubt_others(now);
        self.judged() != before
    }

    /// Uplinks that carry nothing, and those of them that may be better than others that carry nothing.
    fn judged(&self) -> [BTreeSet<u32>; 2] {
        [self.failing(), self.answering_again()]
    }
}

/// Time within which ICMPv6 errors about two peers are a doubt.
const TOGETHER: Duration = Duration::from_secs(1);
/// Time after a doubt in which no other doubt about the same uplink begins.
const QUIET: Duration = Duration::from_secs(10);
/// Time for which an uplink fails whose router is lost. The kernel repeats the report as long as it looks for the
/// router.
const HELD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
