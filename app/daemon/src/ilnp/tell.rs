//! Events of sessions and their lines in the log: no addresses above DEBUG, no nonces at any level.

use moorline_api::{Event as Told, EventKind, Pair};
use moorline_ilnp::Event;
use moorline_types::IlvPair;
use tracing::Level;

use crate::shell::Daemon;

impl Daemon {
    /// Logs an event of a session and adds it to the journal, after a save of the move that it tells of.
    pub(crate) fn tell_ilnp(&mut self, event: &Event) {
        if matches!(event, Event::Moved { .. }) {
            self.save_move();
        }
        let (id, pair) = event.subject();
        let known = pair.or(id.and_then(|id| self.host.session(id)).map(|known| known.pair));
        let (level, line, told) = describe(event);
        let told = Told { session: id.map(|id| id.0), ulids: known.map(pair_of), ..told };
        self.events.log(level, line, &told);
        self.events.add(told);
    }
}

pub(crate) fn pair_of(pair: IlvPair) -> Pair {
    Pair::new(pair.local.address(), pair.remote.address())
}

/// Returns level and line of an event in the log, and the event for the journal without session and addresses.
fn describe(event: &Event) -> (Level, &'static str, Told) {
    let told =
        |kind, reason: &str| Told { reason: Some(reason.to_owned()), ..Told::new(0, 0, 0, kind) };
    match event {
        Event::Established { why, .. } => {
            let told = told(EventKind::SessionEstablished, &why.to_string());
            (Level::INFO, "session established", told)
        }
        Event::Forgotten { cause, .. } => {
            (Level::INFO, "session forgotten", told(EventKind::SessionForgotten, cause.as_str()))
        }
        Event::Classic { cause, .. } => {
            (Level::DEBUG, "classic IPv6", told(EventKind::NoSession, cause.as_str()))
        }
        Event::GivenUp { .. } => {
            let told = told(
                EventKind::NoSession,
                "the locator that was asked from has gone, or too many are asked",
            );
            (Level::DEBUG, "asked no longer, without an answer", told)
        }
        Event::Moved { from, wire, cause, .. } => {
            let told = told(EventKind::Moved, cause.as_str());
            let (from, to) = (Some(pair_of(*from)), Some(pair_of(*wire)));
            (Level::INFO, "session moved", Told { from, to, ..told })
        }
        Event::Regained { .. } => {
            let told = told(EventKind::Operational, "the locators in use answer again");
            (Level::INFO, "locators in use answer again", told)
        }
        Event::UpdateAcknowledged { .. } => {
            let told = Told::new(0, 0, 0, EventKind::LocatorsAcknowledged);
            (Level::DEBUG, "locators acknowledged", told)
        }
        Event::UpdateUnanswered { .. } => {
            let reason = "the correspondent has not acknowledged our locators";
            (Level::INFO, "locators not acknowledged", told(EventKind::Warning, reason))
        }
    }
}
