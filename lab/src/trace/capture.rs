//! pcap and pcapng.

use std::io::Read;
use std::time::Duration;

use anyhow::{anyhow, bail};
use etherparse::{LaxNetSlice, LaxSlicedPacket};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};

use super::Packet;
use crate::interrupt;

/// Packets of a capture file. One that ends amid a packet, as those of a killed tcpdump do, ends before it.
pub(super) struct Capture {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    blocks: u64,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Linktype,
    clock: Clock,
}

/// What the times of a file count.
#[derive(Clone, Copy, Debug)]
enum Clock {
    /// So many in a second.
    Units(u64),
    /// Two to the power of so many in a second.
    Power(u8),
}

impl Capture {
    pub(super) fn new(file: impl Read + Send + 'static) -> anyhow::Result<Self> {
        let reader = create_reader(BUFFER, file).map_err(plain)?;
        Ok(Self { reader, interfaces: Vec::new(), blocks: 0, is_done: false })
    }

    /// The next packet with an IP header.
    fn next_packet(&mut self) -> anyhow::Result<Option<Packet>> {
        loop {
            if self.blocks.is_multiple_of(4096) {
                interrupt::check()?;
            }
            let (used, packet) = match self.reader.next() {
                Ok((used, block)) => (used, look(&mut self.interfaces, &block)?),
                Err(PcapError::Eof | PcapError::UnexpectedEof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => {
                    let before = self.reader.data().len();
                    self.reader.refill().map_err(plain)?;
                    if self.reader.data().len() == before && !self.reader.reader_exhausted() {
                        bail!("a block of more than {BUFFER} octets");
                    }
                    continue;
                }
                Err(PcapError::BufferTooSmall) => bail!("a block of more than {BUFFER} octets"),
                Err(error) => return Err(plain(error)).map_err(|error| self.placed(&error)),
            };
            self.reader.consume(used);
            self.blocks += 1;
            if packet.is_some() {
                return Ok(packet);
            }
        }
    }

    fn placed(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!("after {} blocks: {error}", self.blocks)
    }
}

impl Iterator for Capture {
    type Item = anyhow::Result<Packet>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.next_packet().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Whether a file that begins so is a capture.
pub(super) fn is_capture(head: [u8; 4]) -> bool {
    let pcap = [0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0xa1b2_cd34];
    let magic = u32::from_be_bytes(head);
    magic == PCAPNG || pcap.iter().any(|&one| magic == one || magic == one.swap_bytes())
}

fn look(
    interfaces: &mut Vec<Interface>,
    block: &PcapBlockOwned<'_>,
) -> anyhow::Result<Option<Packet>> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let nanos = header.is_nanosecond_precision();
            let clock = Clock::Units(if nanos { 1_000_000_000 } else { 1_000_000 });
            let link = known(header.network)?;
            *interfaces = vec![Interface { link, clock }];
        }
        PcapBlockOwned::Legacy(block) => {
            let Some(interface) = interfaces.first() else { return Ok(None) };
            let fraction = interface.clock.duration(u64::from(block.ts_usec));
            let at = Duration::from_secs(block.ts_sec.into()) + fraction;
            return Ok(packet(interface.link, block.data, at));
        }
        // Interfaces are numbered anew in each section.
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
            if interfaces.len() >= MAX_INTERFACES {
                bail!("more than {MAX_INTERFACES} interfaces");
            }
            let clock = Clock::of(block.if_tsresol)?;
            interfaces.push(Interface { link: known(block.linktype)?, clock });
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
            let index = usize::try_from(block.if_id)?;
            let Some(interface) = interfaces.get(index) else {
                bail!("a packet of interface {index}, which is nowhere described");
            };
            let units = (u64::from(block.ts_high) << 32) | u64::from(block.ts_low);
            let at = interface.clock.duration(units);
            return Ok(packet(interface.link, block.packet_data(), at));
        }
        // Simple packets have no times, and the rest are no packets.
        PcapBlockOwned::NG(_) => {}
    }
    Ok(None)
}

impl Clock {
    fn of(if_tsresol: u8) -> anyhow::Result<Self> {
        let exponent = if_tsresol & 0x7f;
        let units = 10_u64.checked_pow(exponent.into());
        match units {
            _ if if_tsresol & 0x80 != 0 && exponent < 64 => Ok(Self::Power(exponent)),
            Some(units) if if_tsresol & 0x80 == 0 => Ok(Self::Units(units)),
            _ => bail!("times in a unit of {if_tsresol:#x} (if_tsresol) make no sense"),
        }
    }

    fn duration(self, units: u64) -> Duration {
        let per_second = match self {
            Self::Units(units) => u128::from(units.max(1)),
            Self::Power(exponent) => 1 << exponent,
        };
        let nanos = u128::from(units) * 1_000_000_000 / per_second;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The link types whose packets are understood.
fn known(link: Linktype) -> anyhow::Result<Linktype> {
    if LINKS.iter().any(|(known, _)| *known == link) {
        return Ok(link);
    }
    bail!("packets of link type {}: Ethernet, raw IP and Linux cooked are understood", link.0)
}

/// `None` for what is no IP.
fn packet(link: Linktype, octets: &[u8], at: Duration) -> Option<Packet> {
    let &(_, header) = LINKS.iter().find(|(known, _)| *known == link)?;
    let sliced = match header {
        None => LaxSlicedPacket::from_ethernet(octets).ok()?,
        Some(len) => LaxSlicedPacket::from_ip(octets.get(len..)?).ok()?,
    };
    // The lengths are those in the headers: the capture may have cut the packet.
    let (source, destination, octets, protocol) = match sliced.net? {
        LaxNetSlice::Ipv6(slice) => {
            let header = slice.header();
            let octets = 40 + u64::from(header.payload_length());
            let protocol = slice.payload().ip_number.0;
            (header.source_addr(), header.destination_addr(), octets, protocol)
        }
        LaxNetSlice::Ipv4(slice) => {
            let header = slice.header();
            let mapped = |address: std::net::Ipv4Addr| address.to_ipv6_mapped();
            let (source, destination) = (header.source_addr(), header.destination_addr());
            let octets = u64::from(header.total_len());
            (mapped(source), mapped(destination), octets, header.protocol().0)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    Some(Packet { at, source, destination, protocol: Some(protocol), octets, packets: 1 })
}

fn plain<I: AsRef<[u8]>>(error: PcapError<I>) -> anyhow::Error {
    match error {
        PcapError::Eof => anyhow!("the file is empty"),
        PcapError::UnexpectedEof | PcapError::Incomplete(_) => anyhow!("the file ends too early"),
        PcapError::BufferTooSmall => anyhow!("a block of more than {BUFFER} octets"),
        PcapError::ReadError => anyhow!("it cannot be read"),
        PcapError::HeaderNotRecognized => anyhow!("neither pcap nor pcapng"),
        // Not the input, which the error carries with it.
        PcapError::NomError(_, kind) | PcapError::OwnedNomError(_, kind) => {
            anyhow!("a block makes no sense ({kind:?})")
        }
    }
}

/// Octets of a block at most: captures cut packets at 262,144.
const BUFFER: usize = 1 << 20;
const MAX_INTERFACES: usize = 4096;
const PCAPNG: u32 = 0x0a0d_0d0a;
/// Octets before the IP header, unless it is Ethernet.
const LINKS: [(Linktype, Option<usize>); 8] = [
    (Linktype::ETHERNET, None),
    (Linktype::NULL, Some(4)),
    (Linktype::LOOP, Some(4)),
    (Linktype::RAW, Some(0)),
    (Linktype::IPV4, Some(0)),
    (Linktype::IPV6, Some(0)),
    (Linktype::LINUX_SLL, Some(16)),
    (Linktype::LINUX_SLL2, Some(20)),
];
