//! Messages to the correspondents of many sessions leave at a pace: questions because a router does not answer, and Locator
//! Updates because our locators have changed.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_types::{Instant, L64, SessionId};

use crate::consts::{PACED_BATCH, PACED_INTERVAL};
use crate::known::is_let_be;
use crate::machine::Machine;
use crate::session::{Opening, Session};

/// Sessions that wait for their turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    waiting: VecDeque<(SessionId, Reason)>,
    window: Window,
}

/// Turns in the present [`PACED_INTERVAL`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Begin of the interval.
    since: Option<Instant>,
    /// Number of turns since then.
    turns: usize,
}

impl Window {
    /// Whether the interval has room for another turn, if it has room for so many.
    fn has_room(&mut self, most: usize, now: Instant) -> bool {
        if self.since.is_none_or(|since| since + PACED_INTERVAL <= now) {
            (self.since, self.turns) = (Some(now), 0);
        }
        self.turns < most
    }

    /// Takes a turn, if the interval has room for it.
    pub(crate) fn take(&mut self, most: usize, now: Instant) -> bool {
        let has_room = self.has_room(most, now);
        self.turns += usize::from(has_room);
        has_room
    }
}

/// The message that a session waits to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// A Locator Update with our present locators.
    Locators,
    /// A question, because the router of this locator of ours does not answer.
    LostRouter(L64),
}

impl Pace {
    /// When the next turn comes.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.window.since.filter(|_| !self.waiting.is_empty()).map(|since| since + PACED_INTERVAL)
    }

    /// Takes the session whose turn it is.
    fn take(&mut self, now: Instant) -> Option<(SessionId, Reason)> {
        if self.window.has_room(PACED_BATCH, now) { self.waiting.pop_front() } else { None }
    }
}

impl Machine {
    /// Handles locators of ours whose router does not answer. The machine asks the correspondents of sessions in use by
    /// these locators without waiting for a report of use: [`PACED_BATCH`] at once, and as many in each
    /// [`PACED_INTERVAL`].
    pub fn handle_router_lost(&mut self, local: &[L64], now: Instant) {
        let due = |(id, _, session): (SessionId, _, &Session)| {
            let l64 = session.wire.0;
            let is_due = local.contains(&l64) && is_asked_for_router(session, now);
            is_due.then_some((id, Reason::LostRouter(l64)))
        };
        let waiting = &mut self.pace.waiting;
        let is_of = |reason| local.iter().any(|l64| reason == Reason::LostRouter(*l64));
        waiting.retain(|(_, reason)| !is_of(*reason));
        waiting.extend(self.ilcc.iter().filter_map(due));
        self.take_turns(now);
    }

    /// Has these sessions tell their correspondents our locators, before all that waits already. The first ones have the first turns.
    pub(crate) fn tell_in_turn(&mut self, due: Vec<SessionId>, now: Instant) {
        let again: BTreeSet<_> = due.iter().copied().collect();
        let waiting = &mut self.pace.waiting;
        waiting.retain(|(id, reason)| *reason != Reason::Locators || !again.contains(id));
        due.into_iter().rev().for_each(|id| waiting.push_front((id, Reason::Locators)));
        self.take_turns(now);
    }

    /// Gives the sessions that wait their turns, as far as the pace allows.
    pub(crate) fn take_turns(&mut self, now: Instant) {
        while let Some((id, reason)) = self.pace.take(now) {
            self.pace.window.turns += usize::from(self.take_turn(id, reason, now));
        }
    }

    /// Sends what a session waits for, if that is still due. Returns whether it was.
    fn take_turn(&mut self, id: SessionId, reason: Reason, now: Instant) -> bool {
        let Some(session) = self.ilcc.get(id) else { return false };
        match reason {
            Reason::Locators if session.owes_update && session.advertisement.is_none() => {
                self.advertise(id, now);
            }
            // The session may have left the locator meanwhile.
            Reason::LostRouter(l64)
                if session.wire.0 == l64 && is_asked_for_router(session, now) =>
            {
                self.ask_whether_known(id, now);
            }
            Reason::Locators | Reason::LostRouter(_) => return false,
        }
        true
    }
}

/// Whether a session is in use and waits for no answer, so that a lost router leads to a question.
fn is_asked_for_router(session: &Session, now: Instant) -> bool {
    let is_used = now.since(session.last_used) < USED_INTERVAL * 2;
    let is_quiet = session.advertisement.is_none() && !is_let_be(session, now);
    is_used && is_quiet && matches!(session.opening, Opening::Done)
}
