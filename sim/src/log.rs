use std::time::Duration;

use moorline_contexts::Event;
use moorline_types::Instant;

use crate::chart::{Moment, MomentKind};
use crate::workload::Sum;

/// An event of a host's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// Time from the beginning of the run.
    pub at: Duration,
    /// Index of the host.
    pub host: usize,
    /// The event.
    pub event: Event,
}

/// The log of a run: a summary, and a trace on demand.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) events: Vec<HostEvent>,
    pub(crate) packets: u64,
    sum: Sum,
    moments: Option<Vec<Moment>>,
}

impl Log {
    pub(crate) fn new(is_tracing: bool) -> Self {
        Self {
            events: Vec::new(),
            packets: 0,
            sum: Sum::default(),
            moments: is_tracing.then(Vec::new),
        }
    }

    pub(crate) fn event(&mut self, host: usize, event: Event, now: Instant) {
        let at = since_start(now);
        self.sum.add(format!("{at:?} {host} {event:?}").as_bytes());
        self.events.push(HostEvent { at, host, event });
    }

    /// Counts a packet on the wire.
    pub(crate) fn packet(&mut self, octets: &[u8], now: Instant) {
        self.packets += 1;
        self.sum.add_words(&now.as_nanos().to_be_bytes());
        self.sum.add_words(octets);
    }

    pub(crate) fn is_tracing(&self) -> bool {
        self.moments.is_some()
    }

    /// Notes an event at a host.
    pub(crate) fn note(&mut self, now: Instant, host: usize, text: impl FnOnce() -> String) {
        self.moment(now, MomentKind::Note { host }, text);
    }

    pub(crate) fn moment(&mut self, now: Instant, kind: MomentKind, text: impl FnOnce() -> String) {
        if let Some(moments) = &mut self.moments {
            moments.push(Moment { at: since_start(now), kind, text: text() });
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.sum.value()
    }

    pub(crate) fn into_moments(self) -> Vec<Moment> {
        self.moments.unwrap_or_default()
    }
}

/// Converts a point in virtual time to the time since the beginning of the run.
pub(crate) fn since_start(now: Instant) -> Duration {
    now.since(START)
}

/// Converts a time since the beginning of the run to a point in virtual time.
pub(crate) fn instant(at: Duration) -> Instant {
    START + at
}

/// Beginning of a run. It is not zero, because no event is at time zero.
const START: Instant = Instant::from_nanos(1_000_000_000);
