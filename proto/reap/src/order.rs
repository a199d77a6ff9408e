//! The order in which pairs are probed (RFC 5534 s4.3).

use alloc::vec::Vec;
use moorline_types::{Locator, LocatorPair};

use crate::config::MAX_LOCATORS;
use crate::random::Random;

/// What a peer says of one of its locators (RFC 5533 s5.15.3); less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// Known not to work: tried last.
    pub is_broken: bool,
    /// Less stable than others.
    pub is_transient: bool,
    /// Of those that are otherwise equal, the lower first.
    pub priority: u8,
}

/// The locators of both sides, and what the peer says of its own: nothing, or something of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets<'a> {
    pub(crate) local: &'a [Locator],
    pub(crate) peer: &'a [Locator],
    pub(crate) ranks: &'a [Rank],
    /// Pairs that we would rather try, the best first.
    pub(crate) order: &'a [LocatorPair],
    /// Pairs that we try last.
    pub(crate) avoided: &'a [LocatorPair],
    /// Pairs that we do not try.
    pub(crate) unrouted: &'a [LocatorPair],
}

/// Index of a local locator and of a peer locator.
type Indices = (u8, u8);

/// Candidate pairs in the order of probing, and where the exploration is in it.
///
/// First the pairs that share neither end with the failed one: the best guess after a failure
/// somewhere on the way. Both sets are shuffled and walked diagonally, so that two pairs in a row
/// share an end only when one side has one locator left. Then the pairs that share one end, last the
/// failed pair itself. Then all over again.
///
/// What the peer calls broken comes after all others. Among pairs that are equal as to what they share
/// with the failed one, our order counts before the peer's, and that before chance. What we avoid comes
/// before what is broken, and after the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pairs: Vec<Indices>,
    cursor: usize,
}

impl Order {
    pub(crate) fn new(sets: Sets<'_>, failed: LocatorPair, random: &mut Random) -> Self {
        let Sets { local, peer, ranks, order, avoided, unrouted } = sets;
        let (local_others, local_failed) = split(local, failed.local, random);
        let (peer_others, peer_failed) = split(peer, failed.peer, random);
        let mut pairs = Vec::with_capacity(local.len() * peer.len());
        diagonal(&local_others, &peer_others, &mut pairs);
        let shared_from = pairs.len();
        for &l in &local_failed {
            pairs.extend(peer_others.iter().map(|&p| (l, p)));
        }
        for &p in &peer_failed {
            pairs.extend(local_others.iter().map(|&l| (l, p)));
        }
        if let Some(shared) = pairs.get_mut(shared_from..) {
            random.shuffle(shared);
        }
        diagonal(&local_failed, &peer_failed, &mut pairs);
        let is_tried = |pair: LocatorPair| is_usable(pair) && !unrouted.contains(&pair);
        pairs.retain(|&indices| resolve(sets, indices).is_some_and(is_tried));
        if !(ranks.is_empty() && order.is_empty() && avoided.is_empty()) {
            pairs.sort_by_key(|&indices| {
                let rank = ranks.get(usize::from(indices.1)).copied().unwrap_or_default();
                let pair = resolve(sets, indices);
                let shared = pair.map_or(0, |pair| pair.shared_ends(failed));
                let place = order.iter().position(|liked| Some(*liked) == pair);
                let is_avoided = pair.is_some_and(|pair| avoided.contains(&pair));
                (rank.is_broken, is_avoided, shared, place.unwrap_or(usize::MAX), rank)
            });
        }
        Self { pairs, cursor: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The pair whose turn it is; the next call gives the one after it.
    pub(crate) fn advance(&mut self, sets: Sets<'_>) -> Option<LocatorPair> {
        let indices = *self.pairs.get(self.cursor % self.pairs.len().max(1))?;
        self.cursor = (self.cursor + 1) % self.pairs.len();
        resolve(sets, indices)
    }

    /// Puts the pairs that `is_new` says are new in front, otherwise keeps the order.
    pub(crate) fn prefer(&mut self, sets: Sets<'_>, is_new: impl Fn(LocatorPair) -> bool) {
        self.pairs.sort_by_key(|&indices| !resolve(sets, indices).is_some_and(&is_new));
        self.cursor = 0;
    }
}

/// Whether packets could go this way at all: no pair of different scope, nothing but unicast.
pub(crate) fn is_usable(pair: LocatorPair) -> bool {
    let is_host = |l: Locator| !(l.0.is_multicast() || l.0.is_unspecified() || l.0.is_loopback());
    is_host(pair.local)
        && is_host(pair.peer)
        && pair.local != pair.peer
        && pair.local.0.is_unicast_link_local() == pair.peer.0.is_unicast_link_local()
}

/// Indices of the locators other than `failed`, shuffled, and the index of `failed`, if there.
fn split(set: &[Locator], failed: Locator, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let indexed = (0u8..).zip(set).take(MAX_LOCATORS);
    let (mut others, mut same) = (Vec::with_capacity(set.len()), Vec::new());
    for (index, &locator) in indexed {
        if locator == failed { same.push(index) } else { others.push(index) }
    }
    random.shuffle(&mut others);
    (others, same)
}

fn diagonal(local: &[u8], peer: &[u8], pairs: &mut Vec<Indices>) {
    for shift in 0..peer.len() {
        let rotated = peer.iter().cycle().skip(shift);
        pairs.extend(local.iter().copied().zip(rotated.copied()));
    }
}

fn resolve(sets: Sets<'_>, (l, p): Indices) -> Option<LocatorPair> {
    Some(LocatorPair::new(*sets.local.get(usize::from(l))?, *sets.peer.get(usize::from(p))?))
}

#[cfg(test)]
mod tests;
