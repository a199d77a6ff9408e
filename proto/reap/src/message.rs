use alloc::vec::Vec;
use moorline_types::{Locator, LocatorPair};

use crate::State;

/// What a probe says of a probe, sent or received (RFC 5534 s5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Probe Source: whoever sent that probe.
    pub source: Locator,
    /// Probe Destination.
    pub destination: Locator,
    /// Probe Nonce.
    pub nonce: u32,
    /// Probe Data: copied back unchanged.
    pub data: u32,
}

/// A probe to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeOut {
    /// Sta.
    pub state: State,
    /// Sent probes: this one first, then earlier ones the peer has not reported, newest first.
    pub sent: Vec<Report>,
    /// The peer's probes that came in since we last began to explore, newest first.
    pub received: Vec<Report>,
}

/// A probe that came in, its context tag and checksum already found right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeIn<'a> {
    /// Sta.
    pub state: State,
    /// Sent probes, the first of which is this one.
    pub sent: &'a [Report],
    /// Our probes that the peer has received.
    pub received: &'a [Report],
}

impl ProbeOut {
    /// The same probe as its receiver sees it.
    #[must_use]
    pub fn as_received(&self) -> ProbeIn<'_> {
        ProbeIn { state: self.state, sent: &self.sent, received: &self.received }
    }
}

/// A REAP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Keepalive (RFC 5534 s5.1).
    Keepalive,
    /// Probe (RFC 5534 s5.2).
    Probe(ProbeOut),
}

/// A message and the addresses to send it from and to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination.
    pub pair: LocatorPair,
    /// What to send.
    pub message: Message,
}
