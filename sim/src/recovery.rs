//! Recovery of traffic, and whether it was possible.
//!
//! An episode lies between two changes of the network. At its beginning the simulator knows which pairs work for the
//! whole episode, and so the time by which each direction of each workload must flow, if at all.

use std::time::Duration;

use moorline_types::Instant;

use crate::workload::Side;

/// The expectation for one direction of a workload in an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expectation {
    /// From this time on payload arrives at least every `patience`; `None` if nothing is promised.
    pub(crate) deadline: Option<Instant>,
    /// Longest pause that loss and retransmission explain.
    pub(crate) patience: Duration,
    /// Whether the pair that the sender used at the beginning does not work any more.
    pub(crate) is_cut: bool,
    /// Whether one host has lost the context that the other uses.
    pub(crate) is_lost: bool,
    /// Whether no pair works, or no context could use one.
    pub(crate) is_hopeless: bool,
    /// Time by which the packets that were under way at the beginning have arrived.
    pub(crate) settled: Instant,
}

/// One direction of a workload.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) workload: usize,
    /// Side at which the payload arrives.
    pub(crate) to: Side,
    /// Time of the last arrival; at first the beginning of the traffic.
    last: Instant,
    /// Beginning of the traffic that has had no pause since.
    flows_since: Instant,
    episode: Option<Episode>,
}

#[derive(Clone, Copy, Debug)]
struct Episode {
    since: Instant,
    expectation: Expectation,
    /// Time of the first arrival of a packet that was not under way at the beginning.
    flows_at: Option<Instant>,
    has_failed: bool,
}

/// A deadline that traffic has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// Beginning of the episode.
    pub(crate) since: Instant,
    /// Deadline of the traffic.
    pub(crate) deadline: Instant,
    /// Time of the last arrival before.
    pub(crate) last: Instant,
}

/// End of an episode for a direction that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Recovered,
    Unrecoverable,
    Unsettled,
}

impl Watch {
    pub(crate) fn new(workload: usize, to: Side, start: Instant) -> Self {
        Self { workload, to, last: start, flows_since: start, episode: None }
    }

    pub(crate) fn last(&self) -> Instant {
        self.last
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.episode?.expectation.deadline
    }

    pub(crate) fn patience(&self) -> Duration {
        self.episode.map_or(Duration::ZERO, |episode| episode.expectation.patience)
    }

    /// Whether nothing is promised, or traffic flows for good.
    pub(crate) fn is_settled(&self, now: Instant) -> bool {
        let Some(episode) = self.episode else { return true };
        let from = self.flows_since.max(episode.since);
        episode.expectation.deadline.is_none()
            || now.since(self.last) <= self.patience() && self.last.since(from) >= FOR_GOOD
    }

    /// Whether one host has lost the context that the other uses.
    pub(crate) fn is_lost(&self) -> bool {
        self.episode.is_some_and(|episode| episode.expectation.is_lost)
    }

    /// Begins an episode, after the one before has ended.
    pub(crate) fn begin(&mut self, expectation: Expectation, now: Instant) {
        self.episode = Some(Episode { since: now, expectation, flows_at: None, has_failed: false });
    }

    /// Notes an arrival.
    pub(crate) fn on_delivery(&mut self, now: Instant) -> Option<Late> {
        let late = self.check(now);
        if now.since(self.last) > self.patience() {
            self.flows_since = now;
        }
        self.last = now;
        if let Some(episode) = &mut self.episode
            && now > episode.expectation.settled
        {
            episode.flows_at.get_or_insert(now);
        }
        late
    }

    /// Time from the beginning of the episode until traffic flowed.
    pub(crate) fn took(&self) -> Option<Duration> {
        let episode = self.episode?;
        Some(episode.flows_at?.since(episode.since))
    }

    /// Promises nothing from now on.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Late> {
        let late = self.check(now);
        if let Some(episode) = &mut self.episode {
            episode.expectation.deadline = None;
        }
        late
    }

    /// Ends the episode.
    pub(crate) fn end(&mut self, now: Instant) -> (Option<Late>, Option<End>) {
        let late = self.check(now);
        let Some(Episode { expectation, has_failed, .. }) = self.episode.take() else {
            return (None, None);
        };
        let end = expectation.is_cut.then(|| {
            let flows =
                self.last > expectation.settled && now.since(self.last) <= expectation.patience;
            match expectation.is_hopeless {
                _ if flows && !has_failed => End::Recovered,
                true => End::Unrecoverable,
                false => End::Unsettled,
            }
        });
        (late, end.filter(|_| !has_failed))
    }

    fn check(&mut self, now: Instant) -> Option<Late> {
        let last = self.last;
        let episode = self.episode.as_mut().filter(|episode| !episode.has_failed)?;
        let deadline = episode.expectation.deadline.filter(|&deadline| now > deadline)?;
        if now.since(last.max(episode.since)) <= episode.expectation.patience {
            return None;
        }
        episode.has_failed = true;
        Some(Late { since: episode.since, deadline, last })
    }
}

/// Time after which traffic that flows is taken to flow for good.
const FOR_GOOD: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn watch(deadline: Option<u64>) -> Watch {
        let mut watch = Watch::new(0, Side::To, at(1));
        watch.on_delivery(at(99));
        let expectation = Expectation {
            deadline: deadline.map(at),
            patience: Duration::from_secs(2),
            is_cut: true,
            is_lost: false,
            is_hopeless: deadline.is_none(),
            settled: at(100),
        };
        watch.begin(expectation, at(100));
        watch
    }

    #[test]
    fn traffic_in_time_is_recovered() {
        let mut watch = watch(Some(120));
        for second in 119..130 {
            assert_eq!(watch.on_delivery(at(second)), None);
        }
        assert_eq!(watch.took(), Some(Duration::from_secs(19)));
        assert_eq!(watch.end(at(131)), (None, Some(End::Recovered)));
    }

    #[test]
    fn traffic_too_late_or_with_a_gap_is_a_violation_once() {
        let mut late = watch(Some(120));
        assert_eq!(late.on_delivery(at(121)).map(|late| late.last), Some(at(99)));
        assert_eq!(late.on_delivery(at(140)), None);
        let mut paused = watch(Some(120));
        assert_eq!(paused.on_delivery(at(119)), None);
        assert_eq!(paused.on_delivery(at(123)).map(|late| late.last), Some(at(119)));
        let (late, end) = watch(Some(120)).end(at(121));
        assert!(late.is_some() && end.is_none());
    }

    #[test]
    fn silence_counts_until_nothing_is_promised_any_more() {
        let mut watch = watch(Some(120));
        assert_eq!(watch.on_delivery(at(120)), None);
        let mut late = watch.clone();
        assert_eq!(watch.release(at(121)), None);
        assert_eq!(watch.end(at(500)).0, None);
        assert_eq!(late.release(at(123)).map(|late| late.last), Some(at(120)));
    }

    #[test]
    fn nothing_is_a_violation_before_the_deadline_or_without_one() {
        assert_eq!(watch(Some(120)).end(at(119)), (None, Some(End::Unsettled)));
        assert_eq!(watch(None).end(at(500)), (None, Some(End::Unrecoverable)));
    }
}
