use core::fmt;

use crate::{LocatorPair, UlidPair};

/// A path of packets to a peer: their addresses on the wire, and their encapsulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Source and destination on the wire.
    pub pair: LocatorPair,
    /// Header that a data plane puts in front of the payload.
    pub encapsulation: Encapsulation,
}

/// Header that a data plane puts between the IPv6 header and the payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encapsulation {
    /// No header: the packet leaves as the socket has sent it.
    None,
    /// The payload header of Shim6 (RFC 5533 s5.2).
    PayloadHeader,
}

impl Encapsulation {
    /// Octets by which the header lengthens a packet.
    #[must_use]
    pub const fn overhead(self) -> u16 {
        match self {
            Self::None => 0,
            Self::PayloadHeader => 8,
        }
    }
}

impl Path {
    /// Path of a Shim6 context by these locators. A packet between the ULIDs needs no payload header.
    #[must_use]
    pub fn of(ulids: UlidPair, pair: LocatorPair) -> Self {
        let encapsulation = match pair == ulids.as_locators() {
            true => Encapsulation::None,
            false => Encapsulation::PayloadHeader,
        };
        Self { pair, encapsulation }
    }

    /// Octets by which a packet grows on this path.
    #[must_use]
    pub const fn overhead(self) -> u16 {
        self.encapsulation.overhead()
    }

    /// Whether packets on the path differ from those that the socket has sent.
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
