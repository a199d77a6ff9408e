use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use moorline_types::Prefix;

use super::is_host;

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

/// Reads an address with the length of its prefix, and the gateway behind a comma: `192.0.2.2/24,gateway 192.0.2.1`. An equals
/// sign may stand for the space.
impl FromStr for Config {
    type Err = NotConfig;

    fn from_str(text: &str) -> Result<Self, NotConfig> {
        let (address, gateway) = match text.split_once(',') {
            Some((address, gateway)) => (address, Some(read_gateway(gateway)?)),
            None => (text, None),
        };
        let (address, prefix_len) = address.split_once('/').ok_or(NotConfig::Form)?;
        let config = Self {
            address: address.parse().map_err(|_| NotConfig::Form)?,
            prefix_len: prefix_len.parse().map_err(|_| NotConfig::Form)?,
            gateway,
        };
        config.check().map(|()| config)
    }
}

impl Config {
    fn check(&self) -> Result<(), NotConfig> {
        let is_host = |address| is_host(address) && !self.is_no_host(address);
        if self.prefix_len > 32 {
            return Err(NotConfig::Form);
        }
        if !is_host(self.address) {
            return Err(NotConfig::Address);
        }
        let is_neighbor = |it| self.is_on_link(it) && is_host(it) && it != self.address;
        if self.gateway.is_none_or(is_neighbor) { Ok(()) } else { Err(NotConfig::Gateway) }
    }
}

fn read_gateway(text: &str) -> Result<Ipv4Addr, NotConfig> {
    let address = text.trim().strip_prefix("gateway").ok_or(NotConfig::Form)?;
    address.trim_start_matches(['=', ' ']).parse().map_err(|_| NotConfig::Form)
}

/// Reason for which a text is no [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotConfig {
    /// The text has another form.
    #[error("ADDRESS/LENGTH or ADDRESS/LENGTH,gateway ADDRESS is needed")]
    Form,
    /// No host can have the address.
    #[error(
        "no host can have this address: it is a group, a broadcast address, reserved, or the prefix itself"
    )]
    Address,
    /// The gateway is no other host of the prefix.
    #[error("the gateway is no other host of the prefix")]
    Gateway,
}

/// Bits in front of the IPv4 address in a v4-mapped address.
const MAPPED_BITS: u8 = 96;
