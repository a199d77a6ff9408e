//! Routes of moved traffic that lead to the uplink it leaves by: there its header is put in, and it goes on. By `moor0` it goes
//! through two interfaces.

use std::net::Ipv6Addr;

use moorline_addresses::{MovedRoute, Mover, NextHop, Routes};
use moorline_types::{LocatorPair, Ulid, UlidPair};

use crate::clock;
use crate::shell::Daemon;

impl Daemon {
    /// Where moved packets from this locator leave the host to. None if they are not to be routed there: no router, no
    /// carrier, or an uplink that lacks what `moor0` has.
    pub(crate) fn next_hop(&self, locator: Ipv6Addr) -> Option<NextHop> {
        let uplink = self.view.uplink_of(locator)?;
        let is_able = uplink.carrier && self.takes_moved.contains(&uplink.ifindex);
        uplink.next_hop(locator).filter(|_| is_able)
    }

    /// How packets leave the host that have this ULID for their source, for sockets that are bound to its uplink. The carrier
    /// does not matter: without one the kernel sends nothing there.
    pub(crate) fn own_hop(&self, ulid: Ulid) -> Option<NextHop> {
        let uplink = self.view.uplink_of(ulid.0)?;
        uplink.next_hop(ulid.0).filter(|_| self.takes_moved.contains(&uplink.ifindex))
    }

    /// Sets direct routes that wait.
    pub(crate) async fn lead_waiting(&mut self) {
        let mut routes = std::mem::take(&mut self.routes);
        let step =
            routes.lead_waiting(|routes, mover| self.other_route(routes, mover), clock::now());
        self.routes = routes;
        self.carry_out_routes(step).await;
    }

    /// Routers and uplinks may be others now.
    pub(crate) async fn follow_routers(&mut self) {
        self.follow_default_ways().await;
        self.reroute(self.routes.movers()).await;
    }

    /// Gives each of these movers the route that it should have, if it has another.
    pub(crate) async fn reroute(&mut self, movers: Vec<Mover>) {
        self.follow_mtus(&movers).await;
        let movers = movers.into_iter();
        let other = |mover| Some((mover, self.other_route(&self.routes, mover)?));
        let others: Vec<_> = movers.filter_map(other).collect();
        let by_moor = others.iter().filter(|(_, route)| route.direct.is_none());
        let step = self.routes.lead_by_moor(by_moor.map(|(mover, _)| *mover));
        self.carry_out_routes(step).await;
        self.routes.lead_soon(others, clock::now());
    }

    /// Uplinks and paths may take longer packets now, or no longer such long ones. The kernel changes the MTU of routes that lead
    /// there to that of the uplink, without room for a header: they are set again, too.
    async fn follow_mtus(&mut self, movers: &[Mover]) {
        let (mut others, mut smaller) = (Vec::new(), Vec::new());
        for mover in movers.iter().copied() {
            let Some((now, path_mtu)) = self.routes.get(mover).zip(self.path_mtu(mover)) else {
                continue;
            };
            if path_mtu != now.path_mtu {
                let route = MovedRoute { path_mtu, ..*now };
                smaller.extend((path_mtu < now.path_mtu).then_some(route));
                others.push((mover, route));
            }
        }
        self.route(others).await;
        for route in smaller {
            self.notices.on_moved(route.ulids, Some(route.tcp_mtu()), clock::now());
        }
    }

    /// Looks at the kernel's routes: some may lack, and some may be too many.
    pub(crate) async fn look_at_routes(&mut self) {
        self.doubt_unbound();
        let there = match self.netlink.moved().await {
            Ok(there) => there,
            Err(error) => {
                self.routes.handle_failed(clock::now());
                return tracing::warn!(%error, "routes of what has moved");
            }
        };
        let steps = self.routes.reconcile(&there, clock::now());
        self.carry_out_routes(steps).await;
        self.follow_routers().await;
    }

    /// The route that it should have, if it has another.
    fn other_route(&self, routes: &Routes, mover: Mover) -> Option<MovedRoute> {
        let now = routes.get(mover)?;
        let (direct, own) =
            (self.next_hop(self.path_of(mover)?.local.0), self.own_hop(now.ulids.local));
        let route = MovedRoute { direct, own, ..*now };
        (route != *now).then_some(route)
    }

    /// The MTU of the path that its packets take now, as long as there are uplinks for it.
    fn path_mtu(&self, mover: Mover) -> Option<u32> {
        let path = self.path_of(mover)?;
        let uplink_mtu = match mover {
            Mover::Context(id) => {
                let entry = self.host.shim6().entry_of(id)?;
                entry.pairs().map(|pair| self.uplink_mtu(pair.local.0)).min().flatten()?
            }
            Mover::Session(_) => self.uplink_mtu(path.local.0)?,
        };
        let told = self.path_mtus.of(mover, path);
        Some(uplink_mtu.min(told.unwrap_or(u32::MAX)).saturating_sub(self.room_of(mover)?))
    }

    /// Octets that its packets may need beyond the header of Shim6.
    pub(crate) fn room_of(&self, mover: Mover) -> Option<u32> {
        match mover {
            Mover::Context(_) => Some(0),
            Mover::Session(id) => self.ilnp.as_ref()?.room_of(id),
        }
    }

    /// The locators of the packets of `mover`.
    pub(crate) fn path_of(&self, mover: Mover) -> Option<LocatorPair> {
        match mover {
            Mover::Context(id) => Some(self.host.shim6().context(id)?.established?.locators),
            Mover::Session(id) => self.ilnp.as_ref()?.path_of(id),
        }
    }

    /// The uplink that a control message has to be told of, 0: none. If its addresses are the ULIDs of a context that has
    /// moved, the route is for payload, and may lead to another.
    pub(crate) fn uplink_to_force(&self, locators: LocatorPair) -> u32 {
        let ulids = UlidPair::new(Ulid(locators.local.0), Ulid(locators.peer.0));
        if !self.routes.is_direct(ulids) {
            return 0;
        }
        self.view.uplink_of(locators.local.0).map_or(0, |uplink| uplink.ifindex)
    }
}
