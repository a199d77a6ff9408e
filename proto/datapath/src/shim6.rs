//! Contract between Shim6 and a data plane.
//!
//! Work of a plane for each packet between a local and a peer address:
//!
//! * **No context**: the plane counts unicast packets other than ICMPv6 per address pair, both directions together.
//!   If a pair reaches one of the limits that [`Triggers`] set for the packet, the plane gives one
//!   [`Report::Trigger`]. It reports the pair again only after [`Update::Rearm`], or after the pair was idle for
//!   [`TriggerPolicy::idle`].
//! * **Context, outbound**: the plane notes the transmit time. On a path that has moved, it replaces the addresses
//!   and inserts the header of the path's [`Encapsulation`](moorline_types::Encapsulation) behind the IPv6 header.
//! * **Context, inbound**: the plane notes the receive time. If a payload header has a tag of ours and the source is
//!   a peer locator of the context, the plane takes the header out and puts the ULIDs back. A packet with an unknown
//!   tag goes up as a control packet.
//! * **Paths**: a context may have [`paths`](ContextEntry::paths) besides its current pair. The packet mark
//!   ([`PathMark`]) says which path a packet takes, so that flows of one ULID pair use several paths at once.
//! * **ICMPv6 errors**: an error may quote a packet that a context has sent since it moved to its current locators,
//!   with these and the tag of the peer. The plane then puts the ULIDs back into the quote and takes the payload
//!   header out. It lowers the MTU of Packet Too Big by the length of that header (RFC 5533 s8). The error goes to
//!   the sockets.
//!
//! Timers ([`ReapTimers`]) run per context. A plane may round durations up to microseconds. It may round `idle` up to
//! milliseconds, of which it keeps 32 bits.
//!
//! * `SendExpired` comes once when `send` has passed since the first payload sent after the last one received (or
//!   after [`Update::Heard`]). The next payload sent starts a new period.
//! * `KeepaliveDue` comes every `keepalive_interval` after the first payload received since the last one sent, until
//!   payload is sent or `keepalive_timeout` has passed.
//! * `Received` comes once after an [`Update::Upsert`] whose `watch` differs from the last one reported, at the next
//!   payload received.
//!
//! **Failure hints** are for contexts with [`suspects`](ContextEntry::suspects) and running timers. They tell of
//! signs that the current pair has failed, long before the Send Timer expires. A hint is a suspicion and no proof.
//! [`FailureHint::Retransmission`] and [`FailureHint::Silence`] come once in a silent period. The period ends with
//! the next payload received, with [`Update::Heard`], or with an [`Update::Upsert`] that changes the locators. If it
//! ends without a change of locators, the hint was wrong. The plane then waits twice as long on that context the next
//! time, up to a bound. [`FailureHint::Unproven`] is told at payload that anybody could have sent, if for a second no
//! other payload has answered what the context sends, and no [`Update::Heard`] has come.
//!
//! **Congestion** is counted for contexts with [`congestion`](ContextEntry::congestion): [`PathCounters`], read on
//! demand, and [`Report::Congested`].

mod paths;
mod trigger;

use alloc::sync::Arc;
use core::time::Duration;
use moorline_types::{
    ContextId, ContextTag, Instant, LocatorPair, Locators, Path, UlidPair, named_enum,
};

use crate::Plane;

pub use paths::{PathCounters, PathMark};
pub use trigger::{
    Exclusion, MAX_TRIGGER_RULES, TooManyRules, Traffic, TriggerPolicy, TriggerRule, Triggers,
    is_eui64,
};

/// A data plane of Shim6, which also has counters and a trigger policy.
pub trait ContextPlane: Plane<Update = Update, Report = Report> {
    /// Changes when traffic deserves a context, from the next packet on. Counters and reports of the past stay as
    /// they are.
    ///
    /// # Errors
    /// An operation of the kernel or library below the plane fails.
    fn set_triggers(&mut self, triggers: &Triggers) -> Result<(), Self::Error>;

    /// Counters of a context; zero if there is none.
    ///
    /// # Errors
    /// An operation of the kernel or library below the plane fails.
    fn counters(&self, context: ContextId) -> Result<ContextCounters, Self::Error>;

    /// Congestion and round trip time of the current pair of a context; `None` if the core did not ask for them, or
    /// if there is no room.
    ///
    /// # Errors
    /// An operation of the kernel or library below the plane fails.
    fn path_counters(&self, context: ContextId) -> Result<Option<PathCounters>, Self::Error>;
}

/// A report of a data plane to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Traffic between these addresses is worth a context.
    Trigger {
        /// Local and peer address of the traffic.
        ulids: UlidPair,
    },
    /// The Send Timer expired: payload was sent and none has come back (RFC 5534 s6.4).
    SendExpired {
        /// Context of the timer.
        context: ContextId,
        /// Time when the first unanswered payload was sent.
        since: Instant,
    },
    /// Payload was received and none was sent for a keepalive interval (RFC 5534 s6.1).
    KeepaliveDue {
        /// Context of the timer.
        context: ContextId,
    },
    /// The payload that the core was watching for was received.
    Received {
        /// Context of the payload.
        context: ContextId,
        /// Time of the payload.
        at: Instant,
    },
    /// No payload of a context has been sent or received for [`ContextEntry::idle`]. The core tears contexts down by
    /// these reports.
    Idle {
        /// The context.
        context: ContextId,
        /// Time when the last payload was sent or received.
        since: Instant,
    },
    /// The current pair may have failed. A hint may be wrong, and anyone can forge [`FailureHint::Unreachable`]. So a
    /// hint is worth a probe, and nothing more.
    Suspected {
        /// Context of the pair.
        context: ContextId,
        /// Reason of the hint.
        hint: FailureHint,
        /// Time when the first payload without an answer was sent (rounded down to 0.1 ms). For
        /// [`FailureHint::Unreachable`] and [`FailureHint::Unproven`], the present time.
        since: Instant,
        /// Longest wait for an answer in the last 4 to 8 s, rounded up to 4.2 ms; 1.1 s if it was longer; zero if
        /// there was none.
        usual: Duration,
    },
    /// Congestion was signalled on a context. At most one report comes in [`CONGESTED_INTERVAL`].
    Congested {
        /// The context.
        context: ContextId,
        /// Time of the signal.
        at: Instant,
        /// Packets received with Congestion Experienced since the last such report.
        ce: u32,
        /// TCP segments received with ECN-Echo since the last such report.
        ece: u32,
    },
    /// A socket has left no room for a header in a packet that needs one. The report is for the owner of the routes
    /// of sockets; the core has nothing to do.
    NoRoom {
        /// Context of the packet.
        context: ContextId,
    },
}

named_enum! {
    /// Reason why a data plane suspects a pair.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum FailureHint {
        /// TCP has retransmitted, and nothing has been received since.
        Retransmission => "retransmission",
        /// A flow whose packets are usually answered has had no answer for several times the usual wait.
        Silence => "silence",
        /// An ICMPv6 Destination Unreachable quotes a packet of ours. It is no Port Unreachable. Anyone can forge it.
        /// At most one hint comes in a second.
        Unreachable => "unreachable",
        /// For a second or longer, no payload that answers sent payload has shown that its sender knows the tag or a
        /// TCP connection. Anyone can forge such payload. At most one hint comes in a second.
        Unproven => "unproven",
    }
}

/// A decision of the core for a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds a context or changes it in place; the plane keeps the times that it has noted. Of several contexts with
    /// the same ULIDs, the ULIDs find the one that was added last, and only their tags find the others.
    Upsert(ContextEntry),
    /// The core has received a control message of the peer: it counts as received payload for the Send Timer.
    Heard {
        /// The context.
        context: ContextId,
        /// Time of the message.
        at: Instant,
    },
    /// Forgets a context. Its addresses are plain traffic again, which is counted from zero.
    Remove {
        /// The context.
        context: ContextId,
    },
    /// Lets the traffic of this pair trigger again.
    Rearm {
        /// Local and peer address of the traffic.
        ulids: UlidPair,
    },
}

/// All facts that a data plane has about a context.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContextEntry {
    /// Slot, unique among live contexts.
    pub id: ContextId,
    /// The addresses that sockets see.
    pub ulids: UlidPair,
    /// Tag in payload that we receive.
    pub local_tag: ContextTag,
    /// Tag in payload that we send.
    pub peer_tag: ContextTag,
    /// The current path: the addresses in packets that we send, and the encapsulation.
    pub current: Path,
    /// Locators that the peer may send from, at most [`MAX_PEER_LOCATORS`].
    pub peer_locators: Locators,
    /// Timers to run; `None` while the core explores.
    pub timers: Option<ReapTimers>,
    /// If it is not zero, the plane reports the next payload received, once for each new value.
    pub watch: u32,
    /// The plane reports when no payload has been sent or received for this long.
    pub idle: Duration,
    /// Whether the plane reports [`Suspected`](Report::Suspected).
    pub suspects: bool,
    /// Whether the plane counts congestion and reports [`Congested`](Report::Congested).
    pub congestion: bool,
    /// Further paths, at most [`MAX_PATHS`]. Path `i` of the packet mark is `paths[i - 1]`. Path 0, and a path that
    /// does not exist, is `current`.
    pub paths: Arc<[Path]>,
    /// Whether flows whose mark names no path are spread over `current` and `paths`, each flow on one of them.
    pub spread: bool,
}

impl ContextEntry {
    /// Whether traffic may take other addresses than the ULIDs by any path, and so carry the payload header.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.all_paths().any(Path::is_moved)
    }

    /// The current path, followed by the others.
    pub fn all_paths(&self) -> impl Iterator<Item = Path> {
        core::iter::once(self.current).chain(self.paths.iter().copied())
    }

    /// Largest number of octets that a packet gains between the socket and the wire.
    #[must_use]
    pub fn overhead(&self) -> u16 {
        self.all_paths().map(Path::overhead).max().unwrap_or(0)
    }
}

/// The pair by which a data plane sends the payload of a context, with the names of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairInUse {
    /// The addresses that sockets see.
    pub ulids: UlidPair,
    /// Tag in payload that we receive.
    pub local_tag: ContextTag,
    /// Tag in payload that we send.
    pub peer_tag: ContextTag,
    /// The addresses in packets that we send.
    pub pair: LocatorPair,
}

/// Durations of the timers that a data plane runs for a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReapTimers {
    /// Send Timeout.
    pub send: Duration,
    /// Time between keepalives.
    pub keepalive_interval: Duration,
    /// Time for which keepalives go on after the last payload received; zero: no keepalives.
    pub keepalive_timeout: Duration,
}

/// Largest number of locators from which a context accepts payload: as many as the entry of the data plane holds
/// (design s5: 32).
pub const MAX_PEER_LOCATORS: usize = 32;

/// Largest number of paths of a context besides its current pair: with that pair, as many as the locator pairs of
/// design s4, 32.
pub const MAX_PATHS: usize = 31;

/// Least time between two [`Report::Congested`] of a context: 100 ms. Not configurable.
pub const CONGESTED_INTERVAL: Duration = Duration::from_millis(100);

/// Counters of one context, read from the data plane on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextCounters {
    /// Payload packets sent.
    pub tx_packets: u64,
    /// Octets of the payload packets sent.
    pub tx_bytes: u64,
    /// Payload packets received.
    pub rx_packets: u64,
    /// Octets of the payload packets received.
    pub rx_bytes: u64,
    /// Time of the last packet sent, zero if none.
    pub last_tx: Instant,
    /// Time of the last packet received, zero if none.
    pub last_rx: Instant,
}
