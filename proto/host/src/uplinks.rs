//! Uplinks that carry nothing, by all kinds of evidence: new connections and sessions leave them.
//!
//! If the operator has chosen hosts, they are asked ([`health`](crate::health)). Otherwise peers of contexts are
//! asked, and lost routers count ([`doubts`](crate::doubts)). New connections also stay away from an uplink whose carrier
//! comes and goes ([`flaps`](crate::flaps)).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_addresses::{DefaultRoute, HostView, Uplink};
use moorline_contexts::{Cause, Event, EventKind, FailureHint, ReapState, Reply};
use moorline_types::{ContextId, IlvPair, Instant, Locator, LocatorPair};

use crate::effect::Effect;
use crate::health::STEADY;
use crate::host::Host;
use crate::links::locators_of;

/// Evidence that an uplink carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Hosts of the operator's choice answer by another uplink alone.
    Hosts,
    /// Peers of contexts answer by another uplink alone.
    Peers,
    /// Neighbor Unreachability Detection has given up the uplink's router.
    Router,
    /// The uplink has failed. Hosts or peers answer by it again, not for long enough yet.
    Short,
}

impl Host {
    /// The evidence against an uplink, if there is any. An uplink of which nothing better is known than of all others has
    /// evidence as well, although it is no [failing](Self::failing_uplinks) uplink.
    #[must_use]
    pub fn evidence(&self, ifindex: u32) -> Option<Evidence> {
        let of = |has_answered, evidence| if has_answered { Evidence::Short } else { evidence };
        if let Some(has_answered) = self.health.failed(ifindex) {
            return Some(of(has_answered, Evidence::Hosts));
        }
        if self.doubts.has_lost_router(ifindex) {
            return Some(Evidence::Router);
        }
        Some(of(self.doubts.failed(ifindex)?, Evidence::Peers))
    }

    /// Interface indices of the uplinks that new connections keep away from: those that carry nothing while another one
    /// does, and unsteady ones that new connections do not take all the same.
    #[must_use]
    pub fn avoided_uplinks(&self) -> BTreeSet<u32> {
        let mut avoided = self.flaps.unsteady();
        avoided.retain(|ifindex| self.avoided_until(*ifindex).is_some());
        &avoided | &self.failing_uplinks()
    }

    /// Interface indices of the uplinks that carry nothing while another one does.
    #[must_use]
    pub fn failing_uplinks(&self) -> BTreeSet<u32> {
        let mut failing = self.health.failing();
        failing.extend(self.doubts.failing());
        let view = &self.routing.view;
        if view.uplinks.iter().all(|uplink| is_avoided(view, &failing, uplink.ifindex)) {
            // An uplink that answers again is better than one that does not, although it may not answer for long.
            let again = self.doubts.answering_again();
            failing.retain(|ifindex| !again.contains(ifindex));
        }
        // If all uplinks fail, none is better.
        let is_other = |uplink: &Uplink| uplink.carrier && !failing.contains(&uplink.ifindex);
        if !view.uplinks.iter().any(is_other) {
            failing.clear();
        }
        failing
    }

    /// Interface indices of the uplinks by which none of the hosts of the operator's choice has answered for some seconds.
    /// If they are all uplinks, the hosts may have failed, and no uplink is a [failing](Self::failing_uplinks) one.
    #[must_use]
    pub fn silent_uplinks(&self) -> BTreeSet<u32> {
        self.health.silent()
    }

    /// Interface indices of the uplinks whose carrier has come back after several losses, and has to stay for a while
    /// before new connections take the uplink.
    #[must_use]
    pub fn unsteady_uplinks(&self) -> BTreeSet<u32> {
        self.flaps.unsteady()
    }

    /// Time until which new connections keep away from an uplink whose carrier has come back after several losses. `None`
    /// if there is no such time, or if new connections take the uplink all the same.
    #[must_use]
    pub fn avoided_until(&self, ifindex: u32) -> Option<Instant> {
        let is_taken = self.uplink_for_new().is_some_and(|uplink| uplink.ifindex == ifindex);
        self.flaps.until(ifindex).filter(|_| !is_taken)
    }

    /// The default route for new connections ([`preferred`]). An unsteady uplink is better than one that carries nothing,
    /// and worse than others. If none is steady, the one that will be so first is the best.
    fn preferred_now(&self) -> Option<(u32, DefaultRoute)> {
        let (view, failing) = (&self.routing.view, self.failing_uplinks());
        let mut avoided = &failing | &self.flaps.unsteady();
        let is_best = |avoided: &BTreeSet<u32>, ifindex: u32| {
            view.uplink(ifindex).is_some() && !is_avoided(view, avoided, ifindex)
        };
        let ways = view.default_ways();
        if !ways.iter().any(|(ifindex, _)| is_best(&avoided, *ifindex)) {
            let unsteady = ways.iter().filter(|(ifindex, _)| is_best(&failing, *ifindex));
            let first = unsteady.min_by_key(|(ifindex, _)| self.flaps.until(*ifindex));
            first.map(|(ifindex, _)| avoided.remove(ifindex));
        }
        preferred(view, &avoided)
    }

    /// The uplink of new connections without a source address. `None` if there is none, if they go by another
    /// interface, for example of a VPN, or if the best default routes have one metric and none of them is avoided: the
    /// kernel takes any of them. New connections take an uplink that carries nothing if its router answers and
    /// no copy of another default route can come before its own: if that has metric 1, or if no other uplink has one
    /// for all sources.
    #[must_use]
    pub fn uplink_for_new(&self) -> Option<&Uplink> {
        let view = &self.routing.view;
        let preferred = self.preferred_now();
        let ways = view.default_ways();
        // The kernel passes over a router that does not answer, whatever the metric of the route.
        let is_taken = |&(ifindex, _): &(u32, _)| !self.doubts.has_lost_router(ifindex);
        let first = || {
            let first = *ways.iter().find(|way| is_taken(way)).or(ways.first())?;
            let avoided = &self.failing_uplinks() | &self.flaps.unsteady();
            let ties = |(ifindex, route): &(u32, DefaultRoute)| {
                *ifindex != first.0
                    && route.metric == first.1.metric
                    && ![*ifindex, first.0].iter().any(|one| avoided.contains(one))
            };
            (!ways.iter().filter(|way| is_taken(way)).any(ties)).then_some(first)
        };
        view.uplink(preferred.or_else(first)?.0)
    }

    pub(crate) fn follow_health(&mut self, now: Instant) {
        let mut is_other = self.health.follow(&self.routing.view, now);
        is_other |= self.flaps.follow(&self.routing.view, now);
        let view = &self.routing.view;
        self.doubts.follow(|ifindex| view.uplink(ifindex).is_some_and(|uplink| uplink.carrier));
        // The kernel may have removed a copy of a default route with its uplink.
        let wanted = self.preferred_now();
        if is_other || wanted.is_some() || self.preferred.is_some() {
            self.set_preferred(wanted, now);
        }
    }

    pub(crate) fn poll_health(&self) -> Option<Instant> {
        let asked = [self.health.poll_timeout(), self.doubts.poll_timeout()];
        let all = [self.flaps.poll_timeout(), self.preferred];
        asked.into_iter().chain(all).flatten().min()
    }

    pub(crate) fn handle_health_timeout(&mut self, now: Instant) {
        let (requests, mut is_changed) = self.health.handle_timeout(now);
        self.effects.extend(requests);
        is_changed |= self.flaps.handle_timeout(now);
        for _ in 0..ROUNDS {
            self.ask_others(now);
            is_changed |= self.ask_peers(now);
            if mem::take(&mut is_changed) {
                self.on_health(now);
            }
            if self.doubts.poll_timeout().is_none_or(|at| at > now) {
                break;
            }
        }
        if self.preferred.is_some_and(|at| at <= now) {
            self.prefer_route(now);
        }
    }

    /// Sends the questions that are due. Returns whether the failing uplinks have changed.
    fn ask_peers(&mut self, now: Instant) -> bool {
        let shim6 = &mut self.shim6;
        self.doubts.handle_timeout(|id, pair| shim6.send_one_check(id, pair, now), now)
    }

    /// Handles a change of the failing uplinks: new connections and sessions leave them.
    pub(crate) fn on_health(&mut self, now: Instant) {
        self.prefer_route(now);
        self.follow_node(now);
        self.plan_effects(now);
    }

    /// Sets the default route that comes first, and removes others. The route expires if it is not set again.
    fn prefer_route(&mut self, now: Instant) {
        self.set_preferred(self.preferred_now(), now);
    }

    fn set_preferred(&mut self, wanted: Option<(u32, DefaultRoute)>, now: Instant) {
        let stays = self.left_until.filter(|until| wanted.is_none() && now < *until);
        self.left_until = stays;
        if stays.is_some() {
            self.preferred = stays;
            return;
        }
        self.preferred = wanted.is_some().then(|| now + REFRESHED);
        self.effects.push_back(Effect::PreferRoute(wanted));
    }

    /// Notes that a run before may have left its route of [`Effect::PreferRoute`]. The route stays until this run has
    /// asked whether the uplinks carry anything, or until the kernel ends the route.
    pub fn handle_left_preference(&mut self, now: Instant) {
        let lifetime = Duration::from_secs(DefaultRoute::PREFERRED_LIFETIME.into());
        self.let_stay_until(now + lifetime);
    }

    fn let_stay_until(&mut self, until: Instant) {
        (self.preferred, self.left_until) = (Some(until), Some(until));
    }

    /// Takes up what the run before may have known of uplinks, once its contexts are taken over. A context that does
    /// not stand on an uplink may have left it, so the context is a doubt.
    pub(crate) fn doubt_uplinks_of_run_before(&mut self, now: Instant) {
        if self.left_until.is_some() {
            self.let_stay_until(now + SETTLED);
        }
        let standing = self.standing();
        for ifindex in self.routing.view.uplinks.iter().map(|one| one.ifindex).collect::<Vec<_>>() {
            if let Some((_, context)) = standing.iter().find(|(by, _)| **by != ifindex) {
                self.doubt(ifindex, Some(*context), now);
            }
        }
    }

    /// A context for each uplink on which contexts stand.
    fn standing(&self) -> BTreeMap<u32, ContextId> {
        let ifindex_of = |local: Locator| self.routing.ifindex_of(local.0);
        let counted = self.shim6.counts().filter_map(|(class, _)| ifindex_of(class.local));
        let uplinks = counted.collect::<BTreeSet<_>>().len();
        let mut standing = BTreeMap::new();
        let mut locals = self.shim6.current_locals();
        while standing.len() < uplinks
            && let Some((context, local)) = locals.next()
        {
            if let Some(ifindex) = ifindex_of(local) {
                standing.entry(ifindex).or_insert(context);
            }
        }
        standing
    }

    /// Handles a router that Neighbor Unreachability Detection has given up. The kernel avoids the router as well.
    /// But it waits 3 s for the router again whenever packets of old connections need it. On a link without a carrier no
    /// router answers, which says nothing of the time after the carrier's return.
    pub(crate) fn on_router_lost(&mut self, ifindex: u32, now: Instant) {
        let is_only = |uplink: &Uplink| uplink.carrier && uplink.default_routes.len() <= 1;
        let is_for_us = !self.health.has_targets();
        if is_for_us && self.routing.view.uplink(ifindex).is_some_and(is_only) {
            let is_new = self.doubts.handle_router_lost(ifindex, now);
            if is_new {
                self.on_health(now);
            }
        }
    }

    /// Handles a router that answers Neighbor Unreachability Detection. Returns whether there may be effects. On a link
    /// with several routers the addresses of the uplink may be those of another router.
    pub fn handle_router_found(&mut self, ifindex: u32, now: Instant) -> bool {
        let uplink = self.routing.view.uplink(ifindex);
        if let Some(uplink) = uplink.filter(|uplink| uplink.default_routes.len() <= 1) {
            self.shim6.handle_router_found(&locators_of(uplink));
        }
        let is_other = self.doubts.handle_router_found(ifindex);
        if is_other {
            self.on_health(now);
        }
        is_other
    }

    /// Handles an event of a context that has left an uplink or doubts it.
    pub(crate) fn on_context_event(&mut self, event: &Event, now: Instant) {
        match event.kind {
            EventKind::Moved { from, to, cause } if is_found(cause) => {
                self.doubt_left([from, to].map(|pair| pair.local.0), Some(event.context), now);
            }
            EventKind::StateChanged { to: ReapState::Exploring, cause, .. } if is_found(cause) => {
                // If the peer hears this host by the uplink, the context stays there, although the host does not hear
                // the peer (RFC 5534 has a pair for each direction).
                let known = self.shim6.context(event.context).and_then(|one| one.established);
                let stays = known.filter(|known| known.since < now);
                let ifindex = stays.and_then(|own| self.routing.ifindex_of(own.locators.local.0));
                if let Some(ifindex) = ifindex {
                    self.doubt(ifindex, Some(event.context), now);
                }
            }
            EventKind::Suspected { locators, hint: FailureHint::Unreachable } => {
                let Some(ifindex) = self.routing.ifindex_of(locators.local.0) else { return };
                let networks = self.networks_of(event.context);
                if self.doubts.handle_unreachable(ifindex, networks, now) {
                    self.doubt(ifindex, Some(event.context), now);
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

    /// Handles a session that has left locators because the correspondent has answered no question by them. The
    /// correspondent is not asked: a Locator Update would lead its packets to the uplink in doubt.
    pub(crate) fn on_silent_locators(&mut self, from: IlvPair, to: IlvPair, now: Instant) {
        self.doubt_left([from, to].map(|pair| pair.local.address()), None, now);
    }

    /// Takes a doubt about the uplink of an address of ours, which payload has left for another address.
    fn doubt_left(&mut self, own: [Ipv6Addr; 2], first: Option<ContextId>, now: Instant) {
        let [left, taken] = own.map(|own| self.routing.ifindex_of(own));
        if let Some(left) = left.filter(|_| left != taken) {
            self.doubt(left, first, now);
        }
    }

    /// Handles a standby path that does not answer. No payload of the context takes its uplink, so nothing else shows
    /// that the uplink carries nothing.
    pub(crate) fn on_missed(&mut self, context: ContextId, standby: LocatorPair, now: Instant) {
        let known = self.shim6.context(context).and_then(|one| one.established);
        let current = known.and_then(|known| self.routing.ifindex_of(known.locators.local.0));
        let ifindex = self.routing.ifindex_of(standby.local.0).filter(|own| Some(*own) != current);
        if let Some(ifindex) = ifindex {
            self.doubt(ifindex, Some(context), now);
        }
    }

    /// Takes the answer of a peer to a check.
    pub(crate) fn on_reply(&mut self, reply: Reply, now: Instant) {
        self.is_health_due |= self.doubts.handle_reply(reply, now);
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
        | Cause::Unanswered
        | Cause::Deprecated
        | Cause::FailBack
        | Cause::Switch
        | Cause::Preferred
        | Cause::Congested
        | Cause::Lossy
        | Cause::Slow => false,
    }
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

/// Most rounds of verdicts and questions at one time: an uplink fails no more after a sleep of the host, then a context
/// doubts it, and the peers are asked.
const ROUNDS: usize = 3;
/// Time after which the preferred route is set again.
const REFRESHED: Duration = Duration::from_secs(20);
/// Time in which a new run finds out which uplinks carry nothing. The shortest time for which a failed uplink has to
/// answer is as long.
const SETTLED: Duration = STEADY;

#[cfg(test)]
mod tests;
