//! Which packets of the host get a nonce.

use super::*;

#[test]
fn moved_traffic_has_the_nonce_but_for_tcp_that_a_socket_tells() {
    let mut plane = plane((AWAY, THERE), &[THERE]);
    for (protocol, flags, has_nonce) in [(6, ACK, false), (6, SYN, true), (17, 0, true)] {
        let mut packet = packet(pair().local, pair().remote, protocol, flags, (HOME, THERE));
        let verdict = plane.handle_outbound(&mut packet, &One, NOW);
        let wire = pair().local.at(AWAY);
        assert_eq!(verdict, Outbound::Send { source: wire.address() });
        assert_eq!(packet[6] == 60, has_nonce, "protocol {protocol}");
        let at = if has_nonce { 48 } else { 40 };
        let (from, to) = (wire.at(L64(0)), pair().remote.at(L64(0)));
        assert_eq!(transport_checksum(from, to, protocol, &packet[at..]), 0);
    }
}

#[test]
fn a_nonce_that_has_no_room_is_left_out_only_where_the_packet_is_known_without() {
    let mut plane = plane((HOME, THERE), &[THERE]);
    plane.settings.mtu = 70;
    let send_type = |plane: &mut Plane, protocol, kind: Option<u8>| {
        let mut packet = packet(pair().local, pair().remote, protocol, ACK, (HOME, THERE));
        packet[40] = kind.unwrap_or(packet[40]);
        let verdict = plane.handle_outbound(&mut packet, &One, NOW);
        assert_eq!(packet[6], protocol, "no nonce");
        verdict
    };
    let send = |plane: &mut Plane, protocol| send_type(plane, protocol, None);
    let entry = |wire| SessionEntry {
        id: SessionId(3),
        pair: pair(),
        wire,
        send_nonce: OURS,
        attach: true,
        always: false,
        maps_tcp: false,
        settled: true,
        receive_nonce: Some(THEIRS),
        remote: [THERE].into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    };
    let source = pair().local.address();
    plane.handle_update(&Update::Upsert(entry((HOME, THERE))));
    assert_eq!(send(&mut plane, 6), Outbound::Send { source });
    assert_eq!(send(&mut plane, 17), Outbound::Send { source });
    assert_eq!(send(&mut plane, 58), Outbound::Send { source }, "an echo");
    let error = send_type(&mut plane, 58, Some(UNREACHABLE));
    assert_eq!(error, Outbound::Drop(DropReason::AdjustRoom));
    plane.handle_update(&Update::Upsert(entry((AWAY, THERE))));
    assert_eq!(send(&mut plane, 6), Outbound::Drop(DropReason::AdjustRoom));
    assert_eq!(send(&mut plane, 58), Outbound::Drop(DropReason::AdjustRoom));
}

/// The route of the session leaves the room, except on a path with the least MTU. A segment that was cut for another
/// route has no nonce.
#[test]
fn where_it_is_there_for_good_the_nonce_is_in_all_that_leaves_room_as_its_route_does() {
    for wire in [(HOME, THERE), (AWAY, THERE)] {
        let mut plane = plane(wire, &[THERE]);
        let flow = plane.sessions.get_mut(plane.slots[&SessionId(3)]).expect("a session");
        (flow.entry.attach, flow.entry.always) = (true, true);
        for (len, more) in [(1272, 8), (1273, 0), (1280, 0), (1281, 8), (1460, 8), (1461, 0)] {
            let mut packet = packet(pair().local, pair().remote, 6, ACK, (HOME, THERE));
            packet.resize(len, 0);
            packet[4..6].copy_from_slice(&u16::try_from(len - 40).expect("short").to_be_bytes());
            let verdict = plane.handle_outbound(&mut packet, &One, NOW);
            assert_eq!(verdict, Outbound::Send { source: pair().local.at(wire.0).address() });
            assert_eq!(packet.len(), len + more, "{len}");
        }
    }
}

/// [`One`], with an MTU of the path from [`AWAY`].
struct Path(usize);

impl Sockets for Path {
    fn kind(&self, of: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        One.kind(of, protocol, ports)
    }

    fn any_between(&self, of: IlvPair) -> bool {
        One.any_between(of)
    }

    fn path_mtu(&self, wire: IlvPair) -> Option<usize> {
        (wire == IlvPair::new(pair().local.at(AWAY), pair().remote)).then_some(self.0)
    }
}

/// Each path has an MTU of its own.
#[test]
fn a_nonce_has_the_room_that_the_path_between_its_locators_leaves() {
    for (mtu, has_room) in [(68, true), (67, false)] {
        let mut plane = plane((AWAY, THERE), &[THERE]);
        plane.settings.mtu = 9000;
        let mut packet = packet(pair().local, pair().remote, 17, 0, (HOME, THERE));
        packet.resize(60, 0);
        packet[4..6].copy_from_slice(&20_u16.to_be_bytes());
        let source = pair().local.at(AWAY).address();
        let sent = if has_room {
            Outbound::Send { source }
        } else {
            Outbound::Drop(DropReason::AdjustRoom)
        };
        assert_eq!(plane.handle_outbound(&mut packet, &Path(mtu), NOW), sent, "{mtu}");
    }
}

/// A segment that was cut for the path before the session had a route fills the path.
#[test]
fn a_segment_that_fills_its_path_has_no_nonce() {
    let mut plane = plane((AWAY, THERE), &[THERE]);
    let flow = plane.sessions.get_mut(plane.slots[&SessionId(3)]).expect("a session");
    flow.entry.always = true;
    flow.entry.attach = true;
    for (len, more) in [(1360, 8), (1361, 0), (1400, 0)] {
        let mut packet = packet(pair().local, pair().remote, 6, ACK, (HOME, THERE));
        packet.resize(len, 0);
        packet[4..6].copy_from_slice(&u16::try_from(len - 40).expect("short").to_be_bytes());
        let sent = plane.handle_outbound(&mut packet, &Path(1400), NOW);
        assert_eq!(sent, Outbound::Send { source: pair().local.at(AWAY).address() });
        assert_eq!(packet.len(), len + more, "{len}");
    }
}
