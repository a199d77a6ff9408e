use moorline_ip::icmp::{Cause, UNKNOWN_NEXT_HEADER};
use moorline_ip::ip4::{ICMP, Ip4};
use moorline_ip::ip6::{TCP, UDP};
use moorline_ip::{Header, PacketBuf};
use moorline_types::Instant;

use crate::Drop;
use crate::chain::{Position, Verdict};
use crate::ip4::{as_ip6, check_options, check_source, mapped};
use crate::stack::{Arrival, Stack};

impl Stack {
    /// Takes a packet of IPv4 from a wire.
    pub(in crate::stack) fn take_ip4(
        &mut self,
        arrival: Arrival,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let ip = Ip4::parse(packet)?;
        packet.truncate(ip.total_len.into());
        self.check_ip4(arrival, &ip)?;
        self.counters.packets_in += 1;
        self.deliver_ip4(arrival, &ip, packet, now)
    }

    fn check_ip4(&self, arrival: Arrival, ip: &Ip4) -> Result<(), Drop> {
        check_source(ip.source)?;
        let configs = || self.wires.iter().filter_map(|wire| wire.ip4()).map(|ip4| ip4.config());
        let is_bad = configs().any(|it| it.address == ip.source || it.is_no_host(ip.source));
        if is_bad || ip.destination.is_loopback() {
            return Err(Drop::BadSource);
        }
        let own = self.wire(arrival.wire).and_then(|wire| wire.ip4());
        let is_broadcast = own.is_some_and(|ip4| ip4.config().is_broadcast(ip.destination));
        // RFC 1122 s3.3.6: a host discards a datagram "that is received via a link-layer broadcast [...] but does not specify an
        // IP multicast or broadcast destination address".
        let is_unicast = !arrival.is_link_multicast;
        let is_ours = is_unicast && configs().any(|it| it.address == ip.destination);
        if is_ours || is_broadcast { Ok(()) } else { Err(Drop::NotOurs) }
    }

    /// Hands a packet of IPv4 to the upper layers, whatever its destination.
    pub(in crate::stack) fn deliver_ip4(
        &mut self,
        arrival: Arrival,
        ip: &Ip4,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let result = check_options(ip, packet).and_then(|()| check_protocol(ip));
        if let Err(verdict) = result {
            return Err(self.judge(verdict, arrival, packet, now));
        }
        if ip.is_fragment() {
            return self.fragment_ip4(arrival, ip, packet, now);
        }
        self.upper_ip4(arrival, &mapped(ip), Position::from(ip), packet, now)
    }

    fn fragment_ip4(
        &mut self,
        arrival: Arrival,
        ip: &Ip4,
        packet: &[u8],
        now: Instant,
    ) -> Result<(), Drop> {
        let (packet, header) = as_ip6(ip, packet)?;
        let position = Position::start(&header);
        let gathered = self.reassembly.handle_fragment(&packet, &header, position, arrival, now);
        match gathered.map_err(Verdict::reason)? {
            Some(mut whole) => {
                self.upper_ip4(arrival, &whole.header, whole.position, &mut whole.packet, now)
            }
            None => Ok(()),
        }
    }

    /// `header` has v4-mapped addresses.
    fn upper_ip4(
        &mut self,
        arrival: Arrival,
        header: &Header,
        position: Position,
        packet: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        match position.protocol {
            UDP => self.udp_in(arrival, header, position, packet, now),
            // RFC 1122 s4.2.3.10: a segment to a broadcast address is discarded silently.
            _ if !self.is_own(header.destination) => Err(Drop::NotOurs),
            TCP => self.tcp_in(header, position, packet, now),
            _ => {
                let message = packet.get(position.at..).unwrap_or_default();
                self.icmp_ip4(header, message, now)
            }
        }
    }
}

/// RFC 1122 s3.2.2.1: a host sends Destination Unreachable with code 2 if it does not have the protocol.
fn check_protocol(ip: &Ip4) -> Result<(), Verdict> {
    if matches!(ip.protocol, UDP | TCP | ICMP) {
        return Ok(());
    }
    let cause = Cause::ParameterProblem(UNKNOWN_NEXT_HEADER, 0);
    Err(Verdict::Report(Drop::UnknownProtocol, cause))
}
