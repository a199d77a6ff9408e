use crate::attributes::{Row, attribute, read_u32};
use crate::deaf::bare_links;
use crate::message::{Hop, RTAX_MTU};
use crate::settings::Settings;
use moorline_addresses::{
    AddressFlags, BareLink, DefaultRoute, HostView, Lifetimes, SpecificRoute, Uplink, UplinkAddress,
};
use moorline_types::Prefix;
use std::collections::{BTreeMap, BTreeSet};

/// All that was read of the interfaces that could be uplinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interfaces {
    /// By interface index.
    pub(crate) all: BTreeMap<u32, Uplink>,
    pub(crate) bare: Vec<BareLink>,
    pub(crate) specific: BTreeSet<SpecificRoute>,
    /// See [`HostView::has_moor`].
    pub(crate) has_moor: bool,
}

impl Interfaces {
    /// Puts together what the three dumps say.
    pub(crate) fn read(
        links: &[Row],
        addresses: &[Row],
        routes: &[Row],
        settings: &Settings,
    ) -> Self {
        let mut all: BTreeMap<u32, Uplink> = BTreeMap::new();
        for row in links {
            all.extend(read_link(row, settings).map(|uplink| (uplink.ifindex, uplink)));
        }
        for row in addresses {
            let Some(uplink) = all.get_mut(&row.header_u32(4)) else { continue };
            uplink.addresses.extend(read_uplink_address(row));
        }
        for row in routes {
            for (ifindex, route) in read_default_routes(row, settings) {
                let Some(uplink) = all.get_mut(&ifindex) else { continue };
                uplink.default_routes.push(route);
            }
        }
        for uplink in all.values_mut() {
            uplink.addresses.sort_by_key(|own| own.address);
            uplink.default_routes.sort();
            let general = uplink.default_routes.iter().find(|route| route.source.is_none());
            uplink.gateway =
                general.or(uplink.default_routes.first()).and_then(|route| route.gateway);
        }
        let bare = bare_links(all.values(), links, addresses);
        let mut specific = BTreeSet::new();
        let found = routes.iter().filter_map(|row| read_specific(row, settings));
        for one in found {
            specific.insert(one);
            if specific.len() > MAX_SPECIFIC {
                break;
            }
        }
        let is_moor = |row: &&Row| {
            let name = row.text(libc::IFLA_IFNAME);
            row.header_u32(8) & IFF_UP != 0 && name.is_some_and(|name| settings.is_our_link(&name))
        };
        let has_moor = links.iter().filter(is_moor).count() == 2;
        Self { all, bare, specific, has_moor }
    }

    /// Those that are uplinks now.
    pub(crate) fn view(&self) -> HostView {
        let (bare, specific) = (self.bare.clone(), self.specific.clone());
        let mut view = HostView { bare, specific, has_moor: self.has_moor, ..HostView::default() };
        for interface in self.all.values().filter(|one| !one.default_routes.is_empty()) {
            let kind = if is_uplink(interface) { &mut view.uplinks } else { &mut view.candidates };
            kind.push(interface.clone());
        }
        view
    }
}

pub(crate) fn is_uplink(interface: &Uplink) -> bool {
    // Renumbering deprecates all addresses before the new ones are usable; connections go on meanwhile.
    let is_usable = |own: &UplinkAddress| own.flags.is_usable();
    !interface.default_routes.is_empty() && interface.addresses.iter().any(is_usable)
}

/// An interface that is up and neither the loopback nor ours.
fn read_link(row: &Row, settings: &Settings) -> Option<Uplink> {
    let flags = row.header_u32(8);
    let name = row.text(libc::IFLA_IFNAME)?;
    let up = flags & IFF_UP != 0 && flags & IFF_LOOPBACK == 0;
    (up && !settings.is_our_link(&name)).then(|| Uplink {
        carrier: flags & IFF_LOWER_UP != 0,
        mtu: row.u32(libc::IFLA_MTU).unwrap_or_default(),
        ..Uplink::new(row.header_u32(4), name)
    })
}

/// An address of global scope. The kernel counts unique local ones (fc00::/7) among them; as an
/// uplink has a default route they are taken for what the operator wants to use.
fn read_uplink_address(row: &Row) -> Option<UplinkAddress> {
    let (family, prefix_len, scope) = (row.byte(0), row.byte(1), row.byte(3));
    if i32::from(family) != libc::AF_INET6 || scope != libc::RT_SCOPE_UNIVERSE {
        return None;
    }
    let address = row.address(libc::IFA_LOCAL).or_else(|| row.address(libc::IFA_ADDRESS))?;
    let flags = AddressFlags(row.u32(libc::IFA_FLAGS).unwrap_or_else(|| row.byte(2).into()));
    let cache = row.attribute(libc::IFA_CACHEINFO).unwrap_or_default();
    let lifetimes = Lifetimes {
        preferred: read_u32(cache).unwrap_or(u32::MAX),
        valid: cache.get(4..).and_then(read_u32).unwrap_or(u32::MAX),
    };
    Some(UplinkAddress::new(address, prefix_len, flags, lifetimes))
}

/// Whether a row is a default route of the main table that is not ours.
pub(crate) fn is_default_route(row: &Row, settings: &Settings) -> bool {
    row.byte(1) == 0 && row.byte(7) == libc::RTN_UNICAST && is_in_main_table(row, settings)
}

/// Whether a row is a route of the main table that is not ours.
fn is_in_main_table(row: &Row, settings: &Settings) -> bool {
    let table = row.u32(libc::RTA_TABLE).unwrap_or_else(|| row.byte(4).into());
    i32::from(row.byte(0)) == libc::AF_INET6
        && table == u32::from(libc::RT_TABLE_MAIN)
        && row.byte(5) != settings.protocol
        && row.header_u32(8) & RTM_F_CLONED == 0
}

fn read_specific(row: &Row, settings: &Settings) -> Option<SpecificRoute> {
    (row.byte(1) > 0 && is_in_main_table(row, settings)).then_some(())?;
    let is_plain = row.byte(7) == libc::RTN_UNICAST && row.attribute(RTA_ENCAP).is_none();
    let ifindex = row.u32(libc::RTA_OIF).filter(|_| is_plain);
    Some(SpecificRoute {
        destination: Prefix::new(row.address(libc::RTA_DST)?, row.byte(1)),
        source: row.address(libc::RTA_SRC).map(|from| Prefix::new(from, row.byte(2))),
        metric: row.u32(libc::RTA_PRIORITY).unwrap_or_default(),
        way: ifindex.map(|ifindex| (ifindex, row.address(libc::RTA_GATEWAY))),
        mtu: read_mtu(row),
    })
}

/// The default routes in a row of the main table, each with its interface: more than one if multipath.
pub(crate) fn read_default_routes(row: &Row, settings: &Settings) -> Vec<(u32, DefaultRoute)> {
    if !is_default_route(row, settings) {
        return Vec::new();
    }
    let metric = row.u32(libc::RTA_PRIORITY).unwrap_or_default();
    let source = row.address(libc::RTA_SRC).map(|from| Prefix::new(from, row.byte(2)));
    let route = |gateway| DefaultRoute {
        source,
        preference: match row.u8(RTA_PREF) {
            Some(1) => 0,
            Some(3) => 2,
            _ => 1,
        },
        preferred_source: row.address(libc::RTA_PREFSRC),
        mtu: read_mtu(row),
        ..DefaultRoute::new(metric, gateway)
    };
    Hop::read_all(row).into_iter().map(|hop| (hop.ifindex, route(hop.gateway))).collect()
}

pub(crate) fn read_mtu(row: &Row) -> Option<u32> {
    attribute(row.attribute(libc::RTA_METRICS)?, RTAX_MTU).and_then(read_u32)
}

/// Routes of the main table that are known. A host with more is a router.
pub const MAX_SPECIFIC: usize = 256;
/// A route that puts its packets into others: a tunnel.
pub(crate) const RTA_ENCAP: u16 = 22;
const RTA_PREF: u16 = 20;
const IFF_UP: u32 = libc::IFF_UP.cast_unsigned();
const IFF_LOOPBACK: u32 = libc::IFF_LOOPBACK.cast_unsigned();
const IFF_LOWER_UP: u32 = 1 << 16;
const RTM_F_CLONED: u32 = 0x200;

#[cfg(test)]
pub(crate) mod tests;
