//! Paths that fail silently (decision 148).
//!
//! The machine at times asks the correspondent of a session in use whether it knows the session, by a Locator Update,
//! which the correspondent acknowledges. If the locators in use bring no acknowledgement, the question goes by the
//! other pairs of locators, and first by those that share no locator with the pair in use. The acknowledgement comes back by the path of the question, so both directions of its
//! pair work. The session moves to that pair, and the correspondent is told. The machine at times also asks by the
//! pair that has failed. If the pair is preferred, the session goes back when the pair brings an answer.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::{Depths, IlvPair, Instant, L64, SessionId};

use crate::advertisement::{Advertisement, Question};
use crate::consts::{
    FAIL_BACK_FORGIVEN, FIRST_FAIL_BACK, MAX_FAIL_BACK, MAX_FAILED_PAIRS, MAX_TRIED_PAIRS,
    NONCE_AFTER_CHANGE, SHOWN_LATELY, SILENT_TRIES,
};
use crate::event::MoveCause;
use crate::machine::Machine;
use crate::session::{RemoteLocator, Session};

/// Our locator and the correspondent's.
pub(crate) type Locators = (L64, L64);

/// A message of the correspondent that shows that a pair of locators works in its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// A Locator Update with news.
    News,
    /// A Locator Update without news.
    Question,
    /// An Echo Request.
    Echo,
}

/// The pairs of locators that have brought a session no answer; `None` as long as none has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed(Option<Box<Failures>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failures {
    /// The oldest first; at most [`MAX_FAILED_PAIRS`].
    pairs: Vec<FailedPair>,
    /// Seconds for which the next pairs that fail are left alone. The time doubles with each failure, and halves with
    /// each [`FAIL_BACK_FORGIVEN`] without a failure.
    pause: u64,
    /// End of the last pause, or time of the last question by a pair that was used and has failed, whichever is later.
    calm_from: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedPair {
    locators: Locators,
    /// Time from which a question goes by this pair again.
    ask_at: Instant,
    /// Whether the session has used the pair. If not, the pair has brought no answer to a question.
    was_used: bool,
}

impl Default for Failures {
    fn default() -> Self {
        Self { pairs: Vec::new(), pause: FIRST_FAIL_BACK.as_secs(), calm_from: None }
    }
}

impl Failed {
    fn pairs(&self) -> impl Iterator<Item = &FailedPair> {
        self.0.iter().flat_map(|failures| &failures.pairs)
    }

    pub(crate) fn has(&self, locators: Locators) -> bool {
        self.pairs().any(|pair| pair.locators == locators)
    }

    /// Whether the session has left this locator of ours, and does not use it with another locator of the
    /// correspondent.
    pub(crate) fn has_left(&self, local: L64, used: L64) -> bool {
        local != used && self.pairs().any(|pair| pair.was_used && pair.locators.0 == local)
    }

    /// Notes that the session leaves the pair `used`, and that the pairs in `asked` have brought no answer either, or may
    /// have failed with it.
    pub(crate) fn leave(&mut self, used: Locators, asked: &[Locators], now: Instant) {
        self.0.get_or_insert_default().leave(used, asked, now);
    }

    pub(crate) fn forget(&mut self, locators: Locators) -> Option<FailedPair> {
        self.0.as_mut()?.forget(locators)
    }

    /// The pairs that a question is to go by.
    fn due(&self, now: Instant) -> impl Iterator<Item = Locators> {
        self.pairs().filter(move |pair| pair.ask_at <= now).map(|pair| pair.locators)
    }

    /// Notes that a question goes by this pair now. The next such question waits for another pause.
    fn on_asked(&mut self, locators: Locators, now: Instant) {
        if let Some(failures) = &mut self.0 {
            failures.on_asked(locators, now);
        }
    }
}

impl Failures {
    fn leave(&mut self, used: Locators, asked: &[Locators], now: Instant) {
        let calm = self.calm_from.map_or(Duration::ZERO, |from| now.since(from));
        let halvings = u32::try_from(calm.as_secs() / FAIL_BACK_FORGIVEN.as_secs());
        let pause = self.pause / 2u64.saturating_pow(halvings.unwrap_or(u32::MAX));
        let pause = pause.max(FIRST_FAIL_BACK.as_secs());
        let ask_at = now + Duration::from_secs(pause);
        for locators in asked.iter().filter(|pair| **pair != used).chain([&used]).copied() {
            let known = self.forget(locators);
            let was_used = locators == used || known.is_some_and(|pair| pair.was_used);
            self.pairs.push(FailedPair { locators, ask_at, was_used });
        }
        self.pairs.drain(..self.pairs.len().saturating_sub(MAX_FAILED_PAIRS));
        self.pause = (pause * 2).min(MAX_FAIL_BACK.as_secs());
        self.calm_from = Some(ask_at);
    }

    fn forget(&mut self, locators: Locators) -> Option<FailedPair> {
        let at = self.pairs.iter().position(|pair| pair.locators == locators)?;
        Some(self.pairs.remove(at))
    }

    fn on_asked(&mut self, locators: Locators, now: Instant) {
        for pair in self.pairs.iter_mut().filter(|pair| pair.locators == locators) {
            pair.ask_at = now + Duration::from_secs(self.pause);
            self.calm_from = self.calm_from.max(pair.was_used.then_some(now));
        }
    }
}

impl Session {
    /// Whether the pair in use has neither of these locators.
    fn is_apart(&self, (own, to): Locators) -> bool {
        own != self.wire.0 && to != self.wire.1
    }

    /// Whether the correspondent can be asked at this locator. Another locator that has aged may belong to another node by
    /// now.
    fn may_be_at(&self, remote: &RemoteLocator, now: Instant) -> bool {
        remote.l64 == self.wire.1 || !remote.is_aged(now)
    }

    /// The pairs of one locator in use and one of `by`, if `by` has neither locator in use. An answer by `by` does not
    /// tell which locator in use has failed.
    fn pairs_beside(&self, by: Locators) -> Vec<Locators> {
        let (local, remote) = self.wire;
        if self.is_apart(by) { vec![(by.0, remote), (local, by.1)] } else { Vec::new() }
    }
}

impl Machine {
    /// Whether a session could use other locators. A correspondent that acknowledges nothing can show no path.
    pub(crate) fn has_other_pairs(&self, session: &Session) -> bool {
        !session.is_mute && (self.locators.len() > 1 || session.remote.len() > 1)
    }

    /// The pairs of locators that a question goes by, in order: the best failed pair that is due, the pair in use, the
    /// other pairs.
    pub(crate) fn begin_question(&mut self, id: SessionId, now: Instant) -> Question {
        let Some((pair, _)) = self.ilcc.key(id) else { return Question::default() };
        let Some(session) = self.ilcc.get(id) else { return Question::default() };
        let others = self.other_pairs(session, pair, now);
        let due = session.failed.due(now).filter(|due| others.contains(due));
        let failed = due.min_by_key(|due| self.preferences(session, *due));
        let Some(session) = self.ilcc.get_mut(id) else { return Question::default() };
        if let Some(failed) = failed {
            session.failed.on_asked(failed, now);
        }
        let mut pairs: Vec<_> = failed.into_iter().collect();
        // Silence of the pair in use is no news if the last question has shown it.
        let tries = if session.all_silent() && !others.is_empty() { 1 } else { SILENT_TRIES };
        pairs.resize(pairs.len() + tries, session.wire);
        let (turns_from, round) =
            (pairs.len() - 1, pairs.len() + others.len().min(MAX_TRIED_PAIRS));
        pairs.extend(others);
        Question { pairs, turns_from, round, ..Question::default() }
    }

    /// Goes on after a Locator Update or question of the correspondent has come by a pair of locators. The pair works in that
    /// direction. If the pair in use is silent, a question shows whether this pair works in the other direction, too.
    /// So does a question about the pair in use, if the correspondent has moved to a pair that has failed, or sends news by
    /// a pair that shares no locator with the one in use. A correspondent that asks by another pair has most likely found the
    /// pair in use silent, and has to hear more than its acknowledgement, which may get lost.
    pub(crate) fn on_reached_by(&mut self, id: SessionId, by: Locators, came: Came, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let is_wire = by == session.wire;
        let is_usable = is_wire || self.is_other_pair(session, pair, by, now);
        let is_unheard = session.is_unheard();
        let is_elsewhere = session.failed.has(by) || session.is_apart(by);
        let has_sign = session.without_sign(now).is_some_and(|time| time < SHOWN_LATELY);
        let is_left = match came {
            Came::News => (is_elsewhere || session.is_doubted()) && !session.is_answered(now),
            // The question for a proof goes to a locator without one (decision 192).
            Came::Question => !is_wire && !has_sign && session.is_proven(by.1),
            Came::Echo => false,
        };
        let Some(session) = self.ilcc.get_mut(id) else { return };
        if is_wire {
            session.on_reached_by_wire(now);
        }
        if !is_usable {
            return;
        }
        if session.advertisement.is_none() && is_left {
            self.ask_whether_known(id, now);
        }
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let Some(sent) = session.advertisement.as_mut() else { return };
        sent.on_reached_by(by, now);
        if is_unheard {
            self.schedule(id);
        }
    }

    /// Has a Locator Update go by the pair by which the correspondent has just reached us, if the pair in use is
    /// silent. The pairs that have their turns keep them.
    pub(crate) fn ask_out_of_turn(&mut self, id: SessionId, now: Instant) {
        let session = self.ilcc.get_mut(id).filter(|session| session.is_unheard());
        let sent = session.and_then(|session| session.advertisement.as_mut());
        if let Some(by) = sent.and_then(|sent| sent.take_out_of_turn(now)) {
            self.send_advertisement_by(id, by, now);
        }
    }

    /// The other pairs that a question can go by, in order.
    pub(crate) fn other_pairs(
        &self,
        session: &Session,
        pair: IlvPair,
        now: Instant,
    ) -> Vec<Locators> {
        if !self.has_other_pairs(session) {
            return Vec::new();
        }
        let (local, remote) = session.wire;
        let remotes = session.remote.iter().filter(|one| session.may_be_at(one, now));
        let all =
            remotes.flat_map(|remote| self.locators.iter().map(move |own| (own.l64, remote.l64)));
        let mut others: Vec<_> = all.filter(|by| self.is_beside(session, pair, *by)).collect();
        let depths = self.depths(session);
        // RFC 5534 s4.3: what has failed may be anything that the pair in use shares with another pair.
        others.sort_by_cached_key(|&(own, to)| {
            let is_shared = own == local || to == remote;
            let [own_depth, to_depth] = [depths[0].of(own), depths[1].of(to)];
            (own_depth.max(to_depth), is_shared, own == local, own_depth + to_depth)
        });
        others
    }

    /// Whether a question can go by this pair, and the pair is not the one in use.
    fn is_other_pair(&self, session: &Session, pair: IlvPair, by: Locators, now: Instant) -> bool {
        let mut remotes = session.remote.iter().filter(|one| session.may_be_at(one, now));
        self.has_other_pairs(session)
            && self.has_locator(by.0)
            && remotes.any(|remote| remote.l64 == by.1)
            && self.is_beside(session, pair, by)
    }

    /// Whether a pair is not the one in use, and packets can leave by it.
    fn is_beside(&self, session: &Session, pair: IlvPair, (own, to): Locators) -> bool {
        (own, to) != session.wire && !self.leads_elsewhere(own, pair.remote.at(to))
    }

    /// The depths of our locators and the correspondent's.
    fn depths(&self, session: &Session) -> [Depths<L64>; 2] {
        let own = self.locators.iter().map(|one| one.l64);
        let to = session.remote.iter().map(|one| one.l64);
        [
            Depths::new(own, session.wire.0, |one| self.slots.has(session.heard, one)),
            Depths::new(to, session.wire.1, |one| session.is_proven(one)),
        ]
    }

    /// Handles the acknowledgement of a question, which has come by this pair of locators. Returns whether the
    /// session has left the pair in use for this pair.
    pub(crate) fn on_answer_by(
        &mut self,
        id: SessionId,
        by: Locators,
        asked: &Advertisement,
        now: Instant,
    ) -> bool {
        let Some(session) = self.ilcc.get(id) else { return false };
        let wire = session.wire;
        let is_silent = session.all_silent() || session.is_guess() || asked.finds_silent(wire);
        // An answer by a pair that was asked later may be on its way.
        let silent: Vec<_> =
            asked.question.asked(asked.retry.tries).take_while(|pair| *pair != by).collect();
        let is_named = session.remote.iter().any(|remote| remote.l64 == by.1);
        let silent = [session.pairs_beside(by), silent].concat();
        let is_back = session.failed.has(by);
        let is_better = is_back && self.is_preferred(session, by);
        if by == wire || !is_named || !self.has_locator(by.0) {
            return false;
        }
        let Some(session) = self.ilcc.get_mut(id) else { return false };
        let back = session.failed.forget(by);
        if is_silent {
            session.failed.leave(wire, &silent, now);
        } else if !is_better {
            if back.is_some_and(|pair| pair.was_used) && !session.agreed {
                // The correspondent was told to prefer another locator.
                self.advertise(id, now);
            }
            return false;
        }
        let cause = if is_silent { MoveCause::Suspicion } else { MoveCause::FailBack };
        let has_moved = self.send_by(id, by, now + NONCE_AFTER_CHANGE, cause);
        // The correspondent may still send by the pair that the session has left.
        self.advertise(id, now);
        self.go_on_after_turn(id, is_silent, now);
        self.schedule(id);
        has_moved
    }

    /// Our preference and the correspondent's for these locators.
    fn preferences(&self, session: &Session, (own, to): Locators) -> Option<(u16, u16)> {
        let own = self.locators.iter().find(|local| local.l64 == own)?;
        let to = session.remote.iter().find(|remote| remote.l64 == to)?;
        Some((own.preference, to.preference))
    }

    /// Whether the two nodes prefer these locators to the locators in use.
    fn is_preferred(&self, session: &Session, by: Locators) -> bool {
        let preferences = |pair| self.preferences(session, pair);
        let (Some(by), Some(used)) = (preferences(by), preferences(session.wire)) else {
            return false;
        };
        by != used && by.0 <= used.0 && by.1 <= used.1
    }
}
