use alloc::vec::Vec;
use moorline_types::LocatorPair;
pub use moorline_wire::ProbeReport as Report;

use crate::{CHECK, CHECK_CURRENT, State};

/// The content of a probe, without context tag and checksum (RFC 5534 s5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The Sta field.
    pub state: State,
    /// Sent probes: this probe first, then earlier probes that have not been reported, the newest first.
    pub sent: Vec<Report>,
    /// Received probes since the sender last began to explore, the newest first.
    pub received: Vec<Report>,
}

impl Probe {
    /// Whether the probe is a check (decision 046). On the wire a check has a critical option, which makes hosts
    /// without this extension refuse it (decision 143).
    #[must_use]
    pub fn is_check(&self) -> bool {
        [CHECK, CHECK_CURRENT].iter().any(|data| self.is_worded_as_check(*data))
    }

    /// Whether the probe is a check with this Probe Data.
    pub(crate) fn is_worded_as_check(&self, data: u32) -> bool {
        self.state == State::Operational
            && self.received.is_empty()
            && self.sent.first().is_some_and(|report| report.data == data)
    }
}

impl Transmit {
    /// The nonce of a probe.
    pub(crate) fn nonce(&self) -> Option<u32> {
        match &self.message {
            Message::Probe(probe) => Some(probe.sent.first()?.nonce),
            Message::Keepalive => None,
        }
    }
}

/// A REAP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Keepalive (RFC 5534 s5.1).
    Keepalive,
    /// Probe (RFC 5534 s5.2).
    Probe(Probe),
}

/// A message and the addresses for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination.
    pub pair: LocatorPair,
    /// The message to send.
    pub message: Message,
}

/// Whether this report is about the probe with this nonce that went by this pair, as its sender sees it.
pub(crate) fn is_about(report: &Report, pair: LocatorPair, nonce: u32) -> bool {
    report.nonce == nonce && LocatorPair::new(report.src, report.dst) == pair
}
