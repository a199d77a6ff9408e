//! The links, addresses, routers and prefixes of a host, and the addresses and routes that the host should have.
//!
//! | module | concern |
//! |---|---|
//! | `view` | the state of the host: [`HostView`], its [`Uplink`]s, their addresses and routes |
//! | `advertisement` | reads Router Advertisements (RFC 4861 s4.2) |
//! | `advertised` | the prefixes that routers advertise, and their lifetimes: [`AdvertisedPrefixes`] |
//! | `policy` | the rule for the address of a prefix on an interface: [`AddressPolicy`] |
//! | `temporary` | sets of addresses that are replaced with time (RFC 8981): [`DatedSet`] |
//! | `group` | the parameters of addresses that belong together: [`Group`] |
//! | `prefixes` | the prefixes in which an interface can have addresses of ours, and their lifetimes |
//! | `plan` | the addresses that the host should have: [`Planner`] |
//! | `addressing` | the planner with the prefixes of routers, and the time of the next look: [`Addressing`] |
//! | `routes` | the routes that moved pairs should have: [`Routes`] |
//! | `unbound` | the routes that sockets without a source address need: [`Unbound`] |
//!
//! The inputs of [`Addressing::plan`] are a view, the prefixes that routers advertise, and the time. Its output is a
//! [`Plan`]. On Linux, `io/netlink` reads the view, and the daemon executes each [`Action`]. The daemon executes each
//! [`RouteStep`] of [`Routes`] as well.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod addressing;
mod advertised;
mod advertisement;
mod group;
mod plan;
mod policy;
mod prefixes;
mod routes;
mod temporary;
mod unbound;
mod view;

pub use addressing::Addressing;
pub use advertised::{
    AdvertisedPrefix, AdvertisedPrefixes, Advertisement, Origin, PrefixInformation,
};
pub use advertisement::{
    ADVERTISEMENT, AUTONOMOUS, Envelope, ON_LINK, PREFIX_INFORMATION, read_advertisement,
};
pub use group::{Group, Kind, Member};
pub use plan::{Action, GIVEN_UP, NO_PREFIX, Note, Plan, Planner, RETRY, Seen};
pub use policy::{AddressMode, AddressPolicy, PartOfRule, Rule};
pub use prefixes::Until;
pub use routes::{FoundRoute, MovedRoute, Mover, RouteStep, Routes};
pub use temporary::{DatedSet, TemporaryLifetimes};
pub use unbound::{Unbound, UnboundDue, UnboundPeer, UnboundPlan};
pub use view::{
    AddressFlags, DefaultRoute, DefaultWays, HostView, Lifetimes, MAX_DEFAULT_ROUTES, MAX_SPECIFIC,
    NextHop, SpecificRoute, Uplink, UplinkAddress, deciding,
};
