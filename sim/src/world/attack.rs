//! Someone who is on no path, but has overheard control messages and can send from any address.

use std::collections::VecDeque;

use moorline_types::LocatorPair;
use moorline_wire::{PROTOCOL, fill_checksum};

use super::{Flight, Happening, World};
use crate::packet;

/// What the attacker remembers.
#[derive(Debug, Default)]
pub(super) struct Attacker {
    overheard: VecDeque<(LocatorPair, Vec<u8>)>,
}

impl Attacker {
    pub(super) fn overhear(&mut self, way: LocatorPair, octets: &[u8]) {
        if self.overheard.len() >= MEMORY {
            self.overheard.pop_front();
        }
        self.overheard.push_back((way, octets.to_vec()));
    }
}

impl World {
    pub(super) fn on_attack(&mut self) {
        self.schedule(self.now + self.plan.attack_interval, Happening::Attack);
        if self.attacker.overheard.is_empty() {
            return;
        }
        let which = self.random.index(self.attacker.overheard.len());
        let (way, mut octets) = self.attacker.overheard[which].clone();
        let mut source = way.local.0;
        match self.random.below(6) {
            // Repeated as it was.
            0 => {}
            // From somewhere else.
            1 => source = "2001:db8:bad::1".parse().expect("an address"),
            // With another tag and nonce.
            2 => {
                let guess: [u8; 10] = self.random.octets();
                octets.iter_mut().skip(6).zip(guess).for_each(|(octet, guess)| *octet = guess);
                fill_checksum(&mut octets);
            }
            // Damaged, checksum and all.
            3 => {
                let at = self.random.index(octets.len());
                octets[at] ^= 1 << self.random.below(8);
            }
            // Cut off.
            4 => octets.truncate(self.random.index(octets.len())),
            // Payload with a guessed tag.
            _ => {
                let guess: [u8; 6] = self.random.octets();
                octets = vec![packet::UDP, 0];
                octets.extend(guess);
                octets[2] |= 0x80;
                octets.extend([7; 40]);
            }
        }
        let Some(to) = self.network.end_of(way.peer.0) else { return };
        let octets = packet::ip6(PROTOCOL, source, way.peer.0, &octets);
        self.receive(Flight { octets, to, origin: None });
    }
}

/// Messages that the attacker remembers.
const MEMORY: usize = 64;
