//! Which column of a CSV file is what.

use anyhow::bail;
use csv::StringRecord;

/// Places of what a record needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) start: (usize, Unit),
    pub(super) end: End,
    /// With IPv4 and IPv6 addresses in columns of their own, the first that is not empty.
    pub(super) source: Places,
    pub(super) destination: Places,
    /// And of the other direction, if records are of both.
    pub(super) octets: Places,
    pub(super) packets: Places,
    pub(super) protocol: Option<usize>,
}

pub(super) type Places = [Option<usize>; 2];

/// How the end of a flow is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    At(usize, Unit),
    After(usize, Unit),
}

/// What a number counts in a column of times, in nanoseconds. A date is a date in any.
pub(super) type Unit = u64;
pub(super) const SECOND: Unit = 1_000_000_000;

impl Columns {
    /// From the header line.
    ///
    /// # Errors
    /// Names what is missing.
    pub(super) fn of(header: &StringRecord) -> anyhow::Result<Self> {
        let place = |names: &[&str]| {
            let place = |&name: &&str| header.iter().position(|field| is_same(field, name));
            names.iter().find_map(place)
        };
        // In seconds by the first names, else by that of IPFIX with its unit.
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

/// How a name of IPFIX ends, by its unit.
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
