//! Packets between the upper layers and the wires.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::PacketBuf;
use moorline_ip::icmp::{Icmp, Kind};
use moorline_ip::ip6::{ICMPV6, IP6_LEN, Ip6};
use moorline_plane::{By, Inbound, Outbound};
use moorline_stack::stack::Arrival;
use moorline_types::{Instant, Locator, LocatorPair};
use moorline_wire::PROTOCOL;

use crate::host::Host;
use crate::sockets::StackSockets;

impl Host {
    /// Moves the packets that wait on their way. Returns whether there were any.
    pub(crate) fn move_packets(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(packet) = self.stack.poll_outbound() {
            self.on_outbound(packet, now);
            is_any = true;
        }
        while let Some((arrival, packet)) = self.stack.poll_inbound() {
            self.on_inbound(arrival, packet, now);
            is_any = true;
        }
        is_any
    }

    /// Handles a packet of a socket. Packets of the host to itself have no locators.
    fn on_outbound(&mut self, packet: PacketBuf, now: Instant) {
        let is_own = Ip6::read(&packet).is_none_or(|ip6| self.stack.has_address(ip6.destination));
        if is_own {
            return self.stack.handle_outbound(packet, now);
        }
        let mut octets = packet.into_vec();
        let sockets = StackSockets(&self.stack, now);
        let (_, fate) = self.planes.handle_outbound(&mut octets, &sockets, now);
        match fate {
            Outbound::Pass | Outbound::Send { .. } => {
                self.stack.handle_outbound(PacketBuf::copy_of(&octets), now);
            }
            // The plane has counted it.
            Outbound::Drop(_) => {}
        }
    }

    /// Handles a packet of a wire for an address of the host.
    fn on_inbound(&mut self, arrival: Arrival, packet: PacketBuf, now: Instant) {
        let mut octets = packet.into_vec();
        self.take_refusal(&octets, now);
        let sockets = StackSockets(&self.stack, now);
        let (by, fate) = self.planes.handle_inbound(&mut octets, &sockets, now);
        match fate {
            Inbound::Pass | Inbound::Deliver => {
                self.stack.handle_inbound(arrival, PacketBuf::from(octets), now);
            }
            Inbound::Up if by == By::Ilnp => self.protocols.handle_ilnp(&octets, now),
            Inbound::Up => self.on_control(&octets, now),
            // The plane has counted it.
            Inbound::Drop(_) => {}
        }
    }

    fn on_control(&mut self, packet: &[u8], now: Instant) {
        let Some(ip6) = Ip6::read(packet) else { return };
        let locators = LocatorPair::new(Locator(ip6.destination), Locator(ip6.source));
        let message = ip6.payload(packet);
        self.protocols.handle_shim6(message, locators, now);
    }

    /// Tells the contexts if a node says that it does not know Shim6.
    fn take_refusal(&mut self, packet: &[u8], now: Instant) {
        if let Some((source, quoted, locators)) = refusal(packet) {
            let shim6 = self.protocols.shim6_mut();
            shim6.handle_unrecognized(quoted, locators, Locator(source), now);
        }
    }

    /// Sends a message of ILNP, which the plane of ILNP sees, too.
    pub(crate) fn send_ilnp(&mut self, packet: &[u8], now: Instant) {
        self.on_outbound(PacketBuf::copy_of(packet), now);
    }

    /// Sends a control message.
    pub(crate) fn send_control(&mut self, octets: &[u8], locators: LocatorPair, now: Instant) {
        let (source, destination) = (locators.local.0, locators.peer.0);
        let packet: Vec<u8> = moorline_ip::ip6::packet(PROTOCOL, source, destination, octets);
        self.stack.handle_outbound(PacketBuf::copy_of(&packet), now);
    }
}

/// The sender of a Parameter Problem of code 1 about a packet of this host with a header of Shim6, that header and what the error has
/// behind it, and the addresses of the packet (RFC 4443 s3.4).
fn refusal(packet: &[u8]) -> Option<(Ipv6Addr, &[u8], LocatorPair)> {
    let ip6 = Ip6::read(packet).filter(|ip6| ip6.next_header == ICMPV6)?;
    let message = packet.get(IP6_LEN..)?;
    // The checksum is looked at last: nearly no message is of this kind.
    let ([4, UNRECOGNIZED, ..], Some(quoted)) = (message, message.get(QUOTE_AT..)) else {
        return None;
    };
    let of_ours = Ip6::read(quoted)
        .filter(|quoted| quoted.next_header == PROTOCOL && quoted.source == ip6.destination)?;
    let parsed = Icmp::parse(ip6.source, ip6.destination, ip6.payload(packet)).ok()?;
    let locators = LocatorPair::new(Locator(of_ours.source), Locator(of_ours.destination));
    let is_problem = parsed.kind == Kind::PARAMETER_PROBLEM;
    is_problem.then_some((ip6.source, quoted.get(IP6_LEN..)?, locators))
}

/// Code of a Parameter Problem: "unrecognized Next Header type encountered" (RFC 4443 s3.4).
const UNRECOGNIZED: u8 = 1;
/// Offset of the quote in an ICMPv6 error.
const QUOTE_AT: usize = 8;
