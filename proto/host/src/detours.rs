//! Moved pairs that go on by their own links, although specific routes have come that lead elsewhere (decision 137).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use moorline_addresses::{HostView, MAX_SPECIFIC, Mover, SpecificRoute, deciding};
use moorline_contexts::Contexts;
use moorline_types::{LocatorPair, Prefix};

use crate::host::Host;
use crate::routing::Routing;

impl Host {
    /// Notes the detours in the view. `before` are the routes that have counted until now.
    pub(crate) fn note_detours(&mut self, before: &[SpecificRoute]) {
        self.routing.view.detours.clear();
        self.routing.view.detours = self.routing.detours(&self.shim6, before);
    }
}

impl Routing {
    /// The specific routes that packets of moved pairs follow.
    pub(crate) fn followed(&self) -> Vec<SpecificRoute> {
        self.view.specific_for_all().copied().collect()
    }

    fn detours(&self, shim6: &Contexts, before: &[SpecificRoute]) -> BTreeSet<Prefix> {
        let now = self.followed();
        if now == before || now.len() > MAX_SPECIFIC {
            return BTreeSet::new();
        }
        let movers = self.routes.movers().into_iter();
        movers.filter_map(|mover| self.detour(shim6, mover, before, &now)).collect()
    }

    fn detour(
        &self,
        shim6: &Contexts,
        mover: Mover,
        before: &[SpecificRoute],
        now: &[SpecificRoute],
    ) -> Option<Prefix> {
        let pair = self.path_of(shim6, mover)?;
        let by = self.ifindex_of(pair.local.0)?;
        let is_moved = self.routes.get(mover)?.ulids.as_locators() != pair;
        let ways = elsewhere(now, by, pair).filter(|_| is_moved)?;
        let is_by_ours =
            |route: &&SpecificRoute| route.way.is_some_and(|(link, _)| self.is_ours(link));
        let is_detour = elsewhere(before, by, pair).is_none() && ways.iter().all(is_by_ours);
        Some(ways.first()?.destination).filter(|_| is_detour)
    }

    /// Routes of a VPN, and by interfaces that are left alone, are followed at once.
    fn is_ours(&self, link: u32) -> bool {
        let HostView { uplinks, candidates, bare, .. } = &self.view;
        [uplinks, candidates, bare].into_iter().flatten().any(|one| one.ifindex == link)
    }
}

/// The routes that decide about a pair, if none of them leads by this link.
fn elsewhere(routes: &[SpecificRoute], by: u32, pair: LocatorPair) -> Option<Vec<&SpecificRoute>> {
    let ways: Vec<_> = deciding(routes.iter(), pair.local.0, pair.peer.0).collect();
    (!ways.is_empty() && ways.iter().all(|route| !route.is_by(by))).then_some(ways)
}
