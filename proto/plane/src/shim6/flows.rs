use alloc::collections::BTreeMap;

use moorline_datapath::shim6::TriggerPolicy;
use moorline_types::{Instant, UlidPair};

use crate::shim6::both_ways::{BothWays, Passage, Standing};

/// Traffic of address pairs without a context, for a bounded number of pairs.
///
/// Pairs are in order of last use, newcomers first. With its third packet a newcomer becomes a pair in use. Newcomers
/// are pushed out first. Pairs in use have three quarters of the room at most. So a scan cannot push them out, and
/// they cannot keep newcomers from being counted.
#[derive(Debug)]
pub struct Flows {
    nodes: BTreeMap<UlidPair, Node>,
    /// Pairs by whether they are in use, and by the number of their last packet.
    order: BTreeMap<(bool, u64), UlidPair>,
    /// Number of pairs in use.
    in_use: usize,
    /// Number of packets counted, over all pairs.
    counted: u64,
    capacity: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    flow: Flow,
    /// Packets since the pair became a newcomer.
    uses: u8,
    is_in_use: bool,
    /// Number of the last packet: the place of the pair in the list.
    last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    first: Instant,
    last: Instant,
    octets: u64,
    packets: u32,
    is_reported: bool,
    both_ways: BothWays,
}

impl Flows {
    /// Creates a table for `capacity` pairs, and for four at least.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            nodes: BTreeMap::new(),
            order: BTreeMap::new(),
            in_use: 0,
            counted: 0,
            capacity: capacity.max(LEAST_CAPACITY),
        }
    }

    /// Counts a packet. True if the pair deserves a context with this packet: traffic goes both ways and has reached a
    /// limit. The answer is true once, until [`forget`](Self::forget), a rearm or an idle time.
    pub fn count(
        &mut self,
        pair: UlidPair,
        (octets, passage): (usize, Passage),
        policy: &TriggerPolicy,
        now: Instant,
    ) -> bool {
        let mut node = match self.unlink(pair) {
            Some(node) => node,
            None => {
                self.make_room();
                Node { flow: Flow::new(now), uses: 0, is_in_use: false, last: 0 }
            }
        };
        let deserves = node.flow.count((octets, passage), policy, now);
        node.uses = node.uses.saturating_add(1);
        node.is_in_use |= node.uses >= PACKETS_IN_USE;
        self.link_as_newest(pair, node);
        self.demote_beyond_share();
        deserves
    }

    /// How well the traffic of a pair shows that its peer is at its address.
    pub(crate) fn standing(&self, pair: UlidPair) -> Standing {
        self.nodes.get(&pair).map_or(Standing::Stranger, |node| node.flow.both_ways.standing())
    }

    /// Notes that the report was lost: the next packet may try again.
    pub(crate) fn unreport(&mut self, pair: UlidPair) {
        if let Some(node) = self.nodes.get_mut(&pair) {
            node.flow.is_reported = false;
        }
    }

    /// Makes the traffic of a pair count from zero.
    pub(crate) fn restart(&mut self, pair: UlidPair, now: Instant) {
        if let Some(node) = self.nodes.get_mut(&pair) {
            node.flow = Flow::new(now);
        }
    }

    /// Forgets a pair, which then starts from zero.
    pub fn forget(&mut self, pair: UlidPair) {
        if self.unlink(pair).is_some() {
            self.nodes.remove(&pair);
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, pair: UlidPair) -> bool {
        self.nodes.contains_key(&pair)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Removes the least useful pair if the table is full.
    fn make_room(&mut self) {
        if self.nodes.len() >= self.capacity
            && let Some(&victim) = self.order.values().next()
        {
            self.forget(victim);
        }
    }

    fn demote_beyond_share(&mut self) {
        if self.in_use > self.capacity / 4 * 3
            && let Some((_, &pair)) = self.order.range((true, 0)..).next()
            && let Some(node) = self.unlink(pair)
        {
            self.link_as_newest(pair, Node { is_in_use: false, uses: 0, ..node });
        }
    }

    fn link_as_newest(&mut self, pair: UlidPair, node: Node) {
        self.counted += 1;
        let last = self.counted;
        self.in_use += usize::from(node.is_in_use);
        self.order.insert((node.is_in_use, last), pair);
        self.nodes.insert(pair, Node { last, ..node });
    }

    fn unlink(&mut self, pair: UlidPair) -> Option<Node> {
        let node = *self.nodes.get(&pair)?;
        self.order.remove(&(node.is_in_use, node.last));
        self.in_use -= usize::from(node.is_in_use);
        Some(node)
    }
}

impl Flow {
    fn new(now: Instant) -> Self {
        let both_ways = BothWays::default();
        Self { first: now, last: now, octets: 0, packets: 0, is_reported: false, both_ways }
    }

    fn count(
        &mut self,
        (octets, passage): (usize, Passage),
        policy: &TriggerPolicy,
        now: Instant,
    ) -> bool {
        if now > self.last && now.since(self.last) >= policy.idle {
            *self = Self::new(now);
        }
        self.last = now;
        self.both_ways.note(passage);
        self.packets = self.packets.saturating_add(1);
        self.octets = self.octets.saturating_add(octets as u64);
        let has_reached = self.octets >= policy.bytes
            || self.packets >= policy.packets
            || now.since(self.first) >= policy.age;
        let deserves = has_reached && self.both_ways.standing() >= Standing::BothWays;
        let is_news = deserves && !self.is_reported;
        self.is_reported |= deserves;
        is_news
    }
}

/// Packets of both directions after which a pair is in use.
const PACKETS_IN_USE: u8 = 3;
/// Fewest pairs in a table: with fewer there would be no two lists.
const LEAST_CAPACITY: usize = 4;

#[cfg(test)]
mod tests;
