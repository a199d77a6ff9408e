//! Questions on paths that lose packets (decisions 215 and 222).
//!
//! The pair in use is silent, and questions or Locator Updates of the correspondent come by another pair. So that pair works
//! in one direction at least, and our questions by it, or the answers, may have been lost. After each message that comes, the
//! next [`HEARD_TURNS`] turns keep the pace of the first one. Between two turns a question goes by that pair, as long as the
//! question goes on.
//!
//! A correspondent that has nothing to send by itself only answers, and its answers may get lost. So some turns keep the pace
//! before anything is heard: [`HEARD_TURNS`] for the question, and as many after each report that payload leaves in vain.
//! Between them a question goes by the best other pair whose locators the correspondent has used before. After the session has
//! left a silent pair, its Locator Update goes on in the same way, by the pair that has answered. All sessions
//! together have [`ALL_UNHEARD_TURNS`] of these turns in each [`PACED_INTERVAL`](crate::consts::PACED_INTERVAL).

use moorline_types::{Instant, SessionId};

use crate::advertisement::Advertisement;
use crate::consts::{ALL_UNHEARD_TURNS, DOUBTED_TRIES, HEARD_TURNS, QUESTION_PAUSE};
use crate::event::MoveCause;
use crate::machine::Machine;
use crate::paths::Locators;
use crate::retry::Retry;
use crate::session::{Session, Sign};

/// The pair by which the correspondent has last reached us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    by: Locators,
    /// Number of turns that keep the pace.
    turns: u8,
}

impl Heard {
    pub(crate) const fn by(by: Locators) -> Self {
        Self { by, turns: HEARD_TURNS }
    }

    /// Takes one of the turns that keep the pace, if one is left.
    const fn take_turn(&mut self) -> bool {
        let has_turn = self.turns > 0;
        self.turns = self.turns.saturating_sub(1);
        has_turn
    }
}

impl Advertisement {
    /// The next question goes by this pair, after the pause of `fresh`, a timer that begins now. `keeps_pace`: the next turn
    /// comes after two such pauses.
    fn ask_between_turns(&mut self, by: Locators, keeps_pace: bool, fresh: Retry) {
        if keeps_pace {
            self.retry = self.retry.at_second(fresh);
        }
        self.question.shown.get_or_insert((by, fresh.next));
    }

    /// The pair for a message to the same locator of the correspondent whose credit is scarce.
    pub(crate) fn likely(&self, by: Locators) -> Locators {
        let heard = self.question.heard.map(|heard| heard.by);
        heard.filter(|heard| heard.1 == by.1).unwrap_or(by)
    }
}

impl Machine {
    /// Goes on after a turn while the correspondent is not heard by the pair in use. `goes_on`: that was so before the turn, and
    /// the session is in use and has other pairs.
    ///
    /// The pauses are not longer than [`QUESTION_PAUSE`] if round trips are: few of these questions go by the same pair.
    pub(crate) fn go_on_after_turn(&mut self, id: SessionId, goes_on: bool, now: Instant) {
        let fresh = Retry::after(QUESTION_PAUSE, now);
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let is_unheard = session.is_unheard();
        let Some(sent) = session.advertisement.as_mut() else { return };
        let heard = sent.question.heard.as_mut().filter(|_| is_unheard);
        let heard = heard.map(|heard| (Some(heard.by), heard.take_turn()));
        let (by, keeps_pace) = match heard {
            Some(heard) => heard,
            None if goes_on && self.take_unheard_turn(id, now) => (self.likely_pair(id, now), true),
            None => return,
        };
        let session = self.ilcc.get_mut(id);
        let Some(sent) = session.and_then(|session| session.advertisement.as_mut()) else { return };
        match by {
            Some(by) => sent.ask_between_turns(by, keeps_pace, fresh),
            None => sent.retry = sent.retry.hastened(fresh),
        }
    }

    /// Takes a turn that keeps the pace although the correspondent is not heard, if the question and all sessions together have
    /// one left.
    fn take_unheard_turn(&mut self, id: SessionId, now: Instant) -> bool {
        let session = self.ilcc.get_mut(id);
        let sent = session.and_then(|session| session.advertisement.as_mut());
        let Some(sent) = sent.filter(|sent| sent.question.unheard_turns > 0) else { return false };
        let has_room = self.unheard_turns.take(ALL_UNHEARD_TURNS, now);
        sent.question.unheard_turns -= u8::from(has_room);
        has_room
    }

    /// The pair in use, if the session has left a silent one for it. Otherwise the best other pair of which the correspondent has
    /// used both locators.
    fn likely_pair(&self, id: SessionId, now: Instant) -> Option<Locators> {
        let (pair, _) = self.ilcc.key(id)?;
        let session = self.ilcc.get(id)?;
        if session.has_left() {
            return Some(session.wire);
        }
        let is_known =
            |by: &Locators| self.slots.has(session.heard, by.0) && session.is_proven(by.1);
        self.other_pairs(session, pair, now).into_iter().find(is_known)
    }
}

impl Session {
    /// Whether the pair in use is silent, or the session has left a silent pair and the correspondent may not know it yet.
    pub(crate) fn is_unheard(&self) -> bool {
        self.is_silent() || self.has_left()
    }

    /// Whether the session has left a silent pair and the correspondent may not know it yet.
    fn has_left(&self) -> bool {
        let is_told = !self.owes_update || matches!(self.sign, Sign::Answered(_));
        self.moved == Some(MoveCause::Suspicion) && !is_told
    }

    /// Whether the locators in use are silent, or have brought no answer to two questions.
    pub(crate) fn is_unanswered(&self) -> bool {
        let sent = self.advertisement.as_deref();
        let asked = sent.map(|sent| sent.question.asked(sent.retry.tries));
        let by_wire = asked.into_iter().flatten().filter(|pair| *pair == self.wire).count();
        self.is_silent() || by_wire >= DOUBTED_TRIES
    }
}
