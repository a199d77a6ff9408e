//! Router Advertisements (RFC 4861 s4.2).

use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::Header;
use moorline_ip::address::ALL_NODES;
use moorline_ip::icmp::{self, Icmp};
use moorline_ip::ip6::ICMPV6;
use moorline_ip::nd::{self, Body, Message, NdOption};

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
    let (&[kind, code, _, _], body) = message.split_first_chunk()?;
    let icmp = Icmp { kind: icmp::Kind(kind), code, body };
    let header = Header::new(source, ALL_NODES, ICMPV6, hop_limit, 0);
    let message = Message::parse(&header, &icmp).ok()??;
    let Body::RouterAdvertisement(advertisement) = message.body else { return None };
    let prefixes = message.options.iter().filter_map(|option| match option {
        NdOption::Prefix(prefix) => Some(read_prefix(prefix)),
        NdOption::SourceLinkLayer(_)
        | NdOption::TargetLinkLayer(_)
        | NdOption::RedirectedHeader(_)
        | NdOption::Mtu(_)
        | NdOption::Nonce(_)
        | NdOption::Route(_)
        | NdOption::RecursiveDns(..)
        | NdOption::DnsSearchList(..) => None,
    });
    let origin = Origin::Router { address: source, lifetime: advertisement.lifetime };
    Some(Advertisement { ifindex, origin, prefixes: prefixes.collect(), honors_zero: false })
}

fn read_prefix(option: &nd::PrefixInformation) -> PrefixInformation {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    PrefixInformation {
        prefix: option.prefix,
        on_link: option.on_link,
        autonomous: option.autonomous,
        lifetimes: Lifetimes { valid: seconds(option.valid), preferred: seconds(option.preferred) },
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
