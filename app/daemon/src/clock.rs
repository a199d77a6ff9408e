use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moorline_types::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time of `CLOCK_MONOTONIC`, which the eBPF programs also use.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Returns milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Converts a time of the monotonic clock to milliseconds since 1970.
pub(crate) fn unix_ms_of(at: Instant) -> u64 {
    unix_ms().saturating_sub(millis(now().since(at)))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
