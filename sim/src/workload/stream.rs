use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use moorline_types::{Instant, UlidPair};

use super::content::{Sum, content};
use super::{Application, Side};
use crate::packet::{self, Segment};
use crate::plan::Pace;

/// Bytes from one side to the other, in order and complete: TCP without its handshake.
///
/// The stream has cumulative acknowledgements, slow start and a fixed window, fast retransmission after three
/// duplicates, and a retransmission timer as in RFC 6298 (but with Linux's smallest value).
#[derive(Debug)]
pub(super) struct Stream {
    port: u16,
    ulids: UlidPair,
    bytes: u64,
    pace: Option<Pace>,
    /// Time after which the application writes nothing more.
    until: Option<Instant>,
    sender: Sender,
    receiver: Receiver,
    packets: VecDeque<(Side, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Sender {
    /// Time of the application's next write; `None` if it has written all.
    next_write: Option<Instant>,
    written: u64,
    /// Octets up to here are acknowledged.
    una: u64,
    /// Next octet to send.
    nxt: u64,
    /// Octets up to here have been sent at some time.
    highest: u64,
    window: u64,
    /// Octets of data in a segment. A Packet Too Big lowers it for good.
    segment: u64,
    duplicates: u32,
    /// Fast retransmission ends when this octet is acknowledged.
    recover: u64,
    rtt: Rtt,
    backoff: u32,
    deadline: Option<Instant>,
    /// Time of the last acknowledgement, or of the last moment with nothing under way.
    progress: Instant,
    sum: Sum,
}

#[derive(Debug, Default)]
struct Receiver {
    next: u64,
    /// Segments that arrived before earlier ones.
    ahead: BTreeMap<u64, Vec<u8>>,
    sum: Sum,
}

impl Stream {
    pub(super) fn new(
        port: u16,
        ulids: UlidPair,
        bytes: u64,
        pace: Option<Pace>,
        [start, until]: [Option<Instant>; 2],
    ) -> Self {
        let progress = start.unwrap_or(Instant::ZERO);
        let sender = Sender {
            next_write: start,
            window: INITIAL_WINDOW,
            segment: SEGMENT,
            progress,
            ..Sender::default()
        };
        let receiver = Receiver::default();
        Self { port, ulids, bytes, pace, until, sender, receiver, packets: VecDeque::new() }
    }
}

impl Application for Stream {
    fn handle_packet(&mut self, side: Side, packet: &[u8], now: Instant) -> Option<usize> {
        let segment = Segment::read(packet)?;
        if side == Side::To {
            return self.on_data(&segment);
        }
        self.on_ack(segment.ack, now);
        Some(0)
    }

    /// RFC 8201 s5.4: what was lost goes again in segments that fit, at once.
    fn handle_too_big(&mut self, side: Side, packet: &[u8], now: Instant) {
        let quoted = packet::quoted_too_big(packet);
        let of_ours = quoted.filter(|(_, quoted)| packet::port(quoted) == Some(self.port));
        let Some((mtu, _)) = of_ours.filter(|_| side == Side::From) else { return };
        let segment = u64::from(mtu).saturating_sub(HEADERS).max(LEAST_SEGMENT);
        if segment < self.sender.segment {
            self.sender.segment = segment;
            self.go_back(now);
            self.send(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.sender.next_write.is_some_and(|at| at <= now) {
            self.write(now);
        }
        if self.sender.deadline.is_some_and(|at| at <= now) {
            self.sender.backoff += 1;
            self.go_back(now);
        }
        self.send(now);
    }

    /// RFC 6069: reverts the backoff, and sends overdue octets again at once.
    fn handle_path_restored(&mut self, side: Side, now: Instant) {
        let sender = &mut self.sender;
        if side == Side::From && sender.una < sender.highest && sender.backoff > 0 {
            sender.backoff = 0;
            self.go_back(now);
            self.send(now);
        }
    }

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        self.packets.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.sender.next_write, self.sender.deadline].into_iter().flatten().min()
    }

    fn progress(&self) -> Option<Instant> {
        Some(self.sender.progress)
    }

    fn is_finished(&self) -> bool {
        self.sender.una == self.bytes
    }

    fn is_intact(&self) -> Option<bool> {
        let is_same = self.receiver.next == self.bytes && self.receiver.sum == self.sender.sum;
        self.is_finished().then_some(is_same)
    }

    #[cfg(test)]
    fn swallow_octet(&mut self) {
        self.receiver.sum.add(&[7]);
    }
}

impl Stream {
    fn write(&mut self, now: Instant) {
        let sender = &mut self.sender;
        if self.until.is_some_and(|until| now >= until) {
            self.bytes = sender.written;
        }
        let left = self.bytes - sender.written;
        let (octets, next) = match self.pace {
            None => (left, None),
            Some(pace) => (left.min(pace.octets as u64), Some(now + pace.interval)),
        };
        sender.written += octets;
        sender.next_write = next.filter(|_| sender.written < self.bytes);
    }

    fn go_back(&mut self, now: Instant) {
        let sender = &mut self.sender;
        sender.nxt = sender.una;
        sender.window = SEGMENT;
        sender.duplicates = 0;
        sender.recover = sender.highest;
        sender.rtt.timed = None;
        sender.arm(now);
    }

    fn send(&mut self, now: Instant) {
        while let Some(len) = self.sender.next_segment() {
            let at = self.sender.nxt;
            self.push_data(at, len);
            let sender = &mut self.sender;
            if sender.una == sender.highest {
                sender.progress = now;
            }
            sender.nxt = at + len;
            if sender.nxt > sender.highest {
                sender.sum.add(&content(
                    self.port,
                    sender.highest,
                    usize_of(sender.nxt - sender.highest),
                ));
                sender.highest = sender.nxt;
                sender.rtt.timed.get_or_insert((sender.nxt, now));
            }
            if sender.deadline.is_none() {
                sender.arm(now);
            }
        }
    }

    fn push_data(&mut self, at: u64, len: u64) {
        let data = content(self.port, at, usize_of(len));
        let segment = Segment { port: self.port, seq: low32(at), ack: 0, data: &data };
        self.packets.push_back((Side::From, segment.packet(self.ulids)));
    }

    fn on_ack(&mut self, ack: u32, now: Instant) {
        let sender = &mut self.sender;
        let new = u64::from(ack.wrapping_sub(low32(sender.una)));
        if new > sender.highest - sender.una {
            return;
        }
        if new == 0 {
            self.on_duplicate_ack();
            return;
        }
        sender.una += new;
        sender.progress = now;
        sender.nxt = sender.nxt.max(sender.una);
        sender.backoff = 0;
        sender.duplicates = 0;
        sender.window = (sender.window + SEGMENT).min(MAX_WINDOW);
        sender.rtt.on_ack(sender.una, now);
        sender.deadline = None;
        if sender.una < sender.highest {
            sender.arm(now);
            // RFC 6582: a partial acknowledgement means that the next segment is lost too.
            if sender.una < sender.recover && sender.nxt == sender.highest {
                let (at, len) = (sender.una, (sender.highest - sender.una).min(sender.segment));
                self.push_data(at, len);
            }
        }
        self.send(now);
    }

    fn on_duplicate_ack(&mut self) {
        let sender = &mut self.sender;
        if sender.una == sender.highest || sender.una < sender.recover {
            return;
        }
        sender.duplicates += 1;
        if sender.duplicates == DUPLICATES {
            sender.duplicates = 0;
            sender.recover = sender.highest;
            sender.window = (sender.window / 2).max(2 * SEGMENT);
            let (at, len) = (sender.una, (sender.highest - sender.una).min(sender.segment));
            self.push_data(at, len);
        }
    }

    fn on_data(&mut self, segment: &Segment<'_>) -> Option<usize> {
        let before = self.receiver.next;
        // The distance is in serial arithmetic, because sequence numbers have 32 bits.
        let distance = i64::from(segment.seq.wrapping_sub(low32(before)).cast_signed());
        let at = before.checked_add_signed(distance)?;
        if segment.data != content(self.port, at, segment.data.len()) {
            return None;
        }
        self.receiver.accept(at, segment.data);
        let ack = Segment { port: self.port, seq: 0, ack: low32(self.receiver.next), data: &[] };
        self.packets.push_back((Side::To, ack.packet(Side::To.pair(self.ulids))));
        Some(usize_of(self.receiver.next - before))
    }
}

impl Sender {
    /// Octets of the next segment, if there is one and the window has room.
    fn next_segment(&self) -> Option<u64> {
        let in_flight = self.nxt - self.una;
        let len = (self.written - self.nxt).min(self.segment);
        (len > 0 && in_flight + len <= self.window).then_some(len)
    }

    fn arm(&mut self, now: Instant) {
        let rto = self.rtt.timeout().saturating_mul(1 << self.backoff.min(16));
        self.deadline = Some(now + rto.min(MAX_RTO));
    }
}

impl Receiver {
    fn accept(&mut self, at: u64, data: &[u8]) {
        if self.ahead.len() < MAX_AHEAD {
            self.ahead.insert(at, data.to_vec());
        }
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() <= self.next) {
            let (at, data) = entry.remove_entry();
            if let Some(new) = data.get(usize_of(self.next - at)..) {
                self.sum.add(new);
                self.next += new.len() as u64;
            }
        }
    }
}

/// Round-trip time (RFC 6298 s2).
#[derive(Debug, Default)]
struct Rtt {
    smoothed: Option<(Duration, Duration)>,
    /// End of the segment that is timed, and time of its departure.
    timed: Option<(u64, Instant)>,
}

impl Rtt {
    fn on_ack(&mut self, una: u64, now: Instant) {
        let Some((_, left)) = self.timed.take_if(|(end, _)| *end <= una) else { return };
        let sample = now.since(left);
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, variation)) => {
                ((mean * 7 + sample) / 8, (variation * 3 + mean.abs_diff(sample)) / 4)
            }
        });
    }

    fn timeout(&self) -> Duration {
        let (mean, variation) = self.smoothed.unwrap_or((Duration::from_secs(1), Duration::ZERO));
        (mean + variation * 4).max(MIN_RTO)
    }
}

fn low32(offset: u64) -> u32 {
    u32::try_from(offset & 0xffff_ffff).unwrap_or(0)
}

fn usize_of(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Octets of data in a segment. The payload header has room within 1500.
const SEGMENT: u64 = 1400;
/// Ten segments (RFC 6928).
const INITIAL_WINDOW: u64 = 10 * SEGMENT;
const MAX_WINDOW: u64 = 64 * SEGMENT;
/// Octets of the headers of IPv6 and TCP.
const HEADERS: u64 = 40 + 20;
/// Least octets of data in a segment: a packet of 1280 octets has room for them and more.
const LEAST_SEGMENT: u64 = 1024;
const DUPLICATES: u32 = 3;
/// Smallest timeout, as in Linux; RFC 6298 has 1 s.
const MIN_RTO: Duration = Duration::from_millis(200);
/// Largest timeout: RFC 6298 s2.5 has at least 60 s.
const MAX_RTO: Duration = Duration::from_secs(60);
/// Largest number of segments that are kept out of order.
const MAX_AHEAD: usize = 256;
