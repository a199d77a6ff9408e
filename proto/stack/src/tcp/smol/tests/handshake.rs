use super::*;
use crate::tcp::SynOptions;

#[test]
fn a_connection_opens_with_three_segments_and_tells_both_ends() {
    let mut net = Net::new(1);
    let (a, b) = net.connected();
    let flags: Vec<Flags> = net.log.iter().map(|sent| sent.segment().flags).collect();
    assert_eq!(flags, [Flags::SYN, Flags(0x12), Flags::ACK]);
    net.run(Duration::from_secs(1));
    assert_eq!(net.log.len(), 3, "nothing follows");
    assert_eq!([net.a().state(a), net.b().state(b)], [Ok(State::Established); 2]);
    assert_eq!(net.hosts[0].events, [Event::Reachable(FLOW), Event::Established(a)]);
    let acceptable = |event: &Event| matches!(event, Event::Acceptable(_));
    assert_eq!(net.hosts[1].events.iter().filter(|event| acceptable(event)).count(), 1);
    assert_eq!(net.a().flow(a), Ok(FLOW));
    assert_eq!(net.b().flow(b), Ok(Flow { local: FLOW.peer, peer: FLOW.local }));
}

#[test]
fn both_syns_have_the_number_of_rfc9293_and_their_options() {
    let mut net = Net::new(2);
    let wanted = [
        net.hosts[0].engine.isn.of(FLOW, net.now),
        net.hosts[1]
            .engine
            .isn
            .of(Flow { local: FLOW.peer, peer: FLOW.local }, net.now + Duration::from_millis(5)),
    ];
    net.connected();
    let syns = [net.log[0].segment(), net.log[1].segment()];
    assert_eq!(syns.map(|syn| syn.sequence), wanted, "RFC 9293 s3.4.1");
    let options = SynOptions { mss: Some(1_440), window_scale: Some(2), is_sack_permitted: true };
    assert_eq!(syns.map(|syn| SynOptions::parse(syn.options)), [options; 2]);
    assert_eq!(syns.map(|syn| syn.window), [u16::MAX; 2]);
}

#[test]
fn numbers_of_a_thousand_connections_are_those_of_their_seeds() {
    // The computation of seeds backwards must hold for every number, not by chance.
    let mut engine = engine(3);
    for port in 1..=1_000 {
        let now = Instant::from_nanos(u64::from(port) * 1_000_003);
        engine.connect((A, port), (B, 80), now).unwrap();
        let syn = engine.poll_segment(now).unwrap();
        let wanted = engine.isn.of(Flow { local: (A, port), peer: (B, 80) }, now);
        assert_eq!(Segment::parse(&syn.segment).unwrap().sequence, wanted);
        assert_eq!(engine.poll_segment(now), None);
    }
}

#[test]
fn our_syn_ack_is_the_one_that_smoltcp_takes_for_sent() {
    let now = Instant::from_nanos(5_000);
    for (options, buffer) in [
        (SynOptions { mss: Some(1_000), window_scale: Some(2), is_sack_permitted: true }, 262_144),
        (SynOptions { mss: None, window_scale: Some(0), is_sack_permitted: false }, 65_535),
        (SynOptions { mss: Some(9_000), window_scale: None, is_sack_permitted: true }, 100_000),
        (SynOptions::default(), 1_000),
    ] {
        let octets = options.octets();
        let syn = Segment { options: &octets, ..segment(Flags::SYN, Seq(77), Seq(0)) };
        let half = HalfOpen::new(ListenerId(0), &syn, Seq(0x8000_0001), now);
        let flow = Flow { local: FLOW.peer, peer: FLOW.local };
        let ours = half.syn_ack(flow, 1_440, buffer);

        // smoltcp with a socket that listens, alone.
        let config = Config { receive_buffer: buffer, ..Config::default() };
        let seed = Isn::new(ChaCha20Rng::seed_from_u64(4)).seed(half.isn);
        let mut interface = device::interface(seed);
        let (connection, theirs) =
            Connection::accepted_with_syn_ack(flow, &half, &config, 1_440, &mut interface).unwrap();
        let [ours, theirs] = [&ours, &theirs].map(|segment| Segment::parse(segment).unwrap());
        assert_eq!(SynOptions::parse(ours.options), SynOptions::parse(theirs.options));
        let fields = |segment: &Segment<'_>| {
            (segment.sequence, segment.acknowledgment, segment.flags, segment.window)
        };
        assert_eq!(fields(&ours), fields(&theirs));
        assert_eq!(connection.state(), State::SynReceived);
    }
}

#[test]
fn a_lost_segment_of_the_handshake_is_sent_again() {
    for lost in 0..3 {
        let mut net = Net::new(5);
        let listener = net.b().listen(Some(B), 80, 1).unwrap();
        let now = net.now;
        let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
        // The wire is cut while the segment is sent.
        for at in 0..3 {
            net.cut = (at == lost).then_some(1 - at % 2);
            net.flush();
            net.cut = None;
            let end = net.now + net.delay;
            net.step(end);
        }
        net.until(|net| net.a().state(a) == Ok(State::Established));
        let mut b = None;
        net.until(|net| {
            b = b.or_else(|| net.b().accept(listener).unwrap());
            b.is_some()
        });
        let waited = net.now.since(now);
        assert!(waited < Duration::from_millis(1_100), "{lost}: {waited:?}");
        assert_eq!(net.b().state(b.unwrap()), Ok(State::Established));
    }
}

#[test]
fn a_program_that_speaks_first_needs_no_segment_of_the_peer_behind_the_handshake() {
    // The last segment of the handshake is lost. The SYN-ACK comes again, and the peer acknowledges it again.
    let mut net = Net::new(6);
    let listener = net.b().listen(None, 80, 1).unwrap();
    let now = net.now;
    net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    net.until(|net| net.log.len() == 2);
    net.cut = Some(1);
    net.until(|net| net.log.len() == 3);
    net.cut = None;
    let mut b = None;
    net.until(|net| {
        b = b.or_else(|| net.b().accept(listener).unwrap());
        b.is_some()
    });
    assert!(net.now.since(now) < Duration::from_millis(1_100));
}

#[test]
fn a_listener_of_an_address_comes_before_one_of_all() {
    let mut net = Net::new(7);
    let all = net.b().listen(None, 80, 4).unwrap();
    let other = net.b().listen(Some(A), 80, 4).unwrap();
    let one = net.b().listen(Some(B), 80, 4).unwrap();
    net.connected_to(one, FLOW);
    assert_eq!(net.b().accept(all), Ok(None));
    assert_eq!(net.b().accept(other), Ok(None));
    assert_eq!(net.b().listen(Some(B), 80, 4), Err(Error::AddrInUse));
    net.b().unlisten(one).unwrap();
    assert_eq!(net.b().unlisten(one), Err(Error::BadHandle));
    assert_eq!(net.b().accept(one), Err(Error::BadHandle));
    net.connected_to(all, Flow { local: (A, 50_001), ..FLOW });
    assert_eq!(net.b().listen(None, 0, 1), Err(Error::Invalid));
}

#[test]
fn two_ends_that_connect_to_each_other_share_one_connection() {
    // RFC 9293 s3.5, MUST-10: simultaneous open.
    let mut net = Net::new(8);
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    let b = net.b().connect(FLOW.peer, FLOW.local, now).unwrap();
    net.until(|net| [net.a().state(a), net.b().state(b)] == [Ok(State::Established); 2]);
    net.a().send(a, b"hello").unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.read(1, b), (b"hello".to_vec(), Err(Error::WouldBlock)));
    assert!(net.hosts[0].events.contains(&Event::Established(a)));
    assert!(net.hosts[1].events.contains(&Event::Established(b)));
}

#[test]
fn a_flow_is_used_once_and_needs_real_ends() {
    let mut engine = engine(9);
    let now = Instant::from_nanos(1);
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    for (local, peer) in [
        ((A, 0), (B, 80)),
        ((A, 1), (B, 0)),
        ((A, 1), (group, 80)),
        ((A, 1), (Ipv6Addr::UNSPECIFIED, 80)),
        ((Ipv6Addr::UNSPECIFIED, 1), (B, 80)),
    ] {
        assert_eq!(engine.connect(local, peer, now), Err(Error::Invalid));
    }
    assert!(engine.is_free(FLOW));
    engine.connect(FLOW.local, FLOW.peer, now).unwrap();
    assert!(!engine.is_free(FLOW));
    assert_eq!(engine.connect(FLOW.local, FLOW.peer, now), Err(Error::AddrInUse));
    engine.config.max_connections = 1;
    assert_eq!(engine.connect((A, 1), (B, 80), now), Err(Error::NoBuffers));
}

#[test]
fn equal_seeds_and_inputs_give_equal_octets() {
    let log = |seed| {
        let mut net = Net::new(seed);
        net.faults = Faults { loss: 50, copy: 50, delay: 200 };
        let (a, b) = net.connected();
        net.a().send(a, &pattern(100_000, 1)).unwrap();
        net.run(Duration::from_secs(20));
        let _ = net.read(1, b);
        net.b().close(b).unwrap();
        net.run(Duration::from_secs(20));
        net.log
    };
    assert_eq!(log(1), log(1));
    assert_ne!(log(1), log(2));
}

#[test]
fn v4_mapped_addresses_are_addresses() {
    let mapped = |last| core::net::Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped();
    let mut net = Net::new(10);
    let listener = net.b().listen(None, 80, 1).unwrap();
    let flow = Flow { local: (mapped(1), 50_000), peer: (mapped(2), 80) };
    let (a, b) = net.connected_to(listener, flow);
    net.a().send(a, b"hello").unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.read(1, b).0, b"hello");
}

//= rfc8201#5.4-4 rfc8201#5.4-5 (test)
#[test]
fn the_mss_of_a_syn_follows_the_engine_and_that_of_the_peer_bounds_segments() {
    let mut net = Net::new(11);
    net.b().set_mss(1_220);
    net.mss = 8_940;
    net.a().set_mss(8_940);
    let (a, b) = net.connected();
    let mss = |sent: &Sent| SynOptions::parse(sent.segment().options).mss;
    assert_eq!([mss(&net.log[0]), mss(&net.log[1])], [Some(8_940), Some(1_220)]);
    net.a().send(a, &pattern(50_000, 1)).unwrap();
    net.run(Duration::from_secs(5));
    let largest = net.log.iter().map(|sent| sent.segment().payload.len()).max();
    assert_eq!(largest, Some(1_220));
    assert_eq!(net.read(1, b).0, pattern(50_000, 1));
}

#[test]
fn a_syn_that_comes_again_late_leaves_time_for_its_answer() {
    let mut net = Net::new(11);
    let listener = net.b().listen(None, 80, 1).unwrap();
    // No SYN-ACK arrives: the last one leaves after 31 s, and the listener waits 32 s for its answer.
    net.cut = Some(0);
    net.inject(segment(Flags::SYN, Seq(1), Seq(0))).unwrap();
    net.run(Duration::from_millis(62_900));
    assert_eq!(net.b().half_open(), 1);
    net.inject(segment(Flags::SYN, Seq(1), Seq(0))).unwrap();
    net.flush();
    let isn = net.log.last().unwrap().segment().sequence;
    net.run(Duration::from_secs(1));
    assert_eq!(net.b().half_open(), 1, "an answer may be under way");
    net.inject(segment(Flags::ACK, Seq(2), isn + 1)).unwrap();
    assert!(net.b().accept(listener).unwrap().is_some());
}

#[test]
fn a_half_open_connection_whose_syn_never_comes_again_ends() {
    let mut net = Net::new(12);
    net.b().listen(None, 80, 1).unwrap();
    net.cut = Some(0);
    net.inject(segment(Flags::SYN, Seq(1), Seq(0))).unwrap();
    net.run(Duration::from_millis(62_900));
    net.inject(segment(Flags::SYN, Seq(1), Seq(0))).unwrap();
    net.run(Duration::from_millis(32_100));
    assert_eq!(net.b().half_open(), 0);
}
