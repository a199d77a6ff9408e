//! ICMPv6 errors of routers about packets of sessions that have moved, or that have a nonce.
//!
//! An error is believed as far as it shows our nonce or, as TCP goes without, a connected socket and its addresses on the
//! wire. What the correspondent itself has to say comes with its nonce.

use moorline_types::{IlvPair, L64};
use moorline_wire::ilnp::{ChecksumDelta, OptionsHeader};

use moorline_wire::ip6::{DESTINATION_AT, ICMPV6, IP6_LEN, MIN_MTU, TCP, Upper};

use super::packet::{Ip6, write_addresses};
use moorline_datapath::ilnp::ROOM_IN_TCP;
use moorline_datapath::ilnp::{SessionEntry, Sockets};

/// A packet of ours that an error quotes, as it was on the wire.
#[derive(Debug)]
pub(crate) struct Quote {
    /// Source and destination.
    pub(crate) pair: IlvPair,
    /// The options with our nonce; `None` for options without a nonce, which are those of the socket.
    nonce_header: Option<OptionsHeader>,
    upper: Upper,
    /// The error's MTU or pointer, and what it is for the socket.
    info: (u32, u32),
}

impl Quote {
    /// What the error in this packet quotes; `None` if it is no error, or one of the correspondent, or about the header of our
    /// nonce.
    pub(crate) fn read(packet: &[u8], ip6: &Ip6) -> Option<Self> {
        let end = IP6_LEN + usize::from(ip6.header.payload_len);
        let is_message =
            ip6.header.next_header == ICMPV6 && (IP6_LEN + 1..=packet.len()).contains(&end);
        let (&[kind, _, _, _, a, b, c, d], quoted) = packet.get(IP6_LEN..)?.split_first_chunk()?;
        let header = Ip6::read(quoted)?;
        let is_error = is_message && (UNREACHABLE..=PARAMETER_PROBLEM).contains(&kind);
        if !is_error || header.source != ip6.destination || header.destination.nid == ip6.source.nid
        {
            return None;
        }
        let nonce_header = header.options(quoted).ok()?.filter(|options| options.nonce.is_some());
        let upper = header.upper(quoted);
        let len = nonce_header.as_ref().map_or(0, |options| options.len);
        let room = nonce_header.as_ref().filter(|_| upper.protocol == TCP).map(|_| ROOM_IN_TCP);
        let info = u32::from_be_bytes([a, b, c, d]);
        Some(Self {
            pair: IlvPair::new(header.source, header.destination),
            upper,
            nonce_header,
            info: (info, translated(kind, info, u32::try_from(len).ok()?, room)?),
        })
    }

    /// Whether a packet of this session is quoted, and the stack would not find its socket or the nonce's octets are in it.
    pub(crate) fn is_of(&self, entry: &SessionEntry, sockets: &dyn Sockets) -> bool {
        if let Some(nonce) = self.nonce_header.as_ref().and_then(|options| options.nonce) {
            return nonce == entry.send_nonce;
        }
        entry.pair != self.pair
            && self.upper.protocol == TCP
            && entry.wire_pair() == self.pair
            && sockets.has_connection(entry.pair, TCP, self.upper.ports.unwrap_or_default())
    }

    /// Puts the addresses of the sockets into the quote, and ours of these into the packet. The nonce stays: stacks pass over
    /// options of a packet that is quoted.
    pub(crate) fn translate(&self, packet: &mut [u8], pair: IlvPair) {
        let word = |value: u32| [L64(value.into()), L64(0)];
        let deltas = [
            ChecksumDelta::new(self.pair.l64s(), pair.l64s()),
            ChecksumDelta::new(word(self.info.0), word(self.info.1)),
            // Of the pseudo-header.
            ChecksumDelta::new([self.pair.local.l64, L64(0)], [pair.local.l64, L64(0)]),
        ];
        if let Some(message) = packet.get_mut(IP6_LEN..)
            && let Some((head, quoted)) = message.split_first_chunk_mut::<ERROR_LEN>()
        {
            let field = u16::from_be_bytes([head[2], head[3]]);
            let field = deltas.iter().fold(field, |field, delta| delta.apply(ICMPV6, field));
            head[2..4].copy_from_slice(&field.to_be_bytes());
            head[4..].copy_from_slice(&self.info.1.to_be_bytes());
            write_addresses(quoted, pair);
        }
        if let Some(to) = packet.get_mut(DESTINATION_AT..IP6_LEN) {
            to.copy_from_slice(&pair.local.address().octets());
        }
    }
}

/// What the socket's packet would have had, without the nonce's header of this length and with the room that it is to leave for
/// that; `None` if the error is about that.
fn translated(kind: u8, info: u32, len: u32, room: Option<u32>) -> Option<u32> {
    match kind {
        // Stacks take no MTU below the least.
        PACKET_TOO_BIG => {
            let least = info.min(MIN_MTU.into());
            Some(info.saturating_sub(room.unwrap_or(len)).max(least))
        }
        PARAMETER_PROBLEM => {
            let behind = u32::try_from(IP6_LEN).ok()?;
            (info < behind || info >= behind + len).then_some(info)
        }
        _ => Some(info),
    }
}

const ERROR_LEN: usize = 8;
/// Types of errors (RFC 4443 s3).
const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const PARAMETER_PROBLEM: u8 = 4;

#[cfg(test)]
mod tests;
