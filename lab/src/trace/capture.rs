//! Captures: pcap and pcapng.

use std::io::Read;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use etherparse::{LaxNetSlice, LaxSlicedPacket};
use pcap_parser::pcapng::Block;
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};

use super::Packet;
use crate::interrupt;

/// Packets of a capture file. If the file ends inside a packet, as after a kill of tcpdump, that packet is left out.
pub(super) fn packets(
    file: impl Read + Send + 'static,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Packet>>> {
    let reader = create_reader(BUFFER, file).map_err(plain)?;
    let mut capture = Some(Capture { reader, interfaces: Vec::new(), blocks: 0 });
    Ok(std::iter::from_fn(move || {
        let next = capture.as_mut()?.next_packet().transpose();
        if !matches!(next, Some(Ok(_))) {
            capture = None;
        }
        next
    }))
}

struct Capture {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    blocks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    /// Octets before the IP header. `None` for Ethernet.
    header: Option<usize>,
    /// Clock units in a second.
    units: u64,
}

impl Capture {
    /// The next packet with an IP header. `None` at the end of the file.
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
                        return Err(plain(PcapError::<&[u8]>::BufferTooSmall));
                    }
                    continue;
                }
                Err(error) => {
                    return Err(plain(error).context(format!("after {} blocks", self.blocks)));
                }
            };
            self.reader.consume(used);
            self.blocks += 1;
            if packet.is_some() {
                return Ok(packet);
            }
        }
    }
}

/// Whether the first four octets are those of a capture.
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
            let digits = if header.is_nanosecond_precision() { 9 } else { 6 };
            *interfaces = vec![Interface::of(header.network, digits)?];
        }
        PcapBlockOwned::Legacy(block) => {
            let Some(interface) = interfaces.first() else { return Ok(None) };
            let fraction = interface.duration(block.ts_usec.into());
            let at = Duration::from_secs(block.ts_sec.into()) + fraction;
            return Ok(interface.packet(block.data, at));
        }
        // Each section has its own numbering of interfaces.
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
            if interfaces.len() >= MAX_INTERFACES {
                bail!("more than {MAX_INTERFACES} interfaces");
            }
            interfaces.push(Interface::of(block.linktype, block.if_tsresol)?);
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
            let index = usize::try_from(block.if_id)?;
            let Some(interface) = interfaces.get(index) else {
                bail!("a packet of interface {index}, which is nowhere described");
            };
            let units = (u64::from(block.ts_high) << 32) | u64::from(block.ts_low);
            return Ok(interface.packet(block.packet_data(), interface.duration(units)));
        }
        // Simple packets have no times. Other blocks are no packets.
        PcapBlockOwned::NG(_) => {}
    }
    Ok(None)
}

impl Interface {
    /// An interface of a known link type. `if_tsresol` describes its clock as in pcapng: the exponent of the units in a
    /// second, base 2 if the highest bit is set, else base 10.
    fn of(link: Linktype, if_tsresol: u8) -> anyhow::Result<Self> {
        let Some(&(_, header)) = LINKS.iter().find(|(known, _)| *known == link) else {
            bail!(
                "packets of link type {}: Ethernet, raw IP and Linux cooked are understood",
                link.0
            );
        };
        let base = if if_tsresol & 0x80 == 0 { 10_u64 } else { 2 };
        let units = base.checked_pow(u32::from(if_tsresol & 0x7f)).with_context(|| {
            format!("times in a unit of {if_tsresol:#x} (if_tsresol) make no sense")
        })?;
        Ok(Self { header, units })
    }

    fn duration(self, units: u64) -> Duration {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.units);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Parses a packet. `None` if it is no IP packet.
    fn packet(self, octets: &[u8], at: Duration) -> Option<Packet> {
        let sliced = match self.header {
            None => LaxSlicedPacket::from_ethernet(octets).ok()?,
            Some(len) => LaxSlicedPacket::from_ip(octets.get(len..)?).ok()?,
        };
        // Lengths are those of the headers, because the capture may have cut the packet.
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
}

fn plain<I: AsRef<[u8]>>(error: PcapError<I>) -> anyhow::Error {
    match error {
        PcapError::Eof => anyhow!("the file is empty"),
        PcapError::UnexpectedEof | PcapError::Incomplete(_) => anyhow!("the file ends too early"),
        PcapError::BufferTooSmall => anyhow!("a block of more than {BUFFER} octets"),
        PcapError::ReadError => anyhow!("it cannot be read"),
        PcapError::HeaderNotRecognized => anyhow!("neither pcap nor pcapng"),
        // The message leaves out the input that the error carries.
        PcapError::NomError(_, kind) | PcapError::OwnedNomError(_, kind) => {
            anyhow!("a block makes no sense ({kind:?})")
        }
    }
}

/// Greatest size of a block in octets. Captures cut packets at 262,144.
const BUFFER: usize = 1 << 20;
const MAX_INTERFACES: usize = 4096;
const PCAPNG: u32 = 0x0a0d_0d0a;
/// Known link types, each with the octets before the IP header. `None` for Ethernet.
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
