//! What the plane reads and writes in a packet.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{DropReason, Ilv, IlvPair};
use moorline_wire::ilnp::consts::{DESTINATION_OPTIONS, ICMPV6};
use moorline_wire::ilnp::{ChecksumDelta, NonceHeader, OptionsHeader, checksum_at};

/// An IPv6 header, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip6 {
    pub(crate) source: Ilv,
    pub(crate) destination: Ilv,
    pub(crate) next_header: u8,
    pub(crate) payload_len: u16,
}

/// What is behind the extension headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upper {
    pub(crate) protocol: u8,
    /// Where it begins; `None` in a later fragment, which has no checksum and no ports.
    at: Option<usize>,
    /// Source and destination.
    pub(crate) ports: (u16, u16),
}

impl Ip6 {
    /// `None` for what is too short, another version, or not between global unicast addresses; and for what Shim6
    /// has made.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        Self::parse(packet).filter(|ip6| ip6.source.l64.is_global_unicast())
    }

    /// The same of what comes from an address of the link, as what a router next to us has to say may.
    pub(crate) fn read_from_link(packet: &[u8]) -> Option<Self> {
        Self::parse(packet).filter(|ip6| ip6.source.l64.is_link_local())
    }

    fn parse(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<IP6_LEN>()?;
        let address = |at: usize| {
            let octets = header.get(at..)?.first_chunk::<16>()?;
            Some(Ilv::of(Ipv6Addr::from(*octets)))
        };
        let version = header[0] >> 4;
        (version == 6 && header[NEXT_HEADER_AT] != SHIM6).then_some(())?;
        Some(Self {
            source: address(SOURCE_AT)?,
            destination: address(DESTINATION_AT).filter(|ilv| ilv.l64.is_global_unicast())?,
            next_header: header[NEXT_HEADER_AT],
            payload_len: u16::from_be_bytes([header[PAYLOAD_LEN_AT], header[PAYLOAD_LEN_AT + 1]]),
        })
    }

    /// False for most packets, at one look: an ICMPv6 message is the first thing in it, or behind options.
    pub(crate) fn may_be_control(&self, packet: &[u8]) -> bool {
        let behind_options = || packet.get(IP6_LEN) == Some(&ICMPV6);
        self.next_header == ICMPV6 || self.next_header == DESTINATION_OPTIONS && behind_options()
    }

    /// Whether the first header is of Destination Options.
    pub(crate) const fn has_options(&self) -> bool {
        self.next_header == DESTINATION_OPTIONS
    }

    /// The Destination Options header, if it is the first.
    pub(crate) fn options(&self, packet: &[u8]) -> Result<Option<OptionsHeader>, DropReason> {
        if !self.has_options() {
            return Ok(None);
        }
        // What is behind the packet is padding of the link.
        let end = packet.len().min(IP6_LEN + usize::from(self.payload_len));
        let options = OptionsHeader::parse(packet.get(IP6_LEN..end).unwrap_or(&[]))?;
        Ok(Some(options))
    }

    /// Behind up to [`MAX_CHAIN`] extension headers.
    pub(crate) fn upper(&self, packet: &[u8]) -> Upper {
        Self::upper_from(packet, self.next_header, IP6_LEN)
    }

    /// The same behind the first Destination Options header.
    pub(crate) fn upper_behind(packet: &[u8], options: &OptionsHeader) -> Upper {
        Self::upper_from(packet, options.next_header, IP6_LEN + options.len)
    }

    fn upper_from(packet: &[u8], mut protocol: u8, mut at: usize) -> Upper {
        for _ in 0..MAX_CHAIN {
            let fields = packet.get(at..).and_then(<[u8]>::first_chunk::<4>);
            let (true, Some(&[next, len, offset, flags])) =
                (EXTENSIONS.contains(&protocol), fields)
            else {
                break;
            };
            let is_fragment = protocol == FRAGMENT;
            protocol = next;
            if is_fragment && u16::from_be_bytes([offset, flags]) >> 3 != 0 {
                return Upper { protocol, at: None, ports: (0, 0) };
            }
            at += if is_fragment { 8 } else { (usize::from(len) + 1) * 8 };
        }
        let has_ports = checksum_at(protocol).is_some();
        let ports = packet.get(at..).and_then(<[u8]>::first_chunk::<4>).filter(|_| has_ports);
        let ports = ports.map_or((0, 0), |&[a, b, c, d]| {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        });
        Upper { protocol, at: Some(at), ports }
    }

    /// Puts a nonce in front of everything.
    //= rfc6744#8-1
    pub(crate) fn insert(
        &self,
        packet: &mut Vec<u8>,
        header: NonceHeader,
        mtu: usize,
        upper: &mut Upper,
    ) -> Result<(), DropReason> {
        if matches!(self.next_header, HOP_BY_HOP | ROUTING) {
            return Err(DropReason::HeaderChain);
        }
        let octets = NonceHeader { next_header: self.next_header, ..header }.emit();
        let more = u16::try_from(octets.len()).map_err(|_| DropReason::AdjustRoom)?;
        let len = self.payload_len.checked_add(more).ok_or(DropReason::AdjustRoom)?;
        if packet.len() + octets.len() > mtu {
            return Err(DropReason::AdjustRoom);
        }
        upper.at = upper.at.map(|at| at + octets.len());
        packet.splice(IP6_LEN..IP6_LEN, octets);
        write_lengths(packet, len, DESTINATION_OPTIONS);
        Ok(())
    }

    /// Takes the nonce out: with its header, if there is nothing else in that, which moves what is behind it.
    pub(crate) fn strip(&self, packet: &mut Vec<u8>, options: &OptionsHeader, upper: &mut Upper) {
        if options.has_others {
            options.void_nonce(packet.get_mut(IP6_LEN..).unwrap_or(&mut []));
            return;
        }
        packet.drain(IP6_LEN..IP6_LEN + options.len);
        upper.at = upper.at.map(|at| at - options.len);
        let len = u16::try_from(options.len).unwrap_or(u16::MAX);
        write_lengths(packet, self.payload_len.saturating_sub(len), options.next_header);
    }
}

impl Upper {
    /// With the ports as a receiver has them.
    pub(crate) fn reversed(self) -> Self {
        Self { ports: (self.ports.1, self.ports.0), ..self }
    }

    /// The type, if it is an ICMPv6 message.
    pub(crate) fn icmp(&self, packet: &[u8]) -> Option<u8> {
        (self.protocol == ICMPV6).then(|| packet.get(self.at?).copied())?
    }

    /// A TCP segment that only a socket connected to its sender has a use for.
    pub(crate) fn is_within_tcp(&self, packet: &[u8]) -> bool {
        let flags = self.at.and_then(|at| packet.get(at + TCP_FLAGS_AT));
        self.protocol == TCP && flags.is_some_and(|flags| flags & TCP_SYN == 0)
    }

    /// A datagram of UDP.
    pub(crate) const fn is_datagram(&self) -> bool {
        self.protocol == UDP
    }

    /// Changes the checksum: by `delta` that of a transport, by `icmp` that of ICMPv6.
    pub(crate) fn fix(&self, packet: &mut [u8], delta: ChecksumDelta, icmp: ChecksumDelta) {
        let (offset, delta) = match checksum_at(self.protocol) {
            Some(offset) => (offset, delta),
            None if self.protocol == ICMPV6 => (ICMP_CHECKSUM_AT, icmp),
            None => return,
        };
        let Some(at) = self.at.map(|at| at + offset) else { return };
        if let Some(field) = packet.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
            *field = delta.apply(self.protocol, u16::from_be_bytes(*field)).to_be_bytes();
        }
    }
}

/// Writes the addresses of a packet from `pair.local` to `pair.remote`.
pub(crate) fn write_addresses(packet: &mut [u8], pair: IlvPair) {
    let Some(header) = packet.first_chunk_mut::<IP6_LEN>() else { return };
    header[SOURCE_AT..DESTINATION_AT].copy_from_slice(&pair.local.address().octets());
    header[DESTINATION_AT..].copy_from_slice(&pair.remote.address().octets());
}

fn write_lengths(packet: &mut [u8], payload_len: u16, next_header: u8) {
    let Some(header) = packet.first_chunk_mut::<IP6_LEN>() else { return };
    header[PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 2].copy_from_slice(&payload_len.to_be_bytes());
    header[NEXT_HEADER_AT] = next_header;
}

/// RFC 8200 s5: every path takes this.
pub(crate) const MIN_MTU: u16 = 1280;
/// Extension headers walked through in search of the upper layer, as in the Shim6 plane.
const MAX_CHAIN: usize = 4;
const IP6_LEN: usize = 40;
const PAYLOAD_LEN_AT: usize = 4;
const NEXT_HEADER_AT: usize = 6;
const SOURCE_AT: usize = 8;
const DESTINATION_AT: usize = 24;
pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FLAGS_AT: usize = 13;
const TCP_SYN: u8 = 2;
const ICMP_CHECKSUM_AT: usize = 2;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const SHIM6: u8 = 140;
const EXTENSIONS: [u8; 4] = [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS];
