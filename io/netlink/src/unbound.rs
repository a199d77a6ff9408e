//! Routes for sockets without an address of their own, to peers of pairs that have moved.
//!
//! Such a socket asks for a route before it has a source, so it never meets the routes of moved pairs, which are for packets
//! from a ULID. It would leave no room for a header. A route `from ::/128` is met by such sockets alone. These routes lead
//! where the default routes of the host lead, in the same order: all that they change is the MTU.

use moorline_types::Ulid;

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Route, Target};
use crate::moved::{ANY_INTERFACE, MovedRoute};
use crate::view::{DefaultRoute, HostView, Prefix};
use std::net::Ipv6Addr;

/// The default routes that sockets without an address have, each with its interface: the first is the kernel's choice.
pub type DefaultWays = Vec<(u32, DefaultRoute)>;

impl HostView {
    /// The default routes that are for all sources, of all interfaces, in the order of their metrics.
    #[must_use]
    pub fn default_ways(&self) -> DefaultWays {
        let interfaces = [&self.uplinks, &self.candidates, &self.left_alone].into_iter().flatten();
        let mut ways: DefaultWays = interfaces
            .flat_map(|one| one.default_routes.iter().map(|route| (one.ifindex, *route)))
            .filter(|(_, route)| route.source.is_none())
            .collect();
        ways.sort_by_key(|(ifindex, route)| (route.metric, *ifindex, route.gateway));
        ways.truncate(MOST);
        ways
    }
}

impl Netlink {
    /// Sockets without an address leave room for a header in what they send to the peers of these pairs, from now on.
    ///
    /// # Errors
    /// The kernel refuses a route; the others are set.
    pub async fn leave_room(&self, moved: &[MovedRoute], view: &HostView) -> Result<(), Error> {
        let (table, protocol) = (self.settings.unbound_table(), self.settings.protocol);
        self.record(Record::Table { table, protocol })?;
        let ways = view.default_ways();
        let routes = moved.iter().flat_map(|one| {
            let own = view.uplink_of(one.ulids.local.0).map(|uplink| uplink.ifindex);
            let mut ways = ways.clone();
            // Of several with the same metric the kernel has chosen this one.
            ways.sort_by_key(|(ifindex, route)| (route.metric, Some(*ifindex) != own));
            let ways = (0..).zip(ways);
            ways.map(|(place, way)| self.unbound_route(one, place, way)).collect::<Vec<_>>()
        });
        let set = self.replace_routes(&routes.collect::<Vec<_>>()).await;
        // Connected sockets have an address by now, and find the route of the pair.
        self.flush_cached_routes().await?;
        set
    }

    /// What they send to these peers needs no room any more.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn need_no_room(&self, peers: &[Ulid]) -> Result<(), Error> {
        let routes = peers.iter().flat_map(|peer| {
            (Route::METRIC..).take(MOST).map(|metric| Route {
                metric,
                target: Target::Device { ifindex: ANY_INTERFACE, gateway: None },
                ..self.any_unbound_route(*peer)
            })
        });
        self.delete_routes(&routes.collect::<Vec<_>>()).await.map(drop)
    }

    /// The same of all peers.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn need_no_room_at_all(&self) -> Result<(), Error> {
        let routes = self.our_routes_in(self.settings.unbound_table()).await?;
        self.delete_routes(&routes).await.map(drop)
    }

    fn unbound_route(&self, moved: &MovedRoute, place: u32, way: (u32, DefaultRoute)) -> Route {
        let (ifindex, DefaultRoute { gateway, preferred_source, .. }) = way;
        Route {
            metric: Route::METRIC + place,
            target: Target::Device { ifindex, gateway },
            preferred_source,
            mtu: Some(moved.mtu()),
            ..self.any_unbound_route(moved.ulids.peer)
        }
    }

    fn any_unbound_route(&self, peer: Ulid) -> Route {
        Route {
            table: self.settings.unbound_table(),
            destination: Prefix::new(peer.0, 128),
            source: Some(Prefix::new(Ipv6Addr::UNSPECIFIED, 128)),
            metric: Route::METRIC,
            target: Target::Unreachable,
            preferred_source: None,
            mtu: None,
            protocol: self.settings.protocol,
        }
    }
}

/// Default routes that count: more of them would be no choice of anybody's.
const MOST: usize = 8;
