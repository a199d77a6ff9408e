//! Router Advertisements (RFC 4861 s4.2).

use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::Prefix;

use crate::advertised::{Advertisement, Origin, PrefixInformation};
use crate::view::Lifetimes;

/// Fields of the IPv6 header of an ICMPv6 message, and the interface that it came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The interface.
    pub ifindex: u32,
    /// Source address.
    pub source: Ipv6Addr,
    /// Hop limit on arrival.
    pub hop_limit: u8,
}

/// Reads a Router Advertisement; `None` if it is not valid (RFC 4861 s6.1.2), in which case it MUST be
/// dropped as a whole. The kernel has checked the checksum.
#[must_use]
pub fn read_advertisement(envelope: Envelope, message: &[u8]) -> Option<Advertisement> {
    let Envelope { ifindex, source, hop_limit } = envelope;
    // A hop limit of 255 shows that no router has forwarded the message: its sender is on this link.
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
        // With an option of length zero the loop would never end.
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

/// Reads a Prefix Information option (RFC 4861 s4.6.2).
fn read_prefix(option: &[u8; 32]) -> PrefixInformation {
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| option[at + i]));
    let address: [u8; 16] = core::array::from_fn(|i| option[16 + i]);
    PrefixInformation {
        prefix: Prefix::new(address.into(), option[2]),
        on_link: option[3] & ON_LINK != 0,
        autonomous: option[3] & AUTONOMOUS != 0,
        lifetimes: Lifetimes { valid: word(4), preferred: word(8) },
    }
}

/// ICMPv6 type of a Router Advertisement.
pub const ADVERTISEMENT: u8 = 134;
/// Type of the Prefix Information option.
pub const PREFIX_INFORMATION: u8 = 3;
/// Flag of the option: the prefix's addresses are on the link (RFC 4861 s4.6.2).
pub const ON_LINK: u8 = 0x80;
/// Flag of the option: hosts make addresses in the prefix.
pub const AUTONOMOUS: u8 = 0x40;

#[cfg(test)]
mod tests;
