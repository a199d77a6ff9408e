//! The peers that the host asks about an uplink, each by one context.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use moorline_contexts::Witness;
use moorline_types::{ContextId, Instant, Locator, LocatorPair};

use crate::doubts::{ADDRESSES, MOST_PEERS, Network, Target};
use crate::host::Host;

impl Host {
    /// Takes a doubt about an uplink. The peer of context `first` is asked first. If hosts are asked, no peer is.
    pub(crate) fn doubt(&mut self, ifindex: u32, first: Option<ContextId>, now: Instant) {
        let has_carrier = |ifindex| self.routing.view.uplink(ifindex).is_some_and(|up| up.carrier);
        if !self.health.has_targets() && has_carrier(ifindex) {
            self.doubts.handle_doubt(ifindex, first, now);
            self.ask_others(now);
        }
    }

    /// Begins the doubts that are due, and looks for other peers where those that are asked do not answer.
    pub(crate) fn ask_others(&mut self, now: Instant) {
        while let Some((ifindex, first)) = self.doubts.poll_doubt(now) {
            let targets = self.targets(ifindex, first, now);
            self.doubts.begin(ifindex, targets, now);
        }
        if let Some(ifindex) = self.doubts.lacks_targets(now) {
            let targets = self.targets(ifindex, None, now);
            self.doubts.replace(ifindex, targets, now);
        }
    }

    /// Peers that can be asked about an uplink: the peer of context `first`, then others that take turns. Peers with
    /// locators in a common network count as one.
    fn targets(&mut self, ifindex: u32, first: Option<ContextId>, now: Instant) -> Vec<Target> {
        let failing = &self.failing_uplinks() - &self.doubts.answering_again();
        let mut targets = Vec::new();
        let mut peer = 0;
        for id in self.peers_in_turn(first, now) {
            let pairs = self.pairs_about(ifindex, &failing, id);
            if !pairs.is_empty() && peer < MOST_PEERS {
                targets.extend(pairs.into_iter().filter_map(|pairs| {
                    let other = self.routing.ifindex_of(pairs[1].local.0)?;
                    let usual = pairs.iter().filter_map(|pair| self.shim6.rtt_of(*pair)).max();
                    let usual = usual.unwrap_or_default();
                    Some(Target { context: id, peer, pairs, other, usual })
                }));
                peer += 1;
            }
        }
        targets
    }

    /// A context with each peer, in the order in which peers are asked. Peers that have been heard lately take turns.
    /// Then come the other peers, those heard last first, and then peers whose contexts explore.
    fn peers_in_turn(&mut self, first: Option<ContextId>, now: Instant) -> Vec<ContextId> {
        let mut witnesses = self.shim6.witnesses(first);
        let is_late = |one: &Witness| now.since(one.heard) >= LATELY;
        witnesses.sort_by_key(|one| {
            let is_first = Some(one.context) == first;
            (!is_first, !one.is_ready, is_late(one), Reverse(one.heard), one.context)
        });
        let mut taken = BTreeSet::new();
        witnesses.truncate(MOST_LOOKED_AT);
        witnesses.retain(|one| {
            let networks = self.networks_of(one.context);
            let is_new = networks.is_disjoint(&taken);
            taken.extend(networks);
            is_new
        });
        let begin = witnesses.iter().position(|one| Some(one.context) != first);
        let rest = witnesses.get_mut(begin.unwrap_or_default()..).unwrap_or_default();
        let count = rest.iter().take_while(|one| one.is_ready && !is_late(one)).count();
        let (lately, _) = rest.split_at_mut(count);
        lately.rotate_left(self.turns.checked_rem(count).unwrap_or_default());
        self.turns = self.turns.wrapping_add(MOST_PEERS - 1);
        witnesses.into_iter().map(|one| one.context).collect()
    }

    /// Pairs of a context by an uplink and by another one, if possible one that does not fail, for some addresses of
    /// the peer. The current address comes first.
    fn pairs_about(
        &self,
        ifindex: u32,
        failing: &BTreeSet<u32>,
        id: ContextId,
    ) -> Vec<[LocatorPair; 2]> {
        let Some(known) = self.shim6.context(id).and_then(|context| context.established) else {
            return Vec::new();
        };
        let usable = known.local_locators.iter().filter(|own| self.shim6.usable().contains(own));
        let usable: Vec<Locator> =
            [known.locators.local].into_iter().chain(usable.copied()).collect();
        let by = |own: &Locator| self.routing.ifindex_of(own.0);
        let own = usable.iter().find(|own| by(own) == Some(ifindex));
        let other = |may_fail: bool| {
            let is_other = |by: u32| by != ifindex && (may_fail || !failing.contains(&by));
            usable.iter().find(|own| by(own).is_some_and(is_other))
        };
        // If all others fail, one of them may have begun to answer.
        let other = other(false).or_else(|| other(true));
        let (Some(own), Some(other)) = (own, other) else { return Vec::new() };
        let current = known.locators.peer;
        let rest = known.peer_locators.iter().filter(|peer| **peer != current);
        let peers = [current].into_iter().chain(rest.copied()).take(ADDRESSES);
        peers.map(|peer| [*own, *other].map(|local| LocatorPair::new(local, peer))).collect()
    }

    /// Networks of the locators of a context's peer.
    pub(crate) fn networks_of(&self, id: ContextId) -> BTreeSet<Network> {
        let known = self.shim6.context(id).and_then(|context| context.established);
        let locators = known.map(|known| known.peer_locators).unwrap_or_default();
        locators.iter().map(|peer| network_of(*peer)).collect()
    }
}

/// The first 48 bits of a locator.
fn network_of(locator: Locator) -> Network {
    let [first, second, third, ..] = locator.0.segments();
    [first, second, third]
}

/// Time within which a peer has been heard lately.
const LATELY: Duration = Duration::from_secs(120);
/// Largest number of contexts among which the host looks for peers to ask.
const MOST_LOOKED_AT: usize = 1024;
