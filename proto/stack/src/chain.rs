//! Extension headers of a packet that came in (RFC 8200 s4).
//!
//! [`walk`] processes one header after the other, in their order, and stops at the first one that is not an extension
//! header of RFC 8200, or at a Fragment header. A packet that has been reassembled goes on from the [`Position`] that
//! the reassembly returns: the number of headers goes on as well, so Fragment headers inside fragments end at
//! [`MAX_HEADERS`] too. IPsec goes on in the same way from a position behind its own header.
//!
//! A packet without extension headers needs no walk.

mod options;
mod skim;

use moorline_ip::Header;
use moorline_ip::extension::{Options, Routing};
use moorline_ip::header::{LEN, NO_NEXT_HEADER};
use moorline_ip::icmp::{self, Cause, ERRONEOUS_FIELD, UNKNOWN_NEXT_HEADER};
use moorline_ip::ip6::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, ROUTING};

use crate::Drop;
pub use options::{MAX_OPTIONS, MAX_PAD1, MAX_PADN};
pub(crate) use skim::{Skim, skim};

/// The next header to process, and facts about the headers in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the header: the value of the Next Header field in front of it.
    pub protocol: u8,
    /// Offset of the header in the packet.
    pub at: usize,
    /// Offset of the Next Header field with its number.
    pub field: usize,
    /// Extension headers in front of it. Fragment headers that reassembly has taken out count too.
    pub headers: u8,
    /// Whether the Hop-by-Hop Options header has a Router Alert option (RFC 2711); MLD messages must have one.
    pub has_router_alert: bool,
    /// Whether the packet came in fragments, or in one atomic fragment.
    pub was_fragmented: bool,
}

/// Result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The header at the position is none that [`walk`] knows: that of an upper layer, or one such as ESP.
    /// If nobody knows it, the answer is [`Position::unrecognized`].
    Upper(Position),
    /// The header at the position is a Fragment header.
    Fragment(Position),
    /// Nothing follows that any node processes (RFC 8200 s4.7).
    NoNextHeader,
}

/// Reason for which a packet is discarded, and the error about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The host discards the packet and says nothing.
    Discard(Drop),
    /// The host discards the packet, and its source gets an error if RFC 4443 s2.4 allows one.
    Report(Drop, Cause),
}

/// Processes the extension headers of a packet, from `position` on. `header` is the header of the packet.
///
/// # Errors
/// A [`Verdict`] about the packet.
//= rfc8504#5.2-2
//= rfc8200#4-1 rfc8200#4-2 rfc8200#4-3 rfc8200#4-5 rfc8200#4.1-4 rfc8200#4.7-1
pub fn walk(packet: &[u8], header: &Header, mut position: Position) -> Result<Step, Verdict> {
    let packet = packet.get(..header.packet_len()).ok_or(Verdict::Discard(Drop::Truncated))?;
    loop {
        match position.protocol {
            // RFC 8200 s4: the same action if a Next Header value of zero is in any header other than an IPv6 header.
            HOP_BY_HOP if position.headers > 0 => return Err(position.unrecognized()),
            HOP_BY_HOP | DESTINATION_OPTIONS => position.on_options(packet, header)?,
            ROUTING => position.on_routing(packet)?,
            FRAGMENT => return position.check_count().map(|()| Step::Fragment(position)),
            NO_NEXT_HEADER => return Ok(Step::NoNextHeader),
            _ => return position.on_upper(packet).map(|()| Step::Upper(position)),
        }
    }
}

impl Position {
    /// The position behind the IPv6 header.
    #[must_use]
    pub const fn start(header: &Header) -> Self {
        Self {
            protocol: header.next_header,
            at: LEN,
            field: NEXT_HEADER_AT,
            headers: 0,
            has_router_alert: false,
            was_fragmented: false,
        }
    }

    /// The verdict about a packet whose header at this position is known to nobody.
    //= rfc8504#5.2-1
    //= rfc8200#4-4
    #[must_use]
    pub fn unrecognized(&self) -> Verdict {
        // RFC 8200 s4: code 1, and the offset of the unrecognized value within the original packet.
        problem(Drop::UnknownProtocol, UNKNOWN_NEXT_HEADER, self.field)
    }

    fn on_options(&mut self, packet: &[u8], header: &Header) -> Result<(), Verdict> {
        self.check_count()?;
        let read = Options::parse(rest(packet, self.at)).map_err(|_| TRUNCATED)?;
        let octets = packet.get(self.at..self.at + read.len).unwrap_or_default();
        let has_alert = options::check(octets, self.at, header.destination.is_multicast())?;
        self.has_router_alert |= has_alert && self.protocol == HOP_BY_HOP;
        self.advance(read.next_header, read.len);
        Ok(())
    }

    /// No type of routing header is known to a host: type 0 counts as unknown (RFC 5095 s3).
    //= rfc8504#5.2-3
    //= rfc8200#4.4-1 rfc8200#4.4-2
    fn on_routing(&mut self, packet: &[u8]) -> Result<(), Verdict> {
        self.check_count()?;
        let routing = Routing::parse(rest(packet, self.at)).map_err(|_| TRUNCATED)?;
        if routing.segments_left > 0 {
            // RFC 8200 s4.4: Parameter Problem, code 0, pointing to the unrecognized Routing Type.
            return Err(problem(Drop::RoutingHeader, ERRONEOUS_FIELD, self.at + ROUTING_TYPE_AT));
        }
        self.advance(routing.next_header, routing.len);
        Ok(())
    }

    /// RFC 6980 s5: a node silently ignores these messages if their packet has a Fragment header.
    //= rfc8504#5.4-15
    //= rfc6980#5-3
    fn on_upper(&self, packet: &[u8]) -> Result<(), Verdict> {
        let kind = rest(packet, self.at).first().copied().map(icmp::Kind);
        let is_discovery = kind.is_some_and(|kind| {
            kind.is_neighbor_discovery() || kind == CERTIFICATION_PATH_SOLICITATION
        });
        if self.was_fragmented && self.protocol == ICMPV6 && is_discovery {
            return Err(Verdict::Discard(Drop::FragmentedDiscovery));
        }
        Ok(())
    }

    const fn check_count(&self) -> Result<(), Verdict> {
        if self.headers < MAX_HEADERS {
            return Ok(());
        }
        Err(Verdict::Discard(Drop::TooManyHeaders))
    }

    const fn advance(&mut self, next_header: u8, len: usize) {
        self.protocol = next_header;
        self.field = self.at;
        self.at += len;
        self.headers += 1;
    }
}

impl Verdict {
    /// Reason under which the host counts the packet.
    #[must_use]
    pub const fn reason(self) -> Drop {
        let (Self::Discard(reason) | Self::Report(reason, _)) = self;
        reason
    }
}

/// A Parameter Problem about the octet at `pointer`.
//= rfc4443#3.4-2
pub(crate) fn problem(reason: Drop, code: u8, pointer: usize) -> Verdict {
    let pointer = u32::try_from(pointer).unwrap_or(u32::MAX);
    Verdict::Report(reason, Cause::ParameterProblem(code, pointer))
}

fn rest(packet: &[u8], at: usize) -> &[u8] {
    packet.get(at..).unwrap_or_default()
}

/// Largest number of extension headers of a packet. A packet in the order of RFC 8200 s4.1 has six, with AH and ESP;
/// fragments inside a tunnel are packets of their own.
pub const MAX_HEADERS: u8 = 8;
const CERTIFICATION_PATH_SOLICITATION: icmp::Kind = icmp::Kind(148);
const TRUNCATED: Verdict = Verdict::Discard(Drop::Truncated);
const NEXT_HEADER_AT: usize = 6;
const ROUTING_TYPE_AT: usize = 2;

#[cfg(test)]
mod tests;
