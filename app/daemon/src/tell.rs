//! Events of contexts, and what people want to know of them in the log.

use std::fmt::Display;

use moorline_api::{Event as Told, EventKind};
use moorline_contexts::{Event, EventKind as Kind, Failure, Removal};
use moorline_types::LocatorPair;
use tracing::Level;

use crate::events::{locator_pair, ulid_pair};
use crate::shell::Daemon;
use crate::views;

impl Daemon {
    /// Logs an event and gives it to those who listen on the control socket.
    pub(crate) fn tell(&mut self, event: &Event) {
        self.contexts_changed |= matches!(
            event.kind,
            Kind::Established { .. } | Kind::Renewed | Kind::Moved { .. } | Kind::Removed { .. }
        );
        let (level, line, mut told) = describe(event);
        self.events.log(level, line, &told);
        if let Kind::Moved { cause, .. } = event.kind {
            told.reason = Some(self.steer.reason(event.context, cause));
        }
        self.events.add(told);
        if matches!(event.kind, Kind::Established { .. } | Kind::Renewed) {
            self.rank(event.context);
        }
        self.settle(event);
    }
}

/// Level and line of an event in the log, and the event for those who listen.
fn describe(event: &Event) -> (Level, &'static str, Told) {
    let ulids = Some(ulid_pair(event.ulids));
    let told = |kind, reason: &dyn Display| Told {
        context: Some(event.context.0),
        ulids,
        reason: Some(reason.to_string()),
        ..Told::new(0, 0, 0, kind)
    };
    let pair = |locators: LocatorPair| Some(locator_pair(locators));
    match event.kind {
        Kind::Initiated => {
            let told = told(EventKind::ContextTriggered, &"");
            (Level::DEBUG, "initiated", Told { reason: None, ..told })
        }
        Kind::Established { role } => {
            let told = told(EventKind::ContextEstablished, &role);
            (Level::INFO, "context established", told)
        }
        Kind::Renewed => {
            // A peer renews a context as often as it likes: at a higher level it could fill the log.
            let reason = "renewed by the peer";
            let told = told(EventKind::ContextEstablished, &reason);
            (Level::DEBUG, "context renewed by the peer", told)
        }
        Kind::Failed { failure } => {
            let (kind, reason) = describe_failure(failure);
            let reason = reason.map(str::to_owned);
            (Level::DEBUG, "no context", Told { ulids, reason, ..Told::new(0, 0, 0, kind) })
        }
        Kind::StateChanged { to, cause, .. } => {
            // The event of a state has its name.
            let kind = EventKind::from(views::reap(to).to_string());
            (Level::DEBUG, "reachability", told(kind, &cause))
        }
        Kind::Moved { from, to, cause } => {
            let told = told(EventKind::Moved, &cause);
            (Level::INFO, "context moved", Told { from: pair(from), to: pair(to), ..told })
        }
        Kind::Suspected { locators, hint } => {
            let told = told(EventKind::Suspect, &hint);
            (Level::DEBUG, "suspected", Told { from: pair(locators), ..told })
        }
        Kind::Cleared { hint, after } => {
            let reason = format!("{hint}, after {} ms", after.as_millis());
            let told = told(EventKind::Cleared, &reason);
            (Level::DEBUG, "suspicion cleared", told)
        }
        Kind::Congested { locators, ce, ece } => {
            let reason = format!("ce={ce} ece={ece}");
            let told = told(EventKind::Congested, &reason);
            (Level::DEBUG, "congested", Told { to: pair(locators), ..told })
        }
        Kind::Unanswered { pair: asked, cause } => {
            let told = told(EventKind::PathUnanswered, &cause);
            (Level::INFO, "pair did not answer", Told { to: pair(asked), ..told })
        }
        Kind::Unreachable { probes } => {
            let reason = format!("{probes} probes without an answer");
            let told = told(EventKind::Warning, &reason);
            (Level::WARN, "no locator pair answers", told)
        }
        Kind::Removed { removal } => {
            let told = told(EventKind::ContextRemoved, &removal);
            // A flood evicts contexts as fast as it comes: at a higher level it could fill the log.
            let level = if removal == Removal::Evicted { Level::DEBUG } else { Level::INFO };
            (level, "context removed", told)
        }
    }
}

const fn describe_failure(failure: Failure) -> (EventKind, Option<&'static str>) {
    match failure {
        Failure::NoAnswer => (EventKind::ContextFailed, Some("no answer to I1")),
        Failure::NoSupport => (EventKind::PeerNoSupport, None),
        Failure::NotTaken => (EventKind::ContextFailed, Some(views::NOT_TAKEN)),
        Failure::NoRoom => (EventKind::ContextFailed, Some(views::NO_ROOM)),
    }
}
