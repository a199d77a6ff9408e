use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_datapath::shim6::{ContextEntry, ReapTimers, Update};
use moorline_plane::shim6::{Inbound, Outbound, Plane, Settings};
use moorline_types::{
    ContextId, ContextTag, Encapsulation, Instant, Locator, LocatorPair, Path, Ulid, UlidPair,
};
use moorline_wire::ip6;

use crate::input::Input;
use crate::shared::polled;

/// The user-space data plane between sockets that send anything and a network that brings anything.
///
/// Promises: no panic; what leaves with a payload header has the tag and locators of the context that its
/// addresses name; what is delivered out of one carries the ULIDs of a context; all else is untouched;
/// queues that come to an end. Well formed is an input by which some packet was rewritten.
pub(crate) fn plane(input: &[u8]) -> bool {
    let mut world = World::new();
    let mut input = Input::new(input);
    while let Some(step) = input.step() {
        world.step(step, &mut input);
        polled(MAX_POLLED, || world.plane.poll_report());
    }
    world.rewritten > 0
}

struct World {
    plane: Plane,
    entries: BTreeMap<ContextId, ContextEntry>,
    /// The last packet that left with a payload header.
    last: Vec<u8>,
    rewritten: usize,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let mut plane = Plane::new(Settings { max_flows: 8, ..Settings::default() });
        LOCAL.iter().for_each(|local| plane.set_local(Locator(*local)));
        let now = Instant::from_nanos(1_000_000_000);
        Self { plane, entries: BTreeMap::new(), last: Vec::new(), rewritten: 0, now }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 9 {
            0 => self.upsert(input),
            1 => self.update(input),
            2 => {
                let packet = packet(input, LOCAL, PEER);
                self.send(packet);
            }
            3 => {
                let packet = packet(input, PEER, LOCAL);
                self.receive(packet);
            }
            4 => {
                let len = input.octet();
                let packet = input.take(len.into()).to_vec();
                self.send(packet.clone());
                self.receive(packet);
            }
            5 => self.time(input),
            6 => self.locals(input),
            7 => self.return_last(input),
            _ => self.complain(input),
        }
    }

    fn upsert(&mut self, input: &mut Input<'_>) {
        let id = ContextId(u32::from(input.octet() % 4));
        let (tags, flags) = (u64::from(input.octet()), input.octet());
        let pair = |bits: u8| (LOCAL[usize::from(bits & 1)], PEER[usize::from(bits >> 1 & 1)]);
        let (ulids, locators) = (pair(flags), pair(flags >> 2));
        let timers = ReapTimers {
            send: Duration::from_millis(u64::from(input.octet()) * 10),
            keepalive_interval: Duration::from_millis(u64::from(input.octet()) * 10),
            keepalive_timeout: Duration::from_millis(u64::from(input.octet()) * 30),
        };
        let more = input.octet();
        let ulids = UlidPair::new(Ulid(ulids.0), Ulid(ulids.1));
        let path = |pair| Path::of(ulids, pair);
        let pairs = |count: u8| {
            let pairs = (0..count).map(|bits| pair(bits + 1));
            pairs.map(|(l, p)| path(LocatorPair::new(Locator(l), Locator(p)))).collect()
        };
        let peers = if flags >> 4 & 1 == 0 { PEER } else { &PEER[..1] };
        let entry = ContextEntry {
            id,
            ulids,
            local_tag: ContextTag::from_bits(tags % 8),
            peer_tag: ContextTag::from_bits(tags),
            current: path(LocatorPair::new(Locator(locators.0), Locator(locators.1))),
            peer_locators: peers.iter().copied().map(Locator).collect(),
            timers: (flags >> 5 & 1 == 0).then_some(timers),
            watch: u32::from(flags >> 6),
            idle: Duration::from_secs(5),
            suspects: more & 1 == 1,
            congestion: more >> 1 & 1 == 1,
            paths: pairs(more >> 3 & 3),
            spread: more >> 2 & 1 == 1,
        };
        // The core gives no tag to two contexts.
        if self.entries.values().any(|e| e.id != id && e.local_tag == entry.local_tag) {
            return;
        }
        self.plane.handle_update(&Update::Upsert(entry.clone()), self.now);
        self.entries.insert(id, entry);
    }

    fn update(&mut self, input: &mut Input<'_>) {
        let (kind, id) = (input.octet(), ContextId(u32::from(input.octet() % 5)));
        let ulids = UlidPair::new(Ulid(input.pick(LOCAL)), Ulid(input.pick(PEER)));
        let update = match kind % 3 {
            0 => Update::Heard { context: id, at: self.now },
            1 => Update::Rearm { ulids },
            _ => {
                self.entries.remove(&id);
                Update::Remove { context: id }
            }
        };
        self.plane.handle_update(&update, self.now);
    }

    fn send(&mut self, packet: Vec<u8>) {
        let mut after = packet.clone();
        match self.plane.handle_outbound(&mut after, self.now) {
            Outbound::Pass => assert_eq!(after, packet),
            Outbound::Drop(_) => {}
            Outbound::Send { source } => {
                assert_eq!(after.len(), packet.len() + overhead());
                assert_eq!((after[6], address(&after, 8)), (SHIM6, source));
                let entry = self.entries.values().find(|entry| {
                    let ulids = (entry.ulids.local.0, entry.ulids.peer.0);
                    let to =
                        LocatorPair::new(address(&after, 8).into(), address(&after, 24).into());
                    ulids == (address(&packet, 8), address(&packet, 24))
                        && entry.all_paths().any(|path| path.pair == to)
                        && tag(&after) == entry.peer_tag.bits()
                });
                assert!(entry.is_some(), "no context sends this: {after:02x?}");
                assert_eq!(after[48..], packet[40..]);
                self.rewritten += 1;
                self.last = after;
            }
        }
    }

    fn receive(&mut self, packet: Vec<u8>) {
        let mut after = packet.clone();
        match self.plane.handle_inbound(&mut after, self.now) {
            Inbound::Pass | Inbound::Up => assert_eq!(after, packet),
            Inbound::Drop(_) => {}
            Inbound::Deliver => {
                assert_eq!(after.len() + overhead(), packet.len());
                let to = address(&after, 24);
                assert!(self.entries.values().any(|entry| entry.ulids.local.0 == to));
                if packet[6] == SHIM6 {
                    let is_of = |entry: &ContextEntry| {
                        entry.local_tag.bits() == tag(&packet)
                            && entry.ulids.local.0 == to
                            && entry.ulids.peer.0 == address(&after, 8)
                            && entry.peer_locators.contains(&Locator(address(&packet, 8)))
                    };
                    assert!(self.entries.values().any(is_of), "for nobody: {packet:02x?}");
                    assert_eq!(after[40..], packet[48..]);
                }
                self.rewritten += 1;
            }
        }
    }

    fn time(&mut self, input: &mut Input<'_>) {
        self.now = self.now + Duration::from_millis(u64::from(input.word()));
        self.plane.handle_timeout(self.now);
        assert!(self.plane.poll_timeout().is_none_or(|at| at > self.now), "a timeout in the past");
    }

    fn locals(&mut self, input: &mut Input<'_>) {
        let (mtu, local) = (usize::from(input.word()), Locator(input.pick(LOCAL)));
        match input.octet() % 2 {
            0 => self.plane.set_local_with_mtu(local, mtu),
            _ => self.plane.unset_local(local),
        }
    }

    /// The last one sent comes back as if the peer had sent it, with a tag of ours and one octet changed.
    fn return_last(&mut self, input: &mut Input<'_>) {
        let mut packet = self.last.clone();
        if packet.len() < 48 {
            return;
        }
        let (local, peer) = (address(&packet, 8), address(&packet, 24));
        packet[8..24].copy_from_slice(&peer.octets());
        packet[24..40].copy_from_slice(&local.octets());
        packet[42..48].copy_from_slice(&[0x80, 0, 0, 0, 0, input.octet()]);
        change(&mut packet, input);
        self.receive(packet);
    }

    /// An ICMPv6 error quotes the last one sent, or some of it, with one octet changed.
    fn complain(&mut self, input: &mut Input<'_>) {
        let (kind, code, info) = (input.octet() % 6, input.octet(), input.word());
        let quoted = usize::from(input.word()) % 1300;
        let to = if self.last.len() < 40 { LOCAL[0] } else { address(&self.last, 8) };
        let mut message = vec![kind, code, 0, 0, 0, 0];
        message.extend(info.to_be_bytes());
        message.extend(self.last.iter().take(quoted));
        change(&mut message, input);
        let packet = ip6::packet(ip6::ICMPV6, ROUTER, to, &message);
        self.receive(packet);
    }
}

fn packet(input: &mut Input<'_>, from: &[Ipv6Addr], to: &[Ipv6Addr]) -> Vec<u8> {
    let (source, destination) = (input.pick(from), input.pick(to));
    let (next_header, len) = (input.octet(), input.octet());
    ip6::packet(next_header, source, destination, input.take(len.into()))
}

fn change(packet: &mut [u8], input: &mut Input<'_>) {
    let at = usize::from(input.word()) % packet.len();
    packet[at] ^= input.octet();
}

fn address(packet: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = std::array::from_fn(|i| packet[at + i]);
    octets.into()
}

fn overhead() -> usize {
    Encapsulation::PayloadHeader.overhead().into()
}

/// Of a payload header behind the IPv6 header.
fn tag(packet: &[u8]) -> u64 {
    let word: [u8; 8] = std::array::from_fn(|i| packet[40 + i]);
    u64::from_be_bytes(word) & ((1 << 47) - 1)
}

const LOCAL: &[Ipv6Addr] = &[
    Ipv6Addr::new(0x2001, 0xdb8, 1, 1, 0, 0, 0, 0xa),
    Ipv6Addr::new(0x2001, 0xdb8, 2, 1, 0, 0, 0, 0xa),
];
const PEER: &[Ipv6Addr] = &[
    Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, 0xb),
    Ipv6Addr::new(0x2001, 0xdb8, 2, 2, 0, 0, 0, 0xb),
];
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const SHIM6: u8 = 140;
/// More than any step brings.
const MAX_POLLED: usize = 10_000;
