//! Signs of congestion on a path: ECN marks (RFC 3168), retransmissions, round trip times of TCP.

use core::time::Duration;

use moorline_datapath::shim6::{CONGESTED_INTERVAL, PathCounters, Report};
use moorline_types::Instant;

use crate::shim6::contexts::Seen;
use crate::shim6::live::Look;
use crate::shim6::tcp::{Flow, Payload, Tcp, is_before};

/// Counters of a context since it took its current pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Congestion {
    pub(crate) counters: PathCounters,
    sample: Option<Sample>,
    reported_at: Option<Instant>,
    reported_ce: u64,
    reported_ece: u64,
}

/// The segment whose acknowledgement is awaited.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    flow: Flow,
    end: u32,
}

impl Congestion {
    /// Notes a sent segment that takes `span` sequence numbers. `again`: TCP has sent it before.
    pub(crate) fn on_sent(&mut self, tcp: &Tcp, flow: Flow, span: u32, again: bool, now: Instant) {
        self.counters.cwr += u64::from(tcp.has_cwr());
        if span == 0 {
            return;
        }
        self.counters.segments += 1;
        self.counters.retransmissions += u64::from(again);
        let end = tcp.sequence.wrapping_add(span);
        if again {
            // RFC 6298 s3: a retransmitted segment gives no sample.
            self.sample = self.sample.filter(|sample| sample.flow != flow);
        } else if self.sample.is_none_or(|sample| now.since(sample.at) >= SAMPLE_LOST) {
            self.sample = Some(Sample { at: now, flow, end });
        }
    }

    /// Notes received payload.
    pub(crate) fn on_received(&mut self, seen: Seen, look: &mut Look<'_>) {
        self.counters.received += 1;
        self.counters.ce += u64::from(seen.has_ce);
        let mut is_marked = seen.has_ce;
        if let Payload::Tcp(tcp) = seen.payload {
            let flow = Flow::new(look.entry.local_tag, tcp.destination, tcp.source);
            if tcp.is_ack() {
                self.on_acknowledged(flow, tcp.acknowledgement, look.now);
            }
            self.counters.ece += u64::from(tcp.has_ece());
            is_marked |= tcp.has_ece();
        }
        if is_marked {
            self.report(look);
        }
    }

    fn on_acknowledged(&mut self, flow: Flow, acknowledged: u32, now: Instant) {
        let of_sample =
            |sample: &Sample| sample.flow == flow && !is_before(acknowledged, sample.end);
        let Some(sample) = self.sample.filter(of_sample) else { return };
        self.sample = None;
        let rtt = now.since(sample.at);
        let smoothed = self.counters.rtt.map_or(rtt, |srtt| srtt - eighth(srtt) + eighth(rtt));
        self.counters.rtt = Some(smoothed);
    }

    fn report(&mut self, look: &mut Look<'_>) {
        let now = look.now;
        if self.reported_at.is_some_and(|at| now.since(at) < CONGESTED_INTERVAL) {
            return;
        }
        let since = |count: u64, reported: u64| u32::try_from(count - reported).unwrap_or(u32::MAX);
        let ce = since(self.counters.ce, self.reported_ce);
        let ece = since(self.counters.ece, self.reported_ece);
        let context = look.entry.id;
        if look.reports.push(Report::Congested { context, at: now, ce, ece }) {
            self.reported_at = Some(now);
            self.reported_ce = self.counters.ce;
            self.reported_ece = self.counters.ece;
        }
    }
}

/// An eighth of a duration: the weight of a sample (RFC 6298 s2). Rounded as in the eBPF programs.
fn eighth(duration: Duration) -> Duration {
    Duration::from_nanos(u64::try_from(duration.as_nanos() >> 3).unwrap_or(u64::MAX))
}

/// Time after which a sample no longer waits for its acknowledgement: 4.3 s. Not configurable.
const SAMPLE_LOST: Duration = Duration::from_nanos(1 << 32);
