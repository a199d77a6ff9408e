use std::time::Duration;

/// What there is to say about repeated measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// As many are below as above.
    pub median: f64,
    /// Standard deviation of the sample; zero if there is but one.
    pub stddev: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// `None` if nothing was measured.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<_> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        let stddev = (squares / (count - 1.0).max(1.0)).sqrt();
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { mean, median, stddev, min, max })
    }
}

/// As many are below as above; `None` of nothing.
pub(super) fn median(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    Summary::of(samples).map(|summary| summary.median)
}

/// Milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Where repeated measurements lie, with those that came to no end taken for longer than all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Percentiles {
    /// One in twenty is below; none if that has come to no end.
    pub p5: Option<f64>,
    /// As many are below as above.
    pub median: Option<f64>,
    /// One in twenty is above.
    pub p95: Option<f64>,
}

impl Percentiles {
    /// Of these; `None` among them came to no end.
    pub fn of(samples: impl IntoIterator<Item = Option<f64>>) -> Self {
        let endless = |sample: Option<f64>| sample.unwrap_or(f64::INFINITY);
        let mut sorted: Vec<_> = samples.into_iter().map(endless).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * sorted.len().checked_sub(1)? as f64;
            let whole = (0..sorted.len()).rfind(|&index| index as f64 <= place)?;
            let (low, rest) = (sorted[whole], place - whole as f64);
            let high = if rest > 0.0 { *sorted.get(whole + 1)? } else { low };
            let value = low + rest * (high - low);
            value.is_finite().then_some(value)
        };
        Self { p5: at(0.05), median: at(0.5), p95: at(0.95) }
    }

    /// Low, middle and high, for a chart, drawn as far as it is known; none without a middle.
    #[must_use]
    pub fn range(&self) -> Option<[f64; 3]> {
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
        assert_eq!(Percentiles::of([None, None]).range(), None);
        assert_eq!(Percentiles::of([None, None]).p5, None);
        assert_eq!(Percentiles::of([]), Percentiles::default());
    }

    #[test]
    fn samples_are_summed_up_in_any_order() {
        let summary = Summary::of([4.0, 1.0, 2.0, 5.0]).unwrap();
        assert_eq!((summary.mean, summary.median), (3.0, 3.0));
        assert_eq!((summary.min, summary.max), (1.0, 5.0));
        assert!((summary.stddev - (10.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of([3.0, 9.0, 1.0]).unwrap().median, 3.0);
        let one = Summary::of([7.0]).unwrap();
        assert_eq!((one.mean, one.median, one.stddev), (7.0, 7.0, 0.0));
        assert_eq!(Summary::of([]), None);
    }
}
