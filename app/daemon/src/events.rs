use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use moorline_api::{Event, EventKind, Pair};
use moorline_types::{LocatorPair, UlidPair};
use tokio::sync::broadcast;
use tracing::Level;
use tracing::field::display;

use crate::clock;
use crate::log_limit::LogLimit;

/// Journal of the last events, with subscriptions to new events. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    kept: Arc<Mutex<Kept>>,
    sender: broadcast::Sender<Event>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Event>,
    next: u64,
    limit: LogLimit,
}

impl Events {
    pub(crate) fn new() -> Self {
        let kept = Kept { events: VecDeque::new(), next: 1, limit: LogLimit::default() };
        Self { kept: Arc::new(Mutex::new(kept)), sender: broadcast::channel(KEPT).0 }
    }

    /// Adds an event of this kind; `fill` sets its fields.
    pub(crate) fn push(&self, kind: EventKind, fill: impl FnOnce(&mut Event)) {
        let mut event = Event::new(0, 0, 0, kind);
        fill(&mut event);
        self.add(event);
    }

    /// Adds an event, and sets its number and time.
    //= rfc5534#9-1
    pub(crate) fn add(&self, told: Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (seq, at_unix_ms, at_ns) = (kept.next, clock::unix_ms(), clock::now().as_nanos());
        let event = Event { seq, at_unix_ms, at_ns, ..told };
        kept.next += 1;
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Sending fails if there is no listener.
        let _ = self.sender.send(event);
    }

    /// Returns the kept events after `since`, the number of requested events that are no longer kept, and a stream of new
    /// events.
    pub(crate) fn subscribe(&self, since: Option<u64>) -> Subscription {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let coming = self.sender.subscribe();
        let Some(since) = since else {
            return Subscription { kept: Vec::new(), missed: 0, coming };
        };
        let oldest = kept.events.front().map_or(kept.next, |event| event.seq);
        let missed = oldest.saturating_sub(since.saturating_add(1));
        let events = kept.events.iter().filter(|event| event.seq > since).cloned().collect();
        Subscription { kept: events, missed, coming }
    }

    /// Logs an event of a context or session for people: without addresses above DEBUG, and without nonces. Beyond the
    /// limits of lines the event is logged at DEBUG only, and the next line of its kind tells the number left out.
    pub(crate) fn log(&self, level: Level, line: &'static str, event: &Event) {
        let is_for_people = level <= Level::INFO;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let subject = (event.context, event.session);
        let left_out =
            is_for_people.then(|| kept.limit.take((level, line), subject, clock::now())).flatten();
        drop(kept);
        log(level, line, event, left_out);
    }
}

/// Logs an event. `left_out`: the number of lines left out before this one; without it the event is logged at DEBUG only.
fn log(level: Level, line: &str, event: &Event, left_out: Option<u64>) {
    let Event { context, session, reason, .. } = event;
    let reason = reason.as_deref();
    if let Some(left_out) = left_out {
        let left_out = Some(left_out).filter(|lines| *lines > 0);
        if level == Level::WARN {
            tracing::warn!(context, session, reason, left_out, "{line}");
        } else {
            tracing::info!(context, session, reason, left_out, "{line}");
        }
    }
    let [ulids, from, to] = [event.ulids, event.from, event.to].map(|pair| pair.map(display));
    tracing::debug!(context, session, ulids, from, to, reason, "{line}");
}

/// Subscription of a listener.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub kept: Vec<Event>,
    pub missed: u64,
    pub coming: broadcast::Receiver<Event>,
}

pub(crate) fn ulid_pair(ulids: UlidPair) -> Pair {
    Pair::new(ulids.local.0, ulids.peer.0)
}

pub(crate) fn locator_pair(locators: LocatorPair) -> Pair {
    Pair::new(locators.local.0, locators.peer.0)
}

/// Number of events kept for later requests and for slow listeners.
const KEPT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    //= rfc5534#9-1 (test)
    #[test]
    fn events_are_numbered_and_replayed() {
        let events = Events::new();
        for _ in 0..3 {
            events.push(EventKind::UplinkUp, |_| {});
        }
        let subscription = events.subscribe(Some(1));
        assert_eq!(subscription.kept.iter().map(|e| e.seq).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(subscription.missed, 0);
        assert!(events.subscribe(None).kept.is_empty());
    }

    #[test]
    fn what_is_no_longer_kept_is_told() {
        let events = Events::new();
        for _ in 0..KEPT + 5 {
            events.push(EventKind::UplinkUp, |_| {});
        }
        let subscription = events.subscribe(Some(0));
        assert_eq!(subscription.missed, 5);
        assert_eq!(subscription.kept.len(), KEPT);
    }
}
