//! Round-trip time of a pair.

use core::time::Duration;
use moorline_types::Instant;

/// Round-trip time as checks have shown it. Checks come at steady intervals, so one sample says much about the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rtt {
    shown: moorline_types::Rtt<8>,
    /// When the last sample came, in seconds.
    at: u32,
}

impl Rtt {
    pub(crate) fn observe(&mut self, sample: Duration, now: Instant) {
        self.at = seconds(now);
        self.shown.observe(sample);
    }

    /// Whether the last sample is recent enough to tell of the present queues.
    pub(crate) fn is_fresh(self, now: Instant) -> bool {
        self.is_within(RTT_FRESH, now)
    }

    /// Whether the last sample is no older than `age`, to a second.
    pub(crate) fn is_within(self, age: Duration, now: Instant) -> bool {
        self.known().is_some() && u64::from(seconds(now).wrapping_sub(self.at)) <= age.as_secs()
    }

    /// Whether the round-trip time varies so little that it does not lengthen the wait for an answer.
    pub(crate) fn is_steady(self) -> bool {
        self.shown.variation() * 4 <= self.known().unwrap_or_default() / 2 + MARGIN
    }

    pub(crate) fn known(self) -> Option<Duration> {
        self.shown.known()
    }

    /// Largest delay of a queue that may have filled since the last check.
    pub(crate) fn unseen_queue(self) -> Duration {
        self.known().unwrap_or_default() * UNSEEN_QUEUE
    }

    /// Time within which an answer comes, if one comes.
    pub(crate) fn due(self) -> Option<Duration> {
        let rtt = self.known()?;
        let spread = self.shown.variation() * 4;
        Some((rtt + spread.max(rtt / 2 + MARGIN)).max(LEAST_DUE))
    }
}

/// Seconds since the zero of the clock. The value wraps after a century, which does no harm.
fn seconds(at: Instant) -> u32 {
    u32::try_from(at.since(Instant::ZERO).as_secs() & u64::from(u32::MAX)).unwrap_or(0)
}

/// Age up to which a sample tells of the present queues: 10 s. Queues fill and empty within some seconds.
const RTT_FRESH: Duration = Duration::from_secs(10);
/// Time for the hosts themselves, on top of half a round trip: 10 ms.
const MARGIN: Duration = Duration::from_millis(10);
const LEAST_DUE: Duration = Duration::from_millis(20);
/// Delay that a queue may add, in round trips: 10.
const UNSEEN_QUEUE: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_due_soon_on_a_steady_path_and_later_on_an_unsteady_one() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::default();
        assert_eq!((rtt.known(), rtt.due()), (None, None));
        let now = Instant::ZERO + ms(1000);
        rtt.observe(ms(1), now);
        assert_eq!(rtt.due(), Some(ms(20)));
        assert!(rtt.is_fresh(now + ms(10_000)) && !rtt.is_fresh(now + ms(11_000)));
        let mut rtt = Rtt::default();
        assert!(!rtt.is_fresh(now));
        rtt.observe(ms(80), now);
        assert_eq!(rtt.due(), Some(ms(130)));
        assert!(rtt.is_steady());
        rtt.observe(ms(400), now);
        assert!(!rtt.is_steady());
        assert!(rtt.due().expect("known") > ms(400), "{rtt:?}");
    }
}
