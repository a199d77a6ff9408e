//! SHA-1 in plain loops over tries, which a compiler turns into vector instructions: those that every
//! processor of the target has, or those that a caller has enabled. For such a caller, all functions are
//! inlined.

use super::input::{Input, ROUNDS, START, Schedule, batches, constant};
use core::array;

#[inline(always)]
pub(super) fn first_hit(input: &Input, mask: u32, start: u128, tries: u64) -> Option<u64> {
    let differences = Schedule::<TRIES>::of_differences();
    let (differences, _) = differences.rows.as_chunks::<AT_ONCE>();
    for batch in batches(start, tries, TRIES) {
        let mut base = Schedule::<1>::new(input.first(batch.modifier).map(|word| [word]));
        base.expand();
        let mut state = START.map(|word| [word; TRIES]);
        compress(&mut state, |t| Different {
            base: array::from_fn(|round| base.rows[t + round][0]),
            differences: &differences[t / AT_ONCE],
            constant: constant(t),
        });
        for block in input.further() {
            let words = &block.words_and_constants;
            compress(&mut state, |t| Same(array::from_fn(|round| words[t + round])));
        }
        let mut hits = (0..TRIES).filter(|&index| state[0][index] & mask == 0);
        if let Some(offset) = hits.find_map(|index| batch.offset(index)) {
            return Some(offset);
        }
    }
    None
}

/// One word of each try.
type Words = [u32; TRIES];

/// Words that some rounds add in each try: `W[t] + K[t]`.
trait Added {
    fn word_and_constant(&self, round: usize, n: usize) -> u32;
}

/// Words of the first block, which depend on the modifier.
struct Different<'a> {
    base: [u32; AT_ONCE],
    differences: &'a [Words; AT_ONCE],
    constant: u32,
}

/// Words of a further block.
struct Same([u32; AT_ONCE]);

impl Added for Different<'_> {
    #[inline(always)]
    fn word_and_constant(&self, round: usize, n: usize) -> u32 {
        (self.base[round] ^ self.differences[round][n]).wrapping_add(self.constant)
    }
}

impl Added for Same {
    #[inline(always)]
    fn word_and_constant(&self, round: usize, _: usize) -> u32 {
        self.0[round]
    }
}

/// Compresses one block. `added` returns the words that the rounds from `t` on add.
#[inline(always)]
fn compress<A: Added>(state: &mut [Words; 5], added: impl Fn(usize) -> A) {
    let before = *state;
    for t in (0..ROUNDS).step_by(AT_ONCE) {
        match t / 20 {
            0 => rounds(ch, &added(t), state),
            2 => rounds(maj, &added(t), state),
            _ => rounds(parity, &added(t), state),
        }
    }
    for (words, before) in state.iter_mut().zip(before) {
        for n in 0..TRIES {
            words[n] = words[n].wrapping_add(before[n]);
        }
    }
}

/// Computes some rounds of each try. The state of as many tries as a vector holds stays in registers for all
/// these rounds.
#[inline(always)]
fn rounds(f: impl Fn(u32, u32, u32) -> u32, added: &impl Added, state: &mut [Words; 5]) {
    let [all_a, all_b, all_c, all_d, all_e] = state;
    for n in 0..TRIES {
        let (mut a, mut b, mut c, mut d, mut e) =
            (all_a[n], all_b[n], all_c[n], all_d[n], all_e[n]);
        for round in 0..AT_ONCE {
            let sum = e.wrapping_add(added.word_and_constant(round, n)).wrapping_add(f(b, c, d));
            (a, b, c, d, e) = (sum.wrapping_add(a.rotate_left(5)), a, b.rotate_left(30), c, d);
        }
        (all_a[n], all_b[n], all_c[n], all_d[n], all_e[n]) = (a, b, c, d, e);
    }
}

#[inline(always)]
fn ch(x: u32, y: u32, z: u32) -> u32 {
    x & (y ^ z) ^ z
}

#[inline(always)]
fn parity(x: u32, y: u32, z: u32) -> u32 {
    x ^ y ^ z
}

#[inline(always)]
fn maj(x: u32, y: u32, z: u32) -> u32 {
    x & y | (x | y) & z
}

/// Tries side by side: enough for several vectors, and their words fit the nearest cache.
const TRIES: usize = 64;
/// Rounds of one try before those of the next try.
const AT_ONCE: usize = 10;
