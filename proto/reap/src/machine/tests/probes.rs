//! Which probes the machine believes.

use super::*;

/// An exploring machine, and the probe that it sent by A2-B2.
fn exploring() -> (Machine, Report) {
    let mut machine = machine();
    machine.handle_send_expired(at(0), at(15_000));
    let (pair, probe) = only_probe(&mut machine);
    assert_eq!(pair, ab(2, 2));
    (machine, probe.sent[0])
}

/// Asserts that nothing observable about the machine has changed.
fn assert_untouched(machine: &mut Machine, state: State, current: LocatorPair) {
    assert_eq!((machine.state(), machine.current_pair()), (state, current));
    assert_eq!(drain(machine), (Vec::new(), Vec::new()));
}

//= rfc5533#7.2-3 (test)
#[test]
fn fabricated_reports_do_not_move_the_context() {
    let (mut machine, real) = exploring();
    let forged = [
        Report { nonce: real.nonce ^ 1, ..real },
        Report { src: locator(A, 1), ..real },
        Report { dst: locator(B, 1), ..real },
        Report { dst: locator(0xbad, 1), ..real },
        Report { src: real.dst, dst: real.src, ..real },
    ];
    for state in [State::InboundOk, State::Operational] {
        for (nonce, report) in (10..).zip(forged) {
            let result = deliver(&mut machine, ba(2, 2), state, nonce, &[report], at(15_010));
            assert_eq!(result, Err(DropReason::BadNonce));
            assert_untouched(&mut machine, State::Exploring, ab(1, 1));
        }
        assert_eq!(
            deliver(&mut machine, ba(2, 2), state, 99, &forged, at(15_010)),
            Err(DropReason::BadNonce)
        );
    }
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[real], at(15_020)).unwrap();
    assert_eq!(machine.current_pair(), ab(2, 2), "and the real one does");
}

#[test]
fn a_true_report_among_forged_ones_counts_alone() {
    let (mut machine, real) = exploring();
    let forged = Report { dst: locator(B, 1), ..real };
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[forged, real], at(15_010)).unwrap();
    assert_eq!(machine.current_pair(), ab(2, 2));
}

#[test]
fn in_operational_a_forged_report_gets_an_answer_and_no_more() {
    let mut machine = machine();
    let forged = Report { src: locator(A, 2), dst: locator(B, 2), nonce: 5, data: 0 };
    deliver(&mut machine, ba(1, 1), State::InboundOk, 10, &[forged], at(100)).unwrap();
    let (pair, probe) = only_probe(&mut machine);
    assert_eq!((pair, probe.state), (ab(1, 1), State::Operational));
    assert_eq!((machine.current_pair(), machine.watch()), (ab(1, 1), 0), "no timer runs for it");
    assert_eq!(
        deliver(&mut machine, ba(1, 1), State::Operational, 11, &[forged], at(100)),
        Err(DropReason::Unasked)
    );
    run(&mut machine, at(60_000));
    assert!(machine.exploration.is_none());
}

#[test]
fn an_unknown_report_in_operational_is_answered_by_the_way_it_came() {
    for (came_by, answered_by) in [(ba(2, 2), ab(2, 2)), (ba(2, 3), ab(1, 1))] {
        let mut machine = machine();
        let unknown = Report { src: locator(A, 2), dst: locator(B, 2), nonce: 5, data: 0 };
        deliver(&mut machine, came_by, State::InboundOk, 10, &[unknown], at(100)).unwrap();
        let (pair, probe) = only_probe(&mut machine);
        assert_eq!((pair, probe.state), (answered_by, State::Operational));
        let received = probe.received.first().expect("what it answers");
        assert_eq!((received.src, received.nonce), (came_by.local, 10));
        assert_eq!(machine.current_pair(), ab(1, 1), "nothing else comes of it");
    }
}

#[test]
fn a_report_of_the_exploration_before_proves_nothing() {
    let (mut machine, old) = exploring();
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[old], at(15_010)).unwrap();
    drain(&mut machine);
    machine.handle_send_expired(at(15_020), at(30_020));
    drain(&mut machine);
    assert_eq!(
        deliver(&mut machine, ba(2, 2), State::InboundOk, 11, &[old], at(30_030)),
        Err(DropReason::BadNonce)
    );
    assert_untouched(&mut machine, State::Exploring, ab(2, 2));
}

#[test]
fn a_report_grows_old() {
    let (mut machine, real) = exploring();
    let late = at(15_000) + REPORT_LIFETIME + ms(1);
    assert_eq!(
        deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[real], late),
        Err(DropReason::BadNonce)
    );
}

#[test]
fn a_recorded_probe_does_not_end_an_exploration() {
    let (mut machine, first) = exploring();
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[first], at(15_010)).unwrap();
    let (_, probe) = only_probe(&mut machine);
    deliver(&mut machine, ba(2, 2), State::Operational, 11, &probe.sent, at(15_020)).unwrap();
    machine.handle_send_expired(at(15_100), at(30_100));
    drain(&mut machine);
    for (state, nonce) in [(State::InboundOk, 10), (State::Operational, 11)] {
        let reports = if nonce == 10 { &probe.sent[1..] } else { &probe.sent[..] };
        let result = deliver(&mut machine, ba(2, 2), state, nonce, reports, at(30_200));
        assert_eq!(result, Err(DropReason::Replayed));
        // The same probe with another nonce, from an attacker who knows the tag.
        let result = deliver(&mut machine, ba(2, 2), state, nonce + 100, &[first], at(30_200));
        assert_eq!(result, Err(DropReason::BadNonce));
        assert_untouched(&mut machine, State::Exploring, ab(2, 2));
    }
}

#[test]
fn a_bare_probe_operational_is_a_sign_of_life_while_exploring() {
    let (mut machine, _) = exploring();
    deliver(&mut machine, ba(1, 1), State::Operational, 10, &[], at(15_010)).unwrap();
    assert_eq!(machine.state(), State::InboundOk);
    let (_, probe) = only_probe(&mut machine);
    assert_eq!(probe.state, State::InboundOk, "and asks for a real answer");
    deliver(&mut machine, ba(1, 1), State::Operational, 11, &[], at(15_020)).unwrap();
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(1, 1)));
}

#[test]
fn inbound_ok_without_reports_leaves_the_current_pair() {
    let (mut machine, _) = exploring();
    deliver(&mut machine, ba(2, 1), State::InboundOk, 10, &[], at(15_010)).unwrap();
    let (pair, probe) = only_probe(&mut machine);
    assert_eq!((machine.state(), probe.state), (State::Operational, State::Operational));
    assert_eq!((pair, machine.current_pair()), (ab(1, 1), ab(1, 1)));
}

#[test]
fn the_probe_sent_last_decides_whatever_the_peer_lists_first() {
    let (mut machine, first) = exploring();
    let log = run(&mut machine, at(15_500));
    let Message::Probe(second) = &log[0].1.message else { panic!("{log:?}") };
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[first, second.sent[0]], at(15_600))
        .unwrap();
    assert_eq!(machine.current_pair(), log[0].1.pair);
}

#[test]
fn further_reports_do_not_move_it_again() {
    let (mut machine, first) = exploring();
    let log = run(&mut machine, at(15_500));
    let Message::Probe(second) = &log[0].1.message else { panic!("{log:?}") };
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[first], at(15_600)).unwrap();
    deliver(&mut machine, ba(2, 2), State::InboundOk, 11, &[second.sent[0], first], at(15_610))
        .unwrap();
    deliver(&mut machine, ba(2, 2), State::InboundOk, 12, &[second.sent[0]], at(15_620)).unwrap();
    assert_eq!(machine.current_pair(), ab(2, 2));
}

#[test]
fn a_proven_pair_that_is_no_candidate_any_more_is_not_taken() {
    let (mut machine, real) = exploring();
    machine.set_candidates([locator(A, 1)], [locator(B, 1), locator(B, 2)], at(15_005));
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[real], at(15_010)).unwrap();
    assert_eq!(machine.current_pair(), ab(1, 1));
}

#[test]
fn a_proven_pair_that_is_gone_does_not_end_the_search_when_the_current_one_is_too() {
    let mut machine = machine();
    machine.set_candidates([locator(A, 2), locator(A, 3)], [locator(B, 2)], at(100));
    let (pair, probe) = only_probe(&mut machine);
    let other = if pair.local == locator(A, 2) { locator(A, 3) } else { locator(A, 2) };
    machine.set_candidates([other], [locator(B, 2)], at(110));
    deliver(&mut machine, turn(pair), State::InboundOk, 10, &probe.sent, at(120)).unwrap();
    assert_eq!((machine.state(), machine.current_pair()), (State::InboundOk, ab(1, 1)));
    let (answer, _) = only_probe(&mut machine);
    assert_eq!(answer.local, other);
}

#[test]
fn a_probe_must_describe_itself() {
    let mut machine = machine();
    let none = Probe { state: State::Exploring, sent: Vec::new(), received: Vec::new() };
    assert_eq!(machine.handle_probe(ab(1, 1), &none, at(1)), Err(DropReason::BadFormat));
    let own = Report { src: locator(B, 1), dst: locator(A, 1), nonce: 1, data: 0 };
    let probe = Probe { state: State::Exploring, sent: [own].into(), received: Vec::new() };
    for pair in [ab(1, 2), ab(2, 1), ba(1, 1)] {
        assert_eq!(machine.handle_probe(pair, &probe, at(1)), Err(DropReason::WrongLocators));
    }
    assert_untouched(&mut machine, State::Operational, ab(1, 1));
    assert!(machine.exploration.is_none());
}

#[test]
fn the_same_probe_twice_is_answered_once() {
    for state in State::ALL.iter().copied() {
        let mut machine = machine();
        deliver(&mut machine, ba(2, 2), state, 7, &[], at(100)).unwrap();
        let answers = drain(&mut machine).0.len();
        assert_eq!(answers, usize::from(state != State::Operational));
        let again = deliver(&mut machine, ba(2, 2), state, 7, &[], at(110));
        assert_eq!(again, Err(DropReason::Replayed));
        assert!(drain(&mut machine).0.is_empty());
    }
}

#[test]
fn one_probe_out_for_one_in_up_to_a_rate() {
    for state in [State::Exploring, State::InboundOk] {
        let mut machine = machine();
        let mut answers = 0;
        for nonce in 0..1_000 {
            let now = at(u64::from(nonce) * 10);
            let result = deliver(&mut machine, ba(2, 2), state, nonce, &[], now);
            let sent = drain(&mut machine).0.len();
            assert_eq!(sent, usize::from(result.is_ok()));
            assert!(result.is_ok() || result == Err(DropReason::RateLimited));
            answers += sent;
        }
        assert!((190..=201).contains(&answers), "{answers} in ten seconds");
    }
}

/// Each probe reports the answer to the one before, so each is the first to report it.
#[test]
fn a_peer_that_reports_each_answer_draws_no_more_answers_than_others() {
    let mut machine = machine();
    deliver(&mut machine, ba(1, 1), State::Exploring, 0, &[], at(0)).unwrap();
    let (_, mut last) = only_probe(&mut machine);
    let mut answers = 0;
    for nonce in 1..10_000 {
        let now = at(u64::from(nonce));
        if deliver(&mut machine, ba(1, 1), State::InboundOk, nonce, &last.sent, now).is_ok() {
            answers += 1;
            (_, last) = only_probe(&mut machine);
        }
    }
    // 20 a second of the limit for such probes, and 20 of the limit for probes by the current pair.
    assert!((390..=402).contains(&answers), "{answers} in ten seconds");
}

#[test]
fn a_repeated_call_is_answered_by_other_pairs_in_turn() {
    let mut machine = machine();
    let mut pairs = Vec::new();
    for nonce in 0..8 {
        let now = at(u64::from(nonce) * 400);
        deliver(&mut machine, ba(2, 2), State::Exploring, nonce, &[], now).unwrap();
        pairs.push(only_probe(&mut machine).0);
    }
    assert_eq!(pairs[0], ab(2, 2), "the way it came by is the best guess");
    assert!(pairs.iter().step_by(2).all(|&p| p == ab(2, 2)), "{pairs:?}");
    assert!(pairs.iter().skip(1).step_by(2).all(|&p| p != ab(2, 2)), "{pairs:?}");
}

//= rfc5534#5.2-5 rfc5534#5.2-6 (test)
#[test]
fn probes_list_what_was_received_since_exploring_newest_first() {
    let mut machine = machine();
    for nonce in 1..=6 {
        let now = at(u64::from(nonce));
        deliver(&mut machine, ba(2, 2), State::Exploring, nonce, &[], now).unwrap();
    }
    let (transmits, _) = drain(&mut machine);
    let Some(Transmit { message: Message::Probe(last), .. }) = transmits.last() else { panic!() };
    let nonces: Vec<_> = last.received.iter().map(|r| r.nonce).collect();
    assert_eq!(nonces, [6, 5, 4, 3]);
    assert_eq!(last.sent.len(), 1, "the earlier ones went by another pair");
    let [.., earlier, _] = &transmits[..] else { panic!() };
    let Message::Probe(earlier) = &earlier.message else { panic!() };
    assert_eq!(earlier.sent.len(), SENT_REPORTS, "and an earlier probe that was not reported");

    run(&mut machine, at(15_005));
    assert_eq!(machine.state(), State::InboundOk);
    machine.handle_timeout(at(15_006));
    assert_eq!(machine.state(), State::Exploring);
    let (_, probe) = only_probe(&mut machine);
    assert!(probe.received.is_empty(), "RFC 5534 s5.2: since the last transition to Exploring");
    assert_eq!(
        deliver(&mut machine, ba(2, 2), State::Exploring, 6, &[], at(15_007)),
        Err(DropReason::Replayed),
        "but they are still known"
    );
}

#[test]
fn a_late_inbound_ok_is_answered_after_all_is_forgotten() {
    let (mut machine, real) = exploring();
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[real], at(15_010)).unwrap();
    machine.handle_keepalive(at(15_020)).unwrap();
    run(&mut machine, at(100_000));
    assert!(machine.exploration.is_none());
    drain(&mut machine);
    deliver(&mut machine, ba(2, 2), State::InboundOk, 11, &[real], at(100_100)).unwrap();
    let (pair, probe) = only_probe(&mut machine);
    assert_eq!((pair, probe.state), (ab(2, 2), State::Operational));
}

#[test]
fn secrets_are_not_printed() {
    let (machine, _) = exploring();
    let text = alloc::format!("{machine:?}");
    assert!(text.contains("Seed(..)") && text.contains("Random(..)"));
}

#[test]
fn probes_that_need_no_answer_are_not_limited() {
    let mut machine = machine();
    for nonce in 0..3 * ANSWERS_PER_SECOND {
        deliver(&mut machine, ba(2, 2), State::Operational, nonce, &[], at(100)).unwrap();
    }
    deliver(&mut machine, ba(2, 2), State::Exploring, 1_000, &[], at(101)).unwrap();
}

#[test]
fn probes_that_were_reported_are_not_listed_again() {
    let (mut machine, first) = exploring();
    deliver(&mut machine, ba(2, 2), State::InboundOk, 10, &[first], at(15_010)).unwrap();
    let (_, probe) = only_probe(&mut machine);
    assert_eq!(probe.sent.len(), 1);
    deliver(&mut machine, ba(2, 2), State::InboundOk, 11, &[], at(15_020)).unwrap();
    let (_, again) = only_probe(&mut machine);
    assert_eq!(again.sent[1..], probe.sent[..], "the peer has not reported this one");
}
