use alloc::vec::Vec;
use moorline_types::LocatorPair;
pub use moorline_wire::ProbeReport as Report;

use crate::State;

/// A probe, without what is for its way: context tag and checksum (RFC 5534 s5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Sta.
    pub state: State,
    /// Sent probes: this one first, then earlier ones that have not been reported, newest first.
    pub sent: Vec<Report>,
    /// Probes of the other end that came in since its sender last began to explore, newest first.
    pub received: Vec<Report>,
}

/// A REAP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Keepalive (RFC 5534 s5.1).
    Keepalive,
    /// Probe (RFC 5534 s5.2).
    Probe(Probe),
}

/// A message and the addresses to send it from and to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination.
    pub pair: LocatorPair,
    /// What to send.
    pub message: Message,
}
