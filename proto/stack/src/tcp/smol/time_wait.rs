use alloc::collections::{BTreeMap, BTreeSet};

use moorline_ip::PacketBuf;
use moorline_types::Instant;

use super::super::{Flags, Flow, Segment, Seq};
use super::{MAX_TIME_WAIT, TIME_WAIT};

/// Rest of a connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeWait {
    /// Next sequence number of the host.
    pub(super) sent: Seq,
    /// Next sequence number of the peer.
    pub(super) received: Seq,
    /// Time at which the flow may be used again.
    pub(super) until: Instant,
}

/// Answer to a segment for a flow in TIME-WAIT.
pub(super) enum Answer {
    /// Nothing.
    Nothing,
    /// This segment.
    Acknowledge(PacketBuf),
    /// A new connection, with this initial sequence number.
    Reopen(Seq),
}

/// All flows in TIME-WAIT.
#[derive(Default)]
pub(super) struct TimeWaits {
    entries: BTreeMap<Flow, TimeWait>,
    timers: BTreeSet<(Instant, Flow)>,
}

impl TimeWaits {
    pub(super) fn contains(&self, flow: &Flow) -> bool {
        self.entries.contains_key(flow)
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = Flow> {
        self.entries.keys().copied()
    }

    pub(super) fn insert(&mut self, flow: Flow, waiting: TimeWait, now: Instant) {
        if waiting.until <= now {
            return;
        }
        self.remove(&flow);
        if self.entries.len() >= MAX_TIME_WAIT {
            self.remove_first();
        }
        self.timers.insert((waiting.until, flow));
        self.entries.insert(flow, waiting);
    }

    pub(super) fn remove(&mut self, flow: &Flow) {
        if let Some(waiting) = self.entries.remove(flow) {
            self.timers.remove(&(waiting.until, *flow));
        }
    }

    /// Handles a segment for a flow in TIME-WAIT (RFC 9293 s3.10.7.4); `None` if the flow is not in TIME-WAIT.
    pub(super) fn handle(
        &mut self,
        flow: Flow,
        segment: &Segment<'_>,
        now: Instant,
    ) -> Option<Answer> {
        let waiting = *self.entries.get(&flow)?;
        // RFC 1337 s3: an RST does not end TIME-WAIT.
        if segment.flags.has(Flags::RST) {
            return Some(Answer::Nothing);
        }
        let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        // RFC 9293 s3.6.1, MAY-2: a SYN with a larger number begins a new connection, above all numbers of the old one.
        if is_syn && waiting.received.is_before(segment.sequence) {
            self.remove(&flow);
            return Some(Answer::Reopen(waiting.sent + ABOVE_OLD_NUMBERS));
        }
        if segment.sequence_len() == 0 {
            return Some(Answer::Nothing);
        }
        let end = segment.sequence + segment.sequence_len();
        // "Acknowledge it, and restart the 2 MSL timeout": a copy of the FIN of the peer.
        if segment.flags.has(Flags::FIN) && end == waiting.received {
            self.insert(flow, TimeWait { until: now + TIME_WAIT, ..waiting }, now);
        }
        Some(Answer::Acknowledge(acknowledgment(flow, &waiting)))
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            self.remove_first();
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn remove_first(&mut self) {
        if let Some((_, flow)) = self.timers.pop_first() {
            self.entries.remove(&flow);
        }
    }
}

fn acknowledgment(flow: Flow, waiting: &TimeWait) -> PacketBuf {
    let segment = Segment {
        source_port: flow.local.1,
        destination_port: flow.peer.1,
        sequence: waiting.sent,
        acknowledgment: waiting.received,
        flags: Flags::ACK,
        window: 0,
        options: &[],
        payload: &[],
    };
    segment.to_packet()
}

/// Distance of the numbers of a new connection from those of the old one: more than a window without scale.
const ABOVE_OLD_NUMBERS: u32 = 65_535 + 2;
