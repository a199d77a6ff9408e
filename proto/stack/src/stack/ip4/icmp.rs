use moorline_ip::Header;
use moorline_ip::icmp::{
    ADDRESS_UNREACHABLE, Cause, ERRONEOUS_FIELD, NO_ROUTE, PORT_UNREACHABLE, PROHIBITED,
    UNKNOWN_NEXT_HEADER,
};
use moorline_ip::icmp4::{self, Error, Message};
use moorline_ip::ip4::{ICMP, Ip4};
use moorline_types::Instant;

use crate::Drop;
use crate::error::Quote;
use crate::ip4::{MIN_PATH_MTU, check_source};
use crate::stack::output::Outgoing;
use crate::stack::{Arrival, Stack};

impl Stack {
    /// Takes a message of ICMP to an address of the host.
    pub(super) fn icmp_ip4(
        &mut self,
        header: &Header,
        octets: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        let message = Message::parse(octets)?;
        self.counters.icmp_in += 1;
        match message {
            Message::EchoRequest(echo) => {
                self.errors.allow_echo(header.source, header.destination, now)?;
                let source = Some(header.destination);
                let outgoing = Outgoing { source, ..Outgoing::new(header.source, ICMP) };
                self.send(outgoing, now, |_, out| Message::EchoReply(echo).emit(out))
            }
            Message::EchoReply(echo) => self.echo_reply_in(header, echo),
            Message::Error(error) => self.error_ip4(header, &error, now),
            // RFC 1122 s3.2.2.2 wants redirects; this host has one gateway only, and nothing proves who sent a redirect.
            Message::Other(icmp4::Kind::REDIRECT) => Err(Drop::Redirect),
            Message::Other(_) => Err(Drop::UnknownProtocol),
        }
    }

    fn error_ip4(&mut self, header: &Header, error: &Error<'_>, now: Instant) -> Result<(), Drop> {
        let quote = Quote::parse_ip4(error.quote).ok_or(Drop::ForeignError)?;
        if !self.is_ours(quote.source) {
            return Err(Drop::ForeignError);
        }
        let cause = as_ip6(error.cause);
        self.tell(header.source, &quote, cause, now)?;
        match cause {
            Cause::PacketTooBig(mtu) => self.path_mtu_in(&quote, mtu, now),
            Cause::Unreachable(_)
            | Cause::TimeExceeded(_)
            | Cause::ParameterProblem(..)
            | Cause::Unknown(..) => Ok(()),
        }
    }

    /// Says whether and how the host sends an error about a packet, which `quote` begins, and sends it.
    pub(in crate::stack) fn report_ip4(
        &mut self,
        cause: Cause,
        arrival: Arrival,
        quote: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        let ip = Ip4::read(quote)?;
        let cause = as_ip4(cause).ok_or(Drop::NoAnswer)?;
        let (source, destination) = (ip.source.to_ipv6_mapped(), ip.destination.to_ipv6_mapped());
        // RFC 1122 s3.2.2: no error about an error, a broadcast, a later fragment, or a source that is not one host.
        let is_for_one = self.is_own(destination) && !arrival.is_link_multicast;
        if !is_for_one || ip.offset > 0 || is_error(&ip, quote) {
            return Err(Drop::NoAnswer);
        }
        check_source(ip.source)?;
        self.errors.allow_error(source, now)?;
        self.counters.errors_out += 1;
        let outgoing = Outgoing { source: Some(destination), ..Outgoing::new(source, ICMP) };
        self.send(outgoing, now, |_, out| Message::Error(Error { cause, quote }).emit(out))
    }
}

/// Whether the packet is an error of ICMP. One without its type counts as one.
fn is_error(ip: &Ip4, packet: &[u8]) -> bool {
    let kind = packet.get(usize::from(ip.header_len)).copied();
    ip.protocol == ICMP && kind.is_none_or(|kind| icmp4::Kind(kind).is_error())
}

/// The cause as sockets know it (RFC 1122 s3.2.2.1, RFC 7915 s4.2).
fn as_ip6(cause: icmp4::Cause) -> Cause {
    match cause {
        icmp4::Cause::Unreachable(icmp4::PORT_UNREACHABLE) => Cause::Unreachable(PORT_UNREACHABLE),
        icmp4::Cause::Unreachable(icmp4::PROTOCOL_UNREACHABLE) => {
            Cause::ParameterProblem(UNKNOWN_NEXT_HEADER, 0)
        }
        icmp4::Cause::Unreachable(NET_PROHIBITED | HOST_PROHIBITED | PROHIBITED_BY_FILTER) => {
            Cause::Unreachable(PROHIBITED)
        }
        icmp4::Cause::Unreachable(icmp4::NET_UNREACHABLE | NET_UNKNOWN | NET_TOS) => {
            Cause::Unreachable(NO_ROUTE)
        }
        icmp4::Cause::Unreachable(_) => Cause::Unreachable(ADDRESS_UNREACHABLE),
        // RFC 1191 s5: a router that says no MTU, or a lower one, gets the least one.
        icmp4::Cause::FragmentationNeeded(mtu) => {
            Cause::PacketTooBig(u32::from(mtu).max(MIN_PATH_MTU))
        }
        icmp4::Cause::TimeExceeded(code) => Cause::TimeExceeded(code),
        icmp4::Cause::ParameterProblem(_, pointer) => {
            Cause::ParameterProblem(ERRONEOUS_FIELD, pointer.into())
        }
    }
}

/// The error that the host sends; `None` if it sends none.
fn as_ip4(cause: Cause) -> Option<icmp4::Cause> {
    match cause {
        Cause::Unreachable(PORT_UNREACHABLE) => {
            Some(icmp4::Cause::Unreachable(icmp4::PORT_UNREACHABLE))
        }
        Cause::ParameterProblem(UNKNOWN_NEXT_HEADER, _) => {
            Some(icmp4::Cause::Unreachable(icmp4::PROTOCOL_UNREACHABLE))
        }
        Cause::ParameterProblem(_, pointer) => {
            u8::try_from(pointer).ok().map(|pointer| icmp4::Cause::ParameterProblem(0, pointer))
        }
        Cause::TimeExceeded(code) => Some(icmp4::Cause::TimeExceeded(code)),
        Cause::Unreachable(_) | Cause::PacketTooBig(_) | Cause::Unknown(..) => None,
    }
}

// Codes of RFC 1122 s3.2.2.1 and RFC 1812 s5.2.7.1 without a name in `moorline_ip`.
const NET_UNKNOWN: u8 = 6;
const NET_PROHIBITED: u8 = 9;
const HOST_PROHIBITED: u8 = 10;
const NET_TOS: u8 = 11;
const PROHIBITED_BY_FILTER: u8 = 13;
