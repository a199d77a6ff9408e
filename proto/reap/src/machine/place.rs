//! Pairs, stored as the places of their locators in the two sets: a place pair takes 2 octets, a locator pair takes 32.

use alloc::boxed::Box;
use moorline_types::{Locator, LocatorPair};

use super::Machine;

impl Machine {
    pub(super) fn current(&self) -> LocatorPair {
        let gone = || self.extra.as_ref()?.gone.as_deref().copied();
        let current = self.current.and_then(|places| self.pair_at(places)).or_else(gone);
        current.expect("in the sets, or kept as gone")
    }

    /// Sets the current pair. If the sets have changed, the caller also passes the pair that [`current`](Self::current)
    /// gave before.
    pub(super) fn set_current(&mut self, pair: LocatorPair) {
        self.current = self.places_of(pair);
        let gone = self.current.is_none().then(|| Box::new(pair));
        if gone.is_some() || self.extra.is_some() {
            self.change_extra(|extra| extra.gone = gone);
        }
    }

    pub(super) fn places_of(&self, pair: LocatorPair) -> Option<[u8; 2]> {
        let place = |set: &[Locator], locator| {
            u8::try_from(set.iter().position(|known| *known == locator)?).ok()
        };
        Some([place(&self.local, pair.local)?, place(&self.peer, pair.peer)?])
    }

    pub(super) fn pair_at(&self, [local, peer]: [u8; 2]) -> Option<LocatorPair> {
        let (local, peer) = (usize::from(local), usize::from(peer));
        Some(LocatorPair::new(*self.local.get(local)?, *self.peer.get(peer)?))
    }
}
