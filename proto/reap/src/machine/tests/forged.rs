//! An attacker on a standby path who also sends with the addresses of the current pair, or forges preferences.

use alloc::boxed::Box;

use super::compare::talking;
use super::follow::{Attacker, asked, checked, stays};
use super::monitor::{causes, config, only};
use super::net::Net;
use super::*;
use crate::order::Rank;

/// Sends to both hosts a probe in the name of the other host with the addresses of the current pair.
fn spoof(net: &mut Net, state: State, data: u32, nonce: u32) {
    for (to, by) in [(0, ba(1, 1)), (1, ab(1, 1))] {
        let own = Report { src: by.local, dst: by.peer, nonce, data };
        net.inject(to, by, Probe { state, sent: [own].into(), received: Vec::new() });
    }
}

/// 200 forged probes a second by the current pair, and forged probes by the standby path (a live trial).
#[test]
fn forged_probes_by_the_current_pair_use_up_no_answers_to_the_peers_questions() {
    let kinds = [
        (State::Operational, CHECK),
        (State::Operational, CHECK_CURRENT),
        (State::InboundOk, 0),
        (State::Exploring, 0),
    ];
    for kind in 0..=kinds.len() {
        let mut net = talking(&config(), 1);
        let mut attackers = [0, 1].map(|victim| Attacker::new(&mut net, victim));
        for n in 0..8_000_u32 {
            let (state, data) = kinds[if kind < 4 { kind } else { n as usize % 4 }];
            spoof(&mut net, state, data, 0x0c00_0000 + n);
            if n % 20 == 0 {
                attackers[0].strike(&mut net);
                attackers[1].strike(&mut net);
            }
            net.run_for(ms(5));
            assert!(stays(&net, 0) && stays(&net, 1), "{kind} {n}: {:?}", net.hosts[0].log);
        }
    }
}

/// The standby path has answered checks before payload moves there.
#[test]
fn nor_after_payload_has_moved() {
    let mut config = config();
    config.profile.fail_back = ms(4_000);
    let mut net = talking(&config, 4);
    net.route = only(&[(2, 2)]);
    net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]).expect("both leave");
    net.route = Box::new(|_| true);
    net.run_until(ms(200_000), |net| net.pairs() == [ab(1, 1), ba(1, 1)]).expect("both are back");
    let moves = [0, 1].map(|host| causes(&net, host).len());
    let mut attackers = [0, 1].map(|victim| Attacker::new(&mut net, victim));
    for n in 0..6_000 {
        spoof(&mut net, State::Operational, CHECK_CURRENT, 0x0c00_0000 + n);
        if n % 20 == 0 {
            attackers[0].strike(&mut net);
            attackers[1].strike(&mut net);
        }
        net.run_for(ms(5));
        let now = [0, 1].map(|host| causes(&net, host).len());
        assert_eq!(now, moves, "{n}: {:?}", net.hosts[0].log);
    }
}

/// The attack begins with the context, and goes on for as long as a mistaken return takes to be tried again.
#[test]
fn forged_probes_take_no_payload_of_a_new_context() {
    for (every, delay) in [(5, 10), (10, 10), (50, 60)] {
        let mut net = Net::new(&config(), 2, 5);
        net.delay = ms(delay);
        net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(20)));
        let mut attackers = [0, 1].map(|victim| Attacker::new(&mut net, victim));
        for n in 0..40_000 / every {
            for attacker in &mut attackers {
                match n % 2 {
                    0 => attacker.strike(&mut net),
                    _ => attacker.report_all(&mut net, State::InboundOk),
                }
            }
            net.run_for(ms(every));
            assert!(stays(&net, 0) && stays(&net, 1), "{every} {n}: {:?}", net.hosts[0].log);
        }
    }
}

/// The two hosts go back one after the other. Meanwhile the attacker's ISP has the payload of one of them.
#[test]
fn forged_probes_do_not_keep_payload_from_going_back() {
    let mut config = config();
    config.profile.fail_back = ms(4_000);
    let of_one = [(0, &[0][..]), (1, &[1]), (2, &[0]), (3, &[1])];
    for (seed, victims) in (0..8).map(|seed| (seed, &[0, 1][..])).chain(of_one) {
        let mut net = talking(&config, seed);
        net.route = only(&[(2, 2)]);
        net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]).expect("both leave");
        net.route = Box::new(|_| true);
        let mut attackers: Vec<_> =
            victims.iter().map(|victim| Attacker::new(&mut net, *victim)).collect();
        for n in 0..6_000 {
            for attacker in &mut attackers {
                match n % 2 {
                    0 => attacker.strike(&mut net),
                    _ => attacker.report_all(&mut net, State::InboundOk),
                }
            }
            net.run_for(ms(20));
        }
        assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "{seed}: {:?}", net.hosts[0].log);
        let returns = [0, 1].map(|host| {
            causes(&net, host).iter().filter(|cause| **cause == Cause::FailBack).count()
        });
        assert!(returns.iter().all(|returns| *returns <= 2), "{seed}: {returns:?}");
    }
}

/// ISP 2 has the payload, and would keep it.
#[test]
fn forged_errors_about_checks_do_not_keep_payload_from_going_back() {
    let mut config = config();
    config.profile.fail_back = ms(4_000);
    for seed in 0..8 {
        let mut net = talking(&config, seed);
        net.route = only(&[(2, 2)]);
        net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]).expect("both leave");
        net.route = Box::new(|_| true);
        net.is_refused_at_isp_2 = true;
        let is_back = |net: &Net| net.pairs() == [ab(1, 1), ba(1, 1)];
        let after = net.run_until(ms(60_000), is_back);
        assert!(after.is_some(), "{seed}: {:?}", net.hosts[0].log);
    }
}

/// 200 forged checks a second by the preferred pair.
#[test]
fn forged_checks_make_no_comparison_end_against_the_preferred_pair() {
    let mut config = config();
    config.profile.fail_back = ms(4_000);
    for (seed, data) in (0..4).flat_map(|seed| [(seed, CHECK), (seed, CHECK_CURRENT)]) {
        let mut net = talking(&config, seed);
        net.route = only(&[(2, 2)]);
        net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]).expect("both leave");
        net.route = Box::new(|_| true);
        let compares = |net: &Net| net.hosts.iter().any(|host| host.machine.can_wait());
        net.run_until(ms(60_000), compares).expect("a host compares");
        let began = net.now;
        let mut nonce = 0x0c00_0000;
        while net.pairs() != [ab(1, 1), ba(1, 1)] {
            nonce += 1;
            spoof(&mut net, State::Operational, data, nonce);
            net.run_for(ms(5));
            assert!(net.now.since(began) < ms(20_000), "{seed}: {:?}", net.hosts[0].log);
        }
    }
}

/// The limits of the answers count for whoever sees the current pair as well.
#[test]
fn questions_of_the_peer_are_limited_too() {
    let mut net = talking(&config(), 1);
    let peer = &mut net.hosts[1].machine;
    let sent = (0..100).flat_map(|n| {
        peer.send_check(ba(1, 1), at(20_000 + n));
        drain(peer).0
    });
    let sent: Vec<_> = sent.collect();
    let answered = sent.into_iter().zip(0..).filter(|(one, n)| {
        let Message::Probe(probe) = &one.message else { panic!("no probe") };
        assert_eq!(probe.sent.len(), 2, "the check repeats the last answer");
        net.hosts[0].machine.handle_probe(ab(1, 1), probe, at(20_000 + n)).is_ok()
    });
    assert_eq!(answered.count(), ANSWERS_PER_SECOND as usize);
}

/// An attacker that has read an answer once can repeat that answer for nine to seventeen minutes.
#[test]
fn an_answer_of_long_ago_shows_nothing() {
    let check = |answer: Option<Report>, nonce| {
        let LocatorPair { local: src, peer: dst } = ba(1, 1);
        let sent = [Report { src, dst, nonce, data: CHECK }].into_iter().chain(answer).collect();
        Probe { state: State::Operational, sent, received: Vec::new() }
    };
    let mut machine = checked();
    machine.handle_probe(ab(1, 1), &check(None, 1), at(1_000)).unwrap();
    let answer = only_probe(&mut machine).1.sent[0];
    for (at_ms, counts) in [(2_000, true), (1_020_000, true), (1_025_000, false)] {
        while machine.handle_probe(ab(1, 1), &check(None, 2), at(at_ms)).is_ok() {}
        let taken = machine.handle_probe(ab(1, 1), &check(Some(answer), 3), at(at_ms));
        assert_eq!(taken.is_ok(), counts, "{at_ms}");
    }
}

/// Whoever reads another pair learns nothing that counts for the current pair.
#[test]
fn an_answer_by_another_pair_shows_nothing() {
    let mut machine = checked();
    let forged = |answer: Option<Report>, nonce| {
        let LocatorPair { local: src, peer: dst } = ba(1, 1);
        let own = Report { src, dst, nonce, data: CHECK };
        let sent = [own].into_iter().chain(answer).collect();
        Probe { state: State::Operational, sent, received: Vec::new() }
    };
    let by_other = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: CHECK };
    let check = Probe { state: State::Operational, sent: [by_other].into(), received: Vec::new() };
    machine.handle_probe(ab(2, 2), &check, at(1_000)).unwrap();
    let (_, answer) = only_probe(&mut machine);
    let seen = answer.sent[0];
    let moved = Report { src: locator(A, 1), dst: locator(B, 1), ..seen };
    let guessed = Report { nonce: 1, ..moved };
    for (at_ms, shown) in [(2_000, seen), (4_000, moved), (6_000, guessed)] {
        let all = (0..100).filter(|nonce| {
            machine.handle_probe(ab(1, 1), &forged(None, 900 + nonce), at(at_ms)).is_ok()
        });
        assert_eq!(all.count(), ANSWERS_PER_SECOND as usize);
        let refused = machine.handle_probe(ab(1, 1), &forged(Some(shown), 8), at(at_ms));
        assert_eq!(refused, Err(DropReason::RateLimited), "{shown:?}");
    }
    machine.handle_probe(ab(1, 1), &forged(None, 1), at(8_000)).unwrap();
    let (_, answer) = drain(&mut machine).0.pop().map(only).unwrap();
    while machine.handle_probe(ab(1, 1), &forged(None, 2), at(8_000)).is_ok() {}
    machine.handle_probe(ab(1, 1), &forged(Some(answer.sent[0]), 3), at(8_000)).unwrap();

    fn only(one: Transmit) -> (LocatorPair, Probe) {
        match one.message {
            Message::Probe(probe) => (one.pair, probe),
            Message::Keepalive => panic!("no probe"),
        }
    }
}

/// A check of the standby path is answered by a pair. Then payload takes the standby path, and the next check goes by
/// it.
#[test]
fn an_answer_is_repeated_only_on_the_pair_that_has_carried_it() {
    for (by, repeated) in [(ab(1, 1), 0), (ab(2, 2), 1)] {
        let mut machine = checked();
        let ask = |machine: &mut Machine, at_ms| {
            machine.send_check(ab(2, 2), at(at_ms));
            only_probe(machine).1
        };
        let check = ask(&mut machine, 1_000);
        let own = Report { src: by.peer, dst: by.local, nonce: 7, data: 0x8000_0001 };
        let received = [check.sent[0]].into();
        let answer = Probe { state: State::Operational, sent: [own].into(), received };
        machine.handle_probe(by, &answer, at(1_010)).unwrap();
        machine.move_to(ab(2, 2), Cause::Suspicion, at(2_000));
        drain(&mut machine);
        let next = ask(&mut machine, 2_500);
        let tokens = next.sent.iter().filter(|report| report.nonce == 7).count();
        assert_eq!(tokens, repeated, "{by:?}: {next:?}");
    }
}

/// The peer of a host, or an attacker, says whether the peer's first and second locator are broken.
fn say(net: &mut Net, host: usize, broken: [bool; 2]) {
    let [own, peer] = [[A, B], [B, A]][host];
    tell(&mut net.hosts[host].machine, [own, peer], broken, net.now);
    net.flush(host);
}

fn tell(machine: &mut Machine, ends: [u16; 2], broken: [bool; 2], now: Instant) {
    let ranks = broken.map(|is_broken| Rank { is_broken, ..Rank::default() });
    let [own, peer] = ends.map(|host| [1, 2].map(|isp| locator(host, isp)));
    machine.handle_candidates(own, peer, &ranks, &[], now);
}

#[test]
fn a_locator_that_answers_is_not_broken_whoever_says_so() {
    let mut net = talking(&config(), 2);
    for n in 0..400 {
        say(&mut net, 0, [n % 2 == 0, n % 3 == 0]);
        net.run_for(ms(50));
        assert!(stays(&net, 0), "{n}: {:?}", net.hosts[0].log);
    }
    // The last word calls both locators broken.
    net.run_for(ms(60_000));
    say(&mut net, 0, [true; 2]);
    net.run_for(ms(2_000));
    let machine = &net.hosts[0].machine;
    assert_eq!(machine.fresh_standby(net.now), Some(ab(2, 2)), "this host stays protected");
    assert!(stays(&net, 0) && !machine.is_current_broken());
    net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
    let left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
    net.run_until(ms(30_000), left).expect("both leave");
}

/// The round-trip time is 20 ms, so an answer is due after 40 ms.
#[test]
fn a_locator_that_is_broken_is_left_when_its_answer_is_overdue() {
    let mut net = talking(&config(), 3);
    net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
    say(&mut net, 0, [true, false]);
    let left = net.run_until(ms(1_000), |net| net.hosts[0].machine.current_pair() == ab(2, 2));
    assert!(left.is_some_and(|after| after <= ms(40)), "{left:?}");
    assert_eq!(causes(&net, 0), [Cause::LocatorBroken]);
}

#[test]
fn a_forged_preference_does_not_keep_payload_from_going_back() {
    let mut config = config();
    config.profile.fail_back = ms(4_000);
    let mut net = talking(&config, 4);
    net.route = only(&[(2, 2)]);
    net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]).expect("both leave");
    net.route = Box::new(|_| true);
    say(&mut net, 0, [true, false]);
    net.run_until(ms(120_000), |net| net.pairs() == [ab(1, 1), ba(1, 1)]).expect("both are back");
}

/// Where the host has no room for checks, nobody was asked.
#[test]
fn a_question_that_did_not_leave_is_asked_again() {
    let mut machine = checked();
    tell(&mut machine, [A, B], [true, false], at(1_000));
    for n in 0..20 {
        let now = at(1_000 + 500 * n);
        run_without_room(&mut machine, now);
        assert_eq!(machine.current_pair(), ab(1, 1), "{n}");
    }
    let sent = run(&mut machine, at(11_200));
    assert!(!asked(&sent).is_empty());
    assert_eq!(machine.current_pair(), ab(2, 2), "asked, and not answered");
}

/// An earlier question has left, and its answer counts.
#[test]
fn an_answer_to_the_one_question_that_left_counts() {
    let mut machine = checked();
    tell(&mut machine, [A, B], [true, false], at(1_000));
    let first: Vec<_> = drain(&mut machine).0.into_iter().map(|one| (at(1_000), one)).collect();
    run_without_room(&mut machine, at(1_015));
    deliver(&mut machine, ba(1, 1), State::Operational, 5, &asked(&first), at(1_020)).unwrap();
    run(&mut machine, at(3_000));
    assert_eq!(machine.current_pair(), ab(1, 1));
}

/// Runs all timers up to `until`. The host refuses each check.
fn run_without_room(machine: &mut Machine, until: Instant) {
    loop {
        if machine.has_check() {
            machine.handle_checks_refused(until);
        }
        assert!(drain(machine).0.iter().all(|one| one.pair != ab(1, 1)));
        match machine.poll_timeout().filter(|&(next, _)| next <= until) {
            Some((next, _)) => machine.handle_timeout(next),
            None => return,
        }
    }
}

/// A long attack (a live trial): 200 forged messages a second by the current pair to each host. Now and then a forged
/// probe and a preference come by the standby path. Each 5 s both hosts are busy for 60 ms, which is longer than they
/// wait for an answer. The late answers take payload back.
#[test]
fn a_long_mix_of_forged_messages_takes_payload_for_moments_at_most() {
    for (seed, delay) in (0_u8..8).flat_map(|seed| [0, 2, 10].map(|delay| (seed, delay))) {
        let mut net = talking(&config(), seed);
        net.delay = ms(delay);
        net.run_for(ms(5_000));
        let mut attackers = [0, 1].map(|victim| Attacker::new(&mut net, victim));
        let mut away = 0;
        for n in 0..12_000_u32 {
            let nonce = 0x0c00_0000 + n;
            match (n + u32::from(seed)) % 3 {
                0 => spoof(&mut net, State::Operational, CHECK, nonce),
                1 if n % 27 < 3 => spoof_reports(&mut net, nonce),
                1 => spoof(&mut net, State::InboundOk, 0, nonce),
                _ => spoof(&mut net, State::Exploring, 0, nonce),
            }
            if n % 200 == 3 * u32::from(seed) {
                for attacker in &mut attackers {
                    attacker.report_all(&mut net, State::Exploring);
                }
            }
            if n % 400 == 5 * u32::from(seed) {
                say(&mut net, 0, [true, false]);
                say(&mut net, 1, [true, false]);
            }
            net.delay = ms(if n % 1_000 < 20 { 60 } else { delay });
            net.run_for(ms(5));
            away += u32::from(net.pairs() != [ab(1, 1), ba(1, 1)]);
        }
        assert!(away < 240, "{seed} {delay}: {away} of 12,000 steps; {:?}", net.hosts[0].log);
    }
}

/// Sends to each host a probe InboundOk by the current pair, with reports of its probes by that pair that ISP 2 has
/// seen.
fn spoof_reports(net: &mut Net, nonce: u32) {
    for (to, by) in [(0, ba(1, 1)), (1, ab(1, 1))] {
        let overheard = net.overheard.as_ref().unwrap().iter();
        let reports = overheard.flat_map(|(_, _, probe)| &probe.received);
        let about = reports.filter(|one| LocatorPair::new(one.dst, one.src) == by);
        let received: Vec<_> = about.copied().collect();
        let received = received.into_iter().rev().take(3).collect();
        let own = Report { src: by.local, dst: by.peer, nonce, data: 0 };
        net.inject(to, by, Probe { state: State::InboundOk, sent: [own].into(), received });
    }
}

/// The ISP of a standby path reads the nonces of checks there. A report of them is no way around the limit of answers.
#[test]
fn a_nonce_that_an_attacker_has_read_draws_no_more_answers_than_the_limit() {
    for (state, data) in
        [(State::Exploring, CHECK), (State::InboundOk, CHECK), (State::InboundOk, 7)]
    {
        let mut machine = checked();
        machine.send_check(ab(2, 2), at(5_000));
        let Report { nonce, .. } = only_probe(&mut machine).1.sent[0];
        let LocatorPair { local, peer } = ab(2, 2);
        let report = Report { src: local, dst: peer, nonce, data };
        let taken = (0..200).filter(|n| {
            let own = Report { src: peer, dst: local, nonce: 0x0d00_0000 + n, data: 0 };
            let probe = Probe { state, sent: [own].into(), received: [report].into() };
            machine.handle_probe(ab(2, 2), &probe, at(5_100)).is_ok()
        });
        let most = ANSWERS_PER_SECOND as usize + 1;
        assert!((1..=most).contains(&taken.count()), "{state:?} {data:x}");
    }
}
