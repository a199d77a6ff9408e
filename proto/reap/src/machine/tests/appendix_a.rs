//! The protocol runs of RFC 5534 appendix A. Examples 1 to 3 are about payload and keepalives, and are in `pair` and
//! `detection`.

use super::*;

fn host(pair: LocatorPair, local: &[Locator], peer: &[Locator], seed: u8) -> Machine {
    let mut machine = Machine::new(Config::default(), pair, [seed; 16], at(0));
    machine.set_candidates(local, peer, at(0));
    machine
}

/// Hands `probe` to its receiver. Its sender sent it by `pair`.
fn carry(to: &mut Machine, (pair, probe): &(LocatorPair, Probe), now: Instant) {
    to.handle_probe(turn(*pair), probe, now).unwrap();
}

fn nonces(reports: &[Report]) -> Vec<u32> {
    reports.iter().map(|r| r.nonce).collect()
}

/// A has one address, B has two. B1 fails.
//= rfc5534#6-1 (test)
#[test]
fn example_4_failure_scenario() {
    let (a, b1, b2) = (locator(A, 1), locator(B, 1), locator(B, 2));
    let mut peer_a = host(LocatorPair::new(a, b1), &[a], &[b1, b2], 1);
    let mut peer_b = host(LocatorPair::new(b1, a), &[b1, b2], &[a], 2);

    // "Send Timeout seconds after T1, B happens to see the problem first." In the RFC, B tries B1 once more. Our
    // machine tries the failed pair last and begins with B2.
    peer_b.handle_send_expired(at(0), at(15_000));
    assert_eq!(peer_b.state(), State::Exploring);
    let q = only_probe(&mut peer_b);
    assert_eq!((q.0, q.1.state), (LocatorPair::new(b2, a), State::Exploring));
    assert!(q.1.received.is_empty());

    // "A realizes that it needs to start the exploration. It picks B2 as the most likely candidate."
    carry(&mut peer_a, &q, at(15_010));
    assert_eq!(peer_a.state(), State::InboundOk);
    let r = only_probe(&mut peer_a);
    assert_eq!((r.0, r.1.state), (LocatorPair::new(a, b2), State::InboundOk));
    assert_eq!(nonces(&r.1.received), [q.1.sent[0].nonce], "received probe q");
    assert_eq!(peer_a.current_pair(), LocatorPair::new(a, b1), "not before it is proven");

    // "B now knows that A has no problem receiving its packets."
    carry(&mut peer_b, &r, at(15_020));
    assert_eq!(peer_b.state(), State::Operational);
    assert_eq!(peer_b.current_pair(), LocatorPair::new(b2, a));
    let s = only_probe(&mut peer_b);
    assert_eq!((s.0, s.1.state), (LocatorPair::new(b2, a), State::Operational));
    assert_eq!(nonces(&s.1.received), [r.1.sent[0].nonce], "received probe r");

    carry(&mut peer_a, &s, at(15_030));
    assert_eq!(peer_a.state(), State::Operational);
    assert_eq!(peer_a.current_pair(), LocatorPair::new(a, b2));
    assert!(drain(&mut peer_a).0.is_empty());
}

/// The same run with the RFC's probe p. The dead pair loses p, so the test delivers it to A by hand.
#[test]
fn example_4_as_peer_a_sees_it() {
    let (a, b1, b2) = (locator(A, 1), locator(B, 1), locator(B, 2));
    let mut peer_a = host(LocatorPair::new(a, b1), &[a], &[b1, b2], 1);
    deliver(&mut peer_a, LocatorPair::new(b2, a), State::Exploring, 0x0b, &[], at(15_500)).unwrap();
    let (pair, r) = only_probe(&mut peer_a);
    assert_eq!(pair, LocatorPair::new(a, b2));
    assert_eq!(nonces(&r.received), [0x0b]);
    deliver(
        &mut peer_a,
        LocatorPair::new(b2, a),
        State::Operational,
        0x0c,
        &r.sent[..1],
        at(15_520),
    )
    .unwrap();
    assert_eq!((peer_a.state(), peer_a.current_pair()), (State::Operational, pair));
}

/// Packets of A by A1-B1 do not reach B any more. The way back works.
//= rfc5534#5.2-5 rfc5534#6-1 (test)
#[test]
fn example_5_one_way_failure_as_peer_a_sees_it() {
    let mut peer_a = machine();
    deliver(&mut peer_a, ba(1, 1), State::Exploring, 0x01, &[], at(15_000)).unwrap();
    let q = only_probe(&mut peer_a);
    assert_eq!((q.0, q.1.state), (ab(1, 1), State::InboundOk), "and this one is lost");
    assert_eq!(nonces(&q.1.received), [0x01], "received probe p");

    deliver(&mut peer_a, ba(2, 2), State::Exploring, 0x02, &[], at(15_400)).unwrap();
    let s = only_probe(&mut peer_a);
    assert_eq!((s.0, s.1.state), (ab(2, 2), State::InboundOk));
    assert_eq!(nonces(&s.1.received), [0x02, 0x01], "received probes p, r; ours are newest first");

    deliver(&mut peer_a, ba(2, 2), State::Operational, 0x03, &s.1.sent[..1], at(15_420)).unwrap();
    assert_eq!(peer_a.state(), State::Operational);
    assert_eq!(peer_a.current_pair(), ab(2, 2), "payload packets flow again");
}

#[test]
fn example_5_as_peer_b_sees_it() {
    let mut peer_b = Machine::new(Config::default(), ba(1, 1), [2; 16], at(0));
    let (locals, peers) = ([locator(B, 1), locator(B, 2)], [locator(A, 1), locator(A, 2)]);
    peer_b.set_candidates(locals, peers, at(0));
    peer_b.handle_send_expired(at(0), at(15_000));
    let first = only_probe(&mut peer_b);
    assert_eq!(first.0, ba(2, 2), "disjoint from the failed pair");
    // A's answers are lost until the last probe, by B1-A1, has been sent as well.
    let probes = run(&mut peer_b, at(16_500));
    assert_eq!(probes.len(), 3);
    let Message::Probe(last) = &probes[2].1.message else { panic!("{probes:?}") };
    assert_eq!(probes[2].1.pair, ba(1, 1));

    let heard = [last.sent[0], first.1.sent[0]];
    deliver(&mut peer_b, ab(2, 2), State::InboundOk, 0x0a, &heard, at(16_520)).unwrap();
    let (pair, t) = only_probe(&mut peer_b);
    assert_eq!((peer_b.state(), t.state), (State::Operational, State::Operational));
    assert_eq!(nonces(&t.received), [0x0a], "received probe s");
    assert_eq!(pair, ba(1, 1), "payload from B goes on by B1-A1: proven, and probed last");
}

/// The probes that LinShim6 exchanges when it begins an exploration.
#[test]
fn three_probes_settle_an_exploration() {
    let mut a = machine();
    let mut b = host(ba(1, 1), &[locator(B, 1), locator(B, 2)], &[locator(A, 1), locator(A, 2)], 9);
    a.handle_send_expired(at(0), at(15_000));
    let probes = [(State::Exploring, 0), (State::InboundOk, 1), (State::Operational, 1)];
    for (step, (state, received)) in probes.into_iter().enumerate() {
        let (from, to) = if step % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let probe = only_probe(from);
        assert_eq!((probe.1.state, probe.1.received.len()), (state, received));
        carry(to, &probe, at(15_001));
    }
    assert_eq!([a.state(), b.state()], [State::Operational; 2]);
    assert!(drain(&mut a).0.is_empty() && drain(&mut b).0.is_empty());
}
