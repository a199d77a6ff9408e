//! Our locators at which a correspondent has reached this host (decision 216).
//!
//! What a correspondent shows counts for its own sessions alone: it may be a node on the link that has advertised some of
//! our prefixes itself. A session keeps one bit for each locator.

use alloc::vec::Vec;

use moorline_types::{L64, SessionId};

use crate::config::LocalLocator;
use crate::consts::MAX_REMOTE_LOCATORS;
use crate::machine::Machine;

/// Places of our locators in [`Heard`]. A locator keeps its place while it is gone, until another one needs the place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots([Option<L64>; MAX_REMOTE_LOCATORS]);

/// Set of our locators, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard(u32);

const _: () = assert!(MAX_REMOTE_LOCATORS <= u32::BITS as usize, "each place has a bit");

impl Slots {
    /// The set of this locator alone; empty if the locator has no place.
    fn only(&self, l64: L64) -> Heard {
        let at = self.0.iter().position(|known| *known == Some(l64));
        Heard(at.map_or(0, |at| 1 << at))
    }

    /// Whether the set has this locator.
    pub(crate) fn has(&self, heard: Heard, l64: L64) -> bool {
        heard.0 & self.only(l64).0 != 0
    }

    /// Gives each of these locators a place, as long as there is one. Returns the places that other locators had before.
    fn follow(&mut self, locators: &[LocalLocator]) -> Heard {
        let mut taken = 0;
        for own in locators {
            if self.only(own.l64) != Heard::default() {
                continue;
            }
            let is_gone = |l64: &L64| locators.iter().all(|one| one.l64 != *l64);
            let free = self.0.iter().position(Option::is_none);
            let free =
                free.or_else(|| self.0.iter().position(|one| one.as_ref().is_some_and(is_gone)));
            let Some(at) = free else { break };
            if let Some(slot) = self.0.get_mut(at) {
                taken |= if slot.is_some() { 1 << at } else { 0 };
                *slot = Some(own.l64);
            }
        }
        Heard(taken)
    }
}

impl Machine {
    /// Gives our present locators places. Sessions forget the locators that have lost theirs.
    pub(crate) fn follow_slots(&mut self) {
        let taken = self.slots.follow(&self.locators);
        if taken == Heard::default() {
            return;
        }
        let sessions: Vec<_> = self.ilcc.iter().map(|(id, _, _)| id).collect();
        for id in sessions {
            if let Some(session) = self.ilcc.get_mut(id) {
                session.heard.0 &= !taken.0;
            }
        }
    }

    /// Notes that a message of the correspondent, with its nonce, has come in at this locator.
    pub(crate) fn note_heard(&mut self, id: SessionId, local: L64) {
        let heard = self.slots.only(local);
        for one in self.siblings(id) {
            if let Some(session) = self.ilcc.get_mut(one) {
                session.heard.0 |= heard.0;
            }
        }
    }
}
