use crate::open_enum::open_enum;
use crate::types::Pair;
use serde::{Deserialize, Serialize};

/// An event of the daemon. Events have the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Number of the event: counts from 1 within one run of the daemon, without gaps.
    pub seq: u64,
    /// Time in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Time in nanoseconds of `CLOCK_MONOTONIC`, for differences between processes of one machine.
    pub at_ns: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Number of the event's context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Number of the event's ILNP session.
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
    /// Reason, for a person; in events of uplinks the name of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Event {
    /// Makes an event with number, time and kind only.
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
    /// Kind of an event.
    EventKind {
        /// The daemon is ready.
        DaemonStarted = "daemon-started",
        /// The daemon got the order to stop, and undoes its changes to the host.
        DaemonStopping = "daemon-stopping",
        /// An uplink appeared or got its carrier back.
        UplinkUp = "uplink-up",
        /// An uplink lost its carrier or its route, or is gone.
        UplinkDown = "uplink-down",
        /// The hosts of `uplink-probes`, or peers of contexts, answer by another uplink, and no longer by this uplink, or not
        /// again for long enough; or the router of this uplink does not answer.
        UplinkFailing = "uplink-failing",
        /// New connections may use this uplink again: the hosts, the peers or the router have answered by this uplink for long
        /// enough, or no other uplink is better.
        UplinkBack = "uplink-back",
        /// The set of our locators has changed.
        LocatorsChanged = "locators-changed",
        /// Traffic triggered a context: the I1 leaves.
        ContextTriggered = "context-triggered",
        /// Both ends have the context.
        ContextEstablished = "context-established",
        /// The exchange failed.
        ContextFailed = "context-failed",
        /// The peer does not speak Shim6: its traffic stays plain IPv6.
        PeerNoSupport = "peer-no-support",
        /// A failure hint for the current pair came before the Send Timeout.
        Suspect = "suspect",
        /// The current pair answered, or the check had no result: the context does not move.
        Cleared = "cleared",
        /// REAP considers the current pair failed, and probes.
        Exploring = "exploring",
        /// Probes or payload arrive again.
        InboundOk = "inbound-ok",
        /// A pair works in both directions. ILNP: the locators in use answer again, after no locators did.
        Operational = "operational",
        /// Payload of a context or session uses another locator pair from now on.
        Moved = "moved",
        /// A person or a policy asked for another path: the reason names the requester and the path.
        PathRequested = "path-requested",
        /// A requested pair did not answer: payload stays on the current pair.
        PathUnanswered = "path-unanswered",
        /// The path `to` of a context is congested: the reason has the figures.
        Congested = "congested",
        /// The daemon has removed the context.
        ContextRemoved = "context-removed",
        /// ILNP: both ends have the session; the reason says why the policy admitted it.
        SessionEstablished = "session-established",
        /// ILNP: the correspondent has acknowledged our locators.
        LocatorsAcknowledged = "locators-acknowledged",
        /// ILNP: the traffic of a pair stays plain IPv6, without a session.
        NoSession = "no-session",
        /// ILNP: the daemon has removed the session.
        SessionForgotten = "session-forgotten",
        /// A warning for the operator: the reason has the text.
        Warning = "warning",
        /// Older requested events are no longer kept: the reason says how many.
        Missed = "missed",
    }
}

/// Query of `GET /v1/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsQuery {
    /// Sequence number: the answer begins with the kept events after it. None: only new events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// `false`: end the answer after the kept events. Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
}

impl EventsQuery {
    /// Whether the answer continues with new events.
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
