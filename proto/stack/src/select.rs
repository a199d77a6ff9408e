//! Source and destination addresses of new traffic (RFC 6724).
//!
//! [`source`] chooses the source for a destination, and [`order`] sorts the destinations of a name. Both look at a
//! [`Policy`], which an administrator can replace. IPv4 addresses are IPv4-mapped addresses here (RFC 6724 s3.2), and so are
//! their prefix lengths: 24 bits of an IPv4 address are 120.
//!
//! The host is no mobile node, so it has no home addresses: rule 4 of both algorithms has no effect, and is left out. The next
//! hop is known before the source (RFC 6724 s7), so rule 5.5 applies.

mod destination;
mod policy;
mod source;

use core::net::Ipv6Addr;

use moorline_ip::address::Scope;

pub use destination::{Destination, order};
pub use policy::{Policy, PolicyRow};
pub use source::{Privacy, SourceCandidate, source};

/// The scope of an address (RFC 6724 s3.1, s3.2).
//= rfc6724#3.2-1 rfc6724#3.3-1
fn scope(address: Ipv6Addr) -> Scope {
    match address.to_ipv4_mapped() {
        // RFC 6724 s3.2: auto-configuration addresses and loopback addresses "are assigned link-local scope".
        Some(v4) if v4.is_link_local() || v4.is_loopback() => Scope::LINK,
        Some(_) => Scope::GLOBAL,
        None => Scope::of(address),
    }
}

//= rfc6724#6-1
fn is_ipv4(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests;
