use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::rc::Rc;

use moorline_types::{LocatorPair, UlidPair};
use moorline_wire::{MessageType, OptionType, PROTOCOL, Packet, fill_checksum};

use super::{Occurrence, Parcel, World};
use crate::packet::{self, Datagram, Segment};
use crate::plan::{Attack, Kind};
use crate::rng::Rng;
use crate::workload::{Running, Side, port_of};
use insider::Insider;

mod insider;

/// The attacker of an [`Attack`].
#[derive(Debug)]
pub(super) struct Attacker {
    overhears: bool,
    overheard: VecDeque<(LocatorPair, Vec<u8>)>,
    insider: Option<Insider>,
    rng: Rng,
}

impl Attacker {
    pub(super) fn new(attack: Option<Attack>, rng: Rng) -> Self {
        let overhears = attack.is_some_and(|attack| attack.overhears);
        let insider = attack.and_then(|attack| attack.isp).map(Insider::new);
        Self { overhears, overheard: VecDeque::new(), insider, rng }
    }

    /// The host `from` sends a control message by this pair, whose ends are at these ISPs.
    pub(super) fn overhear(
        &mut self,
        (from, locators): (usize, LocatorPair),
        isps: [Option<usize>; 2],
        octets: &[u8],
    ) {
        if let Some(insider) = &mut self.insider {
            return insider.overhear((from, locators), isps, octets);
        }
        let mut octets = octets.to_vec();
        if !self.overhears {
            // The attacker knows the form of a message and its addresses, and guesses the rest.
            let guess = self.rng.seed();
            let secret = octets.iter_mut().skip(FIXED_PART);
            secret.zip(guess.iter().cycle()).for_each(|(octet, &guess)| *octet = guess);
            fill_checksum(&mut octets);
        }
        if self.overheard.len() >= MEMORY {
            self.overheard.pop_front();
        }
        self.overheard.push_back((locators, octets));
    }

    /// A message made from one that was heard: source, destination, and the octets behind the IPv6 header.
    fn invent(&mut self) -> Option<(LocatorPair, Vec<u8>)> {
        let rng = &mut self.rng;
        if let Some(insider) = &mut self.insider {
            return insider.forge(rng);
        }
        let (mut locators, mut octets) =
            self.overheard.get(rng.index(self.overheard.len()))?.clone();
        let guess = rng.seed();
        match rng.below(7) {
            // Repeated unchanged.
            0 => {}
            // From another address.
            1 => locators.local = ELSEWHERE.into(),
            // With another tag and nonce.
            2 => {
                let fields = octets.iter_mut().skip(6).take(10);
                fields.zip(guess).for_each(|(octet, guess)| *octet = guess);
                fill_checksum(&mut octets);
            }
            // With one octet changed and the checksum corrected.
            3 => {
                let at = rng.index(octets.len());
                let ulids = ulids_of_i2bis(&octets, locators);
                octets[at] ^= guess[0];
                fill_checksum(&mut octets);
                // No validator of an R1bis covers the ULIDs. If an attacker keeps an I2bis from arriving, it may name
                // other ULIDs of the same peer.
                if ulids.is_some() && ulids != ulids_of_i2bis(&octets, locators) {
                    return None;
                }
            }
            // Damaged.
            4 => {
                let at = rng.index(octets.len());
                octets[at] ^= 1 << rng.below(8);
            }
            // Cut off.
            5 => octets.truncate(rng.index(octets.len())),
            // Payload with a guessed tag.
            _ => {
                octets = vec![packet::UDP, 0];
                octets.extend_from_slice(&guess[..6]);
                octets[2] |= 0x80;
                octets.extend([7; 40]);
            }
        }
        Some((locators, octets))
    }
}

/// The ULID-pair option of an I2bis.
fn ulids_of_i2bis(octets: &[u8], locators: LocatorPair) -> Option<Vec<u8>> {
    let packet = Packet::parse(octets, locators.local.0, locators.peer.0).ok()?;
    let is_i2bis = packet.kind() == MessageType::I2BIS;
    packet.raw_option(OptionType::ULID_PAIR).filter(|_| is_i2bis).map(<[u8]>::to_vec)
}

impl World<'_> {
    pub(super) fn on_attack(&mut self) {
        let Some(attack) = self.plan.attack else { return };
        self.queue.push(self.now + attack.interval, Occurrence::Attack);
        if attack.pretends {
            return self.pretend_to_be_peers();
        }
        let Some((locators, octets)) = self.attacker.invent() else { return };
        let Some(to) = self.network.port_of(locators.peer.0) else { return };
        let octets = packet::ip6(locators, PROTOCOL, &octets);
        self.log.note(self.now, to.host, || format!("attack on {to} from {}", locators.local));
        self.on_arrival(to, &Rc::new(Parcel { octets, original: None }));
    }
}

impl World<'_> {
    /// Sends payload to both ends of each connection in the name of the other end.
    fn pretend_to_be_peers(&mut self) {
        let knows_ports = self.plan.attack.is_some_and(|attack| attack.knows_ports);
        let ends = |(&number, running): (&usize, &Running)| {
            let is_stream = matches!(running.plan.kind, Kind::Stream { .. });
            Side::BOTH.map(|side| (running.ulids_of(side), port_of(number), is_stream))
        };
        let pairs: Vec<_> = self.workloads.iter().flat_map(ends).collect();
        for (pair, port, is_stream) in pairs {
            let locators = pair.as_locators();
            let Some(to) = self.network.port_of(locators.peer.0) else { continue };
            let octets = match (knows_ports, is_stream) {
                (true, true) => forged_segment(port, self.attacker.rng.seed(), pair),
                (true, false) => forged_datagram(port, pair),
                (false, _) => packet::ip6(locators, NO_NEXT_HEADER, &[0; 8]),
            };
            let original = Some(Rc::new(octets.clone()));
            self.on_arrival(to, &Rc::new(Parcel { octets, original }));
        }
    }
}

/// A datagram with these ports and a wrong checksum.
fn forged_datagram(port: u16, pair: UlidPair) -> Vec<u8> {
    damaged(Datagram { port, label: GUESSED_LABEL, data: &[0; 8] }.packet(pair))
}

/// A segment with these ports, guessed numbers and a wrong checksum.
fn forged_segment(port: u16, guess: [u8; 32], pair: UlidPair) -> Vec<u8> {
    let [a, b, c, d, e, f, g, h, ..] = guess;
    let [seq, ack] = [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes);
    damaged(Segment { port, seq, ack, data: &[0; 8] }.packet(pair))
}

/// The programs of the receiver would take the octets of a packet with a right checksum.
fn damaged(mut packet: Vec<u8>) -> Vec<u8> {
    if let Some(last) = packet.last_mut() {
        *last ^= 1;
    }
    packet
}

const GUESSED_LABEL: u32 = 0x5_eed5;
/// RFC 8200 s4.7.
const NO_NEXT_HEADER: u8 = 59;
/// Octets of type, lengths and checksum. Tags and nonces come after them.
const FIXED_PART: usize = 6;
/// Number of messages that the attacker remembers.
const MEMORY: usize = 64;
/// An address that no host has.
pub(super) const ELSEWHERE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 1);
