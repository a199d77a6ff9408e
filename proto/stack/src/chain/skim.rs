//! Finding the upper layer of a packet, without processing its headers.

use moorline_ip::extension::{FRAGMENT_LEN, Fragment};
use moorline_ip::header::NO_NEXT_HEADER;
use moorline_ip::ip6::{
    DCCP, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, ROUTING, TCP, UDP, UDP_LITE,
};

use super::MAX_HEADERS;

/// End of a chain of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skim {
    /// The chain ends with the header of this upper layer, or with No Next Header.
    Upper {
        /// Its number.
        protocol: u8,
        /// Its offset.
        at: usize,
    },
    /// The octets are a later fragment; its Next Header has this number.
    LaterFragment(u8),
    /// The octets end before the chain does.
    Truncated,
    /// The chain has more than [`MAX_HEADERS`] headers.
    TooLong,
}

/// Goes through the headers of `packet` from the header `protocol` at `at` on.
pub(crate) fn skim(packet: &[u8], mut protocol: u8, mut at: usize) -> Skim {
    for _ in 0..=MAX_HEADERS {
        if !is_extension(protocol) {
            return Skim::Upper { protocol, at };
        }
        let Some(len) = extension_len(packet, protocol, at) else { return Skim::Truncated };
        let Some(header) = packet.get(at..at + len) else { return Skim::Truncated };
        let next = header[0];
        if protocol == FRAGMENT && Fragment::parse(header).is_ok_and(|header| header.offset > 0) {
            return Skim::LaterFragment(next);
        }
        protocol = next;
        at += len;
    }
    Skim::TooLong
}

impl Skim {
    /// Whether the chain ends, with the header of the upper layer, within `packet` (RFC 7112 s3). Returns the offset
    /// behind that header.
    pub(crate) fn end(self, packet: &[u8]) -> Option<usize> {
        let Self::Upper { protocol, at } = self else { return None };
        let end = at + upper_len(protocol, packet.get(at..)?);
        (end <= packet.len()).then_some(end)
    }
}

/// Octets of an extension header; `None` if the packet ends before its length.
fn extension_len(packet: &[u8], protocol: u8, at: usize) -> Option<usize> {
    let units = usize::from(*packet.get(at + 1)?);
    Some(match protocol {
        FRAGMENT => FRAGMENT_LEN,
        // RFC 4302 s2.2: the length of AH counts 4 octets, without the first two.
        AUTHENTICATION => (units + 2) * 4,
        _ => (units + 1) * 8,
    })
}

/// Octets of the header of an upper layer. The least length counts if the octets do not show more, and one octet if
/// the protocol is not known.
fn upper_len(protocol: u8, octets: &[u8]) -> usize {
    match protocol {
        NO_NEXT_HEADER => 0,
        TCP => {
            let words = octets.get(TCP_DATA_OFFSET_AT).map_or(0, |octet| octet >> 4);
            (usize::from(words) * 4).max(TCP_LEN)
        }
        UDP | UDP_LITE | ICMPV6 | ESP => 8,
        DCCP | SCTP => 12,
        IPV6 => 40,
        _ => 1,
    }
}

fn is_extension(protocol: u8) -> bool {
    EXTENSIONS.contains(&protocol)
}

const AUTHENTICATION: u8 = 51;
const ESP: u8 = 50;
const SCTP: u8 = 132;
const IPV6: u8 = 41;
/// Extension headers as IANA lists them: also AH, Mobility, HIP and Shim6. ESP ends a chain (RFC 7112 s3).
const EXTENSIONS: [u8; 8] =
    [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS, AUTHENTICATION, 135, 139, 140];
const TCP_LEN: usize = 20;
const TCP_DATA_OFFSET_AT: usize = 12;
