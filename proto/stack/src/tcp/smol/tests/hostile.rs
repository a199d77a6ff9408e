use super::*;
use crate::tcp::SynOptions;
use proptest::prelude::*;

fn source(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8_0bad << 80 | u128::from(n))
}

fn flood(net: &mut Net, syns: core::ops::Range<u32>) {
    for n in syns {
        let syn = segment(Flags::SYN, Seq(n), Seq(0));
        net.inject_from(source(n), syn).unwrap();
    }
}

#[test]
fn a_flood_of_syns_meets_a_bound_and_an_honest_handshake_ends_in_it() {
    let mut net = Net::new(1);
    net.is_logged = false;
    let listener = net.b().listen(None, 80, 128).unwrap();
    flood(&mut net, 0..100_000);
    assert_eq!(net.b().half_open(), MAX_HALF_OPEN);
    assert_eq!(net.b().connections(), 0, "a half-open connection has no buffers");
    assert_eq!(net.b().all().len(), MAX_HALF_OPEN, "half-open connections are shown");
    assert_eq!(net.b().drops().of(Drop::HalfOpen), 100_000 - 4_096);
    // The answers that wait have a bound too. Nobody hears them.
    net.cut = Some(0);
    let mut answers = 0;
    while net.hosts[1].engine.poll_segment(net.now).is_some() {
        answers += 1;
    }
    assert_eq!(answers, MAX_REPLIES);
    net.cut = None;

    // 400,000 SYNs a second: 2,000 arrive in half a round trip.
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    let mut n = 100_000;
    while net.a().state(a) != Ok(State::Established) || net.b().connections() == 0 {
        flood(&mut net, n..n + 2_000);
        n += 2_000;
        net.run(Duration::from_millis(5));
        assert!(n < 120_000, "the handshake never ends");
    }
    assert!(net.b().accept(listener).unwrap().is_some());
    // What nobody answers goes, after 63 s at the latest.
    net.run(Duration::from_secs(64));
    assert_eq!(net.b().half_open(), 0);
    assert_eq!(net.b().poll_timeout(), None);
}

#[test]
fn a_syn_is_answered_six_times_in_a_minute() {
    let mut net = Net::new(2);
    net.b().listen(None, 80, 1).unwrap();
    net.cut = Some(0);
    net.inject(segment(Flags::SYN, Seq(1), Seq(0))).unwrap();
    let start = net.now;
    net.run(Duration::from_secs(120));
    let times: Vec<u64> = net.log.iter().map(|sent| sent.at.since(start).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31]);
    assert_eq!(net.b().half_open(), 0);
    assert_eq!(net.b().drops().of(Drop::HalfOpen), 1);
}

#[test]
fn a_listener_whose_program_does_not_accept_takes_no_more_than_its_backlog() {
    let mut net = Net::new(3);
    let listener = net.b().listen(None, 80, 3).unwrap();
    let now = net.now;
    for n in 0..10 {
        net.a().connect((A, 1_000 + n), (B, 80), now).unwrap();
    }
    net.run(Duration::from_secs(5));
    assert_eq!(net.b().connections(), 3);
    assert!(net.hosts[1].drops.of(Drop::SocketFull) > 0);
    for _ in 0..3 {
        net.b().accept(listener).unwrap().unwrap();
    }
    net.run(Duration::from_secs(10));
    assert_eq!(net.b().connections(), 6, "accepted connections make room");
}

#[test]
fn a_listener_answers_nothing_but_syns_and_acknowledgments() {
    let mut net = Net::new(4);
    net.b().listen(None, 80, 3).unwrap();
    for flags in [Flags::RST, Flags::FIN, Flags(0), Flags::SYN.with(Flags::FIN), Flags::ACK] {
        assert_eq!(net.inject(segment(flags, Seq(1), Seq(1))), Err(Drop::NoSocket));
    }
    net.flush();
    assert_eq!((net.log.len(), net.b().half_open()), (0, 0));
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let syn = segment(Flags::SYN, Seq(1), Seq(0));
    assert_eq!(net.inject_from(group, syn), Err(Drop::BadSource));
    assert_eq!(net.inject_from(Ipv6Addr::UNSPECIFIED, syn), Err(Drop::BadSource));
    let header = Header::new(A, group, TCP, 64, 0);
    let now = net.now;
    let handled = net.b().handle_segment(&header, &mut syn.to_packet(), now);
    assert_eq!(handled, Err(Drop::NotOurs));
}

#[test]
fn a_half_open_connection_takes_only_what_belongs_to_it() {
    let mut net = Net::new(5);
    net.b().listen(None, 80, 3).unwrap();
    net.cut = Some(0);
    net.inject(segment(Flags::SYN, Seq(100), Seq(0))).unwrap();
    net.flush();
    let isn = net.log[0].segment().sequence;
    // A wrong acknowledgment has an RST as its answer, and the connection stays (RFC 9293 s3.10.7.4).
    assert_eq!(net.inject(segment(Flags::ACK, Seq(101), isn)), Err(Drop::NoSocket));
    assert_eq!(net.inject(segment(Flags::ACK, Seq(101), isn + 2)), Err(Drop::NoSocket));
    assert_eq!(net.inject(segment(Flags::ACK, Seq(100), isn + 1)), Err(Drop::Sequence));
    assert_eq!(net.inject(segment(Flags::ACK, Seq(101 + 65_536), isn + 1)), Err(Drop::Sequence));
    assert_eq!(net.inject(segment(Flags::RST, Seq(102), Seq(0))), Err(Drop::Sequence));
    assert_eq!(net.inject(segment(Flags(0), Seq(101), Seq(0))), Err(Drop::Sequence));
    assert_eq!(net.inject(segment(Flags(0x12), Seq(100), isn + 1)), Err(Drop::Sequence));
    assert_eq!((net.b().half_open(), net.b().connections()), (1, 0));
    // The same SYN has the same answer, another SYN another one.
    net.inject(segment(Flags::SYN, Seq(100), Seq(0))).unwrap();
    net.now = net.now + Duration::from_millis(500);
    net.inject(segment(Flags::SYN, Seq(900), Seq(0))).unwrap();
    net.flush();
    let [first, again, other] = [0, 1, 2].map(|at: usize| net.log[at].segment());
    assert_eq!(first, again);
    assert_eq!(other.acknowledgment, Seq(901));
    assert_ne!(other.sequence, isn);
    assert_eq!(net.b().half_open(), 1);
    net.inject(segment(Flags::RST, Seq(901), Seq(0))).unwrap();
    assert_eq!(net.b().half_open(), 0);
}

#[test]
fn a_reset_outside_the_window_changes_nothing() {
    let mut net = Net::new(6);
    let (_, b) = net.connected();
    let next = net.log[0].segment().sequence + 1;
    for sequence in [Seq(next.0.wrapping_sub(1)), next + 0x8000_0000, next + 300_000] {
        let _ = net.inject(segment(Flags::RST, sequence, Seq(0)));
        assert_eq!(net.b().state(b), Ok(State::Established), "{sequence:?}");
    }
    let _ = net.inject(segment(Flags::RST, next, Seq(0)));
    assert_eq!(net.b().state(b), Ok(State::Closed));
}

/// RFC 5961 s3.2: an attacker has to guess the exact number.
#[test]
fn a_reset_in_the_window_draws_a_challenge_and_ends_nothing() {
    let mut net = Net::new(6);
    let (_, b) = net.connected();
    net.run(Duration::from_secs(2));
    let next = net.log[0].segment().sequence + 1;
    for ahead in [1, 100, 30_000] {
        net.log.clear();
        assert_eq!(net.inject(segment(Flags::RST, next + ahead, Seq(0))), Err(Drop::Sequence));
        net.flush();
        assert_eq!(net.b().state(b), Ok(State::Established), "{ahead}");
        let challenge = net.log.pop().expect("a challenge ACK");
        let challenge = challenge.segment();
        assert_eq!((challenge.flags, challenge.acknowledgment), (Flags::ACK, next), "{ahead}");
        assert!(challenge.payload.is_empty());
        net.run(Duration::from_secs(2));
    }
    assert_eq!(net.inject(segment(Flags::RST, next + 300_000, Seq(0))), Err(Drop::Sequence));
}

/// RFC 9293 s3.5.1: the peer has lost the connection and opens it anew. Its RST ends the old one.
#[test]
fn a_peer_that_begins_anew_learns_of_the_old_connection_and_resets_it() {
    let mut net = Net::new(6);
    let (_, b) = net.connected();
    net.run(Duration::from_secs(2));
    for sequence in [Seq(5), net.log[0].segment().sequence + 1 + 50_000_000] {
        net.log.clear();
        assert_eq!(net.inject(segment(Flags::SYN, sequence, Seq(0))), Err(Drop::Sequence));
        net.flush();
        let sent = net.log.pop().expect("a challenge ACK");
        assert_eq!(sent.segment().flags, Flags::ACK);
        assert_eq!(net.b().state(b), Ok(State::Established));
        net.run(Duration::from_secs(2));
        if sequence != Seq(5) {
            let number = sent.segment().acknowledgment;
            net.inject(segment(Flags::RST, number, Seq(0))).unwrap();
        }
    }
    assert_eq!(net.b().state(b), Ok(State::Closed));
}

#[test]
fn octets_that_are_no_segment_are_dropped() {
    let mut net = Net::new(7);
    net.connected();
    let header = Header::new(A, B, TCP, 64, 0);
    let now = net.now;
    for len in [0, 3, 19] {
        let mut octets = PacketBuf::copy_of(&vec![0x11; len]);
        assert_eq!(net.b().handle_segment(&header, &mut octets, now), Err(Drop::Truncated));
    }
    let mut octets = PacketBuf::copy_of(&[0x11; 20]);
    assert_eq!(net.b().handle_segment(&header, &mut octets, now), Err(Drop::Malformed));
}

#[test]
fn time_wait_and_listeners_have_limits() {
    let mut net = Net::new(8);
    for port in 1..=4_096 {
        net.b().listen(None, port, usize::MAX).unwrap();
    }
    assert_eq!(net.b().listen(None, 5_000, 1), Err(Error::NoBuffers));
    let mut waits = TimeWaits::default();
    let flow = |n: u32| Flow { local: (B, 80), peer: (source(n), 1) };
    let wait = |n: u32| time_wait::TimeWait {
        sent: Seq(0),
        received: Seq(0),
        until: Instant::from_nanos(1_000 + u64::from(n)),
    };
    let limit = u32::try_from(MAX_TIME_WAIT).unwrap();
    for n in 0..=limit {
        waits.insert(flow(n), wait(n), Instant::from_nanos(1));
    }
    assert!(!waits.contains(&flow(0)), "the one with the least time left is gone");
    assert!((1..=limit).all(|n| waits.contains(&flow(n))));
}

#[test]
fn octets_beyond_the_receive_buffer_are_not_taken() {
    // smoltcp takes the window of its SYN for a shifted one (see `receive_buffer`).
    for buffer in [1, 1_000, 65_535, 65_536, 100_000, 262_144, 1_000_000] {
        let config = Config { receive_buffer: buffer, ..Config::default() };
        let b = SmolEngine::new(config, ChaCha20Rng::seed_from_u64(11));
        let taken = b.config.receive_buffer;
        assert!(taken <= buffer && taken >= buffer / 2);
        let mut net = Net::with(engine(10), b, 10);
        net.b().listen(None, 80, 1).unwrap();
        net.cut = Some(0);
        let options = SynOptions { window_scale: Some(7), ..SynOptions::default() }.octets();
        let syn = Segment { options: &options, ..segment(Flags::SYN, Seq(0), Seq(0)) };
        net.inject(syn).unwrap();
        net.flush();
        let next = net.log[0].segment().sequence + 1;
        // The last octet of the buffer and one more, then all octets before.
        let offset = u32::try_from(taken).unwrap();
        let late = Segment { payload: b"yz", ..segment(Flags::ACK, Seq(offset), next) };
        let _ = net.inject(late);
        let payload = vec![b'x'; 1_000];
        for at in (0..taken).step_by(1_000) {
            let payload = &payload[..1_000.min(taken - at)];
            let sequence = Seq(u32::try_from(at).unwrap() + 1);
            let _ = net.inject(Segment { payload, ..segment(Flags::ACK, sequence, next) });
        }
        let id = *net.b().connections.keys().next().unwrap();
        let (read, _) = net.read(1, id);
        let end = read.iter().position(|octet| *octet != b'x').unwrap_or(read.len());
        assert!(
            read.len() - end <= 1 && end >= (taken - taken / 100).saturating_sub(4),
            "{buffer}: {end}"
        );
        assert!(read[end..].iter().all(|octet| *octet == b'y'));
    }
}

/// RFC 9293 s3.10.7.4, RFC 5961 s3 to s5.
#[test]
fn each_segment_that_changes_nothing_is_counted_and_answered_as_the_rfc_says() {
    let (ack, fin) = (Flags::ACK, Flags::ACK.with(Flags::FIN));
    // Flags, sequence number behind RCV.NXT, acknowledgment behind SND.NXT, octets, and whether an answer comes.
    let cases: [(Flags, u32, u32, &[u8], bool); 12] = [
        (ack, 300_000, 0, b"", true),
        (ack, 0_u32.wrapping_sub(1), 0, b"", true),
        (ack, 0_u32.wrapping_sub(70_000), 0, b"", true),
        (ack, 300_000, 0, b"beyond", true),
        (ack, 0_u32.wrapping_sub(5), 0, b"again", true),
        (fin, 0_u32.wrapping_sub(5), 0, b"", true),
        (Flags(0), 0, 0, b"no ACK", false),
        (ack, 0, 1, b"not sent", true),
        (ack, 0, 0x8000_0000, b"old", true),
        (ack, 0, 0_u32.wrapping_sub(1_000_000), b"old", true),
        (Flags::RST, 300_000, 0, b"", false),
        (Flags::SYN, 9, 0, b"", true),
    ];
    for (flags, ahead, number, payload, is_answered) in cases {
        let mut net = Net::new(12);
        let (_, b) = net.connected();
        net.run(Duration::from_secs(2));
        let [next, sent] = [0, 1].map(|at: usize| net.log[at].segment().sequence + 1);
        net.log.clear();
        let refused = Segment { payload, ..segment(flags, next + ahead, sent + number) };
        assert_eq!(net.inject(refused), Err(Drop::Sequence), "{flags:?} {ahead} {number}");
        net.flush();
        let answer = net.log.pop();
        assert_eq!(answer.is_some(), is_answered, "{flags:?} {ahead} {number}");
        if let Some(answer) = answer {
            let answer = answer.segment();
            assert_eq!((answer.flags, answer.sequence), (Flags::ACK, sent));
            assert_eq!(answer.acknowledgment, next);
        }
        assert_eq!(net.b().state(b), Ok(State::Established));
        assert_eq!(net.read(1, b).0, b"");
    }
}

#[test]
fn a_connection_sends_ten_challenges_at_once_and_two_a_second_after_them() {
    // RFC 5961 s7.
    let mut net = Net::new(13);
    net.connected();
    net.run(Duration::from_secs(2));
    let [next, sent] = [0, 1].map(|at: usize| net.log[at].segment().sequence + 1);
    net.cut = Some(0);
    net.log.clear();
    for _ in 0..200 {
        let _ = net.inject(segment(Flags::ACK, next + 300_000, sent));
        net.run(Duration::from_millis(50));
    }
    assert!((28..=30).contains(&net.log.len()), "{}", net.log.len());
    // A retransmission always has its answer.
    let _ = net.inject(Segment { payload: b"again", ..segment(Flags::ACK, Seq(next.0 - 5), sent) });
    let before = net.log.len();
    net.flush();
    assert_eq!(net.log.len(), before + 1);
}

#[test]
fn octets_with_an_old_acknowledgment_are_taken() {
    // RFC 9293 s3.10.7.4: two segments of the peer have changed places.
    let mut net = Net::new(14);
    let (_, b) = net.connected();
    net.run(Duration::from_secs(1));
    let [next, sent] = [0, 1].map(|at: usize| net.log[at].segment().sequence + 1);
    net.b().send(b, b"hello").unwrap();
    net.flush();
    net.inject(segment(Flags::ACK, next, sent + 5)).unwrap();
    net.inject(Segment { payload: b"late", ..segment(Flags::ACK, next, sent) }).unwrap();
    assert_eq!(net.read(1, b).0, b"late");
    assert_eq!(net.inject(segment(Flags::ACK, next + 4, sent)), Err(Drop::Sequence));
}

#[test]
fn segments_with_more_holes_than_the_engine_keeps_are_counted() {
    let mut net = Net::new(15);
    net.connected();
    net.run(Duration::from_secs(1));
    let [next, sent] = [0, 1].map(|at: usize| net.log[at].segment().sequence + 1);
    let results: Vec<_> = (1..=40)
        .map(|n| net.inject(Segment { payload: b"x", ..segment(Flags::ACK, next + 2 * n, sent) }))
        .collect();
    assert_eq!(results[..31], [Ok(()); 31]);
    assert_eq!(results[39], Err(Drop::SocketFull));
}

#[test]
fn an_answer_to_a_syn_that_is_none_is_counted() {
    let mut net = Net::new(16);
    net.cut = Some(1);
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    net.flush();
    let isn = net.log[0].segment().sequence;
    for (flags, acknowledgment) in [
        (Flags::RST, Seq(0)),
        (Flags::RST.with(Flags::ACK), isn),
        (Flags::SYN.with(Flags::ACK), isn),
        (Flags::ACK, isn + 1),
        (Flags::FIN, isn + 1),
    ] {
        let mut refused = segment(flags, Seq(7), acknowledgment);
        (refused.source_port, refused.destination_port) = (FLOW.peer.1, FLOW.local.1);
        let header = Header::new(B, A, TCP, 64, 0);
        let handled = net.a().handle_segment(&header, &mut refused.to_packet(), now);
        assert_eq!(handled, Err(Drop::Sequence), "{flags:?}");
        assert_eq!(net.a().state(a), Ok(State::SynSent));
    }
}

/// Connections that B has after many handshakes of these peers.
fn accept_all(net: &mut Net, listener: ListenerId, peers: impl Iterator<Item = Ipv6Addr>) -> usize {
    let before = net.b().connections();
    for (n, peer) in peers.enumerate() {
        let port = u16::try_from(1 + n % 60_000).unwrap();
        let syn = Segment { source_port: port, ..segment(Flags::SYN, Seq(0), Seq(0)) };
        net.inject_from(peer, syn).unwrap();
        let answer = net.hosts[1].engine.poll_segment(net.now).expect("a SYN-ACK").segment;
        let isn = Segment::parse(&answer).unwrap().sequence;
        let ack = Segment { source_port: port, ..segment(Flags::ACK, Seq(1), isn + 1) };
        let result = net.inject_from(peer, ack);
        assert!(matches!(result, Ok(()) | Err(Drop::SocketFull)), "{result:?}");
        let _ = net.b().accept(listener).unwrap();
        while net.hosts[1].engine.poll_segment(net.now).is_some() {}
    }
    net.b().connections() - before
}

#[test]
fn one_peer_holds_a_fifth_of_the_connections_and_its_link_a_half() {
    let config = Config { receive_buffer: 1_000, send_buffer: 1_000, max_connections: 1_000 };
    let b = SmolEngine::new(config, ChaCha20Rng::seed_from_u64(18));
    let mut net = Net::with(engine(17), b, 17);
    let listener = net.b().listen(None, 80, 4_096).unwrap();
    let at = |site: u32, host: u32| {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(site) << 80 | u128::from(host))
    };
    assert_eq!(accept_all(&mut net, listener, (0..1_500).map(|_| at(1, 1))), 200);
    assert_eq!(accept_all(&mut net, listener, (2..1_500).map(|host| at(1, host))), 300);
    // Others find room still, each as much as is free.
    assert_eq!(accept_all(&mut net, listener, (0..1_500).map(|_| at(2, 1))), 100);
    assert_eq!(accept_all(&mut net, listener, (10..110).map(|site| at(site, 1))), 100);
    let ids: Vec<TcpId> = net.b().connections.keys().copied().collect();
    for id in ids {
        net.b().abort(id).unwrap();
        net.b().close(id).unwrap();
    }
    while net.hosts[1].engine.poll_segment(net.now).is_some() {}
    assert_eq!(net.b().connections(), 0);
    assert_eq!(accept_all(&mut net, listener, (2_000..3_000).map(|host| at(1, host))), 500);
}

/// A segment near the numbers of the connection, as an attacker on the path makes it.
fn any_segment() -> impl Strategy<Value = (u8, u32, u32, u16, Vec<u8>, Vec<u8>)> {
    let near = || {
        prop_oneof![
            4 => (0_u32..64).prop_map(|n| n.wrapping_sub(32)),
            2 => 0_u32..400_000,
            1 => any::<u32>(),
        ]
    };
    let window = prop_oneof![Just(0), Just(u16::MAX), any::<u16>()];
    let options = proptest::collection::vec(0_u8..12, 0..10).prop_map(|mut options| {
        options.resize(options.len().div_ceil(4) * 4, 0);
        options
    });
    let payload = proptest::collection::vec(any::<u8>(), 0..100);
    (any::<u8>(), near(), near(), window, options, payload)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_segments_makes_the_engine_panic_or_grow(
        segments in proptest::collection::vec((any_segment(), 0_u8..8, 0_u64..3_000), 1..60),
        is_closing: bool,
    ) {
        let mut net = Net::new(9);
        let (a, b) = net.connected();
        net.run(Duration::from_secs(1));
        let [sequence, acknowledgment] = [0, 1].map(|at: usize| net.log[at].segment().sequence + 1);
        net.cut = Some(0);
        net.b().send(b, &pattern(3_000, 1)).unwrap();
        if is_closing {
            net.b().shutdown(b).unwrap();
        }
        for ((flags, seq, ack, window, options, payload), action, time) in segments {
            let hostile = Segment {
                flags: Flags(flags),
                sequence: sequence + seq,
                acknowledgment: acknowledgment + ack,
                window,
                options: &options,
                payload: &payload,
                ..segment(Flags::ACK, Seq(0), Seq(0))
            };
            let _ = net.inject(hostile);
            match action {
                0 => drop(net.read(1, b)),
                1 => { let _ = net.b().send(b, b"more"); }
                2 => net.run(Duration::from_millis(time)),
                3 => { let now = net.now; let _ = net.b().handle_move(Flow { local: FLOW.peer, peer: FLOW.local }, now); }
                _ => net.flush(),
            }
        }
        prop_assert!(net.b().connections() <= 2 && net.b().half_open() <= 1);
        net.b().close(b).unwrap();
        let _ = net.a().abort(a);
        net.run(Duration::from_secs(1_000));
        prop_assert_eq!(net.b().connections(), 0);
    }
}
