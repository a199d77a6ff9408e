use serde::Serialize;
use std::time::Duration;

/// Median and 99th percentile of a number of times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the samples are below, in microseconds.
    pub median_us: f64,
    /// All but one in a hundred are below, in microseconds.
    pub p99_us: f64,
    /// How many there were.
    pub samples: usize,
}

impl Spread {
    /// `None` without samples.
    #[must_use]
    pub fn of(mut samples: Vec<Duration>) -> Option<Self> {
        samples.sort_unstable();
        let at = |per_cent: usize| {
            let index = (samples.len() * per_cent / 100).min(samples.len().checked_sub(1)?);
            samples.get(index).map(|sample| sample.as_secs_f64() * 1e6)
        };
        Some(Self { median_us: at(50)?, p99_us: at(99)?, samples: samples.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples = (1..=200).rev().map(Duration::from_micros).collect();
        let spread = Spread::of(samples).unwrap();
        assert!((spread.median_us - 101.0).abs() < 1e-9, "{spread:?}");
        assert!((spread.p99_us - 199.0).abs() < 1e-9, "{spread:?}");
        assert_eq!(Spread::of(vec![]), None);
    }
}
