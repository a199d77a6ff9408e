//! What the kernel tells of Router Advertisements, and Router Solicitations (RFC 4861 s4.1).

use crate::attributes::{Row, read_u32};
use moorline_addresses::{
    AUTONOMOUS, Advertisement, Lifetimes, ON_LINK, Origin, PREFIX_INFORMATION, PrefixInformation,
};
use moorline_types::Prefix;

/// A Router Solicitation without options: the answer goes to all nodes, or asks for our link address
/// first. The kernel fills in the checksum.
pub(crate) const SOLICITATION: [u8; 8] = [133, 0, 0, 0, 0, 0, 0, 0];

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

const PREFIX_ADDRESS: u16 = 1;
const PREFIX_CACHEINFO: u16 = 2;
/// Flags of the kernel's notice up to Linux 6.7; since then it has those of the option instead.
const IF_PREFIX_ONLINK: u8 = 1;
const IF_PREFIX_AUTOCONF: u8 = 2;

#[cfg(test)]
mod tests;
