//! IPv4 beside IPv6: ARP, and the ways of packets with v4-mapped addresses.

mod icmp;
mod input;
mod output;

use moorline_ip::PacketBuf;
use moorline_ip::arp::{self, Arp};
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::{Mac, Malformed};
use moorline_types::Instant;

use super::output::framed;
use super::wire::Wire;
use super::{Stack, WireId};
use crate::{Drop, neighbor};

impl Stack {
    /// Takes a message of ARP.
    pub(super) fn arp_in(&mut self, id: WireId, octets: &[u8], now: Instant) -> Result<(), Drop> {
        let Some(wire) = self.wires.iter_mut().find(|wire| wire.id == id) else {
            return Err(Drop::OtherStation);
        };
        let ip4 = wire.ip4.as_mut().ok_or(Drop::UnknownProtocol)?;
        let message = match Arp::parse(octets) {
            Err(Malformed::Code) => return Err(Drop::UnknownProtocol),
            parsed => parsed?,
        };
        if let Some(reply) = ip4.handle_arp(&message, now)? {
            let frame = wire.arp(message.sender_mac, &reply);
            self.frames.push(id, frame);
        }
        Ok(())
    }

    /// Carries out what the neighbors by ARP want.
    pub(super) fn settle_arp(&mut self, index: usize, now: Instant) -> bool {
        let Some(wire) = self.wires.get_mut(index) else { return false };
        let Some(ip4) = wire.ip4.as_mut() else { return false };
        let Some(output) = ip4.poll_output() else { return false };
        let id = wire.id;
        match output {
            neighbor::Output::Send { mac, packet } => {
                let frame = framed(wire, mac, packet);
                self.frames.push(id, frame);
            }
            neighbor::Output::Solicit { target, to, .. } => {
                let (to, request) = ip4.request(target, to);
                let frame = wire.arp(to, &request);
                self.frames.push(id, frame);
            }
            neighbor::Output::Unreachable { packets, .. } => {
                for packet in &packets {
                    self.tell_unreachable(packet, now);
                }
            }
            // No message of ARP says that a neighbor is a router.
            neighbor::Output::RouterLost(_) => {}
        }
        true
    }
}

impl Wire {
    /// The frame of a message of ARP.
    fn arp(&self, destination: Mac, message: &Arp) -> PacketBuf {
        let header = Ethernet { destination, source: self.mac, ether_type: ethernet::ARP };
        let mut frame = PacketBuf::with_capacity(arp::LEN);
        frame.extend(&message.octets());
        frame.prepend(&header.octets());
        frame
    }
}
