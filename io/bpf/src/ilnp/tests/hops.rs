//! Next hops of sessions that have moved are learned, used and learned again like those of contexts.

use moorline_datapath::Plane as _;
use std::collections::BTreeSet;
use std::net::{Ipv6Addr, UdpSocket};

use libbpf_rs::ProgramInput;
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Update};
use moorline_types::{DropReason, Ilv, IlvPair, Instant, Nonce, SessionId};

use crate::ilnp::{IlnpDatapath, IlnpSettings};
use crate::load;
use crate::skel::types;
use crate::tests::can_run;
use crate::tests::harness::{ETHERNET, Namespace};
use crate::tests::hops::{FRESH, LOCATOR, PEER_LOCATOR, SETUP, ifindex, learned, sh};
use crate::tests::tables::{LOCAL, PEER};

const TC_ACT_UNSPEC: i32 = -1;
/// Action of a redirection to no interface. The counters of drops tell it from other redirections.
const LOST: i32 = TC_ACT_REDIRECT;
const TC_ACT_REDIRECT: i32 = 7;

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn ilv(text: &str) -> Ilv {
    Ilv::of(address(text))
}

/// A datagram of the session.
fn datagram() -> Vec<u8> {
    datagram_of(8)
}

/// A datagram of the session with this length.
fn datagram_of(length: u16) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    let mut frame = [&ETHERNET[..], &[0x60, 0, 0, 0, high, low, 17, 64]].concat();
    frame.extend(address(LOCAL).octets());
    frame.extend(address(PEER).octets());
    frame.extend([0x10, 0, 0, 9, high, low, 0, 0]);
    frame.resize(frame.len() - 8 + usize::from(length), 7);
    frame
}

/// Runs an egress program on a datagram at an interface, with segments of so many octets. Returns the action and the
/// resulting octets.
fn output(
    plane: &IlnpDatapath,
    program: &'static str,
    interface: &str,
    segment: u32,
) -> (i32, Vec<u8>) {
    forward(plane, program, (&datagram(), segment), interface, 0)
}

/// Runs an egress program on a frame that has come by the interface `came_by`; 0: the frame is from this host.
fn forward(
    plane: &IlnpDatapath,
    program: &'static str,
    (frame, segment): (&[u8], u32),
    interface: &str,
    came_by: u32,
) -> (i32, Vec<u8>) {
    let mut context = [0; size_of::<types::__sk_buff>()];
    for (at, value) in [
        (core::mem::offset_of!(types::__sk_buff, ifindex), ifindex(interface)),
        (core::mem::offset_of!(types::__sk_buff, gso_size), segment),
        (core::mem::offset_of!(types::__sk_buff, ingress_ifindex), came_by),
    ] {
        context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let mut out = vec![0; frame.len() + 64];
    let input = ProgramInput {
        context_in: Some(&mut context),
        data_in: Some(frame),
        data_out: Some(&mut out),
        ..ProgramInput::default()
    };
    let output = load::run(&plane.object, program, input).unwrap();
    (output.return_value.cast_signed(), output.data.unwrap().to_vec())
}

/// Runs a program on a datagram. Returns the action, and the last octet of the link-layer destination.
fn run(plane: &IlnpDatapath, program: &'static str, interface: &str) -> (i32, u8) {
    let (action, frame) = output(plane, program, interface, 0);
    assert_eq!(frame[12..14], ETHERNET[12..]);
    assert_eq!(frame[22..38], address(LOCATOR).octets());
    assert_eq!(frame[38..54], address(PEER_LOCATOR).octets());
    assert_eq!(frame[54..62], [17, 0, 0x8b, 4, b'o', b'u', b'r', b's']);
    (action, frame[5])
}

fn plane() -> IlnpDatapath {
    let settings = IlnpSettings { max_sessions: 4, ..IlnpSettings::default() };
    let mut plane = IlnpDatapath::open_with(&settings, std::path::PathBuf::new(), true).unwrap();
    for local in [LOCAL, LOCATOR] {
        plane.set_locator(ilv(local).l64, ifindex("up0")).unwrap();
    }
    plane.apply(&Update::Upsert(moved()), Instant::ZERO).unwrap();
    plane
}

#[test]
fn next_hops_of_sessions_are_remembered_for_a_moment() {
    if !can_run("next_hops_of_sessions_are_remembered_for_a_moment") {
        return;
    }
    let _namespace = Namespace::new();
    sh(SETUP);
    let mut plane = plane();
    plane.attach_uplink(ifindex("up0")).unwrap();
    plane.attach_moor(ifindex("moor0"), ifindex("moor1")).unwrap();
    let socket = UdpSocket::bind((address(LOCAL), 0)).unwrap();
    let send_at = |plane: &IlnpDatapath, now: u64| {
        plane.set_now(now);
        for _ in 0..3 {
            socket.send_to(b"moved", (address(PEER), 9)).unwrap();
        }
        learned(&plane.object)
    };
    let begin = 1_000_000_000;
    plane.set_now(begin);
    let unknown = ETHERNET[5];
    assert_eq!(run(&plane, "ilnp_moor_egress", "moor0"), (TC_ACT_REDIRECT, unknown));
    assert_eq!(send_at(&plane, begin), (begin + FRESH, 0x98));
    assert_eq!(run(&plane, "ilnp_moor_egress", "moor0"), (TC_ACT_REDIRECT, 0x98));
    assert_eq!(run(&plane, "ilnp_moor_ingress", "moor1"), (TC_ACT_REDIRECT, 0x98));
    // A route may lead the packet to the right uplink at once, and to another router there.
    assert_eq!(run(&plane, "ilnp_egress", "up0"), (TC_ACT_UNSPEC, 0x98));
    sh("ip -6 route replace default via fe80::99 dev up0");
    plane.set_now(begin + FRESH);
    assert_eq!(run(&plane, "ilnp_egress", "up0"), (TC_ACT_REDIRECT, unknown));
    assert_eq!(send_at(&plane, begin + FRESH), (begin + 2 * FRESH, 0x99));
    assert_eq!(run(&plane, "ilnp_egress", "up0"), (TC_ACT_UNSPEC, 0x99));
    // The cache holds for this uplink only.
    plane.set_locator(ilv(LOCATOR).l64, ifindex("lo")).unwrap();
    assert_eq!(run(&plane, "ilnp_egress", "up0"), (TC_ACT_REDIRECT, unknown));
    assert_eq!(plane.drops().unwrap(), []);
}

#[test]
fn super_packets_of_datagrams_are_segmented_wherever_they_come() {
    if !can_run("super_packets_of_datagrams_are_segmented_wherever_they_come") {
        return;
    }
    let _namespace = Namespace::new();
    sh(SETUP);
    let mut plane = plane();
    let at = |plane: &IlnpDatapath, program, interface| output(plane, program, interface, 4);
    plane.set_now(1_000_000_000);
    // The packet cannot go anywhere.
    assert_eq!(at(&plane, "ilnp_egress", "up0").0, LOST);
    plane.attach_moor(ifindex("moor0"), ifindex("moor1")).unwrap();
    assert_eq!(at(&plane, "ilnp_egress", "up0"), (TC_ACT_REDIRECT, datagram()));
    assert_eq!(at(&plane, "ilnp_moor_egress", "moor0"), (TC_ACT_UNSPEC, datagram()));
    assert_eq!(at(&plane, "ilnp_moor_ingress", "moor1").0, LOST);
    assert_eq!(plane.drops().unwrap(), [(DropReason::AdjustRoom, 2)]);
    let reports = plane.take_reports().unwrap();
    let told = reports.iter().filter(|report| matches!(report, Report::NoRoom { .. }));
    // The report is about the segment. A super-packet on its way to the segmentation path brings no report.
    assert_eq!(told.collect::<Vec<_>>(), [&Report::NoRoom { session: SessionId(1) }]);
}

/// No route has left room in these packets, as their sender is not on this host. By the addresses of the session, the
/// correspondent takes them for classic IPv6.
#[test]
fn forwarded_datagrams_without_room_for_a_nonce_leave_as_they_are() {
    if !can_run("forwarded_datagrams_without_room_for_a_nonce_leave_as_they_are") {
        return;
    }
    let _namespace = Namespace::new();
    sh(SETUP);
    let mut plane = plane();
    plane.set_now(1_000_000_000);
    let fits = 1500 - 40 - 8;
    let came_by = ifindex("moor0");
    for checksum in [ChecksumMode::Full, ChecksumMode::NidOnly] {
        plane.apply(&Update::Upsert(SessionEntry { checksum, ..moved() }), Instant::ZERO).unwrap();
        let sum_at = 14 + 40 + 6;
        let run = |length, segment, came_by| {
            let mut datagram = datagram_of(length);
            datagram[sum_at..][..2].copy_from_slice(&[0x12, 0x34]);
            let (action, mut after) =
                forward(&plane, "ilnp_egress", (&datagram, segment), "up0", came_by);
            let has_its_sum = after[sum_at..][..2] == [0x12, 0x34];
            after[sum_at..][..2].copy_from_slice(&[0x12, 0x34]);
            (action, after == datagram, has_its_sum)
        };
        let full = checksum == ChecksumMode::Full;
        assert_eq!(run(fits, 0, came_by).0, TC_ACT_REDIRECT);
        assert_eq!(run(fits + 1, 0, 0).0, LOST);
        assert_eq!(run(fits + 1, 0, came_by), (TC_ACT_UNSPEC, true, full), "{checksum:?}");
        assert_eq!(run(1000, 500, came_by), (TC_ACT_UNSPEC, true, full), "{checksum:?}");
    }
}

/// The locator is on no uplink, or a hop-by-hop header leaves no room for a nonce in front of it.
#[test]
fn forwarded_packets_that_cannot_move_leave_as_they_are() {
    if !can_run("forwarded_packets_that_cannot_move_leave_as_they_are") {
        return;
    }
    let _namespace = Namespace::new();
    sh(SETUP);
    let mut plane = plane();
    plane.set_now(1_000_000_000);
    let came_by = ifindex("moor0");
    let entry = SessionEntry { checksum: ChecksumMode::Full, ..moved() };
    plane.apply(&Update::Upsert(entry), Instant::ZERO).unwrap();
    let run = |plane: &IlnpDatapath, frame: &[u8], came_by| {
        let (action, after) = forward(plane, "ilnp_egress", (frame, 0), "up0", came_by);
        (action, after == frame)
    };
    let datagram = datagram_of(100);
    let mut with_options = [&datagram[..54], &[17, 0, 1, 4, 0, 0, 0, 0], &datagram[54..]].concat();
    (with_options[14 + 5], with_options[14 + 6]) = (108, 0);
    assert_eq!(run(&plane, &datagram, came_by).0, TC_ACT_REDIRECT);
    assert_eq!(run(&plane, &with_options, 0).0, LOST);
    assert_eq!(plane.drops().unwrap(), [(DropReason::HeaderChain, 1)]);
    assert_eq!(run(&plane, &with_options, came_by), (TC_ACT_UNSPEC, true));
    plane.unset_locator(ilv(LOCATOR).l64).unwrap();
    assert_eq!(run(&plane, &datagram, 0).0, LOST);
    let drops = [(DropReason::HeaderChain, 1), (DropReason::NoUplink, 1)];
    assert_eq!(plane.drops().unwrap().into_iter().collect::<BTreeSet<_>>(), drops.into());
    assert_eq!(run(&plane, &datagram, came_by), (TC_ACT_UNSPEC, true));
    assert_eq!(plane.drops().unwrap().len(), 2);
}

fn moved() -> SessionEntry {
    SessionEntry {
        id: SessionId(1),
        pair: IlvPair::new(ilv(LOCAL), ilv(PEER)),
        wire: (ilv(LOCATOR).l64, ilv(PEER_LOCATOR).l64),
        send_nonce: Nonce::Short(*b"ours"),
        attach: false,
        always: false,
        maps_tcp: true,
        settled: true,
        receive_nonce: Some(Nonce::Short(*b"them")),
        remote: [ilv(PEER).l64, ilv(PEER_LOCATOR).l64].into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    }
}
