//! Host routes that send moved ULID pairs to our link.

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Route, Target};
use crate::view::Prefix;
use moorline_types::{Ulid, UlidPair};

/// A route of a moved pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRoute {
    /// The pair.
    pub ulids: UlidPair,
    /// MTU of the path it takes now, octets; the route's own is [`Self::HEADER`] less.
    pub path_mtu: u32,
}

impl MovedRoute {
    /// Octets of the Shim6 payload header (RFC 5533 s5.1).
    pub const HEADER: u32 = 8;

    /// MTU of the route, octets.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.path_mtu.saturating_sub(Self::HEADER)
    }
}

impl Netlink {
    /// Sends the packets of a moved ULID pair to `moor0`, cut to fit a path of this MTU with the
    /// payload header in. Calling it again with another MTU changes the route.
    ///
    /// # Errors
    /// As [`Self::add_all_moved`].
    pub async fn add_moved(&self, ulids: UlidPair, path_mtu: u32) -> Result<(), Error> {
        self.add_all_moved(&[MovedRoute { ulids, path_mtu }]).await
    }

    /// [`Self::add_moved`] for many pairs: cached routes are looked up again only once.
    ///
    /// # Errors
    /// There is no `moor0` yet, or the kernel refuses a route; those before it stay.
    pub async fn add_all_moved(&self, moved: &[MovedRoute]) -> Result<(), Error> {
        let ifindex = self.require_moor().await?;
        let (table, protocol) = (self.settings.moved_table, self.settings.protocol);
        self.record(Record::Table { table, protocol })?;
        for one in moved {
            self.replace_route(&self.moved_route(ifindex, one)).await?;
        }
        self.flush_cached_routes().await
    }

    /// The pair is back on its own addresses. True if there was a route; sockets that cached it
    /// notice by themselves.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn remove_moved(&self, ulids: UlidPair) -> Result<bool, Error> {
        let ifindex = self.require_moor().await?;
        let any = MovedRoute { ulids, path_mtu: 0 };
        self.delete_route(&Route { mtu: None, ..self.moved_route(ifindex, &any) }).await
    }

    /// The pairs that have a route: after a restart, those that an earlier process moved.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub async fn moved(&self) -> Result<Vec<MovedRoute>, Error> {
        let routes = self.our_routes().await?;
        let moved = routes.iter().filter(|route| route.table == self.settings.moved_table);
        let read = |route: &Route| {
            let local = Ulid(route.source?.address());
            let ulids = UlidPair::new(local, Ulid(route.destination.address()));
            let path_mtu = route.mtu.unwrap_or_default().saturating_add(MovedRoute::HEADER);
            Some(MovedRoute { ulids, path_mtu })
        };
        Ok(moved.filter_map(read).collect())
    }

    fn moved_route(&self, ifindex: u32, moved: &MovedRoute) -> Route {
        Route {
            table: self.settings.moved_table,
            destination: Prefix::new(moved.ulids.peer.0, 128),
            source: Some(Prefix::new(moved.ulids.local.0, 128)),
            metric: Route::METRIC,
            target: Target::Device { ifindex, gateway: None },
            // Not locked: what the path says later still counts.
            mtu: Some(moved.mtu()),
            protocol: self.settings.protocol,
        }
    }
}
