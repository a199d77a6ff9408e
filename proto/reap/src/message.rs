use alloc::vec::Vec;
use moorline_types::LocatorPair;
pub use moorline_wire::ProbeReport as Report;

use crate::{CHECK, CHECK_CURRENT, State};

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

impl Probe {
    /// Whether this is a check (decision 046). On the wire a check has the critical option that keeps it from hosts that
    /// know no checks (decision 143).
    #[must_use]
    pub fn is_check(&self) -> bool {
        [CHECK, CHECK_CURRENT].iter().any(|data| self.is_worded_as_check(*data))
    }

    /// Whether this is a check with this Probe Data.
    pub(crate) fn is_worded_as_check(&self, data: u32) -> bool {
        self.state == State::Operational
            && self.received.is_empty()
            && self.sent.first().is_some_and(|report| report.data == data)
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

/// A message and the addresses to send it from and to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination.
    pub pair: LocatorPair,
    /// What to send.
    pub message: Message,
}
