//! Routers that do not answer: the correspondents of the sessions in use by their locators are asked, at a pace.

use alloc::collections::VecDeque;

use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_types::{Instant, L64, SessionId};

use crate::consts::{ROUTER_LOST_BATCH, ROUTER_LOST_INTERVAL};
use crate::known::is_let_be;
use crate::machine::Machine;
use crate::session::{Opening, Session};

/// Sessions that wait for a question because a router does not answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostRouters {
    /// The sessions, with the locators of ours whose router it is.
    waiting: VecDeque<(SessionId, L64)>,
    /// Time before which no further question goes.
    not_before: Option<Instant>,
}

impl LostRouters {
    /// When the next questions go.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.not_before.filter(|_| !self.waiting.is_empty())
    }
}

impl Machine {
    /// Handles locators of ours whose router does not answer. The machine asks the correspondents of sessions in use by
    /// these locators without waiting for a report of use: [`ROUTER_LOST_BATCH`] at once, and as many in each
    /// [`ROUTER_LOST_INTERVAL`].
    pub fn handle_router_lost(&mut self, local: &[L64], now: Instant) {
        let is_due = |session: &Session| {
            let l64 = session.wire.0;
            (local.contains(&l64) && is_asked_for_router(session, now)).then_some(l64)
        };
        let all = self.ilcc.iter();
        let due = all.filter_map(|(id, _, session)| Some((id, is_due(session)?)));
        let lost = &mut self.lost_routers;
        lost.waiting.retain(|(_, l64)| !local.contains(l64));
        lost.waiting.extend(due);
        lost.not_before = lost.not_before.max(Some(now));
        if lost.not_before == Some(now) {
            self.ask_for_routers(now);
        }
    }

    /// Asks the correspondents of the sessions that have waited longest. A session may have left the locator meanwhile.
    pub(crate) fn ask_for_routers(&mut self, now: Instant) {
        let mut left = ROUTER_LOST_BATCH;
        while left > 0
            && let Some((id, l64)) = self.lost_routers.waiting.pop_front()
        {
            let session = self.ilcc.get(id).filter(|session| session.wire.0 == l64);
            if session.is_some_and(|session| is_asked_for_router(session, now)) {
                self.ask_whether_known(id, now);
                left -= 1;
            }
        }
        self.lost_routers.not_before = Some(now + ROUTER_LOST_INTERVAL);
    }
}

/// Whether a session is in use and waits for no answer, so that a lost router leads to a question.
fn is_asked_for_router(session: &Session, now: Instant) -> bool {
    let is_used = now.since(session.last_used) < USED_INTERVAL * 2;
    let is_quiet = session.advertisement.is_none() && !is_let_be(session, now);
    is_used && is_quiet && matches!(session.opening, Opening::Done)
}
