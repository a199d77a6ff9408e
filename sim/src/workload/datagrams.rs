use std::collections::VecDeque;

use moorline_types::{Instant, UlidPair};

use super::content::content;
use super::{Application, Side};
use crate::packet::Datagram;
use crate::plan::Pace;

/// Packets that the second side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Back {
    Nothing,
    /// One packet for each that arrives.
    Answers,
    TheSame,
}

/// Numbered packets, in one direction or both.
#[derive(Debug)]
pub(super) struct Datagrams {
    port: u16,
    ulids: UlidPair,
    pace: Pace,
    back: Back,
    until: Option<Instant>,
    ways: [Way; 2],
    packets: VecDeque<(Side, Vec<u8>)>,
}

/// One direction, by its sender.
#[derive(Debug)]
struct Way {
    next: Option<Instant>,
    sent: u64,
    /// The highest number that has arrived, plus one.
    received: u64,
}

impl Datagrams {
    pub(super) fn new(
        port: u16,
        ulids: UlidPair,
        pace: Pace,
        back: Back,
        [start, until]: [Option<Instant>; 2],
    ) -> Self {
        // The two sides send half an interval apart, because two applications would not send at the same instant.
        let second = start.filter(|_| back == Back::TheSame).map(|start| start + pace.interval / 2);
        let ways = [start, second].map(|next| Way { next, sent: 0, received: 0 });
        Self { port, ulids, pace, back, until, ways, packets: VecDeque::new() }
    }

    fn send(&mut self, side: Side) {
        let way = &mut self.ways[side as usize];
        let data = payload(self.port, way.sent, self.pace.octets);
        way.sent += 1;
        let label = label(self.port, side);
        let datagram = Datagram { port: self.port, label, data: &data };
        self.packets.push_back((side, datagram.packet(side.pair(self.ulids))));
    }
}

impl Application for Datagrams {
    fn handle_packet(&mut self, side: Side, packet: &[u8], _now: Instant) -> Option<usize> {
        let data = Datagram::read(packet)?.data;
        let number = u64::from_be_bytes(*data.first_chunk()?);
        let way = &mut self.ways[side.other() as usize];
        if number >= way.sent || data != payload(self.port, number, self.pace.octets) {
            return None;
        }
        if number < way.received {
            return Some(0);
        }
        way.received = number + 1;
        if self.back == Back::Answers && side == Side::To {
            self.send(side);
        }
        Some(data.len())
    }

    fn handle_timeout(&mut self, now: Instant) {
        for side in Side::BOTH {
            while let Some(next) = self.ways[side as usize].next.filter(|&next| next <= now) {
                self.send(side);
                let next = next + self.pace.interval;
                let is_over = self.until.is_some_and(|until| next >= until);
                self.ways[side as usize].next = Some(next).filter(|_| !is_over);
            }
        }
    }

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        self.packets.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.ways.iter().filter_map(|way| way.next).min()
    }

    fn is_finished(&self) -> bool {
        self.poll_timeout().is_none()
    }
}

/// The flow label of a sender: hosts draw it from a secret (RFC 6437 s3).
fn label(port: u16, side: Side) -> u32 {
    let octets = content(port, u64::MAX >> 8, 8);
    let at = 4 * side as usize;
    octets.iter().skip(at).take(4).fold(0, |label, &octet| label << 8 | u32::from(octet)) >> 12
}

fn payload(port: u16, number: u64, octets: usize) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.extend(content(port, number * 7, octets.saturating_sub(data.len())));
    data
}
