//! Moved pairs that stay on their own links although new specific routes lead elsewhere (decision 137).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use moorline_addresses::{HostView, MAX_SPECIFIC, SpecificRoute, deciding};
use moorline_contexts::Contexts;
use moorline_types::{Locator, LocatorPair, Prefix};

use crate::host::Host;
use crate::routing::Routing;

impl Host {
    /// Notes the detours in the view. `before` has the routes that counted until now.
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
        let mut now = self.followed();
        if now == before || self.view.specific.len() > MAX_SPECIFIC {
            return BTreeSet::new();
        }
        now.sort_by_key(|route| Reverse(route.destination.length()));
        let others = now.iter().filter(|route| !before.contains(route));
        let others = others.chain(before.iter().filter(|route| !now.contains(route)));
        let changed: BTreeSet<_> = others.map(|route| route.destination).collect();
        let is_changed = |peer: Locator| changed.iter().any(|to| to.contains(peer.0));
        let paths = self.routes.movers().into_iter().filter_map(|mover| {
            let pair = self.path_of(shim6, mover).filter(|pair| is_changed(pair.peer))?;
            let is_moved = self.routes.get(mover)?.ulids.as_locators() != pair;
            is_moved.then_some(pair)
        });
        paths.filter_map(|pair| self.detours_of(pair, before, &now)).flatten().collect()
    }

    /// The destinations of the routes that a pair would have to follow: the longest prefix, and all that it hides.
    /// `now` has the longest ones first.
    fn detours_of(
        &self,
        pair: LocatorPair,
        before: &[SpecificRoute],
        now: &[SpecificRoute],
    ) -> Option<Vec<Prefix>> {
        let by = self.ifindex_of(pair.local.0)?;
        if elsewhere(before, by, pair).is_some() {
            return None;
        }
        let mut detours = Vec::new();
        let mut rest = now;
        while let Some(ways) = elsewhere(rest, by, pair) {
            if !ways.iter().all(|route| route.way.is_some_and(|(link, _)| self.is_ours(link))) {
                return None;
            }
            let destination = ways.first()?.destination;
            let is_known =
                |route: &SpecificRoute| route.destination.length() >= destination.length();
            rest = &rest[rest.partition_point(is_known)..];
            detours.push(destination);
        }
        Some(detours)
    }

    /// Whether a link is one of ours. Routes by other interfaces, for example of a VPN, are followed at once.
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
