use core::net::Ipv6Addr;

use crate::ip6::ICMPV6;

/// Internet checksum of `octets`: the one's complement of their one's complement sum.
///
/// Over octets that hold their own checksum the result is zero.
#[must_use]
pub fn checksum(octets: &[u8]) -> u16 {
    let (words, odd) = octets.as_chunks::<2>();
    let mut sum: u64 = words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum();
    if let [last] = odd {
        sum += u64::from(u16::from_be_bytes([*last, 0]));
    }
    !fold(sum)
}

/// Internet checksum of an upper layer's `packet` with its pseudo-header (RFC 8200 s8.1). Over a packet that
/// holds its own checksum the result is zero.
#[must_use]
pub fn upper_layer_checksum(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: u8,
    packet: &[u8],
) -> u16 {
    let addresses = [source, destination].map(|address| !checksum(&address.octets()));
    let parts = [addresses[0], addresses[1], !checksum(packet), next_header.into()];
    !fold(packet.len() as u64 + parts.map(u64::from).iter().sum::<u64>())
}

/// Writes the checksum of an ICMPv6 message into it. This is the checksum of classic IPv6, whichever checksum the
/// transports of a session have (RFC 6741 s4.3).
pub fn fill_icmp_checksum(message: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let sum = |octets: &[u8]| upper_layer_checksum(source, destination, ICMPV6, octets);
    fill(message, ICMP_CHECKSUM_AT, sum);
}

/// Writes the checksum that `sum` computes into the field at `at`. If the message has no room for the field, it stays
/// as it is.
pub fn fill(message: &mut [u8], at: usize, sum: impl FnOnce(&[u8]) -> u16) {
    let field = at..at + 2;
    if message.len() < field.end {
        return;
    }
    message[field.clone()].fill(0);
    let sum = sum(message).to_be_bytes();
    message[field].copy_from_slice(&sum);
}

/// Folds a sum of 16-bit words into one word, with end-around carry (RFC 1071 s1).
#[must_use]
pub fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(folded) => return folded,
            Err(_) => sum = (sum & 0xffff) + (sum >> 16),
        }
    }
}

const ICMP_CHECKSUM_AT: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_rfc1071_example() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn odd_octet_is_padded_with_zero() {
        assert_eq!(checksum(&[1]), !0x0100);
        assert_eq!(checksum(&[]), 0xffff);
    }
}
