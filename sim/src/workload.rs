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
}

/// A workload under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) plan: Workload,
    /// Seen from its first side.
    pub(crate) ulids: UlidPair,
    engine: Engine,
    /// When the last packet came: to the far side, and back.
    last_packets: [Option<Instant>; 2],
    /// It has come to its end, and that has been seen.
    pub(crate) is_over: bool,
    /// When [`Running::handle_timeout`] is to be called, as told to the queue.
    pub(crate) wake: Option<Instant>,
}

#[derive(Debug)]
enum Engine {
    Stream(Box<Stream>),
    Datagrams(Datagrams),
}

/// Something new arrived at an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// At which side.
    pub(crate) to: Side,
    /// Octets of payload, all of them new.
    pub(crate) octets: usize,
}

/// What arrived is not what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

impl Running {
    pub(crate) fn new(number: usize, plan: Workload, ulids: UlidPair, start: Instant) -> Self {
        let port = port_of(number);
        let until = plan.until.map(instant);
        let engine = match plan.kind {
            Kind::Stream { bytes, pace } => Engine::Stream(Box::new(Stream::new(
                port,
                ulids,
                bytes,
                pace,
                [Some(start), until],
            ))),
            Kind::Requests { pace } => Engine::Datagrams(Datagrams::new(
                port,
                ulids,
                pace,
                Back::Answers,
                [Some(start), until],
            )),
            Kind::Datagrams { pace, both_ways } => {
                let back = if both_ways { Back::TheSame } else { Back::Nothing };
                Engine::Datagrams(Datagrams::new(port, ulids, pace, back, [Some(start), until]))
            }
        };
        Self { plan, ulids, engine, last_packets: [None; 2], is_over: false, wake: None }
    }

    pub(crate) fn host(&self, side: Side) -> usize {
        match side {
            Side::From => self.plan.from.host,
            Side::To => self.plan.to.host,
        }
    }

    /// The ULID pair as one side has it.
    pub(crate) fn ulids_of(&self, side: Side) -> UlidPair {
        match side {
            Side::From => self.ulids,
            Side::To => UlidPair::new(self.ulids.peer, self.ulids.local),
        }
    }

    /// A packet comes to `side`: when the one before it came.
    pub(crate) fn note_packet(&mut self, side: Side, now: Instant) -> Option<Instant> {
        let [there, back] = &mut self.last_packets;
        let last = if side == Side::To { there } else { back };
        last.replace(now)
    }

    /// When the last packet came to `side`.
    pub(crate) const fn last_packet(&self, side: Side) -> Option<Instant> {
        let [there, back] = self.last_packets;
        match side {
            Side::To => there,
            Side::From => back,
        }
    }

    /// A packet that came to `side`.
    pub(crate) fn handle_packet(
        &mut self,
        side: Side,
        packet: &[u8],
        now: Instant,
    ) -> Result<Option<Delivery>, Garbled> {
        match &mut self.engine {
            Engine::Stream(stream) => stream.handle_packet(side, packet, now),
            Engine::Datagrams(datagrams) => datagrams.handle_packet(side, packet),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match &mut self.engine {
            Engine::Stream(stream) => stream.handle_timeout(now),
            Engine::Datagrams(datagrams) => datagrams.handle_timeout(now),
        }
    }

    /// The host of `side` has found a path that works: what RFC 6069 makes of the ICMPv6 error that
    /// the daemon sends to the local socket then.
    pub(crate) fn handle_path_restored(&mut self, side: Side, now: Instant) {
        if let (Engine::Stream(stream), Side::From) = (&mut self.engine, side) {
            stream.handle_path_restored(now);
        }
    }

    pub(crate) fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        match &mut self.engine {
            Engine::Stream(stream) => stream.poll_packet(),
            Engine::Datagrams(datagrams) => datagrams.poll_packet(),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match &self.engine {
            Engine::Stream(stream) => stream.poll_timeout(),
            Engine::Datagrams(datagrams) => datagrams.poll_timeout(),
        }
    }

    /// When a stream's sender last got an acknowledgement.
    pub(crate) fn progress(&self) -> Option<Instant> {
        match &self.engine {
            Engine::Stream(stream) => Some(stream.progress()),
            Engine::Datagrams(_) => None,
        }
    }

    /// Whether nothing more will be sent: all of a stream has arrived and is known to have.
    pub(crate) fn is_finished(&self) -> bool {
        match &self.engine {
            Engine::Stream(stream) => stream.is_finished(),
            Engine::Datagrams(datagrams) => datagrams.is_finished(),
        }
    }

    /// The receiver of a stream takes a wrong octet for right: for tests.
    pub(crate) fn swallow_octet(&mut self) {
        if let Engine::Stream(stream) = &mut self.engine {
            stream.swallow_octet();
        }
    }

    /// Whether a stream ended with the sums of both sides equal; `None`: it has not ended, or is none.
    pub(crate) fn is_intact(&self) -> Option<bool> {
        match &self.engine {
            Engine::Stream(stream) => stream.is_finished().then(|| stream.is_intact()),
            Engine::Datagrams(_) => None,
        }
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
