use std::time::Duration;

use moorline_contexts::Event;
use moorline_types::Instant;

use crate::chart::{Moment, MomentKind};
use crate::workload::Sum;

/// Something that a host's core said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// When, from the beginning of the run.
    pub at: Duration,
    /// Which host.
    pub host: usize,
    /// What.
    pub event: Event,
}

/// What happened in a run: always in short, as a trace on demand.
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

    /// A packet on the wire.
    pub(crate) fn packet(&mut self, octets: &[u8], now: Instant) {
        self.packets += 1;
        self.sum.add_words(&now.as_nanos().to_be_bytes());
        self.sum.add_words(octets);
    }

    pub(crate) fn is_tracing(&self) -> bool {
        self.moments.is_some()
    }

    /// A host does or sees something.
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

/// A point in virtual time as a duration from the beginning of the run.
pub(crate) fn since_start(now: Instant) -> Duration {
    now.since(START)
}

/// A point in virtual time from a duration since the beginning.
pub(crate) fn instant(at: Duration) -> Instant {
    START + at
}

/// Zero is never a time at which something happens.
const START: Instant = Instant::from_nanos(1_000_000_000);
