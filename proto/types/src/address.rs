use core::fmt;
use core::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

macro_rules! address_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(transparent)]
        pub struct $name(pub Ipv6Addr);

        impl $name {
            /// The 16 octets in network order.
            #[must_use]
            pub const fn octets(self) -> [u8; 16] {
                self.0.octets()
            }

            /// The upper 64 bits: the prefix of the subnetwork.
            #[must_use]
            pub const fn prefix(self) -> [u8; 8] {
                let [a, b, c, d, e, f, g, h, ..] = self.0.octets();
                [a, b, c, d, e, f, g, h]
            }

            /// The lower 64 bits: the interface identifier.
            #[must_use]
            pub const fn interface_id(self) -> [u8; 8] {
                let [.., a, b, c, d, e, f, g, h] = self.0.octets();
                [a, b, c, d, e, f, g, h]
            }

            /// Whether packets may have the address beyond a link. RFC 5533 s12.3 excludes multicast and
            /// unspecified addresses; this also excludes link-local and loopback addresses, which are no
            /// locators either.
            #[must_use]
            pub const fn is_global_unicast(self) -> bool {
                !(self.0.is_multicast()
                    || self.0.is_unspecified()
                    || self.0.is_loopback()
                    || self.0.is_unicast_link_local())
            }
        }

        impl From<[u8; 16]> for $name {
            fn from(octets: [u8; 16]) -> Self {
                Self(Ipv6Addr::from(octets))
            }
        }

        impl From<Ipv6Addr> for $name {
            fn from(address: Ipv6Addr) -> Self {
                Self(address)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

address_newtype! {
    /// Upper-layer identifier: the address that sockets see (RFC 5533 s3).
    Ulid
}
address_newtype! {
    /// Locator: the address in the IPv6 header on the wire (RFC 5533 s3).
    Locator
}

impl Ulid {
    /// The locator with the same value: a ULID is at first its own locator.
    #[must_use]
    pub const fn as_locator(self) -> Locator {
        Locator(self.0)
    }
}

impl Locator {
    /// The ULID with the same value.
    #[must_use]
    pub const fn as_ulid(self) -> Ulid {
        Ulid(self.0)
    }
}

macro_rules! pair_newtype {
    ($(#[$doc:meta])* $name:ident of $end:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            /// Address of this host.
            pub local: $end,
            /// Address of the peer.
            pub peer: $end,
        }

        impl $name {
            /// Creates a pair.
            #[must_use]
            pub const fn new(local: $end, peer: $end) -> Self {
                Self { local, peer }
            }

            /// The pair as the other end sees it.
            #[must_use]
            pub const fn reversed(self) -> Self {
                Self { local: self.peer, peer: self.local }
            }

            /// Whether both addresses are global unicast addresses.
            #[must_use]
            pub const fn is_global_unicast(self) -> bool {
                self.local.is_global_unicast() && self.peer.is_global_unicast()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} -> {}", self.local, self.peer)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

pair_newtype! {
    /// The ULID pair of a context, seen from this host.
    UlidPair of Ulid
}
pair_newtype! {
    /// A locator pair, seen from this host: source and destination of what it sends.
    LocatorPair of Locator
}

impl LocatorPair {
    /// Number of ends that the two pairs have in common: 0 to 2.
    #[must_use]
    pub fn shared_ends(self, other: Self) -> u8 {
        u8::from(self.local == other.local) + u8::from(self.peer == other.peer)
    }
}

impl UlidPair {
    /// The locator pair with the same addresses.
    #[must_use]
    pub const fn as_locators(self) -> LocatorPair {
        LocatorPair { local: self.local.as_locator(), peer: self.peer.as_locator() }
    }
}
