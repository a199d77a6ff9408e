use moorline_cga::Sec;
use std::time::Duration;

/// Progress of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Tries of this run and earlier runs.
    pub tries: u64,
    /// Tries a second of this run.
    pub tries_per_s: f64,
    /// Probability that a search has a result after that many tries: 0 to 1.
    pub probability: f64,
    /// Average time left. A search has no memory, so this time does not decrease.
    pub expected_left: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(sec: Sec, tries: u64, tries_now: u64, elapsed: Duration) -> Self {
        let mean = mean_tries(sec);
        let tries_per_s = tries_now as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        Self {
            tries,
            tries_per_s,
            probability: -(tries as f64 * (-1.0 / mean).ln_1p()).exp_m1(),
            expected_left: Duration::try_from_secs_f64(mean / tries_per_s).ok(),
        }
    }
}

/// Returns the average number of tries, 2^(16 * Sec).
fn mean_tries(sec: Sec) -> f64 {
    2f64.powi(16 * i32::from(sec.value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_searches_end_before_two_thirds_of_the_mean() {
        let progress = Progress::new(Sec::TWO, 1 << 32, 1 << 31, Duration::from_secs(2));
        assert_eq!(progress.tries_per_s, f64::from(1 << 30));
        assert_eq!(progress.expected_left, Some(Duration::from_secs(4)));
        assert!((progress.probability - 0.632).abs() < 0.001, "1 - 1/e after the mean");
        let median = Progress::new(Sec::ONE, 45_426, 0, Duration::ZERO);
        assert!((median.probability - 0.5).abs() < 0.001);
        assert_eq!(median.expected_left, None);
        assert_eq!(Progress::new(Sec::TWO, 0, 0, Duration::ZERO).probability, 0.0);
    }
}
