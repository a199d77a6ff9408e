use alloc::vec::Vec;

use crate::{Locator, LocatorPair, Prefix};

/// Which of our addresses reach which destinations by their own links, where routes decide that: specific ones, and a route to everything where
/// not all links have a default route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalRoutes(pub Vec<(Prefix, Vec<Locator>)>);

impl LocalRoutes {
    /// Our addresses whose packets to a peer leave by the link of the address. None: no route decides.
    #[must_use]
    pub fn toward(&self, peer: Locator) -> Option<&[Locator]> {
        let leading = self.0.iter().filter(|(to, _)| to.contains(peer.0));
        leading.max_by_key(|(to, _)| to.length()).map(|(_, own)| &**own)
    }

    /// Whether a route to less than everything decides about a peer.
    #[must_use]
    pub fn are_specific_to(&self, peer: Locator) -> bool {
        self.0.iter().any(|(to, _)| to.length() > 0 && to.contains(peer.0))
    }

    /// Destinations that a route led to, and none does after these are in place.
    #[must_use]
    pub fn gone_in(&self, next: &Self) -> Vec<Prefix> {
        let destinations = self.0.iter().map(|(to, _)| *to);
        destinations.filter(|to| next.0.iter().all(|(other, _)| other != to)).collect()
    }

    /// Whether packets of a pair leave by the link of their source by a specific route.
    #[must_use]
    pub fn lead(&self, pair: LocatorPair) -> bool {
        self.toward(pair.peer).is_some_and(|own| own.contains(&pair.local))
    }

    /// Whether packets of a pair leave by another link than that of their source: a neighbor on one link is no neighbor on another.
    #[must_use]
    pub fn lead_elsewhere(&self, pair: LocatorPair) -> bool {
        self.toward(pair.peer).is_some_and(|own| !own.contains(&pair.local))
    }
}
