//! Correspondents that know RFC 6740 to 6744 alone: no handshake, no numbers. The test writes the octets of the peer
//! without our codecs.

use core::net::Ipv6Addr;
use std::vec;
use std::vec::Vec;

use moorline_types::{Ilv, IlvPair, Nonce};

use super::duo::Duo;
use super::ilv;
use crate::consts::{PROPOSAL_TRIES, TRIAL_TRIES};
use crate::{Socket, State};
use moorline_datapath::ilnp::Report;

mod anew;
mod first;
mod moves;
mod named;
mod newer;
mod nonces;
mod older;
mod second;

/// A node at the address of the second host.
pub(super) struct Plain {
    pub(super) at: Ilv,
    pub(super) nonce: [u8; 4],
    /// Whether the node acknowledges Locator Updates.
    pub(super) acknowledges: bool,
}

impl Plain {
    pub(super) fn new() -> Self {
        Self { at: ilv(1), nonce: [0xa1, 2, 3, 4], acknowledges: true }
    }

    /// Makes a node that has a session with the first host.
    pub(super) fn in_session(duo: &mut Duo) -> Self {
        let peer = Self::new();
        peer.sends_nonce(duo);
        duo.now = duo.now + core::time::Duration::from_millis(20);
        peer.play(duo);
        assert_eq!(duo.session(0).state, State::Established);
        duo.take(0);
        peer
    }

    /// The data plane of the first host sees the nonce of the peer again and again. The first host tries the handshake in
    /// vain.
    pub(super) fn sends_nonce(&self, duo: &mut Duo) {
        self.report(duo, Socket::Connected);
        duo.take(0);
        while duo.machines[0].is_taken(IlvPair::new(ilv(0), self.at)) {
            for _ in 0..PAID {
                self.report(duo, Socket::Connected);
            }
            duo.fire(0);
            let echoes = duo.take(0).into_iter().filter(|packet| is_echo(packet)).count();
            if echoes > 0 {
                // The host repeats the request that was taken.
                duo.fire(0);
                break;
            }
        }
    }

    /// Reports a packet of the peer with its nonce, as the data plane does.
    pub(super) fn report(&self, duo: &mut Duo, socket: Socket) {
        let report = Report::Candidate {
            pair: IlvPair::new(ilv(0), self.at),
            protocol: 6,
            ports: (40_000, 7),
            socket,
            inbound: true,
            nonce: Some(Nonce::Short(self.nonce)),
        };
        duo.report(0, report);
    }

    /// Answers the packets of the first host until it sends no more.
    pub(super) fn play(&self, duo: &mut Duo) {
        loop {
            let packets = duo.take(0);
            let answers: Vec<_> = packets.iter().filter_map(|packet| self.answer(packet)).collect();
            if answers.is_empty() {
                break;
            }
            duo.give(0, &answers);
        }
    }

    /// The answer to a packet by RFC 4443 s4.2 and RFC 6743 s4.
    pub(super) fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let mut message = message(packet).to_vec();
        match (message[0], message[1]) {
            (128, 0) => message[0] = 129,
            (156, 0) if message[5] == 1 && self.acknowledges => message[5] = 2,
            _ => return None,
        }
        let (source, destination) = (&packet[24..40], &packet[8..24]);
        Some(with_nonce(source, destination, self.nonce, &message))
    }
}

/// Packets with a nonce that pay for all that a correspondent is asked.
const PAID: u32 = PROPOSAL_TRIES + TRIAL_TRIES;

/// The ICMPv6 message of a packet, behind a Destination Options header of 8 octets or without one.
pub(super) fn message(packet: &[u8]) -> &[u8] {
    match packet[6] {
        60 => &packet[40 + 8 * (usize::from(packet[41]) + 1)..],
        _ => &packet[40..],
    }
}

pub(super) fn is_echo(packet: &[u8]) -> bool {
    message(packet)[0] == 128
}

/// An IPv6 packet with an ICMPv6 message behind a Destination Options header, which has only a nonce of 32 bits.
fn with_nonce(source: &[u8], destination: &[u8], nonce: [u8; 4], message: &[u8]) -> Vec<u8> {
    let [a, b, c, d] = nonce;
    let options = [58, 0, 0x8b, 4, a, b, c, d];
    packet(source, destination, 60, &[&options, &summed(source, destination, message)[..]].concat())
}

fn packet(source: &[u8], destination: &[u8], next_header: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, len[0], len[1], next_header, 64];
    packet.extend([source, destination, payload].concat());
    packet
}

/// The message with its checksum (RFC 4443 s2.3).
fn summed(source: &[u8], destination: &[u8], message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    let all = [source, destination, &len, &[0, 0, 0, 58], &message].concat();
    let words = all.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !u16::try_from(sum).unwrap();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

fn octets(address: Ipv6Addr) -> [u8; 16] {
    address.octets()
}
