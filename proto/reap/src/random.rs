use core::time::Duration;

use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

/// Randomness of one exploration: nonces, order, jitter.
///
/// A machine keeps its seed only. Each exploration reads its own stream of the seed, so no part of a stream is read
/// twice.
#[derive(Clone)]
pub(crate) struct Random(ChaCha12Rng);

impl Random {
    pub(crate) fn new(seed: [u8; 32], stream: u64) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    //= rfc5534#5.2-10
    pub(crate) fn nonce(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A number below `bound`; zero if `bound` is zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        let scaled = (u64::from(self.0.next_u32()) * bound) >> 32;
        usize::try_from(scaled).unwrap_or(0)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A random time from three quarters of `interval` up to all of it. The result is never longer, so a limit stays a
    /// limit.
    pub(crate) fn jitter(&mut self, interval: Duration) -> Duration {
        let quarter = interval / 4;
        let part = (quarter.as_nanos() * u128::from(self.0.next_u32())) >> 32;
        interval - quarter + Duration::from_nanos(u64::try_from(part).unwrap_or(0))
    }
}

impl core::fmt::Debug for Random {
    /// The state is secret: it gives away the next nonces.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Random(..)")
    }
}
