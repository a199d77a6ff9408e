use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::*;

impl Grouped for u8 {
    const FIRST: Self = 0;

    fn group(&self) -> u64 {
        (*self / 16).into()
    }
}

fn at(n: u64) -> Instant {
    Instant::from_nanos(1 + n)
}

fn map(capacity: usize) -> FairMap<u8, ()> {
    FairMap::new(capacity, &mut ChaCha20Rng::from_seed([1; 32]))
}

fn keys(map: &FairMap<u8, ()>) -> Vec<u8> {
    let keys: BTreeSet<u8> = map.iter().map(|(key, ())| key).collect();
    keys.into_iter().collect()
}

#[test]
fn the_oldest_of_the_largest_group_goes_first() {
    let mut map = map(4);
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
        let mut map = map(20);
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
            let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
            before.iter().for_each(|key| *sizes.entry(key.group()).or_default() += 1);
            for gone in gone {
                prop_assert_eq!(before.len(), 20);
                prop_assert_eq!(sizes.get(&gone.group()), sizes.values().max());
            }
        }
        let total: u32 = map.groups.values().map(|group| group.size).sum();
        prop_assert_eq!(usize::try_from(total).expect("small"), map.ages.len());
        prop_assert_eq!(map.sizes.len(), map.groups.len());
        prop_assert_eq!(map.slots.len() as usize, map.ages.len() + map.free.len());
        prop_assert!(map.iter().count() == map.ages.len(), "each key has a value");
    }
}
