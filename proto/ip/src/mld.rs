//! Multicast Listener Discovery, versions 1 and 2 (RFC 2710, RFC 3810), for a listener.

use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use crate::icmp::{Icmp, Kind};
use crate::reader::Reader;
use crate::{Header, Malformed, fill_icmp_checksum};

/// A query of a router. A query that has 24 octets is one of version 1 (RFC 3810 s8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The group that the query is about; unspecified in a General Query.
    pub group: Ipv6Addr,
    /// Longest time until a listener answers.
    pub max_response: Duration,
    /// Whether the query is one of version 1.
    pub is_version1: bool,
    /// Robustness Variable of the querier; zero if the querier does not say.
    pub robustness: u8,
    /// Interval between the queries of the querier.
    pub interval: Duration,
    /// The sources that the query is about.
    pub sources: Vec<Ipv6Addr>,
}

impl Query {
    /// Reads a query, as a listener takes it; `None` if the message is no query.
    ///
    /// # Errors
    /// A [`Malformed`] if a listener must ignore the query (RFC 3810 s5.1.14, s6.2): a source that is no link-local address, a
    /// hop limit other than 1, no Router Alert option, or a wrong length.
    //= rfc3810#5.1.12-2 rfc3810#5.1.14-2 rfc3810#8.1-1
    pub fn parse(
        header: &Header,
        has_router_alert: bool,
        message: &Icmp<'_>,
    ) -> Result<Option<Self>, Malformed> {
        if message.kind != Kind::MLD_QUERY {
            return Ok(None);
        }
        if !header.source.is_unicast_link_local() {
            return Err(Malformed::Address);
        }
        if header.hop_limit != 1 {
            return Err(Malformed::HopLimit);
        }
        if !has_router_alert {
            return Err(Malformed::Option);
        }
        let mut reader = Reader::new(message.body);
        let code = reader.u16()?;
        reader.u16()?;
        let group = reader.address()?;
        if reader.is_empty() {
            return Ok(Some(Self::version1(group, code)));
        }
        let [flags, interval] = reader.array()?;
        let count = reader.u16()?;
        let sources = (0..count).map(|_| reader.address()).collect::<Result<_, _>>()?;
        Ok(Some(Self {
            group,
            max_response: Duration::from_millis(max_response(code)),
            is_version1: false,
            robustness: flags & 7,
            interval: Duration::from_secs(interval_of(interval)),
            sources,
        }))
    }

    fn version1(group: Ipv6Addr, code: u16) -> Self {
        Self {
            group,
            max_response: Duration::from_millis(code.into()),
            is_version1: true,
            robustness: 0,
            interval: Duration::ZERO,
            sources: Vec::new(),
        }
    }
}

/// Type of a Multicast Address Record (RFC 3810 s5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordType(pub u8);

impl RecordType {
    /// The interface listens to the listed sources of the group only.
    pub const MODE_IS_INCLUDE: Self = Self(1);
    /// The interface listens to all sources of the group but the listed ones.
    pub const MODE_IS_EXCLUDE: Self = Self(2);
    /// The interface listens to the listed sources only from now on; with no sources it has left the group.
    pub const CHANGE_TO_INCLUDE: Self = Self(3);
    /// The interface listens to all sources but the listed ones from now on.
    pub const CHANGE_TO_EXCLUDE: Self = Self(4);
}

/// A Multicast Address Record (RFC 3810 s5.2.5 to s5.2.11) without auxiliary data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Record Type.
    pub kind: RecordType,
    /// The group.
    pub group: Ipv6Addr,
    /// The listed sources. A host without source filters has some only in its answer to a query about sources.
    pub sources: Vec<Ipv6Addr>,
}

impl Record {
    /// Creates a record without sources.
    #[must_use]
    pub const fn new(kind: RecordType, group: Ipv6Addr) -> Self {
        Self { kind, group, sources: Vec::new() }
    }

    /// Length on the wire in octets.
    #[must_use]
    pub const fn wire_len(&self) -> usize {
        20 + 16 * self.sources.len()
    }

    //= rfc3810#5.2.10-1 rfc3810#5.2.10-2
    fn emit(&self, out: &mut Vec<u8>) {
        let count = u16::try_from(self.sources.len()).unwrap_or(u16::MAX);
        out.extend([self.kind.0, 0]);
        out.extend(count.to_be_bytes());
        out.extend(self.group.octets());
        out.extend(self.sources.iter().take(count.into()).flat_map(Ipv6Addr::octets));
    }
}

/// A message of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Version 2: the state of groups.
    Version2(Vec<Record>),
    /// Version 1: the interface listens to the group.
    Version1(Ipv6Addr),
    /// Version 1: the interface has left the group.
    Done(Ipv6Addr),
}

impl Report {
    /// Reads a report; `None` if the message is no report. Auxiliary data of records is left out.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn parse(message: &Icmp<'_>) -> Result<Option<Self>, Malformed> {
        let mut reader = Reader::new(message.body);
        Ok(match message.kind {
            Kind::MLD_REPORT | Kind::MLD_DONE => {
                reader.u32()?;
                let group = reader.address()?;
                Some(if message.kind == Kind::MLD_REPORT {
                    Self::Version1(group)
                } else {
                    Self::Done(group)
                })
            }
            Kind::MLDV2_REPORT => {
                reader.u16()?;
                let count = reader.u16()?;
                let records =
                    (0..count).map(|_| read_record(&mut reader)).collect::<Result<_, _>>()?;
                Some(Self::Version2(records))
            }
            _ => None,
        })
    }

    /// Appends the message to `out`, with its checksum. The packet needs a hop limit of 1, a link-local or unspecified source, and
    /// the Router Alert option ([`HOP_BY_HOP_ROUTER_ALERT`]).
    //= rfc3810#5.2.11-3
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Self::Version2(records) => {
                out.extend([Kind::MLDV2_REPORT.0, 0, 0, 0, 0, 0]);
                out.extend(u16::try_from(records.len()).unwrap_or(u16::MAX).to_be_bytes());
                for record in records.iter().take(u16::MAX.into()) {
                    record.emit(out);
                }
            }
            Self::Version1(group) => version1(Kind::MLD_REPORT, *group, out),
            Self::Done(group) => version1(Kind::MLD_DONE, *group, out),
        }
        fill_icmp_checksum(&mut out[start..], source, destination);
    }
}

fn version1(kind: Kind, group: Ipv6Addr, out: &mut Vec<u8>) {
    out.extend([kind.0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(group.octets());
}

fn read_record(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let [kind, auxiliary] = reader.array()?;
    let count = reader.u16()?;
    let group = reader.address()?;
    let sources = (0..count).map(|_| reader.address()).collect::<Result<_, _>>()?;
    reader.octets(4 * usize::from(auxiliary))?;
    Ok(Record { kind: RecordType(kind), group, sources })
}

/// Maximum Response Delay in milliseconds (RFC 3810 s5.1.3).
fn max_response(code: u16) -> u64 {
    if code < 0x8000 {
        return code.into();
    }
    let (mantissa, exponent) = (code & 0x0fff, code >> 12 & 7);
    u64::from(mantissa | 0x1000) << (exponent + 3)
}

/// Querier's Query Interval in seconds (RFC 3810 s5.1.9).
fn interval_of(code: u8) -> u64 {
    if code < 0x80 {
        return code.into();
    }
    let (mantissa, exponent) = (code & 0x0f, code >> 4 & 7);
    u64::from(mantissa | 0x10) << (exponent + 3)
}

/// A Hop-by-Hop Options header with the Router Alert option of MLD (RFC 2711), in front of ICMPv6.
//= rfc8504#5.3-3
//= rfc8200#4.2-5 rfc8200#4.2-7
pub const HOP_BY_HOP_ROUTER_ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];

#[cfg(test)]
mod tests;
