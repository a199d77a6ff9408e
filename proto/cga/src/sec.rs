use core::fmt;

/// Security parameter: number of zero bits at the start of Hash2, in units of 16 (RFC 3972 s2).
///
/// The parameter is in the three leftmost bits of the interface identifier. It also tells which hash function
/// made the address (RFC 4982 s4.1): 0, 1 and 2 stand for SHA-1, the other values are not assigned. This type
/// can hold and show these values. Generation and verification refuse them: if a hash function is assigned to
/// a value, SHA-1 must not verify addresses with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sec(u8);

impl Sec {
    /// No search: every modifier fits.
    pub const ZERO: Self = Self(0);
    /// 16 zero bits: 65,536 tries on average, milliseconds.
    pub const ONE: Self = Self(1);
    /// 32 zero bits: 4,294,967,296 tries on average, minutes to hours. The largest value in use.
    pub const TWO: Self = Self(2);
    /// The largest value of three bits.
    pub const MAX: Self = Self(7);

    /// `None` above 7.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The Sec in an interface identifier.
    #[must_use]
    pub const fn of_interface_id(interface_id: [u8; 8]) -> Self {
        Self(interface_id[0] >> 5)
    }

    /// The number, 0 to 7.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Whether the value stands for SHA-1, the only hash function of CGAs so far (RFC 4982 s6, registry "CGA
    /// SEC").
    #[must_use]
    pub const fn is_sha1(self) -> bool {
        self.0 <= Self::TWO.0
    }

    /// Number of leftmost bits of Hash2 that must be zero: at most 112.
    pub(crate) const fn hash2_zero_bits(self) -> u32 {
        16 * self.0 as u32
    }
}

impl fmt::Display for Sec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
