use super::*;
use alloc::sync::Arc;
use alloc::vec;
use core::time::Duration;
use moorline_datapath::shim6::{ContextEntry, ReapTimers};
use moorline_types::{ContextTag, LocatorPair, Path, Ulid, UlidPair};
use proptest::prelude::*;

const OURS: [&str; 2] = ["2001:db8:a::1", "2001:db8:b::1"];
const PEERS: [&str; 2] = ["2001:db8:c::1", "2001:db8:d::1"];

fn locator(text: &str) -> Locator {
    Locator(text.parse().unwrap())
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn packet(next_header: u8, source: &str, destination: &str, len: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next_header, 64];
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet.extend(locator(source).octets());
    packet.extend(locator(destination).octets());
    packet.extend((0..len).map(|n| n.to_be_bytes()[1]));
    packet
}

fn entry(id: u32) -> ContextEntry {
    let [a, _] = OURS.map(locator);
    let [c, d] = PEERS.map(locator);
    let ulids = UlidPair::new(a.as_ulid(), c.as_ulid());
    ContextEntry {
        id: ContextId(id),
        ulids,
        local_tag: ContextTag::from_bits(0x0123_4567_89ab),
        peer_tag: ContextTag::from_bits(0x7edc_ba98_7654),
        current: Path::of(ulids, ulids.as_locators()),
        peer_locators: vec![d, c].into(),
        timers: Some(ReapTimers {
            send: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(3),
            keepalive_timeout: Duration::from_secs(10),
        }),
        watch: 0,
        idle: Duration::ZERO,
        suspects: false,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    }
}

fn moved(id: u32) -> ContextEntry {
    let entry = entry(id);
    let pair = LocatorPair::new(locator(OURS[1]), locator(PEERS[1]));
    ContextEntry { current: Path::of(entry.ulids, pair), ..entry }
}

fn plane(entry: Option<ContextEntry>) -> Plane {
    let mut plane = Plane::new(Settings::default());
    for ours in OURS {
        plane.set_local(locator(ours));
    }
    if let Some(entry) = entry {
        plane.handle_update(&Update::Upsert(entry), at(1));
    }
    plane
}

fn reports(plane: &mut Plane) -> Vec<Report> {
    core::iter::from_fn(|| plane.poll_report()).collect()
}

//= rfc5533#11 rfc5533#12.1 (test)
#[test]
fn unmoved_payload_carries_not_one_extra_octet() {
    let mut plane = plane(Some(entry(3)));
    let mut out = packet(6, OURS[0], PEERS[0], 100);
    assert_eq!(plane.handle_outbound(&mut out, at(2)), Outbound::Pass);
    assert_eq!(out, packet(6, OURS[0], PEERS[0], 100));
    let mut back = packet(6, PEERS[0], OURS[0], 60);
    assert_eq!(plane.handle_inbound(&mut back, at(3)), Inbound::Pass);
    assert_eq!(back, packet(6, PEERS[0], OURS[0], 60));
    let expected = ContextCounters {
        tx_packets: 1,
        tx_bytes: 140,
        rx_packets: 1,
        rx_bytes: 100,
        last_tx: at(2),
        last_rx: at(3),
    };
    assert_eq!(plane.counters(ContextId(3)), Some(expected));
}

//= rfc5533#11.1 (test)
#[test]
fn moved_payload_takes_the_locators_and_the_tag() {
    let mut plane = plane(Some(moved(3)));
    let mut out = packet(17, OURS[0], PEERS[0], 100);
    let source = locator(OURS[1]).0;
    assert_eq!(plane.handle_outbound(&mut out, at(2)), Outbound::Send { source });
    let mut golden = packet(140, OURS[1], PEERS[1], 108);
    golden.truncate(40);
    // Payload header: Next Header UDP, length 0, P bit, tag 7edcba987654.
    golden.extend([17, 0, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54]);
    golden.extend(&packet(17, OURS[0], PEERS[0], 100)[40..]);
    assert_eq!(out, golden);
    assert_eq!(plane.counters(ContextId(3)).unwrap().tx_bytes, 140);
}

//= rfc5533#12.2 rfc5533#12.4 (test)
#[test]
fn payload_from_a_peer_locator_is_delivered_with_ulids() {
    for context in [entry(3), moved(3)] {
        let mut plane = plane(Some(context));
        let mut inbound = packet(140, PEERS[1], OURS[1], 50);
        inbound[40..48].copy_from_slice(&[6, 0, 0x81, 0x23, 0x45, 0x67, 0x89, 0xab]);
        let rest = inbound[48..].to_vec();
        assert_eq!(plane.handle_inbound(&mut inbound, at(2)), Inbound::Deliver);
        let mut golden = packet(6, PEERS[0], OURS[0], 42);
        golden.truncate(40);
        golden.extend(rest);
        assert_eq!(inbound, golden);
        assert_eq!(plane.counters(ContextId(3)).unwrap().rx_bytes, 82);
    }
}

#[test]
fn what_is_not_ours_to_strip_goes_up_or_away() {
    let header = [6, 0, 0x81, 0x23, 0x45, 0x67, 0x89, 0xab];
    let with = |change: fn(&mut Vec<u8>)| {
        let mut inbound = packet(140, PEERS[1], OURS[1], 50);
        inbound[40..48].copy_from_slice(&header);
        change(&mut inbound);
        inbound
    };
    let (wrong, truncated) = (DropReason::WrongLocators, DropReason::Truncated);
    let cases: [(Vec<u8>, Inbound); 8] = [
        (with(|p| p[42] &= 0x7f), Inbound::Up),
        (with(|p| p[47] ^= 1), Inbound::Up),
        (with(|p| p[41] = 1), Inbound::Drop(DropReason::BadLength)),
        (with(|p| p.truncate(47)), Inbound::Drop(truncated)),
        (with(|p| p[4..6].copy_from_slice(&[0, 7])), Inbound::Drop(truncated)),
        (with(|p| p[23] = 9), Inbound::Drop(wrong)),
        (with(|p| p[39] = 9), Inbound::Drop(wrong)),
        (with(|p| p[24] = 0xff), Inbound::Pass),
    ];
    for (index, (inbound, verdict)) in cases.into_iter().enumerate() {
        let mut plane = plane(Some(entry(3)));
        let mut bytes = inbound.clone();
        assert_eq!(plane.handle_inbound(&mut bytes, at(2)), verdict, "case {index}");
        assert_eq!(bytes, inbound, "case {index}");
        assert_eq!(plane.counters(ContextId(3)).unwrap().rx_packets, 0, "case {index}");
        let drops: u64 = plane.drops().iter().map(|(_, n)| n).sum();
        assert_eq!(drops, u64::from(matches!(verdict, Inbound::Drop(_))), "case {index}");
    }
}

#[test]
fn outbound_payload_that_cannot_be_moved_is_dropped_uncounted() {
    let cases: [(Vec<u8>, DropReason); 4] = [
        (packet(0, OURS[0], PEERS[0], 16), DropReason::HeaderChain),
        (packet(43, OURS[0], PEERS[0], 16), DropReason::HeaderChain),
        (packet(6, OURS[0], PEERS[0], 1500 - 47), DropReason::AdjustRoom),
        (packet(6, OURS[0], PEERS[0], 65_535), DropReason::AdjustRoom),
    ];
    for (bytes, reason) in cases {
        let mut plane = plane(Some(moved(3)));
        let mut out = bytes.clone();
        assert_eq!(plane.handle_outbound(&mut out, at(2)), Outbound::Drop(reason));
        assert_eq!((plane.drops().of(reason), out), (1, bytes));
        assert_eq!(plane.counters(ContextId(3)), Some(ContextCounters::default()));
        assert_eq!(plane.poll_timeout(), None);
    }
    let mut plane = plane(Some(moved(3)));
    let mut fits = packet(6, OURS[0], PEERS[0], 1500 - 48);
    assert!(matches!(plane.handle_outbound(&mut fits, at(2)), Outbound::Send { .. }));
    plane.unset_local(locator(OURS[1]));
    let mut out = packet(6, OURS[0], PEERS[0], 100);
    assert_eq!(plane.handle_outbound(&mut out, at(3)), Outbound::Drop(DropReason::NoUplink));
}

#[test]
fn a_moved_context_carries_echo_and_fragments_but_no_neighbour_discovery() {
    for (next_header, first) in [(58, 128), (58, 1), (44, 6), (60, 6)] {
        let mut plane = plane(Some(moved(3)));
        let mut out = packet(next_header, OURS[0], PEERS[0], 32);
        out[40] = first;
        assert!(matches!(plane.handle_outbound(&mut out, at(2)), Outbound::Send { .. }));
        assert_eq!(out[40], next_header);
    }
    for kind in 133..=137 {
        let mut plane = plane(Some(moved(3)));
        let mut out = packet(58, OURS[0], PEERS[0], 32);
        out[40] = kind;
        assert_eq!(plane.handle_outbound(&mut out, at(2)), Outbound::Pass);
        assert_eq!(plane.counters(ContextId(3)), Some(ContextCounters::default()));
    }
}

#[test]
fn traffic_of_our_addresses_triggers_and_others_does_not() {
    let mut plane = plane(None);
    let trigger = Report::Trigger {
        ulids: UlidPair::new(Ulid(OURS[0].parse().unwrap()), Ulid(PEERS[0].parse().unwrap())),
    };
    let mut out = packet(17, OURS[0], PEERS[0], 1000);
    assert_eq!(plane.handle_outbound(&mut out, at(1)), Outbound::Pass);
    assert_eq!(reports(&mut plane), []);
    // Both directions count together.
    let mut back = packet(17, PEERS[0], OURS[0], 968);
    assert_eq!(plane.handle_inbound(&mut back, at(2)), Inbound::Pass);
    assert_eq!(reports(&mut plane), [trigger]);
    plane.handle_outbound(&mut out, at(3));
    assert_eq!(reports(&mut plane), []);
    let Report::Trigger { ulids } = trigger else { unreachable!() };
    plane.handle_update(&Update::Rearm { ulids }, at(4));
    plane.handle_outbound(&mut out, at(5));
    plane.handle_outbound(&mut out, at(6));
    assert_eq!(reports(&mut plane), [trigger]);
    // A foreign address, a multicast address, a protocol other than a transport.
    for (next_header, source, destination) in [
        (17, "2001:db8:e::1", PEERS[0]),
        (17, OURS[1], "ff0e::1"),
        (17, OURS[1], "fe80::1"),
        (58, OURS[1], PEERS[1]),
    ] {
        let mut out = packet(next_header, source, destination, 4000);
        assert_eq!(plane.handle_outbound(&mut out, at(7)), Outbound::Pass);
        assert_eq!(reports(&mut plane), []);
    }
}

/// The daemon hears of an address after the kernel has it, and connections use it meanwhile.
#[test]
fn traffic_of_an_address_that_becomes_ours_triggers() {
    let mut plane = plane(None);
    plane.unset_local(locator(OURS[0]));
    let ulids = UlidPair::new(locator(OURS[0]).as_ulid(), locator(PEERS[0]).as_ulid());
    let mut out = packet(17, OURS[0], PEERS[0], 4000);
    for millis in 1..5 {
        plane.handle_outbound(&mut out, at(millis));
    }
    assert_eq!(reports(&mut plane), []);
    plane.set_local(locator(OURS[0]));
    plane.handle_outbound(&mut out, at(5));
    assert_eq!(reports(&mut plane), [Report::Trigger { ulids }]);
}

//= rfc5533#4.2 (test)
#[test]
fn of_two_contexts_the_last_sends_and_both_receive() {
    let mut plane = plane(None);
    let fork = ContextEntry { local_tag: ContextTag::from_bits(5), ..entry(4) };
    for entry in [fork.clone(), moved(3), ContextEntry { watch: 1, ..fork }] {
        plane.handle_update(&Update::Upsert(entry), at(1));
    }
    let mut out = packet(17, OURS[0], PEERS[0], 100);
    let source = locator(OURS[1]).0;
    assert_eq!(
        plane.handle_outbound(&mut out, at(2)),
        Outbound::Send { source },
        "not as the fork"
    );
    let mut inbound = packet(140, PEERS[1], OURS[1], 50);
    inbound[40..48].copy_from_slice(&[6, 0, 0x80, 0, 0, 0, 0, 5]);
    assert_eq!(plane.handle_inbound(&mut inbound, at(3)), Inbound::Deliver);
    assert_eq!(inbound[8..40], packet(6, PEERS[0], OURS[0], 0)[8..40], "with the ULIDs");
    assert_eq!(plane.counters(ContextId(4)).unwrap().rx_packets, 1);
    plane.handle_update(&Update::Remove { context: ContextId(4) }, at(4));
    let mut out = packet(17, OURS[0], PEERS[0], 100);
    assert_eq!(plane.handle_outbound(&mut out, at(5)), Outbound::Send { source });
}

#[test]
fn a_slot_with_other_ulids_is_another_context() {
    let mut plane = plane(Some(entry(3)));
    plane.handle_outbound(&mut packet(6, OURS[0], PEERS[0], 100), at(2));
    let ulids = UlidPair::new(locator(OURS[1]).as_ulid(), locator(PEERS[1]).as_ulid());
    let current = Path::of(ulids, ulids.as_locators());
    let other = ContextEntry { ulids, current, ..entry(3) };
    plane.handle_update(&Update::Upsert(other), at(3));
    assert_eq!(plane.counters(ContextId(3)), Some(ContextCounters::default()));
    plane.handle_timeout(at(20_000));
    assert_eq!(reports(&mut plane), []);
    // The old pair is plain traffic again.
    plane.handle_outbound(&mut packet(17, OURS[0], PEERS[0], 3000), at(20_001));
    assert!(matches!(reports(&mut plane)[..], [Report::Trigger { .. }]));
}

#[test]
fn a_new_tag_takes_the_place_of_the_old_one() {
    let mut plane = plane(Some(entry(3)));
    let renewed = ContextEntry { local_tag: ContextTag::from_bits(9), ..entry(3) };
    plane.handle_update(&Update::Upsert(renewed), at(2));
    for (tag, verdict) in [(9, Inbound::Deliver), (0xab, Inbound::Up)] {
        let mut inbound = packet(140, PEERS[1], OURS[1], 50);
        let upper =
            if tag == 9 { [6, 0, 0x80, 0, 0, 0, 0] } else { [6, 0, 0x81, 0x23, 0x45, 0x67, 0x89] };
        inbound[40..47].copy_from_slice(&upper);
        inbound[47] = tag;
        assert_eq!(plane.handle_inbound(&mut inbound, at(3)), verdict);
    }
    plane.handle_update(&Update::Remove { context: ContextId(3) }, at(4));
    let mut inbound = packet(140, PEERS[1], OURS[1], 50);
    inbound[40..48].copy_from_slice(&[6, 0, 0x80, 0, 0, 0, 0, 9]);
    assert_eq!(plane.handle_inbound(&mut inbound, at(5)), Inbound::Up);
}

/// In Exploring the core takes hints away and leaves the Send Timer. The silence of that time is no usual wait.
#[test]
fn what_passes_while_hints_are_off_teaches_nothing_about_usual_waits() {
    let (on, off) = (ContextEntry { suspects: true, ..entry(3) }, entry(3));
    let mut plane = plane(Some(on.clone()));
    let [out, back] = [packet(17, OURS[0], PEERS[0], 100), packet(17, PEERS[0], OURS[0], 100)];
    let talk = |plane: &mut Plane, times: core::ops::Range<u64>| {
        for now in times.step_by(20) {
            plane.handle_outbound(&mut out.clone(), at(now));
            plane.handle_inbound(&mut back.clone(), at(now + 10));
        }
    };
    talk(&mut plane, 2..1_000);
    plane.handle_outbound(&mut out.clone(), at(1_002));
    plane.handle_update(&Update::Upsert(off), at(1_003));
    plane.handle_outbound(&mut out.clone(), at(4_000));
    plane.handle_update(&Update::Upsert(on), at(5_000));
    plane.handle_update(&Update::Heard { context: ContextId(3), at: at(4_000) }, at(5_000));
    talk(&mut plane, 5_002..5_500);
    plane.handle_outbound(&mut out.clone(), at(5_502));
    assert_eq!(reports(&mut plane), []);
    plane.handle_timeout(at(5_800));
    let told = reports(&mut plane);
    assert!(matches!(told[..], [Report::Suspected { .. }]), "{told:?}");
}

#[test]
fn deadlines_are_one_for_each_context_and_come_in_order_of_slots() {
    let mut plane = plane(None);
    for id in 0..50u32 {
        let peer = Locator(core::net::Ipv6Addr::from(0x2001_0db8_000f << 80 | u128::from(id)));
        let ulids = UlidPair::new(locator(OURS[0]).as_ulid(), peer.as_ulid());
        let context = ContextEntry {
            ulids,
            current: Path::of(ulids, ulids.as_locators()),
            local_tag: ContextTag::from_bits(u64::from(id)),
            idle: Duration::from_secs(300),
            suspects: false,
            congestion: false,
            paths: Arc::default(),
            spread: false,
            ..entry(id)
        };
        plane.handle_update(&Update::Upsert(context), at(1));
    }
    for round in 0..20 {
        for id in (0..50u16).rev() {
            let peer = std::format!("2001:db8:f::{id:x}");
            let now = at(2 + round * 100 + u64::from(id));
            plane.handle_outbound(&mut packet(6, OURS[0], &peer, 100), now);
        }
    }
    assert_eq!(plane.poll_timeout(), Some(at(10_002)));
    plane.handle_timeout(at(10_100));
    let ids: Vec<_> = reports(&mut plane)
        .iter()
        .map(|report| match report {
            Report::SendExpired { context, .. } => context.0,
            Report::Trigger { .. }
            | Report::KeepaliveDue { .. }
            | Report::Received { .. }
            | Report::Idle { .. }
            | Report::Suspected { .. }
            | Report::Congested { .. }
            | Report::NoRoom { .. } => panic!("{report:?}"),
        })
        .collect();
    assert_eq!(ids, (0..50).collect::<Vec<_>>());
    assert_eq!(plane.poll_timeout(), Some(at(1902) + Duration::from_secs(300)));
}

#[derive(Clone, Debug)]
enum Op {
    Out(usize, u16),
    In(usize, bool),
    Upsert(u32, usize, bool, bool),
    Remove(u32),
    Heard(u32),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..2usize, 0..1400u16).prop_map(|(peer, len)| Op::Out(peer, len)),
        4 => (0..2usize, any::<bool>()).prop_map(|(peer, shim)| Op::In(peer, shim)),
        2 => (0..2u32, 0..2usize, any::<bool>(), any::<bool>())
            .prop_map(|(id, peer, is_moved, timers)| Op::Upsert(id, peer, is_moved, timers)),
        1 => (0..2u32).prop_map(Op::Remove),
        1 => (0..2u32).prop_map(Op::Heard),
        3 => (0..15_000u64).prop_map(Op::Wait),
    ]
}

proptest! {
    /// For any operations: `SendExpired` only if payload was sent that long ago and none was received since;
    /// keepalives only if payload was received; after a look, the deadline is later.
    #[test]
    fn reports_follow_from_packets(ops in proptest::collection::vec(op(), 0..120)) {
        let mut plane = plane(None);
        let mut now = at(1);
        for op in ops {
            match op {
                Op::Out(peer, len) => {
                    let before = packet(6, OURS[0], PEERS[peer], len);
                    let mut bytes = before.clone();
                    match plane.handle_outbound(&mut bytes, now) {
                        Outbound::Pass | Outbound::Drop(_) => prop_assert_eq!(bytes, before),
                        Outbound::Send { source } => {
                            prop_assert_eq!(bytes.len(), before.len() + 8);
                            prop_assert_eq!(&bytes[8..24], &source.octets());
                            prop_assert_eq!(&bytes[48..], &before[40..]);
                        }
                    }
                }
                Op::In(peer, shim) => {
                    let mut bytes = packet(if shim { 140 } else { 6 }, PEERS[peer], OURS[0], 60);
                    if shim {
                        bytes[40..48].copy_from_slice(&[6, 0, 0x80, 0, 0, 0, 0, u8::from(peer == 1)]);
                    }
                    let _ = plane.handle_inbound(&mut bytes, now);
                }
                Op::Upsert(id, peer, is_moved, timers) => {
                    let peer = locator(PEERS[peer]);
                    let mut context = if is_moved { moved(id) } else { entry(id) };
                    context.ulids.peer = peer.as_ulid();
                    context.local_tag = ContextTag::from_bits(u64::from(id));
                    context.timers = context.timers.filter(|_| timers);
                    plane.handle_update(&Update::Upsert(context), now);
                }
                Op::Remove(id) => {
                    plane.handle_update(&Update::Remove { context: ContextId(id) }, now);
                }
                Op::Heard(id) => {
                    let context = ContextId(id);
                    plane.handle_update(&Update::Heard { context, at: now }, now);
                }
                Op::Wait(millis) => now = now + Duration::from_millis(millis),
            }
            if plane.poll_timeout().is_some_and(|deadline| deadline <= now) {
                plane.handle_timeout(now);
                prop_assert!(plane.poll_timeout().is_none_or(|deadline| deadline > now));
            }
            for report in reports(&mut plane) {
                match report {
                    Report::SendExpired { context, since } => {
                        let counters = plane.counters(context).unwrap();
                        prop_assert!(now >= since + Duration::from_secs(10));
                        prop_assert!(counters.last_tx >= since && counters.last_rx <= since);
                    }
                    Report::KeepaliveDue { context } => {
                        let counters = plane.counters(context).unwrap();
                        prop_assert!(counters.last_rx > Instant::ZERO);
                        prop_assert!(counters.last_rx >= counters.last_tx);
                    }
                    Report::Trigger { .. } => {}
                    Report::Received { .. }
                    | Report::Idle { .. }
                    | Report::Suspected { .. }
                    | Report::Congested { .. }
                    | Report::NoRoom { .. } => prop_assert!(false, "not asked for"),
                }
            }
        }
    }
}

/// Makes a control message from a peer, with a tag.
fn control(kind: u8, source: &str, tag: u64) -> Vec<u8> {
    let mut message = packet(140, source, OURS[0], 16);
    message[42] = kind;
    message[46..52].copy_from_slice(&ContextTag::from_bits(tag).octets());
    message
}

/// Gives how many of 3,000 such packets pass at once.
fn passed(plane: &mut Plane, packet: &[u8], now: Instant) -> usize {
    (0..3000).filter(|_| is_taken(plane, packet, now)).count()
}

fn is_taken(plane: &mut Plane, packet: &[u8], now: Instant) -> bool {
    match plane.handle_inbound(&mut packet.to_vec(), now) {
        Inbound::Drop(reason) => {
            assert_eq!(reason, DropReason::RateLimited);
            false
        }
        Inbound::Pass | Inbound::Deliver | Inbound::Up => true,
    }
}

const KNOWN_TAG: u64 = 0x0123_4567_89ab;

/// Messages that strangers can send: handshakes, unknown types, tags that are not ours, another source, and messages
/// behind extension headers. The second address of the peer is a locator and no ULID.
fn of_strangers() -> Vec<Vec<u8>> {
    let mut behind = control(66, PEERS[1], KNOWN_TAG);
    behind[6] = 60;
    behind[40..42].copy_from_slice(&[140, 0]);
    let mut deep = packet(60, PEERS[1], OURS[0], 48);
    deep[40..].chunks_mut(8).for_each(|header| header[..2].copy_from_slice(&[60, 0]));
    let types = [1, 5, 66, 67, 90, 127].map(|kind| control(kind, PEERS[1], KNOWN_TAG + 1));
    let known = [control(1, PEERS[1], KNOWN_TAG), control(66, "2001:db8:e::1", KNOWN_TAG)];
    types.into_iter().chain(known).chain([behind, deep]).collect()
}

#[test]
fn all_that_strangers_send_is_in_one_budget_and_leaves_contexts_theirs() {
    for (index, message) in of_strangers().iter().enumerate() {
        let mut plane = plane(Some(entry(3)));
        assert_eq!(passed(&mut plane, message, at(10)), 1000, "{index}");
        assert_eq!(plane.drops().iter().collect::<Vec<_>>(), [(DropReason::RateLimited, 2000)]);
        for other in of_strangers() {
            assert!(!is_taken(&mut plane, &other, at(10)), "{index}");
        }
        for kind in [64, 66, 68] {
            assert!(is_taken(&mut plane, &control(kind, PEERS[1], KNOWN_TAG), at(10)), "{index}");
        }
        // The budget gives room for 16 more in a millisecond.
        assert_eq!(passed(&mut plane, message, at(11)), 16, "{index}");
    }
}

#[test]
fn payload_with_unknown_tags_leaves_strangers_their_budget() {
    let mut plane = plane(Some(entry(3)));
    let mut payload = control(0x80, PEERS[0], KNOWN_TAG);
    payload[41] = 0;
    assert_eq!(passed(&mut plane, &payload, at(10)), 400);
    for message in of_strangers() {
        assert!(is_taken(&mut plane, &message, at(10)));
    }
    assert_eq!(passed(&mut plane, &payload, at(11)), 4);
    // Nor does a flood of messages take the budget of payload, which draws R1bis.
    let taken = 400 + of_strangers().len() + 4 - 2 * 16;
    assert_eq!(passed(&mut plane, &of_strangers()[0], at(12)), 1000 - taken);
    assert_eq!(passed(&mut plane, &payload, at(12)), 4);
}

#[test]
fn a_peer_that_floods_takes_its_own_budget_and_then_that_of_strangers_and_no_other_context_s() {
    let mut plane = plane(Some(entry(3)));
    let other = ContextEntry { local_tag: ContextTag::from_bits(9), ..entry(4) };
    plane.handle_update(&Update::Upsert(other), at(1));
    let flood = control(68, PEERS[0], KNOWN_TAG);
    assert_eq!(passed(&mut plane, &flood, at(10)), 2000);
    assert_eq!(passed(&mut plane, &flood, at(10)), 0);
    assert_eq!(passed(&mut plane, &control(68, PEERS[0], 9), at(10)), 1000);
    assert_eq!(passed(&mut plane, &flood, at(11)), 17);
}

/// Makes a TCP segment without data.
fn segment(
    [source, destination]: [&str; 2],
    ports: [u16; 2],
    numbers: [u32; 2],
    flags: u8,
) -> Vec<u8> {
    let mut segment = packet(6, source, destination, 20);
    segment[40..42].copy_from_slice(&ports[0].to_be_bytes());
    segment[42..44].copy_from_slice(&ports[1].to_be_bytes());
    segment[44..48].copy_from_slice(&numbers[0].to_be_bytes());
    segment[48..52].copy_from_slice(&numbers[1].to_be_bytes());
    segment[52..54].copy_from_slice(&[5 << 4, flags]);
    segment
}

/// The peer opens a connection, and this host accepts.
fn open_connection(plane: &mut Plane, peer: &str, now: Instant) {
    let (syn, syn_ack, ack) = (2, 0x12, 0x10);
    plane.handle_inbound(&mut segment([peer, OURS[0]], [9, 5], [70, 0], syn), now);
    plane.handle_outbound(&mut segment([OURS[0], peer], [5, 9], [500, 71], syn_ack), now);
    plane.handle_inbound(&mut segment([peer, OURS[0]], [9, 5], [71, 501], ack), now);
}

/// A flood of I1s with made-up sources goes on: a connection has begun before, and datagrams go both ways.
#[test]
fn handshakes_of_peers_with_traffic_both_ways_pass_in_a_flood_of_strangers() {
    let mut plane = plane(None);
    let i1 = |source: &str| control(1, source, 0);
    let peers: Vec<_> = (1..=6).map(|n| alloc::format!("2001:db8:c:{n}::1")).collect();
    let stranger = "2001:db8:e::1";
    for peer in &peers {
        plane.handle_outbound(&mut packet(17, OURS[0], peer, 16), at(10));
    }
    // The peer has sent, and has accepted nothing.
    plane.handle_inbound(&mut packet(17, stranger, OURS[0], 16), at(10));
    open_connection(&mut plane, PEERS[0], at(10));
    assert_eq!(passed(&mut plane, &i1(stranger), at(10)), 1000);
    // A peer has a limit, and all of those with datagrams together leave room for those with connections.
    let of_datagrams: Vec<_> =
        peers.iter().map(|peer| passed(&mut plane, &i1(peer), at(10))).collect();
    assert_eq!(of_datagrams, [100, 100, 100, 100, 100, 0]);
    assert_eq!(passed(&mut plane, &i1(PEERS[0]), at(10)), 100);
    assert_eq!(passed(&mut plane, &i1(stranger), at(10)), 0);
    // A connection of a peer with datagrams counts, too.
    open_connection(&mut plane, &peers[5], at(20));
    assert!(is_taken(&mut plane, &i1(&peers[5]), at(20)));
}

#[test]
fn messages_for_other_hosts_have_no_budget() {
    let mut plane = plane(None);
    let mut message = control(66, PEERS[0], 5);
    message[24..40].copy_from_slice(&locator("2001:db8:f::1").octets());
    assert_eq!(passed(&mut plane, &message, at(10)), 3000);
}
