use super::*;

const REFUSED: Cause = Cause::Unreachable(4);
const NO_ROUTE: Cause = Cause::Unreachable(0);

use moorline_ip::icmp::Cause;

fn last_event(net: &Net, host: usize) -> Option<Event> {
    net.hosts[host].events.last().copied()
}

#[test]
fn a_port_without_listener_refuses_the_connection() {
    let mut net = Net::new(1);
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(Error::ConnectionRefused))));
    assert_eq!(net.a().send(a, b"x"), Err(Error::ConnectionRefused));
    assert_eq!(net.hosts[1].drops.of(Drop::NoSocket), 1);
    assert!(net.a().is_free(FLOW));
    assert_eq!(net.log.len(), 2, "one SYN, one RST");
}

#[test]
fn a_peer_that_never_answers_a_syn_times_out_after_three_minutes() {
    // RFC 9293 s3.8.3, MUST-23.
    let mut net = Net::new(2);
    net.cut = Some(1);
    let now = net.now;
    let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
    net.run(Duration::from_secs(179));
    assert_eq!(net.a().state(a), Ok(State::SynSent));
    net.run(Duration::from_secs(1));
    assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(Error::TimedOut))));
    assert!(net.log.iter().all(|sent| sent.segment().flags == Flags::SYN));
    // After 0, 1, 3, 7, 15, 31, 63 and 123 s.
    assert_eq!(net.log.len(), 8);
}

#[test]
fn a_peer_that_goes_silent_times_out_after_five_minutes() {
    let mut net = Net::new(3);
    let (a, _) = net.connected();
    // An idle connection has no limit (RFC 9293 s3.8.4: keep-alives are off by default).
    net.cut = Some(1);
    net.run(Duration::from_secs(7_200));
    assert_eq!(net.a().state(a), Ok(State::Established));
    net.a().send(a, b"anybody there?").unwrap();
    net.run(Duration::from_secs(299));
    assert_eq!(net.a().state(a), Ok(State::Established));
    net.run(Duration::from_secs(1));
    assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(Error::TimedOut))));
    assert_eq!(net.a().recv(a, &mut [0]), Err(Error::TimedOut));
}

#[test]
fn a_probed_connection_times_out_without_answers_and_stays_with_them() {
    let mut net = Net::new(4);
    let (a, _) = net.connected();
    net.a().set_keep_alive(a, Some(Duration::from_secs(10))).unwrap();
    net.run(Duration::from_secs(600));
    assert_eq!(net.a().state(a), Ok(State::Established));
    net.cut = Some(1);
    net.run(Duration::from_secs(101));
    assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(Error::TimedOut))));
}

//= rfc4443#3.1-6 (test)
#[test]
fn an_icmp_error_ends_a_connection_that_is_not_established() {
    // RFC 5461 s4.2: the program should try another address at once.
    for (cause, error) in [
        (REFUSED, Error::ConnectionRefused),
        (NO_ROUTE, Error::NetworkUnreachable),
        (Cause::Unreachable(3), Error::HostUnreachable),
        (Cause::Unreachable(1), Error::PermissionDenied),
    ] {
        let mut net = Net::new(5);
        net.cut = Some(1);
        let now = net.now;
        let a = net.a().connect(FLOW.local, FLOW.peer, now).unwrap();
        net.run(Duration::from_millis(10));
        let isn = net.log[0].segment().sequence;
        let engine = net.a();
        assert_eq!(engine.handle_error(FLOW, cause, isn + 1, now), Err(Drop::ForeignError));
        assert_eq!(engine.state(a), Ok(State::SynSent));
        assert_eq!(engine.handle_error(FLOW, Cause::PacketTooBig(1_280), isn, now), Ok(()));
        assert_eq!(engine.state(a), Ok(State::SynSent));
        assert_eq!(engine.handle_error(FLOW, cause, isn, now), Ok(()));
        net.run(Duration::from_secs(10));
        assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(error))));
        assert_eq!(net.log.len(), 1, "no RST: the peer knows of nothing");
        assert!(net.a().is_free(FLOW));
    }
}

#[test]
fn an_icmp_error_does_not_end_an_established_connection() {
    // RFC 5927 s5.2 and RFC 9293 s3.9.2.2: neither hard nor soft errors do.
    let mut net = Net::new(6);
    let (a, b) = net.connected();
    net.run(Duration::from_secs(1));
    net.cut = Some(1);
    net.a().send(a, b"hello").unwrap();
    net.flush();
    let sent = net.log.last().unwrap().segment().sequence;
    let now = net.now;
    for (sequence, result) in [
        (Seq(sent.0.wrapping_sub(1)), Err(Drop::ForeignError)),
        (sent, Ok(())),
        (sent + 4, Ok(())),
        (sent + 5, Err(Drop::ForeignError)),
        (sent + 0x8000_0000, Err(Drop::ForeignError)),
    ] {
        assert_eq!(net.a().handle_error(FLOW, REFUSED, sequence, now), result, "{sequence:?}");
    }
    net.cut = None;
    net.run(Duration::from_secs(3));
    assert_eq!(net.read(1, b).0, b"hello");
    let other = Flow { local: (A, 1), ..FLOW };
    assert_eq!(net.a().handle_error(other, REFUSED, sent, now), Err(Drop::ForeignError));
    let now = net.now;
    let acknowledged = net.a().handle_error(FLOW, REFUSED, sent, now);
    assert_eq!(acknowledged, Err(Drop::ForeignError), "the peer has this segment");
    assert_eq!(net.a().state(a), Ok(State::Established));
}

#[test]
fn a_soft_error_is_the_reason_if_the_connection_times_out() {
    let mut net = Net::new(7);
    let (a, _) = net.connected();
    net.run(Duration::from_secs(1));
    net.cut = Some(1);
    net.a().send(a, b"hello").unwrap();
    net.flush();
    let (sent, now) = (net.log.last().unwrap().segment().sequence, net.now);
    net.a().handle_error(FLOW, NO_ROUTE, sent, now).unwrap();
    net.run(Duration::from_secs(301));
    assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(Error::NetworkUnreachable))));
}

#[test]
fn an_acknowledgment_clears_a_soft_error() {
    let mut net = Net::new(8);
    let (a, _) = net.connected();
    net.run(Duration::from_secs(1));
    net.a().send(a, b"hello").unwrap();
    net.flush();
    let (sent, now) = (net.log.last().unwrap().segment().sequence, net.now);
    net.a().handle_error(FLOW, NO_ROUTE, sent, now).unwrap();
    net.run(Duration::from_secs(1));
    net.cut = Some(1);
    net.a().send(a, b"hello").unwrap();
    net.run(Duration::from_secs(301));
    assert_eq!(last_event(&net, 0), Some(Event::Closed(a, Some(Error::TimedOut))));
}

#[test]
fn a_hard_error_ends_a_half_open_connection_and_a_soft_one_does_not() {
    // RFC 9293 s3.9.2.2 (MUST-56), RFC 5927 s4.1.
    let mut net = Net::new(9);
    net.b().listen(None, 80, 1).unwrap();
    net.cut = Some(0);
    net.inject(segment(Flags::SYN, Seq(1), Seq(0))).unwrap();
    net.flush();
    let (isn, now) = (net.log[0].segment().sequence, net.now);
    let flow = Flow { local: FLOW.peer, peer: FLOW.local };
    let engine = net.b();
    assert_eq!(engine.handle_error(flow, REFUSED, isn + 1, now), Err(Drop::ForeignError));
    assert_eq!(engine.handle_error(flow, NO_ROUTE, isn, now), Ok(()));
    assert_eq!(engine.half_open(), 1);
    assert_eq!(engine.handle_error(flow, REFUSED, isn, now), Ok(()));
    assert_eq!((engine.half_open(), engine.drops().of(Drop::HalfOpen)), (0, 1));
    net.run(Duration::from_secs(60));
    assert_eq!(net.log.len(), 1, "no SYN-ACK any more");
}
