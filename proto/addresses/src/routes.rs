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
    /// MTU of the route, octets: that of the path it takes now, less what packets are longer by on the wire.
    pub mtu: u32,
    /// MTU of the path, octets, if its TCP goes without a header: TCP has a route of its own then, with all of that.
    ///
    /// A smaller one would have the kernel send again all segments that are under way.
    pub bare_tcp_mtu: Option<u32>,
    /// Where all else leaves the host to. Then it need not come by our link: a second route, which is preferred, leads
    /// there. If that goes with the uplink, the first is left.
    pub direct: Option<NextHop>,
    /// How packets leave the host that have the local ULID for their source. A third route leads there, for sockets that are
    /// bound to that uplink: the kernel gives such a socket no route by another interface.
    pub own: Option<NextHop>,
}

impl MovedRoute {
    /// MTU of the route that TCP takes, octets.
    #[must_use]
    pub fn tcp_mtu(&self) -> u32 {
        self.bare_tcp_mtu.unwrap_or(self.mtu)
    }

    /// Whether TCP has a route of its own.
    #[must_use]
    pub const fn is_tcp_bare(&self) -> bool {
        self.bare_tcp_mtu.is_some()
    }
}

/// What the kernel has for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRoute {
    /// The routes that are as a mover's should be. A direct one, or one of bound sockets, that has another MTU is not among them.
    pub route: MovedRoute,
    /// Whether there is a direct route, that of TCP alone or one with another MTU included.
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

/// A change of the kernel's routes. One step has all routes of its kind: each change makes every socket of the host look its
/// route up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteStep {
    /// Their TCP takes the route of all else from now on.
    RemoveTcp(Vec<MovedRoute>),
    /// They go by `moor0`. Routes that are there are replaced; direct ones are left alone.
    Add(Vec<MovedRoute>),
    /// They have direct routes, and routes for bound sockets.
    LeadDirectly(Vec<MovedRoute>),
    /// Their direct routes go.
    LeadByMoor(Vec<MovedRoute>),
    /// All their routes go.
    Remove(Vec<MovedRoute>),
}

/// The routes of moved pairs: those that the kernel has, and the steps to those that it should have.
///
/// The route to the segmentation path comes before the data plane moves a pair and goes after the pair is back; the direct route
/// comes after the move and goes before the next. So a super-packet of a moved pair is segmented, and no packet leaves by an
/// uplink that is not that of its source.
///
/// The caller carries out the steps in their order, and tells of each step that fails ([`Self::handle_failed`]). It reads the
/// kernel's routes when [`Self::poll_look`] is due, and [`Self::reconcile`] gives the steps that are missing.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    noted: BTreeMap<Mover, MovedRoute>,
    /// Pairs that have a direct route, though it may be none of those that are noted: its MTU may be another.
    direct: BTreeSet<UlidPair>,
    /// Those that are to have one, and when.
    waiting: BTreeSet<Mover>,
    lead_at: Option<Instant>,
    /// Routes of a run before, until what has moved by them is known.
    left: BTreeMap<UlidPair, FoundRoute>,
    /// When the kernel's routes are to be looked at, as a step has failed.
    look: Retry,
}

impl Routes {
    /// The route of this mover.
    #[must_use]
    pub fn get(&self, mover: Mover) -> Option<&MovedRoute> {
        self.noted.get(&mover)
    }

    /// All that has moved.
    #[must_use]
    pub fn movers(&self) -> Vec<Mover> {
        self.noted.keys().copied().collect()
    }

    /// The routes of all that has moved.
    #[must_use]
    pub fn all(&self) -> Vec<MovedRoute> {
        self.noted.values().copied().collect()
    }

    /// Contexts and sessions that have moved and are between the ULIDs of these pairs.
    #[must_use]
    pub fn movers_of(&self, pairs: &BTreeSet<UlidPair>) -> Vec<Mover> {
        let moved = self.noted.iter().filter(|(_, route)| pairs.contains(&route.ulids));
        moved.map(|(mover, _)| *mover).collect()
    }

    /// Whether packets of the pair are routed to the uplink of other addresses.
    #[must_use]
    pub fn is_direct(&self, ulids: UlidPair) -> bool {
        self.direct.contains(&ulids)
    }

    /// Notes routes that the kernel has from a run before.
    pub fn leave(&mut self, found: Vec<FoundRoute>) {
        self.left = found.into_iter().map(|found| (found.route.ulids, found)).collect();
    }

    /// Gives each of these the route that a run before has left for its pair.
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

    /// The routes of a run before that nothing has taken over go.
    #[must_use]
    pub fn remove_left(&mut self) -> Option<RouteStep> {
        let left = core::mem::take(&mut self.left).into_values();
        let left: Vec<_> = left.map(|found| found.route).collect();
        (!left.is_empty()).then_some(RouteStep::Remove(left))
    }

    /// Before the data plane moves these pairs: all of them go by `moor0`.
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

    /// Before the data plane sends the packets of these otherwise: none of them has a direct route.
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

    /// After the data plane has moved these: they get their other routes in a moment, as many may be moving.
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

    /// When [`Self::lead_waiting`] is due.
    #[must_use]
    pub const fn poll_lead(&self) -> Option<Instant> {
        self.lead_at
    }

    /// Direct routes of those that wait, a batch of them, so that nothing else waits for long. `other` is the route that a mover
    /// should have, if it has another.
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

    /// After the data plane has taken these back: their routes go, but for those of pairs that another mover has.
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

    /// A step could not be carried out, or not all of it: the kernel's routes are looked at.
    pub fn handle_failed(&mut self, now: Instant) {
        self.look.handle_failed(now);
    }

    /// When the kernel's routes are to be looked at: [`Self::reconcile`].
    #[must_use]
    pub const fn poll_look(&self) -> Option<Instant> {
        self.look.at()
    }

    /// The caller has begun to read the kernel's routes. [`Self::reconcile`] or [`Self::handle_failed`] comes next.
    pub const fn begin_look(&mut self) {
        self.look.begin();
    }

    /// Brings what is noted in step with what the kernel has, and gives the steps for routes that are missing and for those that
    /// nobody needs; then the kernel's routes are looked at once more. The kernel takes a direct route away with its uplink, which
    /// may be up again before anybody has seen it down: such a route is noted as gone.
    #[must_use]
    pub fn reconcile(&mut self, there: &[FoundRoute], now: Instant) -> Vec<RouteStep> {
        let there: BTreeMap<_, _> = there.iter().map(|found| (found.route.ulids, *found)).collect();
        let mut missing = Vec::new();
        // Whether a pair has TCP without a header, and a direct route.
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

    /// Those of them that have the route of other ULIDs: a slot has gone to another context.
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
    /// The routes that it changes.
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

/// Until a direct route is set: what has moved goes on by `moor0`, and what else is to be moved comes first.
const LEAD_DELAY: Duration = Duration::from_millis(50);
/// Direct routes that are set at once.
const LEAD_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests;
