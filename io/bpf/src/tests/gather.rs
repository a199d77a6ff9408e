//! Which packets go to GRO after their header was taken out, and which super-packets are segmented before it is
//! inserted.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use moorline_datapath::shim6::{ContextEntry, Report, Triggers, Update};
use moorline_types::{ContextId, DropReason, Path};

use super::can_run;
use super::harness::{Harness, IFINDEX, Origin};
use super::tables::{LOCAL, PEER, entry, packet};
use crate::skel::types;

const TC_ACT_UNSPEC: i32 = -1;
/// Action of a redirection to no interface. The counters of drops tell it from other redirections.
const LOST: i32 = TC_ACT_REDIRECT;
const TC_ACT_REDIRECT: i32 = 7;
const TCP: u8 = 6;
const ACK: u8 = 0x10;
const FIN_ACK: u8 = 0x11;

fn harness() -> Harness {
    let mut harness = Harness::new(&Triggers::default());
    harness.set_local(LOCAL.parse().unwrap());
    harness.apply(&Update::Upsert(entry(4, PEER)));
    harness
}

fn gather_at(harness: &Harness, gather: u32) {
    let table = &harness.plane.tables.settings;
    let settings = table.lookup(&0).unwrap().unwrap();
    table.insert(&0, &types::settings { gather, ..settings }).unwrap();
}

/// A segment as the stack sees it.
fn segment(flags: u8, payload: u16) -> Vec<u8> {
    let mut segment = packet(PEER, LOCAL, 20 + payload);
    segment[6] = TCP;
    segment[40 + 12] = 5 << 4;
    segment[40 + 13] = flags;
    segment
}

/// The same segment as it comes from the peer.
fn on_the_wire(plain: &[u8]) -> Vec<u8> {
    let tag = entry(4, PEER).local_tag.bits();
    let mut wire = plain[..40].to_vec();
    let length = u16::from_be_bytes([wire[4], wire[5]]) + 8;
    wire[4..6].copy_from_slice(&length.to_be_bytes());
    wire[6] = 140;
    wire.extend([plain[6], 0]);
    wire.extend(&(0x8000_0000_0000 | tag).to_be_bytes()[2..]);
    wire.extend(&plain[40..]);
    wire
}

#[test]
fn segments_with_a_place_in_the_stream_are_put_together() {
    if !can_run("segments_with_a_place_in_the_stream_are_put_together") {
        return;
    }
    let harness = harness();
    let mut datagram = packet(PEER, LOCAL, 1400);
    datagram[6] = 17;
    for (what, plain, gathered) in [
        ("data", segment(ACK, 1400), true),
        ("an octet of data", segment(ACK, 1), true),
        ("the end of the stream", segment(FIN_ACK, 0), true),
        ("an acknowledgement", segment(ACK, 0), false),
        ("a datagram", datagram, false),
    ] {
        let wire = on_the_wire(&plain);
        let received = || harness.plane.counters(ContextId(4)).unwrap().rx_packets;
        for (gather, is_sent_there) in [(IFINDEX, gathered), (0, false)] {
            gather_at(&harness, gather);
            let before = received();
            let outcome = harness.run("uplink_ingress", &wire, 0);
            assert_eq!(outcome.packet, plain, "{what}");
            let action = if is_sent_there { TC_ACT_REDIRECT } else { TC_ACT_UNSPEC };
            assert_eq!(outcome.action, action, "{what}");
            assert_eq!(received() - before, u64::from(!is_sent_there), "{what}");
        }
        // When the super-packet comes back, it counts with all its segments.
        let before = received();
        assert_eq!(harness.run("uplink_ingress", &plain, 9).action, TC_ACT_UNSPEC, "{what}");
        assert_eq!(received() - before, 9, "{what}");
    }
    let stray = segment(ACK, 1400);
    assert_eq!(harness.run("moor_gathered", &stray, 0).action, TC_ACT_UNSPEC);
}

/// A merged packet has no tag any more, and would count for the context that the ULIDs find.
#[test]
fn segments_of_a_context_beside_another_are_not_put_together() {
    if !can_run("segments_of_a_context_beside_another_are_not_put_together") {
        return;
    }
    let mut harness = harness();
    harness.apply(&Update::Upsert(entry(5, PEER)));
    gather_at(&harness, IFINDEX);
    let received = |id| harness.plane.counters(ContextId(id)).unwrap().rx_packets;
    let outcome = harness.run("uplink_ingress", &on_the_wire(&segment(ACK, 1400)), 0);
    assert_eq!(outcome.action, TC_ACT_UNSPEC);
    assert_eq!((received(4), received(5)), (1, 0));
}

#[test]
fn super_packets_that_have_moved_go_to_be_cut() {
    if !can_run("super_packets_that_have_moved_go_to_be_cut") {
        return;
    }
    let mut harness = harness();
    let mut super_packet = packet(LOCAL, PEER, 20 + 2800);
    super_packet[6] = TCP;
    super_packet[40 + 12] = 5 << 4;
    let origin = Origin { segments: 2, segment_size: 1400, ..Origin::default() };
    let segment_at = |harness: &Harness, segment: u32| {
        let table = &harness.plane.tables.settings;
        let settings = table.lookup(&0).unwrap().unwrap();
        table.insert(&0, &types::settings { segment, ..settings }).unwrap();
    };
    let moved = entry(4, PEER);
    let current = Path::of(moved.ulids, moved.ulids.as_locators());
    harness.apply(&Update::Upsert(ContextEntry { current, ..entry(4, PEER) }));
    let sent = |harness: &Harness| harness.plane.counters(ContextId(4)).unwrap().tx_packets;
    segment_at(&harness, IFINDEX);
    let outcome = harness.run_of("uplink_egress", &super_packet, origin);
    assert_eq!((outcome.action, sent(&harness)), (TC_ACT_UNSPEC, 2), "it has not moved");

    harness.apply(&Update::Upsert(moved));
    let outcome = harness.run_of("uplink_egress", &super_packet, origin);
    assert_eq!((outcome.action, sent(&harness)), (TC_ACT_REDIRECT, 2), "counted by its segments");
    assert_eq!(outcome.packet, super_packet);
    assert_eq!(harness.plane.drops().unwrap(), []);
    segment_at(&harness, 0);
    let outcome = harness.run_of("uplink_egress", &super_packet, origin);
    assert_eq!(outcome.action, LOST);
    assert_eq!(harness.plane.drops().unwrap(), [(DropReason::AdjustRoom, 1)]);
}

#[test]
fn of_what_has_no_room_but_tcp_the_core_is_told_ten_times_a_second() {
    if !can_run("of_what_has_no_room_but_tcp_the_core_is_told_ten_times_a_second") {
        return;
    }
    let mut harness = harness();
    let mut datagrams = packet(LOCAL, PEER, 8 + 2800);
    datagrams[6] = 17;
    let mut segments = datagrams.clone();
    segments[6] = TCP;
    segments[40 + 12] = 5 << 4;
    let moved = entry(4, PEER);
    let told = [Report::NoRoom { context: moved.id }];
    harness.apply(&Update::Upsert(moved));
    // The kernel could not segment this packet with the header in it.
    let reports_at = |now: u64, packet: &[u8]| {
        harness.set_now(now);
        assert_eq!(harness.run("moor_ingress", packet, 2).action, LOST);
        let mut reports = harness.reports();
        reports.retain(|report| matches!(report, Report::NoRoom { .. }));
        reports
    };
    let begin = 1_000_000_000;
    assert_eq!(reports_at(begin, &segments), [], "its socket is told the MTU");
    assert_eq!(reports_at(begin, &datagrams), told);
    assert_eq!(reports_at(begin + 99_999_999, &datagrams), []);
    assert_eq!(reports_at(begin + 100_000_000, &datagrams), told);
}
