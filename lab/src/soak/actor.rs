//! A speaker of both protocols: what it has heard decides what it says next.

use std::collections::VecDeque;
use std::net::Ipv6Addr;

use moorline_types::{ContextTag, Ilv, Nonce};
use moorline_wire::ilnp::{Accept, Flow, LocatorUpdate};
use moorline_wire::ip6::{self, Ip6};
use moorline_wire::{Opt, PROTOCOL, ProbeReport};

use super::dice::Dice;
use super::wrap::{Payload, wrap};
use super::{ilnp, shim6, traffic};

/// A node that talks to the attacked host.
#[derive(Debug)]
pub(super) struct Actor {
    /// Addresses of the node, of which the first is its ULID.
    pub(super) own: Vec<Ipv6Addr>,
    /// All addresses at which the node receives: each identifier of its addresses at each of its locators.
    pub(super) reached: Vec<Ipv6Addr>,
    /// Locator list, parameters and signature that prove the addresses.
    pub(super) told: Vec<Opt>,
    /// Addresses of the attacked host, one for each ISP.
    pub(super) victim: [Ipv6Addr; 2],
    /// Place of the attacked host's address in use.
    pub(super) isp: usize,
    pub(super) shim6: Shim6,
    pub(super) ilnp: Ilnp,
    /// Whether the node has returned a secret that the host has sent to its address.
    pub(super) has_proved: bool,
    pub(super) dice: Dice,
}

/// Knowledge of a node about Shim6.
#[derive(Debug)]
pub(super) struct Shim6 {
    /// Own tag and Initiator Nonce.
    pub(super) tag: ContextTag,
    pub(super) nonce: u32,
    /// Responder Nonce and validator of the last R1.
    pub(super) r1: Option<(u32, Vec<u8>)>,
    /// Packet tag, Responder Nonce and validator of the last R1bis.
    pub(super) r1bis: Option<(ContextTag, u32, Vec<u8>)>,
    /// Tag of the host.
    pub(super) peer_tag: Option<ContextTag>,
    /// Initiator Nonce of an I1 or of an I2 of the host that waits for its answer.
    pub(super) i1: Option<u32>,
    pub(super) i2: Option<u32>,
    /// Request Nonce of an Update Request of the host.
    pub(super) request: Option<u32>,
    /// Probes of the host, the last one at the end.
    pub(super) probes: VecDeque<ProbeReport>,
    /// The last message of the host, for Error messages about it.
    pub(super) last: Vec<u8>,
}

/// Knowledge of a node about ILNP.
#[derive(Debug)]
pub(super) struct Ilnp {
    pub(super) nonce: Nonce,
    pub(super) sequence: u32,
    pub(super) accept: Option<Accept>,
    pub(super) proposed: Option<Flow>,
    pub(super) update: Option<LocatorUpdate>,
    /// Data of the last echo request of the host.
    pub(super) echo: Option<Vec<u8>>,
}

/// A packet to send, from the IPv6 header on, and the ISP by which it goes.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) packet: Vec<u8>,
    pub(super) isp: usize,
}

impl Actor {
    /// A node with these addresses and proofs.
    pub(super) fn new(
        own: Vec<Ipv6Addr>,
        told: Vec<Opt>,
        victim: [Ipv6Addr; 2],
        mut dice: Dice,
    ) -> Self {
        let shim6 = Shim6 {
            tag: ContextTag::from_bits(dice.long()),
            nonce: dice.word(),
            r1: None,
            r1bis: None,
            peer_tag: None,
            i1: None,
            i2: None,
            request: None,
            probes: VecDeque::new(),
            last: Vec::new(),
        };
        let length = dice.pick(&[4, 4, 12]);
        let nonce = Nonce::from_octets(&dice.octets(length)).unwrap_or(Nonce::Short([0; 4]));
        let ilnp =
            Ilnp { nonce, sequence: 0, accept: None, proposed: None, update: None, echo: None };
        let isp = dice.below(2);
        let at = |place: &Ipv6Addr| {
            let l64 = Ilv::of(*place).l64;
            own.iter().map(move |own| Ilv::of(*own).at(l64).address()).collect::<Vec<_>>()
        };
        let reached = own.iter().flat_map(at).collect();
        Self { own, reached, told, victim, isp, shim6, ilnp, has_proved: false, dice }
    }

    /// The next packets of the node. `others` are options of another node, which prove nothing here.
    pub(super) fn say(&mut self, others: &[Opt]) -> Vec<Said> {
        let isp = if self.dice.chance(85) { self.isp } else { self.dice.below(2) };
        let source = match self.dice.below(20) {
            0 => self.dice.pick(&self.own),
            // Somebody on the link of the host, or the host itself, as a forged source.
            1 => on_link(self.victim[isp], self.dice.octet()),
            _ => self.own[0],
        };
        let ends = [source, self.victim[isp]];
        let payload = match self.dice.below(10) {
            0..6 => shim6::say(self, others),
            6..9 => ilnp::say(self, ends),
            _ => traffic::say(&mut self.dice, ends),
        };
        let packet = |Payload { next_header, octets }| Said {
            packet: ip6::packet(next_header, ends[0], ends[1], &octets),
            isp,
        };
        wrap(&mut self.dice, payload).into_iter().map(packet).collect()
    }

    /// Takes a packet of the host.
    pub(super) fn hear(&mut self, packet: &[u8]) {
        let Some(ip6) = Ip6::read(packet) else { return };
        if ip6.next_header == PROTOCOL {
            shim6::hear(&mut self.shim6, ip6.payload(packet), [ip6.source, ip6.destination]);
        } else {
            ilnp::hear(&mut self.ilnp, packet);
        }
    }
}

/// An address with the prefix of this one.
fn on_link(address: Ipv6Addr, number: u8) -> Ipv6Addr {
    let mut octets = address.octets();
    octets[8..].copy_from_slice(&[2, 0, 0, 0xff, 0xfe, 0, 0, number]);
    // Every fourth is the address itself.
    if number.is_multiple_of(4) { address } else { octets.into() }
}
