//! The nodes that talk to the attacked host.

use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_wire::Opt;

use super::actor::{Actor, Said};
use super::dice::Dice;
use crate::cost::{Peer, Peers, Security};

/// Nodes that stay, and strangers that come and go.
#[derive(Debug)]
pub(super) struct Cast {
    /// Nodes that stay. Programs of the host talk to the first ones.
    residents: Vec<Actor>,
    /// Strangers of the moment, and the number of packets that each of them still sends.
    strangers: Vec<(Actor, Part, usize)>,
    hba: Peers,
    victim: [Ipv6Addr; 2],
    dice: Dice,
    made: u32,
}

/// Position of a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A real sender: it reads the answers.
    Present,
    /// A made-up source: nobody reads the answers.
    MadeUp,
}

/// The packets of a node, and the node's addresses if it has proved that it is there.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) said: Vec<Said>,
    pub(super) proved: Vec<Ipv6Addr>,
}

impl Cast {
    /// Nodes that follow from a seed, and talk to these addresses.
    pub(super) fn new(seed: u64, victim: [Ipv6Addr; 2]) -> anyhow::Result<Self> {
        let hba = Peers::new(Security::Hba).context("HBA")?;
        let cga = Peers::new(Security::Cga { bits: 1024 }).context("CGA")?;
        let mut cast = Self {
            residents: Vec::new(),
            strangers: Vec::new(),
            hba,
            victim,
            dice: Dice::new(seed),
            made: 0,
        };
        for number in 0..RESIDENTS {
            let peers = if number % 4 == 3 { &cga } else { &cast.hba };
            let peer = peers.peer(number).context("a peer")?;
            let actor = cast.actor(peer);
            cast.residents.push(actor);
        }
        for number in 0..STRANGERS {
            let stranger = cast.stranger()?;
            cast.strangers.push(stranger);
            cast.strangers[number].2 = 1 + number % LIFE;
        }
        Ok(cast)
    }

    /// Addresses to which programs of the host send datagrams.
    pub(super) fn wanted(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.residents.iter().take(WANTED).map(|actor| actor.own[0])
    }

    /// All addresses of these nodes.
    pub(super) fn reached_of_wanted(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.residents.iter().take(WANTED).flat_map(|actor| actor.reached.iter().copied())
    }

    /// The next packets of one of the nodes.
    pub(super) fn say(&mut self) -> anyhow::Result<Turn> {
        let other = self.dice.below(self.residents.len());
        let others: Vec<Opt> = self.residents[other].told.clone();
        if self.dice.chance(40) {
            let which = self.dice.below(self.residents.len());
            return Ok(turn(&mut self.residents[which], &others));
        }
        let which = self.dice.below(self.strangers.len());
        let (actor, _, left) = &mut self.strangers[which];
        let said = turn(actor, &others);
        *left -= 1;
        if *left == 0 {
            self.strangers[which] = self.stranger()?;
        }
        Ok(said)
    }

    /// Passes a packet of the host to its receiver. False if no node of the moment has the destination.
    pub(super) fn hear(&mut self, to: Ipv6Addr, packet: &[u8]) -> bool {
        let present = self.strangers.iter_mut().filter(|(_, part, _)| *part == Part::Present);
        let mut all = self.residents.iter_mut().chain(present.map(|(actor, ..)| actor));
        let receiver = all.find(|actor| actor.reached.contains(&to));
        let is_known = receiver.is_some();
        if let Some(actor) = receiver {
            actor.hear(packet);
        }
        is_known
    }

    fn stranger(&mut self) -> anyhow::Result<(Actor, Part, usize)> {
        self.made = self.made.wrapping_add(1);
        let number = RESIDENTS.wrapping_add(self.made);
        let peer = self.hba.peer(number).context("a peer")?;
        let part = self.dice.pick(&[Part::Present, Part::MadeUp]);
        let life = 1 + self.dice.below(LIFE);
        Ok((self.actor(peer), part, life))
    }

    fn actor(&mut self, peer: Peer) -> Actor {
        let own = peer.local.usable.iter().map(|locator| locator.0).collect();
        let dice = Dice::new(self.dice.long());
        Actor::new(own, peer.told().to_vec(), self.victim, dice)
    }
}

fn turn(actor: &mut Actor, others: &[Opt]) -> Turn {
    let had_proved = actor.has_proved;
    let said = actor.say(others);
    let is_news = actor.has_proved && !had_proved;
    Turn { said, proved: if is_news { actor.reached.clone() } else { Vec::new() } }
}

const RESIDENTS: u32 = 24;
/// Residents to which programs of the host send datagrams.
const WANTED: usize = 8;
/// Strangers at a time. With the life of a stranger, its packets come within a second or two.
const STRANGERS: usize = 64;
/// Most packets of a stranger.
const LIFE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_wire::ilnp::{ECHO_REPLY, Echo, NonceHeader};
    use moorline_wire::ip6::{DESTINATION_OPTIONS, ICMPV6, Ip6};
    use moorline_wire::{Message, Packet};
    use std::collections::BTreeSet;

    const VICTIM: [Ipv6Addr; 2] = [
        Ipv6Addr::new(0x2001, 0xdb8, 0xa1, 0, 0, 0, 0, 0xa),
        Ipv6Addr::new(0x2001, 0xdb8, 0xa2, 0, 0, 0, 0, 0xa),
    ];

    fn packets(seed: u64, turns: usize) -> Vec<Vec<u8>> {
        let mut cast = Cast::new(seed, VICTIM).unwrap();
        let said = (0..turns).flat_map(|_| cast.say().unwrap().said);
        said.map(|said| said.packet).collect()
    }

    #[test]
    fn equal_seeds_make_equal_packets_and_others_make_others() {
        assert_eq!(packets(7, 300), packets(7, 300));
        assert_ne!(packets(7, 300), packets(8, 300));
    }

    /// Most packets are valid: the parsers of the daemon take messages of all types.
    #[test]
    fn every_message_of_both_protocols_is_said_in_valid_form() {
        let (mut kinds, mut icmp) = (BTreeSet::new(), BTreeSet::new());
        for packet in packets(1, 6000) {
            let ip6 = Ip6::read(&packet).unwrap();
            let payload = ip6.payload(&packet);
            assert_eq!(packet.len(), 40 + payload.len());
            if ip6.next_header == 140
                && let Ok(Ok(message)) =
                    Packet::parse(payload, ip6.source, ip6.destination).map(|one| one.message())
            {
                kinds.insert(message.kind());
            }
            if let Ok(control) = moorline_wire::ilnp::Control::read(&packet) {
                icmp.insert((control.message[0], control.message[1], control.nonce.is_some()));
            }
        }
        let known: BTreeSet<_> = moorline_wire::MessageType::KNOWN.iter().copied().collect();
        assert!(kinds.is_superset(&known), "{kinds:?}");
        for kind in [(200, 0, false), (201, 0, false), (201, 1, false), (156, 0, true)] {
            assert!(icmp.contains(&kind), "{kind:?} in {icmp:?}");
        }
    }

    /// Decision 192: the host asks at a new locator, and the answer returns the token with the nonce of the node.
    #[test]
    fn a_question_at_a_locator_is_answered_with_its_token_and_the_nonce() {
        let mut cast = Cast::new(3, VICTIM).unwrap();
        let actor = &mut cast.residents[0];
        // Another of the addresses at which the node has its identifier.
        let to = *actor.reached.iter().find(|one| **one != actor.own[0]).unwrap();
        let (token, nonce) = ([0xa5; 8], moorline_types::Nonce::Short([1; 4]));
        let header = NonceHeader { next_header: ICMPV6, nonce, sequence: None }.emit();
        let question = [header, Echo { token }.emit(VICTIM[0], to)].concat();
        let packet = moorline_wire::ip6::packet(DESTINATION_OPTIONS, VICTIM[0], to, &question);
        assert!(cast.hear(to, &packet));
        let actor = &mut cast.residents[0];
        let own_nonce = actor.ilnp.nonce;
        let is_answer = |said: &Said| {
            let Ok(control) = moorline_wire::ilnp::Control::read(&said.packet) else {
                return false;
            };
            control.message.starts_with(&[ECHO_REPLY, 0])
                && control.message.ends_with(&token)
                && control.nonce == Some(own_nonce)
        };
        let said: Vec<_> = (0..200).flat_map(|_| actor.say(&[])).collect();
        assert!(said.iter().any(is_answer));
    }

    #[test]
    fn an_answer_of_the_host_decides_the_next_message() {
        let mut cast = Cast::new(3, VICTIM).unwrap();
        let to = cast.residents[0].own[0];
        let options = vec![Opt::Validator(vec![9; 16])].into();
        let r1 = Message::R1(moorline_wire::R1 { initiator_nonce: 1, responder_nonce: 2, options });
        let packet = moorline_wire::ip6::packet(140, VICTIM[0], to, &r1.octets());
        assert!(cast.hear(to, &packet));
        let actor = &mut cast.residents[0];
        let has_validator = |said: &Said| said.packet.windows(16).any(|part| part == [9; 16]);
        let said: Vec<_> = (0..50).flat_map(|_| actor.say(&[])).collect();
        assert!(said.iter().any(has_validator) && actor.has_proved);
        assert!(!cast.hear(VICTIM[0], &packet));
    }
}
