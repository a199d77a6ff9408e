use super::*;

/// Sends `octets` each way at once, and checks both streams.
fn both_ways(net: &mut Net, octets: usize) {
    let (a, b) = net.connected();
    let streams = [pattern(octets, 1), pattern(octets, 2)];
    let mut sent = [0, 0];
    let mut read = [0, 0];
    let ids = [a, b];
    let mut buffer = vec![0; 65_536];
    net.until(|net| {
        for host in 0..2 {
            let engine = &mut net.hosts[host].engine;
            while sent[host] < octets
                && let Ok(queued) = engine.send(ids[host], &streams[host][sent[host]..])
            {
                sent[host] += queued;
            }
            while let Ok(taken) = engine.recv(ids[host], &mut buffer) {
                let end = read[host] + taken;
                assert!(taken > 0 && buffer[..taken] == streams[1 - host][read[host]..end]);
                read[host] = end;
            }
        }
        read == [octets; 2]
    });
}

#[test]
fn ten_megabytes_go_both_ways() {
    let mut net = Net::new(1);
    net.is_logged = false;
    both_ways(&mut net, 10_000_000);
    assert_eq!(net.hosts[0].drops, Drops::default());
}

#[test]
fn ten_megabytes_go_both_ways_over_a_wire_that_loses_copies_and_reorders() {
    for seed in 0..2 {
        let mut net = Net::new(seed);
        net.is_logged = false;
        net.faults = Faults { loss: 10, copy: 10, delay: 50 };
        both_ways(&mut net, 10_000_000);
    }
}

#[test]
fn streams_survive_many_seeds_of_worse_wires() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        net.is_logged = false;
        net.faults = Faults { loss: 150, copy: 100, delay: 300 };
        both_ways(&mut net, 100_000);
    }
}

//= rfc8201#5.1-1 rfc8201#5.4-1 rfc8201#5.4-2 (test)
#[test]
fn octets_leave_in_super_segments_and_the_path_of_the_moment_cuts_them() {
    let mut net = Net::new(2);
    let (a, b) = net.connected();
    let stream = pattern(1_000_000, 3);
    let (mut sent, mut read) = (0, Vec::new());
    let mut largest = [0; 2];
    net.until(|net| {
        // The path's MTU falls to 1,280 in the middle.
        let half = usize::from(read.len() > 500_000);
        if half == 1 && net.mss == 1_440 {
            (net.mss, net.largest) = (1_220, 0);
            net.log.clear();
        }
        largest[half] = net.largest;
        if let Ok(queued) = net.a().send(a, &stream[sent..]) {
            sent += queued;
        }
        read.extend(net.read(1, b).0);
        read.len() == stream.len()
    });
    assert!(read == stream);
    assert!(largest.iter().all(|octets| *octets > 20_000), "{largest:?}");
    let on_wire = net.log.iter().map(|sent| sent.octets.len()).max();
    assert_eq!(on_wire, Some(20 + 1_220));
}

#[test]
fn a_fast_retransmission_is_one_segment() {
    // host_stack.md s5.8, 5: a super-segment must not be sent again for one lost segment.
    let mut net = Net::new(3);
    let (a, _) = net.connected();
    net.run(Duration::from_secs(1));
    net.a().send(a, &pattern(200_000, 1)).unwrap();
    net.run(Duration::from_millis(60));
    // One segment is lost, and its followers arrive.
    net.flush();
    let first = net.log.len();
    let keys: Vec<_> = net.wire.iter().filter(|(_, (host, _))| *host == 1).collect();
    let key = keys.first().map(|(key, _)| **key);
    let lost = key.and_then(|key| net.wire.remove(&key)).map(|(_, sent)| sent);
    let lost = lost.expect("a segment is under way");
    let number = lost.segment().sequence;
    net.run(Duration::from_millis(40));
    let again: Vec<usize> = net.log[first..]
        .iter()
        .filter(|sent| sent.header.source == A && sent.segment().sequence == number)
        .map(|sent| sent.segment().payload.len())
        .collect();
    assert_eq!(again, [lost.segment().payload.len()]);
}

#[test]
fn small_writes_wait_for_the_acknowledgment_unless_nagle_is_off() {
    let segments = |is_on| {
        let mut net = Net::new(4);
        let (a, _) = net.connected();
        net.run(Duration::from_secs(1));
        net.a().set_nagle(a, is_on).unwrap();
        let before = net.log.len();
        for _ in 0..5 {
            net.a().send(a, b"x").unwrap();
            net.flush();
        }
        net.log.len() - before
    };
    assert_eq!([segments(true), segments(false)], [1, 5]);
}

#[test]
fn a_full_buffer_tells_when_there_is_room_and_a_read_opens_the_window() {
    let mut net = Net::new(5);
    let (a, b) = net.connected();
    let stream = pattern(2_000_000, 1);
    let mut sent = 0;
    // B does not read: both buffers fill, and the connection stays.
    for _ in 0..400 {
        if let Ok(queued) = net.a().send(a, &stream[sent..]) {
            sent += queued;
        }
        net.run(Duration::from_secs(1));
    }
    assert_eq!(net.a().send(a, b"x"), Err(Error::WouldBlock));
    // The window counts in units of four octets.
    assert_eq!(sent, 262_140 + 262_144);
    assert_eq!(net.a().state(a), Ok(State::Established), "400 s with a window of zero");
    net.hosts[0].events.clear();
    let (read, end) = net.read(1, b);
    assert_eq!((read.len(), end), (262_140, Err(Error::WouldBlock)));
    assert!(read == stream[..262_140]);
    net.run(Duration::from_secs(5));
    assert!(net.hosts[0].events.contains(&Event::Writable(a)));
    assert!(net.hosts[0].events.contains(&Event::Reachable(FLOW)));
    assert!(net.hosts[1].events.contains(&Event::Readable(b)));
}

#[test]
fn a_thousand_connections_work_at_once() {
    let buffers = Config { receive_buffer: 16_384, send_buffer: 16_384, ..Config::default() };
    let engine = |seed| SmolEngine::new(buffers, ChaCha20Rng::seed_from_u64(seed));
    let mut net = Net::with(engine(6), engine(7), 6);
    let listener = net.b().listen(None, 80, 1_000).unwrap();
    let now = net.now;
    let ids: Vec<TcpId> =
        (0..1_000).map(|n| net.a().connect((A, 50_000 + n), (B, 80), now).unwrap()).collect();
    net.run(Duration::from_secs(1));
    let mut accepted = Vec::new();
    while let Some(id) = net.b().accept(listener).unwrap() {
        accepted.push(id);
    }
    assert_eq!(accepted.len(), 1_000);
    for (n, &id) in ids.iter().enumerate() {
        assert_eq!(net.a().send(id, &pattern(10_000, n as u64)), Ok(10_000));
    }
    net.run(Duration::from_secs(2));
    for id in accepted {
        let n = usize::from(net.b().flow(id).unwrap().peer.1) - 50_000;
        assert!(net.read(1, id).0 == pattern(10_000, n as u64), "{n}");
        net.b().close(id).unwrap();
    }
    for id in ids {
        net.a().close(id).unwrap();
    }
    net.run(Duration::from_secs(61));
    assert_eq!([net.a().connections(), net.b().connections()], [0, 0]);
    assert!(net.a().is_free(FLOW) && net.a().poll_timeout().is_none());
}

#[test]
fn a_move_sends_the_first_unacknowledged_segment_at_once() {
    let mut net = Net::new(8);
    let (a, b) = net.connected();
    net.a().send(a, &pattern(5_000, 1)).unwrap();
    net.run(Duration::from_secs(1));
    let _ = net.read(1, b);
    // The path is gone for 20 s: the next retransmission is seconds away.
    net.cut = Some(1);
    net.a().send(a, &pattern(5_000, 2)).unwrap();
    net.run(Duration::from_secs(20));
    net.cut = None;
    let next = net.a().poll_timeout().unwrap();
    assert!(next.since(net.now) > Duration::from_secs(5), "{next:?}");
    let (now, before) = (net.now, net.log.len());
    net.a().handle_move(FLOW, now).unwrap();
    net.flush();
    let first = &net.log[before];
    assert_eq!((first.at, first.segment().payload.len()), (now, 1_440));
    net.run(Duration::from_millis(100));
    assert!(net.read(1, b).0.len() >= 1_440);
    net.run(Duration::from_secs(1));
    let other = Flow { local: (A, 1), ..FLOW };
    let now = net.now;
    assert_eq!(net.a().handle_move(other, now), Err(Error::NotConnected));
}

/// A path that has been dead for 300 ms, with 60,000 octets under way to the connection of host 1.
fn cut_amid_a_stream() -> (Net, TcpId) {
    let mut net = Net::new(8);
    let (a, b) = net.connected();
    net.a().send(a, &pattern(100_000, 1)).unwrap();
    net.run(Duration::from_secs(1));
    let _ = net.read(1, b);
    net.cut = Some(1);
    net.a().send(a, &pattern(60_000, 2)).unwrap();
    net.run(Duration::from_millis(300));
    (net, b)
}

#[test]
fn a_move_sends_a_lost_window_again_without_waiting_for_the_timer() {
    let (mut net, b) = cut_amid_a_stream();
    net.cut = None;
    let (now, before) = (net.now, net.log.len());
    net.a().handle_move(FLOW, now).unwrap();
    net.run(Duration::from_millis(600));
    assert_eq!(net.read(1, b).0, pattern(60_000, 2));
    // Slow start begins with one segment, as the path is not known.
    let at_once = net.log[before..].iter().filter(|sent| sent.at == now);
    assert_eq!(at_once.count(), 1);
}

/// The peer may leave the dead path a moment later. Before, the connection waited for a timer that had backed off.
#[test]
fn a_segment_that_is_lost_at_a_move_is_sent_again_soon() {
    let (mut net, b) = cut_amid_a_stream();
    let now = net.now;
    net.a().handle_move(FLOW, now).unwrap();
    net.run(Duration::from_millis(250));
    net.cut = None;
    net.run(Duration::from_millis(900));
    let octets = net.read(1, b).0;
    assert!(octets == pattern(60_000, 2), "{} octets", octets.len());
}

#[test]
fn a_move_of_an_idle_connection_sends_nothing() {
    let mut net = Net::new(9);
    net.connected();
    net.run(Duration::from_secs(1));
    let (now, before) = (net.now, net.log.len());
    net.a().handle_move(FLOW, now).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.log.len(), before);
}

#[test]
fn a_move_sends_a_syn_a_syn_ack_or_a_fin_at_once() {
    let mut net = Net::new(11);
    let listener = net.b().listen(None, 80, 16).unwrap();
    let reverse = Flow { local: FLOW.peer, peer: FLOW.local };
    // The wire is cut until the move. Returns what the host has sent at the time of the move.
    let moved = |net: &mut Net, host: usize, flow| {
        net.run(Duration::from_secs(30));
        net.cut = None;
        let (now, before) = (net.now, net.log.len());
        net.hosts[host].engine.handle_move(flow, now).unwrap();
        net.flush();
        let sent: Vec<_> = net.log[before..].iter().map(|sent| sent.segment().flags).collect();
        sent
    };
    net.cut = Some(1);
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    assert_eq!(moved(&mut net, 0, FLOW), [Flags::SYN]);
    net.cut = Some(0);
    assert_eq!(moved(&mut net, 1, reverse), [Flags::SYN.with(Flags::ACK)]);
    net.run(Duration::from_millis(100));
    assert_eq!(net.a().state(a), Ok(State::Established));
    let b = net.b().accept(listener).unwrap().unwrap();
    net.cut = Some(1);
    net.a().shutdown(a).unwrap();
    assert_eq!(moved(&mut net, 0, FLOW), [Flags::FIN.with(Flags::ACK)]);
    net.run(Duration::from_millis(20));
    assert_eq!(net.a().state(a), Ok(State::FinWait2));
    assert_eq!(net.b().state(b), Ok(State::CloseWait));
}

#[test]
fn two_ends_that_retransmit_at_once_come_to_an_end() {
    // Both have what the other one sends again, and only the acknowledgments are lost (see `Connection::renumber`).
    let mut net = Net::new(10);
    let (a, b) = net.connected();
    net.run(Duration::from_secs(1));
    for host in 0..2 {
        let id = [a, b][host];
        net.hosts[host].engine.send(id, &pattern(100_000, host as u64)).unwrap();
    }
    net.flush();
    net.faults.loss = 1_000;
    net.run(Duration::from_millis(900));
    net.faults.loss = 0;
    net.run(Duration::from_secs(10));
    assert!(net.read(0, a).0 == pattern(100_000, 1));
    assert!(net.read(1, b).0 == pattern(100_000, 0));
}
