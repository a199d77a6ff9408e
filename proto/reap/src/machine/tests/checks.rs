//! Incoming checks, and answers to our own checks.

use alloc::boxed::Box;

use super::monitor::{config, net};
use super::*;
use crate::event::FailureHint;
use crate::profile::Profile;

/// An attacker on the path may repeat an old probe together with reports of checks that are under way.
#[test]
fn a_probe_that_is_refused_answers_no_check() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let (now, machine) = (net.now, &mut net.hosts[0].machine);
    machine.handle_suspicion(FailureHint::Retransmission, now, Duration::ZERO, now);
    let check = drain(machine).0.into_iter().find_map(|transmit| match transmit.message {
        Message::Probe(probe) if transmit.pair != ab(1, 1) => Some(probe.sent[0]),
        Message::Keepalive | Message::Probe(_) => None,
    });
    let check = check.expect("another pair is tried");
    let from_elsewhere = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: 0 };
    let (sent, received) = ([from_elsewhere].into(), [check].into());
    let probe = Probe { state: State::Exploring, sent, received };
    let result = machine.handle_probe(ab(1, 1), &probe, now + ms(300));
    assert_eq!(result, Err(DropReason::WrongLocators));
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(1, 1)));
    assert_eq!(drain(machine).1, []);
}

#[test]
fn checks_are_answered_with_their_own_words_within_a_limit() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    let check = |nonce| Report { src: locator(B, 2), dst: locator(A, 2), nonce, data: CHECK };
    let mut deliver = |nonce, pair| {
        let sent = [check(nonce)];
        let probe = Probe { state: State::Operational, sent: sent.into(), received: Vec::new() };
        machine.handle_probe(pair, &probe, at(1)).map(|()| only_probe(&mut machine))
    };
    let (pair, answer) = deliver(7, ab(2, 2)).expect("answered");
    assert_eq!(pair, ab(2, 2), "by the pair it came by");
    assert_eq!((answer.state, &answer.received[..]), (State::Operational, &[check(7)][..]));
    assert_ne!(answer.sent[0].data, CHECK, "an answer asks for nothing");
    assert_eq!(deliver(8, ab(1, 1)).unwrap_err(), DropReason::WrongLocators);
    let answered = (0..100).filter(|&nonce| deliver(nonce, ab(2, 2)).is_ok()).count();
    assert_eq!(answered, 19, "20 in a second");
}

#[test]
fn answers_to_checks_that_were_not_sent_prove_nothing() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_payload(at(1), at(1));
    machine.handle_known(Known::Nothing, at(1));
    let sent: Vec<_> = drain(&mut machine).0;
    let Message::Probe(check) = &sent[0].message else { panic!("{sent:?}") };
    let right = check.sent[0];
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 5, data: 0 };
    let mut answer = |report: Report, now| {
        let (sent, received) = ([own], [report]);
        let probe =
            Probe { state: State::Operational, sent: sent.into(), received: received.into() };
        let outcome = machine.handle_probe(ab(2, 2), &probe, now);
        (outcome, machine.fresh_standby(now), machine.current_pair())
    };
    let made_up = Report { nonce: right.nonce ^ 1, ..right };
    assert_eq!(answer(made_up, at(2)), (Err(DropReason::Unasked), None, ab(1, 1)));
    let other_pair = Report { src: locator(A, 1), ..right };
    assert_eq!(answer(other_pair, at(2)), (Err(DropReason::Unasked), None, ab(1, 1)));
    assert_eq!(answer(right, at(3)), (Ok(()), Some(ab(2, 2)), ab(1, 1)), "proven, not moved to");
    assert_eq!(answer(right, at(4)).0, Err(DropReason::Unasked), "once");
}

#[test]
fn a_report_of_a_check_in_an_exploration_is_no_answer_to_checks() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_payload(at(1), at(1));
    machine.handle_known(Known::Nothing, at(1));
    let checks = drain(&mut machine).0;
    let check =
        checks.iter().find(|check| check.pair == ab(1, 1)).expect("one of the current pair");
    let Message::Probe(check) = &check.message else { panic!("{check:?}") };
    deliver(&mut machine, ba(1, 1), State::InboundOk, 0xb0b, &check.sent, at(300)).unwrap();
    assert_eq!(machine.heard(), at(300));
    assert!(!machine.has_current_answered());
}

/// A peer that was not in Operational has taken a check for a probe, and reports the check beside the probes of the
/// exploration.
#[test]
fn a_late_report_of_a_check_in_a_probe_inbound_ok_ends_the_exploration() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = Box::new(|_| false);
    let machine = &mut net.hosts[0].machine;
    let now = net.now;
    machine.handle_suspicion(FailureHint::Silence, now, Duration::ZERO, now);
    let mut check = None;
    while let Some(Transmit { pair, message: Message::Probe(probe) }) = machine.poll_transmit() {
        check = probe.sent.first().copied().filter(|_| pair == ab(2, 2)).or(check);
    }
    machine.handle_local_failure(now);
    assert_eq!(machine.state(), State::Exploring);
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: 0 };
    let received = [check.expect("a check of the standby path")];
    let probe = Probe { state: State::InboundOk, sent: [own].into(), received: received.into() };
    machine.handle_probe(ab(2, 2), &probe, now + ms(10)).expect("taken");
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(2, 2)));
}

/// The peer hears our payload, and does not know that its own payload is lost.
#[test]
fn a_check_of_another_pair_does_not_keep_an_exploration_from_the_peer() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    let machine = &mut net.hosts[0].machine;
    machine.handle_local_failure(now);
    assert_eq!(machine.state(), State::Exploring);
    drain(machine);
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: CHECK };
    let check = Probe { state: State::Operational, sent: [own].into(), received: Vec::new() };
    machine.handle_probe(ab(2, 2), &check, now + ms(10)).expect("taken");
    assert_eq!(machine.state(), State::Exploring);
    let (transmits, _) = drain(machine);
    let [Transmit { pair, message: Message::Probe(probe) }] = &transmits[..] else {
        panic!("{transmits:?}")
    };
    assert_eq!((*pair, probe.state), (ab(2, 2), State::Exploring));
    assert_eq!(probe.received[0], own);
}

#[test]
fn a_machine_that_only_answers_checks_answers_them_and_checks_nothing() {
    let profile = Profile { answers_checks: true, leaves_worse: true, ..Profile::RFC };
    let mut net = net(&config());
    net.hosts[1].machine.handle_config(Config { profile, ..Config::default() });
    net.run_for(ms(180_000));
    assert!(net.hosts[0].machine.fresh_standby(net.now).is_some(), "the peer answers");
    assert_eq!(net.hosts[1].machine.standby(), None);
}

#[test]
fn a_request_without_an_answer_leads_to_a_trial_and_an_answered_one_does_not() {
    for is_answered in [false, true] {
        let mut net = net(&config());
        net.run_for(ms(5_000));
        let (now, machine) = (net.now, &mut net.hosts[0].machine);
        machine.handle_request_sent(now);
        machine.handle_request_sent(now + ms(100));
        if is_answered {
            machine.handle_control(now + ms(200));
        }
        machine.handle_timeout(now + ms(499));
        assert!(machine.trial_started().is_none());
        machine.handle_timeout(now + ms(500));
        assert_eq!(machine.trial_started().is_none(), is_answered);
    }
}

/// A peer that explores reports a check when its next probe leaves, so the report may come seconds late.
#[test]
fn a_report_in_a_probe_of_an_exploration_gives_no_round_trip_time() {
    let mut machine = machine();
    machine.monitor_mut().knows_checks = true;
    let check = |machine: &mut Machine, now| {
        assert!(machine.send_one_check(ab(1, 1), now));
        only_probe(machine).1.sent[0]
    };
    let late = check(&mut machine, at(0));
    deliver(&mut machine, ba(1, 1), State::InboundOk, 1, &[late], at(3_000)).unwrap();
    drain(&mut machine);
    assert_eq!((machine.state(), machine.round_trip()), (State::Operational, None));
    let answered = check(&mut machine, at(3_000));
    deliver(&mut machine, ba(1, 1), State::Operational, 2, &[answered], at(3_001)).unwrap();
    assert_eq!(machine.round_trip(), Some(ms(1)));
}
