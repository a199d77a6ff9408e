use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::plan::Chance;

/// Randomness of the network or of a plan. Hosts have seeds of their own.
#[derive(Debug)]
pub(crate) struct Rng(ChaCha8Rng);

impl Rng {
    /// Makes a generator. Different streams of a seed are independent.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Makes an independent generator.
    pub(crate) fn fork(&mut self) -> Self {
        Self(ChaCha8Rng::from_seed(self.seed()))
    }

    pub(crate) fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        seed
    }

    /// A number below `bound`; zero if `bound` is zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.index(items.len())).copied()
    }

    pub(crate) fn is(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.below(1_000_000) < u64::from(chance.0)
    }

    /// A time from zero up to `limit`.
    pub(crate) fn duration(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + self.duration(most.saturating_sub(least))
    }
}
