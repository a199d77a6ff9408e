use std::collections::BTreeSet;
use std::time::Duration;

use moorline_types::Instant;

use super::{Seat, Seen, octet};
use crate::packet;

/// Sends a numbered datagram each interval, and awaits answers if the other end gives any.
#[derive(Debug)]
pub(super) struct Sender {
    seat: Seat,
    interval: Duration,
    next: u64,
    at: Instant,
    answered: Window,
}

/// Checks what comes in, and answers it if asked to.
#[derive(Debug)]
pub(super) struct Receiver {
    seat: Seat,
    answers: bool,
    seen: Window,
}

impl Sender {
    pub(super) fn new(seat: Seat, interval: Duration) -> Self {
        Self { at: seat.start, seat, interval, next: 1, answered: Window::default() }
    }

    pub(super) fn handle_packet(&mut self, datagram: &[u8]) -> Seen {
        let Some(number) = number(datagram).filter(|&number| number < self.next) else {
            return Seen::Wrong;
        };
        let answer = content(self.seat, ANSWER, number);
        self.answered.see(datagram, &answer, number)
    }

    pub(super) fn handle_timeout(&mut self, out: &mut Vec<Vec<u8>>, now: Instant) {
        if now < self.at {
            return;
        }
        let data = content(self.seat, REQUEST, self.next);
        out.push(packet::datagram(self.seat.port, self.seat.ulids, &data));
        self.next += 1;
        self.at = now + self.interval;
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        Some(self.at)
    }
}

impl Receiver {
    pub(super) fn new(seat: Seat, answers: bool) -> Self {
        Self { seat, answers, seen: Window::default() }
    }

    pub(super) fn handle_packet(&mut self, datagram: &[u8], out: &mut Vec<Vec<u8>>) -> Seen {
        let Some(number) = number(datagram) else { return Seen::Wrong };
        let seen = self.seen.see(datagram, &content(self.seat, REQUEST, number), number);
        if self.answers && seen != Seen::Wrong {
            let answer = content(self.seat, ANSWER, number);
            out.push(packet::datagram(self.seat.port, self.seat.ulids, &answer));
        }
        if self.answers && seen != Seen::Wrong { Seen::Nothing } else { seen }
    }
}

/// Numbers that came in; the last thousand are told apart.
#[derive(Debug, Default)]
struct Window(BTreeSet<u64>);

impl Window {
    fn see(&mut self, datagram: &[u8], expected: &[u8], number: u64) -> Seen {
        if datagram.get(packet::IP6_LEN + packet::UDP_LEN..) != Some(expected) {
            return Seen::Wrong;
        }
        let is_new = self.0.insert(number);
        if self.0.len() > 1000 {
            self.0.pop_first();
        }
        if is_new { Seen::Octets(expected.len() as u64) } else { Seen::Nothing }
    }
}

fn number(datagram: &[u8]) -> Option<u64> {
    let data = datagram.get(packet::IP6_LEN + packet::UDP_LEN..)?;
    data.first_chunk::<8>().map(|octets| u64::from_be_bytes(*octets))
}

fn content(seat: Seat, len: u64, number: u64) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.extend((0..len).map(|at| octet(seat.port, number * 1024 + at)));
    data
}

/// Octets of a datagram behind its number.
const REQUEST: u64 = 120;
/// The same for an answer.
const ANSWER: u64 = 300;
