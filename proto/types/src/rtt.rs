use core::time::Duration;

/// Smoothed round-trip time and its variation, in microseconds, computed as in TCP (RFC 6298 s2); zero: not
/// known.
///
/// The variation of the first sample is one part in `PARTS` of the sample; RFC 6298 s2.2 has 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rtt<const PARTS: u32> {
    smoothed: u32,
    variation: u32,
}

impl<const PARTS: u32> Rtt<PARTS> {
    /// Notes that a message was answered after this time. The message must not have been sent again: its
    /// answer may belong to the first transmission (RFC 6298 s3).
    pub fn observe(&mut self, sample: Duration) {
        let sample = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX).max(1);
        if self.smoothed == 0 {
            (self.smoothed, self.variation) = (sample, sample / PARTS);
            return;
        }
        let off = self.smoothed.abs_diff(sample);
        self.variation = self.variation - self.variation / 4 + off / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
    }

    /// The smoothed time; `None` without a sample.
    #[must_use]
    pub fn known(self) -> Option<Duration> {
        (self.smoothed != 0).then(|| Duration::from_micros(self.smoothed.into()))
    }

    /// Variation of the samples.
    #[must_use]
    pub fn variation(self) -> Duration {
        Duration::from_micros(self.variation.into())
    }

    /// Time to wait for an answer before the message is sent again (RFC 6298 s2.2 and s2.3), without a bound.
    #[must_use]
    pub fn timeout(self) -> Option<Duration> {
        self.known().map(|smoothed| smoothed + self.variation() * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_timeout_is_that_of_rfc_6298() {
        let mut rtt = Rtt::<2>::default();
        assert_eq!((rtt.known(), rtt.timeout()), (None, None));
        rtt.observe(ms(80));
        assert_eq!((rtt.known(), rtt.timeout()), (Some(ms(80)), Some(ms(240))));
        // The last sample contributes a quarter of the variation and an eighth of the time.
        rtt.observe(ms(160));
        assert_eq!((rtt.known(), rtt.variation()), (Some(ms(90)), ms(50)));
        assert_eq!(rtt.timeout(), Some(ms(290)));
        for _ in 0..50 {
            rtt.observe(ms(80));
        }
        let settled = rtt.timeout().expect("known");
        assert!((ms(80)..ms(82)).contains(&settled), "{settled:?}");
    }

    #[test]
    fn samples_of_any_length_are_taken() {
        let mut rtt = Rtt::<8>::default();
        rtt.observe(Duration::ZERO);
        assert_eq!(rtt.known(), Some(Duration::from_micros(1)));
        for sample in [Duration::MAX, Duration::ZERO, Duration::MAX, Duration::MAX] {
            rtt.observe(sample);
            assert!(rtt.known() > Some(Duration::ZERO) && rtt.timeout() >= rtt.known());
        }
        assert_eq!(size_of::<Rtt<2>>(), 8);
    }
}
