//! Host routes that send moved ULID pairs to our link, or to the uplink that they leave by.

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Route, Target};
use std::collections::{BTreeMap, BTreeSet};

use moorline_addresses::{FoundRoute, MovedRoute, NextHop};
use moorline_types::{Prefix, Ulid, UlidPair};

impl Netlink {
    /// Sends the packets of a moved ULID pair to `moor0`, cut to fit a path of this MTU with the
    /// payload header in. Calling it again with another MTU changes the route.
    ///
    /// # Errors
    /// As [`Self::add_all_moved`].
    pub async fn add_moved(&self, ulids: UlidPair, path_mtu: u32) -> Result<(), Error> {
        let moved = MovedRoute { ulids, path_mtu, is_tcp_bare: false, direct: None, own: None };
        self.add_all_moved(&[moved]).await
    }

    /// [`Self::add_moved`] for many pairs: cached routes are looked up again only once. Not the direct ones.
    ///
    /// # Errors
    /// There is no `moor0` yet, or the kernel refuses a route; the others are set.
    pub async fn add_all_moved(&self, moved: &[MovedRoute]) -> Result<(), Error> {
        let ifindex = self.require_moor().await?;
        let (table, protocol) = (self.settings.moved_table, self.settings.protocol);
        self.record(Record::Table { table, protocol })?;
        if moved.iter().any(|one| one.is_tcp_bare) {
            let table = self.settings.moved_tcp_table();
            self.record(Record::Table { table, protocol })?;
        }
        let routes = moved.iter().flat_map(|one| {
            let tcp = one.is_tcp_bare.then(|| self.moved_tcp_route(ifindex, one));
            tcp.into_iter().chain([self.moved_route(ifindex, one)])
        });
        self.replace_routes(&routes.collect::<Vec<_>>()).await?;
        self.lead_bound(moved).await;
        self.flush_cached_routes().await
    }

    async fn lead_bound(&self, moved: &[MovedRoute]) {
        if let Err(error) = self.replace_routes(&self.all_own_routes(moved)).await {
            // The uplink has just gone: sockets that are bound to it have no way out, with or without this route.
            tracing::debug!(%error, "routes of bound sockets");
        }
    }

    /// Leads the packets of moved pairs that have a direct way to it. Sockets that cached the route to `moor0` notice by
    /// themselves.
    ///
    /// # Errors
    /// The kernel refuses a route; the others are set.
    pub async fn lead_directly(&self, moved: &[MovedRoute]) -> Result<(), Error> {
        self.lead_bound(moved).await;
        self.replace_routes(&self.all_direct_routes(moved)).await
    }

    /// Leads them to `moor0` again, whatever uplink and router their direct routes lead to. True if one of them had a direct route.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn lead_by_moor(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        let tcp = self.settings.moved_tcp_table();
        let of_tcp = self.remove_by_uplinks(&bare(moved), tcp, DIRECT_METRIC).await;
        let others = self.remove_by_uplinks(moved, self.settings.moved_table, DIRECT_METRIC).await;
        Ok(of_tcp? + others? > 0)
    }

    /// The pairs are back on their own addresses. True if there was a route to `moor0`; sockets that cached it
    /// notice by themselves.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_moved(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        self.lead_by_moor(moved).await?;
        self.remove_moved_tcp(moved).await?;
        let ifindex = self.require_moor().await?;
        self.remove_by_uplinks(moved, self.settings.moved_table, OWN_METRIC).await?;
        let routes = moved.iter().map(|one| Route { mtu: None, ..self.moved_route(ifindex, one) });
        Ok(self.delete_routes(&routes.collect::<Vec<_>>()).await? > 0)
    }

    /// Their TCP takes the route of all else from now on. True if it had another.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_moved_tcp(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        let ifindex = self.require_moor().await?;
        let (bare, table) = (bare(moved), self.settings.moved_tcp_table());
        self.remove_by_uplinks(&bare, table, DIRECT_METRIC).await?;
        self.remove_by_uplinks(&bare, table, OWN_METRIC).await?;
        let routes =
            bare.iter().map(|one| Route { mtu: None, ..self.moved_tcp_route(ifindex, one) });
        Ok(self.delete_routes(&routes.collect::<Vec<_>>()).await? > 0)
    }

    /// The pairs that have a route: after a restart, those that an earlier process moved. The MTU is 0 where a pair has no route by
    /// `moor0`.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub async fn moved(&self) -> Result<Vec<FoundRoute>, Error> {
        let of_tcp = self.our_routes_in(self.settings.moved_tcp_table()).await?;
        let routes = self.our_routes_in(self.settings.moved_table).await?;
        let [by_moor, direct, own] =
            [Route::METRIC, DIRECT_METRIC, OWN_METRIC].map(|metric| by_pair(&routes, metric));
        let tcp_direct = by_pair(&of_tcp, DIRECT_METRIC);
        let bare: BTreeSet<_> = of_tcp.iter().filter_map(pair_of).collect();
        let read = |ulids: &UlidPair| {
            let mtu = by_moor.get(ulids).and_then(|route| route.mtu);
            let is_tcp_bare = bare.contains(ulids);
            let path_mtu = mtu.map_or(0, |mtu| mtu.saturating_add(MovedRoute::HEADER));
            // The kernel changes the MTU of a route to that of its uplink: such a route has to be set again.
            let hop_of = |route: &&Route| next_hop(route).filter(|_| route.mtu == mtu);
            let of_tcp = tcp_direct.get(ulids);
            let is_led_alike = |hop: &NextHop| {
                let is_right =
                    |tcp: &&Route| next_hop(tcp).as_ref() == Some(hop) && tcp.mtu == Some(path_mtu);
                !is_tcp_bare || of_tcp.is_some_and(is_right)
            };
            let route = MovedRoute {
                ulids: *ulids,
                path_mtu,
                is_tcp_bare,
                direct: direct.get(ulids).and_then(hop_of).filter(is_led_alike),
                own: own.get(ulids).and_then(hop_of),
            };
            FoundRoute { route, has_direct: direct.contains_key(ulids) || of_tcp.is_some() }
        };
        let pairs: BTreeSet<_> = routes.iter().chain(&of_tcp).filter_map(pair_of).collect();
        Ok(pairs.iter().map(read).collect())
    }

    /// Removes routes that lead to uplinks, whatever uplink and router that is. Gives how many there were.
    async fn remove_by_uplinks(
        &self,
        moved: &[MovedRoute],
        table: u32,
        metric: u32,
    ) -> Result<usize, Error> {
        let any = |one| Route { table, metric, mtu: None, ..self.moved_route(ANY_INTERFACE, one) };
        self.delete_routes(&moved.iter().map(any).collect::<Vec<_>>()).await
    }

    fn moved_tcp_route(&self, ifindex: u32, moved: &MovedRoute) -> Route {
        Route {
            table: self.settings.moved_tcp_table(),
            mtu: Some(moved.tcp_mtu()),
            ..self.moved_route(ifindex, moved)
        }
    }

    fn all_direct_routes(&self, moved: &[MovedRoute]) -> Vec<Route> {
        moved.iter().flat_map(|one| self.routes_by(one, one.direct, DIRECT_METRIC)).collect()
    }

    fn all_own_routes(&self, moved: &[MovedRoute]) -> Vec<Route> {
        moved.iter().flat_map(|one| self.routes_by(one, one.own, OWN_METRIC)).collect()
    }

    /// The route of TCP, if it has one, is the second.
    fn routes_by(&self, moved: &MovedRoute, hop: Option<NextHop>, metric: u32) -> Vec<Route> {
        let Some(NextHop { ifindex, gateway }) = hop else { return Vec::new() };
        let target = Target::Device { ifindex, gateway: Some(gateway) };
        let tcp = moved.is_tcp_bare.then(|| self.moved_tcp_route(ifindex, moved));
        let routes = [Some(self.moved_route(ifindex, moved)), tcp].into_iter().flatten();
        routes.map(|route| Route { metric, target: target.clone(), ..route }).collect()
    }

    fn moved_route(&self, ifindex: u32, moved: &MovedRoute) -> Route {
        Route {
            table: self.settings.moved_table,
            destination: Prefix::new(moved.ulids.peer.0, 128),
            source: Some(Prefix::new(moved.ulids.local.0, 128)),
            metric: Route::METRIC,
            target: Target::Device { ifindex, gateway: None },
            preferred_source: None,
            expires: None,
            // Not locked: what the path says later still counts.
            mtu: Some(moved.mtu()),
            protocol: self.settings.protocol,
        }
    }
}

/// Those whose TCP goes without a header.
fn bare(moved: &[MovedRoute]) -> Vec<MovedRoute> {
    moved.iter().filter(|one| one.is_tcp_bare).copied().collect()
}

fn pair_of(route: &Route) -> Option<UlidPair> {
    let local = Ulid(route.source?.address());
    Some(UlidPair::new(local, Ulid(route.destination.address())))
}

/// The routes of this metric, by their pair.
fn by_pair(routes: &[Route], metric: u32) -> BTreeMap<UlidPair, &Route> {
    let routes = routes.iter().filter(|route| route.metric == metric);
    routes.filter_map(|route| Some((pair_of(route)?, route))).collect()
}

const fn next_hop(route: &Route) -> Option<NextHop> {
    match route.target {
        Target::Device { ifindex, gateway: Some(gateway) } => Some(NextHop { ifindex, gateway }),
        Target::Device { .. } | Target::Multipath(_) | Target::Unreachable | Target::Throw => None,
    }
}

/// Before [`Route::METRIC`].
const DIRECT_METRIC: u32 = 512;
/// Behind it: the kernel takes it for sockets alone that can take no other.
const OWN_METRIC: u32 = 2048;
/// In a request to remove a route.
const ANY_INTERFACE: u32 = 0;
