//! ICMPv6 errors of routers about packets of sessions that have moved, or that have a nonce.
//!
//! The host believes an error that quotes our nonce. A TCP segment without a nonce has to be from a connected socket,
//! with its addresses on the wire. An error of the correspondent itself comes with the correspondent's nonce.

use alloc::vec::Vec;

use moorline_types::IlvPair;
use moorline_wire::ilnp::OptionsHeader;

use moorline_wire::ip6::{DESTINATION_AT, ICMPV6, IP6_LEN, MIN_MTU, TCP, Upper};

use super::packet::{Ip6, write_addresses};
use crate::icmp::{Error, PACKET_TOO_BIG, PARAMETER_PROBLEM, QUOTE_AT, rewrite};
use moorline_datapath::ilnp::ROOM_IN_TCP;
use moorline_datapath::ilnp::{SessionEntry, Sockets};

/// A packet of ours that an error quotes, with its addresses on the wire.
#[derive(Debug)]
pub(crate) struct Quote {
    /// Source and destination.
    pub(crate) pair: IlvPair,
    /// The options with our nonce; `None` for options without a nonce, which are those of the socket.
    nonce_header: Option<OptionsHeader>,
    upper: Upper,
    /// The error's MTU or pointer, translated for the packet of the socket.
    info: u32,
}

impl Quote {
    /// The quote of the error in this packet. `None` if the packet is no error, or one of the correspondent, or about
    /// the header of our nonce.
    pub(crate) fn read(packet: &[u8], ip6: &Ip6) -> Option<Self> {
        let end = IP6_LEN + usize::from(ip6.header.payload_len);
        let is_message =
            ip6.header.next_header == ICMPV6 && (IP6_LEN + 1..=packet.len()).contains(&end);
        let Error { kind, info, quoted, .. } = Error::read(packet.get(IP6_LEN..)?)?;
        let header = Ip6::read(quoted)?;
        let is_ours = header.source == ip6.destination && header.destination.nid != ip6.source.nid;
        if !is_message || !is_ours {
            return None;
        }
        let nonce_header =
            header.first_options(quoted).ok()?.filter(|options| options.nonce.is_some());
        let upper = header.upper(quoted);
        let len = nonce_header.as_ref().map_or(0, |options| options.len);
        let room = nonce_header.as_ref().filter(|_| upper.protocol == TCP).map(|_| ROOM_IN_TCP);
        Some(Self {
            pair: IlvPair::new(header.source, header.destination),
            upper,
            nonce_header,
            info: translated(kind, info, u32::try_from(len).ok()?, room)?,
        })
    }

    /// Whether the quoted packet belongs to this session and the error is to be translated: the quote has the
    /// session's nonce, or it is a TCP segment of a connected socket with other addresses on the wire.
    pub(crate) fn is_of(&self, entry: &SessionEntry, sockets: &dyn Sockets) -> bool {
        if let Some(nonce) = self.nonce_header.as_ref().and_then(|options| options.nonce) {
            return nonce == entry.send_nonce;
        }
        entry.pair != self.pair
            && self.upper.protocol == TCP
            && entry.wire_pair() == self.pair
            && sockets.has_connection(entry.pair, TCP, self.upper.ports.unwrap_or_default())
    }

    /// Puts the addresses of the sockets into the quote, and our address of these into the packet. The nonce stays,
    /// because stacks skip options of a quoted packet.
    pub(crate) fn translate(&self, packet: &mut Vec<u8>, pair: IlvPair) {
        rewrite(packet, self.info, |packet| {
            write_addresses(&mut packet[QUOTE_AT..], pair);
            packet[DESTINATION_AT..IP6_LEN].copy_from_slice(&pair.local.address().octets());
        });
    }
}

/// Translates the MTU or pointer for the packet of the socket, which has no header with a nonce. `len` is the length
/// of that header, and `room` the room that TCP leaves for it. `None` if the error is about that header.
fn translated(kind: u8, info: u32, len: u32, room: Option<u32>) -> Option<u32> {
    match kind {
        // Stacks take no MTU below the smallest.
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

#[cfg(test)]
mod tests;
