//! The Address Resolution Protocol for IPv4 on Ethernet (RFC 826).

use core::net::Ipv4Addr;

use crate::reader::Reader;
use crate::{Mac, Malformed, ethernet};

/// Operation of a message (RFC 826, `ar$op`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Asks for the link-layer address of the target.
    pub const REQUEST: Self = Self(1);
    /// Answers a request.
    pub const REPLY: Self = Self(2);
}

/// A message about IPv4 addresses on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Operation.
    pub operation: Operation,
    /// Link-layer address of the sender.
    pub sender_mac: Mac,
    /// Address of the sender; unspecified in a probe (RFC 5227 s2.1.1).
    pub sender: Ipv4Addr,
    /// Link-layer address of the target. It has no meaning in a request.
    pub target_mac: Mac,
    /// Address of the target.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Reads a message, behind the Ethernet header. Octets behind the message are padding of the link.
    ///
    /// # Errors
    /// [`Malformed::Truncated`]; [`Malformed::Code`] if the message is about other protocols than IPv4 and Ethernet;
    /// [`Malformed::Length`] if the lengths of addresses are not those of Ethernet and IPv4.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let [hardware, protocol] = [reader.u16()?, reader.u16()?];
        let lengths = reader.array()?;
        let message = Self {
            operation: Operation(reader.u16()?),
            sender_mac: Mac(reader.array()?),
            sender: reader.array::<4>()?.into(),
            target_mac: Mac(reader.array()?),
            target: reader.array::<4>()?.into(),
        };
        if (hardware, protocol) != (ETHERNET, ethernet::IPV4) {
            return Err(Malformed::Code);
        }
        if lengths == LENGTHS { Ok(message) } else { Err(Malformed::Length) }
    }

    /// The octets of the message.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        octets[..2].copy_from_slice(&ETHERNET.to_be_bytes());
        octets[2..4].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        octets[4..6].copy_from_slice(&LENGTHS);
        octets[6..8].copy_from_slice(&self.operation.0.to_be_bytes());
        octets[8..14].copy_from_slice(&self.sender_mac.0);
        octets[14..18].copy_from_slice(&self.sender.octets());
        octets[18..24].copy_from_slice(&self.target_mac.0);
        octets[24..].copy_from_slice(&self.target.octets());
        octets
    }
}

/// Octets of a message.
pub const LEN: usize = 28;
/// Hardware type of Ethernet (`ar$hrd`).
const ETHERNET: u16 = 1;
/// Octets of an address of Ethernet and of IPv4 (`ar$hln`, `ar$pln`).
const LENGTHS: [u8; 2] = [6, 4];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use hex::FromHex as _;

    /// A request of 192.0.2.1 for 192.0.2.2, written by hand from RFC 826.
    const REQUEST: &str = "00010800060400010200000000 01c0000201000000000000c0000202";

    #[test]
    fn a_message_round_trips() {
        let mut octets = Vec::from_hex(REQUEST.replace(' ', "")).expect("hex");
        let request = Arp {
            operation: Operation::REQUEST,
            sender_mac: Mac([2, 0, 0, 0, 0, 1]),
            sender: Ipv4Addr::new(192, 0, 2, 1),
            target_mac: Mac([0; 6]),
            target: Ipv4Addr::new(192, 0, 2, 2),
        };
        assert_eq!(Arp::parse(&octets), Ok(request));
        assert_eq!(request.octets(), *octets);
        octets.extend([0; 18]);
        assert_eq!(Arp::parse(&octets), Ok(request), "padding of the link");
        for len in 0..LEN {
            assert_eq!(Arp::parse(&octets[..len]), Err(Malformed::Truncated), "{len}");
        }
        for (at, error) in [
            (1, Malformed::Code),
            (3, Malformed::Code),
            (4, Malformed::Length),
            (5, Malformed::Length),
        ] {
            let mut octets = octets.clone();
            octets[at] += 1;
            assert_eq!(Arp::parse(&octets), Err(error), "{at}");
        }
    }
}
