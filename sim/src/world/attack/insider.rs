//! An attacker that is an ISP: on the path of some pairs, and not on the path of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use moorline_types::{ContextTag, LocatorPair};
use moorline_wire::{
    LocatorPreference, LocatorPreferences, Message, Opt, Options, Packet, Probe, ProbeReport,
    ProbeState, UpdateRequest,
};

use super::MEMORY;
use crate::rng::Rng;

/// The knowledge of the ISP. It knows all addresses and the generations of all lists, as if it had been on the path of
/// the handshake.
#[derive(Debug)]
pub(super) struct Insider {
    isp: usize,
    /// Messages that this ISP has carried: sender, pair, octets.
    heard: VecDeque<(usize, LocatorPair, Vec<u8>)>,
    /// Senders and pairs of all control messages.
    pairs: BTreeSet<(usize, LocatorPair)>,
    /// Generation and length of each host's list.
    lists: BTreeMap<usize, (u32, usize)>,
}

impl Insider {
    pub(super) fn new(isp: usize) -> Self {
        let (heard, pairs, lists) = (VecDeque::new(), BTreeSet::new(), BTreeMap::new());
        Self { isp, heard, pairs, lists }
    }

    pub(super) fn overhear(
        &mut self,
        (from, pair): (usize, LocatorPair),
        isps: [Option<usize>; 2],
        octets: &[u8],
    ) {
        self.pairs.insert((from, pair));
        let packet = Packet::parse(octets, pair.local.0, pair.peer.0);
        let options = match packet.and_then(|packet| packet.message()) {
            Ok(Message::I2(i2)) => Some(i2.options),
            Ok(Message::R2(r2)) => Some(r2.options),
            Ok(Message::UpdateRequest(request)) => Some(request.options),
            Ok(_) | Err(_) => None,
        };
        if let Some(list) = options.as_ref().and_then(Options::locator_list) {
            self.lists.insert(from, (list.generation, list.entries.len()));
        }
        if isps.contains(&Some(self.isp)) {
            if self.heard.len() >= MEMORY {
                self.heard.pop_front();
            }
            self.heard.push_back((from, pair, octets.to_vec()));
        }
    }

    /// A message to the receiver of a message that was heard, in the name of its sender.
    pub(super) fn forge(&self, rng: &mut Rng) -> Option<(LocatorPair, Vec<u8>)> {
        let (from, pair, octets) = self.heard.get(rng.index(self.heard.len()))?;
        let tag = Packet::parse(octets, pair.local.0, pair.peer.0).ok()?.receiver_tag()?;
        match rng.below(6) {
            0 | 1 => Some((*pair, probe(tag, ProbeState::Exploring, *pair, 0, Vec::new(), rng))),
            2 | 3 => {
                let states = [ProbeState::Operational, ProbeState::InboundOk];
                let state = rng.pick(&states)?;
                Some((*pair, probe(tag, state, *pair, 0, self.reports(*pair, rng)?, rng)))
            }
            4 => {
                let of_sender = self.pairs.iter().filter(|(host, _)| host == from);
                let pairs: Vec<_> = of_sender.map(|(_, pair)| *pair).collect();
                let by = rng.pick(&pairs)?;
                let data = rng.pick(&[CHECK, CHECK_CURRENT])?;
                Some((by, probe(tag, ProbeState::Operational, by, data, Vec::new(), rng)))
            }
            _ => Some((*pair, self.preferences(*from, tag, rng)?)),
        }
    }

    /// Reports of the probes in a message that came back by this pair.
    fn reports(&self, pair: LocatorPair, rng: &mut Rng) -> Option<Vec<ProbeReport>> {
        let back = self.heard.iter().rev().filter(|(_, by, _)| *by == pair.reversed());
        let probes = back.filter_map(|(_, by, octets)| {
            let packet = Packet::parse(octets, by.local.0, by.peer.0).ok()?;
            let Message::Probe(probe) = packet.message().ok()? else { return None };
            Some(probe)
        });
        let probe = probes.take(1 + rng.index(3)).last()?;
        let reports = if rng.below(2) == 0 { probe.sent } else { probe.received };
        let is_lie = rng.below(2) == 0;
        let told = |one: ProbeReport| {
            if is_lie { ProbeReport { data: CHECK_CURRENT, ..one } } else { one }
        };
        Some(reports.into_iter().map(told).collect())
    }

    /// Calls one of the sender's locators broken.
    fn preferences(&self, from: usize, receiver_tag: ContextTag, rng: &mut Rng) -> Option<Vec<u8>> {
        let (generation, len) = *self.lists.get(&from)?;
        let mut said = vec![LocatorPreference::default(); len];
        said.get_mut(rng.index(len))?.flags = LocatorPreference::BROKEN;
        let option = Opt::LocatorPreferences(LocatorPreferences::new(generation, &said));
        let options = Options::from(vec![option]);
        Some(
            Message::UpdateRequest(UpdateRequest {
                receiver_tag,
                request_nonce: nonce(rng),
                options,
            })
            .octets(),
        )
    }
}

fn probe(
    receiver_tag: ContextTag,
    state: ProbeState,
    by: LocatorPair,
    data: u32,
    received: Vec<ProbeReport>,
    rng: &mut Rng,
) -> Vec<u8> {
    let own = ProbeReport { src: by.local, dst: by.peer, nonce: nonce(rng), data };
    let options = (data != 0).then_some(Opt::Check).into_iter().collect();
    Message::Probe(Probe { receiver_tag, state, sent: vec![own], received, options }).octets()
}

fn nonce(rng: &mut Rng) -> u32 {
    let [a, b, c, d, ..] = rng.seed();
    u32::from_be_bytes([a, b, c, d])
}

/// Probe Data of a check, and of a check of the current pair (decision 046).
const CHECK: u32 = u32::from_be_bytes(*b"Moor");
const CHECK_CURRENT: u32 = u32::from_be_bytes(*b"MooR");
