use super::*;

/// The events that end a connection.
fn closed(net: &Net, host: usize) -> Vec<Option<Error>> {
    let reason = |event: &Event| match event {
        Event::Closed(_, reason) => Some(*reason),
        Event::Acceptable(_)
        | Event::Established(_)
        | Event::Readable(_)
        | Event::Writable(_)
        | Event::Reachable(_) => None,
    };
    net.hosts[host].events.iter().filter_map(reason).collect()
}

#[test]
fn a_connection_closes_in_order_from_one_end() {
    let mut net = Net::new(1);
    let (a, b) = net.connected();
    net.a().send(a, b"last words").unwrap();
    net.a().shutdown(a).unwrap();
    assert_eq!(net.a().send(a, b"x"), Err(Error::Closed));
    net.run(Duration::from_secs(1));
    assert_eq!([net.a().state(a), net.b().state(b)], [Ok(State::FinWait2), Ok(State::CloseWait)]);
    assert_eq!(net.read(1, b), (b"last words".to_vec(), Ok(0)));
    assert_eq!(net.b().send(b, b"answer"), Ok(6), "the other direction is open");
    net.b().shutdown(b).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!([net.a().state(a), net.b().state(b)], [Ok(State::TimeWait), Ok(State::Closed)]);
    assert_eq!([closed(&net, 0), closed(&net, 1)], [vec![None], vec![None]]);
    // smoltcp would forget the answer after 10 s.
    net.run(Duration::from_secs(30));
    assert_eq!(net.read(0, a), (b"answer".to_vec(), Ok(0)));
    net.run(Duration::from_secs(30));
    assert_eq!(net.read(0, a), (vec![], Ok(0)));
    assert_eq!(net.read(1, b), (vec![], Ok(0)));
    net.a().close(a).unwrap();
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!([net.a().connections(), net.b().connections()], [0, 0]);
}

#[test]
fn a_connection_is_shown_until_it_is_over() {
    let mut net = Net::new(1);
    let (a, b) = net.connected();
    let flow = net.a().flow(a).unwrap();
    net.a().close(a).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.a().all(), [(flow, State::FinWait2)]);
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!((net.a().all(), net.b().all()), (vec![(flow, State::TimeWait)], vec![]));
    net.run(Duration::from_secs(120));
    assert_eq!(net.a().all(), []);
}

#[test]
fn both_ends_may_close_at_once() {
    let mut net = Net::new(2);
    let (a, b) = net.connected();
    net.run(Duration::from_secs(1));
    net.a().shutdown(a).unwrap();
    net.b().shutdown(b).unwrap();
    net.run(Duration::from_millis(5));
    assert_eq!([net.a().state(a), net.b().state(b)], [Ok(State::Closing); 2]);
    net.run(Duration::from_secs(1));
    assert_eq!([net.a().state(a), net.b().state(b)], [Ok(State::TimeWait); 2]);
    assert_eq!([closed(&net, 0), closed(&net, 1)], [vec![None], vec![None]]);
}

#[test]
fn closing_over_a_bad_wire_ends_at_both_ends() {
    for seed in 0..40 {
        let mut net = Net::new(seed);
        net.faults = Faults { loss: 200, copy: 100, delay: 300 };
        let (a, b) = net.connected();
        net.a().send(a, b"hello").unwrap();
        net.a().close(a).unwrap();
        net.until(|net| net.b().state(b) == Ok(State::CloseWait));
        assert_eq!(net.read(1, b), (b"hello".to_vec(), Ok(0)), "{seed}");
        net.b().close(b).unwrap();
        net.until(|net| net.a().connections() + net.b().connections() == 0);
        net.until(|net| net.next().is_none());
        assert!(net.a().is_free(FLOW));
    }
}

#[test]
fn an_abort_resets_the_peer_behind_what_it_has_received() {
    let mut net = Net::new(3);
    let (a, b) = net.connected();
    net.a().send(a, b"hello").unwrap();
    net.run(Duration::from_secs(1));
    net.a().abort(a).unwrap();
    assert_eq!(net.a().recv(a, &mut [0; 9]), Err(Error::ConnectionAborted));
    assert_eq!(net.a().send(a, b"x"), Err(Error::ConnectionAborted));
    net.run(Duration::from_secs(1));
    assert!(net.log.last().unwrap().segment().flags.has(Flags::RST));
    assert_eq!(closed(&net, 0), [Some(Error::ConnectionAborted)]);
    assert_eq!(closed(&net, 1), [Some(Error::ConnectionReset)]);
    assert_eq!(net.b().state(b), Ok(State::Closed));
    assert_eq!(net.read(1, b), (b"hello".to_vec(), Err(Error::ConnectionReset)));
    assert_eq!(net.b().send(b, b"x"), Err(Error::ConnectionReset), "the reason stays");
    assert_eq!(net.b().flow(b).unwrap().peer, FLOW.local);
    net.b().close(b).unwrap();
    assert_eq!(net.b().state(b), Err(Error::BadHandle));
    net.run(Duration::from_secs(1));
    assert!(net.a().is_free(FLOW), "a reset leaves no TIME-WAIT");
}

#[test]
fn closing_with_unread_octets_resets_the_connection() {
    // RFC 9293 s3.6.1: the peer must learn that its octets are lost.
    let mut net = Net::new(4);
    let (a, b) = net.connected();
    net.a().send(a, b"unread").unwrap();
    net.run(Duration::from_secs(1));
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(closed(&net, 0), [Some(Error::ConnectionReset)]);
    assert_eq!(net.b().connections(), 0);
}

#[test]
fn octets_for_a_closed_connection_reset_it() {
    let mut net = Net::new(5);
    let (a, b) = net.connected();
    net.run(Duration::from_secs(1));
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.a().state(a), Ok(State::CloseWait));
    net.a().send(a, b"too late").unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(net.a().send(a, b"x"), Err(Error::ConnectionReset));
    assert_eq!(net.b().connections(), 0);
}

#[test]
fn a_closed_connection_waits_a_minute_for_the_fin_of_the_peer() {
    let mut net = Net::new(6);
    let (_, b) = net.connected();
    net.run(Duration::from_secs(1));
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(59));
    assert_eq!(net.b().connections(), 1);
    net.run(Duration::from_secs(2));
    assert_eq!(net.b().connections(), 0);
}

#[test]
fn a_lost_fin_comes_again_whatever_the_peer_acknowledges_meanwhile() {
    let mut net = Net::new(6);
    let (a, b) = net.connected();
    net.a().send(a, &pattern(100, 1)).unwrap();
    net.run(Duration::from_secs(1));
    let last = net.log.iter().rfind(|sent| sent.header.source == B).unwrap().clone();
    net.cut = Some(1);
    net.a().shutdown(a).unwrap();
    net.run(Duration::from_millis(1));
    for _ in 0..5 {
        net.deliver(0, &last).unwrap();
        net.flush();
    }
    net.cut = None;
    net.run(Duration::from_secs(3));
    assert_eq!(net.read(1, b), (pattern(100, 1), Ok(0)));
}

/// The peer's window closes behind two octets that are lost: it is told in units of 128 octets, so its edge has moved back. Then
/// this host ends its direction, and the window opens.
#[test]
fn octets_that_wait_for_a_window_are_sent_though_both_directions_have_ended() {
    let mut net = Net::new(7);
    net.cut = Some(0);
    let listener = net.b().listen(None, 80, 1).unwrap();
    net.inject(Segment { options: &[3, 3, 7, 0], ..segment(Flags::SYN, Seq(1), Seq(0)) }).unwrap();
    net.flush();
    let first = net.log.last().unwrap().segment().sequence + 1;
    let ack = |number, window| Segment { window, ..segment(Flags::ACK, Seq(2), number) };
    net.inject(ack(first, 100)).unwrap();
    let b = net.b().accept(listener).unwrap().unwrap();
    let fin = Flags::FIN.with(Flags::ACK);
    net.inject(Segment { flags: fin, ..ack(first, 100) }).unwrap();
    let ack = |number, window| Segment { window, ..segment(Flags::ACK, Seq(3), number) };
    net.b().send(b, &pattern(50_000, 1)).unwrap();
    net.flush();
    let end = |sent: &Sent| sent.segment().sequence + sent.segment().sequence_len();
    let lost = Seq(end(net.log.last().unwrap()).0 - 2);
    net.inject(ack(lost, 0)).unwrap();
    net.b().shutdown(b).unwrap();
    assert_eq!(net.b().send(b, b"x"), Err(Error::Closed));
    net.inject(ack(lost, 100)).unwrap();
    let mut answered = net.log.len();
    let mut comes_again = false;
    for _ in 0..100 {
        net.run(Duration::from_secs(1));
        let new = net.log.split_off(answered);
        comes_again |= new
            .iter()
            .any(|sent| sent.segment().sequence == lost && !sent.segment().payload.is_empty());
        for _ in new.iter().filter(|sent| !sent.segment().payload.is_empty()) {
            let _ = net.inject(ack(lost, 100));
        }
        net.log.extend(new);
        answered = net.log.len();
    }
    assert!(comes_again, "{:?}", net.log);
}

#[test]
fn time_wait_lasts_a_minute_and_answers_the_fin_of_the_peer() {
    let mut net = Net::new(7);
    let (a, b) = net.connected();
    // B closes first: TIME-WAIT is at B.
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    net.a().close(a).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!([net.a().connections(), net.b().connections()], [0, 0]);
    let flow = Flow { local: FLOW.peer, peer: FLOW.local };
    assert!(!net.b().is_free(flow) && net.a().is_free(FLOW));

    let fin = net
        .log
        .iter()
        .rfind(|sent| sent.header.source == A && sent.segment().flags.has(Flags::FIN));
    let fin = fin.unwrap().clone();
    net.run(Duration::from_secs(50));
    net.deliver(1, &fin).unwrap();
    net.flush();
    let answer = net.log.last().unwrap().segment();
    assert_eq!((answer.flags, answer.acknowledgment), (Flags::ACK, fin.segment().sequence + 1));
    // The answer meets no connection at A. RFC 1337: the reset of A does not end TIME-WAIT, which began anew.
    net.run(Duration::from_secs(59));
    assert!(net.log.last().unwrap().segment().flags.has(Flags::RST));
    assert!(!net.b().is_free(flow));
    net.run(Duration::from_secs(2));
    assert!(net.b().is_free(flow));
}

#[test]
fn a_syn_above_the_old_numbers_opens_a_flow_in_time_wait_again() {
    let mut net = Net::new(8);
    let listener = net.b().listen(None, 80, 4).unwrap();
    let (a, b) = net.connected_to(listener, FLOW);
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    net.a().close(a).unwrap();
    net.run(Duration::from_secs(5));
    let last = net.log.iter().rfind(|sent| sent.header.source == B).unwrap().segment().sequence;
    let first = net.log.len();
    let (_, again) = net.connected_to(listener, FLOW);
    assert_eq!(net.b().state(again), Ok(State::Established));
    let syn_ack = net.log[first + 1].segment();
    assert_eq!(syn_ack.flags, Flags::SYN.with(Flags::ACK));
    assert!(syn_ack.sequence.since(last) > 65_535 && last.is_before(syn_ack.sequence));
    // An old SYN does not (RFC 9293 s3.6.1).
    let mut net = Net::new(9);
    let listener = net.b().listen(None, 80, 4).unwrap();
    let (a, b) = net.connected_to(listener, FLOW);
    let syn = net.log[0].clone();
    net.b().close(b).unwrap();
    net.run(Duration::from_secs(1));
    net.a().close(a).unwrap();
    net.run(Duration::from_secs(5));
    net.deliver(1, &syn).unwrap();
    net.flush();
    assert_eq!(net.log.last().unwrap().segment().flags, Flags::ACK);
    assert_eq!(net.b().half_open(), 0);
}

#[test]
fn a_listener_that_goes_takes_its_waiting_connections_with_it() {
    let mut net = Net::new(10);
    let listener = net.b().listen(None, 80, 4).unwrap();
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    net.until(|net| net.a().state(a) == Ok(State::Established));
    net.run(Duration::from_secs(1));
    net.b().unlisten(listener).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(closed(&net, 0), [Some(Error::ConnectionReset)]);
    assert_eq!(net.b().connections(), 0);
}

#[test]
fn names_that_were_given_up_are_bad_handles() {
    let mut net = Net::new(11);
    let (a, _) = net.connected();
    net.a().close(a).unwrap();
    let now = net.now;
    let engine = net.a();
    assert_eq!(engine.close(a), Err(Error::BadHandle));
    assert_eq!(engine.send(a, b"x"), Err(Error::BadHandle));
    assert_eq!(engine.recv(a, &mut [0]), Err(Error::BadHandle));
    assert_eq!(engine.shutdown(a), Err(Error::BadHandle));
    assert_eq!(engine.abort(a), Err(Error::BadHandle));
    assert_eq!(engine.state(a), Err(Error::BadHandle));
    assert_eq!(engine.flow(a), Err(Error::BadHandle));
    assert_eq!(engine.set_nagle(a, true), Err(Error::BadHandle));
    assert_eq!(engine.set_keep_alive(a, None), Err(Error::BadHandle));
    let pending = engine.connect((A, 1), (B, 81), now).unwrap();
    assert_eq!(engine.shutdown(pending), Err(Error::NotConnected));
    assert_eq!(engine.recv(pending, &mut [0]), Err(Error::WouldBlock));
    assert_eq!(engine.send(pending, b"x"), Err(Error::WouldBlock));
}
