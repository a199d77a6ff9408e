//! Traces of traffic: sources, destinations, times and octets.
//!
//! Three kinds of source give [`Packet`]s in order of time: a capture ([`open`] of a pcap or pcapng file), flow records
//! in CSV from a collector ([`open`], too), and a made-up [`Campus`]. A flow record has only start, end and sums.
//! [`Spread`] distributes the packets of a record evenly over its duration, and merges the packets of all records in
//! order of time.
//!
//! Files are untrusted. Reading is bounded in memory. A malformed record is an error that names its line. A packet
//! other than IP is left out.

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

/// Octets from one host to another at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time since a fixed moment, equal for the whole trace.
    pub at: Duration,
    /// Source. An IPv4 address is mapped (`::ffff:0:0/96`).
    pub source: Ipv6Addr,
    /// Destination.
    pub destination: Ipv6Addr,
    /// Upper-layer protocol, if known.
    pub protocol: Option<u8>,
    /// Total length of the IP packets.
    pub octets: u64,
    /// Number of packets.
    pub packets: u32,
}

/// A flow record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Time of the first packet.
    pub start: Duration,
    /// Time from the first packet to the last.
    pub duration: Duration,
    /// Source of all packets.
    pub source: Ipv6Addr,
    /// Destination of all packets.
    pub destination: Ipv6Addr,
    /// Upper-layer protocol, if known.
    pub protocol: Option<u8>,
    /// Octets of all packets.
    pub octets: u64,
    /// Number of packets, at least one.
    pub packets: u64,
}

/// Packets in order of time.
pub type Packets = Box<dyn Iterator<Item = anyhow::Result<Packet>>>;

/// Opens a trace file. The first octets decide the format.
///
/// # Errors
/// The file cannot be read, or it is neither a capture nor CSV with the needed columns.
pub fn open(path: &Path) -> anyhow::Result<Packets> {
    let named = || format!("{}", path.display());
    let packets = File::open(path).map_err(Into::into).and_then(read).with_context(named)?;
    let path = named();
    Ok(Box::new(packets.map(move |packet| packet.with_context(|| path.clone()))))
}

/// Reads a trace from an open reader, like [`open`].
///
/// # Errors
/// The same errors as [`open`].
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

/// Maps an IPv4 address to IPv6.
pub(crate) fn widened(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
