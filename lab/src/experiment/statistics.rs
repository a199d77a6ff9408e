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
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up_in_any_order() {
        let summary = Summary::of(&[4.0, 1.0, 2.0, 5.0]).unwrap();
        assert_eq!((summary.mean, summary.median), (3.0, 3.0));
        assert_eq!((summary.min, summary.max), (1.0, 5.0));
        assert!((summary.stddev - (10.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[3.0, 9.0, 1.0]).unwrap().median, 3.0);
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.median, one.stddev), (7.0, 7.0, 0.0));
        assert_eq!(Summary::of(&[]), None);
    }
}
