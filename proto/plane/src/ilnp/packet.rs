//! Reads and writes the parts of a packet that the plane of ILNP needs.

use alloc::vec::Vec;
use moorline_types::{DropReason, Ilv, IlvPair, Nonce};
use moorline_wire::PROTOCOL;
use moorline_wire::ilnp::{Chain, ChecksumDelta, NonceHeader, OptionsHeader, checksum_at};
use moorline_wire::ip6::{self, DESTINATION_OPTIONS, ICMPV6, IP6_LEN, Upper, write_lengths};

/// An IPv6 header, with its addresses as ILNP reads them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip6 {
    pub(crate) source: Ilv,
    pub(crate) destination: Ilv,
    pub(crate) header: ip6::Ip6,
}

impl Ip6 {
    /// Reads a header. `None` if the packet is too short, of another version, made by Shim6, or not between global
    /// unicast addresses.
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        Self::parse(packet).filter(|ip6| ip6.source.l64.is_global_unicast())
    }

    /// Reads a header with a link-local source: an error of a router next to this host may have one.
    pub(crate) fn read_from_link(packet: &[u8]) -> Option<Self> {
        Self::parse(packet).filter(|ip6| ip6.source.l64.is_link_local())
    }

    fn parse(packet: &[u8]) -> Option<Self> {
        let header = ip6::Ip6::read(packet).filter(|header| header.next_header != PROTOCOL)?;
        let destination = Ilv::of(header.destination);
        destination.l64.is_global_unicast().then_some(())?;
        Some(Self { source: Ilv::of(header.source), destination, header })
    }

    /// Whether the packet may be a control message: an ICMPv6 message right behind the header or behind extension
    /// headers. This quick check is false for most packets.
    pub(crate) fn may_be_control(&self) -> bool {
        self.header.next_header == ICMPV6 || self.has_extensions()
    }

    /// Whether the first header is an extension header.
    pub(crate) fn has_extensions(&self) -> bool {
        self.header.has_extensions()
    }

    /// Reads the Destination Options header of a packet that this host has sent: its first extension header.
    pub(crate) fn first_options(&self, packet: &[u8]) -> Result<Option<OptionsHeader>, DropReason> {
        if self.header.next_header != DESTINATION_OPTIONS {
            return Ok(None);
        }
        Ok(Some(OptionsHeader::parse(self.header.payload(packet))?))
    }

    /// Reads what the extension headers say about ILNP.
    pub(crate) fn chain(&self, packet: &[u8]) -> Result<Option<Chain>, DropReason> {
        if !self.has_extensions() {
            return Ok(None);
        }
        Ok(Some(Chain::read(packet, &self.header)?))
    }

    /// Returns the nonce in a Destination Options header, if the extension headers are valid.
    pub(crate) fn nonce(&self, packet: &[u8]) -> Option<Nonce> {
        self.chain(packet).ok()??.options?.nonce
    }

    pub(crate) fn upper(&self, packet: &[u8]) -> Upper {
        self.header.upper(packet)
    }

    /// Reads the upper layer behind a Destination Options header.
    pub(crate) fn upper_behind(packet: &[u8], options: &OptionsHeader, at: usize) -> Upper {
        Upper::read(packet, options.next_header, at + options.len)
    }

    /// Puts a nonce right behind the IPv6 header.
    //= rfc6744#8-1
    pub(crate) fn insert(
        &self,
        packet: &mut Vec<u8>,
        header: NonceHeader,
        mtu: usize,
        upper: &mut Upper,
    ) -> Result<(), DropReason> {
        if self.header.is_behind_others() {
            return Err(DropReason::HeaderChain);
        }
        let octets = NonceHeader { next_header: self.header.next_header, ..header }.emit();
        let more = u16::try_from(octets.len()).map_err(|_| DropReason::AdjustRoom)?;
        let len = self.header.payload_len.checked_add(more).ok_or(DropReason::AdjustRoom)?;
        if packet.len() + octets.len() > mtu {
            return Err(DropReason::AdjustRoom);
        }
        upper.at = upper.at.map(|at| at + octets.len());
        packet.splice(IP6_LEN..IP6_LEN, octets);
        write_lengths(packet, len, DESTINATION_OPTIONS);
        Ok(())
    }

    /// Takes the nonce out of a packet. If its header is the first one and has no options of others, the header goes
    /// and the octets behind it move forward. Otherwise nothing moves, as the length of a fragment must not change.
    pub(crate) fn strip(
        &self,
        packet: &mut Vec<u8>,
        options: &OptionsHeader,
        at: usize,
        upper: &mut Upper,
    ) {
        if options.has_others || at != IP6_LEN {
            options.void_nonce(packet.get_mut(at..).unwrap_or(&mut []));
            return;
        }
        packet.drain(IP6_LEN..IP6_LEN + options.len);
        upper.at = upper.at.map(|at| at - options.len);
        let len = u16::try_from(options.len).unwrap_or(u16::MAX);
        write_lengths(packet, self.header.payload_len.saturating_sub(len), options.next_header);
    }
}

/// Changes the checksum of the upper layer: of a transport by `delta`, of ICMPv6 by `icmp`.
pub(crate) fn fix(upper: &Upper, packet: &mut [u8], delta: ChecksumDelta, icmp: ChecksumDelta) {
    let (offset, delta) = match checksum_at(upper.protocol) {
        Some(offset) => (offset, delta),
        None if upper.protocol == ICMPV6 => (ICMP_CHECKSUM_AT, icmp),
        None => return,
    };
    let Some(at) = upper.at.map(|at| at + offset) else { return };
    if let Some(field) = packet.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *field = delta.apply(upper.protocol, u16::from_be_bytes(*field)).to_be_bytes();
    }
}

/// Writes the addresses of a packet from `pair.local` to `pair.remote`.
pub(crate) fn write_addresses(packet: &mut [u8], pair: IlvPair) {
    ip6::write_addresses(packet, pair.local.address(), pair.remote.address());
}

const ICMP_CHECKSUM_AT: usize = 2;
