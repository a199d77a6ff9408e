use core::net::Ipv6Addr;

use crate::ip6::ICMPV6;

/// Internet checksum of `octets`: the one's complement of their one's complement sum.
///
/// Over octets that hold their own checksum the result is zero.
#[must_use]
pub fn checksum(octets: &[u8]) -> u16 {
    !u16::from_be(fold(sum(octets)))
}

/// Internet checksum of an upper layer's `packet` with its pseudo-header (RFC 8200 s8.1). Over a packet that
/// holds its own checksum the result is zero.
//= rfc8200#8.1-1
#[must_use]
pub fn upper_layer_checksum(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    next_header: u8,
    packet: &[u8],
) -> u16 {
    let len = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let words = [len, next_header.into()].map(|word| u64::from(word.to_be()));
    let addresses = [source, destination].map(|address| sum(&address.octets()));
    !u16::from_be(fold(words[0] + words[1] + addresses[0] + addresses[1] + sum(packet)))
}

/// Sum of the octets as words of the processor. RFC 1071 s2 (B): the order of octets in a word does not matter to a one's
/// complement sum, if the result is swapped; s2 (C): nor does the length of the words. A last word is padded with zeros.
///
/// Two words of 32 bits are added at once: `whole` is the sum of the pairs without its carries, and `high` is the sum of their high words. The
/// difference of `whole` and the shifted `high` is the sum of the low words: that sum is less than 2^64 below 2^34 octets. So a pair takes a load and three operations of
/// a vector, and no word has to be spread to 64 bits.
fn sum(octets: &[u8]) -> u64 {
    let (pairs, rest) = octets.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let [mut whole, mut high] = [u64::from_ne_bytes(last), u64::from_ne_bytes(last) >> 32];
    for pair in pairs {
        let pair = u64::from_ne_bytes(*pair);
        whole = whole.wrapping_add(pair);
        high += pair >> 32;
    }
    whole.wrapping_sub(high << 32) + high
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

    /// The sum by RFC 1071 s1, word for word.
    fn plain(octets: &[u8]) -> u16 {
        let words = octets.chunks(2).map(|word| [word[0], word.get(1).copied().unwrap_or(0)]);
        !fold(words.map(|word| u64::from(u16::from_be_bytes(word))).sum())
    }

    #[test]
    fn each_length_and_alignment_has_the_plain_sum() {
        let octets: alloc::vec::Vec<u8> =
            (0_u32..400).map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes()[0]).collect();
        let ones = [0xff; 400];
        for start in 0..9 {
            for end in start..400 {
                assert_eq!(checksum(&octets[start..end]), plain(&octets[start..end]));
                assert_eq!(checksum(&ones[start..end]), plain(&ones[start..end]));
            }
        }
        let [source, destination] = [1, 2].map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 9, n));
        for len in [0_u8, 1, 8, 255] {
            let packet = &octets[..len.into()];
            let mut pseudo = [source.octets(), destination.octets()].concat();
            pseudo.extend([0, 0, 0, len, 0, 0, 0, 17]);
            pseudo.extend(packet);
            assert_eq!(upper_layer_checksum(source, destination, 17, packet), plain(&pseudo));
        }
    }

    #[test]
    fn odd_octet_is_padded_with_zero() {
        assert_eq!(checksum(&[1]), !0x0100);
        assert_eq!(checksum(&[]), 0xffff);
    }
}
