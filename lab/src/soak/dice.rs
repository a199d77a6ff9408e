//! Random choices that follow from a seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

/// A source of random choices. Equal seeds give equal choices.
#[derive(Clone, Debug)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `end`, which is not zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.next_u64() % (end as u64)).unwrap_or_default()
    }

    /// True in `percent` of 100 cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these, none of them more often than another one.
    pub(super) fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    pub(super) fn octet(&mut self) -> u8 {
        self.word().to_be_bytes()[0]
    }

    /// A port that is not reserved.
    pub(super) fn port(&mut self) -> u16 {
        let [high, low, ..] = self.word().to_be_bytes();
        u16::from_be_bytes([high, low]) | 1024
    }

    pub(super) fn word(&mut self) -> u32 {
        self.0.next_u32()
    }

    pub(super) fn long(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn octets(&mut self, count: usize) -> Vec<u8> {
        let mut octets = vec![0; count];
        self.0.fill_bytes(&mut octets);
        octets
    }
}
