//! ICMPv6 messages (RFC 4443).

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::ip6::ICMPV6;
use crate::reader::Reader;
use crate::{Malformed, fill_icmp_checksum, upper_layer_checksum};

/// Type of a message; below 128 it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Destination Unreachable.
    pub const UNREACHABLE: Self = Self(1);
    /// Packet Too Big.
    pub const PACKET_TOO_BIG: Self = Self(2);
    /// Time Exceeded.
    pub const TIME_EXCEEDED: Self = Self(3);
    /// Parameter Problem.
    pub const PARAMETER_PROBLEM: Self = Self(4);
    /// Echo Request.
    pub const ECHO_REQUEST: Self = Self(128);
    /// Echo Reply.
    pub const ECHO_REPLY: Self = Self(129);
    /// Multicast Listener Query.
    pub const MLD_QUERY: Self = Self(130);
    /// Multicast Listener Report, version 1.
    pub const MLD_REPORT: Self = Self(131);
    /// Multicast Listener Done, version 1.
    pub const MLD_DONE: Self = Self(132);
    /// Router Solicitation.
    pub const ROUTER_SOLICITATION: Self = Self(133);
    /// Router Advertisement.
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    /// Neighbor Solicitation.
    pub const NEIGHBOR_SOLICITATION: Self = Self(135);
    /// Neighbor Advertisement.
    pub const NEIGHBOR_ADVERTISEMENT: Self = Self(136);
    /// Redirect.
    pub const REDIRECT: Self = Self(137);
    /// Version 2 Multicast Listener Report.
    pub const MLDV2_REPORT: Self = Self(143);

    /// Whether the message is an error (RFC 4443 s2.1).
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }

    /// Whether the message is one of Neighbor Discovery, which no router forwards (RFC 4861 s4).
    #[must_use]
    pub const fn is_neighbor_discovery(self) -> bool {
        self.0 >= Self::ROUTER_SOLICITATION.0 && self.0 <= Self::REDIRECT.0
    }
}

/// An ICMPv6 message whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp<'a> {
    /// Type.
    pub kind: Kind,
    /// Code.
    pub code: u8,
    /// Octets behind the checksum.
    pub body: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Reads a message and checks its checksum.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::Checksum`].
    //= rfc3810#5.1.2-1 rfc3810#5.1.12-1 rfc3810#5.2.2-1 rfc3810#5.2.11-1
    pub fn parse(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &'a [u8],
    ) -> Result<Self, Malformed> {
        let mut reader = Reader::new(message);
        let [kind, code, _, _] = reader.array()?;
        if upper_layer_checksum(source, destination, ICMPV6, message) != 0 {
            return Err(Malformed::Checksum);
        }
        Ok(Self { kind: Kind(kind), code, body: reader.rest() })
    }

    /// Appends the message to `out`, with its checksum.
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([self.kind.0, self.code, 0, 0]);
        out.extend_from_slice(self.body);
        fill_icmp_checksum(&mut out[start..], source, destination);
    }
}

/// An error that a packet has caused (RFC 4443 s3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// Meaning of the error.
    pub cause: Cause,
    /// The packet, as far as the error quotes it.
    pub quote: &'a [u8],
}

/// Meaning of an error. Codes are numbers, so unknown codes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Destination Unreachable, with its code, such as [`NO_ROUTE`].
    Unreachable(u8),
    /// Packet Too Big, with the MTU of the next hop.
    PacketTooBig(u32),
    /// Time Exceeded, with its code: [`HOP_LIMIT`] or [`REASSEMBLY`].
    TimeExceeded(u8),
    /// Parameter Problem, with its code, such as [`ERRONEOUS_FIELD`], and the offset of the problem in the packet.
    ParameterProblem(u8, u32),
    /// An error of an unknown type, with its code.
    Unknown(Kind, u8),
}

impl<'a> Error<'a> {
    /// Reads an error; `None` if the message is no error.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn parse(message: &Icmp<'a>) -> Result<Option<Self>, Malformed> {
        if !message.kind.is_error() {
            return Ok(None);
        }
        let mut reader = Reader::new(message.body);
        let word = reader.u32()?;
        let cause = match message.kind {
            Kind::UNREACHABLE => Cause::Unreachable(message.code),
            Kind::PACKET_TOO_BIG => Cause::PacketTooBig(word),
            Kind::TIME_EXCEEDED => Cause::TimeExceeded(message.code),
            Kind::PARAMETER_PROBLEM => Cause::ParameterProblem(message.code, word),
            kind => Cause::Unknown(kind, message.code),
        };
        Ok(Some(Self { cause, quote: reader.rest() }))
    }

    /// Appends the message to `out`, with its checksum. The quote is cut so that the packet has [`crate::ip6::MIN_MTU`] octets
    /// at most (RFC 4443 s2.4 (c)).
    //= rfc4443#2.4-4
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
        let start = out.len();
        let (kind, code, word) = self.cause.fields();
        out.extend([kind.0, code, 0, 0]);
        out.extend(word.to_be_bytes());
        out.extend_from_slice(&self.quote[..self.quote.len().min(MAX_QUOTE)]);
        fill_icmp_checksum(&mut out[start..], source, destination);
    }
}

impl Cause {
    const fn fields(self) -> (Kind, u8, u32) {
        match self {
            Self::Unreachable(code) => (Kind::UNREACHABLE, code, 0),
            Self::PacketTooBig(mtu) => (Kind::PACKET_TOO_BIG, 0, mtu),
            Self::TimeExceeded(code) => (Kind::TIME_EXCEEDED, code, 0),
            Self::ParameterProblem(code, pointer) => (Kind::PARAMETER_PROBLEM, code, pointer),
            Self::Unknown(kind, code) => (kind, code, 0),
        }
    }
}

/// An Echo Request or Echo Reply (RFC 4443 s4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Identifier.
    pub identifier: u16,
    /// Sequence Number.
    pub sequence: u16,
    /// Data.
    pub data: &'a [u8],
}

impl<'a> Echo<'a> {
    /// Reads the body of an Echo Request or Echo Reply.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let [identifier, sequence] = [reader.u16()?, reader.u16()?];
        Ok(Self { identifier, sequence, data: reader.rest() })
    }

    /// Appends the message to `out`, with its checksum. `kind` is [`Kind::ECHO_REQUEST`] or [`Kind::ECHO_REPLY`].
    pub fn emit(&self, kind: Kind, source: Ipv6Addr, destination: Ipv6Addr, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([kind.0, 0, 0, 0]);
        out.extend(self.identifier.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend_from_slice(self.data);
        fill_icmp_checksum(&mut out[start..], source, destination);
    }
}

/// Code of Destination Unreachable: no route to the destination.
pub const NO_ROUTE: u8 = 0;
/// Code of Destination Unreachable: prohibited by a firewall.
pub const PROHIBITED: u8 = 1;
/// Code of Destination Unreachable: the destination is beyond the scope of the source address.
pub const BEYOND_SCOPE: u8 = 2;
/// Code of Destination Unreachable: the address cannot be reached.
pub const ADDRESS_UNREACHABLE: u8 = 3;
/// Code of Destination Unreachable: no socket has the port.
pub const PORT_UNREACHABLE: u8 = 4;
/// Code of Time Exceeded: the hop limit was exceeded.
pub const HOP_LIMIT: u8 = 0;
/// Code of Time Exceeded: the time for reassembly was exceeded.
pub const REASSEMBLY: u8 = 1;
/// Code of Parameter Problem: a header field is wrong.
pub const ERRONEOUS_FIELD: u8 = 0;
/// Code of Parameter Problem: the next header is not known.
pub const UNKNOWN_NEXT_HEADER: u8 = 1;
/// Code of Parameter Problem: an option is not known.
pub const UNKNOWN_OPTION: u8 = 2;
/// Code of Parameter Problem: the first fragment has no complete chain of headers (RFC 7112 s5).
pub const INCOMPLETE_CHAIN: u8 = 3;
/// Largest number of octets of a quote: 1280 less the IPv6 header and 8 octets of the message.
pub const MAX_QUOTE: usize = 1232;

#[cfg(test)]
mod tests;
