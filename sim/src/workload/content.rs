/// The octets of a workload from this offset on. They differ at each offset.
pub(crate) fn content(port: u16, offset: u64, len: usize) -> Vec<u8> {
    let skip = usize::try_from(offset % WORD).unwrap_or(0);
    let words = (skip + len).div_ceil(8);
    let mut octets = Vec::with_capacity(words * 8);
    for word in (offset / WORD..).take(words) {
        octets.extend(mixed(port, word).to_be_bytes());
    }
    octets.truncate(skip + len);
    octets.drain(..skip);
    octets
}

fn mixed(port: u16, word: u64) -> u64 {
    let mixed = word.wrapping_add(u64::from(port) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// A checksum of 64 bits over octets in order: FNV-1a, which is enough against accidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    pub(crate) fn add(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.add_word(u64::from(octet));
        }
    }

    /// Adds eight octets at a time, which is faster and gives another sum.
    pub(crate) fn add_words(&mut self, octets: &[u8]) {
        let words = octets.chunks_exact(8);
        let rest = words.remainder();
        for word in words {
            self.add_word(word.iter().fold(0, |word, &octet| word << 8 | u64::from(octet)));
        }
        self.add(rest);
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }

    const fn add_word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }
}

const WORD: u64 = 8;
