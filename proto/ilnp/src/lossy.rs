//! Questions on paths that lose packets (decision 215).
//!
//! The pair in use is silent, and questions or Locator Updates of the correspondent come by another pair. So that pair works
//! in one direction at least, and our questions by it, or the answers, may have been lost. After each message that comes, the
//! next [`HEARD_TURNS`] turns keep the pace of the first one. Between two turns a question goes by that pair, as long as the
//! question goes on.

use crate::advertisement::Advertisement;
use crate::consts::{DOUBTED_TRIES, HEARD_TURNS};
use crate::paths::Locators;
use crate::retry::Retry;
use crate::session::Session;

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
}

impl Advertisement {
    /// Goes on after a turn while the pair in use is silent: the next question goes by the pair by which the correspondent
    /// has last reached us, after the pause of `fresh`, a timer that begins now.
    pub(crate) fn ask_between_turns(&mut self, fresh: Retry) {
        let Some(heard) = &mut self.question.heard else { return };
        if heard.turns > 0 {
            heard.turns -= 1;
            self.retry = self.retry.at_second(fresh);
        }
        self.question.shown.get_or_insert((heard.by, fresh.next));
    }

    /// The pair for a message to the same locator of the correspondent whose credit is scarce.
    pub(crate) fn likely(&self, by: Locators) -> Locators {
        let heard = self.question.heard.map(|heard| heard.by);
        heard.filter(|heard| heard.1 == by.1).unwrap_or(by)
    }
}

impl Session {
    /// Whether the locators in use are silent, or have brought no answer to two questions.
    pub(crate) fn is_unanswered(&self) -> bool {
        let sent = self.advertisement.as_deref();
        let asked = sent.map(|sent| sent.question.asked(sent.retry.tries));
        let by_wire = asked.into_iter().flatten().filter(|pair| *pair == self.wire).count();
        self.is_silent() || by_wire >= DOUBTED_TRIES
    }
}
