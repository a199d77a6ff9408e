use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::Prefix;

use crate::ethernet::Mac;
use crate::reader::Reader;
use crate::{Header, Malformed};

/// An option of a message of Neighbor Discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// Source Link-Layer Address (RFC 4861 s4.6.1).
    SourceLinkLayer(Mac),
    /// Target Link-Layer Address.
    TargetLinkLayer(Mac),
    /// Prefix Information (RFC 4861 s4.6.2).
    Prefix(PrefixInformation),
    /// Redirected Header: the packet that caused the redirect, as far as it fits (RFC 4861 s4.6.3).
    RedirectedHeader(&'a [u8]),
    /// MTU of the link (RFC 4861 s4.6.4).
    Mtu(u32),
    /// Nonce (RFC 3971 s5.3.2).
    Nonce(&'a [u8]),
    /// Route Information (RFC 4191 s2.3).
    Route(RouteInformation),
    /// Recursive DNS Server (RFC 8106 s5.1): the addresses, and the time for which they can be used. The time
    /// [`FOREVER`] has no end.
    RecursiveDns(Duration, Vec<Ipv6Addr>),
    /// DNS Search List (RFC 8106 s5.2): the domain names in the form of the DNS, and the time for which they can be
    /// used.
    DnsSearchList(Duration, &'a [u8]),
}

/// Fields of a Prefix Information option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// The prefix.
    pub prefix: Prefix,
    /// L flag: the addresses of the prefix are on the link.
    pub on_link: bool,
    /// A flag: hosts may make addresses in the prefix.
    pub autonomous: bool,
    /// Time for which addresses in the prefix are valid; [`FOREVER`] has no end.
    pub valid: Duration,
    /// Time for which addresses in the prefix are preferred.
    pub preferred: Duration,
}

/// Fields of a Route Information option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteInformation {
    /// The destinations.
    pub prefix: Prefix,
    /// Preference of the route.
    pub preference: RouterPreference,
    /// Time for which the route is valid; [`FOREVER`] has no end.
    pub lifetime: Duration,
}

/// Preference of a router or route (RFC 4191 s2.1), from the lowest to the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouterPreference {
    /// The value that senders must not use. In a Router Advertisement it counts as [`RouterPreference::Medium`], and a Route
    /// Information option with it is ignored.
    Reserved,
    /// Low.
    Low,
    /// Medium.
    #[default]
    Medium,
    /// High.
    High,
}

impl RouterPreference {
    /// Reads the bits 3 and 4 of the flags.
    //= rfc4861#4.6.2-4 rfc4861#4.6.2-7
    pub(super) const fn read(flags: u8) -> Self {
        match flags >> 3 & 3 {
            0 => Self::Medium,
            1 => Self::High,
            3 => Self::Low,
            _ => Self::Reserved,
        }
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Medium => 0,
            Self::High => 1 << 3,
            Self::Reserved => 2 << 3,
            Self::Low => 3 << 3,
        }
    }
}

impl NdOption<'_> {
    /// Appends the option to `out`, with padding.
    //= rfc8106#5.2-6 rfc8106#5.2-7
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([self.kind(), 0]);
        self.emit_contents(out);
        let len = (out.len() - start).next_multiple_of(8);
        out.resize(start + len, 0);
        out[start + 1] = u8::try_from(len / 8).unwrap_or(u8::MAX);
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::SourceLinkLayer(_) => SOURCE_LINK_LAYER,
            Self::TargetLinkLayer(_) => TARGET_LINK_LAYER,
            Self::Prefix(_) => PREFIX_INFORMATION,
            Self::RedirectedHeader(_) => REDIRECTED_HEADER,
            Self::Mtu(_) => MTU,
            Self::Nonce(_) => NONCE,
            Self::Route(_) => ROUTE_INFORMATION,
            Self::RecursiveDns(..) => RECURSIVE_DNS,
            Self::DnsSearchList(..) => DNS_SEARCH_LIST,
        }
    }

    fn emit_contents(&self, out: &mut Vec<u8>) {
        match self {
            Self::SourceLinkLayer(mac) | Self::TargetLinkLayer(mac) => out.extend(mac.0),
            Self::Prefix(prefix) => prefix.emit(out),
            Self::RedirectedHeader(packet) => {
                out.extend([0; 6]);
                out.extend_from_slice(packet);
            }
            Self::Mtu(mtu) => {
                out.extend([0; 2]);
                out.extend(mtu.to_be_bytes());
            }
            Self::Nonce(nonce) => out.extend_from_slice(nonce),
            Self::Route(route) => route.emit(out),
            Self::RecursiveDns(lifetime, servers) => {
                out.extend([0; 2]);
                out.extend(seconds(*lifetime));
                out.extend(servers.iter().flat_map(Ipv6Addr::octets));
            }
            Self::DnsSearchList(lifetime, names) => {
                out.extend([0; 2]);
                out.extend(seconds(*lifetime));
                out.extend_from_slice(names);
            }
        }
    }
}

impl PrefixInformation {
    fn emit(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        out.extend([self.prefix.length(), flags]);
        out.extend(seconds(self.valid));
        out.extend(seconds(self.preferred));
        out.extend([0; 4]);
        out.extend(self.prefix.address().octets());
    }

    //= rfc4191#2.3-2
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [length, flags] = reader.array()?;
        let [valid, preferred] = [reader.u32()?, reader.u32()?].map(from_seconds);
        reader.u32()?;
        Ok(Self {
            prefix: prefix(reader.address()?, length)?,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid,
            preferred,
        })
    }
}

impl RouteInformation {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend([self.prefix.length(), self.preference.bits()]);
        out.extend(seconds(self.lifetime));
        let octets = match self.prefix.length() {
            0 => 0,
            1..=64 => 8,
            _ => 16,
        };
        out.extend_from_slice(&self.prefix.address().octets()[..octets]);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [length, flags] = reader.array()?;
        let lifetime = from_seconds(reader.u32()?);
        let mut address = [0; 16];
        let present = reader.rest();
        // RFC 4191 s2.3: the option has 0, 8 or 16 octets of prefix, and at least those that the length needs.
        let is_whole = present.len() <= 16 && present.len() * 8 >= length.into();
        let field =
            address.get_mut(..present.len()).filter(|_| is_whole).ok_or(Malformed::Option)?;
        field.copy_from_slice(present);
        let prefix = prefix(address.into(), length)?;
        Ok(Self { prefix, preference: RouterPreference::read(flags), lifetime })
    }
}

/// Reads the options of a message. Options that are unknown, and options that are too short for what they are, are left
/// out. Nonetheless each option must have a length above zero, and the options must fill the octets.
//= rfc4861#4.6-1 rfc4861#9-3
pub(super) fn read(mut octets: &[u8]) -> Result<Vec<NdOption<'_>>, Malformed> {
    let mut options = Vec::new();
    while let [kind, units, ..] = *octets {
        let (option, rest) =
            octets.split_at_checked(8 * usize::from(units)).ok_or(Malformed::Truncated)?;
        // RFC 4861 s6.1: "All included options have a length that is greater than zero."
        let contents = option.get(2..).ok_or(Malformed::Option)?;
        options.extend(read_one(kind, contents).ok().flatten());
        octets = rest;
    }
    if octets.is_empty() { Ok(options) } else { Err(Malformed::Truncated) }
}

//= rfc4861#4.1-5 rfc4861#4.2-9 rfc4861#4.3-7 rfc4861#4.4-10 rfc4861#4.6.3-2 rfc4861#4.6.4-2
//= rfc4861#9-1 rfc4861#9-2 rfc4861#9-11
fn read_one(kind: u8, contents: &[u8]) -> Result<Option<NdOption<'_>>, Malformed> {
    let mut reader = Reader::new(contents);
    Ok(Some(match kind {
        SOURCE_LINK_LAYER => NdOption::SourceLinkLayer(Mac(reader.array()?)),
        TARGET_LINK_LAYER => NdOption::TargetLinkLayer(Mac(reader.array()?)),
        PREFIX_INFORMATION => NdOption::Prefix(PrefixInformation::read(&mut reader)?),
        REDIRECTED_HEADER => {
            reader.octets(6)?;
            NdOption::RedirectedHeader(packet_in(reader.rest()))
        }
        MTU => {
            reader.u16()?;
            NdOption::Mtu(reader.u32()?)
        }
        NONCE => NdOption::Nonce(contents),
        ROUTE_INFORMATION => NdOption::Route(RouteInformation::read(&mut reader)?),
        RECURSIVE_DNS => {
            reader.u16()?;
            let lifetime = from_seconds(reader.u32()?);
            let (servers, odd) = reader.rest().as_chunks::<16>();
            if servers.is_empty() || !odd.is_empty() {
                return Err(Malformed::Option);
            }
            NdOption::RecursiveDns(lifetime, servers.iter().copied().map(Ipv6Addr::from).collect())
        }
        DNS_SEARCH_LIST => {
            reader.u16()?;
            NdOption::DnsSearchList(from_seconds(reader.u32()?), reader.rest())
        }
        _ => return Ok(None),
    }))
}

/// The packet at the start of `octets`, without padding behind it. A packet that was cut is all that is there.
fn packet_in(octets: &[u8]) -> &[u8] {
    match Header::parse(octets) {
        Ok(header) => &octets[..header.packet_len()],
        Err(_) => octets,
    }
}

//= rfc4191#2.3-4
//= rfc4861#4.6.2-8
fn prefix(address: Ipv6Addr, length: u8) -> Result<Prefix, Malformed> {
    if length > 128 {
        return Err(Malformed::Option);
    }
    Ok(Prefix::new(address, length))
}

fn seconds(time: Duration) -> [u8; 4] {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX).to_be_bytes()
}

fn from_seconds(seconds: u32) -> Duration {
    if seconds == u32::MAX { FOREVER } else { Duration::from_secs(seconds.into()) }
}

/// The time that has no end: all ones on the wire (RFC 4861 s4.6.2).
pub const FOREVER: Duration = Duration::MAX;

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const PREFIX_INFORMATION: u8 = 3;
const REDIRECTED_HEADER: u8 = 4;
const MTU: u8 = 5;
const NONCE: u8 = 14;
const ROUTE_INFORMATION: u8 = 24;
const RECURSIVE_DNS: u8 = 25;
const DNS_SEARCH_LIST: u8 = 31;
