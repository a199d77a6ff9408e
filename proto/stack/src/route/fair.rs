use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::{Hash, Hasher as _};

use moorline_index::{Index, Segments};
use moorline_types::Instant;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;

/// A bounded map. If it is full, a new entry pushes out the oldest entry of the largest group. Among groups of equal size,
/// the group with the oldest entry gives way.
///
/// A look-up reads two lines of memory, with one entry or a million. A change also walks down the trees of ages and sizes.
#[derive(Debug)]
pub(super) struct FairMap<K, V> {
    capacity: u32,
    index: Index,
    slots: Segments<Option<Slot<K, V>>>,
    free: Vec<u32>,
    hash_keys: (u64, u64),
    ages: BTreeSet<(u64, Instant, K)>,
    groups: BTreeMap<u64, Group>,
    /// The groups, the largest last.
    sizes: BTreeSet<(u32, Reverse<Instant>, u64)>,
}

/// A key that belongs to a group.
pub(super) trait Grouped: Ord + Copy + Hash {
    /// The first key in the order of keys.
    const FIRST: Self;

    fn group(&self) -> u64;
}

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    size: u32,
    oldest: Instant,
}

impl<K: Grouped, V> FairMap<K, V> {
    /// A map for this many entries, and for one at least. The random numbers make its hashes unpredictable.
    pub(super) fn new(capacity: usize, random: &mut impl RngCore) -> Self {
        Self {
            capacity: u32::try_from(capacity.max(1)).unwrap_or(u32::MAX - 1),
            index: Index::new(),
            slots: Segments::new(),
            free: Vec::new(),
            hash_keys: (random.next_u64(), random.next_u64()),
            ages: BTreeSet::new(),
            groups: BTreeMap::new(),
            sizes: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        // Most hosts have no redirects, and each packet asks.
        if self.ages.is_empty() {
            return None;
        }
        let slot = self.slots.get(self.find(key, self.hash(key))?)?;
        slot.as_ref().map(|slot| &slot.value)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let at = self.find(key, self.hash(key))?;
        self.slots.get_mut(at)?.as_mut().map(|slot| &mut slot.value)
    }

    /// The entries: by group, and the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.ages.iter().filter_map(|(.., key)| Some((*key, self.get(*key)?)))
    }

    /// Adds or replaces an entry. Returns whether another entry had to go.
    pub(super) fn insert(&mut self, key: K, value: V, now: Instant) -> bool {
        self.remove(key);
        let is_full = self.ages.len() >= self.capacity as usize;
        let victim = self.victim().filter(|_| is_full);
        if let Some(victim) = victim {
            self.remove(victim);
        }
        if let Some(at) = self.fill(Slot { key, value, since: now }) {
            self.index.insert(self.hash(key), at);
            self.ages.insert((key.group(), now, key));
            self.regroup(key.group(), |size| size.saturating_add(1));
        }
        victim.is_some()
    }

    pub(super) fn remove(&mut self, key: K) {
        let hash = self.hash(key);
        let Some(at) = self.find(key, hash) else { return };
        self.index.remove(hash, at);
        if let Some(slot) = self.slots.get_mut(at).and_then(Option::take) {
            self.free.push(at);
            self.ages.remove(&(key.group(), slot.since, key));
            self.regroup(key.group(), |size| size.saturating_sub(1));
        }
    }

    /// Removes the entries that the function names.
    pub(super) fn remove_all(&mut self, is_removed: impl Fn(K, &V) -> bool) {
        let removed = self.iter().filter(|(key, value)| is_removed(*key, value));
        let keys: Vec<K> = removed.map(|(key, _)| key).collect();
        for key in keys {
            self.remove(key);
        }
    }

    /// Puts a slot into a free place.
    fn fill(&mut self, slot: Slot<K, V>) -> Option<u32> {
        let Some(at) = self.free.pop() else { return self.slots.push(Some(slot)) };
        *self.slots.get_mut(at)? = Some(slot);
        Some(at)
    }

    fn find(&self, key: K, hash: u32) -> Option<u32> {
        let is_it = |at| self.slots.get(at).is_some_and(|slot| is_of(slot, key));
        self.index.find(hash, is_it)
    }

    fn hash(&self, key: K) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        key.hash(&mut hasher);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    fn victim(&self) -> Option<K> {
        let (_, _, group) = *self.sizes.last()?;
        self.oldest(group).map(|(_, key)| key)
    }

    fn oldest(&self, group: u64) -> Option<(Instant, K)> {
        let first = (group, Instant::ZERO, K::FIRST);
        let (found, since, key) = *self.ages.range(first..).next()?;
        (found == group).then_some((since, key))
    }

    /// Updates size and age of a group whose entries have changed.
    fn regroup(&mut self, group: u64, change: impl FnOnce(u32) -> u32) {
        let old = self.groups.remove(&group);
        if let Some(old) = old {
            self.sizes.remove(&(old.size, Reverse(old.oldest), group));
        }
        let size = change(old.map_or(0, |old| old.size));
        if let Some((oldest, _)) = self.oldest(group) {
            self.groups.insert(group, Group { size, oldest });
            self.sizes.insert((size, Reverse(oldest), group));
        }
    }
}

fn is_of<K: PartialEq, V>(slot: &Option<Slot<K, V>>, key: K) -> bool {
    slot.as_ref().is_some_and(|slot| slot.key == key)
}

#[cfg(test)]
mod tests;
