//! Paths that fail silently (decision 148).
//!
//! The machine at times asks the correspondent of a session in use whether it knows the session, by a Locator Update,
//! which the correspondent acknowledges. If the locators in use bring no acknowledgement, the question goes by the
//! other pairs of locators. The acknowledgement comes back by the path of the question, so both directions of its
//! pair work. The session moves to that pair, and the correspondent is told. The machine at times also asks by the
//! pair that has failed. If the pair is preferred, the session goes back when the pair brings an answer.

use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::{IlvPair, Instant, L64, SessionId};

use crate::consts::{
    CHECK_TRIES, FIRST_FAIL_BACK, MAX_FAIL_BACK, MAX_TRIED_PAIRS, NONCE_AFTER_CHANGE, SILENT_TRIES,
};
use crate::machine::Machine;
use crate::session::{Advertisement, Session};

/// Our locator and the correspondent's.
pub(crate) type Locators = (L64, L64);

/// The locators that a session has left because they brought no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The pair that has failed, with the time from which a question goes by it again.
    pair: Option<(Locators, Instant)>,
    /// Time for which the next pair that fails is left alone: it doubles with each failure.
    pause: Duration,
}

impl Default for Failed {
    fn default() -> Self {
        Self { pair: None, pause: FIRST_FAIL_BACK }
    }
}

impl Failed {
    pub(crate) fn is(&self, locators: Locators) -> bool {
        self.pair.is_some_and(|(pair, _)| pair == locators)
    }

    /// Our locator of the pair that has failed, unless it is in use with another locator of the correspondent.
    pub(crate) fn local(&self, used: L64) -> Option<L64> {
        self.pair.map(|((local, _), _)| local).filter(|local| *local != used)
    }

    fn leave(&mut self, locators: Locators, now: Instant) {
        self.pair = Some((locators, now + self.pause));
        self.pause = (self.pause * 2).min(MAX_FAIL_BACK);
    }

    /// The failed pair, if a question is to go by it first. The next such question waits for another pause.
    fn take_due(&mut self, now: Instant) -> Option<Locators> {
        let (pair, at) = self.pair.as_mut().filter(|(_, at)| *at <= now)?;
        *at = now + self.pause;
        Some(*pair)
    }
}

impl Machine {
    /// Whether a session could use other locators. A correspondent that acknowledges nothing can show no path.
    pub(crate) fn has_other_pairs(&self, session: &Session) -> bool {
        !session.is_mute && (self.locators.len() > 1 || session.remote.len() > 1)
    }

    /// The pairs of locators that a question goes by, in order: a failed pair that is due, the pair in use, the other
    /// pairs.
    pub(crate) fn begin_question(&mut self, id: SessionId, now: Instant) -> Vec<Locators> {
        let Some((pair, _)) = self.ilcc.key(id) else { return Vec::new() };
        let Some(session) = self.ilcc.get_mut(id) else { return Vec::new() };
        let failed = session.failed.take_due(now);
        let Some(session) = self.ilcc.get(id) else { return Vec::new() };
        let others = self.other_pairs(session, pair, now);
        let mut pairs: Vec<_> =
            failed.filter(|failed| others.contains(failed)).into_iter().collect();
        pairs.resize(pairs.len() + SILENT_TRIES, session.wire);
        pairs.extend(others.into_iter().take(MAX_TRIED_PAIRS));
        pairs.resize(pairs.len().max(CHECK_TRIES), session.wire);
        pairs
    }

    /// The other pairs that a question can go by. A locator of the correspondent that has aged may belong to another
    /// node by now.
    fn other_pairs(&self, session: &Session, pair: IlvPair, now: Instant) -> Vec<Locators> {
        if !self.has_other_pairs(session) {
            return Vec::new();
        }
        let (local, remote) = session.wire;
        let remotes = session.remote.iter().filter(|one| one.l64 == remote || !one.is_aged(now));
        let all =
            remotes.flat_map(|remote| self.locators.iter().map(move |own| (own.l64, remote.l64)));
        let others = all.filter(|&(own, to)| {
            (own, to) != session.wire && !self.leads_elsewhere(own, pair.remote.at(to))
        });
        let mut others: Vec<_> = others.collect();
        // A failure of one end is likelier than a failure of both ends.
        others.sort_by_key(|&(own, to)| (own != local && to != remote, own == local));
        others
    }

    /// Handles the acknowledgement of a question, which has come by this pair of locators. Returns whether the
    /// session has left the pair in use for this pair.
    pub(crate) fn on_answer_by(
        &mut self,
        id: SessionId,
        by: Locators,
        question: &Advertisement,
        now: Instant,
    ) -> bool {
        let Some(session) = self.ilcc.get(id) else { return false };
        let wire = session.wire;
        let asked = question.pairs.iter().take(question.retry.tries as usize);
        let is_silent = asked.filter(|pair| **pair == wire).count() >= SILENT_TRIES;
        let is_named = session.remote.iter().any(|remote| remote.l64 == by.1);
        let is_back = session.failed.is(by);
        let is_better = is_back && self.is_preferred(session, by);
        if by == wire || !is_named || !self.has_locator(by.0) {
            return false;
        }
        let Some(session) = self.ilcc.get_mut(id) else { return false };
        if is_back {
            session.failed.pair = None;
        }
        if is_silent {
            session.failed.leave(wire, now);
        } else if !is_better {
            if is_back && !session.agreed {
                // The correspondent was told to prefer another locator.
                self.advertise(id, now);
            }
            return false;
        }
        let has_moved = self.send_by(id, by, now + NONCE_AFTER_CHANGE);
        // The correspondent may still send by the pair that the session has left.
        self.advertise(id, now);
        has_moved
    }

    /// Whether the two nodes prefer these locators to the locators in use.
    fn is_preferred(&self, session: &Session, by: Locators) -> bool {
        let preference = |(own, to): Locators| {
            let own = self.locators.iter().find(|local| local.l64 == own)?;
            let to = session.remote.iter().find(|remote| remote.l64 == to)?;
            Some((own.preference, to.preference))
        };
        let (Some(by), Some(used)) = (preference(by), preference(session.wire)) else {
            return false;
        };
        by != used && by.0 <= used.0 && by.1 <= used.1
    }
}
