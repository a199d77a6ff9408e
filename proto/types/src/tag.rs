use core::fmt;
use core::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

/// Context tag: 47 bits that name a context at its receiver (RFC 5533 s4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "[u8; 6]")]
pub struct ContextTag([u8; 6]);

impl ContextTag {
    /// Width in bits.
    pub const BITS: u32 = 47;
    /// The bits that a tag may use.
    pub const MASK: u64 = (1 << Self::BITS) - 1;

    /// Creates a tag from the lower 47 bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = (bits & Self::MASK).to_be_bytes();
        Self([a, b, c, d, e, f])
    }

    /// The tag as a number below 2^47.
    #[must_use]
    pub const fn bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The tag right-aligned in six octets, in network order, with the top bit clear.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Reads a tag from six octets in network order. The top bit (R or P) is ignored.
    //= rfc5533#5.4-2 rfc5533#5.6-2 rfc5533#5.7-2 rfc5533#5.8-2 rfc5533#5.9-2 rfc5533#5.10-2
    //= rfc5533#5.11-2 rfc5534#5.1-3 rfc5534#5.2-3
    #[must_use]
    pub const fn from_octets(octets: [u8; 6]) -> Self {
        Self::from_bits(Self(octets).bits())
    }
}

impl From<[u8; 6]> for ContextTag {
    fn from(octets: [u8; 6]) -> Self {
        Self::from_octets(octets)
    }
}

/// Hashes the tag as one number, which is less work than octets.
impl Hash for ContextTag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

impl fmt::Display for ContextTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.bits())
    }
}

/// Hides the tag: it keeps off-path attackers out, so logs must not show it.
impl fmt::Debug for ContextTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextTag(..)")
    }
}

/// Number of a context on this host: its slot in the tables of the data plane. A number is reused after
/// removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContextId(pub u32);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
