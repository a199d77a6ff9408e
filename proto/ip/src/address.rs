//! Addresses and groups with a meaning, and their scopes (RFC 4291, 4007).

use core::net::Ipv6Addr;

/// Scope of an address (RFC 4291 s2.7). Scopes that are not listed keep their value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(u8);

impl Scope {
    /// Interface-local scope, which only multicast addresses have.
    pub const INTERFACE: Self = Self(1);
    /// Link-local scope.
    pub const LINK: Self = Self(2);
    /// Site-local scope.
    pub const SITE: Self = Self(5);
    /// Global scope.
    pub const GLOBAL: Self = Self(14);

    /// The scope of an address. Unicast addresses have the scopes of RFC 6724 s3.1: the loopback address has link-local
    /// scope, and unique local addresses have global scope.
    //= rfc8504#6.1-1 rfc8504#6.1-2
    //= rfc6724#3.4-1 rfc6724#3.4-2
    #[must_use]
    pub const fn of(address: Ipv6Addr) -> Self {
        let octets = address.octets();
        if address.is_multicast() {
            return Self(octets[1] & 0x0f);
        }
        if address.is_unicast_link_local() || address.is_loopback() {
            return Self::LINK;
        }
        if octets[0] == 0xfe && octets[1] & 0xc0 == 0xc0 { Self::SITE } else { Self::GLOBAL }
    }

    /// Value of the scope field of a multicast address.
    #[must_use]
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// The solicited-node group of an address (RFC 4291 s2.7.1).
#[must_use]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(SOLICITED_NODE_PREFIX | address.to_bits() & 0x00ff_ffff)
}

/// Whether the address is the solicited-node group of some address.
#[must_use]
pub const fn is_solicited_node(address: Ipv6Addr) -> bool {
    address.to_bits() >> 24 == SOLICITED_NODE_PREFIX >> 24
}

/// The address with the prefix of link-local addresses and this interface identifier.
#[must_use]
pub const fn link_local(interface_id: [u8; 8]) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80_u128 << 112 | u64::from_be_bytes(interface_id) as u128)
}

/// The address with the 64 bits of this prefix and this interface identifier.
#[must_use]
pub const fn with_interface_id(prefix: Ipv6Addr, interface_id: [u8; 8]) -> Ipv6Addr {
    Ipv6Addr::from_bits(prefix.to_bits() >> 64 << 64 | u64::from_be_bytes(interface_id) as u128)
}

/// Whether packets may have the address as their destination on the wire, and a host as its own: not unspecified,
/// loopback, or multicast.
#[must_use]
#[inline]
pub const fn is_unicast(address: Ipv6Addr) -> bool {
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback())
}

/// Number of the network that bounds count as one party: the /64 of an IPv6 address, or one IPv4 address if the address is
/// v4-mapped.
#[must_use]
pub fn party(address: Ipv6Addr) -> u64 {
    let v4 = address.to_ipv4_mapped().map(|v4| V4_PARTIES | u64::from(v4.to_bits()));
    v4.unwrap_or_else(|| u64::try_from(address.to_bits() >> 64).unwrap_or_default())
}

/// The group of all nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The group of all routers on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The group of all routers that know MLDv2 (RFC 3810 s5.2.14).
pub const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Above the numbers of IPv4 parties. `0:ffff::/32` is no prefix of IPv6 hosts.
const V4_PARTIES: u64 = 0xffff << 32;
const SOLICITED_NODE_PREFIX: u128 = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).to_bits();

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Ipv6Addr {
        text.parse().expect("address")
    }

    //= rfc8504#6.1-1 (test)
    //= rfc6724#3.4-1 rfc6724#3.4-2 (test)
    #[test]
    fn groups_have_the_scope_of_their_field_and_unicast_addresses_that_of_their_prefix() {
        let scope = |text| Scope::of(address(text));
        assert_eq!(scope("ff02::1"), Scope::LINK);
        assert_eq!(scope("ff01::1"), Scope::INTERFACE);
        assert_eq!(scope("ff08::1").value(), 8);
        assert_eq!(scope("fe80::1"), Scope::LINK);
        assert_eq!(scope("::1"), Scope::LINK);
        assert_eq!(scope("fec0::1"), Scope::SITE);
        assert_eq!(scope("fd00::1"), Scope::GLOBAL);
        assert_eq!(scope("2001:db8::1"), Scope::GLOBAL);
    }

    // RFC 4291 s2.7, RFC 7371 s2: flags are in front of the scope.
    //= rfc8504#6.1-2 (test)
    #[test]
    fn the_flags_of_a_group_leave_its_scope() {
        for flags in 0..16 {
            for (scope, expected) in [(2, Scope::LINK), (0xe, Scope::GLOBAL)] {
                let group = Ipv6Addr::new(0xff00 | flags << 4 | scope, 0, 0, 0, 0, 0, 0, 1);
                assert_eq!(Scope::of(group), expected, "{group}");
            }
        }
    }

    //= rfc8504#6.1-1 (test)
    #[test]
    fn the_solicited_node_group_has_the_last_24_bits() {
        // The example of RFC 4291 s2.7.1.
        let group = solicited_node(address("4037::1:800:200e:8c6c"));
        assert_eq!(group, address("ff02::1:ff0e:8c6c"));
        assert!(is_solicited_node(group) && !is_solicited_node(ALL_NODES));
    }

    #[test]
    fn a_64_bit_prefix_is_a_party_and_so_is_an_ipv4_address() {
        let party = |text| party(address(text));
        assert_eq!(party("2001:db8::1"), party("2001:db8::2"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_ne!(party("::ffff:192.0.2.1"), party("::ffff:192.0.2.2"));
        assert_ne!(party("::ffff:0.0.0.1"), party("::1"));
    }

    #[test]
    fn an_address_is_made_of_a_prefix_and_an_identifier() {
        assert_eq!(link_local([1, 2, 3, 4, 5, 6, 7, 8]), address("fe80::102:304:506:708"));
        let made = with_interface_id(address("2001:db8:1:2:3:4:5:6"), [0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(made, address("2001:db8:1:2::9"));
    }
}
