//! The Ethernet header, and the addresses of multicast groups on Ethernet (RFC 2464).

use core::fmt;
use core::net::Ipv6Addr;

use crate::Malformed;

/// Address of an interface on Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of all stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The address of a multicast group of IPv6 (RFC 2464 s7).
    #[inline]
    #[must_use]
    pub const fn of_group(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// Whether more than one station may have the address.
    #[inline]
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The interface identifier in the modified EUI-64 format (RFC 4291 appendix A).
    #[must_use]
    pub const fn eui64(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Mac {
    type Err = Malformed;

    /// Reads six octets in hexadecimal, with colons between them.
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(Malformed::Length)?;
            let is_hex = part.len() <= 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            if !is_hex {
                return Err(Malformed::Address);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| Malformed::Address)?;
        }
        if parts.next().is_none() { Ok(Self(octets)) } else { Err(Malformed::Length) }
    }
}

/// The Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination.
    pub destination: Mac,
    /// Source.
    pub source: Mac,
    /// Type of the payload, such as [`IPV6`].
    pub ether_type: u16,
}

impl Ethernet {
    /// Reads the header of a frame; the payload begins [`LEN`] octets behind the start.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n] =
            frame.first_chunk::<LEN>().ok_or(Malformed::Truncated)?;
        Ok(Self {
            destination: Mac([a, b, c, d, e, f]),
            source: Mac([g, h, i, j, k, l]),
            ether_type: u16::from_be_bytes([m, n]),
        })
    }

    /// The octets of the header.
    #[inline]
    #[must_use]
    pub const fn octets(&self) -> [u8; LEN] {
        let [a, b, c, d, e, f] = self.destination.0;
        let [g, h, i, j, k, l] = self.source.0;
        let [m, n] = self.ether_type.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
    }
}

/// Octets of the header.
pub const LEN: usize = 14;
/// Type of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Type of IPv4.
pub const IPV4: u16 = 0x0800;
/// Type of ARP.
pub const ARP: u16 = 0x0806;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn a_header_round_trips() {
        let octets: [u8; LEN] = core::array::from_fn(|i| u8::try_from(i).expect("small"));
        let header = Ethernet::parse(&octets).expect("header");
        assert_eq!(header.ether_type, 0x0c0d);
        assert_eq!(header.octets(), octets);
        assert_eq!(Ethernet::parse(&octets[..13]), Err(Malformed::Truncated));
    }

    //= rfc8504#4-1 (test)
    #[test]
    fn groups_and_identifiers_come_from_addresses() {
        let group = "ff02::1:ff0e:8c6c".parse().expect("address");
        assert_eq!(Mac::of_group(group).to_string(), "33:33:ff:0e:8c:6c");
        // The example of RFC 2464 s4.
        let mac: Mac = "34:56:78:9a:bc:de".parse().expect("address");
        assert_eq!(mac.eui64(), [0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde]);
        assert!(Mac::BROADCAST.is_group() && !mac.is_group());
    }

    #[test]
    fn only_six_octets_are_an_address() {
        for text in
            ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:+6", "100:2:3:4:5:6", "x:2:3:4:5:6"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
