//! Random times.

use core::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

/// A time from zero to `most`, both included.
pub(crate) fn up_to(random: &mut ChaCha20Rng, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX - 1);
    Duration::from_nanos(random.next_u64() % nanos.saturating_add(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng as _;

    #[test]
    fn times_fill_their_range_and_no_more() {
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let most = Duration::from_nanos(3);
        let mut seen = [0; 4];
        for _ in 0..200 {
            let nanos = up_to(&mut random, most).as_nanos();
            seen[usize::try_from(nanos).expect("small")] += 1;
        }
        assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
        assert_eq!(up_to(&mut random, Duration::ZERO), Duration::ZERO);
        assert!(up_to(&mut random, Duration::MAX) > Duration::ZERO);
    }
}
