//! Sockets: what applications and their transport do, as much of it as shows whether traffic survives.

mod datagrams;
mod stream;

use std::time::Duration;

use moorline_types::{Instant, UlidPair};

use crate::plan::Traffic;
use datagrams::{Receiver as DatagramReceiver, Sender as DatagramSender};
use stream::{Receiver as StreamReceiver, Sender as StreamSender};

/// One end of a workload.
#[derive(Debug)]
pub(crate) struct Socket {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    StreamSender(StreamSender),
    StreamReceiver(StreamReceiver),
    DatagramSender(DatagramSender),
    DatagramReceiver(DatagramReceiver),
}

/// What an application saw of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing new: a repetition, an acknowledgement.
    Nothing,
    /// This many octets that it had waited for.
    Octets(u64),
    /// Octets that nobody sent.
    Wrong,
}

/// Which end of a workload, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) ulids: UlidPair,
    pub(crate) port: u16,
    pub(crate) start: Instant,
    pub(crate) max_rto: Duration,
}

impl Socket {
    /// The end that begins.
    pub(crate) fn client(traffic: Traffic, seat: Seat) -> Self {
        let kind = match traffic {
            Traffic::Stream { octets, rate } => {
                Kind::StreamSender(StreamSender::new(seat, octets, rate))
            }
            Traffic::Requests { interval } | Traffic::OneWay { interval } => {
                Kind::DatagramSender(DatagramSender::new(seat, interval))
            }
        };
        Self { kind }
    }

    /// The other one.
    pub(crate) fn server(traffic: Traffic, seat: Seat) -> Self {
        let kind = match traffic {
            Traffic::Stream { .. } => Kind::StreamReceiver(StreamReceiver::new(seat)),
            Traffic::Requests { .. } => Kind::DatagramReceiver(DatagramReceiver::new(seat, true)),
            Traffic::OneWay { .. } => Kind::DatagramReceiver(DatagramReceiver::new(seat, false)),
        };
        Self { kind }
    }

    /// A packet from the peer's socket; `out` takes what it makes this one send.
    pub(crate) fn handle_packet(
        &mut self,
        packet: &[u8],
        out: &mut Vec<Vec<u8>>,
        now: Instant,
    ) -> Seen {
        match &mut self.kind {
            Kind::StreamSender(sender) => {
                sender.handle_packet(packet, out, now);
                Seen::Nothing
            }
            Kind::StreamReceiver(receiver) => receiver.handle_packet(packet, out),
            Kind::DatagramSender(sender) => sender.handle_packet(packet),
            Kind::DatagramReceiver(receiver) => receiver.handle_packet(packet, out),
        }
    }

    pub(crate) fn handle_timeout(&mut self, out: &mut Vec<Vec<u8>>, now: Instant) {
        match &mut self.kind {
            Kind::StreamSender(sender) => sender.handle_timeout(out, now),
            Kind::DatagramSender(sender) => sender.handle_timeout(out, now),
            Kind::StreamReceiver(_) | Kind::DatagramReceiver(_) => {}
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.kind {
            Kind::StreamSender(sender) => sender.poll_timeout(),
            Kind::DatagramSender(sender) => sender.poll_timeout(),
            Kind::StreamReceiver(_) | Kind::DatagramReceiver(_) => None,
        }
    }
}

/// Contents of everything: octet `at` of what a port sends. Aperiodic enough that a piece in the wrong
/// place is seen.
pub(crate) fn octet(port: u16, at: u64) -> u8 {
    let mixed = at.wrapping_add(u64::from(port) << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_be_bytes()[0]
}

#[cfg(test)]
mod tests;
