use core::fmt;

use crate::{LocatorPair, UlidPair};

/// A way of packets to a peer: the addresses that they have on the wire, and what they carry besides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Source and destination on the wire.
    pub pair: LocatorPair,
    /// What a data plane puts in front of the payload.
    pub encapsulation: Encapsulation,
}

/// What a data plane puts between the IPv6 header of a packet and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encapsulation {
    /// Nothing: the packet leaves as the socket has sent it.
    None,
    /// The payload header of Shim6 (RFC 5533 s5.2).
    PayloadHeader,
}

impl Encapsulation {
    /// Octets by which it lengthens a packet.
    #[must_use]
    pub const fn overhead(self) -> u16 {
        match self {
            Self::None => 0,
            Self::PayloadHeader => 8,
        }
    }
}

impl Path {
    /// The path of a context of Shim6 by these locators: a packet between the ULIDs needs no payload header.
    #[must_use]
    pub fn of(ulids: UlidPair, pair: LocatorPair) -> Self {
        let encapsulation = match pair == ulids.as_locators() {
            true => Encapsulation::None,
            false => Encapsulation::PayloadHeader,
        };
        Self { pair, encapsulation }
    }

    /// Octets by which a packet is longer on this path than the socket has sent it.
    #[must_use]
    pub const fn overhead(self) -> u16 {
        self.encapsulation.overhead()
    }

    /// Whether packets of the path are other than the socket has sent them.
    #[must_use]
    pub fn is_moved(self) -> bool {
        self.encapsulation != Encapsulation::None
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.pair, self.encapsulation)
    }
}
