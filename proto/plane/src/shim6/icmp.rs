//! ICMPv6 errors that quote payload with a payload header (RFC 5533 s8).

use alloc::vec::Vec;

use moorline_types::{ContextTag, Locator, LocatorPair, UlidPair};
use moorline_wire::{PAYLOAD_HEADER_LEN, PROTOCOL, PayloadHeader, checksum, upper_layer_checksum};

use crate::shim6::packet::{OVERHEAD, outbound, write_header};
use moorline_wire::ip6::{ICMPV6, IP6_LEN, Ip6};

/// An error about a packet of ours that has moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quote {
    /// Where it went.
    pub(crate) locators: LocatorPair,
    /// The tag in it.
    pub(crate) peer_tag: ContextTag,
    quoted: Ip6,
    header: PayloadHeader,
    /// Second word of the error, as the socket's packet would have had it.
    info: [u8; 4],
}

impl Quote {
    /// What the ICMPv6 error behind `ip6` quotes; `None` if it is no error, or about something else, or about Shim6
    /// itself.
    pub(crate) fn of(ip6: &Ip6, packet: &[u8]) -> Option<Self> {
        let message = ip6.payload(packet);
        let (icmp, quote) = message.split_first_chunk::<ICMP_LEN>()?;
        let quoted = Ip6::read(quote)?;
        let header = quote.get(IP6_LEN..)?.first_chunk::<PAYLOAD_HEADER_LEN>()?;
        let header = PayloadHeader::parse(header).ok()?;
        let is_payload =
            quoted.next_header == PROTOCOL && usize::from(quoted.payload_len) >= PAYLOAD_HEADER_LEN;
        if !is_payload || ip6.destination != quoted.source {
            return None;
        }
        Some(Self {
            locators: LocatorPair::new(Locator(quoted.source), Locator(quoted.destination)),
            peer_tag: header.tag,
            quoted,
            header,
            info: info(icmp)?,
        })
    }

    /// Whether something on the way to the peer, and not the peer itself, says that it does not get there.
    pub(crate) fn is_unreachable(&self, ip6: &Ip6, packet: &[u8]) -> bool {
        is_unreachable(ip6, &self.quoted, packet)
    }

    /// Puts the ULIDs into the quote and takes the payload header out; the error goes to the ULID.
    pub(crate) fn translate(&self, ip6: &Ip6, packet: &mut Vec<u8>, ulids: UlidPair) {
        let old = u16::from_be_bytes([packet[CHECKSUM_AT], packet[CHECKSUM_AT + 1]]);
        packet[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
        let due_before = due_checksum(ip6, packet);
        packet[INFO_AT..INFO_AT + 4].copy_from_slice(&self.info);
        let inner = IP6_LEN + ICMP_LEN;
        packet.drain(inner + IP6_LEN..inner + IP6_LEN + PAYLOAD_HEADER_LEN);
        let shorter = |len: u16| len.saturating_sub(OVERHEAD);
        let len = shorter(self.quoted.payload_len);
        write_header(&mut packet[inner..], len, self.header.next_header, ulids.as_locators());
        let to_us = LocatorPair::new(Locator(ip6.source), ulids.local.as_locator());
        write_header(packet, shorter(ip6.payload_len), ip6.next_header, to_us);
        let Some(outer) = Ip6::read(packet) else { return };
        // Not made anew: what came damaged stays damaged (RFC 1624 eqn. 3).
        let words = [!old, due_before, !due_checksum(&outer, packet)].map(u16::to_be_bytes);
        let new = checksum(words.as_flattened());
        packet[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&new.to_be_bytes());
    }
}

/// The ULIDs in a packet without a payload header, of which an ICMPv6 error says the same.
pub(crate) fn unreachable(ip6: &Ip6, packet: &[u8]) -> Option<UlidPair> {
    let quote = ip6.payload(packet).get(ICMP_LEN..)?;
    let quoted = Ip6::read(quote).filter(|_| quote.len() >= IP6_LEN + LEAST_QUOTED)?;
    let is_ours = quoted.next_header != PROTOCOL && ip6.destination == quoted.source;
    (is_ours && is_unreachable(ip6, &quoted, packet)).then(|| outbound(&quoted))
}

fn is_unreachable(ip6: &Ip6, quoted: &Ip6, packet: &[u8]) -> bool {
    let is_of_type = match packet.get(IP6_LEN..) {
        Some([kind, code, ..]) => *kind == UNREACHABLE && *code != PORT_UNREACHABLE,
        Some(_) | None => false,
    };
    is_of_type && ip6.source != quoted.destination
}

/// Translated: RFC 5533 s8 for the MTU, RFC 4884 s4 for the length of the quote.
fn info(icmp: &[u8; ICMP_LEN]) -> Option<[u8; 4]> {
    let &[kind, _, _, _, a, b, c, d] = icmp;
    let info = u32::from_be_bytes([a, b, c, d]);
    let translated = match kind {
        UNREACHABLE | TIME_EXCEEDED => return Some([a.saturating_sub(1), b, c, d]),
        PACKET_TOO_BIG => info.saturating_sub(OVERHEAD.into()),
        PARAMETER_PROBLEM if info >= POINTER_BEHIND_SHIM6 => info - u32::from(OVERHEAD),
        PARAMETER_PROBLEM if info < POINTER_SHIM6 && info != POINTER_NEXT_HEADER => info,
        _ => return None,
    };
    Some(translated.to_be_bytes())
}

/// The checksum that belongs into a message that has zero there.
fn due_checksum(ip6: &Ip6, packet: &[u8]) -> u16 {
    let message = packet.get(IP6_LEN..).unwrap_or(&[]);
    upper_layer_checksum(ip6.source, ip6.destination, ICMPV6, message)
}

/// Octets in front of the quote.
const ICMP_LEN: usize = 8;
const CHECKSUM_AT: usize = IP6_LEN + 2;
const INFO_AT: usize = IP6_LEN + 4;

const UNREACHABLE: u8 = 1;
const PORT_UNREACHABLE: u8 = 4;
/// Octets of the quoted payload: ports at least, so that what is quoted can be told.
const LEAST_QUOTED: usize = 8;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
/// A Parameter Problem that points here does not know the header behind: it is about Shim6.
const POINTER_NEXT_HEADER: u32 = 6;
/// And what points into the payload header.
const POINTER_SHIM6: u32 = 40;
const POINTER_BEHIND_SHIM6: u32 = POINTER_SHIM6 + OVERHEAD as u32;

#[cfg(test)]
mod tests;
