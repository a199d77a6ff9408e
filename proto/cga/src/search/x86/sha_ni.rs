//! SHA-1 with the SHA extensions. An instruction does four rounds. Several tries run side by side, because
//! each of these instructions waits for the one before in its try.

use crate::search::input::{Batch, Block, Input, START, Words4, batches};
use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_extract_epi32, _mm_set_epi32, _mm_sha1nexte_epu32,
    _mm_sha1rnds4_epu32, _mm_xor_si128,
};
use core::mem::transmute;

proof!("sha", "sse2", "sse4.1");

pub(in crate::search) fn first_hit(
    _: Proof,
    input: &Input,
    mask: u32,
    start: u128,
    tries: u64,
) -> Option<u64> {
    // SAFETY: the proof says that the SHA extensions and SSE4.1 are there.
    unsafe { first_hit_sha_ni(input, mask, start, tries) }
}

#[target_feature(enable = "sha,sse2,sse4.1")]
fn first_hit_sha_ni(input: &Input, mask: u32, start: u128, tries: u64) -> Option<u64> {
    let mut words = [0; 16];
    let differences = core::array::from_fn(|_| {
        let block = Block::new(words);
        words[3] += 1;
        block
    });
    batches(start, tries, BATCH)
        .find_map(|batch| first_hit_of_batch(input, mask, &batch, &differences))
}

#[target_feature(enable = "sha,sse2,sse4.1")]
fn first_hit_of_batch(
    input: &Input,
    mask: u32,
    batch: &Batch,
    differences: &[Block; BATCH],
) -> Option<u64> {
    let base = Block::new(input.first(batch.modifier));
    for (tries, differences) in differences.as_chunks::<STREAMS>().0.iter().enumerate() {
        let mut states = [State::start(); STREAMS];
        compress(&mut states, |stream, group| {
            let difference = vector(&differences[stream].words[group]);
            _mm_xor_si128(vector(&base.words[group]), difference)
        });
        for block in input.further() {
            compress(&mut states, |_, group| vector(&block.words[group]));
        }
        for (stream, state) in states.iter().enumerate() {
            if state.first_word() & mask == 0
                && let offset @ Some(_) = batch.offset(STREAMS * tries + stream)
            {
                return offset;
            }
        }
    }
    None
}

/// The state with its first word in the highest lane.
#[derive(Clone, Copy)]
struct State {
    abcd: __m128i,
    /// The fifth word, in the highest lane; the others are zero.
    e: __m128i,
}

impl State {
    #[target_feature(enable = "sse2")]
    #[inline]
    fn start() -> Self {
        let [a, b, c, d, e] = START.map(u32::cast_signed);
        Self { abcd: _mm_set_epi32(a, b, c, d), e: _mm_set_epi32(e, 0, 0, 0) }
    }

    #[target_feature(enable = "sse4.1")]
    #[inline]
    fn first_word(self) -> u32 {
        _mm_extract_epi32::<3>(self.abcd).cast_unsigned()
    }
}

/// Compresses one block. `words` returns the words of a group of four rounds of a stream.
#[target_feature(enable = "sha,sse2")]
#[inline]
fn compress(states: &mut [State; STREAMS], words: impl Fn(usize, usize) -> __m128i) {
    let before = *states;
    // State from which `e` of the next group is computed.
    let mut last = *states;
    for (stream, state) in states.iter_mut().enumerate() {
        let e = _mm_add_epi32(state.e, words(stream, 0));
        state.abcd = _mm_sha1rnds4_epu32::<0>(state.abcd, e);
    }
    macro_rules! groups {
        ($function:literal, $groups:expr) => {
            for group in $groups {
                for (stream, state) in states.iter_mut().enumerate() {
                    let e = _mm_sha1nexte_epu32(last[stream].abcd, words(stream, group));
                    last[stream].abcd = state.abcd;
                    state.abcd = _mm_sha1rnds4_epu32::<$function>(state.abcd, e);
                }
            }
        };
    }
    groups!(0, 1..5);
    groups!(1, 5..10);
    groups!(2, 10..15);
    groups!(3, 15..20);
    for (stream, state) in states.iter_mut().enumerate() {
        state.e = _mm_sha1nexte_epu32(last[stream].abcd, before[stream].e);
        state.abcd = _mm_add_epi32(state.abcd, before[stream].abcd);
    }
}

#[target_feature(enable = "sse2")]
#[inline]
fn vector(words: &Words4) -> __m128i {
    // SAFETY: both are 16 octets, and any octets make a vector.
    unsafe { transmute::<[u32; 4], __m128i>(words.0) }
}

/// Tries side by side.
const STREAMS: usize = 4;
/// Tries whose schedules are computed from one schedule.
const BATCH: usize = 32;
