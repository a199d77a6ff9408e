//! Traffic: applications at the two ends, and the arrival of their payload.

mod content;
mod datagrams;
mod ends;
mod numbered;
mod stream;
mod tcp;
mod udp;

use moorline_stack::stack::Carried;
use moorline_types::{Instant, UlidPair};

use crate::log::instant;
use crate::plan::{Kind, Workload};
use datagrams::Datagrams;
use numbered::{Back, Numbered};
use stream::Stream;

pub(crate) use content::Sum;
pub(crate) use ends::End;
pub(crate) use tcp::Tcp;
pub(crate) use udp::Udp;

/// An end of a workload.
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

    /// The pair as this side has it; `ulids` is as the first side has it.
    pub(crate) fn pair(self, ulids: UlidPair) -> UlidPair {
        match self {
            Self::From => ulids,
            Self::To => ulids.reversed(),
        }
    }
}

/// A workload that has begun.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) plan: Workload,
    /// ULIDs as the first side has them.
    pub(crate) ulids: UlidPair,
    pub(crate) application: Box<dyn Application>,
    /// Whether the application is a connection of the host stack's TCP.
    pub(crate) has_tcp: bool,
    /// Time of the last packet to each side.
    last_packets: [Option<Instant>; 2],
    /// Whether the workload has ended, and its end has been handled.
    pub(crate) is_over: bool,
    /// Time of the next call of [`Application::handle_timeout`], as the queue has it.
    pub(crate) wake: Option<Instant>,
}

/// An application at both ends.
pub(crate) trait Application: std::fmt::Debug {
    /// Handles a packet to `side`. Returns the octets of new payload; `None` if the packet differs from what was
    /// sent.
    fn handle_packet(&mut self, side: Side, packet: &[u8], now: Instant) -> Option<usize>;

    /// Lets the application of `side` use the sockets of a host stack, to which something has happened. Returns as
    /// [`Self::handle_packet`].
    fn advance(&mut self, _side: Side, _now: Instant) -> Option<usize> {
        Some(0)
    }

    /// Handles a Packet Too Big to `side`. Its quote has the addresses of the sockets.
    fn handle_too_big(&mut self, _side: Side, _packet: &[u8], _now: Instant) {}

    /// Takes how the packets of `side` leave a host with a daemon; `None` if with the addresses of the sockets.
    fn follow_path(&mut self, _side: Side, _carried: Option<Carried>) {}

    /// Takes the word that the host stack of `side` has restarted, without its sockets. Returns whether the application goes on, and opens
    /// its socket again: see [`Self::reopen`]. A connection of TCP does not.
    fn handle_reboot(&mut self, _side: Side, _now: Instant) -> bool {
        false
    }

    /// Opens the socket of `side` at a host that has restarted. Returns whether there is one.
    fn reopen(&mut self, _side: Side, _end: End, _now: Instant) -> bool {
        false
    }

    /// Whether both sides have their sockets. A host that has restarted may lack the address of its socket.
    fn has_sockets(&self) -> bool {
        true
    }

    fn handle_timeout(&mut self, now: Instant);

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)>;

    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether the application is done: a whole stream has arrived and is acknowledged.
    fn is_finished(&self) -> bool;

    /// Notes that the host of `side` has found a path that works. The daemon then sends an ICMPv6 error to the local
    /// socket, and this is the reaction of RFC 6069.
    fn handle_path_restored(&mut self, _side: Side, _now: Instant) {}

    /// Time since when a stream's sender has waited for an acknowledgement: its backoff is no longer than that.
    fn progress(&self) -> Option<Instant> {
        None
    }

    /// Whether a stream ended with equal sums at both sides; `None` if it has not ended, or is no stream.
    fn is_intact(&self) -> Option<bool> {
        None
    }

    /// Has the receiver of a stream accept a wrong octet.
    #[cfg(test)]
    fn swallow_octet(&mut self) {}
}

impl Running {
    pub(crate) fn new(number: usize, plan: Workload, ulids: UlidPair, start: Instant) -> Self {
        let port = port_of(number);
        let times = [Some(start), plan.until.map(instant)];
        let application: Box<dyn Application> = match plan.kind {
            Kind::Stream { bytes, pace } => Box::new(Stream::new(port, ulids, bytes, pace, times)),
            Kind::Requests { pace } | Kind::Datagrams { pace, .. } => {
                let numbered = Numbered::new(port, pace, Back::of(plan.kind), times);
                Box::new(Datagrams::new(port, ulids, numbered))
            }
        };
        Self::with(plan, ulids, application)
    }

    /// A workload with this application.
    pub(crate) fn with(plan: Workload, ulids: UlidPair, application: Box<dyn Application>) -> Self {
        Self {
            plan,
            ulids,
            application,
            has_tcp: false,
            last_packets: [None; 2],
            is_over: false,
            wake: None,
        }
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

    /// Notes a packet to `side`. Returns the time of the packet before.
    pub(crate) fn note_packet(&mut self, side: Side, now: Instant) -> Option<Instant> {
        self.last_packets[side as usize].replace(now)
    }

    /// Time of the last packet to `side`.
    pub(crate) const fn last_packet(&self, side: Side) -> Option<Instant> {
        self.last_packets[side as usize]
    }
}

/// The port of a workload: ports from 5000 on, the same at both ends, tell workloads apart.
pub(crate) fn port_of(number: usize) -> u16 {
    FIRST_PORT.saturating_add(u16::try_from(number).unwrap_or(u16::MAX))
}

/// The workload of a port.
pub(crate) fn number_of(port: u16) -> Option<usize> {
    port.checked_sub(FIRST_PORT).map(usize::from)
}

const FIRST_PORT: u16 = 5000;
