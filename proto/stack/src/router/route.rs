use core::cmp::Reverse;
use core::net::Ipv6Addr;

use moorline_ip::nd::RouterPreference;
use moorline_types::{Instant, Prefix};

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations; `::/0` for a default router.
    pub prefix: Prefix,
    /// The next hop, a link-local address.
    pub router: Ipv6Addr,
    /// Preference; never [`RouterPreference::Reserved`].
    pub preference: RouterPreference,
    /// End of the route; `None` if it has no end.
    pub until: Option<Instant>,
}

/// A route to a destination, as a candidate for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The next hop.
    pub router: Ipv6Addr,
    /// The destinations of the route.
    pub prefix: Prefix,
    /// Preference of the route.
    pub preference: RouterPreference,
    /// Whether the router has advertised a prefix with the source of the packet. RFC 8028 s3.2 prefers such a router
    /// whatever its preference.
    pub advertises_source: bool,
}

/// Orders routes by the length of their prefixes, longest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    pub(super) length: Reverse<u8>,
    pub(super) address: Ipv6Addr,
    pub(super) router: Ipv6Addr,
}

impl RouteKey {
    pub(super) const fn new(prefix: Prefix, router: Ipv6Addr) -> Self {
        Self { length: Reverse(prefix.length()), address: prefix.address(), router }
    }
}
