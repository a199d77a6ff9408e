//! IPv4 beside IPv6: enough for sockets with v4-mapped addresses (RFC 4291 s2.5.5.2), and no more.
//!
//! IPv4 addresses are v4-mapped above this module, so sockets, ports, path MTUs and the choice of addresses are the same for
//! both versions. [`Interface`] has the address of a wire and resolves addresses of neighbors by ARP. A packet becomes the
//! [`Header`] of an IPv6 packet with v4-mapped addresses for the upper layers. Fragments become IPv6 fragments for the reassembly
//! (RFC 7915 s4.1), whose bounds hold for both versions together.
//!
//! | concern | here |
//! |---|---|
//! | addresses | one static address of each wire. No DHCP, no detection of conflicts (RFC 5227) |
//! | routes | the prefix of the address, and one gateway. Redirects are ignored |
//! | neighbors | ARP (RFC 826), with the states and bounds of [`crate::neighbor`] |
//! | groups and broadcast | UDP sockets of all addresses receive broadcasts. Nothing is sent to a broadcast address or group |
//! | options | are skipped (RFC 1122 s3.2.1.8); a packet with a source route is refused (RFC 7126 s4.3, s4.4) |
//! | fragments | as RFC 791, but overlapping ones make the host refuse the datagram |
//! | path MTU | RFC 1191, without plateaus. The least one is [`MIN_PATH_MTU`] |

mod check;
mod config;
mod fragment;
mod interface;
mod original;

use core::net::Ipv4Addr;

use moorline_ip::Header;
use moorline_ip::ip4::{Ip4, MIN_REASSEMBLY};

pub(crate) use check::{check_options, check_source};
pub use config::{Config, NotConfig};
pub(crate) use fragment::{as_ip6, fragments};
pub use interface::Interface;
pub(crate) use original::original;

/// The header of an IPv6 packet that the upper layers see.
#[must_use]
pub(crate) fn mapped(ip: &Ip4) -> Header {
    Header {
        traffic_class: ip.tos,
        flow_label: 0,
        payload_len: ip.total_len.saturating_sub(ip.header_len.into()),
        next_header: ip.protocol,
        hop_limit: ip.ttl,
        source: ip.source.to_ipv6_mapped(),
        destination: ip.destination.to_ipv6_mapped(),
    }
}

/// Whether the octets are a packet of IPv4.
#[must_use]
pub(crate) fn is_ip4(packet: &[u8]) -> bool {
    packet.first().is_some_and(|octet| octet >> 4 == 4)
}

/// Whether the host can send to the address: not "this" network, loopback, a group, reserved, or a broadcast address (RFC 1122
/// s3.2.1.3).
#[must_use]
pub(crate) const fn is_host(address: Ipv4Addr) -> bool {
    !matches!(address.octets()[0], 0 | 127 | 224..)
}

/// Least path MTU, in octets. If a path has it, routers may fragment the packets (RFC 1191 s5). So a path with a lower MTU still carries them,
/// and a forged message cannot make packets smaller.
pub const MIN_PATH_MTU: u32 = MIN_REASSEMBLY as u32;

#[cfg(test)]
mod tests;
