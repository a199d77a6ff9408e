//! Events of sessions, and what people want to know of them in the log: no addresses above DEBUG, no nonces at all.

use moorline_api::{EventKind, Pair};
use moorline_ilnp::{Cause, Classic, Event};
use moorline_types::{IlvPair, SessionId};
use moorline_wire::ilnp::Refusal;

use crate::shell::Daemon;

impl Daemon {
    /// Logs an event of a session and gives it to those who listen.
    pub(crate) fn tell_ilnp(&mut self, event: &Event) {
        let (id, pair) = session_of(event);
        let known = pair.or(id.and_then(|id| self.host.session(id)).map(|known| known.pair));
        log(event);
        let (kind, reason) = describe(event);
        self.events.push(kind, |told| {
            told.session = id.map(|id| id.0);
            told.ulids = known.map(pair_of);
            told.reason = reason;
            if let Event::Moved { wire, .. } = event {
                told.to = Some(pair_of(*wire));
            }
        });
    }
}

fn session_of(event: &Event) -> (Option<SessionId>, Option<IlvPair>) {
    match *event {
        Event::Established { session, pair, .. } | Event::Forgotten { session, pair, .. } => {
            (Some(session), Some(pair))
        }
        Event::Classic { pair, .. } | Event::GivenUp { pair } => (None, Some(pair)),
        Event::Moved { session, .. }
        | Event::UpdateAcknowledged { session }
        | Event::UpdateUnanswered { session } => (Some(session), None),
    }
}

pub(super) fn pair_of(pair: IlvPair) -> Pair {
    Pair::new(pair.local.address(), pair.remote.address())
}

fn describe(event: &Event) -> (EventKind, Option<String>) {
    match event {
        Event::Established { why, .. } => (EventKind::SessionEstablished, Some(why.to_string())),
        Event::Forgotten { cause, .. } => {
            (EventKind::SessionForgotten, Some(forgotten(*cause).to_owned()))
        }
        Event::Classic { cause, .. } => (EventKind::NoSession, Some(classic(*cause).to_owned())),
        Event::GivenUp { .. } => {
            (EventKind::NoSession, Some("the locator that was asked from has gone".to_owned()))
        }
        Event::Moved { .. } => (EventKind::Moved, Some("locators have changed".to_owned())),
        Event::UpdateAcknowledged { .. } => (EventKind::LocatorsAcknowledged, None),
        Event::UpdateUnanswered { .. } => {
            let reason = "the correspondent has not acknowledged our locators";
            (EventKind::Warning, Some(reason.to_owned()))
        }
    }
}

const fn forgotten(cause: Cause) -> &'static str {
    match cause {
        Cause::Idle => "idle",
        Cause::Evicted => "room for another",
        Cause::Replaced => "the correspondent began anew",
        Cause::Unanswered => "the correspondent did not answer",
        Cause::Denied => "the correspondent does not know it",
        Cause::Ended => "this host ends",
        Cause::NotTaken => "the data plane did not take it",
    }
}

pub(super) const fn classic(cause: Classic) -> &'static str {
    match cause {
        Classic::Silent => "no answer",
        Classic::Unread => "no answer to the nonce",
        Classic::NoSupport => "the correspondent does not know the option",
        Classic::Refused(Refusal::NO_SOCKET) => "refused: no socket",
        Classic::Refused(Refusal::NOT_CONNECTED) => "refused: no connected socket",
        Classic::Refused(Refusal::RESOURCES) => "refused: no room",
        Classic::Refused(Refusal::POLICY) => "refused: policy",
        Classic::Refused(_) => "refused",
    }
}

fn log(event: &Event) {
    match event {
        Event::Established { session, pair, why } => {
            tracing::info!(session = session.0, %why, "session established");
            tracing::debug!(session = session.0, ?pair, "established");
        }
        Event::Forgotten { session, cause, .. } => {
            tracing::info!(session = session.0, cause = forgotten(*cause), "session forgotten");
        }
        Event::Classic { pair, cause } => {
            tracing::debug!(?pair, cause = classic(*cause), "classic IPv6");
        }
        Event::GivenUp { pair } => tracing::debug!(?pair, "asked from a locator that has gone"),
        Event::Moved { session, wire } => {
            tracing::info!(session = session.0, "session moved");
            tracing::debug!(session = session.0, ?wire, "moved");
        }
        Event::UpdateAcknowledged { session } => {
            tracing::debug!(session = session.0, "locators acknowledged");
        }
        Event::UpdateUnanswered { session } => {
            tracing::info!(session = session.0, "locators not acknowledged");
        }
    }
}
