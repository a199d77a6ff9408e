//! Router Advertisements and Solicitations (RFC 4861 s4.1, s4.2).

use crate::advertised::{Advertisement, Origin, PrefixInformation};
use crate::attributes::{Row, read_u32};
use crate::view::{Lifetimes, Prefix};
use std::net::Ipv6Addr;
use std::time::Duration;

/// A Router Solicitation without options: the answer goes to all nodes, or asks for our link address
/// first. The kernel fills in the checksum.
pub(crate) const SOLICITATION: [u8; 8] = [133, 0, 0, 0, 0, 0, 0, 0];
/// ICMPv6 type of a Router Advertisement.
pub(crate) const ADVERTISEMENT: u8 = 134;

/// What stands in the IPv6 header of an ICMPv6 message, and where it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The interface.
    pub ifindex: u32,
    /// Who sent it.
    pub source: Ipv6Addr,
    /// As it came in.
    pub hop_limit: u8,
}

/// Reads a Router Advertisement; `None` if it is not valid (RFC 4861 s6.1.2), in which case it MUST be
/// dropped as a whole. The kernel has checked the checksum.
#[must_use]
pub fn read_advertisement(envelope: Envelope, message: &[u8]) -> Option<Advertisement> {
    let Envelope { ifindex, source, hop_limit } = envelope;
    // A hop limit of 255 says that no router has forwarded it: it is from this link.
    if hop_limit != u8::MAX || !source.is_unicast_link_local() {
        return None;
    }
    let (header, mut options) = message.split_first_chunk::<16>()?;
    if header[0] != ADVERTISEMENT || header[1] != 0 {
        return None;
    }
    let lifetime = Duration::from_secs(u16::from_be_bytes([header[6], header[7]]).into());
    let mut prefixes = Vec::new();
    while let [kind, units, ..] = *options {
        let (option, rest) = options.split_at_checked(8 * usize::from(units))?;
        // An option of length zero would never end.
        if option.is_empty() {
            return None;
        }
        if kind == PREFIX_INFORMATION {
            prefixes.extend(option.first_chunk().map(read_prefix));
        }
        options = rest;
    }
    let origin = Origin::Router { address: source, lifetime };
    options.is_empty().then_some(Advertisement { ifindex, origin, prefixes, honors_zero: false })
}

/// RFC 4861 s4.6.2.
fn read_prefix(option: &[u8; 32]) -> PrefixInformation {
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| option[at + i]));
    let address: [u8; 16] = std::array::from_fn(|i| option[16 + i]);
    PrefixInformation {
        prefix: Prefix::new(address.into(), option[2]),
        on_link: option[3] & ON_LINK != 0,
        autonomous: option[3] & AUTONOMOUS != 0,
        lifetimes: Lifetimes { valid: word(4), preferred: word(8) },
    }
}

/// Reads `RTM_NEWPREFIX`: a Prefix Information option that the kernel has believed.
pub(crate) fn read_kernel_prefix(row: &Row) -> Option<Advertisement> {
    let is_prefix = row.kind == libc::RTM_NEWPREFIX && i32::from(row.byte(0)) == libc::AF_INET6;
    if !is_prefix || row.byte(8) != PREFIX_INFORMATION {
        return None;
    }
    let cache = row.attribute(PREFIX_CACHEINFO)?;
    let information = PrefixInformation {
        prefix: Prefix::new(row.address(PREFIX_ADDRESS)?, row.byte(9)),
        on_link: row.byte(10) & (IF_PREFIX_ONLINK | ON_LINK) != 0,
        autonomous: row.byte(10) & (IF_PREFIX_AUTOCONF | AUTONOMOUS) != 0,
        lifetimes: Lifetimes { preferred: read_u32(cache)?, valid: read_u32(cache.get(4..)?)? },
    };
    Some(Advertisement {
        ifindex: row.header_u32(4),
        origin: Origin::Kernel,
        prefixes: vec![information],
        honors_zero: false,
    })
}

/// Type of the option, and of the kernel's notice of it.
const PREFIX_INFORMATION: u8 = 3;
const PREFIX_ADDRESS: u16 = 1;
const PREFIX_CACHEINFO: u16 = 2;
/// Flags of the option (RFC 4861 s4.6.2).
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;
/// Flags of the kernel's notice up to Linux 6.7; since then it has those of the option instead.
const IF_PREFIX_ONLINK: u8 = 1;
const IF_PREFIX_AUTOCONF: u8 = 2;

#[cfg(test)]
mod tests;
