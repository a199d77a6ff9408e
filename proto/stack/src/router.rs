//! Routers, routes, on-link prefixes, parameters and DNS servers that Router Advertisements bring (RFC 4861 s6.3).
//!
//! The host is one of type C (RFC 4191 s3): a default router is a route to `::/0`. Each router has the prefixes that it has
//! advertised (RFC 8028). Router Solicitations follow RFC 7559.
//!
//! A flood of advertisements does not remove what is there: at a limit the new thing is refused and counted. If the caller
//! knows which routers it can trust, as they have answered or carry traffic, [`Routers::make_room`] lets the others go first.
//!
//! | timer | armed by | does |
//! |---|---|---|
//! | solicitation | [`Routers::handle_link`], [`Routers::solicit`] | sends a Router Solicitation, until an advertisement brings a default route |
//! | one for each lifetime | an advertisement | removes the route, prefix, server or domain |

mod advertisement;
mod parameters;
mod repository;
mod room;
mod route;
mod solicitation;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::nd::RouterPreference;
use moorline_types::{Instant, Prefix};
use rand_chacha::ChaCha20Rng;

use crate::Drops;
pub use parameters::Parameters;
use repository::Repository;
use route::RouteKey;
pub use route::{Candidate, Route};
use solicitation::Solicitation;

/// An output of [`Routers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Output {
    /// The first route through this router is there.
    RouterFound(Ipv6Addr),
    /// The last route through this router is gone.
    RouterLost(Ipv6Addr),
    /// Routes or on-link prefixes have changed: next hops must be determined anew (RFC 4191 s3.3).
    RoutesChanged,
    /// [`Routers::parameters`] have changed.
    ParametersChanged,
    /// DNS servers or search domains have changed.
    DnsChanged,
    /// Send a Router Solicitation to all routers.
    Solicit,
}

/// Knowledge of an interface about the routers of its link.
#[derive(Clone, Debug)]
pub struct Routers {
    random: ChaCha20Rng,
    is_up: bool,
    parameters: Parameters,
    /// The routers with at least one route, and the prefixes that they advertise.
    routers: BTreeMap<Ipv6Addr, BTreeMap<Prefix, Option<Instant>>>,
    routes: BTreeMap<RouteKey, (RouterPreference, Option<Instant>)>,
    on_link: BTreeMap<Prefix, Option<Instant>>,
    servers: Repository<Ipv6Addr>,
    domains: Repository<String>,
    solicitation: Solicitation,
    drops: Drops,
    /// A set, so a flood brings no more outputs than there are things.
    outputs: BTreeSet<Output>,
    next: Option<Instant>,
}

impl Routers {
    /// Creates the state for an interface whose link is down, and has this MTU in octets. Packets have this hop limit until a router says
    /// another one.
    #[must_use]
    pub fn new(link_mtu: u32, hop_limit: u8, random: ChaCha20Rng) -> Self {
        Self {
            random,
            is_up: false,
            parameters: Parameters::new(link_mtu, hop_limit),
            routers: BTreeMap::new(),
            routes: BTreeMap::new(),
            on_link: BTreeMap::new(),
            servers: Repository::default(),
            domains: Repository::default(),
            solicitation: Solicitation::Idle,
            drops: Drops::default(),
            outputs: BTreeSet::new(),
            next: None,
        }
    }

    /// The link goes up or down. If it goes up, the interface solicits advertisements after a random time (RFC 4861
    /// s6.3.7). Routes stay while the link is down, as the link is mostly the same one afterwards.
    pub fn handle_link(&mut self, is_up: bool, now: Instant) {
        self.is_up = is_up;
        self.solicitation = Solicitation::Idle;
        self.outputs.remove(&Output::Solicit);
        if is_up {
            self.solicitation = Solicitation::start(&mut self.random, now);
        }
        self.rearm();
    }

    /// Solicits advertisements at once, for example because the last router is lost (RFC 4861 s6.3.7).
    pub fn solicit(&mut self, now: Instant) {
        if self.is_up {
            self.solicitation = Solicitation::at_once(now);
            self.handle_timeout(now);
        }
    }

    /// Forgets all that advertisements have brought, because the interface is on another link.
    pub fn forget(&mut self) {
        self.routes.clear();
        self.on_link.clear();
        self.servers = Repository::default();
        self.domains = Repository::default();
        self.parameters = self.parameters.at_first();
        self.retire();
        self.outputs.extend([Output::RoutesChanged, Output::ParametersChanged, Output::DnsChanged]);
        self.rearm();
    }

    /// Removes a router and its routes, because it says that it is a host (RFC 4861 s7.3.3).
    pub fn remove_router(&mut self, router: Ipv6Addr) {
        let before = self.routes.len();
        self.routes.retain(|key, _| key.router != router);
        if self.routes.len() < before {
            self.outputs.insert(Output::RoutesChanged);
        }
        self.retire();
        self.rearm();
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.solicitation.handle_timeout(&mut self.random, now) {
            self.outputs.insert(Output::Solicit);
        }
        let before = self.routes.len() + self.on_link.len();
        self.routes.retain(|_, (_, until)| !is_over(*until, now));
        self.on_link.retain(|_, until| !is_over(*until, now));
        if self.routes.len() + self.on_link.len() < before {
            self.outputs.insert(Output::RoutesChanged);
        }
        for advertised in self.routers.values_mut() {
            advertised.retain(|_, until| !is_over(*until, now));
        }
        if self.servers.expire(now) | self.domains.expire(now) {
            self.outputs.insert(Output::DnsChanged);
        }
        self.retire();
        self.rearm();
    }

    /// Time of the next [`Routers::handle_timeout`].
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The next output; `None` until another call changes that.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_first()
    }

    /// Routes to this destination: those with longer prefixes first, those with equal prefixes by the addresses of
    /// their routers. The caller ranks equal prefixes by source (RFC 8028 s3.2), reachability and preference.
    pub fn candidates(
        &self,
        destination: Ipv6Addr,
        source: Ipv6Addr,
    ) -> impl Iterator<Item = Candidate> + '_ {
        let routes = self.routes().filter(move |route| route.prefix.contains(destination));
        routes.map(move |Route { prefix, router, preference, .. }| {
            let advertises_source = self.advertises(router, source);
            Candidate { router, prefix, preference, advertises_source }
        })
    }

    /// Whether this router has advertised a prefix of the address (RFC 8028, RFC 6724 rule 5.5).
    #[must_use]
    pub fn advertises(&self, router: Ipv6Addr, address: Ipv6Addr) -> bool {
        let advertised = self.routers.get(&router).into_iter().flat_map(BTreeMap::keys);
        advertised.into_iter().any(|prefix| prefix.contains(address))
    }

    /// Whether the destination is on the link by its prefix. There are at most [`MAX_PREFIXES`]. Callers keep the
    /// answer in their destination cache until [`Output::RoutesChanged`].
    //= rfc4861#5.1-1
    #[must_use]
    pub fn is_on_link(&self, destination: Ipv6Addr) -> bool {
        // RFC 4861 s5.1: "The link-local prefix is considered to be on the prefix list with an infinite invalidation timer".
        destination.is_unicast_link_local()
            || self.on_link.keys().any(|prefix| prefix.contains(destination))
    }

    /// Hop limit of packets.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.parameters.hop_limit
    }

    /// MTU of the link in octets.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.parameters.mtu
    }

    /// All parameters of the link.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// All routes, in the order of [`Routers::candidates`].
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.routes.iter().map(|(key, (preference, until))| Route {
            prefix: Prefix::new(key.address, key.length.0),
            router: key.router,
            preference: *preference,
            until: *until,
        })
    }

    /// The routers with at least one route.
    pub fn routers(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.routers.keys().copied()
    }

    /// The on-link prefixes with their ends, without the link-local one.
    pub fn prefixes(&self) -> impl Iterator<Item = (Prefix, Option<Instant>)> + '_ {
        self.on_link.iter().map(|(prefix, until)| (*prefix, *until))
    }

    /// The DNS servers, best first (RFC 8106).
    pub fn dns_servers(&self, now: Instant) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.servers.iter(now).copied()
    }

    /// The search domains, best first (RFC 8106), without a dot at their ends.
    pub fn search_domains(&self, now: Instant) -> impl Iterator<Item = &str> + '_ {
        self.domains.iter(now).map(String::as_str)
    }

    /// Counters of options that were refused while the rest of their advertisement was taken.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Removes routers without routes.
    fn retire(&mut self) {
        let with_routes: BTreeSet<_> = self.routes.keys().map(|key| key.router).collect();
        let lost: Vec<_> =
            self.routers.keys().filter(|router| !with_routes.contains(router)).copied().collect();
        for router in lost {
            self.routers.remove(&router);
            // A router that was found and lost between two polls is no news.
            if !self.outputs.remove(&Output::RouterFound(router)) {
                self.outputs.insert(Output::RouterLost(router));
            }
        }
    }

    fn rearm(&mut self) {
        let routes = self.routes.values().map(|(_, until)| *until);
        let on_link = self.on_link.values().copied();
        let advertised = self.routers.values().flat_map(BTreeMap::values).copied();
        let dns = [self.servers.poll_timeout(), self.domains.poll_timeout()];
        let all = routes.chain(on_link).chain(advertised).chain(dns);
        self.next = all.chain([self.solicitation.poll_timeout()]).flatten().min();
    }
}

/// The end of a lifetime; `None` if it has none.
fn end_of(lifetime: Duration, now: Instant) -> Option<Instant> {
    (lifetime != moorline_ip::nd::FOREVER).then(|| now + lifetime)
}

fn is_over(until: Option<Instant>, now: Instant) -> bool {
    until.is_some_and(|until| until <= now)
}

/// Largest number of routers. Not configurable.
//= rfc4861#6.3.4-4 rfc4861#6.3.4-5
pub const MAX_ROUTERS: usize = 16;
/// Largest number of on-link prefixes, and of prefixes that one router advertises. Not configurable.
pub const MAX_PREFIXES: usize = 32;
/// Largest number of routes but default routes. Not configurable.
pub const MAX_ROUTES: usize = 32;
/// Largest number of DNS servers, and of search domains. Not configurable.
//= rfc8106#5.3.1-4
pub const MAX_DNS: usize = 8;

#[cfg(test)]
mod tests;
