//! Routes of moved traffic that lead to the uplink it leaves by: there its header is put in, and it goes on. By `moor0` it goes
//! through two interfaces.

use std::net::Ipv6Addr;

use moorline_netlink::{MovedRoute, NextHop};
use moorline_types::{LocatorPair, Ulid, UlidPair};

use crate::protect::Mover;
use crate::shell::Daemon;

impl Daemon {
    /// Where moved packets from this locator leave the host to. None if they are not to be routed there: no router, no
    /// carrier, or an uplink that lacks what `moor0` has.
    pub(crate) fn next_hop(&self, locator: Ipv6Addr) -> Option<NextHop> {
        let uplink = self.view.uplink_of(locator)?;
        let is_able = uplink.carrier && self.takes_moved.contains(&uplink.ifindex);
        uplink.next_hop(locator).filter(|_| is_able)
    }

    /// Leads those of them directly that can be, and are not yet. The data plane has moved them.
    pub(crate) async fn lead_directly(&mut self, mut moved: Vec<(Mover, MovedRoute)>) {
        moved.retain(|(mover, route)| {
            route.direct.is_some() && self.moved.get(*mover).is_some_and(|now| now != route)
        });
        let routes: Vec<_> = moved.iter().map(|(_, route)| *route).collect();
        match self.netlink.lead_directly(&routes).await {
            Ok(()) => self.moved.set(moved),
            // The uplink has just gone: they go by `moor0`.
            Err(error) => tracing::debug!(%error, "direct routes of what has moved"),
        }
    }

    /// The data plane is about to send its packets otherwise.
    pub(crate) async fn lead_by_moor(&mut self, mover: Mover) {
        let Some(route) = self.moved.get(mover).copied().filter(|one| one.direct.is_some()) else {
            return;
        };
        if let Err(error) = self.netlink.lead_by_moor(&route).await {
            tracing::warn!(%error, "direct route of what has moved");
        }
        self.moved.set([(mover, MovedRoute { direct: None, ..route })]);
    }

    /// Routers and uplinks may be others now.
    pub(crate) async fn follow_routers(&mut self) {
        let now = |(mover, route): (_, &MovedRoute)| {
            let direct = self.next_hop(self.source_of(mover)?);
            let route = MovedRoute { direct, ..*route };
            (self.moved.get(mover) != Some(&route)).then_some((mover, route))
        };
        let moved: Vec<_> = self.moved.all().filter_map(now).collect();
        for (mover, _) in moved.iter().filter(|(_, route)| route.direct.is_none()) {
            self.lead_by_moor(*mover).await;
        }
        self.lead_directly(moved).await;
    }

    /// What its packets have for a source on the wire.
    fn source_of(&self, mover: Mover) -> Option<Ipv6Addr> {
        match mover {
            Mover::Context(id) => Some(self.host.context(id)?.established?.locators.local.0),
            Mover::Session(id) => self.ilnp.as_ref()?.source_of(id),
        }
    }

    /// The uplink that a control message has to be told of, 0: none. If its addresses are the ULIDs of a context that has
    /// moved, the route is for payload, and may lead to another.
    pub(crate) fn uplink_to_force(&self, locators: LocatorPair) -> u32 {
        let ulids = UlidPair::new(Ulid(locators.local.0), Ulid(locators.peer.0));
        if !self.moved.is_direct(ulids) {
            return 0;
        }
        self.view.uplink_of(locators.local.0).map_or(0, |uplink| uplink.ifindex)
    }
}
