//! Contexts and their packets.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_datapath::shim6::{ContextEntry, ReapTimers, Update};
use moorline_plane::shim6::{Plane, Settings};
use moorline_types::{
    ContextId, ContextTag, Encapsulation, Locator, LocatorPair, Path, Ulid, UlidPair,
};
use moorline_wire::ip6;

use super::{World, address};
use crate::input::Input;

pub(super) fn plane() -> Plane {
    let mut plane = Plane::new(Settings { max_flows: 8, ..Settings::default() });
    LOCAL.iter().for_each(|local| plane.set_local(Locator(*local)));
    plane
}

impl World {
    pub(super) fn upsert_context(&mut self, input: &mut Input<'_>) {
        let id = ContextId(u32::from(input.octet() % 4));
        let (tags, flags) = (u64::from(input.octet()), input.octet());
        let pair = |bits: u8| {
            let (local, peer) = (LOCAL[usize::from(bits & 1)], PEER[usize::from(bits >> 1 & 1)]);
            LocatorPair::new(Locator(local), Locator(peer))
        };
        let timers = ReapTimers {
            send: Duration::from_millis(u64::from(input.octet()) * 10),
            keepalive_interval: Duration::from_millis(u64::from(input.octet()) * 10),
            keepalive_timeout: Duration::from_millis(u64::from(input.octet()) * 30),
        };
        let more = input.octet();
        let ulids = UlidPair::new(pair(flags).local.as_ulid(), pair(flags).peer.as_ulid());
        let peers = if flags >> 4 & 1 == 0 { PEER } else { &PEER[..1] };
        let paths = 0..(more >> 3 & 3);
        let entry = ContextEntry {
            id,
            ulids,
            local_tag: ContextTag::from_bits(tags % 8),
            peer_tag: ContextTag::from_bits(tags),
            current: Path::of(ulids, pair(flags >> 2)),
            peer_locators: peers.iter().copied().map(Locator).collect(),
            timers: (flags >> 5 & 1 == 0).then_some(timers),
            watch: u32::from(flags >> 6),
            idle: Duration::from_secs(5),
            suspects: more & 1 == 1,
            congestion: more >> 1 & 1 == 1,
            paths: paths.map(|bits| Path::of(ulids, pair(bits + 1))).collect(),
            spread: more >> 2 & 1 == 1,
        };
        // The core never gives one tag to two contexts.
        if self.contexts.values().any(|e| e.id != id && e.local_tag == entry.local_tag) {
            return;
        }
        self.planes.shim6.handle_update(&Update::Upsert(entry.clone()), self.now);
        self.contexts.insert(id, entry);
    }

    pub(super) fn update_contexts(&mut self, input: &mut Input<'_>) {
        let (kind, id) = (input.octet(), ContextId(u32::from(input.octet() % 5)));
        let ulids = UlidPair::new(Ulid(input.pick(LOCAL)), Ulid(input.pick(PEER)));
        let update = match kind % 3 {
            0 => Update::Heard { context: id, at: self.now },
            1 => Update::Rearm { ulids },
            _ => {
                self.contexts.remove(&id);
                Update::Remove { context: id }
            }
        };
        self.planes.shim6.handle_update(&update, self.now);
    }

    pub(super) fn check_sent_by_context(&mut self, packet: &[u8], after: Vec<u8>) {
        assert_eq!((after.len(), after[6]), (packet.len() + overhead(), SHIM6));
        let to = LocatorPair::new(address(&after, 8).into(), address(&after, 24).into());
        let is_of = |entry: &ContextEntry| {
            (entry.ulids.local.0, entry.ulids.peer.0) == (address(packet, 8), address(packet, 24))
                && entry.all_paths().any(|path| path.pair == to)
                && tag(&after) == entry.peer_tag.bits()
        };
        assert!(self.contexts.values().any(is_of), "no context sends this: {after:02x?}");
        assert_eq!(after[48..], packet[40..]);
        self.last = after;
    }

    pub(super) fn check_delivered_by_context(&self, packet: &[u8], after: &[u8]) {
        assert_eq!(after.len() + overhead(), packet.len());
        let to = address(after, 24);
        assert!(self.contexts.values().any(|entry| entry.ulids.local.0 == to));
        if packet[6] == SHIM6 {
            let is_of = |entry: &ContextEntry| {
                entry.local_tag.bits() == tag(packet)
                    && entry.ulids.local.0 == to
                    && entry.ulids.peer.0 == address(after, 8)
                    && entry.peer_locators.contains(&Locator(address(packet, 8)))
            };
            assert!(self.contexts.values().any(is_of), "for nobody: {packet:02x?}");
            assert_eq!(after[40..], packet[48..]);
        }
    }

    /// Returns the last packet as if the peer had sent it, with one of our tags and one octet changed.
    pub(super) fn return_last(&mut self, input: &mut Input<'_>) {
        let mut packet = self.last.clone();
        if packet.is_empty() {
            return;
        }
        packet[8..40].rotate_left(16);
        packet[42..48].copy_from_slice(&[0x80, 0, 0, 0, 0, input.octet()]);
        change(&mut packet, input);
        self.receive(&packet);
    }

    /// Delivers an ICMPv6 error that quotes the last packet, or a part of it, with one octet changed.
    pub(super) fn complain(&mut self, input: &mut Input<'_>) {
        let (kind, code, info) = (input.octet() % 6, input.octet(), input.word());
        let quoted = usize::from(input.word()) % 1300;
        let to = if self.last.is_empty() { LOCAL[0] } else { address(&self.last, 8) };
        let mut message = vec![kind, code, 0, 0, 0, 0];
        message.extend(info.to_be_bytes());
        message.extend(self.last.iter().take(quoted));
        change(&mut message, input);
        self.receive(&ip6::packet(ip6::ICMPV6, ROUTER, to, &message));
    }
}

pub(super) fn packet(input: &mut Input<'_>, from: &[Ipv6Addr], to: &[Ipv6Addr]) -> Vec<u8> {
    let (source, destination) = (input.pick(from), input.pick(to));
    let (next_header, len) = (input.octet(), input.octet());
    ip6::packet(next_header, source, destination, input.take(len.into()))
}

fn change(packet: &mut [u8], input: &mut Input<'_>) {
    let at = usize::from(input.word()) % packet.len();
    packet[at] ^= input.octet();
}

fn overhead() -> usize {
    Encapsulation::PayloadHeader.overhead().into()
}

/// The tag of a payload header behind the IPv6 header.
fn tag(packet: &[u8]) -> u64 {
    let word: [u8; 8] = std::array::from_fn(|i| packet[40 + i]);
    u64::from_be_bytes(word) & ((1 << 47) - 1)
}

pub(super) const LOCAL: &[Ipv6Addr] = &[
    Ipv6Addr::new(0x2001, 0xdb8, 1, 1, 0, 0, 0, 0xa),
    Ipv6Addr::new(0x2001, 0xdb8, 2, 1, 0, 0, 0, 0xa),
];
pub(super) const PEER: &[Ipv6Addr] = &[
    Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, 0xb),
    Ipv6Addr::new(0x2001, 0xdb8, 2, 2, 0, 0, 0, 0xb),
];
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const SHIM6: u8 = 140;
