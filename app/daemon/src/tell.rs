//! Events of contexts, and what people want to know of them in the log.

use moorline_api::{EventKind, Pair};
use moorline_contexts::{Event, Failure, ReapState, Removal};
use moorline_types::{ContextId, LocatorPair, UlidPair};

use crate::events::{locator_pair, ulid_pair};
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
        log(event);
        let (kind, context, ulids, mut reason) = describe(event);
        if let Event::Moved { context, cause, .. } = event {
            reason = Some(self.steer.reason(*context, *cause));
        }
        self.events.push(kind, |told| {
            told.context = context.map(|id| id.0);
            told.ulids = Some(ulid_pair(ulids));
            told.reason = reason;
            (told.from, told.to) = pairs(event);
        });
        if let Event::Established { context, .. } | Event::Renewed { context, .. } = event {
            self.rank(*context);
        }
        self.settle(event);
    }
}

/// The pair that was in use, and the one that is or was to be.
fn pairs(event: &Event) -> (Option<Pair>, Option<Pair>) {
    let pair = |locators: &LocatorPair| Some(locator_pair(*locators));
    match event {
        Event::Moved { from, to, .. } => (pair(from), pair(to)),
        Event::Suspected { locators, .. } => (pair(locators), None),
        Event::Congested { locators, .. } | Event::Unanswered { pair: locators, .. } => {
            (None, pair(locators))
        }
        Event::Initiated { .. }
        | Event::Established { .. }
        | Event::Renewed { .. }
        | Event::Failed { .. }
        | Event::StateChanged { .. }
        | Event::Cleared { .. }
        | Event::Unreachable { .. }
        | Event::Removed { .. } => (None, None),
    }
}

/// Kind, context, ULIDs and reason of an event.
fn describe(event: &Event) -> (EventKind, Option<ContextId>, UlidPair, Option<String>) {
    match event {
        Event::Initiated { context, ulids } => {
            (EventKind::ContextTriggered, Some(*context), *ulids, None)
        }
        Event::Established { context, ulids, role } => {
            let role = views::role(*role).to_string();
            (EventKind::ContextEstablished, Some(*context), *ulids, Some(role))
        }
        Event::Renewed { context, ulids } => {
            let reason = Some("renewed by the peer".to_owned());
            (EventKind::ContextEstablished, Some(*context), *ulids, reason)
        }
        Event::Failed { ulids, failure, .. } => {
            let (kind, reason) = describe_failure(*failure);
            (kind, None, *ulids, reason.map(str::to_owned))
        }
        Event::StateChanged { context, ulids, to, cause, .. } => {
            (kind_of_state(*to), Some(*context), *ulids, Some(cause.to_string()))
        }
        Event::Moved { context, ulids, cause, .. } => {
            (EventKind::Moved, Some(*context), *ulids, Some(cause.to_string()))
        }
        Event::Suspected { context, ulids, hint, .. } => {
            (EventKind::Suspect, Some(*context), *ulids, Some(hint.to_string()))
        }
        Event::Cleared { context, ulids, hint, after } => {
            let reason = Some(format!("{hint}, after {} ms", after.as_millis()));
            (EventKind::Cleared, Some(*context), *ulids, reason)
        }
        Event::Congested { context, ulids, ce, ece, .. } => {
            (EventKind::Congested, Some(*context), *ulids, Some(format!("ce={ce} ece={ece}")))
        }
        Event::Unanswered { context, ulids, cause, .. } => {
            (EventKind::PathUnanswered, Some(*context), *ulids, Some(cause.to_string()))
        }
        Event::Unreachable { context, ulids, probes } => {
            let reason = Some(format!("{probes} probes without an answer"));
            (EventKind::Warning, Some(*context), *ulids, reason)
        }
        Event::Removed { context, ulids, removal } => {
            let reason = Some(removal_text(*removal).to_owned());
            (EventKind::ContextRemoved, Some(*context), *ulids, reason)
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

const fn kind_of_state(state: ReapState) -> EventKind {
    match state {
        ReapState::Operational => EventKind::Operational,
        ReapState::Exploring => EventKind::Exploring,
        ReapState::InboundOk => EventKind::InboundOk,
    }
}

const fn removal_text(removal: Removal) -> &'static str {
    match removal {
        Removal::Idle => "idle",
        Removal::Requested => "requested",
        Removal::Confused => "confused",
        Removal::NoSupport => "the peer has no Shim6 any more",
        Removal::NotTaken => views::NOT_TAKEN,
    }
}

/// For people: what they would want to know at INFO, without addresses.
fn log(event: &Event) {
    match event {
        Event::Initiated { context, ulids } => tracing::debug!(%context, %ulids, "initiated"),
        Event::Established { context, ulids, role } => {
            tracing::info!(%context, ?role, "context established");
            tracing::debug!(%context, %ulids, "established");
        }
        // A peer renews a context as often as it likes: at a higher level it could fill the log.
        Event::Renewed { context, .. } => tracing::debug!(%context, "context renewed by the peer"),
        Event::Failed { failure, ulids, .. } => tracing::debug!(?failure, %ulids, "no context"),
        Event::StateChanged { context, from, to, cause, .. } => {
            tracing::debug!(%context, ?from, ?to, %cause, "reachability");
        }
        Event::Moved { context, from, to, cause, .. } => {
            tracing::info!(%context, %cause, "context moved");
            tracing::debug!(%context, %from, %to, "moved");
        }
        Event::Suspected { context, locators, hint, .. } => {
            tracing::debug!(%context, %locators, %hint, "suspected");
        }
        Event::Cleared { context, hint, after, .. } => {
            tracing::debug!(%context, %hint, ?after, "suspicion cleared");
        }
        Event::Congested { context, locators, ce, ece, .. } => {
            tracing::debug!(%context, %locators, ce, ece, "congested");
        }
        Event::Unanswered { context, pair, cause, .. } => {
            tracing::info!(%context, %cause, "pair did not answer");
            tracing::debug!(%context, %pair, "no answer");
        }
        Event::Unreachable { context, probes, .. } => {
            tracing::warn!(%context, probes, "no locator pair answers");
        }
        Event::Removed { context, removal, .. } => {
            tracing::info!(%context, ?removal, "context removed");
        }
    }
}
