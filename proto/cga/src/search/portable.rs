//! SHA-1 in plain loops over tries, which compilers turn into the vector instructions that every
//! processor of the target has.

use super::input::{Block, Input, ROUNDS, START, Schedule, batches, constant};

pub(super) fn first_hit(input: &Input, mask: u32, start: u128, tries: u64) -> Option<u64> {
    let differences = Schedule::<TRIES>::of_differences();
    for batch in batches(start, tries, TRIES) {
        let base = Block::new(input.first(batch.modifier));
        let mut state = START.map(|word| [word; TRIES]);
        compress(&mut state, |t| {
            let word = base.word(t);
            differences.rows[t].map(|difference| (word ^ difference).wrapping_add(constant(t)))
        });
        for block in input.further() {
            compress(&mut state, |t| [block.words_and_constants[t]; TRIES]);
        }
        let mut hits = (0..TRIES).filter(|&index| state[0][index] & mask == 0);
        if let Some(offset) = hits.find_map(|index| batch.offset(index)) {
            return Some(offset);
        }
    }
    None
}

/// One word of every try.
type Words = [u32; TRIES];

#[inline(always)]
fn compress(state: &mut [Words; 5], word_and_constant: impl Fn(usize) -> Words) {
    let before = *state;
    for t in (0..ROUNDS).step_by(5) {
        let [a, b, c, d, e] = state;
        let word = |n: usize| word_and_constant(t + n);
        match t / 20 {
            0 => five(ch, word, a, b, c, d, e),
            2 => five(maj, word, a, b, c, d, e),
            _ => five(parity, word, a, b, c, d, e),
        }
    }
    for (words, before) in state.iter_mut().zip(before) {
        for n in 0..TRIES {
            words[n] = words[n].wrapping_add(before[n]);
        }
    }
}

/// Five rounds, after which the names are back where they were.
#[inline(always)]
fn five(
    f: impl Fn(u32, u32, u32) -> u32,
    word: impl Fn(usize) -> Words,
    a: &mut Words,
    b: &mut Words,
    c: &mut Words,
    d: &mut Words,
    e: &mut Words,
) {
    round(&f, &word(0), a, b, c, d, e);
    round(&f, &word(1), e, a, b, c, d);
    round(&f, &word(2), d, e, a, b, c);
    round(&f, &word(3), c, d, e, a, b);
    round(&f, &word(4), b, c, d, e, a);
}

#[inline(never)]
fn round(
    f: &impl Fn(u32, u32, u32) -> u32,
    word: &Words,
    a: &Words,
    b: &mut Words,
    c: &Words,
    d: &Words,
    e: &mut Words,
) {
    for n in 0..TRIES {
        let sum = e[n].wrapping_add(word[n]).wrapping_add(f(b[n], c[n], d[n]));
        e[n] = sum.wrapping_add(a[n].rotate_left(5));
        b[n] = b[n].rotate_left(30);
    }
}

fn ch(x: u32, y: u32, z: u32) -> u32 {
    x & (y ^ z) ^ z
}

fn parity(x: u32, y: u32, z: u32) -> u32 {
    x ^ y ^ z
}

fn maj(x: u32, y: u32, z: u32) -> u32 {
    x & y | (x | y) & z
}

/// Tries side by side: enough for several vectors, and their words stay in the nearest cache.
const TRIES: usize = 32;
