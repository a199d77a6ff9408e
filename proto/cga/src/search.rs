//! The search for a modifier (RFC 3972 s4 steps 2 and 3, RFC 5535 s6 steps 3 and 4).
//!
//! Tries count up from a starting modifier, and the first modifier that fits is the result. Neither the
//! engine nor the cuts between calls change it.

mod input;
mod lanes;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

use crate::Sec;
use core::fmt;
use input::Input;
#[cfg(target_arch = "x86_64")]
use x86::{avx2, avx512, sha_ni};

/// A search without its starting modifier and its limit on tries.
pub struct Hash2Search {
    input: Input,
    sec: Sec,
    engine: Engine,
}

impl Hash2Search {
    /// `tail` is the part of the parameters behind the collision count: public key and extensions.
    #[must_use]
    pub fn new(tail: &[u8], sec: Sec) -> Self {
        Self { input: Input::new(tail), sec, engine: Engine::fastest() }
    }

    /// The same search with this engine instead of the fastest.
    #[must_use]
    pub fn with_engine(self, engine: Engine) -> Self {
        Self { engine, ..self }
    }

    /// Returns the offset from `start` of the first modifier that fits, among `tries` of them. With Sec 0 all
    /// modifiers fit. Modifiers wrap around.
    //= rfc3972#4-5
    #[must_use]
    pub fn first_fit(&self, start: u128, tries: u64) -> Option<u64> {
        let zero_bits = self.sec.hash2_zero_bits();
        if zero_bits == 0 {
            return (tries > 0).then_some(0);
        }
        let mask = u32::MAX.checked_shl(u32::BITS.saturating_sub(zero_bits)).unwrap_or(u32::MAX);
        let mut tried = 0;
        while tried < tries {
            let from = start.wrapping_add(tried.into());
            let hit = tried + self.engine.first_hit(&self.input, mask, from, tries - tried)?;
            // The engines check one word; Sec may ask for three and a half.
            let hash2 = self.input.hash2(start.wrapping_add(hit.into()));
            if hash2.leading_zeros() >= zero_bits {
                return Some(hit);
            }
            tried = hit + 1;
        }
        None
    }

    /// SHA-1 blocks of one try.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.input.blocks()
    }

    /// The engine that computes the tries.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.engine
    }
}

impl fmt::Debug for Hash2Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input: _, sec, engine } = self;
        f.debug_struct("Hash2Search")
            .field("sec", sec)
            .field("engine", engine)
            .finish_non_exhaustive()
    }
}

/// An implementation of SHA-1 that this machine can run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Engine(Kind);

/// Each kind contains its proof, so that no engine runs on a machine that lacks its instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Proof),
    #[cfg(target_arch = "x86_64")]
    ShaNi(sha_ni::Proof),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Proof),
    Portable,
}

impl Engine {
    /// All engines of this machine, fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        let portable = core::iter::once(Kind::Portable);
        #[cfg(target_arch = "x86_64")]
        let kinds = avx512::Proof::find()
            .map(Kind::Avx512)
            .into_iter()
            .chain(avx2::Proof::find().map(Kind::Avx2))
            .chain(sha_ni::Proof::find().map(Kind::ShaNi))
            .chain(portable);
        #[cfg(not(target_arch = "x86_64"))]
        let kinds = portable;
        kinds.map(Self)
    }

    /// The first of [`Engine::available`].
    #[must_use]
    pub fn fastest() -> Self {
        Self::available().next().unwrap_or(Self(Kind::Portable))
    }

    /// Name of the instructions, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Kind::ShaNi(_) => "SHA-NI",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "AVX2",
            Kind::Portable => "portable",
        }
    }

    fn first_hit(self, input: &Input, mask: u32, start: u128, tries: u64) -> Option<u64> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(proof) => avx512::first_hit(proof, input, mask, start, tries),
            #[cfg(target_arch = "x86_64")]
            Kind::ShaNi(proof) => sha_ni::first_hit(proof, input, mask, start, tries),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(proof) => avx2::first_hit(proof, input, mask, start, tries),
            Kind::Portable => portable::first_hit(input, mask, start, tries),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
