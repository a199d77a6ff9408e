use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on the caller's monotonic clock, in nanoseconds since an epoch of its choosing.
///
/// The daemon uses `CLOCK_MONOTONIC`, which the eBPF programs read too; the simulator uses its own clock. No
/// event has the time zero, so tables may use zero for "not yet".
///
/// An `Option` of an instant takes no more room than the instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instant(NonZeroU64);

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// Creates an instant from nanoseconds since the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        match NonZeroU64::MIN.checked_add(nanos) {
            Some(nanos_and_one) => Self(nanos_and_one),
            // The time overflows after 584 years.
            None => Self(NonZeroU64::MAX),
        }
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self::from_nanos(self.as_nanos().saturating_add(nanos))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self::from_nanos(self.as_nanos().saturating_sub(nanos))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:06}s", nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_keep_their_nanoseconds_and_leave_room_for_none() {
        for nanos in [0, 1, 1_000_000_000, u64::MAX - 1] {
            assert_eq!(Instant::from_nanos(nanos).as_nanos(), nanos);
        }
        assert_eq!(Instant::default(), Instant::ZERO);
        assert_eq!(size_of::<Option<Instant>>(), 8);
    }

    #[test]
    fn sums_and_differences_stop_at_the_ends() {
        let second = Duration::from_secs(1);
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(last + second, last);
        assert_eq!(Instant::ZERO - second, Instant::ZERO);
        assert_eq!((Instant::ZERO + second).since(Instant::ZERO), second);
        assert_eq!(Instant::ZERO.since(last), Duration::ZERO);
    }
}
