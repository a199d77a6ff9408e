//! Packets that the host forwards, as for containers whose addresses it translates to its own.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use moorline_datapath::shim6::{Triggers, Update};
use moorline_types::{ContextId, DropReason};

use super::can_run;
use super::harness::{Harness, IFINDEX, Origin};
use super::tables::{LOCAL, PEER, entry, packet};

const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_REDIRECT: i32 = 7;
const TCP: u8 = 6;
/// Octets behind the IPv6 header in the longest packet to which a payload header can be added.
const FITS: u16 = 1500 - 40 - 8;

fn moved() -> Harness {
    let mut harness = Harness::new(&Triggers::default());
    for local in [LOCAL, "2001:db8:b::1"] {
        harness.set_local(local.parse().unwrap());
    }
    harness.set_now(1);
    harness.apply(&Update::Upsert(entry(4, PEER)));
    harness
}

/// No route has left room in these packets, as their sender is not on this host. They leave as without Moorline.
#[test]
fn forwarded_packets_without_room_for_a_header_leave_as_they_are() {
    if !can_run("forwarded_packets_without_room_for_a_header_leave_as_they_are") {
        return;
    }
    for came_by in [0, IFINDEX] {
        let harness = moved();
        let run = |octets| {
            let origin = Origin { came_by, ..Origin::default() };
            harness.run_of("uplink_egress", &packet(LOCAL, PEER, octets), origin)
        };
        let sent = |harness: &Harness| harness.plane.counters(ContextId(4)).unwrap().tx_packets;
        assert_eq!(run(FITS).action, TC_ACT_REDIRECT);
        assert_eq!(sent(&harness), 1);
        let without_room = run(FITS + 1);
        if came_by == 0 {
            assert_eq!(harness.plane.drops().unwrap(), [(DropReason::AdjustRoom, 1)]);
        } else {
            assert_eq!(without_room.action, TC_ACT_UNSPEC);
            assert_eq!(without_room.packet, packet(LOCAL, PEER, FITS + 1));
            assert_eq!(harness.plane.drops().unwrap(), []);
        }
        assert_eq!(sent(&harness), 1, "it says nothing of the current pair");
    }
}

/// The uplink of the locator has gone.
#[test]
fn forwarded_packets_without_an_uplink_leave_as_they_are() {
    if !can_run("forwarded_packets_without_an_uplink_leave_as_they_are") {
        return;
    }
    let harness = moved();
    harness.plane.unset_local("2001:db8:b::1".parse().unwrap()).unwrap();
    let run = |came_by| {
        let origin = Origin { came_by, ..Origin::default() };
        harness.run_of("uplink_egress", &packet(LOCAL, PEER, 100), origin)
    };
    let forwarded = run(IFINDEX);
    assert_eq!((forwarded.action, forwarded.packet), (TC_ACT_UNSPEC, packet(LOCAL, PEER, 100)));
    assert_eq!(harness.plane.drops().unwrap(), []);
    assert_eq!(run(0).action, TC_ACT_REDIRECT);
    assert_eq!(harness.plane.drops().unwrap(), [(DropReason::NoUplink, 1)]);
}

#[test]
fn forwarded_super_packets_are_judged_by_their_segments() {
    if !can_run("forwarded_super_packets_are_judged_by_their_segments") {
        return;
    }
    let harness = moved();
    let table = &harness.plane.tables.settings;
    let settings = table.lookup(&0).unwrap().unwrap();
    let segment = IFINDEX;
    table.insert(&0, &crate::skel::types::settings { segment, ..settings }).unwrap();
    let run = |protocol: u8, words: u8, segment_size: u16| {
        let mut super_packet = packet(LOCAL, PEER, u16::from(words) * 4 + 2 * segment_size);
        super_packet[6] = protocol;
        super_packet[40 + 12] = words << 4;
        let segment_size = u32::from(segment_size);
        let origin = Origin { segments: 2, segment_size, came_by: IFINDEX, ..Origin::default() };
        harness.run_of("uplink_egress", &super_packet, origin).action
    };
    for words in [5, 8] {
        let largest = FITS - u16::from(words) * 4;
        assert_eq!(run(TCP, words, largest), TC_ACT_REDIRECT);
        assert_eq!(run(TCP, words, largest + 1), TC_ACT_UNSPEC);
    }
    assert_eq!(run(17, 2, 1000), TC_ACT_UNSPEC, "nobody can segment it with the header");
    table.insert(&0, &crate::skel::types::settings { segment: 0, ..settings }).unwrap();
    assert_eq!(run(TCP, 5, 1000), TC_ACT_UNSPEC, "nowhere to segment it");
    assert_eq!(harness.plane.drops().unwrap(), []);
}
