use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use moorline_types::Instant;

/// A bounded map. If it is full, a new entry pushes out the oldest entry of the largest group. Among groups of equal size,
/// the group with the oldest entry gives way.
#[derive(Debug)]
pub(super) struct FairMap<K, V> {
    capacity: usize,
    entries: BTreeMap<K, (V, Instant)>,
    ages: BTreeSet<(u64, Instant, K)>,
    groups: BTreeMap<u64, Group>,
    /// The groups, the largest last.
    sizes: BTreeSet<(u32, Reverse<Instant>, u64)>,
}

/// A key that belongs to a group.
pub(super) trait Grouped: Ord + Copy {
    /// The first key in the order of keys.
    const FIRST: Self;

    fn group(&self) -> u64;
}

#[derive(Clone, Copy, Debug)]
struct Group {
    size: u32,
    oldest: Instant,
}

impl<K: Grouped, V> FairMap<K, V> {
    /// A map for this many entries, and for one at least.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            entries: BTreeMap::new(),
            ages: BTreeSet::new(),
            groups: BTreeMap::new(),
            sizes: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.entries.get(&key).map(|(value, _)| value)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.entries.get_mut(&key).map(|(value, _)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, (value, _))| (*key, value))
    }

    /// Adds or replaces an entry. Returns whether another entry had to go.
    pub(super) fn insert(&mut self, key: K, value: V, now: Instant) -> bool {
        self.remove(key);
        let victim = self.victim().filter(|_| self.entries.len() >= self.capacity);
        if let Some(victim) = victim {
            self.remove(victim);
        }
        self.entries.insert(key, (value, now));
        self.ages.insert((key.group(), now, key));
        self.regroup(key.group(), |size| size.saturating_add(1));
        victim.is_some()
    }

    pub(super) fn remove(&mut self, key: K) {
        if let Some((_, since)) = self.entries.remove(&key) {
            self.ages.remove(&(key.group(), since, key));
            self.regroup(key.group(), |size| size.saturating_sub(1));
        }
    }

    /// Removes the entries that the function names.
    pub(super) fn remove_all(&mut self, is_removed: impl Fn(K, &V) -> bool) {
        let removed = self.iter().filter(|(key, value)| is_removed(*key, value));
        let keys: alloc::vec::Vec<K> = removed.map(|(key, _)| key).collect();
        for key in keys {
            self.remove(key);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    impl Grouped for u8 {
        const FIRST: Self = 0;

        fn group(&self) -> u64 {
            (*self / 16).into()
        }
    }

    fn at(n: u64) -> Instant {
        Instant::from_nanos(1 + n)
    }

    fn keys(map: &FairMap<u8, ()>) -> Vec<u8> {
        map.iter().map(|(key, ())| key).collect()
    }

    #[test]
    fn the_oldest_of_the_largest_group_goes_first() {
        let mut map = FairMap::new(4);
        for (n, key) in [1, 0x11, 0x13, 0x12].into_iter().enumerate() {
            assert!(!map.insert(key, (), at(u64::try_from(n).expect("small"))));
        }
        assert!(map.insert(0x21, (), at(9)));
        assert_eq!(keys(&map), [1, 0x12, 0x13, 0x21]);
        assert!(!map.insert(0x13, (), at(10)), "a replacement needs no room, and is young");
        map.insert(0x22, (), at(11));
        assert_eq!(keys(&map), [1, 0x13, 0x21, 0x22], "0x12 was the oldest of both large groups");
        map.remove(0x22);
        assert!(!map.insert(0x31, (), at(12)));
        map.insert(0x41, (), at(13));
        assert_eq!(keys(&map), [0x13, 0x21, 0x31, 0x41], "of groups of one, the oldest");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_group_loses_an_entry_only_if_it_is_the_largest(
            ops in prop::collection::vec((any::<u8>(), any::<bool>()), 1..300),
        ) {
            let mut map = FairMap::new(20);
            for (n, (key, is_insert)) in ops.into_iter().enumerate() {
                let before = keys(&map);
                if !is_insert {
                    map.remove(key);
                    prop_assert!(map.get(key).is_none());
                    continue;
                }
                let evicted = map.insert(key, (), at(u64::try_from(n).expect("small")));
                let after = keys(&map);
                prop_assert!(after.contains(&key) && after.len() <= 20);
                let gone: Vec<u8> = before.iter().copied().filter(|key| !after.contains(key)).collect();
                prop_assert_eq!(gone.len(), usize::from(evicted));
                let mut sizes: HashMap<u64, usize> = HashMap::new();
                before.iter().for_each(|key| *sizes.entry(key.group()).or_default() += 1);
                for gone in gone {
                    prop_assert_eq!(before.len(), 20);
                    prop_assert_eq!(sizes.get(&gone.group()), sizes.values().max());
                }
            }
            let total: u32 = map.groups.values().map(|group| group.size).sum();
            prop_assert_eq!(usize::try_from(total).expect("small"), map.entries.len());
            prop_assert_eq!(map.sizes.len(), map.groups.len());
            prop_assert_eq!(map.ages.len(), map.entries.len());
        }
    }
}
