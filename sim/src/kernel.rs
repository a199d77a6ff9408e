//! What a host's kernel holds for its core: routes of moved pairs, and ULIDs that have left their uplinks. The kernel outlives the core.

use std::collections::{BTreeMap, BTreeSet};

use moorline_addresses::{FoundRoute, HostView, MovedRoute, NextHop, RouteStep};
use moorline_types::{Ulid, UlidPair};

/// Routes and addresses that a core has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    routes: BTreeMap<UlidPair, MovedRoute>,
    kept: BTreeSet<Ulid>,
}

impl Kernel {
    pub(crate) fn change_routes(&mut self, step: &RouteStep) {
        for route in step.routes() {
            match step {
                RouteStep::Add(_) => {
                    // Direct routes that are there stay.
                    let before = self.routes.get(&route.ulids);
                    let (direct, own) = before.map_or((None, None), |old| (old.direct, old.own));
                    self.routes.insert(route.ulids, MovedRoute { direct, own, ..*route });
                }
                RouteStep::Remove(_) => {
                    self.routes.remove(&route.ulids);
                }
                RouteStep::LeadDirectly(_) => self.change(route, |there| {
                    (there.direct, there.own) = (route.direct, route.own);
                }),
                RouteStep::LeadByMoor(_) => self.change(route, |there| there.direct = None),
                RouteStep::RemoveTcp(_) => self.change(route, |there| there.is_tcp_bare = false),
            }
        }
    }

    fn change(&mut self, route: &MovedRoute, change: impl FnOnce(&mut MovedRoute)) {
        if let Some(there) = self.routes.get_mut(&route.ulids) {
            change(there);
        }
    }

    /// The links are others now: routes by those that have gone or have no carrier go with them.
    pub(crate) fn follow(&mut self, view: &HostView) {
        let is_there = |hop: &NextHop| view.uplink(hop.ifindex).is_some_and(|one| one.carrier);
        for route in self.routes.values_mut() {
            route.direct = route.direct.filter(is_there);
            route.own = route.own.filter(is_there);
        }
    }

    /// A fault on purpose: direct routes lead to another uplink.
    pub(crate) fn mislead(&mut self) {
        for hop in self.routes.values_mut().filter_map(|route| route.direct.as_mut()) {
            hop.ifindex = 3 - hop.ifindex.min(2);
        }
    }

    pub(crate) fn routes(&self) -> Vec<FoundRoute> {
        let found =
            |route: &MovedRoute| FoundRoute { route: *route, has_direct: route.direct.is_some() };
        self.routes.values().map(found).collect()
    }

    /// Pairs that have a route of their own.
    pub(crate) fn routed(&self) -> BTreeSet<UlidPair> {
        self.routes.keys().copied().collect()
    }

    /// The route of a pair, if it has one of its own.
    pub(crate) fn route(&self, ulids: UlidPair) -> Option<&MovedRoute> {
        self.routes.get(&ulids)
    }

    pub(crate) fn keep(&mut self, ulid: Ulid) {
        self.kept.insert(ulid);
    }

    pub(crate) fn release(&mut self, ulid: Ulid) {
        self.kept.remove(&ulid);
    }

    pub(crate) const fn kept(&self) -> &BTreeSet<Ulid> {
        &self.kept
    }
}
