use alloc::vec::Vec;

use crate::{Locator, LocatorPair, Prefix};

/// Destinations, each with our addresses that reach it by their own links. It covers destinations that routes
/// decide about: those of specific routes, and all destinations if not all links have a default route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalRoutes(pub Vec<(Prefix, Vec<Locator>)>);

impl LocalRoutes {
    /// Our addresses whose packets to a peer leave by the link of the address. `None`: no route decides.
    #[must_use]
    pub fn toward(&self, peer: Locator) -> Option<&[Locator]> {
        let leading = self.0.iter().filter(|(to, _)| to.contains(peer.0));
        leading.max_by_key(|(to, _)| to.length()).map(|(_, own)| &**own)
    }

    /// Whether a route other than a default route decides about a peer.
    #[must_use]
    pub fn are_specific_to(&self, peer: Locator) -> bool {
        self.0.iter().any(|(to, _)| to.length() > 0 && to.contains(peer.0))
    }

    /// Destinations to which a route leads now, and none with the routes of `next`.
    #[must_use]
    pub fn gone_in(&self, next: &Self) -> Vec<Prefix> {
        let destinations = self.0.iter().map(|(to, _)| *to);
        destinations.filter(|to| next.0.iter().all(|(other, _)| other != to)).collect()
    }

    /// Whether a specific route makes packets of a pair leave by the link of their source.
    #[must_use]
    pub fn lead(&self, pair: LocatorPair) -> bool {
        self.toward(pair.peer).is_some_and(|own| own.contains(&pair.local))
    }

    /// Whether packets of a pair leave by a link other than that of their source: a neighbour on one link is
    /// none on another.
    #[must_use]
    pub fn lead_elsewhere(&self, pair: LocatorPair) -> bool {
        self.toward(pair.peer).is_some_and(|own| !own.contains(&pair.local))
    }
}
