//! Host routes that send moved ULID pairs to our link, or to the uplink that they leave by.

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Route, Target};
use std::collections::{BTreeMap, BTreeSet};

use moorline_addresses::NextHop;
use moorline_types::{Prefix, Ulid, UlidPair};

/// A route of a moved pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRoute {
    /// The pair.
    pub ulids: UlidPair,
    /// MTU of the path it takes now, octets; the route's own is [`Self::HEADER`] less.
    pub path_mtu: u32,
    /// Whether its TCP goes without a header: it has a route of its own then, with all of the MTU.
    ///
    /// A smaller one would have the kernel send again all segments that are under way.
    pub is_tcp_bare: bool,
    /// Where all else leaves the host to. Then it need not come by our link: a second route, which is preferred, leads
    /// there. If that goes with the uplink, the first is left.
    pub direct: Option<NextHop>,
    /// How packets leave the host that have the local ULID for their source. A third route leads there, for sockets that are
    /// bound to that uplink: the kernel gives such a socket no route by another interface.
    pub own: Option<NextHop>,
}

impl MovedRoute {
    /// Octets of the Shim6 payload header (RFC 5533 s5.1).
    pub const HEADER: u32 = 8;

    /// MTU of the route, octets.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.path_mtu.saturating_sub(Self::HEADER)
    }

    /// MTU of the route that TCP takes, octets.
    #[must_use]
    pub const fn tcp_mtu(&self) -> u32 {
        if self.is_tcp_bare { self.path_mtu } else { self.mtu() }
    }
}

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

    /// Leads them to `moor0` again. True if one of them had a direct route.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn lead_by_moor(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        let routes = self.all_direct_routes(moved).into_iter();
        let routes: Vec<_> = routes.map(|route| Route { mtu: None, ..route }).collect();
        Ok(self.delete_routes(&routes).await? > 0)
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
        self.remove_own(moved, self.settings.moved_table).await?;
        let routes = moved.iter().map(|one| Route { mtu: None, ..self.moved_route(ifindex, one) });
        Ok(self.delete_routes(&routes.collect::<Vec<_>>()).await? > 0)
    }

    /// Their TCP takes the route of all else from now on. True if it had another.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_moved_tcp(&self, moved: &[MovedRoute]) -> Result<bool, Error> {
        let ifindex = self.require_moor().await?;
        let bare: Vec<_> = moved.iter().filter(|one| one.is_tcp_bare).copied().collect();
        self.remove_own(&bare, self.settings.moved_tcp_table()).await?;
        let routes =
            bare.iter().map(|one| Route { mtu: None, ..self.moved_tcp_route(ifindex, one) });
        Ok(self.delete_routes(&routes.collect::<Vec<_>>()).await? > 0)
    }

    /// The pairs that have a route: after a restart, those that an earlier process moved.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub async fn moved(&self) -> Result<Vec<MovedRoute>, Error> {
        let bare = self.our_routes_in(self.settings.moved_tcp_table()).await?;
        let bare: BTreeSet<_> =
            bare.iter().map(|route| (route.source, route.destination)).collect();
        let routes = self.our_routes_in(self.settings.moved_table).await?;
        let moved = |metric| routes.iter().filter(move |route| route.metric == metric);
        let hops = |metric| -> BTreeMap<_, _> {
            let hop = |route: &Route| {
                Some(((route.source, route.destination), (next_hop(route)?, route.mtu)))
            };
            moved(metric).filter_map(hop).collect()
        };
        let (direct, own) = (hops(DIRECT_METRIC), hops(OWN_METRIC));
        let read = |route: &Route| {
            let local = Ulid(route.source?.address());
            let ulids = UlidPair::new(local, Ulid(route.destination.address()));
            let path_mtu = route.mtu.unwrap_or_default().saturating_add(MovedRoute::HEADER);
            let is_tcp_bare = bare.contains(&(route.source, route.destination));
            // The kernel changes the MTU of a route to that of its uplink: such a route has to be set again.
            let [direct, own] = [&direct, &own].map(|hops| {
                let (hop, mtu) = hops.get(&(route.source, route.destination))?;
                Some(*hop).filter(|_| *mtu == route.mtu)
            });
            Some(MovedRoute { ulids, path_mtu, is_tcp_bare, direct, own })
        };
        Ok(moved(Route::METRIC).filter_map(read).collect())
    }

    /// Removes the routes of bound sockets, whatever interface and router they lead to.
    async fn remove_own(&self, moved: &[MovedRoute], table: u32) -> Result<(), Error> {
        let own = |one| Route {
            table,
            metric: OWN_METRIC,
            mtu: None,
            ..self.moved_route(ANY_INTERFACE, one)
        };
        self.delete_routes(&moved.iter().map(own).collect::<Vec<_>>()).await.map(|_| ())
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
