//! Pairs by their places in the two sets, which take two octets and not 32.

use alloc::boxed::Box;
use moorline_types::{Locator, LocatorPair};

use super::Machine;

/// The current pair.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Of its locators in our set and in the peer's.
    Of([u8; 2]),
    /// At least one of them is not there any more.
    Gone(Box<LocatorPair>),
}

impl Machine {
    pub(super) fn current(&self) -> LocatorPair {
        match &self.current {
            Place::Of([local, peer]) => {
                LocatorPair::new(self.local[usize::from(*local)], self.peer[usize::from(*peer)])
            }
            Place::Gone(pair) => **pair,
        }
    }

    /// To be called too when the sets have changed, with what [`current`](Self::current) was before.
    pub(super) fn set_current(&mut self, pair: LocatorPair) {
        let gone = || Place::Gone(Box::new(pair));
        self.current = self.places_of(pair).map_or_else(gone, Place::Of);
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
