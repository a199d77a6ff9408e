//! Host routes that lead moved ULID pairs to our link, or to the uplink by which they leave.

use crate::error::Error;
use crate::handle::Netlink;
use crate::message::{Route, Target};
use crate::moor::moor_ifindex;
use crate::settings::{MOVED_TABLE, MOVED_TCP_TABLE};
use std::net::Ipv6Addr;

use moorline_addresses::{FoundRoute, MovedRoute, NextHop};
use moorline_types::{Prefix, Ulid, UlidPair};

impl Netlink {
    /// Leads the packets of moved ULID pairs to `moor0`, with their MTU. Another call with another MTU changes the
    /// route. Direct routes are not set. Cached routes are looked up again once for all pairs.
    ///
    /// # Errors
    /// There is no `moor0` yet, or the kernel refuses a route; the others are set.
    pub async fn add_all_moved(&self, moved: &[MovedRoute]) -> Result<(), Error> {
        self.add_all_moved_unseen(moved).await?;
        self.flush_cached_routes().await
    }

    /// As [`Self::add_all_moved`], but cached routes stay: [`Self::flush_cached_routes`] must follow.
    ///
    /// # Errors
    /// There is no `moor0` yet, or the kernel refuses a route; the others are set.
    pub async fn add_all_moved_unseen(&self, moved: &[MovedRoute]) -> Result<(), Error> {
        let moor = (moor_ifindex()?, None);
        let routes: Vec<_> =
            moved.iter().flat_map(|one| routes(one, Route::METRIC, moor)).collect();
        self.replace_routes(&routes).await?;
        self.lead_bound(moved).await;
        Ok(())
    }

    async fn lead_bound(&self, moved: &[MovedRoute]) {
        if let Err(error) = self.replace_routes(&by_uplinks(moved, OWN_METRIC, |one| one.own)).await
        {
            // The uplink has just gone. Sockets that are bound to it cannot send, with or without this route.
            tracing::debug!(%error, "routes of bound sockets");
        }
    }

    /// Sets the direct routes of moved pairs that have one. Sockets that have cached the route to `moor0` notice this
    /// without help.
    ///
    /// # Errors
    /// The kernel refuses a route; the others are set.
    pub async fn lead_directly(&self, moved: &[MovedRoute]) -> Result<(), Error> {
        self.lead_bound(moved).await;
        self.replace_routes(&by_uplinks(moved, DIRECT_METRIC, |one| one.direct)).await
    }

    /// Leads moved pairs to `moor0` again, to whichever uplink and router their direct routes lead. True if one of
    /// them had a direct route.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn lead_by_moor(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        let of_tcp = self.remove_from(MOVED_TCP_TABLE, DIRECT_METRIC, moved).await;
        let others = self.remove_from(MOVED_TABLE, DIRECT_METRIC, moved).await;
        Ok(of_tcp? + others? > 0)
    }

    /// Removes the routes of pairs that are back on their own addresses. True if there was a route to `moor0`.
    /// Sockets that have cached it notice this without help.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_moved(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        self.lead_by_moor(moved).await?;
        self.remove_moved_tcp(moved).await?;
        self.remove_from(MOVED_TABLE, OWN_METRIC, moved).await?;
        Ok(self.remove_from(MOVED_TABLE, Route::METRIC, moved).await? > 0)
    }

    /// Makes the TCP of these pairs use the same route as their other traffic. True if it had another route.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_moved_tcp(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        self.remove_from(MOVED_TCP_TABLE, DIRECT_METRIC, moved).await?;
        self.remove_from(MOVED_TCP_TABLE, OWN_METRIC, moved).await?;
        Ok(self.remove_from(MOVED_TCP_TABLE, Route::METRIC, moved).await? > 0)
    }

    /// Removes the routes of this metric from a table, to whichever interface and router they lead. Returns how many
    /// there were.
    async fn remove_from(
        &self,
        table: u32,
        metric: u32,
        moved: &[MovedRoute],
    ) -> Result<usize, Error> {
        let any = |one| routes(one, metric, (ANY_INTERFACE, None));
        let routes = moved.iter().flat_map(any).filter(|route| route.table == table);
        let routes: Vec<_> = routes.map(|route| Route { mtu: None, ..route }).collect();
        self.delete_routes(&routes).await
    }

    /// The pairs that have a route: after a restart, those that an earlier process moved. If a pair has no route by
    /// `moor0`, its MTU is 0.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub async fn moved(&self) -> Result<Vec<FoundRoute>, Error> {
        let mut found: Vec<_> = [MOVED_TCP_TABLE, MOVED_TABLE]
            .into_iter()
            .map(|table| self.our_routes_in(table))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .filter_map(|route| Some((pair_of(&route)?, route)))
            .collect();
        // The kernel returns the routes of a table in order, so this takes little more than one pass.
        found.sort_by_key(|(ulids, _)| *ulids);
        let of_pairs = found.chunk_by(|(one, _), (other, _)| one == other);
        Ok(of_pairs.filter_map(found_route).collect())
    }
}

/// The routes of one pair, in both tables.
fn found_route(of_pair: &[(UlidPair, Route)]) -> Option<FoundRoute> {
    let (ulids, _) = of_pair.first()?;
    let at = |table, metric| {
        let mut routes = of_pair.iter().map(|(_, route)| route);
        routes.find(|route| (route.table, route.metric) == (table, metric))
    };
    let mtu = at(MOVED_TABLE, Route::METRIC).and_then(|route| route.mtu);
    let tcp_mtu = at(MOVED_TCP_TABLE, Route::METRIC).and_then(|route| route.mtu);
    let is_bare = of_pair.iter().any(|(_, route)| route.table == MOVED_TCP_TABLE);
    let bare_tcp_mtu = is_bare.then_some(tcp_mtu.unwrap_or(0));
    // The kernel adapts the MTU of a route to that of its uplink. Such a route must be set again.
    let hop_of = |route: &Route| next_hop(route).filter(|_| route.mtu == mtu);
    let (direct, of_tcp) = (at(MOVED_TABLE, DIRECT_METRIC), at(MOVED_TCP_TABLE, DIRECT_METRIC));
    let is_led_alike = |hop: &NextHop| {
        let is_right = |tcp: &Route| next_hop(tcp).as_ref() == Some(hop) && tcp.mtu == bare_tcp_mtu;
        !is_bare || of_tcp.is_some_and(is_right)
    };
    let route = MovedRoute {
        ulids: *ulids,
        mtu: mtu.unwrap_or(0),
        bare_tcp_mtu,
        direct: direct.and_then(hop_of).filter(is_led_alike),
        own: at(MOVED_TABLE, OWN_METRIC).and_then(hop_of),
    };
    Some(FoundRoute { route, has_direct: direct.is_some() || of_tcp.is_some() })
}

/// Routes of a pair with this metric, by an interface and a router. If TCP goes without a header, its route comes
/// first.
fn routes(
    moved: &MovedRoute,
    metric: u32,
    (ifindex, gateway): (u32, Option<Ipv6Addr>),
) -> impl Iterator<Item = Route> {
    let tcp = moved.bare_tcp_mtu.map(|mtu| (MOVED_TCP_TABLE, mtu));
    let UlidPair { local, peer } = moved.ulids;
    tcp.into_iter().chain([(MOVED_TABLE, moved.mtu)]).map(move |(table, mtu)| Route {
        source: Some(Prefix::new(local.0, 128)),
        metric,
        // The MTU is not locked, so later Packet Too Big messages still lower it.
        mtu: Some(mtu),
        ..Route::new(table, Prefix::new(peer.0, 128), Target::Device { ifindex, gateway })
    })
}

/// Routes of the pairs that have such a next hop.
fn by_uplinks(
    moved: &[MovedRoute],
    metric: u32,
    way: fn(&MovedRoute) -> Option<NextHop>,
) -> Vec<Route> {
    let ways = moved.iter().filter_map(|one| Some((one, way(one)?)));
    ways.flat_map(|(one, hop)| routes(one, metric, (hop.ifindex, Some(hop.gateway)))).collect()
}

fn pair_of(route: &Route) -> Option<UlidPair> {
    let local = Ulid(route.source?.address());
    Some(UlidPair::new(local, Ulid(route.destination.address())))
}

const fn next_hop(route: &Route) -> Option<NextHop> {
    let Target::Device { ifindex, gateway: Some(gateway) } = route.target else { return None };
    Some(NextHop { ifindex, gateway })
}

/// Metric of direct routes, which come before those of [`Route::METRIC`].
const DIRECT_METRIC: u32 = 512;
/// Metric of routes for bound sockets, behind [`Route::METRIC`]: the kernel takes such a route only for sockets that
/// can take no other.
const OWN_METRIC: u32 = 2048;
/// In a request to remove a route: any interface.
const ANY_INTERFACE: u32 = 0;
