//! Between Shim6 and a data plane.
//!
//! What a plane does for each packet between a local and a peer address:
//!
//! * **No context**: unicast packets other than ICMPv6 are counted per address pair, both directions
//!   together. At one of the limits that [`Triggers`] set for the packet, one [`Report::Trigger`] goes
//!   up; the pair is not reported again before [`Update::Rearm`] or before it was idle for
//!   [`TriggerPolicy::idle`].
//! * **Context, outbound**: the transmit time is noted. On a path that has moved, the addresses are replaced and
//!   what the path's [`Encapsulation`](moorline_types::Encapsulation) says goes in behind the IPv6 header.
//! * **Context, inbound**: the receive time is noted. A payload header with a tag of ours is taken
//!   out and the ULIDs are put back, if the source is a peer locator of the context. An unknown tag
//!   goes up as a control packet.
//! * **Paths**: a context may have [`paths`](ContextEntry::paths) besides its current pair. The packet mark
//!   ([`PathMark`]) says which one a packet takes, so that flows of one ULID pair go several ways at once.
//! * **ICMPv6 errors** that quote a packet sent by a context since it moved to its current locators, with
//!   those and the peer's tag: the ULIDs are put back into the quote, the payload header is taken out,
//!   Packet Too Big reports so many octets less (RFC 5533 s8), and the error goes to the sockets.
//!
//! Timers ([`ReapTimers`]), per context; a plane may round durations up, to microseconds, and `idle` to
//! milliseconds, of which it keeps 32 bits:
//!
//! * `SendExpired` once when `send` has passed since the first payload sent after the last one
//!   received (or after [`Update::Heard`]); the next payload sent starts a new period.
//! * `KeepaliveDue` every `keepalive_interval` after the first payload received since the last one
//!   sent, until something is sent or `keepalive_timeout` has passed.
//! * `Received` once after an [`Update::Upsert`] whose `watch` differs from the last one reported,
//!   at the next payload received.
//!
//! **Failure hints**, for contexts with [`suspects`](ContextEntry::suspects) and running timers: what the transport lets see of
//! a pair that has failed, long before the Send Timer runs out. It is suspicion and no proof. [`FailureHint::Retransmission`]
//! and [`FailureHint::Silence`] come once in a silent period, which ends with the next payload received,
//! [`Update::Heard`], or an [`Update::Upsert`] that changes the locators; if it ends without a change of locators
//! the plane was wrong, and waits twice as long on that context the next time, up to a bound.
//!
//! **Congestion**, for contexts with [`congestion`](ContextEntry::congestion): [`PathCounters`], read on demand, and
//! [`Report::Congested`].

mod paths;
mod trigger;

use alloc::sync::Arc;
use core::time::Duration;
use moorline_types::{ContextId, ContextTag, Instant, Locators, Path, UlidPair, named_enum};

use crate::Plane;

pub use paths::{PathCounters, PathMark};
pub use trigger::{
    Exclusion, MAX_TRIGGER_RULES, TooManyRules, Traffic, TriggerPolicy, TriggerRule, Triggers,
    is_eui64,
};

/// A data plane of Shim6, which counts and has a policy besides.
pub trait ContextPlane: Plane<Update = Update, Report = Report> {
    /// Changes when traffic deserves a context: from the next packet on. What was counted so far, and what was reported,
    /// stays so.
    ///
    /// # Errors
    /// What the plane works with fails.
    fn set_triggers(&mut self, triggers: &Triggers) -> Result<(), Self::Error>;

    /// Counters of a context; zero if there is none.
    ///
    /// # Errors
    /// What the plane works with fails.
    fn counters(&self, context: ContextId) -> Result<ContextCounters, Self::Error>;

    /// Congestion and round trip time of a context's current pair; `None` if it was not asked for, or there is no room.
    ///
    /// # Errors
    /// What the plane works with fails.
    fn path_counters(&self, context: ContextId) -> Result<Option<PathCounters>, Self::Error>;
}

/// What a data plane tells the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Traffic between these addresses is worth a context.
    Trigger {
        /// Local and peer address of the traffic.
        ulids: UlidPair,
    },
    /// Send Timer ran out: payload went out and nothing has come back (RFC 5534 s6.4).
    SendExpired {
        /// Whose timer.
        context: ContextId,
        /// When the first unanswered payload left.
        since: Instant,
    },
    /// Payload came in and nothing went out for a keepalive interval (RFC 5534 s6.1).
    KeepaliveDue {
        /// Whose timer.
        context: ContextId,
    },
    /// The payload packet that the core was watching for came in.
    Received {
        /// On which context.
        context: ContextId,
        /// When.
        at: Instant,
    },
    /// Payload of a context goes on while the core had thought it quiet, or has stopped for
    /// [`ContextEntry::idle`]: the basis of teardown.
    Idle {
        /// Which context.
        context: ContextId,
        /// When its last payload went out or came in.
        since: Instant,
    },
    /// The current pair may have failed. A hint that may be wrong, and [`FailureHint::Unreachable`] one that anyone
    /// can forge: it is worth a probe, and nothing more.
    Suspected {
        /// Of which context.
        context: ContextId,
        /// What the reason is.
        hint: FailureHint,
        /// When the first unanswered payload that wants an answer left (rounded down, to 0.1 ms); for
        /// [`FailureHint::Unreachable`], now.
        since: Instant,
        /// The longest wait for an answer in the last 4 to 8 s, rounded up to 4.2 ms, and 1.1 s if it was longer; zero:
        /// there was none.
        usual: Duration,
    },
    /// Congestion was signalled on a context: at most one in [`CONGESTED_INTERVAL`].
    Congested {
        /// On which.
        context: ContextId,
        /// When.
        at: Instant,
        /// Packets received with Congestion Experienced since the last such report.
        ce: u32,
        /// TCP segments received with ECN-Echo since the last such report.
        ece: u32,
    },
    /// A socket has left no room for a header in a packet that needs one. It is for those who own the routes of sockets:
    /// the core has nothing to do.
    NoRoom {
        /// On which context.
        context: ContextId,
    },
}

named_enum! {
    /// Why a data plane suspects a pair.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum FailureHint {
        /// TCP has sent the same again, with nothing received since.
        Retransmission => "retransmission",
        /// A flow with answers has had none for several times as long as usual.
        Silence => "silence",
        /// An ICMPv6 Destination Unreachable that quotes a packet of ours, other than Port Unreachable, which anybody on the way may have
        /// made up. At most one a second.
        Unreachable => "unreachable",
    }
}

/// What the core tells a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds a context or changes it in place; times noted so far are kept. Of several with the same
    /// ULIDs the one that was added last is found by them, and the others by their tags alone.
    Upsert(ContextEntry),
    /// A control message of the peer came in: counts as payload received for the Send Timer.
    Heard {
        /// On which context.
        context: ContextId,
        /// When.
        at: Instant,
    },
    /// Forgets a context; its addresses are plain traffic again and start counting from zero.
    Remove {
        /// Which context.
        context: ContextId,
    },
    /// Lets the traffic of this pair trigger again.
    Rearm {
        /// Local and peer address of the traffic.
        ulids: UlidPair,
    },
}

/// All that a data plane knows of a context.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContextEntry {
    /// Slot, unique among live contexts.
    pub id: ContextId,
    /// The addresses sockets see.
    pub ulids: UlidPair,
    /// The tag in payload that we receive.
    pub local_tag: ContextTag,
    /// The tag in payload that we send.
    pub peer_tag: ContextTag,
    /// The current path: addresses of what we send, and what it carries.
    pub current: Path,
    /// Locators that the peer may send from, at most [`MAX_PEER_LOCATORS`].
    pub peer_locators: Locators,
    /// Timers to run; `None` while the core explores.
    pub timers: Option<ReapTimers>,
    /// Nonzero: report the next payload received, once for each new value.
    pub watch: u32,
    /// Report when no payload has gone either way for this long.
    pub idle: Duration,
    /// Report [`Suspected`](Report::Suspected).
    pub suspects: bool,
    /// Count congestion and report [`Congested`](Report::Congested).
    pub congestion: bool,
    /// Path `i` of the packet mark is `paths[i - 1]`; path 0, and one that is not there, is `current`. At most
    /// [`MAX_PATHS`].
    pub paths: Arc<[Path]>,
    /// Flows without a path in their mark are spread over `current` and `paths`, each flow on one of them.
    pub spread: bool,
}

impl ContextEntry {
    /// Whether traffic may take other addresses than the ULIDs, by whichever path, and so carry the payload header.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.all_paths().any(Path::is_moved)
    }

    /// The current path and the others.
    pub fn all_paths(&self) -> impl Iterator<Item = Path> {
        core::iter::once(self.current).chain(self.paths.iter().copied())
    }

    /// The most octets by which a packet is longer on the wire than the socket has sent it.
    #[must_use]
    pub fn overhead(&self) -> u16 {
        self.all_paths().map(Path::overhead).max().unwrap_or(0)
    }
}

/// Durations of the timers that a data plane runs for a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReapTimers {
    /// Send Timeout.
    pub send: Duration,
    /// Time between keepalives.
    pub keepalive_interval: Duration,
    /// How long keepalives go on after the last payload received; zero: none are due.
    pub keepalive_timeout: Duration,
}

/// Locators a context accepts payload from: what fits the data plane's entry (design s5: 32).
pub const MAX_PEER_LOCATORS: usize = 32;

/// Paths a context has besides its current pair: the current one and these are as many as the locator pairs of
/// design s4, 32.
pub const MAX_PATHS: usize = 31;

/// Least time between two [`Report::Congested`] of a context: 100 ms. Not configurable.
pub const CONGESTED_INTERVAL: Duration = Duration::from_millis(100);

/// Counters of one context, read from the data plane on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextCounters {
    /// Payload packets sent.
    pub tx_packets: u64,
    /// Octets of them.
    pub tx_bytes: u64,
    /// Payload packets received.
    pub rx_packets: u64,
    /// Octets of them.
    pub rx_bytes: u64,
    /// Time of the last packet sent, zero if none.
    pub last_tx: Instant,
    /// Time of the last packet received, zero if none.
    pub last_rx: Instant,
}
