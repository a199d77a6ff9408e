use core::net::{Ipv4Addr, Ipv6Addr};

use moorline_types::Prefix;

/// The IPv4 address of a wire, which a person has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of its prefix; more than 32 count as 32.
    pub prefix_len: u8,
    /// The router for other prefixes.
    pub gateway: Option<Ipv4Addr>,
}

impl Config {
    /// The v4-mapped address.
    #[must_use]
    pub const fn mapped(&self) -> Ipv6Addr {
        self.address.to_ipv6_mapped()
    }

    /// The prefix of the v4-mapped addresses of the link.
    #[must_use]
    pub fn prefix(&self) -> Prefix {
        Prefix::new(self.mapped(), MAPPED_BITS + self.prefix_len.min(32))
    }

    /// Whether the address is in the prefix of the link.
    #[must_use]
    pub fn is_on_link(&self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & self.mask() == 0
    }

    /// Whether a packet to the address is for all hosts of the link: the limited broadcast address, or the one of the prefix
    /// (RFC 1122 s3.2.1.3). The prefixes of 31 bits (RFC 3021) and 32 bits have none.
    #[must_use]
    pub fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast() || self.is_edge(address, !self.mask())
    }

    /// Whether no host can have the address: it is a broadcast address, or the one of the prefix itself, which was a broadcast
    /// address once (RFC 1122 s3.3.6).
    #[must_use]
    pub fn is_no_host(&self, address: Ipv4Addr) -> bool {
        self.is_broadcast(address) || self.is_edge(address, 0)
    }

    /// Whether the bits behind the prefix are these.
    fn is_edge(&self, address: Ipv4Addr, bits: u32) -> bool {
        let has_edges = self.prefix_len < 31;
        has_edges && self.is_on_link(address) && address.to_bits() & !self.mask() == bits
    }

    fn mask(&self) -> u32 {
        u32::MAX.checked_shl(u32::from(32 - self.prefix_len.min(32))).unwrap_or(0)
    }
}

/// Bits in front of the IPv4 address in a v4-mapped address.
const MAPPED_BITS: u8 = 96;
