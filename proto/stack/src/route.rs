//! Next hop and path MTU of a destination (RFC 4861 s5, RFC 8201), and the choice of a router (RFC 4191 s3, RFC 8028 s3).
//!
//! [`Destinations`] is the Destination Cache: it holds only what differs from the rule. A destination without entry has the
//! MTU of the link as its path MTU, and the next hop that [`RouterChoice::choose`] gives. So a destination costs nothing before a
//! Redirect or a Packet Too Big message comes for it.
//!
//! Strangers can cause entries. If the cache is full, the oldest entry goes of the /48 that has the most entries. So
//! a stranger with one site pushes out its own entries.

mod choice;
mod destinations;
mod fair;

pub use choice::{Candidate, Reach, RouterChoice};
pub use destinations::{
    Destinations, Limits, MAX_PATHS, MAX_REDIRECTS, MIN_LINK_MTU, MIN_PMTU_AGE, NextHop, PMTU_AGE,
    PathMtu,
};
