//! An IPv6 host as a state machine.
//!
//! [`Stack`](stack) owns one machine for each concern and only routes between them. Inputs are `handle_*` functions with the time as their last
//! argument. Outputs come from `poll_*` functions until they return `None`; then the caller sleeps until `poll_timeout`. A
//! host gets its randomness at its creation: equal seeds and inputs give equal octets.
//!
//! | module | concern |
//! |---|---|
//! | `neighbor` | link-layer addresses of neighbors, and whether neighbors are reachable (RFC 4861 s7) |
//! | `router` | routers, prefixes of the link, routes, DNS servers (RFC 4861 s6, 4191, 8106, 7559) |
//! | `address` | addresses of an interface: their origin, lifetimes, duplicates (RFC 4862, 7217, 8981, 7527, 4429) |
//! | `mld` | groups that an interface listens to (RFC 3810, 2710) |
//! | `route` | next hop and path MTU of each destination (RFC 4861 s5, 8201, 8028) |
//! | `select` | source and destination addresses (RFC 6724) |
//! | `reassembly`, `fragment` | fragments (RFC 8200 s4.5, 5722, 6946, 7739) |
//! | `chain` | extension headers of a packet that came in, and their options (RFC 8200 s4, 8504 s5.3) |
//! | `error` | errors that this host sends, and their rate (RFC 4443 s2.4) |
//! | `ip4` | IPv4 beside IPv6: ARP, fragments (RFC 791, 826, 1122) |
//! | `udp`, `tcp`, `port`, `socket` | sockets, their ports and errors |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod chain;
mod drops;
pub mod error;
pub mod fragment;
pub mod ip4;
pub mod mld;
pub mod neighbor;
pub mod port;
mod random;
pub mod reassembly;
pub mod route;
pub mod router;
pub mod select;
pub mod socket;
pub mod stack;
pub mod tcp;
pub mod udp;

pub use drops::{Drop, Drops};
