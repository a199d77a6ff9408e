//! The host as a whole: its wires, upper layers, and the way between them.
//!
//! ```text
//!        sockets: UDP, TCP, Echo
//!          | source address, path MTU, fragments          ^ reassembly, extension headers
//!          v                                              |
//!        poll_outbound / handle_outbound                poll_inbound / handle_inbound     (Config::intercepts)
//!          | next hop, neighbor                           ^ filter by address
//!          v                                              |
//!        frames of the wires
//! ```

mod beneath;
mod config;
mod discovery;
mod event;
mod flow;
mod frames;
mod gather;
mod icmp;
mod input;
mod ip4;
mod names;
mod netstat;
mod output;
mod ping;
mod sockets;
mod wire;

pub use beneath::{Carried, WireView};
pub use config::{Config, WireConfig};
pub use event::{EchoReply, Event};
pub use input::Arrival;
pub use netstat::{AddressRow, NeighborRow, Netstat, PrefixRow, RouteRow};
pub use wire::WireId;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::PacketBuf;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::error::Errors;
use crate::fragment::Identifications;
use crate::port::Ports;
use crate::reassembly::Reassembly;
use crate::route::{Candidate, Destinations, RouterChoice};
use crate::tcp::Engine as _;
use crate::tcp::smol::SmolEngine;
use crate::{Drops, select, udp};
use flow::FlowLabels;
use frames::Frames;
use gather::Gathered;
use ping::Pings;
use wire::Wire;

/// An IPv6 host, with IPv4 beside it if a wire has an address of IPv4.
///
/// Each input may cause outputs. After an input, poll [`Stack::poll_frame`] and [`Stack::poll_event`] until they return
/// `None`; then wait for the next input, or until [`Stack::poll_timeout`].
///
/// Frames and packets that wait at the caller come best in one go, and the polls after them: the machines are asked what they want once
/// for all of them, and TCP segments in a row are one for the engine. So one acknowledgment answers many segments, as with the
/// offloads of a network adapter. What the functions tell that only read is true after the polls.
pub struct Stack {
    config: Config,
    wires: Vec<Wire>,
    destinations: Destinations,
    choice: RouterChoice,
    reassembly: Reassembly<WireId>,
    identifications: Identifications,
    errors: Errors,
    udp: udp::Sockets,
    tcp: SmolEngine,
    pings: Pings,
    ports: Ports,
    policy: select::Policy,
    labels: FlowLabels,
    counters: netstat::Counters,
    drops: Drops,
    random: ChaCha20Rng,
    frames: Frames,
    events: VecDeque<Event>,
    /// Packets of the host to itself.
    local: VecDeque<PacketBuf>,
    outbound: VecDeque<PacketBuf>,
    inbound: VecDeque<(Arrival, PacketBuf)>,
    /// Routes to the destination at hand. Between packets, it only keeps its memory.
    candidates: Vec<Candidate>,
    /// The TCP segment that waits for its continuation.
    gathered: Option<Gathered>,
    /// Time of the last packet since the machines were asked what they want; `None` if they want nothing.
    unsettled: Option<Instant>,
    /// Pairs of addresses (source, destination) whose packets leave with other addresses.
    carried: BTreeMap<(Ipv6Addr, Ipv6Addr), Carried>,
}

impl Stack {
    /// Creates a host without wires. All that is random comes from the seed.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        let mut random = ChaCha20Rng::from_seed(seed);
        Self {
            wires: Vec::new(),
            destinations: Destinations::new(config.destinations, fork(&mut random)),
            choice: RouterChoice::default(),
            reassembly: Reassembly::default(),
            identifications: Identifications::new(fork(&mut random)),
            errors: Errors::new(config.limits, fork(&mut random), now),
            udp: udp::Sockets::new(fork(&mut random)),
            tcp: SmolEngine::new(config.tcp, fork(&mut random)),
            pings: Pings::default(),
            ports: Ports::new(fork(&mut random)),
            policy: select::Policy::default(),
            labels: FlowLabels::new(&mut random),
            config,
            counters: netstat::Counters::default(),
            drops: Drops::default(),
            random,
            frames: Frames::default(),
            events: VecDeque::new(),
            local: VecDeque::new(),
            outbound: VecDeque::new(),
            inbound: VecDeque::new(),
            candidates: Vec::new(),
            gathered: None,
            unsettled: None,
            carried: BTreeMap::new(),
        }
    }

    /// Adds a wire. Its link is up.
    pub fn add_wire(&mut self, config: WireConfig, now: Instant) -> WireId {
        let id = WireId(u32::try_from(self.wires.len()).unwrap_or(u32::MAX));
        let random = fork(&mut self.random);
        self.wires.push(Wire::new(id, config, self.config.hop_limit, random));
        self.follow_mtus();
        self.handle_link(id, true, now);
        id
    }

    /// Says whether the caller cuts TCP super-segments, or lets an adapter do so. Then a frame of [`Self::poll_frame`] can be longer than the
    /// MTU: see [`PacketBuf::segment_size`]. At first all frames go as they are. Without effect with [`Config::intercepts`].
    pub fn set_cuts_segments(&mut self, wire: WireId, cuts: bool) {
        if let Some(wire) = self.wires.iter_mut().find(|known| known.id == wire) {
            wire.cuts_segments = cuts;
        }
    }

    /// Takes the state of a link: up or down.
    pub fn handle_link(&mut self, wire: WireId, is_up: bool, now: Instant) {
        self.catch_up();
        let Some(wire) = self.wires.iter_mut().find(|known| known.id == wire) else { return };
        wire.handle_link(is_up, now);
        self.settle(now);
    }

    /// The wire leads to another link now. The host forgets what it has learned of the old one, and the addresses that it has made
    /// there (RFC 8981 s3.6).
    //= rfc8981#3.6-5 rfc8981#3.6-6 rfc8981#3.6-7
    pub fn handle_new_link(&mut self, wire: WireId, now: Instant) {
        self.catch_up();
        let Some(known) = self.wires.iter_mut().find(|known| known.id == wire) else { return };
        known.handle_new_link(now);
        self.destinations.forget_wire(wire.0);
        self.settle(now);
    }

    /// Does what is due. Call it when [`Stack::poll_timeout`] says so.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.catch_up();
        for wire in &mut self.wires {
            wire.handle_timeout(now);
        }
        self.reassembly.handle_timeout(now);
        self.tcp.handle_timeout(now);
        self.settle(now);
    }

    /// The time of the next [`Stack::handle_timeout`]. The answer can change with each input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if let Some(at) = self.unsettled {
            return Some(at);
        }
        // The host has more to tell itself than one input may cause.
        if !self.local.is_empty() {
            return Some(Instant::ZERO);
        }
        let wires = self.wires.iter().filter_map(Wire::poll_timeout);
        wires.chain(self.reassembly.poll_timeout()).chain(self.tcp.poll_timeout()).min()
    }

    /// The next frame to send, with its Ethernet header.
    #[must_use]
    pub fn poll_frame(&mut self) -> Option<(WireId, PacketBuf)> {
        self.catch_up();
        self.frames.pop(self.tcp.spares())
    }

    /// Takes the memory of a frame of [`Self::poll_frame`] that is on its way. A large segment to come gets it. The host keeps
    /// [`MAX_SPARES`](crate::tcp::MAX_SPARES) pieces, and small ones go.
    pub fn recycle(&mut self, sent: PacketBuf) {
        self.tcp.spares().give(sent);
    }

    /// Memory for a large frame that the caller reads, with a packet of before; `None` if the host has none to give.
    #[must_use]
    pub fn spare(&mut self) -> Option<PacketBuf> {
        self.tcp.spares().take()
    }

    /// The next event.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.catch_up();
        self.events.pop_front()
    }

    /// The next packet between the upper layers and the wires, if the settings say that packets stop there.
    #[must_use]
    pub fn poll_outbound(&mut self) -> Option<PacketBuf> {
        self.catch_up();
        self.outbound.pop_front()
    }

    /// Sends a packet by the wire that its addresses lead to, whatever layer it comes from.
    pub fn handle_outbound(&mut self, packet: PacketBuf, now: Instant) {
        let result = self.route(packet, now);
        self.count(result);
        self.unsettled = Some(now);
    }

    /// The next packet for one of the host's addresses, if the settings say that packets stop between the wires and the upper
    /// layers.
    #[must_use]
    pub fn poll_inbound(&mut self) -> Option<(Arrival, PacketBuf)> {
        self.catch_up();
        self.inbound.pop_front()
    }

    /// Hands a packet to the upper layers, whatever its destination.
    pub fn handle_inbound(&mut self, arrival: Arrival, mut packet: PacketBuf, now: Instant) {
        let result = self.deliver(arrival, &mut packet, now);
        self.count(result);
        self.unsettled = Some(now);
    }
}

impl Stack {
    fn wire(&self, id: WireId) -> Option<&Wire> {
        self.wires.iter().find(|wire| wire.id == id)
    }

    /// Whether the host has the address, on any wire. An IPv4 address is v4-mapped.
    fn is_ours(&self, address: Ipv6Addr) -> bool {
        let is_ip4 = |wire: &Wire| wire.ip4().is_some_and(|ip4| ip4.config().mapped() == address);
        self.wires.iter().any(|wire| wire.addresses.is_ours(address) || is_ip4(wire))
    }
}

/// A generator with a seed from another one.
fn fork(random: &mut ChaCha20Rng) -> ChaCha20Rng {
    let mut seed = [0; 32];
    random.fill_bytes(&mut seed);
    ChaCha20Rng::from_seed(seed)
}

#[cfg(test)]
mod tests;
