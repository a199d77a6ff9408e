//! Routes of moved traffic that lead to the uplink it leaves by: there its header is put in, and it goes on. By `moor0` it goes
//! through two interfaces.

use std::collections::BTreeMap;
use std::iter;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::NextHop;
use moorline_netlink::MovedRoute;
use moorline_types::{LocatorPair, Ulid, UlidPair};
use tokio::time::Instant;

use crate::clock;
use crate::protect::{Moved, Mover};
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

    /// Leads those of them directly that can be, in a moment. The data plane has moved them, and many may be moving.
    pub(crate) fn lead_soon(&mut self, moved: impl IntoIterator<Item = (Mover, MovedRoute)>) {
        for (mover, route) in moved {
            if self.moved.get(mover).is_some_and(|now| *now != route) {
                self.moved.waiting().insert(mover);
                self.lead_at.get_or_insert_with(|| Instant::now() + LEAD_DELAY);
            }
        }
    }

    /// Sets direct routes that wait, a batch of them, so that nothing else waits for long.
    pub(crate) async fn lead_waiting(&mut self) {
        let waiting = iter::from_fn(|| self.moved.waiting().pop_first());
        let waiting: Vec<_> = waiting.take(BATCH).collect();
        let mut moved: Vec<_> =
            waiting.into_iter().filter_map(|mover| self.other_route(mover)).collect();
        moved.retain(|(_, route)| route.direct.is_some() || route.own.is_some());
        let routes: Vec<_> = moved.iter().map(|(_, route)| *route).collect();
        if let Err(error) = self.netlink.lead_directly(&routes).await {
            // An uplink has just gone: by `moor0`, then. Some are set: so all are noted.
            tracing::debug!(%error, "direct routes of what has moved");
        }
        self.moved.set(moved);
        self.lead_at = (!self.moved.waiting().is_empty()).then(Instant::now);
    }

    /// The data plane is about to send their packets otherwise. Whether any was led directly.
    pub(crate) async fn lead_by_moor(&mut self, movers: impl IntoIterator<Item = Mover>) -> bool {
        let led = movers.into_iter().filter_map(|mover| {
            let route = self.moved.get(mover).filter(|route| route.direct.is_some())?;
            Some((mover, *route))
        });
        let (movers, routes): (Vec<_>, Vec<_>) = led.unzip();
        if routes.is_empty() {
            return false;
        }
        if let Err(error) = self.netlink.lead_by_moor(&routes).await {
            tracing::warn!(%error, "direct routes of what has moved");
        }
        let by_moor = routes.into_iter().map(|route| MovedRoute { direct: None, ..route });
        self.moved.set(movers.into_iter().zip(by_moor));
        true
    }

    /// Routers and uplinks may be others now.
    pub(crate) async fn follow_routers(&mut self) {
        self.follow_default_ways().await;
        self.reroute(self.moved.movers()).await;
    }

    /// Gives each of these movers the route that it should have, if it has another.
    pub(crate) async fn reroute(&mut self, movers: Vec<Mover>) {
        self.follow_mtus(&movers).await;
        let movers = movers.into_iter();
        let others: Vec<_> = movers.filter_map(|mover| self.other_route(mover)).collect();
        let by_moor = others.iter().filter(|(_, route)| route.direct.is_none());
        self.lead_by_moor(by_moor.map(|(mover, _)| *mover)).await;
        self.lead_soon(others);
    }

    /// Uplinks and paths may take longer packets now, or no longer such long ones. The kernel changes the MTU of routes that lead
    /// there to that of the uplink, without room for a header: they are set again, too.
    async fn follow_mtus(&mut self, movers: &[Mover]) {
        let (mut others, mut smaller) = (Vec::new(), Vec::new());
        for mover in movers.iter().copied() {
            let Some((now, path_mtu)) = self.moved.get(mover).zip(self.path_mtu(mover)) else {
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

    /// The kernel takes a direct route away with its uplink, which may be up again before anybody has seen it down.
    pub(crate) async fn look_for_direct(&mut self) {
        self.doubt_unbound();
        match self.netlink.moved().await {
            Ok(there) => self.moved.keep_direct(&there),
            Err(error) => return tracing::warn!(%error, "direct routes of what has moved"),
        }
        self.follow_routers().await;
    }

    /// The route that it should have, if it has another.
    fn other_route(&self, mover: Mover) -> Option<(Mover, MovedRoute)> {
        let now = self.moved.get(mover)?;
        let (direct, own) =
            (self.next_hop(self.path_of(mover)?.local.0), self.own_hop(now.ulids.local));
        let route = MovedRoute { direct, own, ..*now };
        (route != *now).then_some((mover, route))
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
        if !self.moved.is_direct(ulids) {
            return 0;
        }
        self.view.uplink_of(locators.local.0).map_or(0, |uplink| uplink.ifindex)
    }
}

impl Moved {
    /// Notes which routes that lead to uplinks are still there.
    fn keep_direct(&mut self, there: &[MovedRoute]) {
        let there: BTreeMap<_, _> =
            there.iter().map(|route| (route.ulids, (route.direct, route.own))).collect();
        let routes = self.movers().into_iter().filter_map(|mover| {
            let route = self.get(mover)?;
            let (direct, own) = there.get(&route.ulids).copied().unwrap_or_default();
            let direct = route.direct.filter(|hop| direct == Some(*hop));
            let own = route.own.filter(|hop| own == Some(*hop));
            let left = MovedRoute { direct, own, ..*route };
            (left != *route).then_some((mover, left))
        });
        self.set(routes.collect::<Vec<_>>());
    }
}

/// Until a direct route is set: what has moved goes on by `moor0`, and what else is to be moved comes first.
const LEAD_DELAY: Duration = Duration::from_millis(50);
/// Direct routes that are set at once.
const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use moorline_types::ContextId;

    use super::*;

    #[test]
    fn a_direct_route_that_the_kernel_took_away_is_noted_and_the_others_stay() {
        let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
        let route = |peer: &str, direct| MovedRoute {
            ulids: UlidPair::new(Ulid(address("2001:db8:a::1")), Ulid(address(peer))),
            path_mtu: 1500,
            is_tcp_bare: false,
            direct,
            own: direct,
        };
        let hop = |gateway: &str| Some(NextHop { ifindex: 7, gateway: address(gateway) });
        let kept = route("2001:db8:b::1", hop("fe80::1"));
        let taken = route("2001:db8:b::2", hop("fe80::1"));
        let other = route("2001:db8:b::3", hop("fe80::1"));
        let none = route("2001:db8:b::4", None);
        let mut moved = Moved::default();
        moved.set((0..).map(|id| Mover::Context(ContextId(id))).zip([kept, taken, other, none]));
        let by_moor = |route: MovedRoute| MovedRoute { direct: None, ..route };
        let changed = MovedRoute { direct: hop("fe80::2"), own: None, ..other };
        let left = MovedRoute { direct: None, own: None, ..other };
        moved.keep_direct(&[kept, by_moor(taken), changed, none]);
        let now = moved.movers().into_iter().filter_map(|mover| moved.get(mover).copied());
        assert_eq!(now.collect::<Vec<_>>(), [kept, by_moor(taken), left, none]);
        assert!(moved.is_direct(kept.ulids) && !moved.is_direct(taken.ulids));
    }
}
