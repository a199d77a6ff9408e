//! Moves that probes of the peer ask for: genuine probes, and probes that an attacker on another path forges.

use alloc::boxed::Box;

use super::compare::talking;
use super::monitor::{causes, config, only, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;

/// An attacker on ISP 2, a standby path, who reads all probes there and forges probes in the name of the host to which
/// `victim` talks.
pub(super) struct Attacker {
    victim: usize,
    nonce: u32,
    /// Probe Data of the forged probes.
    data: u32,
}

impl Attacker {
    /// An attacker on the path that carries no payload.
    pub(super) fn new(net: &mut Net, victim: usize) -> Self {
        net.overheard = Some(Vec::new());
        Self { victim, nonce: 0x0a00_0000, data: 0 }
    }

    /// Sends two probes Exploring, and then probes that report all that ISP 2 has seen of the victim: at once, and one by one as
    /// answers to checks.
    pub(super) fn strike(&mut self, net: &mut Net) {
        self.forge(net, State::Exploring, Vec::new());
        self.forge(net, State::Exploring, Vec::new());
        let overheard = net.overheard.as_ref().unwrap().iter();
        let sent = overheard.filter(|(from, ..)| *from == self.victim);
        let seen: Vec<_> = sent.flat_map(|(_, _, probe)| probe.sent.iter().copied()).collect();
        for state in [State::Operational, State::InboundOk] {
            self.forge(net, state, seen.clone());
        }
        for report in seen {
            let answer = Report { data: CHECK_CURRENT, ..report };
            self.forge(net, State::Operational, [answer].into());
        }
        net.overheard.as_mut().unwrap().clear();
    }

    /// Sends one probe that reports the last probes of the victim by ISP 2.
    pub(super) fn report_all(&mut self, net: &mut Net, state: State) {
        let overheard = net.overheard.as_ref().unwrap().iter();
        let sent = overheard.filter(|(from, ..)| *from == self.victim);
        let seen: Vec<_> = sent.flat_map(|(_, _, probe)| probe.sent.iter().copied()).collect();
        self.forge(net, state, seen.into_iter().rev().take(4).collect());
    }

    pub(super) fn forge(&mut self, net: &mut Net, state: State, received: Vec<Report>) {
        let by = [ba(2, 2), ab(2, 2)][self.victim];
        self.nonce += 1;
        let own = Report { src: by.local, dst: by.peer, nonce: self.nonce, data: self.data };
        net.inject(self.victim, by, Probe { state, sent: [own].into(), received });
    }
}

pub(super) fn stays(net: &Net, host: usize) -> bool {
    causes(net, host).is_empty() && net.pairs() == [ab(1, 1), ba(1, 1)]
}

#[test]
fn who_is_on_a_standby_path_only_takes_no_payload_there_by_forged_probes() {
    for data in [0, LEFT_AS_WORSE] {
        for (apart, times) in [(10, 1_000), (100, 600), (700, 100)] {
            let mut net = talking(&config(), 1);
            let mut attacker = Attacker { data, ..Attacker::new(&mut net, 0) };
            for _ in 0..times {
                attacker.strike(&mut net);
                assert!(stays(&net, 0), "{data:x} {apart}: {:?}", net.hosts[0].log);
                net.run_for(ms(apart));
                assert!(stays(&net, 0), "{data:x} {apart}: {:?}", net.hosts[0].log);
            }
            let past = net.hosts[0].machine.monitor.as_ref().unwrap().past();
            assert!(past.is_none_or(|past| past.worse.is_empty() && past.mistakes == 0));
        }
    }
}

/// A pair that payload has gone back to has answered checks beforehand.
#[test]
fn nor_after_payload_has_gone_back_to_its_first_pair() {
    let mut config = config();
    config.profile.fail_back = ms(4_000);
    let mut net = talking(&config, 4);
    net.route = only(&[(2, 2)]);
    net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]).expect("both leave");
    net.route = Box::new(|_| true);
    net.run_until(ms(200_000), |net| net.pairs() == [ab(1, 1), ba(1, 1)]).expect("both are back");
    let moves = [0, 1].map(|host| causes(&net, host).len());
    let mut attacker = Attacker::new(&mut net, 0);
    for n in 0..100 {
        match n % 3 {
            0 => attacker.forge(&mut net, State::InboundOk, Vec::new()),
            1 => attacker.report_all(&mut net, State::InboundOk),
            _ => attacker.strike(&mut net),
        }
        net.run_for(ms(500));
        let now = [0, 1].map(|host| causes(&net, host).len());
        assert_eq!(now, moves, "{:?}", net.hosts[0].log);
    }
}

/// The peer answers a limited number of questions in a second.
#[test]
fn nor_by_using_up_the_answers_of_the_peer() {
    let mut net = talking(&config(), 2);
    let mut attacker = Attacker::new(&mut net, 0);
    let by = ab(2, 2);
    for n in 0..3_000 {
        for (state, data) in [(State::Operational, CHECK), (State::Exploring, 0)] {
            let own = Report { src: by.local, dst: by.peer, nonce: 0x0b00_0000 + n, data };
            net.inject(1, by, Probe { state, sent: [own].into(), received: Vec::new() });
        }
        attacker.strike(&mut net);
        net.run_for(ms(10));
        assert!(stays(&net, 0), "{n}: {:?}", net.hosts[0].log);
    }
}

/// After forged probes, recovery from a real failure must not take longer.
#[test]
fn a_failure_after_forged_probes_is_left_as_fast_as_without_them() {
    let times = [false, true].map(|is_attacked| {
        let mut net = talking(&config(), 3);
        let mut attacker = Attacker::new(&mut net, 0);
        for _ in 0..if is_attacked { 500 } else { 0 } {
            attacker.strike(&mut net);
            net.run_for(ms(20));
        }
        net.run_for(ms(700));
        net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
        suspect(&mut net, 0, FailureHint::Retransmission);
        let left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        net.run_until(ms(10_000), left).expect("both leave")
    });
    assert!(times[1] <= times[0] + ms(10), "{times:?}");
}

/// A machine whose standby path and current pair have answered a check after 20 ms.
pub(super) fn checked() -> Machine {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.on_traffic();
    machine.handle_known(Known::Nothing, at(0));
    for (nonce, one) in (0x5000..).zip(drain(&mut machine).0) {
        let Message::Probe(probe) = one.message else { panic!("no probe") };
        let by = turn(one.pair);
        deliver(&mut machine, by, State::Operational, nonce, &probe.sent, at(20)).unwrap();
    }
    drain(&mut machine);
    machine
}

/// Reports of the probes that the machine has sent by its current pair.
pub(super) fn asked(sent: &[(Instant, Transmit)]) -> Vec<Report> {
    let by_current = sent.iter().filter(|(_, one)| one.pair == ab(1, 1));
    let reports = by_current.filter_map(|(_, one)| match &one.message {
        Message::Probe(probe) => probe.sent.first().copied(),
        Message::Keepalive => None,
    });
    reports.collect()
}

#[test]
fn a_peer_that_explores_is_followed_when_the_answer_of_the_current_pair_is_overdue() {
    let mut machine = checked();
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(1_000)).unwrap();
    let first: Vec<_> = drain(&mut machine).0.into_iter().map(|one| (at(1_000), one)).collect();
    assert_eq!(asked(&first).len(), 1, "{first:?}");
    run(&mut machine, at(1_039));
    assert_eq!(machine.current_pair(), ab(1, 1));
    run(&mut machine, at(1_040));
    assert_eq!(machine.current_pair(), ab(2, 2), "20 ms, half of them, and 10 ms");
}

/// Nonces of questions by the current pair stay on the current pair: whoever knows one can answer it.
#[test]
fn a_question_by_the_current_pair_is_named_in_no_probe_by_another() {
    let mut machine = checked();
    let mut sent = Vec::new();
    for nonce in 1..4 {
        deliver(&mut machine, ba(2, 2), State::Exploring, nonce, &[], at(1_000)).unwrap();
        sent.extend(drain(&mut machine).0.into_iter().map(|one| (at(1_000), one)));
    }
    let asked = asked(&sent);
    assert!(!asked.is_empty());
    let by_other = sent.iter().filter(|(_, one)| one.pair == ab(2, 2));
    for (_, one) in by_other {
        let Message::Probe(probe) = &one.message else { continue };
        assert!(probe.sent.iter().all(|report| !asked.contains(report)), "{probe:?}");
    }
}

/// The nonce of a check vouches for a move at the host that has sent the check.
#[test]
fn a_check_by_the_current_pair_is_reported_in_no_probe_by_another() {
    let mut machine = checked();
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(1_000)).unwrap();
    let LocatorPair { local: src, peer: dst } = ba(1, 1);
    let check = Report { src, dst, nonce: 7, data: CHECK_CURRENT };
    let probe = Probe { state: State::Operational, sent: [check].into(), received: Vec::new() };
    machine.handle_probe(ab(1, 1), &probe, at(1_001)).unwrap();
    deliver(&mut machine, ba(2, 2), State::Exploring, 2, &[], at(1_002)).unwrap();
    let by_other = drain(&mut machine).0.into_iter().filter(|one| one.pair == ab(2, 2));
    let reported: Vec<_> = by_other
        .filter_map(|one| match one.message {
            Message::Probe(probe) => Some(probe.received),
            Message::Keepalive => None,
        })
        .flatten()
        .collect();
    assert!(!reported.is_empty() && !reported.contains(&check), "{reported:?}");
}

/// The report is forged: it is about a probe InboundOk, and says that the probe was a check.
#[test]
fn a_report_of_a_probe_is_no_answer_to_a_check() {
    let mut machine = checked();
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(1_000)).unwrap();
    let sent: Vec<_> = drain(&mut machine).0.into_iter().map(|one| (at(1_000), one)).collect();
    let forged = Report { data: CHECK_CURRENT, ..asked(&sent)[0] };
    let _ = deliver(&mut machine, ba(2, 2), State::Operational, 2, &[forged], at(1_001));
    assert_eq!(machine.current_pair(), ab(1, 1));
}

#[test]
fn an_answer_that_comes_late_takes_payload_back() {
    let mut machine = checked();
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(1_000)).unwrap();
    let first = drain(&mut machine).0.into_iter().map(|one| (at(1_000), one));
    let asked = asked(&first.collect::<Vec<_>>());
    run(&mut machine, at(1_300));
    assert_eq!(machine.current_pair(), ab(2, 2));
    deliver(&mut machine, ba(1, 1), State::Operational, 2, &asked, at(1_300)).unwrap();
    assert_eq!((machine.current_pair(), machine.state()), (ab(1, 1), State::Operational));
}

/// In a switch of the peer, the peer works by the current pair, and wants payload elsewhere.
#[test]
fn a_peer_whose_answer_comes_by_the_pair_that_it_wants_is_followed() {
    for is_pinned in [false, true] {
        let mut machine = checked();
        machine.handle_pinned(Some(ab(1, 1)).filter(|_| is_pinned));
        deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(1_000)).unwrap();
        let first = drain(&mut machine).0.into_iter().map(|one| (at(1_000), one));
        let asked = asked(&first.collect::<Vec<_>>());
        // An answer to a probe may come by any pair. An answer to a check tells which pair the peer's payload takes.
        deliver(&mut machine, ba(2, 2), State::Operational, 2, &asked, at(1_020)).unwrap();
        assert_eq!(machine.current_pair(), ab(1, 1));
        let checks = self::asked(&run(&mut machine, at(1_510)));
        deliver(&mut machine, ba(2, 2), State::Operational, 3, &checks[..1], at(1_520)).unwrap();
        run(&mut machine, at(5_000));
        let expected = if is_pinned { ab(1, 1) } else { ab(2, 2) };
        assert_eq!((machine.current_pair(), machine.state()), (expected, State::Operational));
    }
}

/// The peer is heard by a pair, but nothing shows that our packets arrive there.
#[test]
fn an_answer_by_the_pair_that_the_peer_wants_does_not_prove_that_pair() {
    let mut machine = checked();
    deliver(&mut machine, ba(2, 1), State::Exploring, 1, &[], at(1_000)).unwrap();
    let first = drain(&mut machine).0.into_iter().map(|one| (at(1_000), one));
    let asked = asked(&first.collect::<Vec<_>>());
    deliver(&mut machine, ba(2, 1), State::Operational, 2, &asked, at(1_020)).unwrap();
    let checks = self::asked(&run(&mut machine, at(1_510)));
    deliver(&mut machine, ba(2, 1), State::Operational, 3, &checks[..1], at(1_520)).unwrap();
    assert_eq!(machine.current_pair(), ab(1, 1));
}

#[test]
fn a_pin_holds_while_the_peer_goes_elsewhere_and_ends_with_the_pair() {
    let mut net = talking(&config(), 4);
    net.hosts[0].machine.handle_pinned(Some(ab(1, 1)));
    let now = net.now;
    net.hosts[1].machine.handle_switch(ba(2, 2), Cause::Lossy, now).unwrap();
    net.flush(1);
    net.run_for(ms(20_000));
    assert_eq!(net.pairs(), [ab(1, 1), ba(2, 2)]);
    assert!(causes(&net, 0).is_empty());
    net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
    net.run_for(ms(30_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
}

/// A Probe Exploring by the second ISPs that says that the peer leaves `named`, a pair as seen from here, as much worse.
fn left_as_worse(named: LocatorPair, received: Vec<Report>) -> Probe {
    let by = ba(2, 2);
    let own = Report { src: by.local, dst: by.peer, nonce: 1, data: LEFT_AS_WORSE };
    let named = Report { src: named.peer, dst: named.local, ..own };
    Probe { state: State::Exploring, sent: [own, named].into(), received }
}

fn worse(machine: &Machine) -> Vec<LocatorPair> {
    let past = machine.monitor.as_ref().unwrap().past();
    past.map(|past| past.worse.clone()).unwrap_or_default()
}

/// The peer's current pair may be another pair than ours. Such words are no move of this host.
#[test]
fn the_pair_that_the_peer_has_left_as_worse_is_the_one_it_names() {
    for (named, is_move) in [(ab(2, 1), false), (ab(1, 1), true)] {
        let mut machine = checked();
        machine.send_check(ab(1, 1), at(1_000));
        let (sent, _) = drain(&mut machine);
        let Message::Probe(check) = &sent[0].message else { panic!("no probe") };
        let probe = left_as_worse(named, [check.sent[0]].into());
        machine.handle_probe(ab(2, 2), &probe, at(1_010)).unwrap();
        assert_eq!(worse(&machine), [named], "the report of a check shows that the peer wrote it");
        let past = machine.monitor.as_ref().unwrap().past().unwrap();
        assert_eq!(past.is_unpaid(at(1_010)), is_move, "{named:?}");
    }
}

/// Whoever knows the context tag, as the ISP of a standby path does from checks, can write these words. They would keep
/// payload from the preferred pair for longer, or have a pair that works counted as worse.
#[test]
fn forged_words_about_a_worse_pair_change_nothing_unless_their_sender_sees_the_current_pair() {
    for named in [ab(1, 1), ab(1, 2), ab(2, 1)] {
        // The current pair does not answer the question.
        let mut machine = checked();
        machine.handle_probe(ab(2, 2), &left_as_worse(named, Vec::new()), at(1_000)).unwrap();
        run(&mut machine, at(1_050));
        assert_eq!((machine.current_pair(), worse(&machine)), (ab(2, 2), [].into()), "{named:?}");
        // This host explores itself, as the current pair has failed.
        let mut machine = checked();
        machine.handle_local_failure(at(1_000));
        machine.handle_probe(ab(2, 2), &left_as_worse(named, Vec::new()), at(1_010)).unwrap();
        run(&mut machine, at(1_050));
        assert_eq!(worse(&machine), [], "{named:?}");
    }
}

/// An Error that quotes a check of a standby path comes from there, or from an attacker there.
#[test]
fn a_refusal_by_a_standby_path_says_nothing_of_the_current_pair() {
    let mut machine = checked();
    let due = machine.monitor.as_ref().unwrap().current_rtt.due();
    machine.send_check(ab(2, 2), at(1_000));
    let (sent, _) = drain(&mut machine);
    let Message::Probe(probe) = &sent[0].message else { panic!("no probe") };
    machine.handle_check_refused(probe.sent[0].nonce, at(1_020)).unwrap();
    let monitor = machine.monitor.as_ref().unwrap();
    assert_eq!((monitor.current_rtt.due(), monitor.is_mute()), (due, false));
}

/// RFC 5533 s5.15 makes a host refuse the option, and RFC 5534 s6.9 makes it process any probe without the option.
#[test]
fn a_probe_without_the_option_of_a_check_is_taken_by_a_host_that_knows_none() {
    let mut machine = machine_in(State::InboundOk);
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: CHECK };
    let probe = Probe { state: State::Operational, sent: [own].into(), received: Vec::new() };
    let refused = machine.handle_probe(ab(2, 2), &probe, at(15_010));
    assert_eq!(refused, Err(DropReason::UnknownCriticalOption));
    machine.handle_plain_probe(ab(2, 2), &probe, at(15_010)).unwrap();
    assert_eq!(machine.state(), State::Operational);
}

#[test]
fn a_switch_of_the_peers_moves_both_hosts_in_two_round_trips() {
    let mut net = talking(&config(), 5);
    let now = net.now;
    net.hosts[1].machine.handle_switch(ba(2, 2), Cause::Switch, now).unwrap();
    net.flush(1);
    let moved = net.run_until(ms(5_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]);
    assert!(moved.is_some_and(|after| after <= ms(30)), "{moved:?}");
}
