use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::iter;
use core::time::Duration;

use moorline_types::{ContextId, Instant, Retry, SessionId, UlidPair};

use crate::NextHop;

/// A route of a moved pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRoute {
    /// The pair.
    pub ulids: UlidPair,
    /// MTU of the route, octets: MTU of the present path, less the octets that packets become longer on the wire.
    pub mtu: u32,
    /// MTU of the path, octets, if the pair's TCP goes without a header: then TCP has its own route with this MTU.
    ///
    /// With a smaller MTU the kernel would send all segments again that are under way.
    pub bare_tcp_mtu: Option<u32>,
    /// Next hop of the direct route: a second route, which is preferred, leads straight to the uplink instead of
    /// `moor0`. If the direct route goes with the uplink, the first route is left.
    pub direct: Option<NextHop>,
    /// Next hop of packets with the local ULID as source. A third route leads there, for sockets that are bound to
    /// that uplink: the kernel gives such a socket no route by another interface.
    pub own: Option<NextHop>,
}

impl MovedRoute {
    /// MTU of the route that TCP takes, octets.
    #[must_use]
    pub fn tcp_mtu(&self) -> u32 {
        self.bare_tcp_mtu.unwrap_or(self.mtu)
    }

    /// Whether TCP has its own route.
    #[must_use]
    pub const fn is_tcp_bare(&self) -> bool {
        self.bare_tcp_mtu.is_some()
    }
}

/// The kernel's routes of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRoute {
    /// The routes that are as a mover needs them. A direct route, or one for bound sockets, with another MTU is left
    /// out.
    pub route: MovedRoute,
    /// Whether there is a direct route, also one of TCP alone or with another MTU.
    pub has_direct: bool,
}

/// The owner of a moved pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mover {
    /// A context of Shim6.
    Context(ContextId),
    /// A session of ILNP.
    Session(SessionId),
}

/// A change of the kernel's routes. One step has all routes of its kind, because each change makes every socket of
/// the host look up its route again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteStep {
    /// Remove TCP's own routes: TCP takes the other routes of the pair.
    RemoveTcp(Vec<MovedRoute>),
    /// Add routes by `moor0`. Existing routes by `moor0` are replaced, and direct routes stay.
    Add(Vec<MovedRoute>),
    /// Add direct routes, and routes for bound sockets.
    LeadDirectly(Vec<MovedRoute>),
    /// Remove the direct routes.
    LeadByMoor(Vec<MovedRoute>),
    /// Remove all routes of these pairs.
    Remove(Vec<MovedRoute>),
}

/// The routes of moved pairs in the kernel, and the steps to the routes that it should have.
///
/// The route to the segmentation path comes before the data plane moves a pair, and goes after the pair is back. The
/// direct route comes after the move, and goes before the next move. So a super-packet of a moved pair is segmented,
/// and each packet leaves by the uplink of its source.
///
/// The caller executes the steps in their order, and reports each step that fails ([`Self::handle_failed`]). It reads
/// the kernel's routes when [`Self::poll_look`] is due, and [`Self::reconcile`] gives the missing steps.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    noted: BTreeMap<Mover, MovedRoute>,
    /// Pairs that have a direct route. The route may differ from the noted one in its MTU.
    direct: BTreeSet<UlidPair>,
    /// Movers that wait for a direct route.
    waiting: BTreeSet<Mover>,
    lead_at: Option<Instant>,
    /// Routes of a run before, until their movers are known.
    left: BTreeMap<UlidPair, FoundRoute>,
    /// Timer for reading the kernel's routes after a failed step.
    look: Retry,
}

impl Routes {
    /// The route of this mover.
    #[must_use]
    pub fn get(&self, mover: Mover) -> Option<&MovedRoute> {
        self.noted.get(&mover)
    }

    /// All movers.
    #[must_use]
    pub fn movers(&self) -> Vec<Mover> {
        self.noted.keys().copied().collect()
    }

    /// The routes of all movers.
    #[must_use]
    pub fn all(&self) -> Vec<MovedRoute> {
        self.noted.values().copied().collect()
    }

    /// Movers between the ULIDs of these pairs.
    #[must_use]
    pub fn movers_of(&self, pairs: &BTreeSet<UlidPair>) -> Vec<Mover> {
        let moved = self.noted.iter().filter(|(_, route)| pairs.contains(&route.ulids));
        moved.map(|(mover, _)| *mover).collect()
    }

    /// Whether a direct route leads packets of the pair to the uplink of other addresses.
    #[must_use]
    pub fn is_direct(&self, ulids: UlidPair) -> bool {
        self.direct.contains(&ulids)
    }

    /// Notes the kernel's routes of a run before.
    pub fn leave(&mut self, found: Vec<FoundRoute>) {
        self.left = found.into_iter().map(|found| (found.route.ulids, found)).collect();
    }

    /// Gives each of these movers the route that a run before has left for its pair.
    pub fn take_over(&mut self, movers: impl IntoIterator<Item = (Mover, UlidPair)>) {
        for (mover, ulids) in movers {
            if self.get(mover).is_none()
                && let Some(FoundRoute { route, has_direct }) = self.left.remove(&ulids)
            {
                self.note([(mover, route)]);
                if has_direct {
                    self.direct.insert(ulids);
                }
            }
        }
    }

    /// Removes the routes of a run before that no mover has taken over.
    #[must_use]
    pub fn remove_left(&mut self) -> Option<RouteStep> {
        let left = core::mem::take(&mut self.left).into_values();
        let left: Vec<_> = left.map(|found| found.route).collect();
        (!left.is_empty()).then_some(RouteStep::Remove(left))
    }

    /// Leads these pairs to `moor0`, before the data plane moves them.
    #[must_use]
    pub fn route(&mut self, mut moved: Vec<(Mover, MovedRoute)>) -> Vec<RouteStep> {
        self.take_over(moved.iter().map(|(mover, route)| (*mover, route.ulids)));
        let mut steps = Vec::new();
        moved.retain(|(mover, route)| self.get(*mover) != Some(route));
        steps.extend(self.remove(self.of_others(&moved), |_| true));
        moved.iter_mut().for_each(|(_, route)| route.direct = None);
        steps.extend(self.lead_by_moor(moved.iter().map(|(mover, _)| *mover)));
        let no_longer_bare = moved.iter().filter(|(_, route)| !route.is_tcp_bare());
        let before = no_longer_bare.filter_map(|(mover, _)| self.get(*mover).copied());
        let bare: Vec<_> = before.filter(|route| route.is_tcp_bare()).collect();
        steps.extend((!bare.is_empty()).then_some(RouteStep::RemoveTcp(bare)));
        moved.retain(|(mover, route)| self.get(*mover) != Some(route));
        if !moved.is_empty() {
            steps.push(RouteStep::Add(moved.iter().map(|(_, route)| *route).collect()));
            self.note(moved);
        }
        steps
    }

    /// Removes the direct routes of these movers, before the data plane sends their packets by other locators.
    #[must_use]
    pub fn lead_by_moor(&mut self, movers: impl IntoIterator<Item = Mover>) -> Option<RouteStep> {
        let led = movers.into_iter().filter_map(|mover| {
            let route = self.get(mover).filter(|route| self.is_direct(route.ulids))?;
            Some((mover, *route))
        });
        let led: Vec<_> = led.collect();
        let routes: Vec<_> = led.iter().map(|(_, route)| *route).collect();
        let by_moor = |(mover, route)| (mover, MovedRoute { direct: None, ..route });
        self.note(led.into_iter().map(by_moor));
        (!routes.is_empty()).then_some(RouteStep::LeadByMoor(routes))
    }

    /// Gives these movers their other routes in a moment, after the data plane has moved them: many may be moving.
    pub fn lead_soon(
        &mut self,
        moved: impl IntoIterator<Item = (Mover, MovedRoute)>,
        now: Instant,
    ) {
        for (mover, route) in moved {
            if self.get(mover).is_some_and(|noted| *noted != route) {
                self.waiting.insert(mover);
                self.lead_at.get_or_insert(now + LEAD_DELAY);
            }
        }
    }

    /// Time when [`Self::lead_waiting`] is due.
    #[must_use]
    pub const fn poll_lead(&self) -> Option<Instant> {
        self.lead_at
    }

    /// Sets a batch of the waiting direct routes, so that nothing else waits for long. `other` is the route that a
    /// mover should have, if it has another.
    #[must_use]
    pub fn lead_waiting(
        &mut self,
        other: impl Fn(&Self, Mover) -> Option<MovedRoute>,
        now: Instant,
    ) -> Option<RouteStep> {
        let waiting: Vec<_> =
            iter::from_fn(|| self.waiting.pop_first()).take(LEAD_AT_ONCE).collect();
        self.lead_at = (!self.waiting.is_empty()).then_some(now);
        let others = waiting.into_iter().filter_map(|mover| Some((mover, other(self, mover)?)));
        let mut moved: Vec<_> = others.collect();
        moved.retain(|(_, route)| route.direct.is_some() || route.own.is_some());
        let routes: Vec<_> = moved.iter().map(|(_, route)| *route).collect();
        self.note(moved);
        (!routes.is_empty()).then_some(RouteStep::LeadDirectly(routes))
    }

    /// Removes the routes of these movers, after the data plane has taken them back. If another mover needs a pair's
    /// routes, they stay.
    #[must_use]
    pub fn remove(
        &mut self,
        movers: impl IntoIterator<Item = Mover>,
        is_needed_no_more: impl Fn(&(Mover, MovedRoute)) -> bool,
    ) -> Option<RouteStep> {
        let removed = movers.into_iter().filter_map(|mover| {
            let route = self.noted.remove(&mover)?;
            self.direct.remove(&route.ulids);
            Some((mover, route))
        });
        let removed = removed.filter(is_needed_no_more);
        let routes: Vec<_> = removed.map(|(_, route)| route).collect();
        (!routes.is_empty()).then_some(RouteStep::Remove(routes))
    }

    /// Notes that a step has failed, at least in part: the kernel's routes are to be read.
    pub fn handle_failed(&mut self, now: Instant) {
        self.look.handle_failed(now);
    }

    /// Time when the caller is to read the kernel's routes for [`Self::reconcile`].
    #[must_use]
    pub const fn poll_look(&self) -> Option<Instant> {
        self.look.at()
    }

    /// Notes that the caller has begun to read the kernel's routes. [`Self::reconcile`] or [`Self::handle_failed`]
    /// comes next.
    pub const fn begin_look(&mut self) {
        self.look.begin();
    }

    /// Brings the noted routes in step with the kernel's. Returns the steps for missing routes and for those that
    /// nobody needs. If there are any, the kernel's routes are read again. The kernel removes a direct route with its
    /// uplink, which may be up again before anybody has seen it down: such a route is noted as gone.
    #[must_use]
    pub fn reconcile(&mut self, there: &[FoundRoute], now: Instant) -> Vec<RouteStep> {
        let there: BTreeMap<_, _> = there.iter().map(|found| (found.route.ulids, *found)).collect();
        let mut missing = Vec::new();
        // For each pair: whether it has TCP without a header, and whether it has a direct route.
        let mut needed: BTreeMap<_, (bool, bool)> = BTreeMap::new();
        for route in self.noted.values_mut() {
            let found = there.get(&route.ulids).map(|found| &found.route);
            route.direct =
                route.direct.filter(|_| found.is_some_and(|one| one.direct == route.direct));
            route.own = route.own.filter(|_| found.is_some_and(|one| one.own == route.own));
            let lacks = |found: &MovedRoute| {
                let is_bare = route.is_tcp_bare();
                found.mtu != route.mtu || is_bare && found.bare_tcp_mtu != route.bare_tcp_mtu
            };
            if found.is_none_or(lacks) {
                missing.push(*route);
            }
            let (is_bare, is_direct) = needed.entry(route.ulids).or_default();
            *is_bare |= route.is_tcp_bare();
            *is_direct |= route.direct.is_some();
        }
        self.direct =
            needed.iter().filter(|(_, (_, direct))| *direct).map(|(ulids, _)| *ulids).collect();
        let (mut bare, mut astray, mut too_many) = (Vec::new(), Vec::new(), Vec::new());
        for (ulids, FoundRoute { route, has_direct }) in there {
            let Some((is_bare, is_direct)) = needed.get(&ulids) else {
                too_many.extend((!self.left.contains_key(&ulids)).then_some(route));
                continue;
            };
            bare.extend((route.is_tcp_bare() && !is_bare).then_some(route));
            astray.extend((has_direct && !is_direct).then_some(route));
        }
        let steps = [
            RouteStep::LeadByMoor(astray),
            RouteStep::Remove(too_many),
            RouteStep::RemoveTcp(bare),
            RouteStep::Add(missing),
        ];
        let steps: Vec<_> = steps.into_iter().filter(|step| !step.routes().is_empty()).collect();
        self.look.begin();
        if !steps.is_empty() {
            self.handle_failed(now);
        }
        steps
    }

    /// Movers that have the route of other ULIDs, because their slot has gone to another context.
    fn of_others(&self, moved: &[(Mover, MovedRoute)]) -> Vec<Mover> {
        let is_of_another = |(mover, route): &&(Mover, MovedRoute)| {
            self.get(*mover).is_some_and(|before| before.ulids != route.ulids)
        };
        moved.iter().filter(is_of_another).map(|(mover, _)| *mover).collect()
    }

    fn note(&mut self, routes: impl IntoIterator<Item = (Mover, MovedRoute)>) {
        for (mover, route) in routes {
            match route.direct {
                Some(_) => self.direct.insert(route.ulids),
                None => self.direct.remove(&route.ulids),
            };
            self.noted.insert(mover, route);
        }
    }
}

impl RouteStep {
    /// The routes that the step changes.
    #[must_use]
    pub fn routes(&self) -> &[MovedRoute] {
        match self {
            Self::RemoveTcp(routes)
            | Self::Add(routes)
            | Self::LeadDirectly(routes)
            | Self::LeadByMoor(routes)
            | Self::Remove(routes) => routes,
        }
    }
}

/// Time until a direct route is set. Moved traffic goes by `moor0` meanwhile, and other moves come first.
const LEAD_DELAY: Duration = Duration::from_millis(50);
/// Number of direct routes that are set at once.
const LEAD_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests;
