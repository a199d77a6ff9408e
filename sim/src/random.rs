use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// All that is random in a run.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Below `end`; 0 if that is 0. The bias of the remainder is of no matter here.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// From `least` on, below `end`.
    pub(crate) fn duration(&mut self, least: Duration, end: Duration) -> Duration {
        let width = end.saturating_sub(least).as_nanos();
        least + Duration::from_nanos(self.below(u64::try_from(width).unwrap_or(u64::MAX)))
    }

    /// True with this many chances in a million.
    pub(crate) fn chance(&mut self, ppm: u32) -> bool {
        // Nothing is drawn for what cannot happen: plans that differ in it stay comparable.
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    pub(crate) fn octets<const N: usize>(&mut self) -> [u8; N] {
        let mut octets = [0; N];
        self.0.fill_bytes(&mut octets);
        octets
    }
}
