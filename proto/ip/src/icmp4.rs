//! ICMP messages of IPv4 (RFC 792).

use alloc::vec::Vec;

use crate::icmp::Echo;
use crate::reader::Reader;
use crate::{Malformed, checksum, fill};

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Echo Reply.
    pub const ECHO_REPLY: Self = Self(0);
    /// Destination Unreachable.
    pub const UNREACHABLE: Self = Self(3);
    /// Source Quench (RFC 6633: hosts ignore it).
    pub const SOURCE_QUENCH: Self = Self(4);
    /// Redirect.
    pub const REDIRECT: Self = Self(5);
    /// Echo.
    pub const ECHO_REQUEST: Self = Self(8);
    /// Time Exceeded.
    pub const TIME_EXCEEDED: Self = Self(11);
    /// Parameter Problem.
    pub const PARAMETER_PROBLEM: Self = Self(12);

    /// Whether a node sends the message about another packet. Types that are not known count as errors: no error is sent about
    /// an error (RFC 1122 s3.2.2).
    #[must_use]
    pub const fn is_error(self) -> bool {
        // Echo, Router Discovery (RFC 1256), Timestamp, Information and Address Mask (RFC 950).
        !matches!(self.0, 0 | 8..=10 | 13..=18)
    }
}

/// A message whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Echo.
    EchoRequest(Echo<'a>),
    /// Echo Reply.
    EchoReply(Echo<'a>),
    /// An error about a packet.
    Error(Error<'a>),
    /// A message of another type.
    Other(Kind),
}

/// An error about a packet.
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
    /// Destination Unreachable with its code, such as [`PORT_UNREACHABLE`].
    Unreachable(u8),
    /// Destination Unreachable with the code 4, and the MTU of the next hop; zero from a router older than RFC 1191.
    FragmentationNeeded(u16),
    /// Time Exceeded with its code: 0 for the Time to Live, or 1 for reassembly.
    TimeExceeded(u8),
    /// Parameter Problem with its code, and the offset of the problem in the packet.
    ParameterProblem(u8, u8),
}

impl<'a> Message<'a> {
    /// Reads a message and checks its checksum.
    ///
    /// # Errors
    /// [`Malformed::Truncated`], [`Malformed::Checksum`].
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(message);
        let [kind, code, _, _] = reader.array()?;
        if checksum(message) != 0 {
            return Err(Malformed::Checksum);
        }
        let body = reader.rest();
        Ok(match Kind(kind) {
            Kind::ECHO_REQUEST => Self::EchoRequest(Echo::parse(body)?),
            Kind::ECHO_REPLY => Self::EchoReply(Echo::parse(body)?),
            kind => {
                let [pointer, _, high, low] = reader.array()?;
                match Cause::of(kind, code, pointer, u16::from_be_bytes([high, low])) {
                    Some(cause) => Self::Error(Error { cause, quote: reader.rest() }),
                    None => Self::Other(kind),
                }
            }
        })
    }

    /// Appends the message to `out`, with its checksum. A quote is cut to [`MAX_QUOTE`] octets. A message of another type has
    /// no body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Self::EchoRequest(echo) => emit_echo(Kind::ECHO_REQUEST, echo, out),
            Self::EchoReply(echo) => emit_echo(Kind::ECHO_REPLY, echo, out),
            Self::Error(error) => error.emit(out),
            Self::Other(kind) => out.extend([kind.0, 0, 0, 0, 0, 0, 0, 0]),
        }
        if let Some(message) = out.get_mut(start..) {
            fill(message, CHECKSUM_AT, checksum);
        }
    }
}

impl Error<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        let (kind, code, word) = self.cause.fields();
        out.extend([kind.0, code, 0, 0]);
        out.extend(word);
        out.extend_from_slice(&self.quote[..self.quote.len().min(MAX_QUOTE)]);
    }
}

impl Cause {
    const fn of(kind: Kind, code: u8, pointer: u8, mtu: u16) -> Option<Self> {
        Some(match (kind, code) {
            (Kind::UNREACHABLE, FRAGMENTATION_NEEDED) => Self::FragmentationNeeded(mtu),
            (Kind::UNREACHABLE, _) => Self::Unreachable(code),
            (Kind::TIME_EXCEEDED, _) => Self::TimeExceeded(code),
            (Kind::PARAMETER_PROBLEM, _) => Self::ParameterProblem(code, pointer),
            _ => return None,
        })
    }

    const fn fields(self) -> (Kind, u8, [u8; 4]) {
        match self {
            Self::Unreachable(code) => (Kind::UNREACHABLE, code, [0; 4]),
            // RFC 1191 s4: the MTU is in the low-order 16 bits.
            Self::FragmentationNeeded(mtu) => {
                let [high, low] = mtu.to_be_bytes();
                (Kind::UNREACHABLE, FRAGMENTATION_NEEDED, [0, 0, high, low])
            }
            Self::TimeExceeded(code) => (Kind::TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem(code, pointer) => {
                (Kind::PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
        }
    }
}

fn emit_echo(kind: Kind, echo: &Echo<'_>, out: &mut Vec<u8>) {
    out.extend([kind.0, 0, 0, 0]);
    out.extend(echo.identifier.to_be_bytes());
    out.extend(echo.sequence.to_be_bytes());
    out.extend_from_slice(echo.data);
}

/// Code of Destination Unreachable: no route to the network.
pub const NET_UNREACHABLE: u8 = 0;
/// Code of Destination Unreachable: the host does not answer.
pub const HOST_UNREACHABLE: u8 = 1;
/// Code of Destination Unreachable: the host has no such protocol.
pub const PROTOCOL_UNREACHABLE: u8 = 2;
/// Code of Destination Unreachable: no socket has the port.
pub const PORT_UNREACHABLE: u8 = 3;
/// Code of Destination Unreachable: the packet is too large and may not be fragmented.
pub const FRAGMENTATION_NEEDED: u8 = 4;
/// Octets of a packet that an error quotes, at most: an error with the quote has 576 octets (RFC 1812 s4.3.2.3).
pub const MAX_QUOTE: usize = 576 - 20 - 8;
const CHECKSUM_AT: usize = 2;

#[cfg(test)]
mod tests;
