use super::*;
use alloc::vec;
use rand_core::SeedableRng as _;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const A2: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x77);

fn sockets() -> Sockets {
    Sockets::new(ChaCha20Rng::seed_from_u64(1))
}

fn deliver_from(
    sockets: &mut Sockets,
    source: (Ipv6Addr, u16),
    destination: (Ipv6Addr, u16),
    payload: &[u8],
) -> Result<(), Drop> {
    let header = Header { traffic_class: 0xb8, ..Header::new(source.0, destination.0, 17, 61, 0) };
    sockets.handle_datagram(Incoming {
        header: &header,
        wire: 3,
        source_port: source.1,
        destination_port: destination.1,
        payload: 0..payload.len(),
        packet: &mut payload.to_vec().into(),
    })
}

fn deliver(sockets: &mut Sockets, destination: (Ipv6Addr, u16)) -> Result<(), Drop> {
    deliver_from(sockets, (B, 9), destination, b"hello")
}

//= rfc8504#5.12-1 (test)
#[test]
fn a_program_sees_the_datagram_and_what_its_packet_said() {
    let mut sockets = sockets();
    let id = sockets.bind(None, Some(53)).unwrap();
    assert_eq!(sockets.recv(id), Err(Error::WouldBlock));
    assert_eq!(sockets.is_readable(id), Ok(false));
    deliver(&mut sockets, (A, 53)).unwrap();
    assert_eq!(sockets.is_readable(id), Ok(true));
    let wanted = Received {
        payload: b"hello".to_vec().into(),
        source: B,
        source_port: 9,
        destination: A,
        wire: 3,
        hop_limit: 61,
        traffic_class: 0xb8,
    };
    assert_eq!(sockets.recv(id), Ok(wanted));
    assert_eq!(sockets.recv(id), Err(Error::WouldBlock));
    assert_eq!(deliver(&mut sockets, (A, 54)), Err(Drop::NoSocket));
}

#[test]
fn the_most_specific_socket_gets_the_datagram() {
    let mut sockets = sockets();
    let wildcard = sockets.bind(None, Some(53)).unwrap();
    let bound = sockets.bind(Some(A), Some(53)).unwrap();
    let connected = sockets.bind_shared(Some(A), 54).unwrap();
    let shared = sockets.bind_shared(Some(A), 54).unwrap();
    sockets.connect(connected, A2, (B, 9)).unwrap();
    assert_eq!(sockets.local(connected), Ok((Some(A), 54)), "the bound address stays");

    deliver(&mut sockets, (A, 53)).unwrap();
    deliver(&mut sockets, (A2, 53)).unwrap();
    deliver_from(&mut sockets, (B, 9), (A, 54), b"peer").unwrap();
    deliver_from(&mut sockets, (B, 10), (A, 54), b"other").unwrap();
    let mut read = |id| (sockets.recv(id).unwrap(), sockets.recv(id).is_err());
    assert_eq!(read(bound).0.destination, A);
    assert_eq!(read(wildcard).0.destination, A2);
    assert_eq!(*read(connected).0.payload, *b"peer");
    let (last, is_alone) = read(shared);
    assert!(*last.payload == *b"other" && is_alone);
}

#[test]
fn a_connected_socket_receives_from_its_peer_only() {
    let mut sockets = sockets();
    let id = sockets.bind(None, None).unwrap();
    let (_, port) = sockets.local(id).unwrap();
    deliver_from(&mut sockets, (A2, 9), (A, port), b"stranger").unwrap();
    deliver_from(&mut sockets, (B, 9), (A, port), b"peer").unwrap();
    sockets.connect(id, A, (B, 9)).unwrap();
    assert_eq!(*sockets.recv(id).unwrap().payload, *b"peer", "the stranger's datagram is gone");
    assert_eq!(sockets.recv(id), Err(Error::WouldBlock));
    assert_eq!(deliver_from(&mut sockets, (A2, 9), (A, port), b"x"), Err(Drop::NoSocket));
    assert_eq!(deliver_from(&mut sockets, (B, 8), (A, port), b"x"), Err(Drop::NoSocket));
    assert_eq!(deliver_from(&mut sockets, (B, 9), (A2, port), b"x"), Err(Drop::NoSocket));
    assert_eq!(sockets.peer(id), Ok((B, 9)));
    assert_eq!(sockets.connect(id, A, (B, 9)), Err(Error::AlreadyConnected));
}

/// The search finds the pair among its neighbors in the order of the index: equal addresses at one end, and ends that are exchanged.
#[test]
fn a_pair_of_addresses_has_a_connection_until_its_last_socket_is_closed() {
    let mut sockets = sockets();
    let pairs = [(A, B), (A, A2), (A2, B), (B, A)];
    let mut all = Vec::new();
    for (local, peer) in pairs {
        for port in [9, 65_535] {
            let id = sockets.bind(None, None).unwrap();
            assert_eq!(sockets.is_any_between(local, peer), port != 9, "{local} {peer}");
            sockets.connect(id, local, (peer, port)).unwrap();
            all.push((id, (local, peer)));
        }
    }
    while let Some((id, (local, peer))) = all.pop() {
        assert!(sockets.is_any_between(local, peer));
        sockets.close(id).unwrap();
        let is_left = |pair| all.iter().any(|(_, other)| *other == pair);
        for pair in pairs {
            assert_eq!(sockets.is_any_between(pair.0, pair.1), is_left(pair), "{pair:?}");
        }
    }
}

#[test]
fn addresses_and_ports_are_used_once() {
    let mut sockets = sockets();
    let first = sockets.bind(Some(A), Some(53)).unwrap();
    assert_eq!(sockets.bind(Some(A), Some(53)), Err(Error::AddrInUse));
    assert_eq!(sockets.bind_shared(Some(A), 53), Err(Error::AddrInUse));
    assert_eq!(sockets.bind(None, Some(0)), Err(Error::Invalid));
    assert_eq!(sockets.bind(Some(Ipv6Addr::UNSPECIFIED), Some(1)), Err(Error::Invalid));
    sockets.close(first).unwrap();
    let shared = sockets.bind_shared(Some(A), 53).unwrap();
    assert_eq!(sockets.bind(Some(A), Some(53)), Err(Error::AddrInUse));
    let other = sockets.bind_shared(Some(A), 53).unwrap();
    sockets.connect(shared, A, (B, 9)).unwrap();
    assert_eq!(sockets.connect(other, A, (B, 9)), Err(Error::AddrInUse));
    assert_eq!(sockets.connect(other, A, (Ipv6Addr::UNSPECIFIED, 9)), Err(Error::Invalid));
    assert_eq!(sockets.connect(other, A, (B, 0)), Err(Error::Invalid));
}

#[test]
fn a_port_that_the_host_chooses_is_bound_at_no_address() {
    let mut sockets = sockets();
    sockets.ports = Ports::in_range(100..=101, ChaCha20Rng::seed_from_u64(2));
    sockets.bind(Some(A), Some(100)).unwrap();
    let id = sockets.bind(Some(A2), None).unwrap();
    assert_eq!(sockets.local(id), Ok((Some(A2), 101)));
    assert_eq!(sockets.bind(None, None), Err(Error::AddrNotAvailable));
}

#[test]
fn each_member_of_a_group_gets_its_datagrams() {
    let mut sockets = sockets();
    let [first, second, outsider] = [(); 3].map(|()| sockets.bind_shared(None, 5353).unwrap());
    let bound = sockets.bind(Some(A), Some(5353)).unwrap();
    assert_eq!(deliver(&mut sockets, (GROUP, 5353)), Err(Drop::NoSocket));
    assert_eq!(sockets.join(first, GROUP, 3), Ok(true), "the host has to join");
    assert_eq!(sockets.join(second, GROUP, 3), Ok(false));
    assert_eq!(sockets.join(bound, GROUP, 3), Ok(false));
    assert_eq!(sockets.join(outsider, GROUP, 4), Ok(true), "another wire");
    deliver(&mut sockets, (GROUP, 5353)).unwrap();
    assert_eq!(sockets.recv(first).unwrap().destination, GROUP);
    assert_eq!(sockets.recv(second).unwrap().destination, GROUP);
    assert_eq!(sockets.recv(outsider), Err(Error::WouldBlock));
    assert_eq!(sockets.recv(bound), Err(Error::WouldBlock), "the socket is for another address");

    assert_eq!(sockets.leave(first, GROUP, 3), Ok(false));
    assert_eq!(sockets.leave(first, GROUP, 3), Err(Error::AddrNotAvailable));
    assert_eq!(sockets.close(bound), Ok(vec![]));
    assert_eq!(sockets.close(second), Ok(vec![(GROUP, 3)]), "the host has to leave");
    assert_eq!(deliver(&mut sockets, (GROUP, 5353)), Err(Drop::NoSocket));
    assert_eq!(sockets.join(first, A, 3), Err(Error::Invalid));
    assert_eq!(sockets.join(outsider, GROUP, 4), Err(Error::AddrInUse));
}

#[test]
fn a_connected_member_of_a_group_hears_its_peer_alone() {
    let mut sockets = sockets();
    let id = sockets.bind(None, Some(5353)).unwrap();
    sockets.connect(id, A, (B, 9)).unwrap();
    sockets.join(id, GROUP, 3).unwrap();
    let from = |sockets: &mut Sockets, source| deliver_from(sockets, source, (GROUP, 5353), b"x");
    assert_eq!(from(&mut sockets, (A2, 9)), Err(Drop::NoSocket));
    assert_eq!(from(&mut sockets, (B, 8)), Err(Drop::NoSocket));
    assert_eq!(from(&mut sockets, (B, 9)), Ok(()));
}

#[test]
fn a_full_queue_refuses_datagrams_until_the_program_reads() {
    let mut sockets = sockets();
    let [flooded, quiet] = [1, 2].map(|port| sockets.bind(None, Some(port)).unwrap());
    let each = 5 + DATAGRAM_OVERHEAD;
    for _ in 0..RECEIVE_LIMIT / each {
        deliver(&mut sockets, (A, 1)).unwrap();
    }
    assert_eq!(deliver(&mut sockets, (A, 1)), Err(Drop::SocketFull));
    assert_eq!(deliver(&mut sockets, (A, 2)), Ok(()), "another socket has its own queue");
    sockets.recv(flooded).unwrap();
    assert_eq!(deliver(&mut sockets, (A, 1)), Ok(()));
    assert_eq!(deliver(&mut sockets, (A, 1)), Err(Drop::SocketFull));
    sockets.recv(quiet).unwrap();
}

/// Gives a datagram of five octets in memory for `capacity` octets, and returns where its payload is.
fn deliver_in(sockets: &mut Sockets, capacity: usize) -> (Result<(), Drop>, *const u8) {
    let mut packet = PacketBuf::with_capacity(capacity);
    packet.extend(b"headers hello and padding");
    let at = packet[8..].as_ptr();
    let datagram = Incoming {
        header: &Header::new(B, A, 17, 61, 0),
        wire: 3,
        source_port: 9,
        destination_port: 1,
        payload: 8..13,
        packet: &mut packet,
    };
    (sockets.handle_datagram(datagram), at)
}

#[test]
fn a_payload_stays_in_its_memory_unless_that_is_much_larger() {
    let mut sockets = sockets();
    let id = sockets.bind(None, Some(1)).unwrap();
    for (capacity, stays) in [(100, true), (5 + MAX_SPARE, false), (65_535, false)] {
        let (result, at) = deliver_in(&mut sockets, capacity);
        let payload = sockets.recv(id).unwrap().payload;
        assert_eq!((result, &*payload, payload.as_ptr() == at), (Ok(()), &b"hello"[..], stays));
        assert!(payload.memory() <= 5 + MAX_SPARE);
    }
}

#[test]
fn the_memory_of_a_datagram_counts_until_the_program_has_it() {
    let mut sockets = sockets();
    let most = 2 * (96 + 100 + DATAGRAM_OVERHEAD);
    sockets.set_receive_limit(most);
    let id = sockets.bind(None, Some(1)).unwrap();
    let deliver = |sockets: &mut Sockets| deliver_in(sockets, 100).0;
    for _ in 0..3 {
        assert_eq!(
            [(); 3].map(|()| deliver(&mut sockets)),
            [Ok(()), Ok(()), Err(Drop::SocketFull)]
        );
        assert!([(); 2].iter().all(|()| sockets.recv(id).is_ok()));
    }
}

#[test]
fn empty_datagrams_fill_a_queue_too() {
    let mut sockets = sockets();
    sockets.set_receive_limit(2 * DATAGRAM_OVERHEAD);
    sockets.bind(None, Some(1)).unwrap();
    let empty = |sockets: &mut Sockets| deliver_from(sockets, (B, 9), (A, 1), b"");
    assert_eq!([(); 3].map(|()| empty(&mut sockets)), [Ok(()), Ok(()), Err(Drop::SocketFull)]);
}

#[test]
fn a_group_datagram_counts_as_dropped_only_if_no_member_has_room() {
    let mut sockets = sockets();
    sockets.set_receive_limit(DATAGRAM_OVERHEAD + 5);
    let [first, second] = [(); 2].map(|()| sockets.bind_shared(None, 1).unwrap());
    for id in [first, second] {
        sockets.join(id, GROUP, 3).unwrap();
    }
    deliver(&mut sockets, (GROUP, 1)).unwrap();
    assert_eq!(deliver(&mut sockets, (GROUP, 1)), Err(Drop::SocketFull));
    sockets.recv(first).unwrap();
    assert_eq!(deliver(&mut sockets, (GROUP, 1)), Ok(()));
}

#[test]
fn an_icmp_error_is_reported_once_and_to_the_connected_socket_alone() {
    let mut sockets = sockets();
    let id = sockets.bind(None, Some(7)).unwrap();
    let quote = Quote { source: A, source_port: 7, destination: B, destination_port: 9 };
    let refused = Cause::Unreachable(4);
    assert_eq!(sockets.handle_error(quote, refused), Err(Drop::ForeignError));
    sockets.connect(id, A, (B, 9)).unwrap();
    let foreign = Quote { destination_port: 10, ..quote };
    assert_eq!(sockets.handle_error(foreign, refused), Err(Drop::ForeignError));
    sockets.handle_error(quote, refused).unwrap();
    sockets.handle_error(quote, Cause::PacketTooBig(1280)).unwrap();
    assert_eq!(sockets.is_readable(id), Ok(true));
    let sent = sockets.send_to(id, b"x", None, Options::default());
    assert_eq!(sent, Err(Error::ConnectionRefused));
    assert!(sockets.send_to(id, b"x", None, Options::default()).is_ok());
    sockets.handle_error(quote, Cause::Unreachable(0)).unwrap();
    assert_eq!(sockets.recv(id), Err(Error::NetworkUnreachable));
    assert_eq!(sockets.recv(id), Err(Error::WouldBlock));
}

#[test]
fn datagrams_to_send_name_their_ends() {
    let mut sockets = sockets();
    let id = sockets.bind(Some(A), Some(7)).unwrap();
    let options = Options { hop_limit: Some(1), wire: Some(2), ..Options::default() };
    let sent = sockets.send_to(id, b"data", Some((B, 9)), options).unwrap();
    assert_eq!(sent.options, Options { source: Some(A), ..options });
    assert_eq!((sent.destination, sent.datagram.destination_port), (B, 9));
    assert_eq!((sent.datagram.source_port, sent.datagram.payload), (7, &b"data"[..]));
    let mut send = |payload: &[u8], end| sockets.send_to(id, payload, end, options).err();
    assert_eq!(send(b"", None), Some(Error::NotConnected));
    assert_eq!(send(b"", Some((B, 0))), Some(Error::Invalid));
    assert_eq!(send(b"", Some((Ipv6Addr::UNSPECIFIED, 9))), Some(Error::Invalid));
    assert_eq!(send(&vec![0; 65_527], Some((B, 9))), None);
    assert_eq!(send(&vec![0; 65_528], Some((B, 9))), Some(Error::MessageSize(65_527)));
    sockets.connect(id, A, (B, 9)).unwrap();
    let mut send = |end| sockets.send_to(id, b"", end, options).err();
    assert_eq!([send(None), send(Some((B, 9)))], [None, None]);
    assert_eq!(send(Some((B, 10))), Some(Error::AlreadyConnected));
}

#[test]
fn a_group_is_no_source() {
    let mut sockets = sockets();
    let id = sockets.bind(Some(GROUP), Some(7)).unwrap();
    let sent = sockets.send_to(id, b"", Some((B, 9)), Options::default()).unwrap();
    assert_eq!(sent.options.source, None);
}

#[test]
fn a_closed_socket_is_a_bad_handle_and_leaves_no_state() {
    let mut sockets = sockets();
    let id = sockets.bind(None, Some(7)).unwrap();
    sockets.connect(id, A, (B, 9)).unwrap();
    sockets.close(id).unwrap();
    assert_eq!(sockets.close(id), Err(Error::BadHandle));
    assert_eq!(sockets.recv(id), Err(Error::BadHandle));
    assert_eq!(sockets.send_to(id, b"", None, Options::default()), Err(Error::BadHandle));
    assert_eq!(sockets.connect(id, A, (B, 9)), Err(Error::BadHandle));
    assert_eq!(sockets.join(id, GROUP, 3), Err(Error::BadHandle));
    assert_eq!(deliver(&mut sockets, (A, 7)), Err(Drop::NoSocket));
    let again = sockets.bind(None, Some(7)).unwrap();
    assert_ne!(again, id);
    sockets.connect(again, A, (B, 9)).unwrap();
    assert_eq!(sockets.ids().collect::<Vec<_>>(), [again]);
}

#[test]
fn sockets_and_groups_have_limits() {
    let mut sockets = sockets();
    let id = sockets.bind_shared(None, 7).unwrap();
    let group = |n: u128| Ipv6Addr::from_bits(0xff0e << 112 | n);
    for n in 0..1_024 {
        sockets.join(id, group(n), 3).unwrap();
    }
    assert_eq!(sockets.join(id, group(9_999), 3), Err(Error::NoBuffers));
    for n in 1..65_536_u128 {
        sockets.bind(Some(Ipv6Addr::from_bits(1 << 125 | n)), Some(7)).unwrap();
    }
    assert_eq!(sockets.bind(None, Some(8)), Err(Error::NoBuffers));
}
