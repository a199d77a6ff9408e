//! Numbered datagrams of two sides: when the next ones are due, and what they contain.

use moorline_types::Instant;

use super::Side;
use super::content::content;
use crate::plan::{Kind, Pace};

/// Datagrams that the second side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Nothing,
    /// One datagram for each that arrives.
    Answers,
    TheSame,
}

impl Back {
    pub(super) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Requests { .. } => Self::Answers,
            Kind::Datagrams { both_ways: true, .. } => Self::TheSame,
            Kind::Datagrams { both_ways: false, .. } | Kind::Stream { .. } => Self::Nothing,
        }
    }
}

/// The datagrams of both sides.
#[derive(Debug)]
pub(super) struct Numbered {
    port: u16,
    pace: Pace,
    back: Back,
    until: Option<Instant>,
    ways: [Way; 2],
}

/// One direction, by its sender.
#[derive(Debug)]
struct Way {
    next: Option<Instant>,
    sent: u64,
    /// The highest number that has arrived, plus one.
    received: u64,
}

impl Numbered {
    pub(super) fn new(
        port: u16,
        pace: Pace,
        back: Back,
        [start, until]: [Option<Instant>; 2],
    ) -> Self {
        // The two sides send half an interval apart, because two applications would not send at the same instant.
        let second = start.filter(|_| back == Back::TheSame).map(|start| start + pace.interval / 2);
        let ways = [start, second].map(|next| Way { next, sent: 0, received: 0 });
        Self { port, pace, back, until, ways }
    }

    /// A side whose next datagram is due; each due datagram once.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Side> {
        let is_due = |side: &Side| self.ways[*side as usize].next.is_some_and(|next| next <= now);
        let side = Side::BOTH.into_iter().find(is_due)?;
        let way = &mut self.ways[side as usize];
        let next = way.next.map(|next| next + self.pace.interval);
        way.next = next.filter(|next| self.until.is_none_or(|until| *next < until));
        Some(side)
    }

    /// The next datagram of a side.
    pub(super) fn next(&mut self, side: Side) -> Vec<u8> {
        let way = &mut self.ways[side as usize];
        way.sent += 1;
        payload(self.port, way.sent - 1, self.pace.octets)
    }

    /// Takes a datagram that has come to a side. Returns the octets if they are new; `None` if the other side has not sent the
    /// datagram.
    pub(super) fn accept(&mut self, side: Side, data: &[u8]) -> Option<usize> {
        let number = u64::from_be_bytes(*data.first_chunk()?);
        let way = &mut self.ways[side.other() as usize];
        if number >= way.sent || data != payload(self.port, number, self.pace.octets) {
            return None;
        }
        if number < way.received {
            return Some(0);
        }
        way.received = number + 1;
        Some(data.len())
    }

    /// Whether a side answers each new datagram.
    pub(super) fn answers(&self, side: Side) -> bool {
        self.back == Back::Answers && side == Side::To
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.ways.iter().filter_map(|way| way.next).min()
    }
}

fn payload(port: u16, number: u64, octets: usize) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.extend(content(port, number * 7, octets.saturating_sub(data.len())));
    data
}
