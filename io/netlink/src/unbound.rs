//! Unbound routes: for sockets that have no address when they ask for a route.
//!
//! The kernel looks for the route of such a socket first, and chooses the source address by that route. The rules and routes of
//! Moorline are `from` an address, so the look-up misses them. The kernel notes two facts at a route from an address: the room that
//! a header takes, and the MTU that a Packet Too Big has told. The socket learns neither. An unbound route is `from
//! ::/128`, which only a look-up without a source finds. It leads to one peer, and it is a copy of a default route of the
//! host with the MTU that is known. So the router and the source address of such a socket stay what they are.

use moorline_addresses::DefaultRoute;
use moorline_types::{Prefix, Ulid, UlidPair};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use crate::attributes::Row;
use crate::control::Control;
use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Hop, Route, Target};
use crate::settings::Settings;
use crate::view::{is_default_route, read_default_routes, read_mtu};

/// A peer that is to have unbound routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnboundPeer {
    /// The peer.
    pub peer: Ulid,
    /// The MTU that the kernel knows of the path to it.
    pub path_mtu: u32,
    /// The MTU of the unbound routes that it has by now.
    pub before: Option<u32>,
}

impl Netlink {
    /// Sets unbound routes to these peers. Result: the peers that have unbound routes, and the MTU.
    ///
    /// A peer that the host does not send to by a plain default route has none: a VPN, a route of its own.
    ///
    /// # Errors
    /// The kernel's tables cannot be read, or the kernel refuses a route; the others are set.
    pub async fn set_unbound(&self, wanted: &[UnboundPeer]) -> Result<Vec<(Ulid, u32)>, Error> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let ways = self.plain_ways().await?;
        let links = self.links().await?;
        let names: BTreeMap<_, _> =
            links.into_iter().map(|link| (link.ifindex, link.name)).collect();
        let (mut routes, mut set, mut has_news) = (Vec::new(), Vec::new(), false);
        for UnboundPeer { peer, path_mtu, before } in wanted {
            let Some(first) = self.choice(*peer, &ways).await? else { continue };
            let of_route = first.route.mtu.unwrap_or(u32::MAX);
            let of_links = first.hops.iter().map(|hop| interface_mtu(&names, hop.ifindex));
            let mtu = of_links.fold((*path_mtu).min(of_route), u32::min);
            routes.extend(self.copies(*peer, mtu, &first, &ways));
            set.push((*peer, mtu));
            has_news |= *before != Some(mtu);
        }
        if routes.is_empty() {
            return Ok(set);
        }
        let (table, protocol) = (self.settings.unbound_table(), self.settings.protocol);
        self.record(Record::Table { table, protocol })?;
        self.replace_routes(&routes).await?;
        if has_news {
            // A connected socket has an address by now, and finds the route from that address.
            self.flush_cached_routes().await?;
        }
        Ok(set)
    }

    /// Removes the unbound routes to these peers.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn remove_unbound(&self, peers: &BTreeSet<Ulid>) -> Result<(), Error> {
        self.remove_unbound_if(|peer| peers.contains(&peer)).await
    }

    /// Removes all unbound routes.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn remove_all_unbound(&self) -> Result<(), Error> {
        self.remove_unbound_if(|_| true).await
    }

    async fn remove_unbound_if(&self, is_gone: impl Fn(Ulid) -> bool) -> Result<(), Error> {
        let mut routes = self.our_routes_in(self.settings.unbound_table()).await?;
        routes.retain(|route| is_gone(Ulid(route.destination.address())));
        self.delete_routes(&routes).await.map(drop)
    }

    /// Interface and router of the default route of the main table that the kernel chooses for a socket without an address. None
    /// if the choice is another route, or a multipath route.
    pub(crate) async fn first_way(
        &self,
        peer: Ulid,
    ) -> Result<Option<(u32, Option<Ipv6Addr>)>, Error> {
        let first = self.choice(peer, &self.plain_ways().await?).await?;
        Ok(first.and_then(|first| match first.hops[..] {
            [Hop { ifindex, gateway, .. }] => Some((ifindex, gateway)),
            _ => None,
        }))
    }

    /// The default routes of the main table that can be copied.
    async fn plain_ways(&self) -> Result<Vec<Way>, Error> {
        let rows = self.route_rows(Some(libc::RT_TABLE_MAIN)).await?;
        Ok(rows.iter().filter_map(|row| read_way(row, &self.settings)).collect())
    }

    /// The default route that the kernel chooses for a socket without an address. None if the choice is another route.
    async fn choice(&self, peer: Ulid, ways: &[Way]) -> Result<Option<Way>, Error> {
        let look_up = self.look_up(None, peer, None, RouteFlags::FibMatch);
        let Some(row) = look_up.await? else { return Ok(None) };
        let is_ours = row.u32(libc::RTA_TABLE) == Some(self.settings.unbound_table());
        if !is_ours && !is_default_route(&row, &self.settings) {
            return Ok(None);
        }
        let hops = live_hops(&row);
        Ok(ways.iter().find(|way| way.hops == hops).cloned())
    }

    /// The MTU that the kernel knows of the path between these addresses, for sockets that are bound to this interface or to
    /// none. None if the route has no MTU of its own.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub async fn path_mtu(
        &self,
        pair: UlidPair,
        ifindex: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        let row = self.look_up(Some(pair.local), pair.peer, ifindex, RouteFlags::empty()).await?;
        Ok(row.as_ref().and_then(read_mtu))
    }

    /// The route of a datagram; none if the host has none.
    async fn look_up(
        &self,
        from: Option<Ulid>,
        to: Ulid,
        ifindex: Option<u32>,
        flags: RouteFlags,
    ) -> Result<Option<Row>, Error> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: AddressFamily::Inet6,
            destination_prefix_length: 128,
            source_prefix_length: if from.is_some() { 128 } else { 0 },
            flags,
            ..RouteHeader::default()
        };
        let from = from.map(|from| RouteAttribute::Source(RouteAddress::Inet6(from.0)));
        message.attributes.extend(from);
        message.attributes.extend(ifindex.map(RouteAttribute::Oif));
        message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet6(to.0)));
        message.attributes.push(RouteAttribute::IpProto(UDP));
        match self.exchange.get(RouteNetlinkMessage::GetRoute(message)).await {
            Ok(rows) => Ok(rows.into_iter().next()),
            Err(error) if is_unreachable(&error) => Ok(None),
            Err(source) => Err(Error::Read { what: "route", source }),
        }
    }

    /// One copy for each default route: the kernel passes over a router that does not answer.
    fn copies(&self, peer: Ulid, mtu: u32, first: &Way, ways: &[Way]) -> Vec<Route> {
        let mut ways: Vec<&Way> = ways.iter().collect();
        ways.sort_by_key(|way| {
            (Reverse(way.hops == first.hops), way.route.metric, way.route.preference, &way.hops)
        });
        let ways = (Route::METRIC..).zip(ways).take(MOST);
        ways.map(|(metric, way)| Route {
            table: self.settings.unbound_table(),
            destination: Prefix::new(peer.0, 128),
            source: Some(Prefix::new(Ipv6Addr::UNSPECIFIED, 128)),
            metric,
            target: way.target(),
            preferred_source: way.route.preferred_source,
            mtu: Some(mtu),
            expires: Some(EXPIRES),
            protocol: self.settings.protocol,
        })
        .collect()
    }
}

/// A default route for all sources with its next hops: more than one if it is a multipath route.
#[derive(Clone, Debug)]
struct Way {
    route: DefaultRoute,
    /// See [`live_hops`].
    hops: Vec<Hop>,
}

impl Way {
    fn target(&self) -> Target {
        match self.hops[..] {
            [Hop { ifindex, gateway, .. }] => Target::Device { ifindex, gateway },
            _ => Target::Multipath(self.hops.clone()),
        }
    }
}

/// A default route for all sources. A tunnel cannot be copied.
fn read_way(row: &Row, settings: &Settings) -> Option<Way> {
    let (_, route) = read_default_routes(row, settings).into_iter().next()?;
    let hops = live_hops(row);
    let is_plain = route.source.is_none() && !hops.iter().any(|hop| hop.is_tunnel);
    (is_plain && !hops.is_empty()).then_some(Way { route, hops })
}

/// The next hops of a route that the kernel may choose, in the order of their interfaces: the kernel names that first which it has chosen for
/// the packet in question. It takes no new route by an interface that is down.
fn live_hops(row: &Row) -> Vec<Hop> {
    let mut hops = Hop::read_all(row);
    hops.retain(|hop| !hop.is_dead);
    hops.sort();
    // The one that is left has no part.
    if let [hop] = &mut hops[..] {
        hop.weight = 0;
    }
    hops
}

/// What routers say of the link (RFC 4861 s4.6.4) may be less than what the interface takes.
fn interface_mtu(names: &BTreeMap<u32, String>, ifindex: u32) -> u32 {
    let told = names.get(&ifindex).and_then(|name| Control::new(name, "mtu").read().ok());
    told.and_then(|text| text.parse().ok()).unwrap_or(u32::MAX)
}

fn is_unreachable(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES))
}

/// Copies for one peer.
const MOST: usize = 8;
/// Seconds, as the kernel keeps what a Packet Too Big has told (`net.ipv6.route.mtu_expires`).
const EXPIRES: u32 = 600;
/// Protocol number.
const UDP: u8 = 17;
