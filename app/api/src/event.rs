use crate::open_enum::open_enum;
use crate::types::Pair;
use serde::{Deserialize, Serialize};

/// Something that happened, in the order it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1 within one run of the daemon, without gaps.
    pub seq: u64,
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// When, nanoseconds of `CLOCK_MONOTONIC`: for differences between processes of one machine.
    pub at_ns: u64,
    /// What.
    pub kind: EventKind,
    /// Number of the context it happened to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Number of the ILNP session it happened to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// The addresses that sockets see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ulids: Option<Pair>,
    /// Locator pair before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Pair>,
    /// Locator pair after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Pair>,
    /// Why, for a person; names the interface in events of uplinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Event {
    /// An event with nothing but its place, time and kind.
    #[must_use]
    pub const fn new(seq: u64, at_unix_ms: u64, at_ns: u64, kind: EventKind) -> Self {
        Self {
            seq,
            at_unix_ms,
            at_ns,
            kind,
            context: None,
            session: None,
            ulids: None,
            from: None,
            to: None,
            reason: None,
        }
    }
}

open_enum! {
    /// What happened.
    EventKind {
        /// The daemon is ready.
        DaemonStarted = "daemon-started",
        /// The daemon was told to stop and is restoring what it changed.
        DaemonStopping = "daemon-stopping",
        /// An uplink appeared or got its carrier back.
        UplinkUp = "uplink-up",
        /// An uplink lost its carrier, its route or itself.
        UplinkDown = "uplink-down",
        /// The hosts of `uplink-probes`, or peers of contexts, answer by another uplink, and no more by this one; or its router does not answer.
        UplinkFailing = "uplink-failing",
        /// New connections may take this uplink again: they have answered by it for long enough, or answer by none.
        UplinkBack = "uplink-back",
        /// The set of our locators is another.
        LocatorsChanged = "locators-changed",
        /// Traffic earned a context: the I1 goes out.
        ContextTriggered = "context-triggered",
        /// Both ends have the context.
        ContextEstablished = "context-established",
        /// The exchange failed.
        ContextFailed = "context-failed",
        /// The peer does not speak Shim6: its traffic stays plain IPv6.
        PeerNoSupport = "peer-no-support",
        /// Signs that the current pair has failed, before a timer says so.
        Suspect = "suspect",
        /// The current pair answered, or nothing could be found out: nothing moves.
        Cleared = "cleared",
        /// The current pair is held to have failed: probing.
        Exploring = "exploring",
        /// Probes or payload come in again.
        InboundOk = "inbound-ok",
        /// A pair works in both directions.
        Operational = "operational",
        /// Payload of a context or session takes another locator pair from now on.
        Moved = "moved",
        /// Someone, or a policy, asked for another path: the reason says who and for what.
        PathRequested = "path-requested",
        /// A pair that was asked for did not answer: payload stays where it is.
        PathUnanswered = "path-unanswered",
        /// The path `to` of a context is congested: the reason has the figures.
        Congested = "congested",
        /// The context is gone.
        ContextRemoved = "context-removed",
        /// ILNP: both ends have the session; the reason says why it was admitted.
        SessionEstablished = "session-established",
        /// ILNP: the correspondent has read our locators.
        LocatorsAcknowledged = "locators-acknowledged",
        /// ILNP: the traffic of a pair goes on without a session, as plain IPv6.
        NoSession = "no-session",
        /// ILNP: the session is gone.
        SessionForgotten = "session-forgotten",
        /// Someone should look: the reason says at what.
        Warning = "warning",
        /// Older events asked for are no longer kept: the reason says how many.
        Missed = "missed",
    }
}

/// Query of `GET /v1/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsQuery {
    /// Send the kept events with a larger `seq` first; without it only those that come from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// `false`: end the answer after the kept events. Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

impl EventsQuery {
    /// Whether the answer goes on with events to come.
    #[must_use]
    pub fn is_following(self) -> bool {
        self.follow.unwrap_or(true)
    }

    /// Path and query of the request.
    #[must_use]
    pub fn to_path(self) -> String {
        let since = self.since.map(|seq| format!("since={seq}"));
        let follow = self.follow.map(|follow| format!("follow={follow}"));
        let query = [since, follow].into_iter().flatten().collect::<Vec<_>>().join("&");
        let separator = if query.is_empty() { "" } else { "?" };
        format!("{}{separator}{query}", crate::paths::EVENTS)
    }
}
