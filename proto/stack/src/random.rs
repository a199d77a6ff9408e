//! Random times and choices.

use core::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

/// A time from zero to `most`, both included.
pub(crate) fn up_to(random: &mut ChaCha20Rng, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX - 1);
    Duration::from_nanos(random.next_u64() % nanos.saturating_add(1).max(1))
}

/// An index below `len`, or zero if there is none.
pub(crate) fn up_to_index(random: &mut ChaCha20Rng, len: usize) -> usize {
    let product = u128::from(random.next_u64()) * len as u128;
    usize::try_from(product >> 64).unwrap_or_default()
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
    #[test]
    fn each_index_is_chosen_as_often_as_the_others() {
        let mut random = ChaCha20Rng::seed_from_u64(2);
        let mut seen = [0; 5];
        (0..1_000).for_each(|_| seen[up_to_index(&mut random, 5)] += 1);
        assert!(seen.iter().all(|count| (150..250).contains(count)), "{seen:?}");
        assert_eq!(up_to_index(&mut random, 0), 0);
    }
}
