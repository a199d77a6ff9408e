//! Which column of a CSV file is what.

use anyhow::bail;
use csv::StringRecord;

/// Places of what a record needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) start: (usize, Unit),
    pub(super) end: End,
    /// With IPv4 and IPv6 addresses in columns of their own, the first that is not empty.
    pub(super) source: [Option<usize>; 2],
    pub(super) destination: [Option<usize>; 2],
    pub(super) protocol: Option<usize>,
    pub(super) octets: usize,
    pub(super) packets: usize,
    /// Of the other direction, if records are of both.
    pub(super) octets_back: Option<usize>,
    pub(super) packets_back: Option<usize>,
}

/// How the end of a flow is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    At(usize, Unit),
    After(usize, Unit),
}

/// What a number counts in a column of times. A date is a date in any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Millis,
    Micros,
    Nanos,
}

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
        let timed = |names: &[(&str, Unit)]| {
            names.iter().find_map(|&(name, unit)| Some((place(&[name])?, unit)))
        };
        let start = timed(&STARTS);
        let end = timed(&ENDS).map(|(at, unit)| End::At(at, unit));
        let end = end.or_else(|| timed(&DURATIONS).map(|(at, unit)| End::After(at, unit)));
        let source = SOURCES.map(place);
        let destination = DESTINATIONS.map(place);
        let (octets, packets) = (place(&OCTETS), place(&PACKETS));
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
            (octets.is_none(), "octets (ibyt, bytes, octetDeltaCount)"),
            (packets.is_none(), "packets (ipkt, packets, packetDeltaCount)"),
        ];
        let lacks: Vec<_> =
            lacks.iter().filter(|(lacks, _)| *lacks).map(|(_, what)| *what).collect();
        let (Some(start), Some(end), Some(octets), Some(packets), true) =
            (start, end, octets, packets, lacks.is_empty())
        else {
            bail!("no column for {}", lacks.join("; for "));
        };
        Ok(Self {
            start,
            end,
            source,
            destination,
            protocol: place(&["pr", "proto", "protocolIdentifier"]),
            octets,
            packets,
            octets_back: place(&["obyt", "outBytes", "reverseOctetDeltaCount"]),
            packets_back: place(&["opkt", "outPackets", "reversePacketDeltaCount"]),
        })
    }
}

fn is_same(field: &str, name: &str) -> bool {
    field.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').eq_ignore_ascii_case(name)
}

const STARTS: [(&str, Unit); 6] = [
    ("ts", Unit::Seconds),
    ("firstSeen", Unit::Seconds),
    ("flowStartMilliseconds", Unit::Millis),
    ("flowStartMicroseconds", Unit::Micros),
    ("flowStartNanoseconds", Unit::Nanos),
    ("flowStartSeconds", Unit::Seconds),
];
const ENDS: [(&str, Unit); 6] = [
    ("te", Unit::Seconds),
    ("lastSeen", Unit::Seconds),
    ("flowEndMilliseconds", Unit::Millis),
    ("flowEndMicroseconds", Unit::Micros),
    ("flowEndNanoseconds", Unit::Nanos),
    ("flowEndSeconds", Unit::Seconds),
];
const DURATIONS: [(&str, Unit); 4] = [
    ("td", Unit::Seconds),
    ("duration", Unit::Seconds),
    ("flowDurationMilliseconds", Unit::Millis),
    ("flowDurationMicroseconds", Unit::Micros),
];
const SOURCES: [&[&str]; 2] = [&["sa", "srcAddr", "sourceIPv6Address"], &["sourceIPv4Address"]];
const DESTINATIONS: [&[&str]; 2] =
    [&["da", "dstAddr", "destinationIPv6Address"], &["destinationIPv4Address"]];
const OCTETS: [&str; 5] = ["ibyt", "bytes", "inBytes", "octetDeltaCount", "octetTotalCount"];
const PACKETS: [&str; 5] = ["ipkt", "packets", "inPackets", "packetDeltaCount", "packetTotalCount"];
