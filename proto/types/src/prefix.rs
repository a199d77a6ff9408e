use core::fmt;
use core::net::Ipv6Addr;

/// An IPv6 prefix; the bits behind its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: Ipv6Addr,
    length: u8,
}

impl Prefix {
    /// The prefix of all addresses.
    pub const ALL: Self = Self { address: Ipv6Addr::UNSPECIFIED, length: 0 };

    /// The prefix of this length to which the address belongs. Lengths above 128 count as 128.
    #[must_use]
    pub const fn new(address: Ipv6Addr, length: u8) -> Self {
        let length = if length > 128 { 128 } else { length };
        Self { address: Ipv6Addr::from_bits(address.to_bits() & mask(length)), length }
    }

    /// First address of the prefix.
    #[must_use]
    pub const fn address(self) -> Ipv6Addr {
        self.address
    }

    /// Length in bits.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Mask with ones where addresses are compared.
    #[must_use]
    pub const fn mask(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(mask(self.length))
    }

    /// Whether the address belongs to the prefix.
    #[must_use]
    pub fn contains(self, address: Ipv6Addr) -> bool {
        Self::new(address, self.length) == self
    }

    /// Whether all addresses of the other prefix belong to this one.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

const fn mask(length: u8) -> u128 {
    match u128::MAX.checked_shl(128 - length as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    fn prefix(address: &str, length: u8) -> Prefix {
        Prefix::new(address.parse().expect("address"), length)
    }

    #[test]
    fn a_prefix_has_no_bits_behind_its_length() {
        let text = |address, length| prefix(address, length).to_string();
        assert_eq!(text("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
        assert_eq!(text("2001:db8:1:2:3:4:5:6", 62), "2001:db8:1::/62");
        assert_eq!(text("2001:db8::1", 128), "2001:db8::1/128");
        assert_eq!(text("2001:db8::1", 0), "::/0");
        assert_eq!(text("2001:db8::1", 200), "2001:db8::1/128");
        assert_eq!(prefix("2001:db8::1", 0), Prefix::ALL);
    }

    #[test]
    fn a_prefix_contains_its_addresses_and_covers_longer_ones() {
        let wide = prefix("2001:db8::", 32);
        assert!(wide.contains("2001:db8:ffff::1".parse().expect("address")));
        assert!(!wide.contains("2001:db9::1".parse().expect("address")));
        assert!(wide.covers(prefix("2001:db8:1::", 64)) && wide.covers(wide));
        assert!(!prefix("2001:db8:1::", 64).covers(wide));
        assert!(Prefix::ALL.covers(wide));
    }
}
