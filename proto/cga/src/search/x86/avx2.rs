use crate::search::{
    input::Input,
    lanes::{Lanes, Pair, first_hit as first_hit_in_lanes},
};
use core::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32,
    _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_slli_epi32, _mm256_srli_epi32, _mm256_xor_si256,
};
use core::mem::transmute;

proof!("avx2");

pub(in crate::search) fn first_hit(
    proof: Proof,
    input: &Input,
    mask: u32,
    start: u128,
    tries: u64,
) -> Option<u64> {
    // SAFETY: the proof says that AVX2 is there.
    unsafe { first_hit_avx2(proof, input, mask, start, tries) }
}

#[target_feature(enable = "avx2")]
fn first_hit_avx2(proof: Proof, input: &Input, mask: u32, start: u128, tries: u64) -> Option<u64> {
    first_hit_in_lanes::<Pair<Words>, 16, 16>(proof, input, mask, start, tries)
}

#[derive(Clone, Copy)]
struct Words(__m256i);

/// An instruction of AVX2 on values that exist, or with a proof at hand.
macro_rules! avx2 {
    ($call:expr) => {
        // SAFETY: values of `Words` are made with a `Proof` alone, which says that AVX2 is there.
        unsafe { $call }
    };
}

impl Words {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(avx2!(_mm256_and_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(avx2!(_mm256_or_si256(self.0, other.0)))
    }
}

impl Lanes<8> for Words {
    type Proof = Proof;
    #[inline(always)]
    fn splat(_: Proof, word: u32) -> Self {
        Self(avx2!(_mm256_set1_epi32(word.cast_signed())))
    }
    #[inline(always)]
    fn load(_: Proof, words: &[u32; 8]) -> Self {
        // SAFETY: both are 32 octets, and any octets make a vector.
        Self(unsafe { transmute::<[u32; 8], __m256i>(*words) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(avx2!(_mm256_add_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(avx2!(_mm256_xor_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn rotate_left_5(self) -> Self {
        Self(avx2!(_mm256_slli_epi32::<5>(self.0))).or(Self(avx2!(_mm256_srli_epi32::<27>(self.0))))
    }
    #[inline(always)]
    fn rotate_left_30(self) -> Self {
        Self(avx2!(_mm256_slli_epi32::<30>(self.0))).or(Self(avx2!(_mm256_srli_epi32::<2>(self.0))))
    }
    #[inline(always)]
    fn ch(self, y: Self, z: Self) -> Self {
        self.and(y.xor(z)).xor(z)
    }
    #[inline(always)]
    fn parity(self, y: Self, z: Self) -> Self {
        self.xor(y).xor(z)
    }
    #[inline(always)]
    fn maj(self, y: Self, z: Self) -> Self {
        self.and(y).or(self.or(y).and(z))
    }
    #[inline(always)]
    fn disjoint(self, mask: Self) -> u32 {
        let zero = avx2!(_mm256_cmpeq_epi32(self.and(mask).0, _mm256_setzero_si256()));
        avx2!(_mm256_movemask_ps(_mm256_castsi256_ps(zero))).cast_unsigned()
    }
}
