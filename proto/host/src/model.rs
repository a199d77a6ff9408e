//! What a kernel holds for a [`Host`]: routes of moved pairs, ULIDs that have left their uplinks, and sockets. For executors that have no kernel, as
//! the simulator, the model checker and the fuzzer: the model outlives the host, as the kernel outlives the daemon.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use moorline_addresses::{FoundRoute, HostView, MovedRoute, NextHop, RouteStep};
use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_types::{IlvPair, Instant, Ulid, UlidPair};

use crate::Host;
use crate::effect::Effect;

/// Sockets of a host: the same one for all packets.
#[derive(Clone, Copy, Debug)]
pub struct OneSocket(pub Socket);

impl Sockets for OneSocket {
    fn kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        self.0
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        self.0 == Socket::Connected
    }
}

/// Routes and addresses that a host has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    routes: BTreeMap<UlidPair, MovedRoute>,
    kept: BTreeSet<Ulid>,
}

impl Kernel {
    /// Executes an effect, and answers the host if it is a question. False: the effect is not about routes, ULIDs or sockets.
    pub fn execute(
        &mut self,
        effect: &Effect,
        host: &mut Host,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> bool {
        if let Effect::Route(step) = effect {
            self.change_routes(step);
        } else if let Effect::KeepUlid(ulid) = effect {
            self.kept.insert(*ulid);
        } else if let Effect::ReleaseUlid(ulid) = effect {
            self.kept.remove(ulid);
        } else if *effect == Effect::AskRoutes {
            host.handle_routes(&self.routes(), now);
        } else if *effect == Effect::AskOffloads {
            host.set_takes_moved(host.carriers().shim6.clone());
        } else if let Effect::AskSockets(questions) = effect {
            questions.iter().for_each(|question| host.answer(*question, sockets, now));
        } else {
            return false;
        }
        true
    }

    fn change_routes(&mut self, step: &RouteStep) {
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
                RouteStep::RemoveTcp(_) => self.change(route, |there| there.bare_tcp_mtu = None),
            }
        }
    }

    fn change(&mut self, route: &MovedRoute, change: impl FnOnce(&mut MovedRoute)) {
        if let Some(there) = self.routes.get_mut(&route.ulids) {
            change(there);
        }
    }

    /// The links are others now: routes by those that have gone or have no carrier go with them.
    pub fn follow(&mut self, view: &HostView) {
        let is_there = |hop: &NextHop| view.uplink(hop.ifindex).is_some_and(|one| one.carrier);
        for route in self.routes.values_mut() {
            route.direct = route.direct.filter(is_there);
            route.own = route.own.filter(is_there);
        }
    }

    /// All routes, to be changed as no host asks for it.
    pub fn routes_mut(&mut self) -> impl Iterator<Item = &mut MovedRoute> {
        self.routes.values_mut()
    }

    /// All routes.
    #[must_use]
    pub fn routes(&self) -> Vec<FoundRoute> {
        let found =
            |route: &MovedRoute| FoundRoute { route: *route, has_direct: route.direct.is_some() };
        self.routes.values().map(found).collect()
    }

    /// Pairs that have a route of their own.
    #[must_use]
    pub fn routed(&self) -> BTreeSet<UlidPair> {
        self.routes.keys().copied().collect()
    }

    /// The route of a pair, if it has one of its own.
    #[must_use]
    pub fn route(&self, ulids: UlidPair) -> Option<&MovedRoute> {
        self.routes.get(&ulids)
    }

    /// ULIDs that are addresses of the host and of no uplink.
    #[must_use]
    pub const fn kept(&self) -> &BTreeSet<Ulid> {
        &self.kept
    }
}
