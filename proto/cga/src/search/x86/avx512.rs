use crate::search::{
    input::Input,
    lanes::{Lanes, Pair, first_hit as first_hit_in_lanes},
};
use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_rol_epi32, _mm512_set1_epi32, _mm512_ternarylogic_epi32,
    _mm512_testn_epi32_mask, _mm512_xor_si512,
};
use core::mem::transmute;

proof!("avx512f");

pub(in crate::search) fn first_hit(
    proof: Proof,
    input: &Input,
    mask: u32,
    start: u128,
    tries: u64,
) -> Option<u64> {
    // SAFETY: the proof says that AVX-512F is there.
    unsafe { first_hit_avx512(proof, input, mask, start, tries) }
}

#[target_feature(enable = "avx512f")]
fn first_hit_avx512(
    proof: Proof,
    input: &Input,
    mask: u32,
    start: u128,
    tries: u64,
) -> Option<u64> {
    first_hit_in_lanes::<Pair<Words>, 32, 16>(proof, input, mask, start, tries)
}

#[derive(Clone, Copy)]
struct Words(__m512i);

/// Calls an instruction of AVX-512F on existing values, or with a proof at hand.
macro_rules! avx512f {
    ($call:expr) => {
        // SAFETY: values of `Words` are made with a `Proof` alone, which says that AVX-512F is there.
        unsafe { $call }
    };
}

impl Lanes<16> for Words {
    type Proof = Proof;
    #[inline(always)]
    fn splat(_: Proof, word: u32) -> Self {
        Self(avx512f!(_mm512_set1_epi32(word.cast_signed())))
    }
    #[inline(always)]
    fn load(_: Proof, words: &[u32; 16]) -> Self {
        // SAFETY: both are 64 octets, and any octets make a vector.
        Self(unsafe { transmute::<[u32; 16], __m512i>(*words) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(avx512f!(_mm512_add_epi32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(avx512f!(_mm512_xor_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn rotate_left_5(self) -> Self {
        Self(avx512f!(_mm512_rol_epi32::<5>(self.0)))
    }
    #[inline(always)]
    fn rotate_left_30(self) -> Self {
        Self(avx512f!(_mm512_rol_epi32::<30>(self.0)))
    }
    // Truth tables of the functions: bit 4x + 2y + z.
    #[inline(always)]
    fn ch(self, y: Self, z: Self) -> Self {
        Self(avx512f!(_mm512_ternarylogic_epi32::<0b1100_1010>(self.0, y.0, z.0)))
    }
    #[inline(always)]
    fn parity(self, y: Self, z: Self) -> Self {
        Self(avx512f!(_mm512_ternarylogic_epi32::<0b1001_0110>(self.0, y.0, z.0)))
    }
    #[inline(always)]
    fn maj(self, y: Self, z: Self) -> Self {
        Self(avx512f!(_mm512_ternarylogic_epi32::<0b1110_1000>(self.0, y.0, z.0)))
    }
    #[inline(always)]
    fn disjoint(self, mask: Self) -> u32 {
        avx512f!(_mm512_testn_epi32_mask(self.0, mask.0)).into()
    }
}
