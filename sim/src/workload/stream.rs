//! A reliable stream: sequence numbers, cumulative acknowledgements, slow start, congestion avoidance,
//! fast retransmit (RFC 5681, RFC 6582) and the retransmission timer of RFC 6298 with Linux's least
//! value. No handshake and no end.

use std::collections::BTreeMap;
use std::time::Duration;

use moorline_types::Instant;

use super::{Seat, Seen, octet};
use crate::packet::{IP6_LEN, Segment, TCP_LEN};

/// The end that sends data.
#[derive(Debug)]
pub(super) struct Sender {
    seat: Seat,
    total: u64,
    rate: u64,
    /// First octet that is not acknowledged.
    una: u64,
    /// Next octet to send.
    next: u64,
    /// Behind the last octet that was ever sent.
    sent: u64,
    window: u64,
    threshold: u64,
    repeated: u32,
    /// Losses below this have been answered for.
    recover: u64,
    backoff: u32,
    rtt: Option<(Duration, Duration)>,
    /// Offset whose acknowledgement gives a round trip time, and when it was sent.
    timed: Option<(u64, Instant)>,
    retransmit_at: Option<Instant>,
    write_at: Option<Instant>,
}

/// The end that acknowledges it.
#[derive(Debug)]
pub(super) struct Receiver {
    seat: Seat,
    awaited: u64,
    /// Pieces behind a gap: begin and end.
    early: BTreeMap<u64, u64>,
}

impl Sender {
    pub(super) fn new(seat: Seat, total: u64, rate: u64) -> Self {
        Self {
            write_at: Some(seat.start),
            seat,
            total,
            rate,
            una: 0,
            next: 0,
            sent: 0,
            window: 10 * SEGMENT,
            threshold: LARGEST_WINDOW,
            repeated: 0,
            recover: 0,
            backoff: 0,
            rtt: None,
            timed: None,
            retransmit_at: None,
        }
    }

    pub(super) fn handle_packet(&mut self, packet: &[u8], out: &mut Vec<Vec<u8>>, now: Instant) {
        let Some(segment) = Segment::read(packet) else { return };
        let new = u64::from(segment.awaited.wrapping_sub(low(self.una)));
        if new > self.sent - self.una {
            return;
        }
        if new == 0 {
            self.on_repeated(out);
        } else {
            self.on_acknowledged(new, out, now);
        }
        self.transmit(out, now);
    }

    pub(super) fn handle_timeout(&mut self, out: &mut Vec<Vec<u8>>, now: Instant) {
        if self.retransmit_at.is_some_and(|at| at <= now) {
            self.threshold = ((self.sent - self.una) / 2).max(2 * SEGMENT);
            self.window = SEGMENT;
            self.recover = self.sent;
            self.next = self.una;
            self.backoff = (self.backoff + 1).min(16);
            self.timed = None;
            self.retransmit_at = None;
        }
        self.transmit(out, now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [self.retransmit_at, self.write_at].into_iter().flatten().min()
    }

    fn on_repeated(&mut self, out: &mut Vec<Vec<u8>>) {
        if self.una == self.sent {
            return;
        }
        self.repeated += 1;
        if self.repeated == 3 && self.una >= self.recover {
            self.threshold = ((self.sent - self.una) / 2).max(2 * SEGMENT);
            self.window = self.threshold;
            self.recover = self.sent;
            self.timed = None;
            self.resend_first(out);
        }
    }

    fn on_acknowledged(&mut self, new: u64, out: &mut Vec<Vec<u8>>, now: Instant) {
        self.una += new;
        self.next = self.next.max(self.una);
        self.repeated = 0;
        self.backoff = 0;
        if let Some((_, sent)) = self.timed.filter(|&(offset, _)| offset <= self.una) {
            self.on_round_trip(now.since(sent));
            self.timed = None;
        }
        if self.una < self.recover && self.next == self.sent {
            // RFC 6582: a partial acknowledgement tells of the next loss.
            self.resend_first(out);
        } else if self.window < self.threshold {
            self.window += new.min(SEGMENT);
        } else {
            self.window += SEGMENT * new.min(SEGMENT) / self.window;
        }
        self.window = self.window.min(LARGEST_WINDOW);
        self.retransmit_at = (self.una < self.sent).then(|| now + self.timeout());
    }

    fn on_round_trip(&mut self, sample: Duration) {
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((mean, deviation)) => {
                let deviation = (deviation * 3 + mean.abs_diff(sample)) / 4;
                ((mean * 7 + sample) / 8, deviation)
            }
        });
    }

    fn timeout(&self) -> Duration {
        let base = self.rtt.map_or(FIRST_TIMEOUT, |(mean, deviation)| mean + deviation * 4);
        base.max(LEAST_TIMEOUT).saturating_mul(1 << self.backoff).min(self.seat.max_rto)
    }

    /// Sends what the window and the application allow.
    fn transmit(&mut self, out: &mut Vec<Vec<u8>>, now: Instant) {
        let elapsed = u64::try_from(now.since(self.seat.start).as_micros()).unwrap_or(u64::MAX);
        let written = (elapsed.saturating_mul(self.rate) / 1_000_000).min(self.total);
        while self.next < written && self.next - self.una < self.window {
            let len = SEGMENT.min(written - self.next);
            if len < SEGMENT && written < self.total && self.una < self.next {
                break;
            }
            self.send(self.next, len, out);
            self.next += len;
            if self.next > self.sent {
                self.sent = self.next;
                self.timed.get_or_insert((self.next, now));
            }
        }
        if self.una < self.sent {
            let timeout = self.timeout();
            self.retransmit_at.get_or_insert(now + timeout);
        }
        self.write_at = (written < self.total).then(|| now.max(self.seat.start) + WRITE_INTERVAL);
    }

    fn resend_first(&mut self, out: &mut Vec<Vec<u8>>) {
        self.send(self.una, SEGMENT.min(self.sent - self.una), out);
    }

    fn send(&self, offset: u64, len: u64, out: &mut Vec<Vec<u8>>) {
        let data: Vec<u8> = (offset..offset + len).map(|at| octet(self.seat.port, at)).collect();
        let segment = Segment { offset: low(offset), awaited: 0 };
        out.push(segment.emit(self.seat.port, self.seat.ulids, &data));
    }
}

impl Receiver {
    pub(super) fn new(seat: Seat) -> Self {
        Self { seat, awaited: 0, early: BTreeMap::new() }
    }

    pub(super) fn handle_packet(&mut self, packet: &[u8], out: &mut Vec<Vec<u8>>) -> Seen {
        let Some(segment) = Segment::read(packet) else { return Seen::Wrong };
        let data = packet.get(IP6_LEN + TCP_LEN..).unwrap_or(&[]);
        let ahead = segment.offset.wrapping_sub(low(self.awaited)).cast_signed();
        let Some(begin) = self.awaited.checked_add_signed(i64::from(ahead)) else {
            return Seen::Wrong;
        };
        let port = self.seat.port;
        if !(begin..).zip(data).all(|(at, &seen)| seen == octet(port, at)) {
            return Seen::Wrong;
        }
        let end = begin + data.len() as u64;
        let early = self.early.entry(begin).or_insert(end);
        *early = end.max(*early);
        let before = self.awaited;
        while let Some((&begin, &end)) = self.early.first_key_value() {
            if begin > self.awaited {
                break;
            }
            self.awaited = self.awaited.max(end);
            self.early.pop_first();
        }
        let answer = Segment { offset: 0, awaited: low(self.awaited) };
        out.push(answer.emit(port, self.seat.ulids, &[]));
        match self.awaited - before {
            0 => Seen::Nothing,
            new => Seen::Octets(new),
        }
    }
}

/// The lower 32 bits: what the header holds.
fn low(offset: u64) -> u32 {
    u32::try_from(offset & u64::from(u32::MAX)).unwrap_or(0)
}

/// Octets of data in a segment: fits 1500 with the payload header and some.
const SEGMENT: u64 = 1400;
/// Most octets under way.
const LARGEST_WINDOW: u64 = 256 * 1024;
/// Retransmission timeout before the first round trip is known (RFC 6298).
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Linux's, and most others' (RFC 6298 says 1 s).
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
/// How often the application writes.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
