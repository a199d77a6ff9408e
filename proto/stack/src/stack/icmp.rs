use core::net::Ipv6Addr;

use moorline_ip::address::is_unicast;
use moorline_ip::icmp::{Cause, Echo, Error, Icmp, Kind};
use moorline_ip::ip6::{ICMPV6, MIN_MTU, TCP, UDP};
use moorline_ip::{Header, icmp4, ip4};
use moorline_types::Instant;

use super::input::Arrival;
use super::output::Outgoing;
use super::ping::Ping;
use super::{EchoReply, Event, Stack};
use crate::Drop;
use crate::chain::Position;
use crate::error::{Quote, Report};
use crate::ip4::original;
use crate::tcp::{Engine as _, Flow, Seq};
use crate::udp;

impl Stack {
    //= rfc8504#5.8-1
    //= rfc3810#5-2
    //= rfc4443#2-1 rfc4443#2.4-1 rfc4443#2.4-3
    pub(super) fn icmp_in(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        packet: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        let message = Icmp::parse(
            header.source,
            header.destination,
            packet.get(position.at..).unwrap_or_default(),
        )?;
        self.counters.icmp_in += 1;
        if message.kind.is_neighbor_discovery() || is_mld(message.kind) {
            return self.discovery_in(arrival, header, position, &message, now);
        }
        if header.source.is_unspecified() {
            return Err(Drop::BadSource);
        }
        match message.kind {
            Kind::ECHO_REQUEST => self.echo_request_in(header, &message, now),
            Kind::ECHO_REPLY => self.echo_reply_in(header, Echo::parse(message.body)?),
            kind if kind.is_error() => self.error_in(header, &message, now),
            // RFC 4443 s2.4 (b): an informational message of an unknown type is discarded silently.
            _ => Err(Drop::UnknownProtocol),
        }
    }

    //= rfc4443#2.2-2 rfc4443#4.1-1 rfc4443#4.2-1 rfc4443#4.2-3 rfc4443#4.2-5 rfc4443#4.2-6
    fn echo_request_in(
        &mut self,
        header: &Header,
        message: &Icmp<'_>,
        now: Instant,
    ) -> Result<(), Drop> {
        let echo = Echo::parse(message.body)?;
        self.errors.allow_echo(header.source, header.destination, now)?;
        let is_multicast = header.destination.is_multicast();
        // RFC 4443 s4.2: the source of the reply is the unicast destination of the request.
        let source = (!is_multicast).then_some(header.destination);
        let outgoing = Outgoing { source, ..Outgoing::new(header.source, ICMPV6) };
        self.send(outgoing, now, |source, out| {
            echo.emit(Kind::ECHO_REPLY, source, header.source, out)
        })
    }

    //= rfc4443#4.2-7
    pub(super) fn echo_reply_in(&mut self, header: &Header, echo: Echo<'_>) -> Result<(), Drop> {
        let Echo { identifier, sequence, data } = echo;
        if !self.pings.answer(header.source, identifier, sequence) {
            return Err(Drop::NoSocket);
        }
        self.events.push_back(Event::EchoReply(EchoReply {
            from: header.source,
            identifier,
            sequence,
            size: data.len(),
            hop_limit: header.hop_limit,
        }));
        Ok(())
    }

    //= rfc8201#4-1 rfc8201#4-2
    //= rfc4443#2.4-1 rfc4443#3.2-2
    fn error_in(&mut self, header: &Header, message: &Icmp<'_>, now: Instant) -> Result<(), Drop> {
        let Some(error) = Error::parse(message)? else { return Err(Drop::Malformed) };
        let quote = Quote::parse(error.quote).ok_or(Drop::ForeignError)?;
        let is_ours =
            self.is_ours(quote.source) || self.is_carried(quote.source, quote.destination);
        if !is_ours || quote.source.to_ipv4_mapped().is_some() {
            return Err(Drop::ForeignError);
        }
        if let Cause::PacketTooBig(mtu) = error.cause
            && self.on_wire(quote.source, quote.destination, mtu).2 < MIN_MTU.into()
        {
            return Err(Drop::PacketTooBig);
        }
        self.tell(header.source, &quote, error.cause, now)?;
        if let Cause::PacketTooBig(mtu) = error.cause {
            return self.path_mtu_in(&quote, mtu, now);
        }
        Ok(())
    }

    /// Takes the path MTU of a Packet Too Big message that quotes a packet of this host.
    //= rfc8504#5.7.1-3
    //= rfc8201#4-7 rfc8201#5.2-5
    pub(super) fn path_mtu_in(
        &mut self,
        quote: &Quote<'_>,
        mtu: u32,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 5533 s8: the quote has the addresses that sockets see. The path is that of the addresses on the wire.
        let (source, destination, bare) = self.on_wire(quote.source, quote.destination, mtu);
        let way = self.way(destination, source, None, now).ok_or(Drop::PacketTooBig)?;
        let link_mtu = self.wire(way.wire).map_or(0, |wire| wire.mtu_to(way.next_hop));
        let wire = way.wire.0;
        let lower =
            self.destinations.handle_packet_too_big(wire, destination, bare, link_mtu, now)?;
        if lower.is_some() {
            self.events.push_back(Event::PathMtu(quote.destination, mtu));
        }
        Ok(())
    }

    /// Tells the socket that sent the quoted packet of an error.
    //= rfc8201#4-1 rfc8201#5.2-8
    //= rfc4443#2.4-2 rfc4443#3.1-6 rfc4443#3.2-2 rfc4443#3.3-2 rfc4443#3.4-3
    pub(super) fn tell(
        &mut self,
        from: Ipv6Addr,
        quote: &Quote<'_>,
        cause: Cause,
        now: Instant,
    ) -> Result<(), Drop> {
        match quote.protocol {
            TCP => {
                let flow = flow_of(quote).ok_or(Drop::ForeignError)?;
                let sequence = quote.tcp_sequence().ok_or(Drop::ForeignError)?;
                self.tcp.handle_error(flow, cause, Seq(sequence), now)
            }
            UDP => self.tell_udp(from, udp_of(quote).ok_or(Drop::ForeignError)?, cause),
            _ => {
                let ping = ping_of(quote).filter(|ping| self.pings.is_sent(*ping));
                let Ping { destination, identifier, sequence } = ping.ok_or(Drop::ForeignError)?;
                self.events.push_back(Event::EchoError {
                    destination,
                    identifier,
                    sequence,
                    from,
                    cause,
                });
                Ok(())
            }
        }
    }

    /// Tells the socket that sent a datagram of an error. A socket without a peer could not tell by which of its datagrams the error came
    /// (RFC 1122 s4.1.3.3), so an event has the whole story.
    fn tell_udp(&mut self, from: Ipv6Addr, quote: udp::Quote, cause: Cause) -> Result<(), Drop> {
        let told = self.udp.handle_error(quote, cause);
        if told.is_ok() || !self.udp.has_sent(quote) {
            return told;
        }
        self.events.push_back(Event::UdpError { quote, from, cause });
        Ok(())
    }

    /// Sends an error about a packet that has come in, if the rules and the rate allow it.
    //= rfc4443#2.2-3 rfc4443#2.2-4
    pub(super) fn report(&mut self, cause: Cause, arrival: Arrival, packet: &[u8], now: Instant) {
        let result = match original(packet) {
            Some(quote) => self.report_ip4(cause, arrival, &quote, now),
            None => self.report_ip6(cause, arrival, packet, now),
        };
        // The rules of RFC 4443 s2.4 (e) and RFC 1122 s3.2.2 forbid most errors, so that is not worth a count.
        if result != Err(Drop::NoAnswer) {
            self.count(result);
        }
    }

    fn report_ip6(
        &mut self,
        cause: Cause,
        arrival: Arrival,
        packet: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        let report = self.errors.report(cause, packet, arrival.is_link_multicast, now)?;
        let Report { destination, source, error } = report;
        let source = source.filter(|source| is_unicast(*source) && self.is_ours(*source));
        let outgoing = Outgoing { source, ..Outgoing::new(destination, ICMPV6) };
        self.counters.errors_out += 1;
        self.send(outgoing, now, |source, out| error.emit(source, destination, out))
    }

    /// Sends an Echo Request with `size` octets of data. The answer is an [`Event::EchoReply`], or an [`Event::EchoError`].
    ///
    /// # Errors
    /// A [`Drop`] if the host has no route or no address for the destination.
    //= rfc4443#4.1-2 rfc4443#4.2-2
    pub fn ping(
        &mut self,
        destination: Ipv6Addr,
        (identifier, sequence): (u16, u16),
        data: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        let echo = Echo { identifier, sequence, data };
        self.pings.note(Ping { destination, identifier, sequence });
        let result = if destination.to_ipv4_mapped().is_some() {
            let request = icmp4::Message::EchoRequest(echo);
            self.send(Outgoing::new(destination, ip4::ICMP), now, |_, out| request.emit(out))
        } else {
            self.send(Outgoing::new(destination, ICMPV6), now, |source, out| {
                echo.emit(Kind::ECHO_REQUEST, source, destination, out);
            })
        };
        self.settle(now);
        result
    }
}

fn flow_of(quote: &Quote<'_>) -> Option<Flow> {
    let (local, peer) = quote.ports()?;
    Some(Flow { local: (quote.source, local), peer: (quote.destination, peer) })
}

fn udp_of(quote: &Quote<'_>) -> Option<udp::Quote> {
    let (source_port, destination_port) = quote.ports().filter(|_| quote.protocol == UDP)?;
    let Quote { source, destination, .. } = *quote;
    Some(udp::Quote { source, source_port, destination, destination_port })
}

fn ping_of(quote: &Quote<'_>) -> Option<Ping> {
    let (kind, identifier, sequence) = quote.echo()?;
    let destination = quote.destination;
    (kind == Kind::ECHO_REQUEST).then_some(Ping { destination, identifier, sequence })
}

fn is_mld(kind: Kind) -> bool {
    matches!(kind, Kind::MLD_QUERY | Kind::MLD_REPORT | Kind::MLD_DONE | Kind::MLDV2_REPORT)
}
