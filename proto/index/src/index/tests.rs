use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;

/// Spreads numbers as a keyed hash does.
fn hash(n: u32) -> u32 {
    // The last step of MurmurHash3.
    let n = (n ^ n >> 16).wrapping_mul(0x85eb_ca6b);
    let n = (n ^ n >> 13).wrapping_mul(0xc2b2_ae35);
    n ^ n >> 16
}

fn sorted(candidates: Candidates<'_>) -> Vec<u32> {
    let mut slots: Vec<_> = candidates.collect();
    slots.sort_unstable();
    slots
}

#[test]
fn a_line_is_a_line() {
    assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
}

#[test]
fn slots_are_found_by_their_hashes_until_they_are_removed() {
    let mut index = Index::new();
    assert_eq!(index.find(0, |_| true), None);
    for n in 0..100_000 {
        index.insert(hash(n), n);
    }
    assert_eq!(index.len, 100_000);
    assert!((0..100_000).all(|n| index.find(hash(n), |slot| slot == n) == Some(n)));
    assert_eq!(index.find(hash(7), |_| false), None);
    assert!(!index.remove(hash(7), 8), "another slot was named");
    assert!((0..100_000).all(|n| index.remove(hash(n), n)));
    assert!(index.len == 0 && (0..100_000).all(|n| index.find(hash(n), |_| true).is_none()));
}

/// The cost of a look-up and the size of a slot: few lines continue in another one.
#[test]
fn few_lines_are_full_at_any_size() {
    let mut index = Index::new();
    for n in 0..200_000 {
        index.insert(hash(n), n);
        if n % 10_000 == 9_999 {
            let lines = index.lines.len();
            assert!(u64::from(lines) * 7 <= 2 * u64::from(n) + 9, "{lines} lines for {n} slots");
            assert!(index.more.len() * 8 <= lines, "{} of {lines} are full", index.more.len());
        }
    }
}

/// Hashes that are equal, or that fall into one line.
#[test]
fn a_line_goes_on_in_others_and_takes_them_back() {
    let mut index = Index::new();
    for n in 0..100 {
        index.insert(5, n);
    }
    assert_eq!(sorted(index.candidates(5)), Vec::from_iter(0..100));
    let most = index.more.len();
    assert!((10..100).all(|n| index.remove(5, n)));
    assert_eq!(sorted(index.candidates(5)), Vec::from_iter(0..10));
    for n in 10..100 {
        index.insert(5, n);
    }
    assert_eq!(sorted(index.candidates(5)), Vec::from_iter(0..100));
    assert!(index.more.len() <= most + 1, "lines were not used again");
}

proptest! {
    /// Compares the index with a set, with hashes that often collide.
    #[test]
    fn an_index_is_a_set_of_hashes_and_slots(ops in vec((any::<bool>(), 0u32..12, 0u32..40), 0..400)) {
        let mut index = Index::new();
        let mut model = BTreeSet::new();
        for (is_insertion, at, slot) in ops {
            let hash = at << 28 | at;
            if is_insertion {
                if model.insert((hash, slot)) {
                    index.insert(hash, slot);
                }
            } else {
                prop_assert_eq!(index.remove(hash, slot), model.remove(&(hash, slot)));
            }
            prop_assert_eq!(index.len as usize, model.len());
        }
        for at in 0..12 {
            let hash = at << 28 | at;
            let expected: Vec<_> = model.range((hash, 0)..=(hash, 39)).map(|(_, slot)| *slot).collect();
            prop_assert_eq!(sorted(index.candidates(hash)), expected);
        }
    }
}
