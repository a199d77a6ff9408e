//! Events of contexts, and what people want to know of them in the log.

use std::fmt::Display;

use moorline_api::{Event as Told, EventKind};
use moorline_contexts::{Event, Failure};
use moorline_types::{ContextId, LocatorPair, UlidPair};
use tracing::Level;

use crate::events::{self, locator_pair, ulid_pair};
use crate::shell::Daemon;
use crate::views;

impl Daemon {
    /// Logs an event and gives it to those who listen on the control socket.
    pub(crate) fn tell(&mut self, event: &Event) {
        self.contexts_changed |= matches!(
            event,
            Event::Established { .. }
                | Event::Renewed { .. }
                | Event::Moved { .. }
                | Event::Removed { .. }
        );
        let (level, line, mut told) = describe(event);
        events::log(level, line, &told);
        if let Event::Moved { context, cause, .. } = event {
            told.reason = Some(self.steer.reason(*context, *cause));
        }
        self.events.add(told);
        if let Event::Established { context, .. } | Event::Renewed { context, .. } = event {
            self.rank(*context);
        }
        self.settle(event);
    }
}

/// Level and line of an event in the log, and the event for those who listen.
fn describe(event: &Event) -> (Level, &'static str, Told) {
    let told = |kind, context: &ContextId, ulids: &UlidPair, reason: &dyn Display| Told {
        context: Some(context.0),
        ulids: Some(ulid_pair(*ulids)),
        reason: Some(reason.to_string()),
        ..Told::new(0, 0, 0, kind)
    };
    let pair = |locators: &LocatorPair| Some(locator_pair(*locators));
    match event {
        Event::Initiated { context, ulids } => {
            let told = told(EventKind::ContextTriggered, context, ulids, &"");
            (Level::DEBUG, "initiated", Told { reason: None, ..told })
        }
        Event::Established { context, ulids, role } => {
            let told = told(EventKind::ContextEstablished, context, ulids, role);
            (Level::INFO, "context established", told)
        }
        Event::Renewed { context, ulids } => {
            // A peer renews a context as often as it likes: at a higher level it could fill the log.
            let reason = "renewed by the peer";
            let told = told(EventKind::ContextEstablished, context, ulids, &reason);
            (Level::DEBUG, "context renewed by the peer", told)
        }
        Event::Failed { ulids, failure, .. } => {
            let (kind, reason) = describe_failure(*failure);
            let (ulids, reason) = (Some(ulid_pair(*ulids)), reason.map(str::to_owned));
            (Level::DEBUG, "no context", Told { ulids, reason, ..Told::new(0, 0, 0, kind) })
        }
        Event::StateChanged { context, ulids, to, cause, .. } => {
            // The event of a state has its name.
            let kind = EventKind::from(views::reap(*to).to_string());
            (Level::DEBUG, "reachability", told(kind, context, ulids, cause))
        }
        Event::Moved { context, ulids, from, to, cause } => {
            let told = told(EventKind::Moved, context, ulids, cause);
            (Level::INFO, "context moved", Told { from: pair(from), to: pair(to), ..told })
        }
        Event::Suspected { context, ulids, locators, hint } => {
            let told = told(EventKind::Suspect, context, ulids, hint);
            (Level::DEBUG, "suspected", Told { from: pair(locators), ..told })
        }
        Event::Cleared { context, ulids, hint, after } => {
            let reason = format!("{hint}, after {} ms", after.as_millis());
            let told = told(EventKind::Cleared, context, ulids, &reason);
            (Level::DEBUG, "suspicion cleared", told)
        }
        Event::Congested { context, ulids, locators, ce, ece } => {
            let reason = format!("ce={ce} ece={ece}");
            let told = told(EventKind::Congested, context, ulids, &reason);
            (Level::DEBUG, "congested", Told { to: pair(locators), ..told })
        }
        Event::Unanswered { context, ulids, pair: asked, cause } => {
            let told = told(EventKind::PathUnanswered, context, ulids, cause);
            (Level::INFO, "pair did not answer", Told { to: pair(asked), ..told })
        }
        Event::Unreachable { context, ulids, probes } => {
            let reason = format!("{probes} probes without an answer");
            let told = told(EventKind::Warning, context, ulids, &reason);
            (Level::WARN, "no locator pair answers", told)
        }
        Event::Removed { context, ulids, removal } => {
            let told = told(EventKind::ContextRemoved, context, ulids, removal);
            (Level::INFO, "context removed", told)
        }
    }
}

const fn describe_failure(failure: Failure) -> (EventKind, Option<&'static str>) {
    match failure {
        Failure::NoAnswer => (EventKind::ContextFailed, Some("no answer to I1")),
        Failure::NoSupport => (EventKind::PeerNoSupport, None),
        Failure::NotTaken => (EventKind::ContextFailed, Some(views::NOT_TAKEN)),
    }
}
