mod candidates;
mod outbound;

use super::*;
use crate::ilnp::packet::Ip6;
use moorline_datapath::ilnp::Socket;
use moorline_types::{Ilv, L64, Nid, Nonce};
use moorline_wire::ilnp::consts::LOCATOR_UPDATE;
use moorline_wire::ilnp::{NONCE_OPTION, NonceHeader, checksum_at, transport_checksum};
use std::vec;

const NOW: Instant = Instant::from_nanos(1);
const OURS: Nonce = Nonce::Short([1, 2, 3, 4]);
const THEIRS: Nonce = Nonce::Short([5, 6, 7, 8]);
const HOME: L64 = L64(0x2001_0db8_0001_0000);
const AWAY: L64 = L64(0x2001_0db8_0009_0000);
const THERE: L64 = L64(0x2001_0db8_0002_0000);
const NEVER_NAMED: L64 = L64(0x2001_0db8_0006_0000);

fn pair() -> IlvPair {
    IlvPair::new(Ilv::new(HOME, Nid(1)), Ilv::new(THERE, Nid(2)))
}

/// Sockets with one connected socket of the pair.
struct One;

impl Sockets for One {
    fn kind(&self, of: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        if of == pair() { Socket::Connected } else { Socket::None }
    }

    fn any_between(&self, of: IlvPair) -> bool {
        of == pair()
    }
}

/// Sockets with connected sockets of these pairs, for all ports.
struct Of(Vec<IlvPair>);

impl Sockets for Of {
    fn kind(&self, of: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        if self.0.contains(&of) { Socket::Connected } else { Socket::Unconnected }
    }

    fn any_between(&self, of: IlvPair) -> bool {
        self.0.contains(&of)
    }
}

/// A settled session of [`pair`] at the locators [`HOME`] and [`THERE`].
fn entry() -> SessionEntry {
    SessionEntry {
        id: SessionId(3),
        pair: pair(),
        wire: (HOME, THERE),
        send_nonce: OURS,
        attach: false,
        always: false,
        maps_tcp: false,
        settled: true,
        receive_nonce: Some(THEIRS),
        remote: [THERE].as_slice().into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    }
}

/// A plane with a session that uses these locators on the wire.
fn plane(wire: (L64, L64), remote: &[L64]) -> Plane {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.set_nids([pair().local.nid].into());
    plane.handle_update(&Update::Upsert(SessionEntry {
        wire,
        remote: remote.into(),
        maps_tcp: true,
        ..entry()
    }));
    plane
}

/// A packet with the checksum over these locators: TCP with these flags, or another protocol.
fn packet(from: Ilv, to: Ilv, protocol: u8, flags: u8, over: (L64, L64)) -> Vec<u8> {
    let mut upper = vec![0; 24];
    upper[..4].copy_from_slice(&[0x9c, 0x40, 0, 7]);
    if protocol == 58 {
        upper[0] = 128;
    }
    upper[13] = flags;
    let at = checksum_at(protocol).unwrap_or(2);
    upper[at..at + 2].fill(0);
    let sum = transport_checksum(from.at(over.0), to.at(over.1), protocol, &upper);
    upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, protocol, 64];
    packet.extend(from.address().octets());
    packet.extend(to.address().octets());
    packet.extend(upper);
    packet
}

fn insert(packet: &mut Vec<u8>, header: NonceHeader) {
    let ip6 = Ip6::read(packet).expect("a header");
    let mut upper = ip6.upper(packet);
    ip6.insert(packet, header, 1500, &mut upper).expect("room");
}

/// A packet as the plane of the correspondent sends it: with its nonce, and with only the identifiers in the
/// checksum.
fn theirs(from: L64, to: L64, protocol: u8, flags: u8, nonce: Option<Nonce>) -> Vec<u8> {
    let over = if protocol == 58 { (from, to) } else { (L64(0), L64(0)) };
    let mut packet = packet(pair().remote.at(from), pair().local.at(to), protocol, flags, over);
    if let Some(nonce) = nonce {
        let header = NonceHeader { next_header: 0, nonce, sequence: None };
        insert(&mut packet, header);
    }
    packet
}

/// Whether sockets can take a packet: it has their addresses, no option and the right checksum.
fn is_for_sockets(packet: &[u8]) -> bool {
    let ip6 = Ip6::read(packet).expect("a header");
    let protocol = packet[6];
    (ip6.destination, ip6.source) == (pair().local, pair().remote)
        && transport_checksum(ip6.source, ip6.destination, protocol, &packet[40..]) == 0
}

//= rfc6744#4-2 (test)
//= rfc6741#5.4-1 rfc6741#5.4-2 rfc6741#11.2-1 (test)
#[test]
fn from_a_locator_never_named_only_the_nonce_is_a_proof() {
    let mut plane = plane((HOME, THERE), &[THERE, AWAY]);
    let mut receive = |from, nonce| {
        let mut packet = theirs(from, HOME, 6, ACK, nonce);
        let verdict = plane.handle_inbound(&mut packet, &One, NOW);
        assert!(verdict != Inbound::Deliver || is_for_sockets(&packet));
        verdict
    };
    assert_eq!(receive(NEVER_NAMED, Some(THEIRS)), Inbound::Deliver);
    assert_eq!(receive(NEVER_NAMED, None), Inbound::Drop(DropReason::WrongLocators));
    assert_eq!(receive(NEVER_NAMED, Some(OURS)), Inbound::Drop(DropReason::BadNonce));
    assert_eq!(receive(THERE, Some(OURS)), Inbound::Drop(DropReason::BadNonce));
    assert_eq!(receive(THERE, None), Inbound::Deliver);
    assert_eq!(receive(AWAY, None), Inbound::Deliver, "named, and a socket has it");
}

/// A pair with the identifier of the correspondent, at a locator that the correspondent never named.
fn namesake() -> IlvPair {
    IlvPair::new(pair().local, pair().remote.at(NEVER_NAMED))
}

//= rfc6744#4-2 (test)
//= rfc6741#5.4-3 rfc6741#11.2-1 (test)
#[test]
fn who_has_the_identifier_of_a_correspondent_elsewhere_is_another_node() {
    let none = Of(vec![]);
    let ours = Of(vec![pair()]);
    let both = Of(vec![pair(), namesake()]);
    let claims = [(6, ACK), (17, 0)];
    let others = [(6, SYN), (58, 0), (50, 0)];
    let receive = |protocol, flags, nonce, sockets: &Of| {
        let mut plane = plane((HOME, THERE), &[THERE, AWAY]);
        let mut packet = theirs(NEVER_NAMED, HOME, protocol, flags, nonce);
        let before = packet.clone();
        let verdict = plane.handle_inbound(&mut packet, sockets, NOW);
        let ip6 = Ip6::read(&packet).expect("a header");
        assert_eq!(IlvPair::new(ip6.destination, ip6.source), namesake());
        match verdict {
            Inbound::Pass => assert_eq!(packet, before, "classic IPv6"),
            Inbound::Deliver if protocol != 50 => {
                assert_eq!(packet[6], protocol, "no nonce");
                let sum = transport_checksum(ip6.source, ip6.destination, protocol, &packet[40..]);
                assert_eq!(sum, 0);
            }
            Inbound::Deliver | Inbound::Up | Inbound::Drop(_) => {}
        }
        verdict
    };
    for (protocol, flags) in claims {
        let plain = |sockets| receive(protocol, flags, None, sockets);
        assert_eq!(plain(&ours), Inbound::Drop(DropReason::WrongLocators), "{protocol}");
        assert_eq!(plain(&none), Inbound::Pass, "{protocol}: no socket of the session");
        assert_eq!(plain(&both), Inbound::Pass, "{protocol}: a socket of its own");
        let forged = |sockets| receive(protocol, flags, Some(OURS), sockets);
        assert_eq!(forged(&ours), Inbound::Drop(DropReason::BadNonce), "{protocol}");
        assert_eq!(forged(&none), Inbound::Deliver, "{protocol}: a stranger's nonce");
        assert_eq!(forged(&both), Inbound::Deliver, "{protocol}: a stranger's nonce");
    }
    for (protocol, flags) in others {
        assert_eq!(receive(protocol, flags, None, &ours), Inbound::Pass, "{protocol}");
        assert_eq!(receive(protocol, flags, Some(OURS), &ours), Inbound::Deliver, "{protocol}");
    }
}

#[test]
fn from_a_locator_that_a_session_names_a_wrong_nonce_is_a_forgery() {
    let (none, ours) = (Of(vec![]), Of(vec![pair()]));
    for (from, protocol, sockets, is_forged) in [
        (THERE, 58, &none, true),
        (THERE, 17, &none, true),
        (AWAY, 58, &none, true),
        (AWAY, 17, &ours, true),
        // A correspondent that has begun anew has other connections.
        (AWAY, 17, &none, false),
    ] {
        let mut plane = plane((HOME, THERE), &[AWAY]);
        let mut packet = theirs(from, HOME, protocol, 0, Some(OURS));
        let verdict = plane.handle_inbound(&mut packet, sockets, NOW);
        let forged = Inbound::Drop(DropReason::BadNonce);
        let expected = if is_forged { forged } else { Inbound::Deliver };
        assert_eq!(verdict, expected, "{from:?} {protocol}");
    }
}

/// The correspondent of a session that has moved has begun anew, and only sends. So the machine has to hear of it.
#[test]
fn a_wrong_nonce_with_the_socket_of_a_session_that_has_moved_counts_as_use() {
    for (sockets, is_used) in [(Of(vec![pair()]), true), (Of(vec![]), false)] {
        let mut plane = plane((HOME, THERE), &[AWAY]);
        let mut packet = theirs(AWAY, HOME, 6, ACK, Some(OURS));
        plane.handle_inbound(&mut packet, &sockets, NOW);
        let told = plane.poll_report();
        assert_eq!(matches!(told, Some(Report::Used { .. })), is_used, "{told:?}");
    }
}

/// A node with the same identifier is considered like any stranger, and gets a session of its own.
//= rfc6741#5.4-1 rfc6741#5.4-3 (test)
#[test]
fn two_nodes_with_one_identifier_have_sessions_side_by_side() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    let both = Of(vec![pair(), namesake()]);
    let first = Nonce::Short([3, 3, 3, 3]);
    let mut packet = theirs(NEVER_NAMED, HOME, 17, 0, Some(first));
    assert_eq!(plane.handle_inbound(&mut packet, &both, NOW), Inbound::Deliver);
    let candidate = plane.poll_report();
    assert!(
        matches!(candidate, Some(Report::Candidate { pair, nonce, .. })
            if pair == namesake() && nonce == Some(first)),
        "{candidate:?}"
    );
    plane.handle_update(&Update::Upsert(SessionEntry {
        id: SessionId(4),
        pair: namesake(),
        wire: (HOME, NEVER_NAMED),
        maps_tcp: true,
        receive_nonce: Some(first),
        remote: [NEVER_NAMED].into(),
        ..entry()
    }));
    let cases = [
        (THERE, Some(THEIRS), pair()),
        (NEVER_NAMED, Some(first), namesake()),
        (THERE, None, pair()),
        (NEVER_NAMED, None, namesake()),
        // The nonces tell the two nodes apart at each locator.
        (AWAY, Some(THEIRS), pair()),
        (AWAY, Some(first), namesake()),
    ];
    for (from, nonce, to) in cases {
        let mut packet = theirs(from, HOME, 17, 0, nonce);
        assert_eq!(plane.handle_inbound(&mut packet, &both, NOW), Inbound::Deliver);
        let ip6 = Ip6::read(&packet).expect("a header");
        assert_eq!(IlvPair::new(ip6.destination, ip6.source), to, "{from:?} {nonce:?}");
        assert_eq!(transport_checksum(ip6.source, ip6.destination, 17, &packet[40..]), 0);
    }
}

#[test]
fn without_a_nonce_a_packet_from_another_locator_needs_its_socket() {
    let mut plane = plane((HOME, THERE), &[THERE, AWAY]);
    for (protocol, flags) in [(17, 0), (6, SYN)] {
        let mut packet = theirs(AWAY, HOME, protocol, flags, None);
        let before = packet.clone();
        assert_eq!(plane.handle_inbound(&mut packet, &One, NOW), Inbound::Pass);
        assert_eq!(packet, before, "classic IPv6");
    }
}

//= rfc6744#6-3 (test)
//= rfc6744#7-3 (test)
//= rfc6741#11.1-9 rfc6741#11.1-10 rfc6741#11.1-11 (test)
#[test]
fn icmp_of_a_session_has_the_nonce_both_ways() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    let mut packet = packet(pair().local, pair().remote, 58, 0, (HOME, THERE));
    let verdict = plane.handle_outbound(&mut packet, &One, NOW);
    assert_eq!(verdict, Outbound::Send { source: pair().local.address() });
    assert_eq!(packet[40..48], [58, 0, NONCE_OPTION, 4, 1, 2, 3, 4]);
    assert!(plane.poll_report().is_some());
    let mut bare = theirs(THERE, HOME, 58, 0, None);
    bare[40] = UNREACHABLE;
    let at = NOW + USED_INTERVAL;
    let verdict = plane.handle_inbound(&mut bare, &One, at);
    assert_eq!(verdict, Inbound::Drop(DropReason::MissingOption));
    let used = Report::Used { session: SessionId(3), at };
    assert_eq!(plane.poll_report(), Some(used), "so that its sender is asked what it knows");
    let mut proved = theirs(AWAY, HOME, 58, 0, Some(THEIRS));
    assert_eq!(plane.handle_inbound(&mut proved, &One, NOW), Inbound::Deliver);
    assert!(is_for_sockets(&proved));
}

#[test]
fn an_echo_is_known_by_the_addresses_of_its_session_and_by_no_others() {
    let mut plane = plane((HOME, THERE), &[THERE, AWAY]);
    let mut bare = theirs(THERE, HOME, 58, 0, None);
    assert_eq!(plane.handle_inbound(&mut bare, &One, NOW), Inbound::Deliver);
    assert!(is_for_sockets(&bare));
    let mut moved = theirs(AWAY, HOME, 58, 0, None);
    let before = moved.clone();
    assert_ne!(plane.handle_inbound(&mut moved, &One, NOW), Inbound::Deliver);
    assert_eq!(moved, before);
}

#[test]
fn a_locator_update_without_a_nonce_is_nothing_for_the_machine() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    let mut verdict = |kind: u8, nonce| {
        let mut packet = theirs(THERE, HOME, 58, 0, nonce);
        let at = if nonce.is_some() { 48 } else { 40 };
        packet[at] = kind;
        plane.handle_inbound(&mut packet, &One, NOW)
    };
    assert_eq!(verdict(LOCATOR_UPDATE, None), Inbound::Drop(DropReason::MissingOption));
    for nonce in [THEIRS, OURS] {
        assert_eq!(verdict(LOCATOR_UPDATE, Some(nonce)), Inbound::Up, "the machine answers for it");
    }
    assert_eq!(verdict(200, None), Inbound::Up);
}

#[test]
fn what_is_forwarded_is_left_alone() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    let behind = Ilv::new(HOME, Nid(99));
    let sent = |nonce: Option<Nonce>, kind: u8| {
        let mut packet = packet(pair().remote, behind, 58, 0, (THERE, HOME));
        packet[40] = kind;
        if let Some(nonce) = nonce {
            let header = NonceHeader { next_header: 0, nonce, sequence: None };
            insert(&mut packet, header);
        }
        packet
    };
    let about_nonce = {
        let mut packet = sent(None, 4);
        packet[41..48].copy_from_slice(&[2, 0, 0, 0, 0, 0, 42]);
        packet[4..6].copy_from_slice(&[0, 64]);
        packet.resize(104, NONCE_OPTION);
        packet
    };
    let packets = [
        sent(Some(THEIRS), 128),
        sent(Some(THEIRS), 156),
        sent(None, 156),
        sent(None, AdmissionTypes::default().initiator),
        about_nonce,
    ];
    for packet in &packets {
        let mut after = packet.clone();
        assert_eq!(plane.handle_inbound(&mut after, &One, NOW), Inbound::Pass, "{packet:02x?}");
        assert_eq!(after, *packet);
        assert_eq!(plane.drops().iter().count(), 0);
    }
    // A packet to this host is treated otherwise.
    for mut after in packets {
        after[24..40].copy_from_slice(&pair().local.address().octets());
        assert_ne!(plane.handle_inbound(&mut after, &One, NOW), Inbound::Pass, "{after:02x?}");
    }
}

#[test]
fn options_do_not_go_on_behind_the_packet() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    let mut packet = theirs(THERE, HOME, 17, 0, Some(THEIRS));
    packet[4..6].copy_from_slice(&[0, 7]);
    let verdict = plane.handle_inbound(&mut packet, &One, NOW);
    assert_eq!(verdict, Inbound::Drop(DropReason::Truncated));
}

//= rfc6741#11.1-12 (test)
#[test]
fn the_first_nonce_is_learned_once_and_kept_whatever_is_told() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    plane.handle_update(&Update::Remove { session: SessionId(3) });
    let entry = SessionEntry {
        id: SessionId(4),
        pair: pair(),
        wire: (HOME, THERE),
        send_nonce: OURS,
        attach: true,
        always: false,
        maps_tcp: false,
        settled: true,
        receive_nonce: None,
        remote: [THERE].into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: true,
    };
    plane.handle_update(&Update::Upsert(entry.clone()));
    let receive = |plane: &mut Plane, from, nonce| {
        plane.handle_inbound(&mut theirs(from, HOME, 17, 0, Some(nonce)), &One, NOW)
    };
    let elsewhere = receive(&mut plane, AWAY, OURS);
    assert_eq!(elsewhere, Inbound::Drop(DropReason::BadNonce), "not from where it was offered");
    assert_eq!(receive(&mut plane, THERE, THEIRS), Inbound::Deliver);
    let learned = Report::Learned { session: SessionId(4), nonce: THEIRS };
    assert_eq!(plane.poll_report(), Some(learned));
    plane.handle_update(&Update::Upsert(entry));
    assert_eq!(receive(&mut plane, THERE, OURS), Inbound::Drop(DropReason::BadNonce));
    assert_eq!(receive(&mut plane, THERE, THEIRS), Inbound::Deliver);
}

/// A node with a session by THERE and one by AWAY loses AWAY: packets of the second connection come from the addresses of the first session.
#[test]
fn of_sessions_that_share_a_nonce_the_socket_decides_before_the_addresses() {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.set_nids([pair().local.nid].into());
    let second = IlvPair::new(pair().local, pair().remote.at(AWAY));
    for (id, pair) in [(3, pair()), (4, second)] {
        plane.handle_update(&Update::Upsert(SessionEntry { id: SessionId(id), pair, ..entry() }));
    }
    for nonce in [Some(THEIRS), None] {
        for (connected, expected) in
            [(vec![second], AWAY), (vec![pair(), second], THERE), (vec![], THERE)]
        {
            let mut packet = theirs(THERE, HOME, 6, ACK, nonce);
            assert_eq!(plane.handle_inbound(&mut packet, &Of(connected), NOW), Inbound::Deliver);
            let source = Ip6::read(&packet).expect("a header").source;
            assert_eq!(source.l64, expected, "{nonce:?}");
        }
    }
}

/// A segment from a third locator claims the sockets of several sessions, which have the same ports.
#[test]
fn of_sessions_that_a_packet_fits_alike_the_first_has_it_by_number() {
    let there = [THERE, AWAY, NEVER_NAMED];
    let third = L64(0x2001_0db8_0007_0000);
    let of = |at: usize| IlvPair::new(pair().local, pair().remote.at(there[at]));
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
        let mut plane = Plane::new(Settings::default(), [1; 16]);
        plane.set_nids([pair().local.nid].into());
        for at in order {
            plane.handle_update(&Update::Upsert(SessionEntry {
                id: SessionId(u32::try_from(at).unwrap()),
                pair: of(at),
                remote: [THERE, third].as_slice().into(),
                ..entry()
            }));
        }
        for (connected, nonce) in [
            ([0, 1, 2], Some(THEIRS)),
            ([1, 1, 2], Some(THEIRS)),
            ([0, 1, 2], None),
            ([2, 2, 1], None),
        ] {
            let mut packet = theirs(third, HOME, 6, ACK, nonce);
            let sockets = Of(connected.map(of).into());
            assert_eq!(plane.handle_inbound(&mut packet, &sockets, NOW), Inbound::Deliver);
            let source = Ip6::read(&packet).expect("a header").source;
            let first = connected.into_iter().min().expect("three");
            assert_eq!(source.l64, there[first], "{order:?} {nonce:?}");
        }
    }
}

const ACK: u8 = 0x10;
const SYN: u8 = 0x02;
/// ICMPv6 type of Destination Unreachable (RFC 4443 s3.1).
const UNREACHABLE: u8 = 1;
