//! Uplinks that carry nothing, by all kinds of evidence: new connections and sessions leave them.
//!
//! If the operator has chosen hosts, they are asked ([`health`](crate::health)). Otherwise peers of contexts are
//! asked, and lost routers count ([`doubts`](crate::doubts)).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_addresses::{DefaultRoute, HostView, Uplink};
use moorline_contexts::{Cause, Event, EventKind, FailureHint, ReapState, Reply};
use moorline_types::{ContextId, Instant, Locator, LocatorPair};

use crate::doubts::{ADDRESSES, MOST_PEERS, Network, Target};
use crate::effect::Effect;
use crate::host::Host;

/// Evidence that an uplink carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Hosts of the operator's choice answer by another uplink alone.
    Hosts,
    /// Peers of contexts answer by another uplink alone.
    Peers,
    /// Neighbor Unreachability Detection has given up the uplink's router.
    Router,
}

impl Host {
    /// The evidence that an uplink carries nothing, if there is any.
    #[must_use]
    pub fn evidence(&self, ifindex: u32) -> Option<Evidence> {
        let all = [
            (self.health.failing().contains(&ifindex), Evidence::Hosts),
            (self.doubts.has_lost_router(ifindex), Evidence::Router),
            (self.doubts.failing().contains(&ifindex), Evidence::Peers),
        ];
        all.into_iter().find(|(is_there, _)| *is_there).map(|(_, evidence)| evidence)
    }

    /// Interface indices of the uplinks that carry nothing while another one does.
    #[must_use]
    pub fn failing_uplinks(&self) -> BTreeSet<u32> {
        let mut failing = self.health.failing();
        failing.extend(self.doubts.failing());
        // If all uplinks fail, none is better.
        let has_other = |uplink: &Uplink| uplink.carrier && !failing.contains(&uplink.ifindex);
        if !self.routing.view.uplinks.iter().any(has_other) {
            failing.clear();
        }
        failing
    }

    /// The uplink of new connections without a source address. `None` if there is none, or if they go by another
    /// interface, for example of a VPN.
    #[must_use]
    pub fn uplink_for_new(&self) -> Option<&Uplink> {
        let (view, failing) = (&self.routing.view, self.failing_uplinks());
        let ways = view.default_ways();
        let (ifindex, _) =
            ways.iter().find(|(ifindex, _)| !is_avoided(view, &failing, *ifindex))?;
        view.uplink(*ifindex)
    }

    pub(crate) fn follow_health(&mut self, now: Instant) {
        let is_other = self.health.follow(&self.routing.view, now);
        let view = &self.routing.view;
        self.doubts.follow(|ifindex| view.uplink(ifindex).is_some_and(|uplink| uplink.carrier));
        // The kernel may have removed a copy of a default route with its uplink.
        let wanted = preferred(&self.routing.view, &self.failing_uplinks());
        if is_other || wanted.is_some() || self.preferred.is_some() {
            self.set_preferred(wanted, now);
        }
    }

    pub(crate) fn poll_health(&self) -> Option<Instant> {
        let all = [self.health.poll_timeout(), self.doubts.poll_timeout(), self.preferred];
        all.into_iter().flatten().min()
    }

    pub(crate) fn handle_health_timeout(&mut self, now: Instant) {
        let (requests, is_other) = self.health.handle_timeout(now);
        self.effects.extend(requests);
        if let Some(ifindex) = self.doubts.lacks_targets(now) {
            let targets = self.targets(ifindex, None);
            self.doubts.replace(ifindex, targets, now);
        }
        let (shim6, doubts) = (&mut self.shim6, &mut self.doubts);
        let is_doubt = doubts.handle_timeout(|id, pair| shim6.send_one_check(id, pair, now), now);
        if is_other || is_doubt {
            self.on_health(now);
        } else if self.preferred.is_some_and(|at| at <= now) {
            self.prefer_route(now);
        }
    }

    /// Handles a change of the failing uplinks: new connections and sessions leave them.
    pub(crate) fn on_health(&mut self, now: Instant) {
        self.prefer_route(now);
        self.follow_node(now);
        self.plan_effects(now);
    }

    /// Sets the default route that comes first, and removes others. The route expires if it is not set again.
    fn prefer_route(&mut self, now: Instant) {
        self.set_preferred(preferred(&self.routing.view, &self.failing_uplinks()), now);
    }

    fn set_preferred(&mut self, wanted: Option<(u32, DefaultRoute)>, now: Instant) {
        self.preferred = wanted.is_some().then(|| now + REFRESHED);
        self.effects.push_back(Effect::PreferRoute(wanted));
    }

    /// Handles a router that Neighbor Unreachability Detection has given up. The kernel avoids the router as well.
    /// But it waits 3 s for the router again whenever packets of old connections need it.
    pub(crate) fn on_router_lost(&mut self, ifindex: u32, now: Instant) {
        let is_only = |uplink: &Uplink| uplink.default_routes.len() <= 1;
        let is_for_us = !self.health.has_targets();
        if is_for_us && self.routing.view.uplink(ifindex).is_some_and(is_only) {
            let is_new = self.doubts.handle_router_lost(ifindex, now);
            if is_new {
                self.on_health(now);
            }
        }
    }

    /// Handles an event of a context that has left an uplink or doubts it.
    pub(crate) fn on_context_event(&mut self, event: &Event, now: Instant) {
        match event.kind {
            EventKind::Moved { from, to, cause } if is_found(cause) => {
                let [left, taken] = [from, to].map(|pair| self.routing.ifindex_of(pair.local.0));
                if let Some(left) = left.filter(|_| left != taken) {
                    self.doubt(left, event.context, now);
                }
            }
            EventKind::StateChanged { to: ReapState::Exploring, cause, .. } if is_found(cause) => {
                // If the peer hears this host by the uplink, the context stays there, although the host does not hear
                // the peer (RFC 5534 has a pair for each direction).
                let known = self.shim6.context(event.context).and_then(|one| one.established);
                let stays = known.filter(|known| known.since < now);
                let ifindex = stays.and_then(|own| self.routing.ifindex_of(own.locators.local.0));
                if let Some(ifindex) = ifindex {
                    self.doubt(ifindex, event.context, now);
                }
            }
            EventKind::Suspected { locators, hint: FailureHint::Unreachable } => {
                let Some(ifindex) = self.routing.ifindex_of(locators.local.0) else { return };
                let networks = self.networks_of(event.context);
                if self.doubts.handle_unreachable(ifindex, networks, now) {
                    self.doubt(ifindex, event.context, now);
                }
            }
            EventKind::Initiated
            | EventKind::Established { .. }
            | EventKind::Renewed
            | EventKind::Failed { .. }
            | EventKind::StateChanged { .. }
            | EventKind::Moved { .. }
            | EventKind::Suspected { .. }
            | EventKind::Cleared { .. }
            | EventKind::Unanswered { .. }
            | EventKind::Congested { .. }
            | EventKind::Unreachable { .. }
            | EventKind::Removed { .. } => {}
        }
    }

    /// Takes the answer of a peer to a check.
    pub(crate) fn on_reply(&mut self, reply: Reply, now: Instant) {
        self.is_health_due |= self.doubts.handle_reply(reply, now);
    }

    /// Asks peers about an uplink, the peer of context `first` first. If hosts are asked, no peer is.
    fn doubt(&mut self, ifindex: u32, first: ContextId, now: Instant) {
        let is_for_us = !self.health.has_targets() && self.doubts.is_open_to(ifindex, now);
        if is_for_us && self.routing.view.uplink(ifindex).is_some_and(|uplink| uplink.carrier) {
            let targets = self.targets(ifindex, Some(first));
            self.doubts.begin(ifindex, targets, now);
        }
    }

    /// Peers that can be asked about an uplink, each by one context. Peers with locators in a common network count as
    /// one.
    fn targets(&self, ifindex: u32, first: Option<ContextId>) -> Vec<Target> {
        let failing = self.failing_uplinks();
        let mut peers: Vec<BTreeSet<Network>> = Vec::new();
        let mut targets = Vec::new();
        let others = self.shim6.contexts().map(|context| context.id).take(MOST_LOOKED_AT);
        for id in first.into_iter().chain(others) {
            let networks = self.networks_of(id);
            if peers.len() >= MOST_PEERS || peers.iter().any(|peer| !peer.is_disjoint(&networks)) {
                continue;
            }
            let pairs = self.pairs_about(ifindex, &failing, id);
            if !pairs.is_empty() {
                let peer = peers.len();
                targets.extend(pairs.into_iter().map(|pairs| {
                    let usual = self.shim6.rtt_of(pairs[0]).unwrap_or_default();
                    Target { context: id, peer, pairs, usual }
                }));
                peers.push(networks);
            }
        }
        targets
    }

    /// Pairs of a context by an uplink and by another one, for some addresses of the peer. The current address comes
    /// first.
    fn pairs_about(
        &self,
        ifindex: u32,
        failing: &BTreeSet<u32>,
        id: ContextId,
    ) -> Vec<[LocatorPair; 2]> {
        let context = self.shim6.context(id).filter(|_| self.shim6.knows_checks(id));
        let Some(known) = context.and_then(|context| context.established) else {
            return Vec::new();
        };
        let usable = known.local_locators.iter().filter(|own| self.shim6.usable().contains(own));
        let usable: Vec<Locator> =
            [known.locators.local].into_iter().chain(usable.copied()).collect();
        let by = |own: &Locator| self.routing.ifindex_of(own.0);
        let own = usable.iter().find(|own| by(own) == Some(ifindex));
        let is_other = |by: u32| by != ifindex && !failing.contains(&by);
        let other = usable.iter().find(|own| by(own).is_some_and(is_other));
        let (Some(own), Some(other)) = (own, other) else { return Vec::new() };
        let current = known.locators.peer;
        let rest = known.peer_locators.iter().filter(|peer| **peer != current);
        let peers = [current].into_iter().chain(rest.copied()).take(ADDRESSES);
        peers.map(|peer| [*own, *other].map(|local| LocatorPair::new(local, peer))).collect()
    }

    /// Networks of the locators of a context's peer.
    fn networks_of(&self, id: ContextId) -> BTreeSet<Network> {
        let known = self.shim6.context(id).and_then(|context| context.established);
        let locators = known.map(|known| known.peer_locators).unwrap_or_default();
        locators.iter().map(|peer| network_of(*peer)).collect()
    }
}

/// Whether a context leaves a pair because, as far as the context can tell, the pair has failed.
fn is_found(cause: Cause) -> bool {
    match cause {
        Cause::SendTimeout
        | Cause::Suspicion
        | Cause::ProbeExploring
        | Cause::ProbeInboundOk
        | Cause::ProbeOperational => true,
        Cause::PayloadReceived
        | Cause::ControlReceived
        | Cause::KeepaliveReceived
        | Cause::LocatorGone
        | Cause::LocatorBroken
        | Cause::LocalFailure
        | Cause::Deprecated
        | Cause::FailBack
        | Cause::Switch
        | Cause::Preferred
        | Cause::Congested
        | Cause::Lossy
        | Cause::Slow => false,
    }
}

/// The first 48 bits of a locator.
fn network_of(locator: Locator) -> Network {
    let [first, second, third, ..] = locator.0.segments();
    [first, second, third]
}

/// The default route that goes before the default routes of avoided uplinks. An uplink is avoided if it fails, has no
/// carrier, or has deprecated addresses alone. The route is a copy of another uplink's best one, and its metric is
/// one less than their lowest. `None` if the kernel's first choice is another interface, for example of a VPN.
///
/// A socket with a source address of another uplink still sends by the first choice, until it has sent three times
/// without an answer.
fn preferred(view: &HostView, failing: &BTreeSet<u32>) -> Option<(u32, DefaultRoute)> {
    let fails = |ifindex: u32| is_avoided(view, failing, ifindex);
    let ways = view.default_ways();
    // The lowest metrics come first.
    let least = |is_failing: bool| {
        let found = ways.iter().find(|(ifindex, _)| fails(*ifindex) == is_failing);
        found.map(|(_, route)| route.metric)
    };
    let metric =
        least(true).filter(|of_failing| least(false).is_some_and(|one| one >= *of_failing));
    let metric = metric?.checked_sub(1).filter(|metric| *metric > 0)?;
    let is_of_use = |ifindex: u32| !fails(ifindex) && view.uplink(ifindex).is_some();
    let (ifindex, route) = ways.iter().find(|(ifindex, _)| is_of_use(*ifindex))?;
    Some((*ifindex, DefaultRoute { metric, ..*route }))
}

/// Whether new connections avoid an uplink.
fn is_avoided(view: &HostView, failing: &BTreeSet<u32>, ifindex: u32) -> bool {
    let is_new =
        |uplink: &Uplink| uplink.carrier && uplink.addresses.iter().any(|own| own.preferred);
    failing.contains(&ifindex) || !view.uplink(ifindex).is_none_or(is_new)
}

/// Largest number of contexts among which the host looks for peers to ask.
const MOST_LOOKED_AT: usize = 1024;
/// Time after which the preferred route is set again: it lasts for a minute.
const REFRESHED: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests;
