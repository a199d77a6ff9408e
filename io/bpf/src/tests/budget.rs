//! Messages for the core beyond their budgets: the eBPF programs and `proto/plane` drop the same ones.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::{ContextEntry, Triggers, Update};
use moorline_plane::Inbound;
use moorline_plane::shim6::Plane;
use moorline_types::{ContextId, ContextTag, DropReason, Instant, Locator, Path, Ulid, UlidPair};

use super::both::Random;
use super::can_run;
use super::harness::Harness;

const LOCAL: &str = "2001:db8:a::1";
/// Another address of this host.
const OTHER_LOCAL: &str = "2001:db8:b::1";
const PEER: &str = "2001:db8:c::1";
/// A locator of the peers of both contexts that is no ULID.
const ELSEWHERE: &str = "2001:db8:d::1";
const STRANGER: &str = "2001:db8:e::1";
const TAG: u64 = 0x5a5a_0000_0001;
const OTHER_TAG: u64 = 0x5a5a_0000_0002;

struct Both {
    kernel: Harness,
    user: Plane,
    now: u64,
}

impl Both {
    fn new() -> Self {
        let mut kernel = Harness::new(&Triggers::default());
        kernel.clear(&Triggers::default());
        let mut user = Plane::new(moorline_plane::shim6::Settings::default());
        for local in [LOCAL, OTHER_LOCAL].map(address) {
            kernel.set_local(local);
            user.set_local(Locator(local));
        }
        let mut both = Self { kernel, user, now: 0 };
        both.pass(1_000_000_000);
        for (id, tag) in [(0, TAG), (1, OTHER_TAG)] {
            let update = Update::Upsert(entry(id, tag));
            both.kernel.apply(&update);
            both.user.handle_update(&update, Instant::from_nanos(both.now));
        }
        both
    }

    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        self.kernel.set_now(self.now);
    }

    /// Gives how many of these packets pass at once, in both planes.
    fn passed(&mut self, packet: &[u8], count: u32) -> u32 {
        (0..count).map(|_| u32::from(self.is_taken(packet))).sum()
    }

    fn is_taken(&mut self, packet: &[u8]) -> bool {
        let now = Instant::from_nanos(self.now);
        let fate = self.user.handle_inbound(&mut packet.to_vec(), now);
        let action = self.kernel.run("uplink_ingress", packet, 0).action;
        let is_dropped = matches!(fate, Inbound::Drop(_));
        assert_eq!(action, if is_dropped { 2 } else { -1 }, "{fate:?}: {}", hex::encode(packet));
        fate != Inbound::Drop(DropReason::RateLimited)
    }

    fn send(&mut self, packet: &[u8]) {
        let now = Instant::from_nanos(self.now);
        self.user.handle_outbound(&mut packet.to_vec(), now);
        assert_eq!(self.kernel.run("uplink_egress", packet, 0).action, -1);
    }

    fn receive(&mut self, packet: &[u8]) {
        let now = Instant::from_nanos(self.now);
        self.user.handle_inbound(&mut packet.to_vec(), now);
        assert_eq!(self.kernel.run("uplink_ingress", packet, 0).action, -1);
    }

    fn rate_limited(&mut self) -> u64 {
        let drops = self.kernel.plane.drops().unwrap();
        let Ok(in_user) = moorline_datapath::Plane::drops(&self.user);
        assert_eq!(drops, in_user);
        drops.iter().find(|(reason, _)| *reason == DropReason::RateLimited).map_or(0, |drop| drop.1)
    }
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn entry(id: u32, tag: u64) -> ContextEntry {
    let peer = Ipv6Addr::from_bits(address(PEER).to_bits() + u128::from(id));
    let ulids = UlidPair::new(Ulid(address(LOCAL)), Ulid(peer));
    ContextEntry {
        id: ContextId(id),
        ulids,
        local_tag: ContextTag::from_bits(tag),
        peer_tag: ContextTag::from_bits(tag + 99),
        current: Path::of(ulids, ulids.as_locators()),
        peer_locators: [PEER, ELSEWHERE]
            .map(|text| Locator(address(text)))
            .into_iter()
            .chain([Locator(peer)])
            .collect(),
        timers: None,
        watch: 0,
        idle: Duration::ZERO,
        suspects: false,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    }
}

/// A message behind such a chain of extension headers.
fn message(chain: &[u8], source: &str, octet: u8, tag: u64) -> Vec<u8> {
    let mut message = vec![59, 1, octet, 0, 0, 0];
    message.extend(ContextTag::from_bits(tag).octets());
    message.extend([0; 4]);
    if octet >= 128 {
        let tag = ContextTag::from_bits(tag).octets();
        message[..2].copy_from_slice(&[59, 0]);
        message[2..8].copy_from_slice(&tag);
        message[2] |= 0x80;
    }
    let mut kinds: Vec<u8> = chain.to_vec();
    kinds.push(140);
    let headers = kinds[1..].iter().flat_map(|&next| [next, 0, 0, 0, 0, 0, 0, 0]);
    let payload: Vec<u8> = headers.chain(message).collect();
    let mut packet = vec![0x60, 0, 0, 0, 0, u8::try_from(payload.len()).unwrap(), kinds[0], 64];
    packet.extend(address(source).octets());
    packet.extend(address(LOCAL).octets());
    packet.extend(payload);
    packet
}

#[test]
fn a_flood_of_strangers_leaves_contexts_their_budgets() {
    if !can_run("a_flood_of_strangers_leaves_contexts_their_budgets") {
        return;
    }
    let mut both = Both::new();
    assert_eq!(both.passed(&message(&[], STRANGER, 66, 5), 2500), 1000);
    assert_eq!(both.rate_limited(), 1500);
    let strangers = [
        message(&[], ELSEWHERE, 1, TAG),
        message(&[], STRANGER, 68, TAG),
        message(&[60], ELSEWHERE, 66, TAG),
        message(&[0, 60, 43, 60], ELSEWHERE, 66, TAG),
        message(&[60; 6], ELSEWHERE, 66, TAG),
        message(&[44], ELSEWHERE, 66, TAG),
    ];
    for packet in &strangers {
        assert!(!both.is_taken(packet), "{}", hex::encode(packet));
    }
    // Payload with an unknown tag has a budget of its own.
    let unknown = message(&[], STRANGER, 0x80, 5);
    assert_eq!(both.passed(&unknown, 500), 400);
    // Payload behind an extension header, and payload of the context, are no messages.
    let mut payload = message(&[60], PEER, 66, TAG);
    payload[40] = 17;
    assert!(both.is_taken(&payload));
    assert!(both.is_taken(&message(&[], PEER, 0x80, TAG)));
    // A context beyond its budget takes nothing of that of another context.
    assert_eq!(both.passed(&message(&[], ELSEWHERE, 68, TAG), 1500), 1000);
    assert_eq!(both.passed(&message(&[], PEER, 64, OTHER_TAG), 10), 10);
    // The shared budget has 1,400 messages, and room for strangers below 1,000.
    both.pass(26_000_000);
    assert_eq!(both.passed(&message(&[], STRANGER, 66, 5), 100), 16);
    assert_eq!(both.passed(&message(&[], ELSEWHERE, 68, TAG), 100), 26);
    assert_eq!(both.passed(&unknown, 200), 104);
}

/// Messages of a context come by any pair of the locators of both ends, whichever pair payload takes.
#[test]
fn in_a_flood_of_made_up_tags_a_context_has_its_budget_by_every_pair() {
    if !can_run("in_a_flood_of_made_up_tags_a_context_has_its_budget_by_every_pair") {
        return;
    }
    let mut both = Both::new();
    for octet in 64..128 {
        both.passed(&message(&[], STRANGER, octet, 5), 40);
    }
    assert!(!both.is_taken(&message(&[], ELSEWHERE, 67, 5)), "the budget of strangers is used up");
    for (from, to) in
        [PEER, ELSEWHERE].into_iter().flat_map(|from| [(from, LOCAL), (from, OTHER_LOCAL)])
    {
        let mut probe = message(&[], from, 67, TAG);
        probe[24..40].copy_from_slice(&address(to).octets());
        assert_eq!(both.passed(&probe, 100), 100, "{from} to {to}");
    }
}

/// A connection to a peer, and datagrams to another one, have begun during the flood.
#[test]
fn handshakes_of_peers_with_traffic_both_ways_pass_in_a_flood_of_strangers() {
    if !can_run("handshakes_of_peers_with_traffic_both_ways_pass_in_a_flood_of_strangers") {
        return;
    }
    let mut both = Both::new();
    let [with_datagrams, with_connection] = ["2001:db8:c:1::1", "2001:db8:c:2::1"];
    let i1 = |source| message(&[], source, 1, 0);
    assert_eq!(both.passed(&i1(STRANGER), 1500), 1000);
    for peer in [with_datagrams, with_connection] {
        assert!(!both.is_taken(&i1(peer)), "nothing is known of {peer}");
    }
    both.send(&payload([LOCAL, with_datagrams], 17, &[0; 16]));
    let (syn, syn_ack, ack) = (2, 0x12, 0x10);
    both.receive(&payload([with_connection, LOCAL], 6, &segment([9, 5], [70, 0], syn)));
    both.send(&payload([LOCAL, with_connection], 6, &segment([5, 9], [500, 71], syn_ack)));
    both.receive(&payload([with_connection, LOCAL], 6, &segment([9, 5], [71, 501], ack)));
    assert_eq!(both.passed(&i1(with_datagrams), 200), 100);
    assert_eq!(both.passed(&i1(with_connection), 200), 100);
    assert_eq!(both.passed(&i1(PEER), 200), 100, "the peer of a context");
    assert_eq!(both.passed(&i1(STRANGER), 10), 0);
}

fn payload(ends: [&str; 2], protocol: u8, octets: &[u8]) -> Vec<u8> {
    let length = u8::try_from(octets.len()).unwrap();
    let mut packet = vec![0x60, 0, 0, 0, 0, length, protocol, 64];
    ends.into_iter().for_each(|end| packet.extend(address(end).octets()));
    packet.extend(octets);
    packet
}

/// A TCP segment without data.
fn segment(ports: [u16; 2], numbers: [u32; 2], flags: u8) -> Vec<u8> {
    let ports = ports.into_iter().flat_map(u16::to_be_bytes);
    let numbers = numbers.into_iter().flat_map(u32::to_be_bytes);
    ports.chain(numbers).chain([5 << 4, flags, 0, 0, 0, 0, 0, 0]).collect()
}

#[test]
fn a_flood_of_payload_with_made_up_tags_leaves_strangers_their_budget() {
    if !can_run("a_flood_of_payload_with_made_up_tags_leaves_strangers_their_budget") {
        return;
    }
    let mut both = Both::new();
    let payload = message(&[], STRANGER, 0x80, 5);
    assert_eq!(both.passed(&payload, 2500), 400);
    let i2bis = message(&[], PEER, 6, 0);
    assert_eq!(both.passed(&i2bis, 100), 100);
}

/// A message that the shared budget has no room for leaves the budgets of its prefix and of unknown tags whole.
#[test]
fn a_dropped_message_takes_from_no_budget() {
    if !can_run("a_dropped_message_takes_from_no_budget") {
        return;
    }
    let mut both = Both::new();
    let peers: Vec<_> = (1..=6).map(|n| format!("2001:db8:c:{n}::1")).collect();
    peers.iter().for_each(|peer| both.send(&payload([LOCAL, peer], 17, &[0; 16])));
    let i1 = |source: &str| message(&[], source, 1, 0);
    let unknown = message(&[], STRANGER, 0x80, 5);
    assert_eq!(both.passed(&i1(STRANGER), 1000), 1000);
    for peer in &peers[..5] {
        assert_eq!(both.passed(&i1(peer), 100), 100);
    }
    assert_eq!(both.passed(&i1(&peers[5]), 200), 0);
    assert_eq!(both.passed(&unknown, 500), 0);
    // The shared budget has room for 500 more, and those of the prefix and of unknown tags gain 3 and 125.
    both.pass(500 * 62_500);
    assert_eq!(both.passed(&i1(&peers[5]), 200), 100);
    assert_eq!(both.passed(&unknown, 500), 400);
}

#[test]
fn both_planes_take_the_same_of_random_messages() {
    if !can_run("both_planes_take_the_same_of_random_messages") {
        return;
    }
    let mut both = Both::new();
    let mut random = Random(5);
    both.passed(&message(&[], STRANGER, 66, 5), 2000);
    both.passed(&message(&[], PEER, 66, TAG), 1000);
    let mut taken = 0;
    for _ in 0..3000 {
        let step = random.below(20_000);
        both.pass(step);
        let chain: &[u8] = random.of(&[&[][..], &[], &[], &[60], &[0, 44], &[60; 5]]);
        let source = random.of(&[PEER, STRANGER]);
        let octet = random.octet();
        let tag = random.of(&[TAG, TAG, OTHER_TAG, 7]);
        let mut packet = message(chain, source, octet, tag);
        if random.one_in(8) {
            // A message without a whole tag.
            packet.truncate(40 + 8 * chain.len() + 8);
            packet[5] -= 8;
        }
        taken += u32::from(both.is_taken(&packet));
    }
    let limited = both.rate_limited();
    assert!(taken > 500 && limited > 500, "{taken} taken, {limited} dropped");
}
