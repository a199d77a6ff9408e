use crate::address::flags_of;
use crate::message::{Hop, mtu, table};
use crate::row::{Row, read_u32};
use crate::settings::{LINK_NAMES, PROTOCOL};
use moorline_addresses::{
    DefaultRoute, HostView, Lifetimes, MAX_DEFAULT_ROUTES, MAX_SPECIFIC, SpecificRoute, Uplink,
    UplinkAddress,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// The interfaces that could be uplinks, as read from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interfaces {
    /// Interfaces by index.
    pub(crate) all: BTreeMap<u32, Uplink>,
    /// View of the interfaces that are uplinks now.
    pub(crate) view: HostView,
}

impl Interfaces {
    /// Combines the three dumps. Of too many default routes those that were there `before` stay.
    pub(crate) fn read(links: &[Row], addresses: &[Row], routes: &[Row], before: &Self) -> Self {
        let uplinks = links.iter().filter_map(read_link);
        let mut all: BTreeMap<u32, _> = uplinks.map(|uplink| (uplink.ifindex, uplink)).collect();
        for row in addresses {
            let Some(uplink) = all.get_mut(&row.header_u32(4)) else { continue };
            uplink.addresses.extend(read_uplink_address(row));
        }
        let mut default_routes = default_routes(routes);
        for uplink in all.values_mut() {
            uplink.addresses.sort_by_key(|own| own.address);
            let known = before.all.get(&uplink.ifindex).map(|one| &*one.default_routes);
            let found = default_routes.remove(&uplink.ifindex).unwrap_or_default();
            uplink.default_routes = at_most(found, known.unwrap_or_default());
            let general = uplink.default_routes.iter().find(|route| route.source.is_none());
            uplink.gateway =
                general.or(uplink.default_routes.first()).and_then(|route| route.gateway);
        }
        let ports: BTreeSet<u32> = links
            .iter()
            .filter(|row| row.attribute(libc::IFLA_MASTER).is_some())
            .map(|row| row.header_u32(4))
            .collect();
        let bare = bare_links(all.values(), &ports, addresses);
        let is_moor = |row: &&Row| row.header_u32(8) & IFF_UP != 0 && is_our_link(row);
        let has_moor = links.iter().filter(is_moor).count() == 2;
        let dead = all.values().filter(|one| one.default_routes.is_empty() && !one.carrier);
        let dead = dead.map(|one| one.ifindex).collect();
        let mut view = HostView { bare, dead, has_moor, ..HostView::default() };
        for one in routes.iter().filter_map(read_specific) {
            view.specific.insert(one);
            if view.specific.len() > MAX_SPECIFIC {
                break;
            }
        }
        for interface in all.values().filter(|one| !one.default_routes.is_empty()) {
            if is_uplink(interface) {
                view.uplinks.push(interface.clone());
            } else if !ports.contains(&interface.ifindex) {
                // The default route of a port is left from the time before it was a port.
                view.candidates.push(interface.clone());
            }
        }
        Self { all, view }
    }
}

/// The default routes in rows of the main table, by interface, each with whether a Router Advertisement brought it. While routes come
/// and go, the kernel names the same route several times.
fn default_routes(rows: &[Row]) -> BTreeMap<u32, BTreeMap<DefaultRoute, bool>> {
    let mut found = BTreeMap::<_, BTreeMap<_, _>>::new();
    for row in rows {
        let is_advertised = row.byte(5) == RTPROT_RA;
        for (ifindex, route) in read_default_routes(row) {
            found.entry(ifindex).or_default().insert(route, is_advertised);
        }
    }
    found
}

/// The default routes of an interface in their order, up to [`MAX_DEFAULT_ROUTES`]. Any node on the link can advertise more, so
/// those that somebody has set, and those that were `known`, come first.
fn at_most(found: BTreeMap<DefaultRoute, bool>, known: &[DefaultRoute]) -> Vec<DefaultRoute> {
    let is_new =
        |(route, is_advertised): &(DefaultRoute, bool)| *is_advertised && !known.contains(route);
    let (new, old): (Vec<_>, Vec<_>) = found.into_iter().partition(is_new);
    let mut kept: Vec<_> =
        old.into_iter().chain(new).map(|(route, _)| route).take(MAX_DEFAULT_ROUTES).collect();
    kept.sort();
    kept
}

pub(crate) fn is_uplink(interface: &Uplink) -> bool {
    // When a network renumbers, all addresses are deprecated before the new ones are usable; connections continue
    // meanwhile.
    let is_usable = |own: &UplinkAddress| own.flags.is_usable();
    !interface.default_routes.is_empty() && interface.addresses.iter().any(is_usable)
}

/// Interfaces that have a carrier and no default route, and are no ports, with their link-local addresses.
fn bare_links<'a>(
    interfaces: impl Iterator<Item = &'a Uplink>,
    ports: &BTreeSet<u32>,
    addresses: &[Row],
) -> Vec<Uplink> {
    let bare = interfaces.filter(|one| {
        one.default_routes.is_empty() && one.carrier && !ports.contains(&one.ifindex)
    });
    bare.map(|one| Uplink {
        link_locals: addresses
            .iter()
            .filter(|row| row.header_u32(4) == one.ifindex)
            .filter_map(|row| row.address(libc::IFA_ADDRESS))
            .filter(Ipv6Addr::is_unicast_link_local)
            .collect(),
        ..one.clone()
    })
    .collect()
}

/// Reads an interface that is up, and neither the loopback nor ours.
fn read_link(row: &Row) -> Option<Uplink> {
    let flags = row.header_u32(8);
    let name = row.text(libc::IFLA_IFNAME)?;
    let up = flags & IFF_UP != 0 && flags & IFF_LOOPBACK == 0;
    (up && !is_our_link(row)).then(|| Uplink {
        carrier: flags & IFF_LOWER_UP != 0,
        has_neighbors: flags & (IFF_POINTOPOINT | IFF_NOARP) == 0,
        mtu: row.u32(libc::IFLA_MTU).unwrap_or_default(),
        ..Uplink::new(row.header_u32(4), name)
    })
}

/// Reads an address of global scope. For the kernel, unique local addresses (fc00::/7) have this scope too. If an
/// uplink has a default route, they count as addresses that the operator wants to use.
fn read_uplink_address(row: &Row) -> Option<UplinkAddress> {
    (row.is_ipv6() && row.byte(3) == libc::RT_SCOPE_UNIVERSE).then_some(())?;
    let address = row.address(libc::IFA_LOCAL).or_else(|| row.address(libc::IFA_ADDRESS))?;
    let flags = flags_of(row);
    let cache = row.attribute(libc::IFA_CACHEINFO).unwrap_or_default();
    let lifetimes = Lifetimes {
        preferred: read_u32(cache).unwrap_or(u32::MAX),
        valid: cache.get(4..).and_then(read_u32).unwrap_or(u32::MAX),
    };
    let created = cache.get(8..).and_then(read_u32).unwrap_or_default();
    Some(UplinkAddress { created, ..UplinkAddress::new(address, row.byte(1), flags, lifetimes) })
}

/// Whether a row is a default route of the main table that is not ours.
pub(crate) fn is_default_route(row: &Row) -> bool {
    row.byte(1) == 0 && row.byte(7) == libc::RTN_UNICAST && is_in_main_table(row)
}

/// Whether a row is a route of the main table that is not ours.
fn is_in_main_table(row: &Row) -> bool {
    row.is_ipv6()
        && table(row) == u32::from(libc::RT_TABLE_MAIN)
        && row.byte(5) != PROTOCOL
        && row.header_u32(8) & libc::RTM_F_CLONED == 0
}

fn read_specific(row: &Row) -> Option<SpecificRoute> {
    (row.byte(1) > 0 && is_in_main_table(row)).then_some(())?;
    let is_plain = row.byte(7) == libc::RTN_UNICAST && row.attribute(libc::RTA_ENCAP).is_none();
    let ifindex = row.u32(libc::RTA_OIF).filter(|_| is_plain);
    Some(SpecificRoute {
        destination: row.prefix(libc::RTA_DST, 1)?,
        source: row.prefix(libc::RTA_SRC, 2),
        metric: row.u32(libc::RTA_PRIORITY).unwrap_or_default(),
        way: ifindex.map(|ifindex| (ifindex, row.address(libc::RTA_GATEWAY))),
        mtu: mtu(row),
    })
}

/// Default routes in a row of the main table, each with its interface. A multipath route has more than one.
pub(crate) fn read_default_routes(row: &Row) -> Vec<(u32, DefaultRoute)> {
    if !is_default_route(row) {
        return Vec::new();
    }
    let metric = row.u32(libc::RTA_PRIORITY).unwrap_or_default();
    let route = |gateway| DefaultRoute {
        source: row.prefix(libc::RTA_SRC, 2),
        preference: match row.u8(libc::RTA_PREF) {
            Some(1) => 0,
            Some(3) => 2,
            _ => 1,
        },
        preferred_source: row.address(libc::RTA_PREFSRC),
        mtu: mtu(row),
        ..DefaultRoute::new(metric, gateway)
    };
    Hop::read_all(row).into_iter().map(|hop| (hop.ifindex, route(hop.gateway))).collect()
}

/// Whether a link has the name of one of ours.
pub(crate) fn is_our_link(row: &Row) -> bool {
    row.text(libc::IFLA_IFNAME).is_some_and(|name| LINK_NAMES.contains(&name.as_str()))
}

/// Origin of a route that a Router Advertisement brought (linux/rtnetlink.h).
const RTPROT_RA: u8 = 9;
pub(crate) const IFF_UP: u32 = libc::IFF_UP.cast_unsigned();
const IFF_POINTOPOINT: u32 = libc::IFF_POINTOPOINT.cast_unsigned();
const IFF_NOARP: u32 = libc::IFF_NOARP.cast_unsigned();
const IFF_LOOPBACK: u32 = libc::IFF_LOOPBACK.cast_unsigned();
const IFF_LOWER_UP: u32 = libc::IFF_LOWER_UP.cast_unsigned();

#[cfg(test)]
pub(crate) mod tests;
