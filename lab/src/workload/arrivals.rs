//! Times at which bytes reached the application.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A log of arrivals, shared between the reading thread and its observers.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<(Instant, u64)>,
    total: u64,
}

/// A span without arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last arrival before the gap.
    pub start: Instant,
    /// The first arrival after the gap.
    pub end: Instant,
}

impl Gap {
    /// Length of the gap.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.end.saturating_duration_since(self.start)
    }
}

impl Arrivals {
    /// Logs bytes that arrive now.
    pub fn note(&self, bytes: u64) {
        self.note_at(Instant::now(), bytes);
    }

    fn note_at(&self, at: Instant, bytes: u64) {
        let mut log = self.lock();
        log.total += bytes;
        log.entries.push((at, bytes));
    }

    /// Octets so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Time of the last arrival.
    #[must_use]
    pub fn last(&self) -> Option<Instant> {
        self.lock().entries.last().map(|entry| entry.0)
    }

    /// Arrivals from index `first` on, for a view that shows new arrivals only.
    #[must_use]
    pub fn since(&self, first: usize) -> Vec<(Instant, u64)> {
        self.lock().entries.get(first..).unwrap_or_default().to_vec()
    }

    /// The longest gap that ended after `cut`. So bytes that were still in the receiver at the cut do not count as
    /// recovery.
    #[must_use]
    pub fn longest_gap_after(&self, cut: Instant) -> Option<Gap> {
        let log = self.lock();
        let gaps = log.entries.windows(2).map(|pair| Gap { start: pair[0].0, end: pair[1].0 });
        gaps.filter(|gap| gap.end > cut).max_by_key(Gap::length)
    }

    /// The end of the longest gap after `cut`, if that gap has at least the length `stall`. Else `None`.
    #[must_use]
    pub fn resumed_after(&self, cut: Instant, stall: Duration) -> Option<Instant> {
        self.longest_gap_after(cut).filter(|gap| gap.length() >= stall).map(|gap| gap.end)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // If a reader panicked, the log is right up to that moment.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(start: Instant, times_ms: &[u64]) -> Arrivals {
        let arrivals = Arrivals::default();
        for &ms in times_ms {
            arrivals.note_at(start + Duration::from_millis(ms), 10);
        }
        arrivals
    }

    #[test]
    fn recovery_is_the_end_of_the_silence_and_not_what_was_in_flight() {
        let start = Instant::now();
        let arrivals = log(start, &[0, 10, 20, 32, 2040, 2050]);
        let cut = start + Duration::from_millis(30);
        let gap = arrivals.longest_gap_after(cut).unwrap();
        assert_eq!(gap.end - cut, Duration::from_millis(2010));
        assert_eq!(gap.length(), Duration::from_millis(2008));
    }

    #[test]
    fn a_stall_before_the_cut_is_not_its_fault() {
        let start = Instant::now();
        let arrivals = log(start, &[0, 500, 510, 530, 540]);
        let cut = start + Duration::from_millis(505);
        let gap = arrivals.longest_gap_after(cut).unwrap();
        assert_eq!(gap.end, start + Duration::from_millis(530));
    }

    #[test]
    fn without_an_arrival_after_the_cut_there_is_no_recovery() {
        let start = Instant::now();
        let arrivals = log(start, &[0, 10]);
        assert_eq!(arrivals.longest_gap_after(start + Duration::from_millis(20)), None);
        assert_eq!(arrivals.total(), 20);
    }

    #[test]
    fn a_short_silence_is_no_resumption() {
        let start = Instant::now();
        let arrivals = log(start, &[0, 10, 30]);
        assert_eq!(arrivals.resumed_after(start, Duration::from_millis(100)), None);
        let end = Some(start + Duration::from_millis(30));
        assert_eq!(arrivals.resumed_after(start, Duration::from_millis(20)), end);
    }
}
