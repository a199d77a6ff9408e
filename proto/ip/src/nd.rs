//! Neighbor Discovery (RFC 4861): messages that are valid, and their options.
//!
//! [`Message::parse`] checks all that RFC 4861 s6.1, s7.1 and s8.1 demand, so a host may use each message that it
//! returns. The checksum is checked by [`Icmp::parse`].

mod options;

pub use options::{FOREVER, NdOption, PrefixInformation, RouteInformation, RouterPreference};

use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use crate::address::{is_solicited_node, is_unicast};
use crate::ethernet::Mac;
use crate::icmp::{Icmp, Kind};
use crate::reader::Reader;
use crate::{Header, Malformed, fill_icmp_checksum};

/// A message of Neighbor Discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The message.
    pub body: Body,
    /// Its options that are known, in their order. Others are left out (RFC 4861 s4.6).
    pub options: Vec<NdOption<'a>>,
}

/// The part of a message in front of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Router Solicitation (RFC 4861 s4.1).
    RouterSolicitation,
    /// Router Advertisement.
    RouterAdvertisement(RouterAdvertisement),
    /// Neighbor Solicitation.
    NeighborSolicitation {
        /// The address whose link-layer address is asked for.
        target: Ipv6Addr,
    },
    /// Neighbor Advertisement.
    NeighborAdvertisement(NeighborAdvertisement),
    /// Redirect.
    Redirect {
        /// The better first hop; equal to the destination if the destination is on the link.
        target: Ipv6Addr,
        /// The destination whose packets go elsewhere.
        destination: Ipv6Addr,
    },
}

/// Fields of a Router Advertisement (RFC 4861 s4.2, RFC 4191 s2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// Hop limit of packets that hosts send; zero if the router does not say.
    pub hop_limit: u8,
    /// M flag: addresses are available by DHCPv6.
    pub managed: bool,
    /// O flag: other configuration is available by DHCPv6.
    pub other: bool,
    /// Preference of the router.
    pub preference: RouterPreference,
    /// Time for which the router is a default router; zero if it is none.
    pub lifetime: Duration,
    /// Time for which a neighbor is reachable after a confirmation; zero if the router does not say.
    pub reachable_time: Duration,
    /// Time between solicitations; zero if the router does not say.
    pub retrans_timer: Duration,
}

/// Fields of a Neighbor Advertisement (RFC 4861 s4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborAdvertisement {
    /// The address that the advertisement is about.
    pub target: Ipv6Addr,
    /// R flag: the sender is a router.
    pub is_router: bool,
    /// S flag: the advertisement answers a solicitation.
    pub is_solicited: bool,
    /// O flag: the advertisement replaces a link-layer address that is known.
    pub overrides: bool,
}

impl<'a> Message<'a> {
    /// Reads a message; `None` if the message is not one of Neighbor Discovery.
    ///
    /// # Errors
    /// A [`Malformed`] if the message is not valid; then it must be discarded silently.
    //= rfc4862#5.4.1-1
    //= rfc4861#6.1.2-1 rfc4861#7.1.1-1 rfc4861#7.1.2-1
    pub fn parse(header: &Header, message: &Icmp<'a>) -> Result<Option<Self>, Malformed> {
        if !message.kind.is_neighbor_discovery() {
            return Ok(None);
        }
        // RFC 4861 s6.1: a hop limit of 255 shows that no router has forwarded the message.
        if header.hop_limit != u8::MAX {
            return Err(Malformed::HopLimit);
        }
        if message.code != 0 {
            return Err(Malformed::Code);
        }
        let mut reader = Reader::new(message.body);
        let body = Body::read(message.kind, &mut reader)?;
        let options = options::read(reader.rest())?;
        let message = Self { body, options };
        message.check(header)?;
        Ok(Some(message))
    }

    /// Appends the message to `out`, with its checksum.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
        let start = out.len();
        self.body.emit(out);
        for option in &self.options {
            option.emit(out);
        }
        fill_icmp_checksum(&mut out[start..], source, destination);
    }

    /// The link-layer address of the sender.
    //= rfc4861#4.6.1-1
    #[must_use]
    pub fn source_link_layer(&self) -> Option<Mac> {
        self.options.iter().find_map(|option| {
            if let NdOption::SourceLinkLayer(mac) = option { Some(*mac) } else { None }
        })
    }

    /// The link-layer address of the target.
    //= rfc4861#4.6.1-1 rfc4861#7.1.2-3 rfc4861#8.1-3
    #[must_use]
    pub fn target_link_layer(&self) -> Option<Mac> {
        self.options.iter().find_map(|option| {
            if let NdOption::TargetLinkLayer(mac) = option { Some(*mac) } else { None }
        })
    }

    /// The nonce (RFC 3971 s5.3.2, RFC 7527).
    #[must_use]
    pub fn nonce(&self) -> Option<&'a [u8]> {
        self.options.iter().find_map(|option| {
            if let NdOption::Nonce(nonce) = option { Some(*nonce) } else { None }
        })
    }

    //= rfc4861#4.2-1 rfc4861#4.3-3 rfc4861#4.4-6 rfc4861#4.5-1 rfc4861#4.5-4 rfc4861#4.5-5
    //= rfc4861#6.1.2-1 rfc4861#7.1.1-1 rfc4861#7.1.2-1 rfc4861#8.1-1
    fn check(&self, header: &Header) -> Result<(), Malformed> {
        let unspecified = header.source.is_unspecified();
        let is_good = match self.body {
            // RFC 4861 s6.1.1.
            Body::RouterSolicitation => !(unspecified && self.source_link_layer().is_some()),
            // RFC 4861 s6.1.2.
            Body::RouterAdvertisement(_) => header.source.is_unicast_link_local(),
            // RFC 4861 s7.1.1.
            Body::NeighborSolicitation { target } => {
                let is_dad = unspecified
                    && is_solicited_node(header.destination)
                    && self.source_link_layer().is_none();
                !target.is_multicast() && (!unspecified || is_dad)
            }
            // RFC 4861 s7.1.2.
            Body::NeighborAdvertisement(advertisement) => {
                let is_sent_to_all = header.destination.is_multicast();
                let is_answer_to_all = is_sent_to_all && advertisement.is_solicited;
                !(advertisement.target.is_multicast() || is_answer_to_all)
            }
            // RFC 4861 s8.1.
            Body::Redirect { target, destination } => {
                header.source.is_unicast_link_local()
                    && !destination.is_multicast()
                    && (target.is_unicast_link_local() || target == destination)
                    && is_unicast(target)
            }
        };
        if is_good { Ok(()) } else { Err(Malformed::Address) }
    }
}

impl Body {
    /// The type of the message.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::RouterSolicitation => Kind::ROUTER_SOLICITATION,
            Self::RouterAdvertisement(_) => Kind::ROUTER_ADVERTISEMENT,
            Self::NeighborSolicitation { .. } => Kind::NEIGHBOR_SOLICITATION,
            Self::NeighborAdvertisement(_) => Kind::NEIGHBOR_ADVERTISEMENT,
            Self::Redirect { .. } => Kind::REDIRECT,
        }
    }

    //= rfc4861#4.1-2 rfc4861#4.3-2 rfc4861#4.4-5 rfc4861#4.5-3 rfc4861#7.1.1-2 rfc4861#7.1.2-2
    //= rfc4861#8.1-2
    fn read(kind: Kind, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let word = match kind {
            Kind::ROUTER_ADVERTISEMENT => {
                return RouterAdvertisement::read(reader).map(Self::RouterAdvertisement);
            }
            _ => reader.u32()?,
        };
        Ok(match kind {
            Kind::ROUTER_SOLICITATION => Self::RouterSolicitation,
            Kind::NEIGHBOR_SOLICITATION => Self::NeighborSolicitation { target: reader.address()? },
            Kind::NEIGHBOR_ADVERTISEMENT => Self::NeighborAdvertisement(NeighborAdvertisement {
                target: reader.address()?,
                is_router: word & ROUTER != 0,
                is_solicited: word & SOLICITED != 0,
                overrides: word & OVERRIDE != 0,
            }),
            _ => Self::Redirect { target: reader.address()?, destination: reader.address()? },
        })
    }

    //= rfc4861#4.1-1 rfc4861#4.3-1
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend([self.kind().0, 0, 0, 0]);
        match self {
            Self::RouterSolicitation => out.extend([0; 4]),
            Self::RouterAdvertisement(advertisement) => advertisement.emit(out),
            Self::NeighborSolicitation { target } => {
                out.extend([0; 4]);
                out.extend(target.octets());
            }
            Self::NeighborAdvertisement(advertisement) => advertisement.emit(out),
            Self::Redirect { target, destination } => {
                out.extend([0; 4]);
                out.extend(target.octets());
                out.extend(destination.octets());
            }
        }
    }
}

impl RouterAdvertisement {
    //= rfc4191#2.2-4
    //= rfc4861#4.2-3 rfc4861#6.1.2-2
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [hop_limit, flags] = reader.array()?;
        Ok(Self {
            hop_limit,
            managed: flags & MANAGED != 0,
            other: flags & OTHER != 0,
            preference: RouterPreference::read(flags),
            lifetime: Duration::from_secs(reader.u16()?.into()),
            reachable_time: Duration::from_millis(reader.u32()?.into()),
            retrans_timer: Duration::from_millis(reader.u32()?.into()),
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let flag = |is_set, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.managed, MANAGED) | flag(self.other, OTHER) | self.preference.bits();
        let lifetime = u16::try_from(self.lifetime.as_secs()).unwrap_or(u16::MAX);
        out.extend([self.hop_limit, flags]);
        out.extend(lifetime.to_be_bytes());
        for time in [self.reachable_time, self.retrans_timer] {
            out.extend(u32::try_from(time.as_millis()).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}

impl NeighborAdvertisement {
    //= rfc4861#4.4-4
    fn emit(&self, out: &mut Vec<u8>) {
        let flag = |is_set, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(self.is_router, ROUTER)
            | flag(self.is_solicited, SOLICITED)
            | flag(self.overrides, OVERRIDE);
        out.extend(flags.to_be_bytes());
        out.extend(self.target.octets());
    }
}

const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;
const ROUTER: u32 = 1 << 31;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;

#[cfg(test)]
mod tests;
