//! The order in which pairs are probed (RFC 5534 s4.3).

use alloc::vec::Vec;
use moorline_types::{Depths, FEW_LOCATORS, Locator, LocatorPair};

use crate::config::MAX_LOCATORS;
use crate::random::Random;

/// A peer's preference for one of its locators (RFC 5533 s5.15.3). Less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// The locator does not work. It is tried last.
    pub is_broken: bool,
    /// The locator is less stable than others.
    pub is_transient: bool,
    /// Among locators that are otherwise equal, a lower priority comes first.
    pub priority: u8,
}

/// The locators of both sides, and the preferences of the peer: none, or one for each of its locators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets<'a> {
    pub(crate) local: &'a [Locator],
    pub(crate) peer: &'a [Locator],
    pub(crate) ranks: &'a [Rank],
    /// Pairs that this host prefers, the best first.
    pub(crate) order: &'a [LocatorPair],
    /// Pairs that this host tries last.
    pub(crate) avoided: &'a [LocatorPair],
    /// Pairs that this host does not try.
    pub(crate) unrouted: &'a [LocatorPair],
    /// Locators of both sides that are known to work, if there are many locators.
    pub(crate) proven: &'a [Locator],
}

/// How likely a pair works, if there are many locators: see [`Depths`]. Less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Depth {
    /// The larger one of the depths of both ends.
    pub(crate) most: usize,
    /// Their sum.
    pub(crate) sum: usize,
}

/// The depths of pairs.
pub(crate) struct PairDepths([Depths<Locator>; 2]);

impl PairDepths {
    /// `current`: the pair that payload takes, or that has failed.
    pub(crate) fn new(
        local: &[Locator],
        peer: &[Locator],
        current: LocatorPair,
        proven: &[Locator],
    ) -> Self {
        let depths = |all: &[Locator], used| {
            Depths::new(all.iter().copied(), used, |one| proven.contains(&one))
        };
        Self([depths(local, current.local), depths(peer, current.peer)])
    }

    pub(crate) fn of(&self, pair: LocatorPair) -> Depth {
        let [local, peer] = [self.0[0].of(pair.local), self.0[1].of(pair.peer)];
        Depth { most: local.max(peer), sum: local + peer }
    }
}

/// Index of a local locator and of a peer locator.
type Indices = (u8, u8);

/// Candidate pairs in the order of probing, and the position of the exploration.
///
/// First come the pairs that share neither end with the failed pair: the best guess after a failure somewhere on the
/// path. Both sets are shuffled and walked diagonally, so that two consecutive pairs share an end only if one side has
/// one locator left. Then come the pairs that share one end, and last the failed pair itself. Then the walk starts
/// again.
///
/// If one side has many locators, pairs of locators that are known to work come first, with the failed pair. The others
/// follow in the order of the two sets (decision 216).
///
/// Pairs whose peer locator is broken come last. Pairs that this host avoids come before them, and after all others.
/// Among pairs of the same depth that share equally many ends with the failed pair, our order decides first, then the
/// peer's preference, then chance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pairs: Vec<Indices>,
    cursor: usize,
    /// Position of [`Order::advance_within`].
    within: usize,
}

impl Order {
    pub(crate) fn new(sets: Sets<'_>, failed: LocatorPair, random: &mut Random) -> Self {
        let Sets { local, peer, ranks, order, avoided, unrouted, proven } = sets;
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
        let is_many = local.len().max(peer.len()) > FEW_LOCATORS;
        if is_many || !(ranks.is_empty() && order.is_empty() && avoided.is_empty()) {
            let depths = PairDepths::new(local, peer, failed, proven);
            pairs.sort_by_cached_key(|&indices| {
                let rank = ranks.get(usize::from(indices.1)).copied().unwrap_or_default();
                let pair = resolve(sets, indices);
                let shared = pair.map_or(0, |pair| pair.shared_ends(failed));
                let place = order.iter().position(|liked| Some(*liked) == pair);
                let is_avoided = pair.is_some_and(|pair| avoided.contains(&pair));
                let depth = pair.map_or(Depth::default(), |pair| depths.of(pair));
                let place = place.unwrap_or(usize::MAX);
                (rank.is_broken, is_avoided, depth.most, shared, place, rank, depth.sum)
            });
        }
        Self { pairs, cursor: 0, within: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Gives the next pair and moves on.
    pub(crate) fn advance(&mut self, sets: Sets<'_>) -> Option<LocatorPair> {
        let indices = *self.pairs.get(self.cursor % self.pairs.len().max(1))?;
        self.cursor = (self.cursor + 1) % self.pairs.len();
        resolve(sets, indices)
    }

    /// Gives the next pair for which `is_meant` holds. This walk has a position of its own.
    pub(crate) fn advance_within(
        &mut self,
        sets: Sets<'_>,
        is_meant: impl Fn(LocatorPair) -> bool,
    ) -> Option<LocatorPair> {
        let count = self.pairs.len();
        let mut places = (0..count).map(|step| (self.within + step) % count);
        let (place, pair) = places.find_map(|place| {
            let pair = resolve(sets, *self.pairs.get(place)?)?;
            is_meant(pair).then_some((place, pair))
        })?;
        self.within = place + 1;
        Some(pair)
    }

    pub(crate) fn contains(&self, sets: Sets<'_>, pair: LocatorPair) -> bool {
        self.pairs.iter().any(|&indices| resolve(sets, indices) == Some(pair))
    }

    /// Puts the pairs in front for which `is_new` holds. Otherwise the order stays.
    pub(crate) fn prefer(&mut self, sets: Sets<'_>, is_new: impl Fn(LocatorPair) -> bool) {
        self.pairs.sort_by_key(|&indices| !resolve(sets, indices).is_some_and(&is_new));
        self.cursor = 0;
    }
}

/// Whether packets can take this pair at all: both addresses are unicast and have the same scope.
pub(crate) fn is_usable(pair: LocatorPair) -> bool {
    let is_host = |l: Locator| !(l.0.is_multicast() || l.0.is_unspecified() || l.0.is_loopback());
    is_host(pair.local)
        && is_host(pair.peer)
        && pair.local != pair.peer
        && pair.local.0.is_unicast_link_local() == pair.peer.0.is_unicast_link_local()
}

/// Indices of the locators other than `failed`, shuffled, and the index of `failed`, if the set has it.
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
