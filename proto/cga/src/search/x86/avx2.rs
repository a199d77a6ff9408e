//! The portable loops, compiled for AVX2.

use crate::search::{input::Input, portable};

proof!("avx2");

pub(in crate::search) fn first_hit(
    _: Proof,
    input: &Input,
    mask: u32,
    start: u128,
    tries: u64,
) -> Option<u64> {
    // SAFETY: the proof says that AVX2 is there.
    unsafe { first_hit_avx2(input, mask, start, tries) }
}

#[target_feature(enable = "avx2")]
fn first_hit_avx2(input: &Input, mask: u32, start: u128, tries: u64) -> Option<u64> {
    portable::first_hit(input, mask, start, tries)
}
