use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::Mac;

use super::{Lifetimes, TemporaryLifetimes};

/// How interface identifiers are made.
//= rfc8504#6.3-2 rfc8504#6.4-2
//= rfc8981#3.7-1 rfc8981#3.7-2
//= rfc7217#5-4
//= rfc6724#5-8
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// From the MAC address (RFC 4291 appendix A).
    Eui64,
    /// Stable for each prefix, and opaque (RFC 7217).
    #[default]
    Stable,
    /// As [`Mode::Stable`], with temporary addresses besides (RFC 8981).
    Temporary,
}

/// Configuration of [`Addresses`](super::Addresses).
//= rfc7217#5-13 rfc7217#5-15
//= rfc4862#5.1-1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How interface identifiers are made.
    pub mode: Mode,
    /// MAC address; also the `Net_Iface` of RFC 7217.
    pub mac: Mac,
    /// The `secret_key` of RFC 7217. Without one, the random numbers give one: then the addresses are as stable as the seed.
    pub secret: Option<[u8; 16]>,
    /// Whether the interface makes addresses in the prefixes of advertisements. Without it only the link-local address is made, and
    /// the caller adds all others.
    pub makes_global: bool,
    /// Whether probes have nonces (RFC 7527).
    pub dad_nonce: bool,
    /// Whether addresses may be used while they are probed (RFC 4429), except manual ones.
    pub optimistic: bool,
    /// `DupAddrDetectTransmits` (RFC 4862 s5.1); zero turns detection off.
    pub dad_transmits: u8,
    /// Longest delay before the first probe (RFC 4862 s5.4.2).
    pub dad_delay: Duration,
    /// Lifetimes of temporary addresses.
    pub temporary: TemporaryLifetimes,
}

/// An address that the caller adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix.
    pub prefix_len: u8,
    /// Whether a hash function has made it, as for an HBA or CGA. RFC 4429 s3.1: a manual address is not optimistic.
    pub is_generated: bool,
    /// Whether the address may be used while it is probed (RFC 4429), whatever [`Config::optimistic`] says.
    pub is_optimistic: bool,
    /// Its ends.
    pub lifetimes: Lifetimes,
}

impl Config {
    /// The default configuration.
    #[must_use]
    pub const fn new(mac: Mac) -> Self {
        Self {
            mode: Mode::Stable,
            mac,
            secret: None,
            makes_global: true,
            dad_nonce: true,
            optimistic: false,
            dad_transmits: 1,
            dad_delay: MAX_RTR_SOLICITATION_DELAY,
            temporary: TemporaryLifetimes::DEFAULT,
        }
    }
}

/// `MAX_RTR_SOLICITATION_DELAY` (RFC 4861 s10).
const MAX_RTR_SOLICITATION_DELAY: Duration = Duration::from_secs(1);
