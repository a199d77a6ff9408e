//! Traffic: what applications at the two ends send, and whether it arrives.

mod content;
mod datagrams;
mod stream;

use moorline_types::{Instant, UlidPair};

use crate::log::instant;
use crate::plan::{Kind, Workload};
use datagrams::{Back, Datagrams};
use stream::Stream;

pub(crate) use content::Sum;

/// Which end of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// [`Workload::from`].
    From,
    /// [`Workload::to`].
    To,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::From, Self::To];

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::From => Self::To,
            Self::To => Self::From,
        }
    }

    /// The pair as this side has it, of one seen from the first side.
    pub(crate) fn pair(self, ulids: UlidPair) -> UlidPair {
        match self {
            Self::From => ulids,
            Self::To => ulids.reversed(),
        }
    }
}

/// A workload under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) plan: Workload,
    /// Seen from its first side.
    pub(crate) ulids: UlidPair,
    pub(crate) application: Box<dyn Application>,
    /// When the last packet came, by the side that it came to.
    last_packets: [Option<Instant>; 2],
    /// It has come to its end, and that has been seen.
    pub(crate) is_over: bool,
    /// When [`Application::handle_timeout`] is to be called, as told to the queue.
    pub(crate) wake: Option<Instant>,
}

/// An application at both ends.
pub(crate) trait Application: std::fmt::Debug {
    /// A packet that came to `side`: how many octets of payload in it are new. `None`: it is not what was sent.
    fn handle_packet(&mut self, side: Side, packet: &[u8], now: Instant) -> Option<usize>;

    fn handle_timeout(&mut self, now: Instant);

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)>;

    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether nothing more will be sent: all of a stream has arrived and is known to have.
    fn is_finished(&self) -> bool;

    /// The host of `side` has found a path that works: what RFC 6069 makes of the ICMPv6 error that
    /// the daemon sends to the local socket then.
    fn handle_path_restored(&mut self, _side: Side, _now: Instant) {}

    /// Since when a stream's sender has waited for an acknowledgement: its backoff is no longer than that.
    fn progress(&self) -> Option<Instant> {
        None
    }

    /// Whether a stream ended with the sums of both sides equal; `None`: it has not ended, or is none.
    fn is_intact(&self) -> Option<bool> {
        None
    }

    /// The receiver of a stream takes a wrong octet for right.
    #[cfg(test)]
    fn swallow_octet(&mut self) {}
}

impl Running {
    pub(crate) fn new(number: usize, plan: Workload, ulids: UlidPair, start: Instant) -> Self {
        let port = port_of(number);
        let times = [Some(start), plan.until.map(instant)];
        let datagrams = |pace, back| Box::new(Datagrams::new(port, ulids, pace, back, times));
        let application: Box<dyn Application> = match plan.kind {
            Kind::Stream { bytes, pace } => Box::new(Stream::new(port, ulids, bytes, pace, times)),
            Kind::Requests { pace } => datagrams(pace, Back::Answers),
            Kind::Datagrams { pace, both_ways: true } => datagrams(pace, Back::TheSame),
            Kind::Datagrams { pace, both_ways: false } => datagrams(pace, Back::Nothing),
        };
        Self { plan, ulids, application, last_packets: [None; 2], is_over: false, wake: None }
    }

    pub(crate) fn host(&self, side: Side) -> usize {
        match side {
            Side::From => self.plan.from.host,
            Side::To => self.plan.to.host,
        }
    }

    /// The ULID pair as one side has it.
    pub(crate) fn ulids_of(&self, side: Side) -> UlidPair {
        side.pair(self.ulids)
    }

    /// A packet comes to `side`: when the one before it came.
    pub(crate) fn note_packet(&mut self, side: Side, now: Instant) -> Option<Instant> {
        self.last_packets[side as usize].replace(now)
    }

    /// When the last packet came to `side`.
    pub(crate) const fn last_packet(&self, side: Side) -> Option<Instant> {
        self.last_packets[side as usize]
    }
}

/// Ports from 5000 on, the same at both ends, tell workloads apart.
pub(crate) fn port_of(number: usize) -> u16 {
    FIRST_PORT.saturating_add(u16::try_from(number).unwrap_or(u16::MAX))
}

/// The workload that a port belongs to.
pub(crate) fn number_of(port: u16) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(usize::from)
}

const FIRST_PORT: u16 = 5000;
