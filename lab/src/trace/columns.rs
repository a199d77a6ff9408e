//! Columns of a CSV file.

use anyhow::bail;
use csv::StringRecord;

/// Indices of the columns that a record needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) start: (usize, Unit),
    pub(super) end: End,
    /// Columns of the source address. If IPv4 and IPv6 have separate columns, a record uses the first that holds an
    /// address.
    pub(super) source: Places,
    pub(super) destination: Places,
    /// Columns of the octets. The second is the reverse direction, if records cover both.
    pub(super) octets: Places,
    pub(super) packets: Places,
    pub(super) protocol: Option<usize>,
}

pub(super) type Places = [Option<usize>; 2];

/// Source of the end of a flow: a time, or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    At(usize, Unit),
    After(usize, Unit),
}

/// Nanoseconds in a unit of a time column. A date needs no unit.
pub(super) type Unit = u64;
pub(super) const SECOND: Unit = 1_000_000_000;

impl Columns {
    /// Finds the columns by the header line.
    ///
    /// # Errors
    /// A column is missing. The error names all missing columns.
    pub(super) fn of(header: &StringRecord) -> anyhow::Result<Self> {
        let place = |names: &[&str]| {
            let place = |&name: &&str| header.iter().position(|field| is_same(field, name));
            names.iter().find_map(place)
        };
        // The first names are in seconds. Else an IPFIX name tells its unit.
        let timed = |names: &[&str], ipfix: &str| {
            let in_unit =
                |(suffix, unit): (&str, Unit)| Some((place(&[&format!("{ipfix}{suffix}")])?, unit));
            let in_seconds = place(names).map(|at| (at, SECOND));
            in_seconds.or_else(|| UNITS.into_iter().find_map(in_unit))
        };
        let start = timed(&["ts", "firstSeen"], "flowStart");
        let end = timed(&["te", "lastSeen"], "flowEnd").map(|(at, unit)| End::At(at, unit));
        let duration = || timed(&["td", "duration"], "flowDuration");
        let end = end.or_else(|| duration().map(|(at, unit)| End::After(at, unit)));
        let [source, destination, octets, packets] =
            [SOURCES, DESTINATIONS, OCTETS, PACKETS].map(|names| names.map(place));
        let lacks = [
            (start.is_none(), "a start (ts, firstSeen, flowStartMilliseconds)"),
            (
                end.is_none(),
                "an end (te, lastSeen, flowEndMilliseconds) or duration (td, duration)",
            ),
            (source == [None; 2], "a source (sa, srcAddr, sourceIPv6Address, sourceIPv4Address)"),
            (
                destination == [None; 2],
                "a destination (da, dstAddr, destinationIPv6Address, destinationIPv4Address)",
            ),
            (octets[0].is_none(), "octets (ibyt, bytes, octetDeltaCount)"),
            (packets[0].is_none(), "packets (ipkt, packets, packetDeltaCount)"),
        ];
        let lacks: Vec<_> =
            lacks.iter().filter(|(lacks, _)| *lacks).map(|(_, what)| *what).collect();
        let (Some(start), Some(end), true) = (start, end, lacks.is_empty()) else {
            bail!("no column for {}", lacks.join("; for "));
        };
        let protocol = place(&["pr", "proto", "protocolIdentifier"]);
        Ok(Self { start, end, source, destination, octets, packets, protocol })
    }
}

fn is_same(field: &str, name: &str) -> bool {
    field.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').eq_ignore_ascii_case(name)
}

/// Suffixes of IPFIX names, each with its unit.
const UNITS: [(&str, Unit); 4] =
    [("Milliseconds", 1_000_000), ("Microseconds", 1000), ("Nanoseconds", 1), ("Seconds", SECOND)];
const SOURCES: [&[&str]; 2] = [&["sa", "srcAddr", "sourceIPv6Address"], &["sourceIPv4Address"]];
const DESTINATIONS: [&[&str]; 2] =
    [&["da", "dstAddr", "destinationIPv6Address"], &["destinationIPv4Address"]];
const OCTETS: [&[&str]; 2] = [
    &["ibyt", "bytes", "inBytes", "octetDeltaCount", "octetTotalCount"],
    &["obyt", "outBytes", "reverseOctetDeltaCount"],
];
const PACKETS: [&[&str]; 2] = [
    &["ipkt", "packets", "inPackets", "packetDeltaCount", "packetTotalCount"],
    &["opkt", "outPackets", "reversePacketDeltaCount"],
];
