//! Paths that fail without a word (decision 148).
//!
//! A correspondent of a session in use is asked at times whether it knows the session, by a Locator Update that it acknowledges. If the
//! locators in use bring no acknowledgement, the question goes by the other pairs of locators. The acknowledgement comes back the way
//! of the question, so both directions of its pair work: the session goes by that pair, and the correspondent is told.

use alloc::vec::Vec;

use moorline_types::{IlvPair, Instant, L64, SessionId};

use crate::consts::{CHECK_TRIES, MAX_TRIED_PAIRS, NONCE_AFTER_CHANGE, SILENT_TRIES};
use crate::machine::Machine;
use crate::session::Session;

/// Our locator and the correspondent's.
pub(crate) type Locators = (L64, L64);

impl Machine {
    /// Whether a session could go by other locators.
    pub(crate) fn has_other_pairs(&self, session: &Session) -> bool {
        self.locators.len() > 1 || session.remote.len() > 1
    }

    /// The pairs of locators that a question goes by, in order: the one in use first.
    pub(crate) fn pairs_of_question(&self, session: &Session, pair: IlvPair) -> Vec<Locators> {
        let (local, remote) = session.wire;
        let remotes = session.remote.iter().map(|remote| remote.l64);
        let all = remotes.flat_map(|remote| self.locators.iter().map(move |own| (own.l64, remote)));
        let others = all.filter(|&(own, to)| {
            (own, to) != session.wire && !self.leads_elsewhere(own, pair.remote.at(to))
        });
        let mut others: Vec<_> = others.collect();
        // One end has failed rather than both.
        others.sort_by_key(|&(own, to)| (own != local && to != remote, own == local));
        others.truncate(MAX_TRIED_PAIRS);
        let mut pairs = Vec::new();
        pairs.resize(SILENT_TRIES as usize, session.wire);
        pairs.extend(others);
        pairs.resize(pairs.len().max(CHECK_TRIES as usize), session.wire);
        pairs
    }

    /// The correspondent has acknowledged a question that was sent so often, and the acknowledgement has come by this pair of locators. Result:
    /// whether the session has left the pair in use for this one.
    pub(crate) fn on_answer_by(
        &mut self,
        id: SessionId,
        by: Locators,
        tries: u32,
        now: Instant,
    ) -> bool {
        let is_ours = self.has_locator(by.0);
        let Some(session) = self.ilcc.get_mut(id) else { return false };
        let is_named = session.remote.iter().any(|remote| remote.l64 == by.1);
        if by == session.wire || tries <= SILENT_TRIES || !is_ours || !is_named {
            return false;
        }
        session.failed = Some(session.wire);
        let has_moved = self.send_by(id, by, now + NONCE_AFTER_CHANGE);
        // What the correspondent sends may go the way that has failed.
        self.advertise(id, now);
        has_moved
    }
}
