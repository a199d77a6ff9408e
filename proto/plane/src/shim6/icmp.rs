//! ICMPv6 errors that quote payload with a payload header (RFC 5533 s8).

use alloc::vec::Vec;

use moorline_types::{ContextTag, Locator, LocatorPair, UlidPair};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL, PayloadHeader};

use crate::icmp::{
    Error, PACKET_TOO_BIG, PARAMETER_PROBLEM, QUOTE_AT, TIME_EXCEEDED, UNREACHABLE, rewrite,
};
use crate::shim6::packet::{OVERHEAD, outbound, write_header};
use moorline_wire::ip6::{IP6_LEN, Ip6};

/// An error about a packet of ours that has moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    /// Where it went.
    pub(crate) locators: LocatorPair,
    /// The tag in it.
    pub(crate) peer_tag: ContextTag,
    /// Something on the way to the peer, and not the peer itself, says that it does not get there.
    pub(crate) is_unreachable: bool,
    quoted: Ip6,
    header: PayloadHeader,
    /// Second word of the error, as the socket's packet would have had it.
    info: u32,
}

impl Quote {
    /// What the error behind `ip6` quotes; `None` if it is about something else, or about Shim6 itself.
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

    /// Puts the ULIDs into the quote and takes the payload header out; the error goes to the ULID.
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

/// The ULIDs in a packet without a payload header, of which an ICMPv6 error says the same.
pub(crate) fn unreachable(ip6: &Ip6, error: &Error<'_>) -> Option<UlidPair> {
    let quoted = ours(ip6, error)?;
    let is_plain = quoted.next_header != PROTOCOL && error.quoted.len() >= IP6_LEN + LEAST_QUOTED;
    (is_plain && is_unreachable(ip6, error, &quoted)).then(|| outbound(&quoted))
}

/// The header of the packet that is quoted, if who sent that is told.
fn ours(ip6: &Ip6, error: &Error<'_>) -> Option<Ip6> {
    Ip6::read(error.quoted).filter(|quoted| quoted.source == ip6.destination)
}

fn is_unreachable(ip6: &Ip6, error: &Error<'_>, quoted: &Ip6) -> bool {
    let is_of_type = error.kind == UNREACHABLE && error.code != PORT_UNREACHABLE;
    is_of_type && ip6.source != quoted.destination
}

/// Translated: RFC 5533 s8 for the MTU, RFC 4884 s4 for the length of the quote in units of 8 octets.
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
/// Octets of the quoted payload: ports at least, so that what is quoted can be told.
const LEAST_QUOTED: usize = 8;
/// A Parameter Problem that points here does not know the header behind: it is about Shim6.
const POINTER_NEXT_HEADER: u32 = 6;
/// And what points into the payload header.
const POINTER_SHIM6: u32 = 40;
const POINTER_BEHIND_SHIM6: u32 = POINTER_SHIM6 + OVERHEAD as u32;

#[cfg(test)]
mod tests;
