use crate::attributes::{Row, attribute, read_u32};
use crate::deaf::{BareLink, bare_links};
use crate::message::{Hop, RTAX_MTU};
use crate::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv6Addr;

/// The uplinks of the host at one moment, in order of their interface index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// Interfaces with a global address and a default route.
    pub uplinks: Vec<Uplink>,
    /// Interfaces that only lack a global address in use to be uplinks.
    pub candidates: Vec<Uplink>,
    /// Those of either kind that are somebody else's: see [`HostView::leave_alone`].
    pub left_alone: Vec<Uplink>,
    /// Interfaces that only lack a default route.
    pub bare: Vec<BareLink>,
    /// Routes of the main table that are no default routes. More than [`MAX_SPECIFIC`] are too many to be known all.
    pub specific: BTreeSet<SpecificRoute>,
    /// Whether both links of our pair are there and up.
    pub has_moor: bool,
    /// Addresses that contexts or sessions use. Empty as the kernel does not tell: the owner of the contexts fills it in
    /// before [`crate::Netlink::ensure_rules`].
    pub in_use: BTreeSet<Ipv6Addr>,
}

impl HostView {
    /// Only interfaces of these names are for us. Traffic from the prefixes of the others goes where it would go without us.
    pub fn leave_alone(&mut self, is_ours: impl Fn(&str) -> bool) {
        for interfaces in [&mut self.uplinks, &mut self.candidates] {
            self.left_alone.extend(interfaces.extract_if(.., |one| !is_ours(&one.name)));
        }
        self.bare.retain(|one| is_ours(&one.name));
    }

    /// The uplink with this interface index.
    #[must_use]
    pub fn uplink(&self, ifindex: u32) -> Option<&Uplink> {
        self.uplinks.iter().find(|uplink| uplink.ifindex == ifindex)
    }

    /// The uplink that has this address.
    #[must_use]
    pub fn uplink_of(&self, address: Ipv6Addr) -> Option<&Uplink> {
        self.uplinks.iter().find(|uplink| uplink.has(address))
    }
}

/// A route of the main table that is no default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpecificRoute {
    /// Where packets go to.
    pub destination: Prefix,
    /// The sources that it is for, if not for all.
    pub source: Option<Prefix>,
    /// Metric: the lowest wins.
    pub metric: u32,
    /// Interface and router; none if it is a multipath route, or leads nowhere.
    pub way: Option<(u32, Option<Ipv6Addr>)>,
    /// The MTU of the route, if it has one of its own.
    pub mtu: Option<u32>,
}

/// An interface that leads to the Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Index of the interface.
    pub ifindex: u32,
    /// Name of the interface.
    pub name: String,
    /// Whether the link layer works.
    pub carrier: bool,
    /// MTU of the interface, octets.
    pub mtu: u32,
    /// Router of the default route with the lowest metric; none on a point-to-point link.
    pub gateway: Option<Ipv6Addr>,
    /// All default routes through the interface, the one with the lowest metric first.
    pub default_routes: Vec<DefaultRoute>,
    /// Global addresses, those not in use (tentative, deprecated) included.
    pub addresses: Vec<UplinkAddress>,
    /// Routers that advertise a prefix. Empty as the kernel does not tell: for who listens to
    /// [`crate::Advertisements`] to fill in before [`crate::Netlink::ensure_rules`].
    pub advertisers: Vec<(Prefix, Ipv6Addr)>,
}

impl Uplink {
    /// An Ethernet interface that works, and has neither routes nor addresses yet.
    #[must_use]
    pub fn new(ifindex: u32, name: impl Into<String>) -> Self {
        Self {
            ifindex,
            name: name.into(),
            carrier: true,
            mtu: 1500,
            gateway: None,
            default_routes: Vec::new(),
            addresses: Vec::new(),
            advertisers: Vec::new(),
        }
    }

    /// Whether this address is on the interface.
    #[must_use]
    pub fn has(&self, address: Ipv6Addr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }

    /// Where packets from one of its addresses leave the host to, if that is a router.
    #[must_use]
    pub fn next_hop(&self, source: Ipv6Addr) -> Option<NextHop> {
        let own = self.addresses.iter().find(|own| own.address == source)?;
        let gateway = self.gateway_for(own.prefix())?.gateway?;
        Some(NextHop { ifindex: self.ifindex, gateway })
    }

    /// The router for packets from this prefix: that of a default route for the source, else one that
    /// advertises the prefix (RFC 8028 s3.1), else the general one.
    pub(crate) fn gateway_for(&self, prefix: Prefix) -> Option<&DefaultRoute> {
        let general = || self.default_routes.iter().filter(|route| route.source.is_none());
        let is_for = |route: &&DefaultRoute| route.source.is_some_and(|from| from.covers(prefix));
        let advertises = |route: &&DefaultRoute| {
            self.advertisers.iter().any(|(advertised, router)| {
                advertised.covers(prefix) && route.gateway == Some(*router)
            })
        };
        let special = self.default_routes.iter().find(is_for);
        special.or_else(|| general().find(advertises)).or_else(|| general().next())
    }
}

/// A router, and the uplink that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the interface.
    pub ifindex: u32,
    /// The router.
    pub gateway: Ipv6Addr,
}

/// A default route through an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultRoute {
    /// Metric: the lowest wins.
    pub metric: u32,
    /// The router; none on a point-to-point link.
    pub gateway: Option<Ipv6Addr>,
    /// The sources that it is for, if not for all.
    pub source: Option<Prefix>,
    /// The preference that the router gives itself (RFC 4191 s2.1): 0 high, 1 medium, 2 low.
    pub preference: u8,
    /// The source address of a socket that has none.
    pub preferred_source: Option<Ipv6Addr>,
    /// The MTU of the route, if it has one of its own.
    pub mtu: Option<u32>,
}

impl DefaultRoute {
    /// A route for all sources of which nothing more is known.
    #[must_use]
    pub const fn new(metric: u32, gateway: Option<Ipv6Addr>) -> Self {
        Self { metric, gateway, source: None, preference: 1, preferred_source: None, mtu: None }
    }
}

/// A global address of an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkAddress {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix, bits.
    pub prefix_len: u8,
    /// What the kernel says of it.
    pub flags: AddressFlags,
    /// Whether it can be used for new traffic: not tentative, deprecated or a duplicate.
    pub preferred: bool,
    /// How long it can be used.
    pub lifetimes: Lifetimes,
}

impl UplinkAddress {
    /// What the flags say decides whether it can be used for new traffic.
    #[must_use]
    pub const fn new(
        address: Ipv6Addr,
        prefix_len: u8,
        flags: AddressFlags,
        lifetimes: Lifetimes,
    ) -> Self {
        Self { address, prefix_len, flags, preferred: flags.is_preferred(), lifetimes }
    }

    /// The prefix that the address is in.
    #[must_use]
    pub const fn prefix(&self) -> Prefix {
        Prefix::new(self.address, self.prefix_len)
    }
}

/// `IFA_F_*` flags of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressFlags(pub u32);

impl AddressFlags {
    /// Duplicate address detection found another owner.
    pub const DAD_FAILED: Self = Self(libc::IFA_F_DADFAILED);
    /// Preferred lifetime is over: no new traffic.
    pub const DEPRECATED: Self = Self(libc::IFA_F_DEPRECATED);
    /// Duplicate address detection is not over.
    pub const TENTATIVE: Self = Self(libc::IFA_F_TENTATIVE);
    /// Usable before duplicate address detection is over.
    pub const OPTIMISTIC: Self = Self(libc::IFA_F_OPTIMISTIC);
    /// Made from a prefix for privacy, short-lived.
    pub const TEMPORARY: Self = Self(libc::IFA_F_TEMPORARY);
    /// Set by hand, without a lifetime.
    pub const PERMANENT: Self = Self(libc::IFA_F_PERMANENT);

    /// Whether all of the other's flags are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether an address with these flags can be the source of new traffic.
    #[must_use]
    pub const fn is_preferred(self) -> bool {
        self.is_usable() && !self.contains(Self::DEPRECATED)
    }

    /// Whether an address with these flags can be sent from. A deprecated one can: RFC 4862 s5.5.4 leaves it to what uses it.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        !self.contains(Self::DAD_FAILED)
            && (!self.contains(Self::TENTATIVE) || self.contains(Self::OPTIMISTIC))
    }
}

/// Lifetimes of an address in seconds; `u32::MAX` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// For new traffic.
    pub preferred: u32,
    /// For any traffic.
    pub valid: u32,
}

impl Lifetimes {
    /// Of an address that was set without any.
    pub const FOREVER: Self = Self { preferred: u32::MAX, valid: u32::MAX };
}

/// An IPv6 prefix; the bits behind its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: Ipv6Addr,
    length: u8,
}

impl Prefix {
    /// The prefix of this length that the address is in; lengths above 128 count as 128.
    #[must_use]
    pub const fn new(address: Ipv6Addr, length: u8) -> Self {
        let length = if length > 128 { 128 } else { length };
        let mask = match u128::MAX.checked_shl(128 - length as u32) {
            Some(mask) => mask,
            None => 0,
        };
        Self { address: Ipv6Addr::from_bits(address.to_bits() & mask), length }
    }

    /// Its first address.
    #[must_use]
    pub const fn address(self) -> Ipv6Addr {
        self.address
    }

    /// Its length in bits.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether the address is in it.
    #[must_use]
    pub fn contains(self, address: Ipv6Addr) -> bool {
        Self::new(address, self.length) == self
    }

    /// Whether all addresses of the other are in it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

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
