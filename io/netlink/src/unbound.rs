//! Unbound routes: for sockets that have no address when they ask for a route.
//!
//! For such a socket, the kernel looks up the route first, and chooses the source address by that route. The rules
//! and routes of Moorline are `from` an address, so this look-up does not find them. The kernel notes two facts at a
//! route from an address: the room that a header takes, and the MTU of a Packet Too Big message. The socket learns
//! neither. An unbound route is `from ::/128`, which only a look-up without a source finds. It leads to one peer, and
//! is a copy of a default route of the host with the known MTU. So the router and the source address of such a socket
//! do not change.

use moorline_addresses::{DefaultRoute, UnboundPeer};
use moorline_types::{Prefix, Ulid, UlidPair};
use std::cmp::Reverse;
use std::net::Ipv6Addr;

use crate::control::control_of;
use crate::error::Error;
use crate::handle::Netlink;
use crate::message::{Hop, Route, Target, mtu, table};
use crate::row::Row;
use crate::settings::UNBOUND_TABLE;
use crate::view::{is_default_route, read_default_routes};

impl Netlink {
    /// Sets unbound routes to these peers. Returns the peers that have unbound routes, with the MTU.
    ///
    /// A peer to which the host does not send by a plain default route has none: a VPN or a specific route leads
    /// there.
    ///
    /// # Errors
    /// The kernel's tables cannot be read, or the kernel refuses a route; the others are set.
    pub async fn set_unbound(&self, wanted: &[UnboundPeer]) -> Result<Vec<(Ulid, u32)>, Error> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let ways = self.plain_ways()?;
        let (mut routes, mut set, mut has_news) = (Vec::new(), Vec::new(), false);
        for UnboundPeer { peer, path_mtu, before } in wanted {
            let Some(first) = self.choice(*peer, &ways)? else { continue };
            let of_route = first.route.mtu.unwrap_or(u32::MAX);
            let of_links = first.hops.iter().map(|hop| interface_mtu(hop.ifindex));
            let mtu = of_links.fold((*path_mtu).min(of_route), u32::min);
            routes.extend(copies(*peer, mtu, &first, &ways));
            set.push((*peer, mtu));
            has_news |= *before != Some(mtu);
        }
        if routes.is_empty() {
            return Ok(set);
        }
        self.replace_routes(&routes).await?;
        if has_news {
            // A connected socket has an address by now, and finds the route from that address.
            self.flush_cached_routes().await?;
        }
        Ok(set)
    }

    /// Removes the unbound routes to the peers for which `is_gone` is true.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn remove_unbound(&self, is_gone: impl Fn(&Ulid) -> bool) -> Result<(), Error> {
        let mut routes = self.our_routes_in(UNBOUND_TABLE)?;
        routes.retain(|route| is_gone(&Ulid(route.destination.address())));
        self.delete_routes(&routes).await.map(drop)
    }

    /// Interface and router of the default route of the main table that the kernel chooses for a socket without an
    /// address. `None` if the kernel chooses another route or a multipath route.
    pub(crate) fn first_way(&self, peer: Ulid) -> Result<Option<(u32, Option<Ipv6Addr>)>, Error> {
        let first = self.choice(peer, &self.plain_ways()?)?;
        Ok(first.and_then(|first| match first.hops[..] {
            [Hop { ifindex, gateway, .. }] => Some((ifindex, gateway)),
            _ => None,
        }))
    }

    /// The default routes of the main table that can be copied.
    fn plain_ways(&self) -> Result<Vec<Way>, Error> {
        Ok(self.route_rows(libc::RT_TABLE_MAIN)?.iter().filter_map(read_way).collect())
    }

    /// The default route that the kernel chooses for a socket without an address. `None` if it chooses another route.
    fn choice(&self, peer: Ulid, ways: &[Way]) -> Result<Option<Way>, Error> {
        let row = self.look_up(None, peer, None, libc::RTM_F_FIB_MATCH)?;
        let row = row.filter(|row| table(row) == UNBOUND_TABLE || is_default_route(row));
        let hops = row.as_ref().map(live_hops);
        Ok(ways.iter().find(|way| Some(&way.hops) == hops.as_ref()).cloned())
    }

    /// MTU that the kernel knows for the path between these addresses, for sockets that are bound to this interface
    /// or to none. `None` if the route has no MTU of its own.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub async fn path_mtu(
        &self,
        pair: UlidPair,
        ifindex: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        Ok(self.look_up(Some(pair.local), pair.peer, ifindex, 0)?.as_ref().and_then(mtu))
    }

    /// Route of a datagram; `None` if the host has none.
    fn look_up(
        &self,
        from: Option<Ulid>,
        to: Ulid,
        ifindex: Option<u32>,
        flags: u32,
    ) -> Result<Option<Row>, Error> {
        let host = |ulid: Ulid| Prefix::new(ulid.0, 128);
        let request = Row::ipv6(libc::RTM_GETROUTE)
            .at(8, flags.to_ne_bytes())
            .with_prefix(libc::RTA_SRC, 2, from.map(host))
            .with_some(libc::RTA_OIF, ifindex.map(u32::to_ne_bytes))
            .with_prefix(libc::RTA_DST, 1, Some(host(to)))
            .with(RTA_IP_PROTO, [UDP]);
        match self.exchange.ask(&request, 0) {
            Ok(rows) => Ok(rows.into_iter().next()),
            Err(source) => match source.raw_os_error() {
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES) => Ok(None),
                _ => Err(Error::Read { what: "route", source }),
            },
        }
    }
}

/// Copies of all default routes for one peer: the kernel skips a router that does not answer.
fn copies(peer: Ulid, mtu: u32, first: &Way, ways: &[Way]) -> impl Iterator<Item = Route> {
    let mut ways = ways.to_vec();
    ways.sort_by_key(|way| {
        let (route, hops) = (way.route, way.hops.clone());
        (Reverse(hops == first.hops), route.metric, route.preference, hops)
    });
    (Route::METRIC..).zip(ways).take(MOST).map(move |(metric, way)| Route {
        source: Some(Prefix::new(Ipv6Addr::UNSPECIFIED, 128)),
        metric,
        preferred_source: way.route.preferred_source,
        mtu: Some(mtu),
        expires: Some(EXPIRES),
        ..Route::new(UNBOUND_TABLE, Prefix::new(peer.0, 128), Target::by(&way.hops))
    })
}

/// A default route for all sources with its next hops. A multipath route has more than one.
#[derive(Clone, Debug)]
struct Way {
    route: DefaultRoute,
    /// See [`live_hops`].
    hops: Vec<Hop>,
}

/// Reads a default route for all sources. A tunnel cannot be copied.
fn read_way(row: &Row) -> Option<Way> {
    let (_, route) = read_default_routes(row).into_iter().next()?;
    let hops = live_hops(row);
    let is_plain = route.source.is_none() && !hops.iter().any(|hop| hop.is_tunnel);
    (is_plain && !hops.is_empty()).then_some(Way { route, hops })
}

/// Next hops of a route that the kernel may choose, in the order of their interfaces: the kernel's answer begins with
/// the one that it has chosen for the packet. The kernel accepts no new route by an interface that is down.
fn live_hops(row: &Row) -> Vec<Hop> {
    let mut hops = Hop::read_all(row);
    hops.retain(|hop| !hop.is_dead);
    hops.sort();
    // A single next hop has no weight.
    if let [hop] = &mut hops[..] {
        hop.weight = 0;
    }
    hops
}

/// MTU of an interface. A router may advertise an MTU of the link (RFC 4861 s4.6.4) that is less than the interface
/// supports.
fn interface_mtu(ifindex: u32) -> u32 {
    control_of(ifindex, "mtu").and_then(|text| text.parse().ok()).unwrap_or(u32::MAX)
}

/// Largest number of copies for one peer.
const MOST: usize = 8;
/// Seconds for which a route stays: the time for which the kernel keeps the MTU of a Packet Too Big message
/// (`net.ipv6.route.mtu_expires`).
const EXPIRES: u32 = 600;
/// Protocol number of UDP.
const UDP: u8 = 17;
const RTA_IP_PROTO: u16 = 27;
