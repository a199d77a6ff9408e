use std::collections::VecDeque;

use moorline_types::{Instant, UlidPair};

use super::content::content;
use super::numbered::Numbered;
use super::{Application, Side};
use crate::packet::Datagram;

/// Numbered packets, in one direction or both.
#[derive(Debug)]
pub(super) struct Datagrams {
    port: u16,
    ulids: UlidPair,
    numbered: Numbered,
    packets: VecDeque<(Side, Vec<u8>)>,
}

impl Datagrams {
    pub(super) const fn new(port: u16, ulids: UlidPair, numbered: Numbered) -> Self {
        Self { port, ulids, numbered, packets: VecDeque::new() }
    }

    fn send(&mut self, side: Side) {
        let data = self.numbered.next(side);
        let label = label(self.port, side);
        let datagram = Datagram { port: self.port, label, data: &data };
        self.packets.push_back((side, datagram.packet(side.pair(self.ulids))));
    }
}

impl Application for Datagrams {
    fn handle_packet(&mut self, side: Side, packet: &[u8], _now: Instant) -> Option<usize> {
        let new = self.numbered.accept(side, Datagram::read(packet)?.data)?;
        if new > 0 && self.numbered.answers(side) {
            self.send(side);
        }
        Some(new)
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(side) = self.numbered.take_due(now) {
            self.send(side);
        }
    }

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        self.packets.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.numbered.poll_timeout()
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
