use moorline_datapath::Plane as _;
use std::io::{Read, Write};
use std::net::{SocketAddrV6, TcpListener};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Sockets, Update};
use moorline_types::{IlvPair, Nonce, SessionId};

use super::harness::{
    AWAY, ELSEWHERE, Harness, PAIRS, THEIR_PORT, UNCONNECTED, at, connected, our_port,
};
use crate::ilnp::IlnpSettings;
use crate::tests::can_run;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ACK: u8 = 0x10;
const SYN_ACK: u8 = 0x12;

#[test]
fn sockets_are_those_of_the_namespace() {
    if !can_run("sockets_are_those_of_the_namespace") {
        return;
    }
    let harness = Harness::new(&IlnpSettings { max_sessions: 4, ..IlnpSettings::default() });
    let kind = |pair, protocol, ports| harness.plane.socket_kind(pair, protocol, ports).unwrap();
    let ports = (our_port(0), our_port(0) + THEIR_PORT);
    let elsewhere = IlvPair::new(PAIRS[0].local.at(AWAY), PAIRS[0].remote);
    for protocol in [TCP, UDP] {
        assert_eq!(kind(PAIRS[0], protocol, ports), Socket::Connected);
        assert_eq!(kind(elsewhere, protocol, ports), Socket::None, "other addresses");
        assert_eq!(kind(PAIRS[0], protocol, (UNCONNECTED, 9)), Socket::Unconnected);
        assert_eq!(kind(PAIRS[0], protocol, (1, 9)), Socket::None);
        assert_eq!(kind(PAIRS[0], protocol, (our_port(0), 9)), Socket::None, "another's port");
    }
    for protocol in [58, 33, 136, 0] {
        assert_eq!(kind(PAIRS[0], protocol, ports), Socket::None);
    }
}

#[test]
fn a_handshake_that_is_not_over_asks_for_no_session_and_is_found_all_the_same() {
    if !can_run("a_handshake_that_is_not_over_asks_for_no_session_and_is_found_all_the_same") {
        return;
    }
    let mut harness = Harness::new(&IlnpSettings { max_sessions: 4, ..IlnpSettings::default() });
    let pair = PAIRS[0];
    let (ours, theirs) = (4100, 4101);
    let listener = deferring(at(pair.local.address(), ours));
    let mut client = connected(at(pair.remote.address(), theirs), at(pair.local.address(), ours));
    assert_eq!(kind(&harness, pair, (ours, theirs)), (Socket::Unconnected, true));
    harness.run("ilnp_egress", &segment(pair, [ours, theirs], SYN_ACK));
    assert_eq!(harness.reports(), [], "anybody can have begun it");
    // The last segment of the handshake may come from another locator.
    harness.plane.apply(&Update::Upsert(session(pair)), moorline_types::Instant::ZERO).unwrap();
    let elsewhere = IlvPair::new(pair.remote.at(ELSEWHERE), pair.local);
    let outcome = harness.run("ilnp_ingress", &segment(elsewhere, [theirs, ours], ACK));
    assert_eq!(outcome.packet[8..24], pair.remote.address().octets());
    harness
        .plane
        .apply(&Update::Remove { session: SessionId(1) }, moorline_types::Instant::ZERO)
        .unwrap();
    harness.reports();
    client.write_all(b"here I am").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 9]).unwrap();
    assert_eq!(kind(&harness, pair, (ours, theirs)), (Socket::Connected, true));
    harness.run("ilnp_egress", &segment(pair, [ours, theirs], ACK));
    assert!(matches!(harness.reports()[..], [Report::Candidate { pair: of, .. }] if of == pair));
    // After the end of a connection, its remains are at the end that closed first.
    drop(server);
    drop(client);
    let begin = Instant::now();
    while kind(&harness, pair, (ours, theirs)) != (Socket::Unconnected, true) {
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}

/// The socket of a TCP segment, and whether it has a connection.
fn kind(harness: &Harness, pair: IlvPair, ports: (u16, u16)) -> (Socket, bool) {
    let plane = &harness.plane;
    (plane.socket_kind(pair, TCP, ports).unwrap(), plane.has_connection(pair, TCP, ports))
}

/// A listener whose connections exist only once there is data. Before, the state is as if the last segment of the
/// handshake were missing.
fn deferring(at: SocketAddrV6) -> TcpListener {
    let listener = TcpListener::bind(at).unwrap();
    let seconds: libc::c_int = 30;
    let len = libc::socklen_t::try_from(size_of_val(&seconds)).unwrap();
    let value = (&raw const seconds).cast();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    // SAFETY: the value is a live int, which is what this option wants, and its size is told.
    let status = unsafe { libc::setsockopt(listener.as_raw_fd(), level, name, value, len) };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
    listener
}

/// A segment without data from the first address to the second.
fn segment(addresses: IlvPair, ports: [u16; 2], flags: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 20, TCP, 64];
    packet.extend(addresses.local.address().octets());
    packet.extend(addresses.remote.address().octets());
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0, 9, 0, 0, 0, 0]);
    packet
}

fn session(pair: IlvPair) -> SessionEntry {
    SessionEntry {
        id: SessionId(1),
        pair,
        wire: (pair.local.l64, pair.remote.l64),
        send_nonce: Nonce::Short(*b"ours"),
        attach: false,
        always: false,
        maps_tcp: true,
        settled: true,
        receive_nonce: Some(Nonce::Short(*b"them")),
        remote: [pair.remote.l64, ELSEWHERE].into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    }
}
