use std::fmt::{Display, Write as _};
use std::time::Duration;

use hickory_proto::rr::rdata::NULL;
use hickory_proto::rr::{RData, Record};
use moorline_wire::ilnp::consts::{DNS_L64, DNS_LP, DNS_NID};
use moorline_wire::ilnp::{DomainName, L64Record, LpRecord, NidRecord};
use serde::Serialize;

use crate::name::to_name;

/// ILNP records of a host.
///
/// A host has either L64 or LP records. The caller must not set both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecords {
    /// The name.
    pub owner: DomainName,
    /// Identifiers.
    pub nids: Vec<NidRecord>,
    /// Locators.
    pub l64s: Vec<L64Record>,
    /// Names that have the locators, for LP records.
    pub lps: Vec<LpRecord>,
    /// Times to live of the records.
    pub ttls: Ttls,
}

/// Times to live, whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttls {
    /// TTL of L64 records, which change when the host moves.
    pub locators: Duration,
    /// TTL of NID and LP records, which rarely change.
    pub identifiers: Duration,
}

impl Ttls {
    /// Default TTLs: one minute for L64 records, one hour for the others (RFC 6742 s3.1: "very low" and "normally higher").
    pub const DEFAULT: Self =
        Self { locators: Duration::from_secs(60), identifiers: Duration::from_secs(3600) };
}

impl NodeRecords {
    /// Whether there is no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nids.is_empty() && self.l64s.is_empty() && self.lps.is_empty()
    }

    /// Formats the records as lines of a zone file, for servers that know RFC 6742: BIND, Knot, NSD, PowerDNS.
    //= rfc6742#2.1.2-1 rfc6742#2.1.2-2 rfc6742#2.1.2-3
    //= rfc6742#2.3.2-1 rfc6742#2.3.2-2 rfc6742#2.3.2-3
    //= rfc6742#2.4.2-1 rfc6742#2.4.2-2
    #[must_use]
    pub fn zone_file(&self) -> String {
        let lines = || self.lines();
        let width = lines().map(|line| line.ttl.to_string().len()).max().unwrap_or(0);
        let mut text = String::new();
        for Line { ttl, kind, preference, value, .. } in lines() {
            let owner = &self.owner;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{owner} {ttl:<width$} IN {kind:<3} {preference} {value}");
        }
        text
    }

    /// Returns the records of an update message.
    //= rfc6742#2.2-2
    pub(crate) fn records(&self) -> Vec<Record> {
        let record = |Line { code, ttl, rdata, .. }: Line| {
            let data = RData::Unknown { code: code.into(), rdata: NULL::with(rdata) };
            Record::from_rdata(to_name(&self.owner), ttl, data)
        };
        self.lines().map(record).collect()
    }

    /// Returns each record in presentation format.
    pub fn lines(&self) -> impl Iterator<Item = Line> {
        let line = |(kind, code), ttl, preference, value: &dyn Display, rdata| {
            let (ttl, value) = (seconds(ttl), value.to_string());
            Line { kind, ttl, preference, value, code, rdata }
        };
        let Ttls { locators, identifiers } = self.ttls;
        let nids = self.nids.iter().map(move |one| {
            line(("NID", DNS_NID), identifiers, one.preference, &one.nid, one.emit().to_vec())
        });
        let l64s = self.l64s.iter().map(move |one| {
            line(("L64", DNS_L64), locators, one.preference, &one.l64, one.emit().to_vec())
        });
        let lps = self.lps.iter().map(move |one| {
            line(("LP", DNS_LP), identifiers, one.preference, &one.name, one.emit())
        });
        nids.chain(l64s).chain(lps)
    }
}

/// Record in presentation format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Name of the record type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Time to live, seconds.
    #[serde(rename = "ttl_s")]
    pub ttl: u32,
    /// Lower is better.
    pub preference: u16,
    /// Value, in presentation format.
    pub value: String,
    /// Number of the record type.
    #[serde(skip)]
    code: u16,
    #[serde(skip)]
    rdata: Vec<u8>,
}

/// Converts a TTL to seconds, at most 31 bits (RFC 2181 s8).
fn seconds(ttl: Duration) -> u32 {
    u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX).min(u32::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use moorline_types::{L64, Nid};

    use super::*;
    use crate::parse_name;

    /// Example of RFC 6742 s3.
    #[test]
    fn a_zone_file_as_in_the_rfc() {
        let mut records = NodeRecords {
            owner: parse_name("host1.example.com").expect("a name"),
            nids: vec![NidRecord { preference: 10, nid: Nid(0x0014_4fff_ff20_ee64) }],
            l64s: vec![
                L64Record { preference: 10, l64: L64(0x2001_0db8_1140_1000) },
                L64Record { preference: 20, l64: L64(0x2001_0db8_2140_2000) },
            ],
            lps: Vec::new(),
            ttls: Ttls::DEFAULT,
        };
        let golden = "\
host1.example.com. 3600 IN NID 10 0014:4fff:ff20:ee64
host1.example.com. 60   IN L64 10 2001:0db8:1140:1000
host1.example.com. 60   IN L64 20 2001:0db8:2140:2000
";
        assert_eq!(records.zone_file(), golden);
        records.l64s.clear();
        let name = parse_name("mobile-net1.example.com").expect("a name");
        records.lps = vec![LpRecord { preference: 10, name }];
        let golden = "\
host1.example.com. 3600 IN NID 10 0014:4fff:ff20:ee64
host1.example.com. 3600 IN LP  10 mobile-net1.example.com.
";
        assert_eq!(records.zone_file(), golden);
    }

    #[test]
    fn nobody_keeps_a_record_longer_than_there_are_seconds_for() {
        assert_eq!(seconds(Duration::from_secs(60)), 60);
        assert_eq!(seconds(Duration::MAX), 0x7fff_ffff);
    }
}
