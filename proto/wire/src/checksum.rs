use moorline_ip::{checksum, fill};

/// Writes the checksum of a control message into it. If the message has no room for the field, it stays as it is.
///
/// RFC 5533 s5.3: "there is no pseudo-header checksum part", so a message may move to other locators, or another
/// protocol number, unchanged.
pub fn fill_checksum(message: &mut [u8]) {
    fill(message, CHECKSUM_AT, checksum);
}

const CHECKSUM_AT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_message_sums_to_zero() {
        let mut message = [59, 0, 1, 0, 0xaa, 0xbb, 7, 8];
        fill_checksum(&mut message);
        assert_eq!(checksum(&message), 0);
        let mut short = [1, 2, 3, 4, 5];
        fill_checksum(&mut short);
        assert_eq!(short, [1, 2, 3, 4, 5]);
    }
}
