use std::time::Duration;

use serde::Serialize;

/// Repeated measurements in ascending order. Measurements without an end count as longer than all others.
pub(super) struct Samples(Vec<f64>);

impl Samples {
    /// Sorts these samples. `None` is a measurement without an end.
    pub(super) fn of(samples: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Self {
        let endless = |sample: Option<f64>| sample.unwrap_or(f64::INFINITY);
        let mut sorted: Vec<_> = samples.into_iter().map(|one| endless(one.into())).collect();
        sorted.sort_by(f64::total_cmp);
        Self(sorted)
    }

    /// The quantile at `part`, from 0 for the least sample to 1 for the greatest, with linear interpolation. `None`
    /// without samples, or if the quantile has no end.
    pub(super) fn at(&self, part: f64) -> Option<f64> {
        let place = part * self.0.len().checked_sub(1)? as f64;
        let whole = (0..self.0.len()).rfind(|&index| index as f64 <= place)?;
        let (low, rest) = (self.0[whole], place - whole as f64);
        let high = if rest > 0.0 { *self.0.get(whole + 1)? } else { low };
        Some(low + rest * (high - low)).filter(|value| value.is_finite())
    }

    /// Arithmetic mean.
    pub(super) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// Standard deviation of the sample. Zero for a single one.
    pub(super) fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self.0.iter().map(|sample| (sample - mean).powi(2)).sum();
        Some((squares / (self.0.len() as f64 - 1.0).max(1.0)).sqrt())
    }
}

/// The median. `None` without samples.
pub(super) fn median(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    Samples::of(samples).at(0.5)
}

/// A time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Statistics of repeated measurements in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Seconds {
    pub(super) mean_s: Option<f64>,
    pub(super) median_s: Option<f64>,
    stddev_s: Option<f64>,
    min_s: Option<f64>,
    max_s: Option<f64>,
}

impl Seconds {
    pub(super) fn of(samples: impl IntoIterator<Item = f64>) -> Self {
        let samples = Samples::of(samples);
        Self {
            mean_s: samples.mean(),
            median_s: samples.at(0.5),
            stddev_s: samples.stddev(),
            min_s: samples.at(0.0),
            max_s: samples.at(1.0),
        }
    }
}

/// Percentiles of repeated measurements. Measurements without an end count as longer than all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Percentiles {
    /// The 5th percentile. `None` if it has no end.
    pub(super) p5: Option<f64>,
    /// The median. `None` if it has no end.
    pub(super) median: Option<f64>,
    /// The 95th percentile. `None` if it has no end.
    pub(super) p95: Option<f64>,
}

impl Percentiles {
    /// Percentiles of these samples. `None` is a measurement without an end.
    pub(super) fn of(samples: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Self {
        let samples = Samples::of(samples);
        Self { p5: samples.at(0.05), median: samples.at(0.5), p95: samples.at(0.95) }
    }

    /// Low, middle and high value for a chart. An unknown end of the range is drawn at the median. `None` without a
    /// median.
    pub(super) fn range(&self) -> Option<[f64; 3]> {
        let median = self.median?;
        Some([self.p5.unwrap_or(median), median, self.p95.unwrap_or(median)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_samples_and_know_those_without_an_end() {
        let samples: Vec<_> = (0..21).rev().map(|n| Some(f64::from(n))).collect();
        let all = Percentiles::of(samples);
        assert_eq!((all.p5, all.median, all.p95), (Some(1.0), Some(10.0), Some(19.0)));
        let two = Percentiles::of([Some(3.0), Some(1.0)]);
        assert_eq!((two.median, two.p95.map(|p| (p * 10.0).round())), (Some(2.0), Some(29.0)));
        let some = Percentiles::of([Some(2.0), None, Some(1.0)]);
        assert_eq!((some.median, some.p95), (Some(2.0), None));
        assert_eq!(some.range().map(|[_, median, high]| (median, high)), Some((2.0, 2.0)));
        assert_eq!(Percentiles::of([None::<f64>, None]).range(), None);
        assert_eq!(Percentiles::of([None::<f64>, None]).p5, None);
        assert_eq!(Percentiles::of([0.0; 0]), Percentiles::default());
    }

    #[test]
    fn samples_are_summed_up_in_any_order() {
        let samples = Samples::of([4.0, 1.0, 2.0, 5.0]);
        assert_eq!((samples.mean(), samples.at(0.5)), (Some(3.0), Some(3.0)));
        assert_eq!((samples.at(0.0), samples.at(1.0)), (Some(1.0), Some(5.0)));
        assert!((samples.stddev().unwrap() - (10.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(median([3.0, 9.0, 1.0]), Some(3.0));
        let one = Samples::of([7.0]);
        assert_eq!((one.mean(), one.at(0.5), one.stddev()), (Some(7.0), Some(7.0), Some(0.0)));
        let none = Samples::of([0.0; 0]);
        assert_eq!((none.mean(), none.at(0.5), none.stddev()), (None, None, None));
    }
}
