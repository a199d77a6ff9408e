//! Locators that are known to work (decision 216). Any node on a link can advertise prefixes, so a host may have dozens of
//! addresses that lead nowhere. The machine tries them last.

use moorline_types::{FEW_LOCATORS, Locator, LocatorPair};

use super::Machine;

impl Machine {
    /// Locators of both sides that are known to work. Empty unless there are many locators.
    pub(super) fn proven(&self) -> &[Locator] {
        self.extra.as_ref().map_or(&[], |extra| &extra.proven)
    }

    /// The peer has shown that packets by this pair arrive.
    pub(super) fn note_proven(&mut self, pair: LocatorPair) {
        let is_new = |one: &Locator| !self.proven().contains(one);
        let is_news = [pair.local, pair.peer].iter().any(is_new);
        if is_news && self.has_many_locators() && self.has_locators_of(pair) {
            self.change_extra(|extra| {
                extra.proven.retain(|one| *one != pair.local && *one != pair.peer);
                extra.proven.extend([pair.local, pair.peer]);
            });
        }
    }

    /// The sets have changed. When there are many locators for the first time, the pairs in use until then are known to
    /// work.
    pub(super) fn refresh_proven(&mut self) {
        if !self.has_many_locators() {
            if !self.proven().is_empty() {
                self.change_extra(|extra| extra.proven.clear());
            }
            return;
        }
        let (local, peer) = (self.local.clone(), self.peer.clone());
        self.change_extra(|extra| {
            extra.proven.retain(|one| local.contains(one) || peer.contains(one));
        });
        let is_verified = self.monitor.as_ref().is_some_and(|one| one.verified.is_some());
        let standby = self.standby().filter(|_| is_verified);
        for pair in [Some(self.current()), self.home(), standby].into_iter().flatten() {
            self.note_proven(pair);
        }
    }

    fn has_many_locators(&self) -> bool {
        self.local.len().max(self.peer.len()) > FEW_LOCATORS
    }
}
