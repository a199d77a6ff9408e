//! ICMPv6 errors (RFC 4443 s3): planes translate their quotes.

use alloc::vec::Vec;

use moorline_wire::ip6::{ICMPV6, IP6_LEN, Ip6};
use moorline_wire::{checksum, upper_layer_checksum};

/// An ICMPv6 error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Error<'a> {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// Second word: an MTU, a pointer, or a word that contains the length of the quote (RFC 4884 s4).
    pub(crate) info: u32,
    /// The quoted packet, as far as the error has it.
    pub(crate) quoted: &'a [u8],
}

impl<'a> Error<'a> {
    /// Reads an ICMPv6 message; `None` if it is no error.
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        let (&[kind, code, _, _, a, b, c, d], quoted) = message.split_first_chunk()?;
        let info = u32::from_be_bytes([a, b, c, d]);
        let is_error = (UNREACHABLE..=PARAMETER_PROBLEM).contains(&kind);
        is_error.then_some(Self { kind, code, info, quoted })
    }
}

/// Changes the second word of the error in a packet, applies `change`, and corrects the checksum by the difference
/// (RFC 1624 eqn. 3). So a packet that came damaged stays damaged.
pub(crate) fn rewrite(packet: &mut Vec<u8>, info: u32, change: impl FnOnce(&mut Vec<u8>)) {
    let Some(&[.., a, b, _, _, _, _]) = packet.first_chunk::<QUOTE_AT>() else { return };
    packet[CHECKSUM_AT..INFO_AT].fill(0);
    let due_before = due_checksum(packet);
    packet[INFO_AT..QUOTE_AT].copy_from_slice(&info.to_be_bytes());
    change(packet);
    let words = [!u16::from_be_bytes([a, b]), due_before, !due_checksum(packet)];
    let sum = checksum(words.map(u16::to_be_bytes).as_flattened());
    packet[CHECKSUM_AT..INFO_AT].copy_from_slice(&sum.to_be_bytes());
}

/// Checksum of a message whose checksum field is zero.
fn due_checksum(packet: &[u8]) -> u16 {
    let Some(ip6) = Ip6::read(packet) else { return 0 };
    upper_layer_checksum(ip6.source, ip6.destination, ICMPV6, &packet[IP6_LEN..])
}

pub(crate) const UNREACHABLE: u8 = 1;
pub(crate) const PACKET_TOO_BIG: u8 = 2;
pub(crate) const TIME_EXCEEDED: u8 = 3;
pub(crate) const PARAMETER_PROBLEM: u8 = 4;

const CHECKSUM_AT: usize = IP6_LEN + 2;
const INFO_AT: usize = IP6_LEN + 4;
/// Offset of the quote in a packet.
pub(crate) const QUOTE_AT: usize = IP6_LEN + 8;
