//! Lines about contexts of Shim6, about sessions of ILNP, and about the addresses that a host with Shim6 makes.

use std::net::Ipv6Addr;

use moorline_addresses::Note;
use moorline_contexts::{Event, EventKind};
use moorline_ilnp::Event as SessionEvent;
use moorline_net::News;
use moorline_types::LocatorPair;

use super::super::tell;

/// Line for the person at the terminal; `None` for steps that change nothing for connections.
pub(super) fn line(news: &News) -> Option<String> {
    match news {
        News::Address(Note::News(text)) => Some(text.clone()),
        News::Address(Note::Duplicate { text, address }) => Some(format!("{address}: {text}")),
        News::Context(event) => of_context(event),
        News::Session { ulids, event } => of_session((*ulids)?.peer.0, event),
    }
}

fn of_session(peer: Ipv6Addr, event: &SessionEvent) -> Option<String> {
    Some(match event {
        SessionEvent::Established { .. } => format!("session with {peer} established"),
        SessionEvent::Classic { cause, .. } => {
            format!("no session with {peer}: {}", cause.as_str())
        }
        SessionEvent::Moved { wire, cause, .. } => {
            format!("session with {peer} moved to {}: {cause}", pair(wire.ulids().as_locators()))
        }
        SessionEvent::Forgotten { cause, .. } => format!("session with {peer} ended: {cause}"),
        SessionEvent::GivenUp { .. }
        | SessionEvent::Regained { .. }
        | SessionEvent::UpdateAcknowledged { .. }
        | SessionEvent::UpdateUnanswered { .. } => return None,
    })
}

fn of_context(event: &Event) -> Option<String> {
    let peer = event.ulids.peer.0;
    Some(match event.kind {
        EventKind::Established { .. } => format!("context with {peer} established"),
        EventKind::Failed { failure } => {
            format!("no context with {peer}: {}", tell::failure_text(failure))
        }
        EventKind::Moved { to, cause, .. } => {
            format!("context with {peer} moved to {}: {cause}", pair(to))
        }
        EventKind::Removed { .. } => format!("context with {peer} removed"),
        EventKind::Initiated
        | EventKind::Renewed
        | EventKind::StateChanged { .. }
        | EventKind::Suspected { .. }
        | EventKind::Cleared { .. }
        | EventKind::Unanswered { .. }
        | EventKind::Congested { .. }
        | EventKind::Unreachable { .. } => return None,
    })
}

fn pair(pair: LocatorPair) -> String {
    format!("{} -> {}", pair.local.0, pair.peer.0)
}
