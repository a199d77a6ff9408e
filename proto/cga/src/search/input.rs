use alloc::{vec, vec::Vec};
use core::array::from_fn;
use moorline_wire::consts::CGA_FIXED_LEN;

/// The input of Hash2 without the modifier, with all parts computed that are the same for all tries.
///
/// The modifier is the first field, so no part of the hash is the same for all tries. But the modifier fills
/// only the words 0 to 3 of the first block. The message schedules of the further blocks are constant, and
/// that of the first block is linear over XOR. If two tries differ only in the last word of the modifier,
/// their schedules differ by the schedule of that difference.
pub(super) struct Input {
    first: [u32; 16],
    further: Vec<Block>,
}

/// The message schedule of one block.
pub(super) struct Block {
    /// `W[t]` of FIPS 180-4 s6.1.2.
    pub(super) words: [Words4; ROUNDS / 4],
    /// `W[t] + K[t]`, the word that a round adds.
    pub(super) words_and_constants: [u32; ROUNDS],
}

/// The words of four rounds, last first, in the order of the SHA instructions.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct Words4(pub(super) [u32; 4]);

impl Input {
    /// `tail` is the public key and the extensions.
    pub(super) fn new(tail: &[u8]) -> Self {
        // Prefix and collision count are zero in Hash2.
        let message = CGA_FIXED_LEN + tail.len();
        let mut octets = vec![0; (message + SHA1_PADDING).next_multiple_of(BLOCK)];
        octets[CGA_FIXED_LEN..message].copy_from_slice(tail);
        octets[message] = 0x80;
        let bits = 8 * message as u64;
        let length_at = octets.len() - size_of_val(&bits);
        octets[length_at..].copy_from_slice(&bits.to_be_bytes());
        let (first, further) = octets.split_at(BLOCK);
        let further = further.chunks_exact(BLOCK).map(|block| Block::new(words(block)));
        Self { first: words(first), further: further.collect() }
    }

    /// Words of the first block with this modifier.
    pub(super) fn first(&self, modifier: u128) -> [u32; 16] {
        let mut first = self.first;
        first[..4].copy_from_slice(&split(modifier));
        first
    }

    /// The blocks behind the first.
    pub(super) fn further(&self) -> &[Block] {
        &self.further
    }

    /// SHA-1 blocks of one try.
    pub(super) fn blocks(&self) -> usize {
        1 + self.further.len()
    }

    /// Hash2 of one try, without an engine: its leftmost 128 bits.
    pub(super) fn hash2(&self, modifier: u128) -> u128 {
        let mut state = START;
        let first = Block::new(self.first(modifier));
        for block in core::iter::once(&first).chain(&self.further) {
            let after =
                (0..ROUNDS).fold(state, |now, t| round(now, t, block.words_and_constants[t]));
            state = from_fn(|n| state[n].wrapping_add(after[n]));
        }
        let [a, b, c, d, _] = state.map(u128::from);
        a << 96 | b << 64 | c << 32 | d
    }
}

impl Block {
    pub(super) fn new(first: [u32; 16]) -> Self {
        let mut schedule = Schedule::<1>::new(first.map(|word| [word]));
        schedule.expand();
        let word = |t: usize| schedule.rows[t][0];
        let words = from_fn(|group| Words4([3, 2, 1, 0].map(|t| word(4 * group + t))));
        let words_and_constants = from_fn(|t| word(t).wrapping_add(constant(t)));
        Self { words, words_and_constants }
    }
}

/// Message schedules side by side: row `t` holds `W[t]` of each try.
#[repr(C, align(64))]
pub(super) struct Schedule<const N: usize> {
    pub(super) rows: [[u32; N]; ROUNDS],
}

impl<const N: usize> Schedule<N> {
    /// Schedules whose rows from 16 on are still zero.
    pub(super) fn new(first: [[u32; N]; 16]) -> Self {
        let mut rows = [[0; N]; ROUNDS];
        rows[..16].copy_from_slice(&first);
        Self { rows }
    }

    /// Schedules of blocks that are zero except for word 3, which holds 0, 1, 2 and so on.
    pub(super) fn of_differences() -> Self {
        let mut schedule = Self::new([[0; N]; 16]);
        for (word, n) in schedule.rows[3].iter_mut().zip(0..) {
            *word = n;
        }
        schedule.expand();
        schedule
    }

    /// Computes the rows from 16 on. The loops are plain: a compiler turns them into vector code with all
    /// instructions that the caller's function may use.
    #[inline(always)]
    pub(super) fn expand(&mut self) {
        for t in 16..ROUNDS {
            let [x, y, z, last] = [3, 8, 14, 16].map(|before| &self.rows[t - before]);
            self.rows[t] = from_fn(|n| (x[n] ^ y[n] ^ z[n] ^ last[n]).rotate_left(1));
        }
    }
}

/// A part of the search whose tries differ only in the last bits of the modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// First modifier of the batch, a multiple of the batch size.
    pub(super) modifier: u128,
    /// Tries of the batch that belong to the search: all, except in the first and the last batch.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Number of tries of the search before the batch.
    pub(super) tried: u64,
}

impl Batch {
    /// Offset in the search of an index in the batch, if the index belongs to the search.
    pub(super) fn offset(&self, index: usize) -> Option<u64> {
        let index = index as u64;
        (self.from..self.to).contains(&index).then(|| self.tried + (index - self.from))
    }
}

/// Divides a search of `tries` from `start` on into batches of `size`, a power of two.
pub(super) fn batches(start: u128, tries: u64, size: usize) -> impl Iterator<Item = Batch> {
    let mut tried = 0;
    core::iter::from_fn(move || {
        let left = tries - tried;
        if left == 0 {
            return None;
        }
        let next = start.wrapping_add(tried.into());
        let [.., last] = split(next);
        let from = (last as usize & (size - 1)) as u64;
        let modifier = next - u128::from(from);
        let to = from.saturating_add(left).min(size as u64);
        let batch = Batch { modifier, from, to, tried };
        tried += to - from;
        Some(batch)
    })
}

/// A round of SHA-1 (FIPS 180-4 s6.1.2 step 3).
pub(super) fn round([a, b, c, d, e]: [u32; 5], t: usize, word_and_constant: u32) -> [u32; 5] {
    let f = match t / 20 {
        0 => b & c ^ !b & d,
        2 => b & c ^ b & d ^ c & d,
        _ => b ^ c ^ d,
    };
    let sum = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(word_and_constant);
    [sum, a, b.rotate_left(30), c, d]
}

/// The constant of round `t` (FIPS 180-4 s4.2.1).
pub(super) const fn constant(t: usize) -> u32 {
    [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6][t / 20]
}

/// The modifier as words of the first block.
pub(super) fn split(modifier: u128) -> [u32; 4] {
    words(&modifier.to_be_bytes())
}

fn words<const N: usize>(block: &[u8]) -> [u32; N] {
    from_fn(|t| {
        let octets = &block[4 * t..4 * t + 4];
        octets.iter().fold(0, |word, &octet| word << 8 | u32::from(octet))
    })
}

/// The initial hash value (FIPS 180-4 s5.3.1).
pub(super) const START: [u32; 5] =
    [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
/// Rounds of a block.
pub(super) const ROUNDS: usize = 80;
/// Octets of a block.
const BLOCK: usize = 64;
/// Shortest padding: the end mark and the length.
const SHA1_PADDING: usize = 9;
