//! Flow records in CSV.

use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use csv::{ReaderBuilder, StringRecord};

use super::columns::{Columns, End, Places};
use super::{Record, when, widened};
use crate::interrupt;

/// Reads all records of a file, in its order. Skips comment lines (`#`) and the summary that nfdump appends.
pub(super) fn read(file: impl Read) -> anyhow::Result<Vec<Record>> {
    let mut reader = ReaderBuilder::new().flexible(true).comment(Some(b'#')).from_reader(file);
    let header = reader.headers().context("no CSV")?.clone();
    let columns = Columns::of(&header)?;
    let (mut records, mut row) = (Vec::new(), StringRecord::new());
    while reader.read_record(&mut row).context("no CSV")? {
        let line = row.position().map_or(0, csv::Position::line);
        if row.get(0).is_some_and(|first| first.trim() == "Summary") {
            break;
        }
        ensure!(records.len() < MAX_RECORDS, "more than {MAX_RECORDS} records");
        records.push(record(&columns, &row).with_context(|| format!("line {line}"))?);
        if records.len().is_multiple_of(65_536) {
            interrupt::check()?;
        }
    }
    Ok(records)
}

fn record(columns: &Columns, row: &StringRecord) -> anyhow::Result<Record> {
    let (at, unit) = columns.start;
    let start = when::moment(field(row, at)?, unit);
    let start = start.with_context(|| wrong(row, at, "time"))?;
    let duration = match columns.end {
        End::At(at, unit) => {
            let end = when::moment(field(row, at)?, unit);
            // If an exporter's clock goes back, the duration is zero.
            end.with_context(|| wrong(row, at, "time"))?.saturating_sub(start)
        }
        End::After(at, unit) => {
            let duration = when::length(field(row, at)?, unit);
            duration.with_context(|| wrong(row, at, "duration"))?
        }
    };
    ensure!(duration <= LONGEST, "a flow of {} days", duration.as_secs() / 86_400);
    let sum = |places: Places| {
        let mut counts = places.into_iter().flatten().map(|at| count(row, at));
        counts.try_fold(0_u64, |sum, count| anyhow::Ok(sum.saturating_add(count?)))
    };
    Ok(Record {
        start,
        duration,
        source: address(row, columns.source).context("source")?,
        destination: address(row, columns.destination).context("destination")?,
        protocol: columns.protocol.and_then(|at| row.get(at)).and_then(protocol),
        octets: sum(columns.octets)?,
        packets: sum(columns.packets)?.max(1),
    })
}

fn field(row: &StringRecord, at: usize) -> anyhow::Result<&str> {
    row.get(at).with_context(|| format!("no column {}: the line is too short", at + 1))
}

fn wrong(row: &StringRecord, at: usize, what: &str) -> String {
    let text: String = row.get(at).unwrap_or_default().chars().take(60).collect();
    format!("column {}: {text:?} is no {what}", at + 1)
}

fn count(row: &StringRecord, at: usize) -> anyhow::Result<u64> {
    let text = field(row, at)?.trim();
    text.parse().ok().with_context(|| wrong(row, at, "number"))
}

fn address(row: &StringRecord, places: Places) -> anyhow::Result<Ipv6Addr> {
    for at in places.into_iter().flatten() {
        let text = field(row, at)?.trim();
        // An exporter of both families leaves the unused column empty or writes the unspecified address.
        match text.parse::<IpAddr>() {
            Ok(address) if !address.is_unspecified() => return Ok(widened(address)),
            Err(_) if !text.is_empty() => bail!("{}", wrong(row, at, "address")),
            Ok(_) | Err(_) => {}
        }
    }
    bail!("no address")
}

/// Parses a protocol: a number or a name that nfdump writes. `None` for any other text.
fn protocol(text: &str) -> Option<u8> {
    let text = text.trim();
    let named = NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    named.map(|&(_, number)| number).or_else(|| text.parse().ok())
}

/// Greatest number of records in a file: about 1.4 GB in memory.
const MAX_RECORDS: usize = 16_000_000;
const LONGEST: Duration = Duration::from_secs(400 * 86_400);
const NAMES: [(&str, u8); 7] = [
    ("ICMP", 1),
    ("TCP", 6),
    ("UDP", 17),
    ("ICMP6", 58),
    ("IPv6-ICMP", 58),
    ("ICMPv6", 58),
    ("SCTP", 132),
];
