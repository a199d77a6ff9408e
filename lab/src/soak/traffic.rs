//! Packets of programs, which may trigger contexts and sessions.

use std::net::Ipv6Addr;

use moorline_wire::ip6::{ICMPV6, TCP, UDP};
use moorline_wire::{fill_icmp_checksum, upper_layer_checksum};

use super::dice::Dice;
use super::wrap::Payload;

/// A datagram, a segment, or an echo request.
pub(super) fn say(dice: &mut Dice, [from, to]: [Ipv6Addr; 2]) -> Payload {
    match dice.below(6) {
        0..3 => {
            let port = if dice.chance(80) { ECHO_PORT } else { dice.port() };
            let octets = dice.below(1100);
            let octets = udp([dice.port(), port], &dice.octets(octets));
            sealed(UDP, 6, octets, [from, to])
        }
        3..5 => sealed(TCP, 16, segment(dice), [from, to]),
        _ => {
            let mut octets = vec![128, 0, 0, 0, 0, 1, 0, 1];
            octets.extend(b"soak soak");
            fill_icmp_checksum(&mut octets, from, to);
            Payload { next_header: ICMPV6, octets }
        }
    }
}

/// A UDP header without a checksum, and its data.
pub(super) fn udp([from, to]: [u16; 2], data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + data.len()).unwrap_or(u16::MAX);
    let mut octets = [from, to, length, 0].map(u16::to_be_bytes).concat();
    octets.extend(data);
    octets
}

/// A TCP segment with random flags, numbers and data.
fn segment(dice: &mut Dice) -> Vec<u8> {
    let mut octets: Vec<u8> = [dice.port(), ECHO_PORT].map(u16::to_be_bytes).concat();
    octets.extend(dice.octets(8));
    let flags = dice.pick(&[0x02, 0x10, 0x18, 0x11, 0x04, 0x12]);
    octets.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    let data = dice.below(900);
    octets.extend(dice.octets(data));
    octets
}

/// Writes the checksum, which begins at `at`.
pub(super) fn sealed(
    next_header: u8,
    at: usize,
    mut octets: Vec<u8>,
    [from, to]: [Ipv6Addr; 2],
) -> Payload {
    let sum = upper_layer_checksum(from, to, next_header, &octets);
    octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Payload { next_header, octets }
}

/// Port at which the attacked host has a listener of TCP, and a server that returns datagrams.
pub(super) const ECHO_PORT: u16 = 7;
