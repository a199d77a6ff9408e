use std::time::Duration;

use moorline_host::Event;
use moorline_types::Instant;

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
    lines: Option<Vec<String>>,
}

impl Log {
    pub(crate) fn new(is_tracing: bool) -> Self {
        Self { events: Vec::new(), packets: 0, sum: Sum::new(), lines: is_tracing.then(Vec::new) }
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
        self.lines.is_some()
    }

    pub(crate) fn line(&mut self, now: Instant, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            let at = since_start(now);
            lines.push(format!("{:>4}.{:06}  {}", at.as_secs(), at.subsec_micros(), text()));
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.sum.value()
    }

    pub(crate) fn into_trace(self) -> String {
        let mut trace = self.lines.unwrap_or_default().join("\n");
        trace.push('\n');
        trace
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
