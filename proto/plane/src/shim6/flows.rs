use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use moorline_datapath::shim6::TriggerPolicy;
use moorline_types::{Instant, UlidPair};

/// Traffic of address pairs without a context, at most a fixed number of pairs.
///
/// Pairs stand in two lists by last use. A pair enters the list of newcomers, and leaves it for the
/// list of pairs in use with its third packet. Newcomers are pushed out first, and pairs in use have
/// three quarters of the room at most: a scan cannot push them out, and they cannot keep newcomers
/// from being counted.
#[derive(Debug)]
pub struct Flows {
    index: BTreeMap<UlidPair, usize>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    newcomers: List,
    in_use: List,
    capacity: usize,
}

#[derive(Debug)]
struct Node {
    pair: UlidPair,
    flow: Flow,
    /// Packets since it became a newcomer.
    uses: u8,
    is_in_use: bool,
    newer: Option<usize>,
    older: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    first: Instant,
    last: Instant,
    octets: u64,
    packets: u32,
    is_reported: bool,
}

/// Ends of a list through the nodes.
#[derive(Debug, Default)]
struct List {
    newest: Option<usize>,
    oldest: Option<usize>,
    len: usize,
}

impl Flows {
    /// For at most this many pairs, and at least four.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            index: BTreeMap::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            newcomers: List::default(),
            in_use: List::default(),
            capacity: capacity.max(LEAST_CAPACITY),
        }
    }

    /// Counts a packet; true if it is the one with which the pair deserves a context. It will not be
    /// so again before [`forget`](Self::forget), a rearm or an idle time.
    pub fn count(
        &mut self,
        pair: UlidPair,
        octets: usize,
        policy: &TriggerPolicy,
        now: Instant,
    ) -> bool {
        let at = match self.index.get(&pair) {
            Some(&at) => {
                self.unlink(at);
                at
            }
            None => self.insert(pair, now),
        };
        let Some(node) = self.nodes.get_mut(at) else { return false };
        let deserves = node.flow.count(octets, policy, now);
        node.uses = node.uses.saturating_add(1);
        node.is_in_use |= node.uses >= PACKETS_IN_USE;
        self.link_as_newest(at);
        self.demote_beyond_share();
        deserves
    }

    /// The report got lost: the next packet may try again.
    pub(crate) fn unreport(&mut self, pair: UlidPair) {
        if let Some(node) = self.index.get(&pair).and_then(|&at| self.nodes.get_mut(at)) {
            node.flow.is_reported = false;
        }
    }

    /// The pair starts from zero.
    pub fn forget(&mut self, pair: UlidPair) {
        if let Some(at) = self.index.remove(&pair) {
            self.unlink(at);
            self.free.push(at);
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, pair: UlidPair) -> bool {
        self.index.contains_key(&pair)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// A node for a new pair, in no list yet; the least useful pair makes room.
    fn insert(&mut self, pair: UlidPair, now: Instant) -> usize {
        if self.index.len() >= self.capacity {
            let victim = self.newcomers.oldest.or(self.in_use.oldest);
            if let Some(victim) = victim.and_then(|at| self.nodes.get(at)).map(|node| node.pair) {
                self.forget(victim);
            }
        }
        let flow = Flow { first: now, last: now, octets: 0, packets: 0, is_reported: false };
        let node = Node { pair, flow, uses: 0, is_in_use: false, newer: None, older: None };
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(slot) = self.nodes.get_mut(at) {
                    *slot = node;
                }
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        self.index.insert(pair, at);
        at
    }

    fn demote_beyond_share(&mut self) {
        if self.in_use.len <= self.capacity / 4 * 3 {
            return;
        }
        let Some(at) = self.in_use.oldest else { return };
        self.unlink(at);
        if let Some(node) = self.nodes.get_mut(at) {
            node.is_in_use = false;
            node.uses = 0;
        }
        self.link_as_newest(at);
    }

    fn link_as_newest(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        let list = if node.is_in_use { &mut self.in_use } else { &mut self.newcomers };
        node.newer = None;
        node.older = list.newest.replace(at);
        list.oldest.get_or_insert(at);
        list.len += 1;
        if let Some(older) = node.older.and_then(|older| self.nodes.get_mut(older)) {
            older.newer = Some(at);
        }
    }

    fn unlink(&mut self, at: usize) {
        let Some(node) = self.nodes.get(at) else { return };
        let (newer, older) = (node.newer, node.older);
        let list = if node.is_in_use { &mut self.in_use } else { &mut self.newcomers };
        list.len = list.len.saturating_sub(1);
        match newer.and_then(|newer| self.nodes.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => list.newest = older,
        }
        match older.and_then(|older| self.nodes.get_mut(older)) {
            Some(older) => older.newer = newer,
            None => list.oldest = newer,
        }
    }
}

impl Flow {
    fn count(&mut self, octets: usize, policy: &TriggerPolicy, now: Instant) -> bool {
        if now > self.last && now.since(self.last) >= policy.idle {
            *self = Self { first: now, octets: 0, packets: 0, is_reported: false, ..*self };
        }
        self.last = now;
        self.packets = self.packets.saturating_add(1);
        self.octets = self.octets.saturating_add(octets as u64);
        let deserves = self.octets >= policy.bytes
            || self.packets >= policy.packets
            || now.since(self.first) >= policy.age;
        let is_news = deserves && !self.is_reported;
        self.is_reported |= deserves;
        is_news
    }
}

/// Packets, both directions together, that make a pair one in use.
const PACKETS_IN_USE: u8 = 3;
/// With fewer pairs than this there would be no two lists.
const LEAST_CAPACITY: usize = 4;

#[cfg(test)]
mod tests;
