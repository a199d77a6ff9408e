use core::fmt;
use core::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::{Ulid, UlidPair};

macro_rules! half_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The 8 octets in network order.
            #[must_use]
            pub const fn octets(self) -> [u8; 8] {
                self.0.to_be_bytes()
            }
        }

        impl From<[u8; 8]> for $name {
            fn from(octets: [u8; 8]) -> Self {
                Self(u64::from_be_bytes(octets))
            }
        }

        /// Writes four groups of four digits, never compressed, as in zone files (RFC 6742 s2.1.2, s2.3.2).
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let [a, b, c, d] = [48, 32, 16, 0].map(|shift| self.0 >> shift & 0xffff);
                write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

half_newtype! {
    /// Node Identifier: the lower half of an ILNPv6 address. It names a node at any place in the network (RFC
    /// 6741 s3.1).
    Nid
}
half_newtype! {
    /// 64-bit Locator: the upper half of an ILNPv6 address. It names a subnetwork (RFC 6741 s3.1).
    L64
}

impl Nid {
    /// Creates an identifier from the 48-bit address of an interface, by the modified EUI-64 (RFC 4291 app
    /// A).
    //= rfc6741#2.2-1 rfc6741#3.1-1 rfc6740#3.1.2-1
    #[must_use]
    pub const fn from_mac([a, b, c, d, e, f]: [u8; 6]) -> Self {
        Self(u64::from_be_bytes([a ^ UNIVERSAL, b, c, 0xff, 0xfe, d, e, f]))
    }

    /// Creates an identifier of local scope and of an individual node from 64 random bits (RFC 6741 s2.3,
    /// s2.4).
    //= rfc6741#2.3-1 rfc6741#2.3-3 rfc6741#3.1-1
    #[must_use]
    pub const fn from_random(bits: u64) -> Self {
        Self(bits & !SCOPE_AND_GROUP)
    }

    /// Whether the scope bit says "global": the identifier was made from a number that the IEEE assigned.
    #[must_use]
    pub const fn is_global(self) -> bool {
        self.octets()[0] & UNIVERSAL != 0
    }

    /// Whether the group bit is set: then the identifier names no node (RFC 6741 s2.4).
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.octets()[0] & GROUP != 0
    }
}

impl L64 {
    /// Whether the locator can be the upper half of a global unicast address: not multicast, link-local, or
    /// of the host itself.
    #[must_use]
    pub const fn is_global_unicast(self) -> bool {
        // ::/64 contains the unspecified, the loopback and the IPv4-mapped addresses.
        let [first, ..] = self.octets();
        self.0 != 0 && first != 0xff && !self.is_link_local()
    }

    /// Whether the locator is the upper half of a link-local address.
    #[must_use]
    pub const fn is_link_local(self) -> bool {
        let [first, second, ..] = self.octets();
        first == 0xfe && second & 0xc0 == 0x80
    }
}

/// Identifier-Locator Vector: the contents of an address field of an ILNPv6 packet (RFC 6740 s2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ilv {
    /// Locator: the place in the network.
    pub l64: L64,
    /// Identifier: the node.
    pub nid: Nid,
}

impl Ilv {
    /// Creates an I-LV from its two halves.
    #[must_use]
    pub const fn new(l64: L64, nid: Nid) -> Self {
        Self { l64, nid }
    }

    /// The I-LV of an address.
    #[must_use]
    pub const fn of(address: Ipv6Addr) -> Self {
        let bits = address.to_bits();
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = bits.to_be_bytes();
        let [i, j, k, l, m, n, o, p, ..] = bits.to_be_bytes();
        Self {
            l64: L64(u64::from_be_bytes([i, j, k, l, m, n, o, p])),
            nid: Nid(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        }
    }

    /// The address with these two halves.
    #[must_use]
    pub const fn address(self) -> Ipv6Addr {
        Ipv6Addr::from_bits((self.l64.0 as u128) << 64 | self.nid.0 as u128)
    }

    /// The same node at another locator.
    #[must_use]
    pub const fn at(self, l64: L64) -> Self {
        Self { l64, nid: self.nid }
    }
}

impl fmt::Display for Ilv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

impl fmt::Debug for Ilv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// The I-LVs of a session, seen from this host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IlvPair {
    /// I-LV of this host.
    pub local: Ilv,
    /// I-LV of the correspondent.
    pub remote: Ilv,
}

impl IlvPair {
    /// Creates a pair.
    #[must_use]
    pub const fn new(local: Ilv, remote: Ilv) -> Self {
        Self { local, remote }
    }

    /// The pair of a ULID pair: the same addresses as ILNP names them.
    #[must_use]
    pub const fn of(pair: UlidPair) -> Self {
        Self { local: Ilv::of(pair.local.0), remote: Ilv::of(pair.peer.0) }
    }

    /// The ULID pair of this pair: the same addresses as Shim6 names them.
    #[must_use]
    pub const fn ulids(self) -> UlidPair {
        UlidPair::new(Ulid(self.local.address()), Ulid(self.remote.address()))
    }

    /// The two identifiers, ours first.
    #[must_use]
    pub const fn nids(self) -> (Nid, Nid) {
        (self.local.nid, self.remote.nid)
    }

    /// The two locators, ours first.
    #[must_use]
    pub const fn l64s(self) -> [L64; 2] {
        [self.local.l64, self.remote.l64]
    }

    /// The pair as the other end sees it.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { local: self.remote, remote: self.local }
    }
}

impl fmt::Debug for IlvPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local, self.remote)
    }
}

/// ILNP nonce of 32 or 96 bits, by which a correspondent shows that it is the one with which the session
/// began (RFC 6744 s2). Zeros at its end are part of the nonce.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Nonce {
    /// 32 bits.
    Short([u8; 4]),
    /// 96 bits.
    Long([u8; 12]),
}

impl Nonce {
    /// The 4 or 12 octets.
    #[must_use]
    pub const fn octets(&self) -> &[u8] {
        match self {
            Self::Short(octets) => octets,
            Self::Long(octets) => octets,
        }
    }

    /// Creates a nonce from 4 or 12 octets; `None` for another length.
    #[must_use]
    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let short = octets.try_into().map(Self::Short);
        short.or_else(|_| octets.try_into().map(Self::Long)).ok()
    }
}

/// Hides the nonce: it keeps off-path attackers out, so logs must not show it.
impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({} bits)", self.octets().len() * 8)
    }
}

/// Number of a session on this host: its slot in the tables of the data plane. A number is reused after
/// removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

/// Scope bit of an interface identifier: set if global (RFC 4291 s2.5.1).
const UNIVERSAL: u8 = 2;
/// Group bit of an interface identifier (RFC 4291 s2.5.1).
const GROUP: u8 = 1;
const SCOPE_AND_GROUP: u64 = ((UNIVERSAL | GROUP) as u64) << 56;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn an_address_falls_into_its_halves_and_back() {
        let address: Ipv6Addr = "2001:db8:1:2:14:4fff:ff20:ee64".parse().expect("an address");
        let ilv = Ilv::of(address);
        assert_eq!(ilv, Ilv::new(L64(0x2001_0db8_0001_0002), Nid(0x0014_4fff_ff20_ee64)));
        assert_eq!(ilv.address(), address);
        assert_eq!(format!("{} {}", ilv.l64, ilv.nid), "2001:0db8:0001:0002 0014:4fff:ff20:ee64");
    }

    //= rfc6741#2.2-1 rfc6741#3.1-1 rfc6740#3.1.2-1 (test)
    #[test]
    fn identifiers_have_the_scope_of_what_they_were_made_of() {
        let nid = Nid::from_mac([0x52, 0x54, 0, 0xfe, 0, 1]);
        assert_eq!(format!("{nid}"), "5054:00ff:fefe:0001");
        assert!(!nid.is_global(), "locally administered");
        assert!(Nid::from_mac([0, 0x14, 0x4f, 0, 0, 1]).is_global());
        let random = Nid::from_random(u64::MAX);
        assert!(!random.is_global() && !random.is_group());
        assert!(Nid(u64::MAX).is_group());
    }

    #[test]
    fn locators_are_of_global_unicast_addresses() {
        let l64 = |text: &str| Ilv::of(text.parse().expect("an address")).l64;
        for text in ["2001:db8::1", "fd00::1", "64:ff9b::1"] {
            assert!(l64(text).is_global_unicast(), "{text}");
        }
        for text in ["::1", "::ffff:192.0.2.1", "fe80::1", "febf::1", "ff02::1"] {
            assert!(!l64(text).is_global_unicast(), "{text}");
            assert_eq!(l64(text).is_link_local(), text.starts_with("fe"));
        }
    }

    #[test]
    fn nonces_have_one_of_two_lengths_and_tell_nobody() {
        assert_eq!(Nonce::from_octets(&[1, 2, 3, 4]), Some(Nonce::Short([1, 2, 3, 4])));
        assert_eq!(Nonce::from_octets(&[7; 12]), Some(Nonce::Long([7; 12])));
        for len in [0, 3, 5, 8, 11, 13] {
            assert_eq!(Nonce::from_octets(&[0; 16][..len]), None);
        }
        assert_eq!(format!("{:?}", Nonce::Short([0xab; 4])), "Nonce(32 bits)");
    }
}
