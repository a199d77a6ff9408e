//! ICMPv6 errors that quote payload with a payload header (RFC 5533 s8).

use alloc::vec::Vec;

use moorline_types::{ContextTag, Locator, LocatorPair, UlidPair};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL, PayloadHeader};

use crate::icmp::{
    Error, PACKET_TOO_BIG, PARAMETER_PROBLEM, QUOTE_AT, TIME_EXCEEDED, UNREACHABLE, rewrite,
};
use crate::shim6::packet::{OVERHEAD, outbound, write_header};
use moorline_wire::ip6::{IP6_LEN, Ip6};

/// An error about a packet of this host that has a payload header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    /// Locators of the quoted packet.
    pub(crate) locators: LocatorPair,
    /// Tag of the quoted packet.
    pub(crate) peer_tag: ContextTag,
    /// Whether a node on the way reports that it cannot reach the peer. The peer itself does not count.
    pub(crate) is_unreachable: bool,
    quoted: Ip6,
    header: PayloadHeader,
    /// Second word of the error, as it holds for the packet of the socket.
    info: u32,
}

impl Quote {
    /// Reads the quote of the error behind `ip6`; `None` if the quoted packet has no payload header, or if the error
    /// is about Shim6 itself.
    pub(crate) fn of(ip6: &Ip6, error: &Error<'_>) -> Option<Self> {
        let quoted = ours(ip6, error)?;
        let header = error.quoted.get(IP6_LEN..)?.first_chunk::<PAYLOAD_HEADER_LEN>()?;
        let header = PayloadHeader::parse(header).ok()?;
        let is_payload =
            quoted.next_header == PROTOCOL && usize::from(quoted.payload_len) >= PAYLOAD_HEADER_LEN;
        is_payload.then_some(Self {
            locators: LocatorPair::new(Locator(quoted.source), Locator(quoted.destination)),
            peer_tag: header.tag,
            is_unreachable: is_unreachable(ip6, error, &quoted),
            quoted,
            header,
            info: info(error)?,
        })
    }

    /// Puts the ULIDs into the quote, takes the payload header out, and addresses the error to the local ULID.
    pub(crate) fn translate(&self, ip6: &Ip6, packet: &mut Vec<u8>, ulids: UlidPair) {
        let shorter = |len: u16| len.saturating_sub(OVERHEAD);
        let len = shorter(self.quoted.payload_len);
        let to_us = LocatorPair::new(Locator(ip6.source), ulids.local.as_locator());
        rewrite(packet, self.info, |packet| {
            packet.drain(QUOTE_AT + IP6_LEN..QUOTE_AT + IP6_LEN + PAYLOAD_HEADER_LEN);
            let (next, addresses) = (self.header.next_header, ulids.as_locators());
            write_header(&mut packet[QUOTE_AT..], len, next, addresses);
            write_header(packet, shorter(ip6.payload_len), ip6.next_header, to_us);
        });
    }
}

/// Returns the ULIDs of a quoted packet without a payload header, if a node on the way cannot reach the peer.
pub(crate) fn unreachable(ip6: &Ip6, error: &Error<'_>) -> Option<UlidPair> {
    let quoted = ours(ip6, error)?;
    let is_plain = quoted.next_header != PROTOCOL && error.quoted.len() >= IP6_LEN + LEAST_QUOTED;
    (is_plain && is_unreachable(ip6, error, &quoted)).then(|| outbound(&quoted))
}

/// Returns the header of the quoted packet, if the error goes to the sender of that packet.
fn ours(ip6: &Ip6, error: &Error<'_>) -> Option<Ip6> {
    Ip6::read(error.quoted).filter(|quoted| quoted.source == ip6.destination)
}

fn is_unreachable(ip6: &Ip6, error: &Error<'_>, quoted: &Ip6) -> bool {
    let is_of_type = error.kind == UNREACHABLE && error.code != PORT_UNREACHABLE;
    is_of_type && ip6.source != quoted.destination
}

/// Translates the second word: RFC 5533 s8 for the MTU, RFC 4884 s4 for the length of the quote in units of 8 octets.
/// `None` if the error is about Shim6 itself.
fn info(&Error { kind, info, .. }: &Error<'_>) -> Option<u32> {
    match kind {
        UNREACHABLE | TIME_EXCEEDED => Some(info.checked_sub(1 << 24).unwrap_or(info)),
        PACKET_TOO_BIG => Some(info.saturating_sub(OVERHEAD.into())),
        PARAMETER_PROBLEM if info >= POINTER_BEHIND_SHIM6 => Some(info - u32::from(OVERHEAD)),
        PARAMETER_PROBLEM if info < POINTER_SHIM6 && info != POINTER_NEXT_HEADER => Some(info),
        _ => None,
    }
}

const PORT_UNREACHABLE: u8 = 4;
/// Fewest octets of the quoted payload: they contain the ports, so that the quoted packet can be told from others.
const LEAST_QUOTED: usize = 8;
/// Pointer of a Parameter Problem to the Next Header field: the node does not know the payload header.
const POINTER_NEXT_HEADER: u32 = 6;
/// Pointers of a Parameter Problem into the payload header, and to the first octet behind it.
const POINTER_SHIM6: u32 = 40;
const POINTER_BEHIND_SHIM6: u32 = POINTER_SHIM6 + OVERHEAD as u32;

#[cfg(test)]
mod tests;
