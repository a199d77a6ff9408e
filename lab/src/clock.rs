//! One time line for a run. Sockets and daemons both give the monotonic time of this machine.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Now, by `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// The zero of a run's time line.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// The same moment in nanoseconds of `CLOCK_MONOTONIC`, the unit of daemons.
    start_ns: u64,
}

impl Clock {
    /// Starts a time line now.
    #[must_use]
    pub fn start() -> Self {
        let start_ns = u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX);
        Self { start: Instant::now(), start_ns }
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Converts an instant to time since the start. Zero for an instant before the start.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.start)
    }

    /// Converts nanoseconds of `CLOCK_MONOTONIC` to time since the start. Zero for a moment before the start.
    #[must_use]
    pub fn at_ns(&self, monotonic_ns: u64) -> Duration {
        Duration::from_nanos(monotonic_ns.saturating_sub(self.start_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_nanoseconds_are_placed_alike() {
        let clock = Clock::start();
        let later = Duration::from_millis(1500);
        assert_eq!(clock.at(clock.start + later), later);
        assert_eq!(clock.at_ns(clock.start_ns + 1_500_000_000), later);
    }

    #[test]
    fn what_was_before_the_start_is_at_zero() {
        let clock = Clock::start();
        assert_eq!(clock.at_ns(0), Duration::ZERO);
    }
}
