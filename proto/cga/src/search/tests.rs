use super::{
    Engine, Hash2Search,
    input::{Batch, Input, batches},
};
use crate::Sec;
use alloc::{vec, vec::Vec};
use proptest::prelude::*;
use sha1::{Digest, Sha1};
use std::println;

/// Hash2 by its definition, with prefix and collision count zero.
fn hash2(tail: &[u8], modifier: u128) -> u128 {
    let digest = Sha1::new()
        .chain_update(modifier.to_be_bytes())
        .chain_update([0; 9])
        .chain_update(tail)
        .finalize();
    u128::from_be_bytes(*digest.0.first_chunk().unwrap())
}

fn first_word(tail: &[u8], modifier: u128) -> u32 {
    u32::try_from(hash2(tail, modifier) >> 96).unwrap()
}

fn first_hit_by_the_book(tail: &[u8], mask: u32, start: u128, tries: u64) -> Option<u64> {
    (0..tries).find(|&n| first_word(tail, start.wrapping_add(n.into())) & mask == 0)
}

/// A tail that is the same in each run.
fn a_tail(length: usize) -> Vec<u8> {
    (0u8..=255).cycle().map(|n| n.wrapping_mul(31)).take(length).collect()
}

#[test]
fn every_engine_is_named_once_and_the_portable_one_is_last() {
    let engines: Vec<_> = Engine::available().map(Engine::name).collect();
    println!("engines of this machine: {engines:?}");
    assert_eq!(engines.last(), Some(&"portable"));
    assert_eq!(Engine::fastest().name(), engines[0]);
    for (index, name) in engines.iter().enumerate() {
        assert!(!engines[..index].contains(name), "{name}");
    }
}

/// Places hits in each lane and column, in batches that are cut at each place.
#[test]
fn every_engine_finds_every_hit_of_several_batches() {
    const TRIES: u64 = 3 * 1024;
    let tail = a_tail(91);
    // The search crosses the end of the last word, and does not start with a batch.
    let start = (7 << 32) - 1500;
    let is_hit = |&n: &u64| first_word(&tail, start + u128::from(n)) & 0xe000_0000 == 0;
    let expected: Vec<u64> = (0..TRIES).filter(is_hit).collect();
    assert!(expected.len() > 256);
    let input = Input::new(&tail);
    for engine in Engine::available() {
        let mut found = Vec::new();
        let mut tried = 0;
        while let Some(hit) =
            engine.first_hit(&input, 0xe000_0000, start + u128::from(tried), TRIES - tried)
        {
            found.push(tried + hit);
            tried += hit + 1;
        }
        assert_eq!(found, expected, "{engine:?}");
    }
}

#[test]
fn every_engine_looks_at_every_single_try() {
    let input = Input::new(&a_tail(162));
    for engine in Engine::available() {
        for start in 0..2048 {
            assert_eq!(engine.first_hit(&input, 0, start, 1), Some(0), "{engine:?}");
        }
        assert_eq!(engine.first_hit(&input, 0, 5, 0), None, "{engine:?}");
        assert_eq!(engine.first_hit(&input, 0, 5, u64::MAX), Some(0), "{engine:?}");
    }
}

#[test]
fn a_fit_has_the_zero_bits_of_its_sec_and_none_before_it_has() {
    let tail = a_tail(91);
    for engine in Engine::available() {
        let search = Hash2Search::new(&tail, Sec::ONE).with_engine(engine);
        let start = u128::MAX - 10;
        let fit = search.first_fit(start, 1 << 20).unwrap();
        assert_eq!(Some(fit), first_hit_by_the_book(&tail, 0xffff_0000, start, fit + 1));
        assert_eq!(search.first_fit(start, fit), None, "{engine:?}");
        assert_eq!(search.first_fit(start, fit + 1), Some(fit), "{engine:?}");
    }
}

/// Sec 2 asks for the whole first word; a greater Sec asks for words that the engines do not check.
#[test]
fn bits_behind_the_first_word_are_looked_at_too() {
    let tail = a_tail(91);
    assert_eq!(hash2(&tail, FIRST_SEC_2).leading_zeros(), 32);
    for engine in Engine::available() {
        let search = |sec| Hash2Search::new(&tail, sec).with_engine(engine);
        let start = FIRST_SEC_2 - 5000;
        assert_eq!(search(Sec::TWO).first_fit(start, 10_000), Some(5000), "{engine:?}");
        assert_eq!(search(Sec::MAX).first_fit(start, 10_000), None, "{engine:?}");
    }
}

#[test]
fn sec_0_takes_the_first_if_there_is_one() {
    let search = Hash2Search::new(&[], Sec::ZERO);
    assert_eq!(search.first_fit(9, 1), Some(0));
    assert_eq!(search.first_fit(9, 0), None);
}

#[test]
fn blocks_are_those_of_sha_1() {
    for (tail, blocks) in [(0, 1), (30, 1), (31, 2), (91, 2), (102, 3), (162, 4)] {
        assert_eq!(Hash2Search::new(&vec![0; tail], Sec::ONE).blocks(), blocks, "{tail}");
    }
}

#[test]
fn batches_are_aligned_and_only_the_first_and_the_last_are_cut() {
    let whole = |modifier, tried| Batch { modifier, from: 0, to: 8, tried };
    let cut: Vec<_> = batches(13, 20, 8).collect();
    assert_eq!(cut.len(), 4);
    assert_eq!(cut[0], Batch { modifier: 8, from: 5, to: 8, tried: 0 });
    assert_eq!(cut[1..3], [whole(16, 3), whole(24, 11)]);
    assert_eq!(cut[3], Batch { modifier: 32, from: 0, to: 1, tried: 19 });
    assert_eq!(cut[3].offset(0), Some(19));
    assert_eq!(cut[3].offset(1), None);
    let wrapping: Vec<_> = batches(u128::MAX, 2, 8).collect();
    assert_eq!(wrapping[1], Batch { modifier: 0, from: 0, to: 1, tried: 1 });
}

fn starts() -> impl Strategy<Value = u128> {
    prop_oneof![
        any::<u128>(),
        // A modifier that is about to carry into the words before the last.
        (any::<u128>(), 0u128..2000, prop_oneof![Just(32), Just(64), Just(96)])
            .prop_map(|(high, below, shift)| (high << shift).wrapping_sub(below)),
        (0u128..2000).prop_map(|below| u128::MAX - below),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    //= rfc3972#4-5 rfc3972#4-6 (test)
    #[test]
    fn every_engine_agrees_with_the_book(
        tail in prop::collection::vec(any::<u8>(), 0..700),
        start in starts(),
        tries in 0u64..3000,
        zero_bits in 1u32..14,
    ) {
        let mask = !(u32::MAX >> zero_bits);
        let expected = first_hit_by_the_book(&tail, mask, start, tries);
        let input = Input::new(&tail);
        for engine in Engine::available() {
            prop_assert_eq!(engine.first_hit(&input, mask, start, tries), expected, "{:?}", engine);
        }
    }

    #[test]
    fn hash2_of_a_single_try_is_sha_1(
        tail in prop::collection::vec(any::<u8>(), 0..700),
        modifier in any::<u128>(),
    ) {
        prop_assert_eq!(Input::new(&tail).hash2(modifier), hash2(&tail, modifier));
    }

    #[test]
    fn batches_cover_a_search_once(start in starts(), tries in 0u64..5000, bits in 0u32..11) {
        let size = 1 << bits;
        let mut next = 0;
        for batch in batches(start, tries, size) {
            prop_assert_eq!(batch.modifier % size as u128, 0);
            prop_assert_eq!(batch.tried, next);
            for index in 0..size {
                if let Some(offset) = batch.offset(index) {
                    let modifier = batch.modifier + index as u128;
                    prop_assert_eq!(offset, next);
                    prop_assert_eq!(modifier, start.wrapping_add(next.into()));
                    next += 1;
                }
            }
        }
        prop_assert_eq!(next, tries);
    }
}

/// First modifier from 0 on that fits Sec 2, with `a_tail(91)`.
const FIRST_SEC_2: u128 = 1_815_401_111;
