//! Traces of traffic: who spoke to whom, when, and how much.
//!
//! Three sources give the same thing, [`Packet`]s in the order of their times: a capture
//! ([`open`] of a pcap or pcapng file), flow records that a collector wrote as CSV (the same), and a
//! [`Campus`] made up. Records know only their beginning, end and sums: their packets are spread
//! evenly in between, and [`Spread`] brings those of all records into order.
//!
//! Files come from anywhere. What is read at a time is bounded, a record that makes no sense is an error that
//! names its line, and a packet that is no IP is left out and counted.

mod campus;
mod capture;
mod columns;
mod records;
mod spread;
mod when;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

pub use campus::Campus;
pub use spread::Spread;

/// Octets that went from one host to another at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Since some time that is the same for the whole trace.
    pub at: Duration,
    /// Who sent it; an IPv4 address is mapped (`::ffff:0:0/96`).
    pub source: Ipv6Addr,
    /// Who was to receive it.
    pub destination: Ipv6Addr,
    /// Upper layer, as far as it is known.
    pub protocol: Option<u8>,
    /// Length of the IP packets.
    pub octets: u64,
    /// How many there were.
    pub packets: u32,
}

/// A flow record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// When its first packet passed.
    pub start: Duration,
    /// From then to its last packet.
    pub duration: Duration,
    /// What all its packets have in common.
    pub source: Ipv6Addr,
    /// Where they went.
    pub destination: Ipv6Addr,
    /// Upper layer, as far as it is known.
    pub protocol: Option<u8>,
    /// Of all packets together.
    pub octets: u64,
    /// How many, at least one.
    pub packets: u64,
}

/// Packets in the order of their times.
pub type Packets = Box<dyn Iterator<Item = anyhow::Result<Packet>>>;

/// Opens a trace; its first octets say what it is.
///
/// # Errors
/// It cannot be read, or is neither a capture nor CSV with the columns needed.
pub fn open(path: &Path) -> anyhow::Result<Packets> {
    let named = || format!("{}", path.display());
    let packets = File::open(path).map_err(Into::into).and_then(read).with_context(named)?;
    let path = named();
    Ok(Box::new(packets.map(move |packet| packet.with_context(|| path.clone()))))
}

/// The same of what is not a file.
///
/// # Errors
/// As [`open`].
pub fn read(mut file: impl Read + Seek + Send + 'static) -> anyhow::Result<Packets> {
    let mut head = Vec::new();
    file.by_ref().take(4).read_to_end(&mut head)?;
    file.rewind()?;
    let file = BufReader::new(file);
    if head.try_into().is_ok_and(capture::is_capture) {
        return Ok(Box::new(capture::packets(file)?));
    }
    let mut records = records::read(file)?;
    records.sort_by_key(|record| record.start);
    Ok(Box::new(Spread::new(records.into_iter()).map(Ok)))
}

/// IPv4 addresses are mapped.
pub(crate) fn widened(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
