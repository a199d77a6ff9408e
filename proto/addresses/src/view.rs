use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{Locator, Prefix};

/// The uplinks of the host at one moment, in order of their interface index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostView {
    /// Interfaces with a global address and a default route.
    pub uplinks: Vec<Uplink>,
    /// Interfaces that only lack a global address in use to be uplinks.
    pub candidates: Vec<Uplink>,
    /// Uplinks and candidates that belong to others: see [`HostView::leave_alone`].
    pub left_alone: Vec<Uplink>,
    /// Interfaces that are up and have a carrier, and lack a default route. Ports of a bridge are not among them.
    pub bare: Vec<Uplink>,
    /// Interfaces that are up, without a default route and without a carrier.
    pub dead: BTreeSet<u32>,
    /// Routes of the main table without default routes. Beyond [`MAX_SPECIFIC`] not all are known.
    pub specific: BTreeSet<SpecificRoute>,
    /// Destinations for which contexts and sessions keep their link, although a newer specific route leads by another
    /// one. Empty when the view comes from the kernel, like `in_use`.
    pub detours: BTreeSet<Prefix>,
    /// Whether both links of the pair `moor0` and `moor1` exist and are up.
    pub has_moor: bool,
    /// Addresses that contexts or sessions use. Empty when the view comes from the kernel: the owner of the contexts
    /// fills it in before source-address rules are made.
    pub in_use: BTreeSet<Ipv6Addr>,
}

impl HostView {
    /// Leaves only interfaces of these names to us. Traffic from the prefixes of the others goes where it would go
    /// without us.
    pub fn leave_alone(&mut self, is_ours: impl Fn(&str) -> bool) {
        for interfaces in [&mut self.uplinks, &mut self.candidates] {
            self.left_alone.extend(interfaces.extract_if(.., |one| !is_ours(&one.name)));
        }
        self.bare.retain(|one| is_ours(&one.name));
    }

    /// A view with only the uplinks among these interfaces, and the candidates.
    #[must_use]
    pub fn only_on(&self, interfaces: &BTreeSet<u32>) -> Self {
        let is_among = |uplink: &&Uplink| interfaces.contains(&uplink.ifindex);
        let uplinks = self.uplinks.iter().filter(is_among).cloned().collect();
        Self { uplinks, candidates: self.candidates.clone(), ..Self::default() }
    }

    /// The uplink with this interface index.
    #[must_use]
    pub fn uplink(&self, ifindex: u32) -> Option<&Uplink> {
        self.uplinks.iter().find(|uplink| uplink.ifindex == ifindex)
    }

    /// The uplink with this address.
    #[must_use]
    pub fn uplink_of(&self, address: Ipv6Addr) -> Option<&Uplink> {
        self.uplinks.iter().find(|uplink| uplink.has(address))
    }

    /// The specific routes that lead somewhere: routes by an interface without a carrier are left out.
    pub fn specific_in_force(&self) -> impl Iterator<Item = &SpecificRoute> + Clone {
        let interfaces = [&self.uplinks, &self.candidates, &self.left_alone].into_iter().flatten();
        let dead = interfaces.filter(|one| !one.carrier).map(|one| one.ifindex);
        let dead: BTreeSet<_> = dead.chain(self.dead.iter().copied()).collect();
        let leads = move |way: Option<(u32, _)>| way.is_none_or(|(by, _)| !dead.contains(&by));
        self.specific.iter().filter(move |route| leads(route.way))
    }

    /// The specific routes that packets from addresses of other uplinks follow as well: those in force, without the
    /// detours.
    pub fn specific_for_all(&self) -> impl Iterator<Item = &SpecificRoute> {
        self.specific_in_force().filter(|one| !self.detours.contains(&one.destination))
    }

    /// The next hop of packets from this address of an uplink to `peer` by a specific route of the uplink, if there
    /// is one. On a detour the older routes count.
    #[must_use]
    pub fn specific_hop(
        &self,
        uplink: &Uplink,
        source: Ipv6Addr,
        peer: Ipv6Addr,
    ) -> Option<NextHop> {
        let is_followed = |route: &&SpecificRoute| {
            route.is_by(uplink.ifindex) || !self.detours.contains(&route.destination)
        };
        let best = deciding(self.specific_in_force().filter(is_followed), source, peer);
        let by_it = best.filter(|route| route.is_by(uplink.ifindex));
        let (_, gateway) = by_it.min_by_key(|route| route.metric)?.way?;
        Some(NextHop { ifindex: uplink.ifindex, gateway: gateway.unwrap_or(peer) })
    }

    /// Links without a default route whose prefixes have addresses in use: peers on such a link need no router.
    pub fn bare_in_use(&self) -> impl Iterator<Item = &Uplink> {
        let is_used = |own: &UplinkAddress| {
            let prefix = own.prefix();
            // The set is in the order of addresses, so one look finds an address in the prefix: a host may have very
            // many in use.
            let next = self.in_use.range(prefix.address()..).next();
            next.is_some_and(|used| prefix.contains(*used))
        };
        self.bare.iter().filter(move |link| link.addresses.iter().any(is_used))
    }

    /// The default routes of all interfaces that are for all sources, in the order of their metrics.
    #[must_use]
    pub fn default_ways(&self) -> DefaultWays {
        let interfaces = [&self.uplinks, &self.candidates, &self.left_alone].into_iter().flatten();
        let mut ways: DefaultWays = interfaces
            .flat_map(|one| one.default_routes.iter().map(|route| (one.ifindex, *route)))
            .filter(|(_, route)| route.source.is_none())
            .collect();
        ways.sort_by_key(|(ifindex, route)| (route.metric, *ifindex, route.gateway));
        ways
    }
}

/// The routes that decide about packets from `source` to `peer`: those to the longest prefix.
pub fn deciding<'a>(
    routes: impl Iterator<Item = &'a SpecificRoute> + Clone,
    source: Ipv6Addr,
    peer: Ipv6Addr,
) -> impl Iterator<Item = &'a SpecificRoute> {
    let is_for = move |route: &&SpecificRoute| {
        let is_source = route.source.is_none_or(|from| from.contains(source));
        route.destination.contains(peer) && is_source
    };
    let leading = routes.filter(is_for);
    let longest = leading.clone().map(|route| route.destination.length()).max();
    leading.filter(move |route| Some(route.destination.length()) == longest)
}

/// Largest number of routes of the main table that are known. A host with more is a router.
pub const MAX_SPECIFIC: usize = 256;

/// Largest number of default routes of an interface that are known: 32. Any node on a link can have the kernel add some.
pub const MAX_DEFAULT_ROUTES: usize = 32;

/// Default routes of the host, each with its interface.
pub type DefaultWays = Vec<(u32, DefaultRoute)>;

/// A route of the main table that is not a default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpecificRoute {
    /// Destination of the packets.
    pub destination: Prefix,
    /// Sources of the packets; `None` for all sources.
    pub source: Option<Prefix>,
    /// Metric: the lowest wins.
    pub metric: u32,
    /// Interface and router; `None` if the route is a multipath route, or leads nowhere.
    pub way: Option<(u32, Option<Ipv6Addr>)>,
    /// MTU of the route, if it sets one.
    pub mtu: Option<u32>,
}

impl SpecificRoute {
    /// Whether the route leads by this interface.
    #[must_use]
    pub fn is_by(&self, ifindex: u32) -> bool {
        self.way.is_some_and(|(by, _)| by == ifindex)
    }
}

/// An interface that leads to the Internet, or lacks little to do so.
///
/// An interface without a default route is *deaf* if the host forwards on it and `accept_ra` is 1: then the kernel
/// ignores Router Advertisements. When forwarding is switched on, the kernel removes the default routes of such
/// interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Index of the interface.
    pub ifindex: u32,
    /// Name of the interface.
    pub name: String,
    /// Whether the link layer works.
    pub carrier: bool,
    /// Whether hosts on the link find each other by Neighbor Discovery. On a tunnel or PPP link the other end assigns
    /// each address.
    pub has_neighbors: bool,
    /// MTU of the interface, octets.
    pub mtu: u32,
    /// Router of the default route with the lowest metric; `None` on a point-to-point link.
    pub gateway: Option<Ipv6Addr>,
    /// Default routes through the interface, the one with the lowest metric first. Beyond [`MAX_DEFAULT_ROUTES`] not all are known.
    pub default_routes: Vec<DefaultRoute>,
    /// Global addresses, also those not in use (tentative, deprecated).
    pub addresses: Vec<UplinkAddress>,
    /// Routers that advertise a prefix. Empty when the view comes from the kernel: the listener to advertisements
    /// fills it in before source-address rules are made.
    pub advertisers: Vec<(Prefix, Ipv6Addr)>,
    /// Link-local addresses, the sources of this host's own advertisements. Only interfaces without a default route
    /// have them here.
    pub link_locals: BTreeSet<Ipv6Addr>,
}

impl Uplink {
    /// Makes an Ethernet interface that works, and has neither routes nor addresses yet.
    #[must_use]
    pub fn new(ifindex: u32, name: impl Into<String>) -> Self {
        Self {
            ifindex,
            name: name.into(),
            carrier: true,
            has_neighbors: true,
            mtu: 1500,
            gateway: None,
            default_routes: Vec::new(),
            addresses: Vec::new(),
            advertisers: Vec::new(),
            link_locals: BTreeSet::new(),
        }
    }

    /// Adds a router, and addresses without an end, each with a prefix of 64 bits.
    #[must_use]
    pub fn reached(
        mut self,
        router: Ipv6Addr,
        addresses: impl IntoIterator<Item = Ipv6Addr>,
    ) -> Self {
        self.gateway = Some(router);
        self.default_routes.push(DefaultRoute::new(1024, self.gateway));
        let lasting =
            |address| UplinkAddress::new(address, 64, AddressFlags::PERMANENT, Lifetimes::FOREVER);
        self.addresses.extend(addresses.into_iter().map(lasting));
        self
    }

    /// The prefixes of 64 bits in which the interface has addresses, each with the time when the oldest one of them was
    /// added.
    #[must_use]
    pub fn prefixes_since(&self) -> BTreeMap<[u8; 8], u32> {
        let mut all = BTreeMap::new();
        for own in &self.addresses {
            let since = all.entry(Locator(own.address).prefix()).or_insert(own.created);
            *since = own.created.min(*since);
        }
        all
    }

    /// Whether the interface has addresses of several networks and default routes by several routers. If one of these
    /// routers fails, another path is left.
    #[must_use]
    pub fn has_ways(&self) -> bool {
        let networks: BTreeSet<_> =
            self.addresses.iter().map(|own| Prefix::new(own.address, 64)).collect();
        let routers: BTreeSet<_> =
            self.default_routes.iter().filter_map(|route| route.gateway).collect();
        networks.len() > 1 && routers.len() > 1
    }

    /// Whether the interface has a global address with an end: the kernel has followed a router there.
    #[must_use]
    pub fn has_dynamic(&self) -> bool {
        self.addresses.iter().any(|own| !own.flags.contains(AddressFlags::PERMANENT))
    }

    /// The controls that make the interface deaf, and their values.
    #[must_use]
    pub fn evidence(&self) -> String {
        format!("{} = 1, accept_ra = 1", self.control("forwarding"))
    }

    /// The command that makes the kernel follow routers on this interface.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("sysctl -w {}=2", self.control("accept_ra"))
    }

    /// Path of a control for `sysctl`: if the interface's name has a dot, slashes separate the parts.
    fn control(&self, name: &str) -> String {
        let separator = if self.name.contains('.') { "/" } else { "." };
        ["net", "ipv6", "conf", &self.name, name].join(separator)
    }

    /// Whether this address is on the interface.
    #[must_use]
    pub fn has(&self, address: Ipv6Addr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }

    /// The router that packets from one of the interface's addresses leave to.
    #[must_use]
    pub fn next_hop(&self, source: Ipv6Addr) -> Option<NextHop> {
        let own = self.addresses.iter().find(|own| own.address == source)?;
        let gateway = self.gateway_for(own.prefix())?.gateway?;
        Some(NextHop { ifindex: self.ifindex, gateway })
    }

    /// The router for packets from this prefix: the first of [`Self::gateways_for`].
    #[must_use]
    pub fn gateway_for(&self, prefix: Prefix) -> Option<&DefaultRoute> {
        self.gateways_for(prefix).into_iter().next()
    }

    /// The routers for packets from this prefix, in the order in which the kernel would take them: those of default
    /// routes for the source. If there are none, those that advertise the prefix (RFC 8028 s3.1). If there are none
    /// either, all others.
    #[must_use]
    pub fn gateways_for(&self, prefix: Prefix) -> Vec<&DefaultRoute> {
        let general = || self.default_routes.iter().filter(|route| route.source.is_none());
        let is_for = |route: &&DefaultRoute| route.source.is_some_and(|from| from.covers(prefix));
        let advertises = |route: &&DefaultRoute| {
            self.advertisers.iter().any(|(advertised, router)| {
                advertised.covers(prefix) && route.gateway == Some(*router)
            })
        };
        let mut found: Vec<_> = self.default_routes.iter().filter(is_for).collect();
        if found.is_empty() {
            found = general().filter(advertises).collect();
        }
        if found.is_empty() {
            found = general().collect();
        }
        found.sort_by_key(|route| (route.metric, route.preference));
        found
    }
}

/// A router, or a neighbor that packets are for, and the uplink that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the interface.
    pub ifindex: u32,
    /// The router or neighbor.
    pub gateway: Ipv6Addr,
}

/// A default route through an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultRoute {
    /// Metric: the lowest wins.
    pub metric: u32,
    /// The router; none on a point-to-point link.
    pub gateway: Option<Ipv6Addr>,
    /// Sources of the packets; `None` for all sources.
    pub source: Option<Prefix>,
    /// Preference that the router gives itself (RFC 4191 s2.1): 0 high, 1 medium, 2 low.
    pub preference: u8,
    /// The source address of a socket that has none.
    pub preferred_source: Option<Ipv6Addr>,
    /// MTU of the route, if it sets one.
    pub mtu: Option<u32>,
}

impl DefaultRoute {
    /// Seconds after which the kernel ends a default route that this host has put before others: 60.
    pub const PREFERRED_LIFETIME: u32 = 60;
}

impl DefaultRoute {
    /// Makes a route for all sources with default values.
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
    /// Length of the address's prefix, bits.
    pub prefix_len: u8,
    /// Flags of the address in the kernel.
    pub flags: AddressFlags,
    /// Whether the address can be used for new traffic: it is not tentative, deprecated or a duplicate.
    pub preferred: bool,
    /// Remaining lifetimes of the address.
    pub lifetimes: Lifetimes,
    /// Time when the address was added, in hundredths of a second since the boot of the host.
    pub created: u32,
}

impl UplinkAddress {
    /// Makes an address from the time of the boot. Its flags decide whether it can be used for new traffic.
    #[must_use]
    pub const fn new(
        address: Ipv6Addr,
        prefix_len: u8,
        flags: AddressFlags,
        lifetimes: Lifetimes,
    ) -> Self {
        let preferred = flags.is_preferred();
        Self { address, prefix_len, flags, preferred, lifetimes, created: 0 }
    }

    /// The prefix of the address.
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
    pub const DAD_FAILED: Self = Self(0x08);
    /// The preferred lifetime is over: no new traffic.
    pub const DEPRECATED: Self = Self(0x20);
    /// Duplicate address detection is not over.
    pub const TENTATIVE: Self = Self(0x40);
    /// Usable before duplicate address detection is over.
    pub const OPTIMISTIC: Self = Self(0x04);
    /// Made from a prefix for privacy, with a short life.
    pub const TEMPORARY: Self = Self(0x01);
    /// Set by hand, without a lifetime.
    pub const PERMANENT: Self = Self(0x80);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether an address with these flags can be the source of new traffic.
    #[must_use]
    pub const fn is_preferred(self) -> bool {
        self.is_usable() && !self.contains(Self::DEPRECATED)
    }

    /// Whether packets can leave from an address with these flags. They can leave from a deprecated one: RFC 4862
    /// s5.5.4 leaves that to the program.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        !self.contains(Self::DAD_FAILED)
            && (!self.contains(Self::TENTATIVE) || self.contains(Self::OPTIMISTIC))
    }
}

/// Lifetimes of an address in seconds; `u32::MAX` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Lifetime for new traffic.
    pub preferred: u32,
    /// Lifetime for any traffic.
    pub valid: u32,
}

impl Lifetimes {
    /// Lifetimes of an address that was set without any.
    pub const FOREVER: Self = Self { preferred: u32::MAX, valid: u32::MAX };
}

#[cfg(test)]
pub(crate) mod tests;
