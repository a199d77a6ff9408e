//! SHA-1 with several modifiers at once, one in each 32-bit lane of a vector.

use super::input::{Batch, Block, Input, START, Schedule, batches, constant, round};

/// Vectors of `N` words.
///
/// Only `splat` and `load` create values, and they need a proof that the processor has the instructions of
/// the other functions.
pub(super) trait Lanes<const N: usize>: Copy {
    /// Proof of the instructions, without a size.
    type Proof: Copy;
    fn splat(proof: Self::Proof, word: u32) -> Self;
    fn load(proof: Self::Proof, words: &[u32; N]) -> Self;
    fn add(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn rotate_left_5(self) -> Self;
    fn rotate_left_30(self) -> Self;
    /// `Ch`, `Parity` and `Maj` of FIPS 180-4 s4.1.1.
    fn ch(self, y: Self, z: Self) -> Self;
    fn parity(self, y: Self, z: Self) -> Self;
    fn maj(self, y: Self, z: Self) -> Self;
    /// Bit `n` is set if lane `n` has no bit in common with `mask`.
    fn disjoint(self, mask: Self) -> u32;
}

/// Returns the offset of the first try whose Hash2 begins with a word that has no bit of `mask`.
///
/// A batch consists of `C` columns of `N` tries. The tries of a column run side by side in the lanes. `W[t]`
/// of a try is `W[t]` of the first try of its column, XORed with `W[t]` of the difference of its lane.
///
/// The function must be inlined into a function that has the instructions of `V` enabled.
#[inline(always)]
pub(super) fn first_hit<V: Lanes<N>, const N: usize, const C: usize>(
    proof: V::Proof,
    input: &Input,
    mask: u32,
    start: u128,
    tries: u64,
) -> Option<u64> {
    let lanes = Schedule::<N>::of_differences();
    for batch in batches(start, tries, N * C) {
        let first = input.first(batch.modifier);
        let mut columns = Schedule::<C>::new(first.map(|word| [word; C]));
        for (word, index) in columns.rows[3].iter_mut().zip((0..).step_by(N)) {
            *word |= index;
        }
        columns.expand();
        let begun =
            (0..3).fold(START, |state, t| round(state, t, first[t].wrapping_add(constant(t))));
        let begun = begun.map(|word| V::splat(proof, word));
        for column in 0..C {
            let try_words = TryWords { lanes: &lanes, columns: &columns, column };
            let mut state = first_block::<V, N, C>(proof, begun, &try_words);
            for block in input.further() {
                state = further_block::<V, N>(proof, state, block);
            }
            let hits = state[0].disjoint(V::splat(proof, mask));
            if hits != 0
                && let Some(offset) = earliest(&batch, column * N, hits)
            {
                return Some(offset);
            }
        }
    }
    None
}

#[cold]
fn earliest(batch: &Batch, index: usize, hits: u32) -> Option<u64> {
    let lanes = (0..u32::BITS as usize).filter(|lane| hits >> lane & 1 == 1);
    lanes.filter_map(|lane| batch.offset(index + lane)).next()
}

/// The words of the first block in a column.
struct TryWords<'a, const N: usize, const C: usize> {
    lanes: &'a Schedule<N>,
    columns: &'a Schedule<C>,
    column: usize,
}

impl<const N: usize, const C: usize> TryWords<'_, N, C> {
    #[inline(always)]
    fn word_and_constant<V: Lanes<N>>(&self, proof: V::Proof, t: usize) -> V {
        let column = V::splat(proof, self.columns.rows[t][self.column]);
        let word = V::load(proof, &self.lanes.rows[t]).xor(column);
        word.add(V::splat(proof, constant(t)))
    }
}

/// One round. The next round uses the names in rotated order.
macro_rules! round {
    ($f:ident, $word:expr, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident) => {
        $e = $e.add($word).add($b.$f($c, $d)).add($a.rotate_left_5());
        $b = $b.rotate_left_30();
    };
}

/// Five rounds, after which the names are in their first order again.
macro_rules! five {
    ($f:ident, $word:expr, $t:expr, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident) => {
        round!($f, $word($t), $a, $b, $c, $d, $e);
        round!($f, $word($t + 1), $e, $a, $b, $c, $d);
        round!($f, $word($t + 2), $d, $e, $a, $b, $c);
        round!($f, $word($t + 3), $c, $d, $e, $a, $b);
        round!($f, $word($t + 4), $b, $c, $d, $e, $a);
    };
}

macro_rules! twenty {
    ($f:ident, $word:expr, $t:expr, $($name:ident),+) => {
        five!($f, $word, $t, $($name),+);
        five!($f, $word, $t + 5, $($name),+);
        five!($f, $word, $t + 10, $($name),+);
        five!($f, $word, $t + 15, $($name),+);
    };
}

/// Compresses the first block. `begun` is the state after round 2, the last state that is the same for the
/// whole batch.
#[inline(always)]
fn first_block<V: Lanes<N>, const N: usize, const C: usize>(
    proof: V::Proof,
    begun: [V; 5],
    words: &TryWords<'_, N, C>,
) -> [V; 5] {
    let word = |t: usize| {
        // Words to which word 3 does not contribute.
        if matches!(t, 4..=16 | 18 | 21 | 24) {
            V::splat(proof, words.columns.rows[t][0].wrapping_add(constant(t)))
        } else {
            words.word_and_constant::<V>(proof, t)
        }
    };
    // Three rounds have rotated the names by three.
    let [mut c, mut d, mut e, mut a, mut b] = begun;
    round!(ch, word(3), c, d, e, a, b);
    round!(ch, word(4), b, c, d, e, a);
    five!(ch, word, 5, a, b, c, d, e);
    five!(ch, word, 10, a, b, c, d, e);
    five!(ch, word, 15, a, b, c, d, e);
    twenty!(parity, word, 20, a, b, c, d, e);
    twenty!(maj, word, 40, a, b, c, d, e);
    twenty!(parity, word, 60, a, b, c, d, e);
    let start = START.map(|word| V::splat(proof, word));
    [a.add(start[0]), b.add(start[1]), c.add(start[2]), d.add(start[3]), e.add(start[4])]
}

#[inline(always)]
fn further_block<V: Lanes<N>, const N: usize>(
    proof: V::Proof,
    state: [V; 5],
    block: &Block,
) -> [V; 5] {
    let word = |t: usize| V::splat(proof, block.words_and_constants[t]);
    let [mut a, mut b, mut c, mut d, mut e] = state;
    twenty!(ch, word, 0, a, b, c, d, e);
    twenty!(parity, word, 20, a, b, c, d, e);
    twenty!(maj, word, 40, a, b, c, d, e);
    twenty!(parity, word, 60, a, b, c, d, e);
    [a.add(state[0]), b.add(state[1]), c.add(state[2]), d.add(state[3]), e.add(state[4])]
}

/// Two vectors as one: the rounds of one use the time in which the other waits.
#[derive(Clone, Copy)]
pub(super) struct Pair<V>(V, V);

impl<V: Lanes<16>> Lanes<32> for Pair<V> {
    type Proof = V::Proof;
    #[inline(always)]
    fn splat(proof: V::Proof, word: u32) -> Self {
        let both = V::splat(proof, word);
        Self(both, both)
    }
    #[inline(always)]
    fn load(proof: V::Proof, words: &[u32; 32]) -> Self {
        let ([first, second], _) = words.as_chunks() else { unreachable!() };
        Self(V::load(proof, first), V::load(proof, second))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.add(other.0), self.1.add(other.1))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0.xor(other.0), self.1.xor(other.1))
    }
    #[inline(always)]
    fn rotate_left_5(self) -> Self {
        Self(self.0.rotate_left_5(), self.1.rotate_left_5())
    }
    #[inline(always)]
    fn rotate_left_30(self) -> Self {
        Self(self.0.rotate_left_30(), self.1.rotate_left_30())
    }
    #[inline(always)]
    fn ch(self, y: Self, z: Self) -> Self {
        Self(self.0.ch(y.0, z.0), self.1.ch(y.1, z.1))
    }
    #[inline(always)]
    fn parity(self, y: Self, z: Self) -> Self {
        Self(self.0.parity(y.0, z.0), self.1.parity(y.1, z.1))
    }
    #[inline(always)]
    fn maj(self, y: Self, z: Self) -> Self {
        Self(self.0.maj(y.0, z.0), self.1.maj(y.1, z.1))
    }
    #[inline(always)]
    fn disjoint(self, mask: Self) -> u32 {
        self.0.disjoint(mask.0) | self.1.disjoint(mask.1) << 16
    }
}
