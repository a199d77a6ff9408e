//! Content that can be generated and checked at any offset of a stream.

/// Pseudo-random octets. Each depends only on the seed and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    seed: u64,
}

impl Pattern {
    /// The stream of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Writes the content of the stream from `offset` on.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let word = self.word(at / 8).to_le_bytes();
            let skip = usize::from((at % 8) as u8);
            let count = (8 - skip).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&word[skip..skip + count]);
            at += count as u64;
            rest = later;
        }
    }

    /// Whether `received` is the content of the stream from `offset` on.
    #[must_use]
    pub fn matches(&self, offset: u64, received: &[u8]) -> bool {
        let mut right = vec![0; received.len()];
        self.fill(offset, &mut right);
        right == received
    }

    /// SplitMix64: well mixed, without a state, and no number twice for one seed.
    pub(super) fn word(&self, index: u64) -> u64 {
        let mut z = self.seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_however_it_is_cut() {
        let pattern = Pattern::new(7);
        let mut whole = [0; 64];
        pattern.fill(0, &mut whole);
        for start in 0..20 {
            for end in start..40 {
                let mut part = vec![0; end - start];
                pattern.fill(start as u64, &mut part);
                assert_eq!(part, whole[start..end]);
            }
        }
    }

    #[test]
    fn a_changed_octet_and_a_shift_are_found() {
        let pattern = Pattern::new(7);
        let mut octets = [0; 100];
        pattern.fill(1000, &mut octets);
        assert!(pattern.matches(1000, &octets));
        assert!(!pattern.matches(1001, &octets));
        octets[99] ^= 1;
        assert!(!pattern.matches(1000, &octets));
    }
}
