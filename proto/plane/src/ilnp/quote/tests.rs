use super::*;
use core::net::Ipv6Addr;
use std::vec::Vec;

use moorline_datapath::ilnp::{ChecksumMode, Update};
use moorline_types::{Ilv, Instant, L64, Nid, Nonce, SessionId};
use moorline_wire::ilnp::{NonceHeader, transport_checksum};

use crate::ilnp::{Inbound, Plane, Settings};
use moorline_datapath::ilnp::Socket;
use moorline_wire::ip6::DESTINATION_OPTIONS;

const NOW: Instant = Instant::from_nanos(1);
const OURS: Nonce = Nonce::Short([1, 2, 3, 4]);
const HOME: L64 = L64(0x2001_0db8_0001_0000);
const AWAY: L64 = L64(0x2001_0db8_0009_0000);
const THERE: L64 = L64(0x2001_0db8_0002_0000);
const PAIR: IlvPair = IlvPair::new(Ilv::new(HOME, Nid(1)), Ilv::new(THERE, Nid(2)));
const ROUTER: Ilv = Ilv::new(L64(0x2001_0db8_00ff_0000), Nid(1));
const UDP: u8 = 17;

/// Sockets with a connected socket of the pair, with one of its ports.
struct One;

impl Sockets for One {
    fn kind(&self, of: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        let is_its = (of, protocol, ports) == (PAIR, TCP, (40_000, 7));
        if is_its { Socket::Connected } else { Socket::None }
    }

    fn any_between(&self, _of: IlvPair) -> bool {
        unreachable!("a data plane does not ask")
    }
}

/// A plane with a session that has moved.
fn plane() -> Plane {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.handle_update(&Update::Upsert(SessionEntry {
        id: SessionId(3),
        pair: PAIR,
        wire: (AWAY, THERE),
        send_nonce: OURS,
        attach: false,
        always: false,
        maps_tcp: true,
        settled: true,
        receive_nonce: Some(Nonce::Short([5, 6, 7, 8])),
        remote: [THERE].into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    }));
    plane
}

/// The first octets of a packet that this host has sent from a locator.
fn sent(from: L64, protocol: u8, ports: [u16; 2], nonce: Option<Nonce>) -> Vec<u8> {
    let header = nonce
        .map(|nonce| NonceHeader { next_header: protocol, nonce, sequence: None }.emit())
        .unwrap_or_default();
    let next = if header.is_empty() { protocol } else { DESTINATION_OPTIONS };
    // A router quotes the octets that fit, and leaves the length field as it was.
    let mut packet = std::vec![0x60, 0, 0, 0, 5, 0x98, next, 63];
    packet.extend(PAIR.local.at(from).address().octets());
    packet.extend(PAIR.remote.address().octets());
    packet.extend(header);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([9; 16]);
    packet
}

fn error(from: Ilv, to: Ilv, (kind, info): (u8, u32), quote: &[u8]) -> Vec<u8> {
    let mut message = std::vec![kind, 0, 0, 0];
    message.extend(info.to_be_bytes());
    message.extend(quote);
    let sum = transport_checksum(from, to, ICMPV6, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = std::vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(message.len()).expect("short").to_be_bytes());
    packet.extend([ICMPV6, 64]);
    packet.extend(from.address().octets());
    packet.extend(to.address().octets());
    packet.extend(message);
    packet
}

fn ends(packet: &[u8]) -> [Ipv6Addr; 2] {
    [8, 24].map(|at| {
        let octets: [u8; 16] = packet[at..at + 16].try_into().expect("an address");
        octets.into()
    })
}

#[test]
fn a_quote_has_the_addresses_of_the_socket_and_room_for_the_nonce() {
    let cases = [
        (sent(AWAY, TCP, [40_000, 7], None), (2, 1400), 1400),
        (sent(AWAY, TCP, [40_000, 7], Some(OURS)), (2, 1400), 1360),
        (sent(AWAY, UDP, [1, 2], Some(OURS)), (2, 1400), 1392),
        (sent(AWAY, UDP, [1, 2], Some(OURS)), (2, 1281), 1280),
        (sent(AWAY, UDP, [1, 2], Some(OURS)), (2, 7), 7),
        (sent(AWAY, UDP, [1, 2], Some(OURS)), (1, 0), 0),
        (sent(AWAY, UDP, [1, 2], Some(OURS)), (3, 0), 0),
        (sent(AWAY, UDP, [1, 2], Some(OURS)), (4, 48), 48),
        // The quote has an earlier locator: its nonce proves it.
        (sent(L64(0x2001_0db8_0007_0000), UDP, [1, 2], Some(OURS)), (1, 0), 0),
    ];
    for (quote, what, info) in cases {
        let to = Ilv::of(ends(&quote)[0]);
        let mut packet = error(ROUTER, to, what, &quote);
        assert_eq!(plane().handle_inbound(&mut packet, &One, NOW), Inbound::Deliver, "{what:?}");
        assert_eq!(ends(&packet), [ROUTER.address(), PAIR.local.address()]);
        assert_eq!(transport_checksum(ROUTER, PAIR.local, ICMPV6, &packet[40..]), 0);
        assert_eq!(packet[44..48], u32::to_be_bytes(info));
        let quoted = &packet[48..];
        assert_eq!(ends(quoted), [PAIR.local.address(), PAIR.remote.address()]);
        assert_eq!((&quoted[..8], &quoted[40..]), (&quote[..8], &quote[40..]), "all else is kept");
    }
}

#[test]
fn a_router_next_to_us_may_speak_from_an_address_of_the_link() {
    let router = Ilv::new(L64(0xfe80 << 48), Nid(1));
    let to = PAIR.local.at(AWAY);
    let quote = sent(AWAY, TCP, [40_000, 7], None);
    let mut packet = error(router, to, (2, 1400), &quote);
    assert_eq!(plane().handle_inbound(&mut packet, &One, NOW), Inbound::Deliver);
    assert_eq!(ends(&packet), [router.address(), PAIR.local.address()]);
    assert_eq!(transport_checksum(router, PAIR.local, ICMPV6, &packet[40..]), 0);
    assert_eq!(ends(&packet[48..]), [PAIR.local.address(), PAIR.remote.address()]);
    // This quote is believed no more than the others.
    let wrong = Some(Nonce::Short([4, 3, 2, 1]));
    for quote in [sent(AWAY, TCP, [41, 7], None), sent(AWAY, UDP, [1, 2], wrong)] {
        let mut packet = error(router, to, (2, 1400), &quote);
        let before = packet.clone();
        assert_eq!(plane().handle_inbound(&mut packet, &One, NOW), Inbound::Pass);
        assert_eq!(packet, before);
    }
}

/// From then on, the sender of the packet must leave room for the nonce.
#[test]
fn an_mtu_for_a_packet_with_a_nonce_is_less_where_it_has_not_moved_either() {
    let quote = sent(HOME, TCP, [40_000, 7], Some(OURS));
    let mut packet = error(ROUTER, PAIR.local, (2, 1400), &quote);
    assert_eq!(plane().handle_inbound(&mut packet, &One, NOW), Inbound::Deliver);
    assert_eq!(packet[44..48], u32::to_be_bytes(1360));
    assert_eq!(ends(&packet), [ROUTER.address(), PAIR.local.address()]);
    assert_eq!(transport_checksum(ROUTER, PAIR.local, ICMPV6, &packet[40..]), 0);
    assert_eq!(packet[48..], quote);
}

#[test]
fn what_shows_neither_nonce_nor_socket_is_left_alone() {
    let away = PAIR.local.at(AWAY);
    let tcp = || sent(AWAY, TCP, [40_000, 7], None);
    let udp = |nonce| sent(AWAY, UDP, [1, 2], nonce);
    let wrong = Some(Nonce::Short([4, 3, 2, 1]));
    let elsewhere = L64(0x2001_0db8_0007_0000);
    let cases = [
        ("another socket's port", error(ROUTER, away, (2, 1400), &sent(AWAY, TCP, [41, 7], None))),
        ("no nonce, and no TCP", error(ROUTER, away, (1, 0), &udp(None))),
        ("a wrong nonce", error(ROUTER, away, (1, 0), &udp(wrong))),
        (
            "from where we are not",
            error(ROUTER, away.at(elsewhere), (1, 0), &sent(elsewhere, TCP, [40_000, 7], None)),
        ),
        ("to somebody else", error(ROUTER, PAIR.local, (1, 0), &tcp())),
        ("of the correspondent", error(PAIR.remote, away, (1, 0), &tcp())),
        ("about the header of the nonce", error(ROUTER, away, (4, 41), &udp(Some(OURS)))),
        ("no error", error(ROUTER, away, (128, 0), &tcp())),
        ("cut short", error(ROUTER, away, (1, 0), &tcp()[..39])),
        ("not moved", error(ROUTER, PAIR.local, (1, 0), &sent(HOME, TCP, [40_000, 7], None))),
    ];
    for (what, mut packet) in cases {
        let before = packet.clone();
        assert_eq!(plane().handle_inbound(&mut packet, &One, NOW), Inbound::Pass, "{what}");
        assert_eq!(packet, before, "{what}");
    }
}

/// Sessions with a correspondent that did no handshake share the nonces of the correspondent.
#[test]
fn an_error_goes_to_the_sibling_whose_locators_it_quotes() {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    let other = IlvPair::new(PAIR.local, PAIR.remote.at(AWAY));
    for (id, pair) in [(3, other), (4, PAIR)] {
        plane.handle_update(&Update::Upsert(SessionEntry {
            id: SessionId(id),
            pair,
            wire: (pair.local.l64, pair.remote.l64),
            send_nonce: OURS,
            attach: true,
            always: true,
            maps_tcp: false,
            settled: true,
            receive_nonce: Some(Nonce::Short([5, 6, 7, 8])),
            remote: [THERE, AWAY].into(),
            checksum: ChecksumMode::NidOnly,
            confirming: false,
            watch: false,
        }));
    }
    let quoted = sent(HOME, UDP, [41_000, 7], Some(OURS));
    let mut packet = error(ROUTER, PAIR.local, (PACKET_TOO_BIG, 1400), &quoted);
    assert_eq!(plane.handle_inbound(&mut packet, &One, NOW), Inbound::Deliver);
    assert_eq!(packet[48 + 24..48 + 40], PAIR.remote.address().octets());
}
