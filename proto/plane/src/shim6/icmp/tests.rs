use super::*;
use alloc::sync::Arc;
use alloc::vec;
use core::time::Duration;
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_types::{ContextId, Instant, Path, Ulid};
use proptest::prelude::*;

use moorline_wire::checksum;

use crate::shim6::{Inbound, Outbound, Plane, Settings};

const OURS: [&str; 2] = ["2001:db8:a::1", "2001:db8:b::1"];
const PEERS: [&str; 2] = ["2001:db8:c::1", "2001:db8:d::1"];
const ROUTER: &str = "2001:db8:ffff::1";

fn locator(text: &str) -> Locator {
    Locator(text.parse().unwrap())
}

/// A plane with a context that has moved.
fn plane(tag: ContextTag) -> Plane {
    let mut plane = Plane::new(Settings::default());
    plane.set_local(locator(OURS[0]));
    plane.set_local(locator(OURS[1]));
    let ulids = UlidPair::new(Ulid(locator(OURS[0]).0), Ulid(locator(PEERS[0]).0));
    let entry = ContextEntry {
        id: ContextId(0),
        ulids,
        local_tag: ContextTag::from_bits(1),
        peer_tag: tag,
        current: Path::of(ulids, LocatorPair::new(locator(OURS[1]), locator(PEERS[1]))),
        peer_locators: (&PEERS.map(locator)).into(),
        timers: None,
        watch: 0,
        idle: Duration::ZERO,
        suspects: false,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    };
    plane.handle_update(&Update::Upsert(entry), Instant::ZERO);
    plane
}

fn ip6(next: u8, source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet[4..6].copy_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend(locator(source).octets());
    packet.extend(locator(destination).octets());
    packet.extend(payload);
    packet
}

/// An error with a right checksum, which is computed from scratch.
fn error(kind: u8, info: u32, quote: &[u8], to: &str) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(info.to_be_bytes());
    message.extend(quote);
    let mut packet = ip6(58, ROUTER, to, &message);
    let sum = !full_sum(&packet);
    packet[42..44].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Sum over the pseudo-header and the message with its checksum: all ones if the checksum is right.
fn full_sum(packet: &[u8]) -> u16 {
    let mut all = packet[8..40].to_vec();
    all.extend(u32::try_from(packet.len() - 40).unwrap().to_be_bytes());
    all.extend([0, 0, 0, 58]);
    all.extend(&packet[40..]);
    !checksum(&all)
}

//= rfc5533#8-1 rfc5533#8-2 rfc5533#8 (test)
#[test]
fn errors_that_shim6_could_act_on_reach_the_sockets_too() {
    let tag = ContextTag::from_bits(9);
    for kind in [UNREACHABLE, TIME_EXCEEDED] {
        let mut plane = plane(tag);
        let mut wire = ip6(17, OURS[0], PEERS[0], &[7; 60]);
        let socket = wire.clone();
        plane.handle_outbound(&mut wire, Instant::ZERO);
        let mut packet = error(kind, 0, &wire, OURS[1]);
        assert_eq!(plane.handle_inbound(&mut packet, Instant::ZERO), Inbound::Deliver);
        assert_eq!(packet[48..], socket);
    }
}

proptest! {
    #[test]
    fn a_quote_of_what_was_sent_becomes_what_the_socket_sent(
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        next in prop_oneof![Just(6u8), Just(17), Just(58), Just(44)],
        bits in any::<u64>(),
        kind in 1u8..4,
        cut in 0usize..200,
    ) {
        let tag = ContextTag::from_bits(bits);
        let mut plane = plane(tag);
        let socket = ip6(next, OURS[0], PEERS[0], &payload);
        let mut wire = socket.clone();
        // Neighbour Discovery keeps its addresses.
        let verdict = plane.handle_outbound(&mut wire, Instant::ZERO);
        prop_assume!(verdict == Outbound::Send { source: locator(OURS[1]).0 });
        let cut = cut.max(48).min(wire.len());
        let mut packet = error(kind, 1400, &wire[..cut], OURS[1]);
        prop_assert_eq!(full_sum(&packet), u16::MAX);

        let verdict = plane.handle_inbound(&mut packet, Instant::ZERO);
        prop_assert_eq!(verdict, Inbound::Deliver);
        prop_assert_eq!(&packet[48..], &socket[..cut - 8]);
        prop_assert_eq!(full_sum(&packet), u16::MAX);
        prop_assert_eq!(packet[24..40].to_vec(), locator(OURS[0]).octets());
        prop_assert_eq!(packet.len() - 40, usize::from(Ip6::read(&packet).unwrap().payload_len));
        let info = if kind == PACKET_TOO_BIG { 1392u32 } else { 1400 };
        prop_assert_eq!(packet[44..48].to_vec(), info.to_be_bytes());
    }

    #[test]
    fn nothing_panics(message in proptest::collection::vec(any::<u8>(), 0..120), shim in any::<bool>()) {
        let mut packet = ip6(58, ROUTER, OURS[1], &message);
        if shim && packet.len() > 88 {
            packet[40] %= 5;
            packet[48] = 0x60;
            packet[54] = 140;
            packet[56..88].copy_from_slice(
                &[locator(OURS[1]).octets(), locator(PEERS[1]).octets()].concat(),
            );
        }
        let before = packet.clone();
        if plane(ContextTag::from_bits(3)).handle_inbound(&mut packet, Instant::ZERO)
            == Inbound::Pass
        {
            prop_assert_eq!(packet, before);
        }
    }
}
