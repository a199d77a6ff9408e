//! The attacks, and their packets on the wire.
//!
//! The attacker stands behind a router of an ISP: it sends with any source address, and reads the answers to its own
//! made-up ones only. It reads nothing that the two hosts send to each other.

use std::net::Ipv6Addr;

use super::handshake::Handshakes;
use super::packets;
use crate::experiment::recovery::Scene;
use crate::hop::{ETHERNET_LEN, Hop};
use crate::named::named;
use crate::netns::Namespace;
use crate::topology::{HOSTS, ISPS, Impairment, host_address};
use crate::workload::{Answers, Generator, LONGEST_FLOOD, STRANGER, Stream, Vary, make_up_source};

named! {
    /// An attack on host A.
    pub enum Attack {
        /// No attack, between hosts with Shim6.
        Nothing = "none",
        /// Two payload packets of 1,064 octets from each of many made-up sources, so that each source looks like a peer.
        Triggers = "triggers",
        /// I1s from made-up sources.
        I1 = "i1",
        /// Handshakes up to the I2 from made-up sources under 64 prefixes of the attacker.
        I2 = "i2",
        /// Control messages of types 64 to 127 with made-up tags, from made-up sources.
        Types = "types-64-127",
        /// The same messages behind Destination Options.
        BehindOptions = "types-behind-options",
        /// R1bis with made-up tags, from made-up sources.
        R1bis = "r1bis",
        /// Payload headers with made-up tags, from made-up sources.
        Payload = "payload",
        /// Packets of 8 octets with the ULIDs of the connection as addresses, to both hosts.
        Ulids = "ulids",
        /// No attack, between hosts with ILNP.
        NothingIlnp = "none-ilnp",
        /// Nonces of made-up ILNP correspondents.
        Nonces = "nonces",
    }
}

impl Attack {
    /// Whether the hosts of this attack have ILNP instead of Shim6.
    pub(super) const fn is_on_ilnp(self) -> bool {
        matches!(self, Self::NothingIlnp | Self::Nonces)
    }

    /// Packets a second, unless an option says another number: rates at which a fault was seen, or that a host must bear.
    const fn rate(self) -> u64 {
        match self {
            Self::Nothing | Self::NothingIlnp => 0,
            Self::Triggers => 1_100,
            Self::I1
            | Self::Types
            | Self::BehindOptions
            | Self::R1bis
            | Self::Payload
            | Self::Nonces => 50_000,
            Self::I2 => 3_000,
            Self::Ulids => 50,
        }
    }

    /// Two hosts with daemons as installed.
    pub(super) fn scene(self) -> anyhow::Result<Scene> {
        let cables = Impairment::default();
        if self.is_on_ilnp() {
            let settings = "addresses = \"off\"\nilnp = \"on\"\n";
            return Scene::as_it_is(cables, super::SEND_TIMEOUT, settings);
        }
        Scene::protected(cables, super::SEND_TIMEOUT, "")
    }

    /// Next Header and first payload of the packets from made-up sources, and the function that makes the next frame.
    /// `None` if made-up sources send nothing.
    fn stream(self) -> Option<(u8, Vec<u8>, Next)> {
        let types = || packets::control(packets::FIRST_OF_CONTEXTS, &[0; 10]);
        match self {
            Self::Nothing | Self::NothingIlnp | Self::Ulids => None,
            Self::Triggers => {
                Some((packets::NO_NEXT_HEADER, vec![0; TRIGGER_OCTETS], next_trigger))
            }
            Self::I1 => Some((packets::SHIM6, packets::i1(0), next_i1)),
            Self::I2 => Some((packets::SHIM6, packets::i1(0), next_i1_of_64_prefixes)),
            Self::Types => Some((packets::SHIM6, types(), next_type)),
            Self::BehindOptions => {
                let packet = [&packets::PADDING_TO_SHIM6[..], &types()].concat();
                Some((packets::DESTINATION_OPTIONS, packet, next_type_behind_options))
            }
            Self::R1bis => Some((packets::SHIM6, packets::r1bis(0), next_r1bis)),
            Self::Payload => {
                Some((packets::SHIM6, packets::payload_header(0).into(), next_payload))
            }
            Self::Nonces => {
                Some((packets::DESTINATION_OPTIONS, packets::nonce_header(0).into(), next_nonce))
            }
        }
    }

    /// Begins the attack, and the count of answers.
    pub(super) fn start(self, scene: &Scene, rate: Option<u64>) -> anyhow::Result<Running> {
        let rate = rate.unwrap_or(self.rate());
        let mut running = Running::count(scene)?;
        if self == Self::Ulids {
            running.pretend_to_be_the_peers(scene, rate)?;
        }
        let Some((next_header, first, next)) = self.stream() else { return Ok(running) };
        // Strangers come by the other ISP, so that the queue of a link does not affect the result.
        let router = scene.lab.namespace(ISPS[1])?;
        let victim = if self.is_on_ilnp() {
            host_address(HOSTS[0], 2)
        } else {
            scene.daemons[0].verifiable_address(ISPS[1])?
        };
        running.send(router, [STRANGER, victim], (next_header, &first), numbered(next), rate)?;
        if self == Self::I2 {
            let (hop, _) = Hop::towards(router, victim)?;
            running.handshakes = Some(Handshakes::start(router, hop, victim)?);
        }
        Ok(running)
    }
}

/// An attack that goes on.
pub(super) struct Running {
    /// Streams, and the octets of each of their packets.
    streams: Vec<(Generator, u64)>,
    handshakes: Option<Handshakes>,
    answers: Vec<Answers>,
}

impl Running {
    /// Starts to count answers in the routers of both ISPs.
    fn count(scene: &Scene) -> anyhow::Result<Self> {
        let answers = ISPS.iter().map(|isp| Answers::start(scene.lab.namespace(isp)?));
        let answers = answers.collect::<anyhow::Result<_>>()?;
        Ok(Self { streams: Vec::new(), handshakes: None, answers })
    }

    /// Sends a stream of packets to a customer of this router. `ends` are source and destination.
    fn send(
        &mut self,
        router: &Namespace,
        ends: [Ipv6Addr; 2],
        (next_header, payload): (u8, &[u8]),
        vary: Vary,
        rate: u64,
    ) -> anyhow::Result<()> {
        let (hop, _) = Hop::towards(router, ends[1])?;
        let frame = hop.frame(ends, next_header, payload);
        let octets = (frame.len() - ETHERNET_LEN) as u64;
        let stream = Stream { frame, vary, rate: Some(rate) };
        let generator = Generator::start(router, &hop.interface, vec![stream], LONGEST_FLOOD)?;
        self.streams.push((generator, octets));
        Ok(())
    }

    /// Sends packets to each host with the address of the other one as source. The router of ISP 1 sends them, so that
    /// they arrive when the path between the hosts is dead.
    fn pretend_to_be_the_peers(&mut self, scene: &Scene, rate: u64) -> anyhow::Result<()> {
        let router = scene.lab.namespace(ISPS[0])?;
        let [a, b] = [0, 1].map(|end: usize| scene.ends[end].address);
        for ends in [[a, b], [b, a]] {
            let payload = (packets::NO_NEXT_HEADER, &[0; 8][..]);
            self.send(router, ends, payload, Box::new(|_| ()), rate)?;
        }
        Ok(())
    }

    /// Traffic of the attack so far.
    pub(super) fn traffic(&self) -> anyhow::Result<Traffic> {
        let mut traffic = Traffic::default();
        for (generator, octets) in &self.streams {
            traffic.packets += generator.sent();
            traffic.octets += generator.sent() * octets;
        }
        let [packets, octets] = self.handshakes.as_ref().map_or([0, 0], Handshakes::sent);
        traffic.packets += packets;
        traffic.octets += octets;
        for answers in &self.answers {
            let [packets, octets] = answers.count()?;
            traffic.answers += packets;
            traffic.octets_of_answers += octets;
        }
        Ok(traffic)
    }

    /// Ends the attack.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        for (generator, _) in self.streams {
            generator.finish()?;
        }
        self.handshakes.map_or(Ok(()), Handshakes::finish)?;
        self.answers.into_iter().try_for_each(Answers::finish)
    }
}

/// Numbers of packets and octets, from the IPv6 header on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) packets: u64,
    pub(super) octets: u64,
    /// Packets of the hosts to made-up sources.
    pub(super) answers: u64,
    pub(super) octets_of_answers: u64,
}

/// Makes the next frame from a frame, by its number.
type Next = fn(&mut [u8], u32);

fn numbered(next: Next) -> Vary {
    let mut number = 0_u32;
    Box::new(move |frame| {
        number = number.wrapping_add(1);
        next(frame, number);
    })
}

fn next_trigger(frame: &mut [u8], number: u32) {
    make_up_source(frame, u64::from(number / 2));
}

fn next_i1(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::i1(number));
}

fn next_i1_of_64_prefixes(frame: &mut [u8], number: u32) {
    next_i1(frame, number);
    let prefix = [0xf0, 0, 0, (number % 64) as u8];
    frame[PREFIX_AT..PREFIX_AT + 4].copy_from_slice(&prefix);
}

fn next_type(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    make_up_type(&mut frame[PAYLOAD_AT..], number);
}

fn next_type_behind_options(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    make_up_type(&mut frame[PAYLOAD_AT + packets::PADDING_TO_SHIM6.len()..], number);
}

fn next_r1bis(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::r1bis(number));
}

/// Writes another type of 64 to 127, and another tag, into a message.
fn make_up_type(message: &mut [u8], number: u32) {
    message[packets::TYPE_AT] = packets::FIRST_OF_CONTEXTS + (number % 64) as u8;
    let tag = packets::tag_of(number);
    message[packets::TAG_AT..packets::TAG_AT + tag.len()].copy_from_slice(&tag);
    packets::seal(message);
}

fn next_payload(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::payload_header(number));
}

fn next_nonce(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::nonce_header(number));
}

/// Offset of the third and fourth 16 bits of the source address.
const PREFIX_AT: usize = ETHERNET_LEN + 12;
const PAYLOAD_AT: usize = ETHERNET_LEN + 40;
/// Octets behind the IPv6 header of a trigger: 1,064 with it.
const TRIGGER_OCTETS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Gives the IPv6 packets of the first frames of an attack.
    fn packets_of(next: Next, first: &[u8]) -> Vec<Vec<u8>> {
        let hop = Hop { interface: "cable".into(), own: [1; 6], next: [2; 6] };
        let mut frame = hop.frame([STRANGER, Ipv6Addr::LOCALHOST], packets::SHIM6, first);
        let mut vary = numbered(next);
        let next = |_| {
            vary(&mut frame);
            frame[ETHERNET_LEN..].to_vec()
        };
        (0..256).map(next).collect()
    }

    fn count<T: Ord>(all: impl IntoIterator<Item = T>) -> usize {
        all.into_iter().collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn control_messages_of_all_upper_types_have_right_checksums_and_other_tags_and_sources() {
        let first = packets::control(packets::FIRST_OF_CONTEXTS, &[0; 10]);
        let made = packets_of(next_type, &first);
        for packet in &made {
            let mut sealed = packet[40..].to_vec();
            packets::seal(&mut sealed);
            assert_eq!(packet[40..], sealed);
        }
        let types: BTreeSet<_> = made.iter().map(|packet| packet[42]).collect();
        assert!(types.into_iter().eq(64..128));
        assert_eq!(count(made.iter().map(|packet| &packet[46..52])), made.len(), "tags");
        assert_eq!(count(made.iter().map(|packet| &packet[8..24])), made.len(), "sources");
    }

    #[test]
    fn behind_options_and_as_r1bis_each_message_has_its_own_tag_and_source() {
        let types = packets::control(packets::FIRST_OF_CONTEXTS, &[0; 10]);
        let bare = packets_of(next_type, &types);
        let first = [&packets::PADDING_TO_SHIM6[..], &types].concat();
        let behind = packets_of(next_type_behind_options, &first);
        for (bare, behind) in bare.iter().zip(&behind) {
            assert_eq!(behind[40..48], packets::PADDING_TO_SHIM6);
            assert_eq!((&behind[48..], &behind[8..24]), (&bare[40..], &bare[8..24]));
        }
        let answers = packets_of(next_r1bis, &packets::r1bis(0));
        assert_eq!(count(answers.iter().map(|packet| &packet[46..52])), answers.len(), "tags");
        assert_eq!(count(answers.iter().map(|packet| &packet[8..24])), answers.len(), "sources");
    }

    #[test]
    fn handshakes_come_from_64_prefixes_and_i1s_from_a_prefix_each() {
        let first = packets::i1(0);
        let few = packets_of(next_i1_of_64_prefixes, &first);
        assert_eq!(count(few.iter().map(|packet| &packet[8..16])), 64);
        assert_eq!(count(few.iter().map(|packet| &packet[8..24])), few.len());
        let many = packets_of(next_i1, &first);
        assert_eq!(count(many.iter().map(|packet| &packet[8..16])), many.len());
        assert_eq!(count(many.iter().map(|packet| &packet[40..])), many.len(), "nonces");
    }

    #[test]
    fn a_trigger_is_two_packets_of_a_source_and_a_nonce_one() {
        let triggers = packets_of(next_trigger, &[0; TRIGGER_OCTETS]);
        assert_eq!(triggers[0].len(), 1064);
        assert_eq!(count(triggers.iter().map(|packet| &packet[8..24])), triggers.len() / 2 + 1);
        assert_eq!(triggers[1][8..24], triggers[2][8..24]);
        let payload = packets_of(next_payload, &packets::payload_header(0));
        assert_eq!(count(payload.iter().map(|packet| &packet[8..24])), payload.len(), "sources");
        assert_eq!(count(payload.iter().map(|packet| &packet[42..48])), payload.len(), "tags");
        assert!(payload.iter().all(|packet| packet[42] & 0x80 != 0));
        let nonces = packets_of(next_nonce, &packets::nonce_header(0));
        assert_eq!(count(nonces.iter().map(|packet| &packet[8..24])), nonces.len());
        assert_eq!(count(nonces.iter().map(|packet| &packet[44..48])), nonces.len());
    }
}
