//! A host of the network that speaks ILNPv6 by RFC 6740 to 6744 alone: one [`PlainNode`] for each correspondent.

use std::collections::BTreeMap;

use moorline_types::{Instant, UlidPair};

use super::{Ends, L64, PlainNode, PlainPath, SocketKey};
use crate::rng::Rng;

/// The host. It speaks ILNP to hosts that speak ILNP, as if the DNS named them (RFC 6742 s2.1).
#[derive(Debug)]
pub(crate) struct PlainHost {
    rng: Rng,
    /// Locators, the best one first.
    locators: Vec<L64>,
    /// By identifier, of the host and of the correspondent (RFC 6744 s4).
    nodes: BTreeMap<[[u8; 8]; 2], PlainNode>,
    /// Addresses of all sockets. They last longer than the sessions.
    sockets: BTreeMap<SocketKey, Ends>,
    /// Time of the next look at timers, as the queue has it.
    pub(crate) wake: Option<Instant>,
}

impl PlainHost {
    pub(crate) fn new(rng: Rng) -> Self {
        let (locators, nodes, sockets) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { rng, locators, nodes, sockets, wake: None }
    }

    /// Forgets all sessions. The next ones have other nonces.
    pub(crate) fn begin_anew(&mut self) {
        self.nodes.clear();
    }

    /// Opens a socket of this protocol and port, which is the port of the other end as well.
    pub(crate) fn open(&mut self, protocol: u8, port: u16, ulids: UlidPair, now: Instant) {
        let [a, b] = port.to_be_bytes();
        let (key, ends) = ((protocol, [a, b, a, b]), ends_of(ulids));
        self.sockets.insert(key, ends);
        self.node(ends.map(|end| nid_at(&end, 0)), now).open(key, ends);
    }

    pub(crate) fn set_locators(&mut self, locators: Vec<L64>, now: Instant) {
        self.nodes.values_mut().for_each(|node| node.set_locators(locators.clone(), now));
        self.locators = locators;
    }

    /// The packet of a socket on the wire; `None` if the host has no address.
    pub(crate) fn send(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let has_address = !self.locators.is_empty();
        let node = self.node([nid_at(packet, 8), nid_at(packet, 24)], now);
        has_address.then(|| node.send(packet, now))
    }

    /// Takes a packet from the network. Returns the packet for the socket.
    pub(crate) fn receive(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.node([nid_at(packet, 24), nid_at(packet, 8)], now).receive(packet, now)
    }

    /// The next message of a session. Messages of a host without an address are lost.
    pub(crate) fn poll_message(&mut self) -> Option<Vec<u8>> {
        if self.locators.is_empty() {
            self.nodes.values_mut().for_each(|node| node.out.clear());
        }
        self.nodes.values_mut().find_map(|node| node.out.pop_front())
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.nodes.values().filter_map(PlainNode::poll_timeout).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.nodes.values_mut().for_each(|node| node.handle_timeout(now));
    }

    /// The path of packets for a socket with these addresses; `None` if there was no traffic.
    pub(crate) fn path(&self, ulids: UlidPair) -> Option<PlainPath> {
        let ends = ends_of(ulids);
        self.nodes.get(&ends.map(|end| nid_at(&end, 0)))?.path(ends)
    }

    fn node(&mut self, nids: [[u8; 8]; 2], now: Instant) -> &mut PlainNode {
        let Self { rng, locators, nodes, sockets, .. } = self;
        nodes.entry(nids).or_insert_with(|| {
            let [a, b, c, d, ..] = rng.seed();
            let mut node = PlainNode::new([a, b, c, d], false);
            node.set_locators(locators.clone(), now);
            let of_node =
                sockets.iter().filter(|(_, ends)| ends.map(|end| nid_at(&end, 0)) == nids);
            of_node.for_each(|(key, ends)| node.open(*key, *ends));
            node
        })
    }
}

fn ends_of(ulids: UlidPair) -> Ends {
    [ulids.local.0.octets(), ulids.peer.0.octets()]
}

/// The identifier of the address at this place.
fn nid_at(octets: &[u8], at: usize) -> [u8; 8] {
    octets.get(at + 8..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
}
