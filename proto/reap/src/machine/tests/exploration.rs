//! Pace and order of probes, and changes of the locators during an exploration.

use super::*;

fn gaps(log: &[(Instant, Transmit)], start: Instant) -> Vec<Duration> {
    let times: Vec<_> = core::iter::once(start).chain(log.iter().map(|(t, _)| *t)).collect();
    times.windows(2).map(|w| w[1].since(w[0])).collect()
}

#[test]
fn the_first_probe_leaves_at_once_by_a_disjoint_pair() {
    for seed in 0..32 {
        let mut machine = Machine::new(Config::default(), ab(1, 1), [seed; 16], at(0));
        let sets = [A, B].map(|h| [1, 2, 3].map(|isp| locator(h, isp)));
        machine.set_candidates(sets[0], sets[1], at(0));
        machine.handle_send_expired(at(0), at(15_000));
        let (pair, probe) = only_probe(&mut machine);
        assert_eq!(pair.shared_ends(ab(1, 1)), 0);
        assert_eq!(probe.state, State::Exploring);
        let own = probe.sent[0];
        assert_eq!((own.src, own.dst, own.data), (pair.local, pair.peer, 0));
    }
}

//= rfc5534#4.3-2 rfc5534#7 (test)
#[test]
fn four_probes_half_a_second_apart_then_backoff_to_a_minute() {
    let mut machine = machine_in(State::Exploring);
    let log = run(&mut machine, at(600_000));
    let gaps = gaps(&log, at(15_000));
    assert_eq!(gaps[..3], [ms(500); 3]);
    for (index, gap) in gaps[3..].iter().enumerate() {
        let whole = ms(1_000 << index.min(6)).min(MAX_PROBE_TIMEOUT);
        assert!(*gap <= whole && *gap >= whole * 3 / 4, "{index}: {gap:?}");
    }
    assert!(gaps.len() > 14, "it goes on at this rate");
    assert_ne!(gaps[12], gaps[13], "jitter does not end");
}

#[test]
fn seeds_differ_in_jitter() {
    let fifth = |seed| {
        let mut machine = Machine::new(Config::default(), ab(1, 1), [seed; 16], at(0));
        machine.handle_send_expired(at(0), at(15_000));
        drain(&mut machine);
        run(&mut machine, at(18_000))[3].0
    };
    assert_ne!(fifth(1), fifth(2));
    assert_eq!(fifth(3), fifth(3));
}

//= rfc5534#4.3-1 (test)
#[test]
fn all_pairs_are_tried_the_failed_one_last() {
    let mut machine = machine();
    machine.handle_send_expired(at(0), at(15_000));
    let mut pairs = alloc::vec![only_probe(&mut machine).0];
    pairs.extend(run(&mut machine, at(16_500)).iter().map(|(_, t)| t.pair));
    assert_eq!(pairs[0], ab(2, 2));
    assert_eq!(pairs[3], ab(1, 1));
    pairs.sort();
    assert_eq!(pairs, [ab(1, 1), ab(1, 2), ab(2, 1), ab(2, 2)]);
}

#[test]
fn reaching_the_max_probe_timeout_is_told_once() {
    let mut machine = machine();
    machine.handle_send_expired(at(0), at(15_000));
    let mut told = Vec::new();
    while let Some((next, _)) = machine.poll_timeout().filter(|&(next, _)| next < at(900_000)) {
        machine.handle_timeout(next);
        told.extend(drain(&mut machine).1.into_iter().map(|e| (next, e)));
    }
    let told: Vec<_> =
        told.iter().filter(|(_, e)| matches!(e, Event::Unreachable { .. })).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(matches!(told[0].1, Event::Unreachable { probes: 10 }), "{told:?}");
}

//= rfc5534#5.2-9 rfc5534#5.2-10 (test)
#[test]
fn nonces_differ_within_and_between_explorations() {
    let mut seen = alloc::collections::BTreeSet::new();
    let mut machine = machine();
    for round in 0..50 {
        let start = at(round * 200_000);
        machine.handle_send_expired(start, start);
        let (pair, probe) = only_probe(&mut machine);
        assert!(seen.insert(probe.sent[0].nonce));
        for (_, transmit) in run(&mut machine, start + ms(5_000)) {
            let Message::Probe(probe) = transmit.message else { panic!("{transmit:?}") };
            assert!(seen.insert(probe.sent[0].nonce));
        }
        let back = turn(pair);
        let nonce = u32::try_from(round).unwrap();
        deliver(&mut machine, back, State::InboundOk, nonce, &probe.sent[..1], start + ms(5_000))
            .unwrap();
        drain(&mut machine);
        machine.handle_keepalive(start + ms(5_001)).unwrap();
        run(&mut machine, start + ms(100_000));
        assert!(machine.exploration.is_none(), "each exploration begins from nothing");
    }
}

//= rfc5534#3.1-1 rfc5534#4.1-1 (test)
#[test]
fn a_current_pair_that_is_gone_is_explored_away_from_at_once() {
    for (local, peer) in [
        (alloc::vec![locator(A, 2)], alloc::vec![locator(B, 1), locator(B, 2)]),
        (alloc::vec![locator(A, 1), locator(A, 2)], alloc::vec![locator(B, 2)]),
    ] {
        let mut machine = machine();
        machine.set_candidates(&local, &peer, at(100));
        let (transmits, events) = drain(&mut machine);
        assert_eq!(
            events,
            [Event::StateChanged {
                from: State::Operational,
                to: State::Exploring,
                cause: Cause::LocatorGone,
            }]
        );
        assert_eq!(transmits.len(), 1);
        assert_eq!(transmits[0].pair, ab(2, 2));
        assert_eq!(machine.current_pair(), ab(1, 1), "until another one is proven");
    }
}

#[test]
fn candidates_that_come_and_go_elsewhere_change_nothing() {
    let mut machine = machine();
    machine.set_candidates([locator(A, 1)], [locator(B, 1), locator(B, 3)], at(100));
    assert_eq!(machine.state(), State::Operational);
    assert!(machine.exploration.is_none());
}

#[test]
fn new_locators_are_probed_first_and_soon() {
    let mut machine = machine_in(State::Exploring);
    run(&mut machine, at(300_000));
    let locals = [locator(A, 1), locator(A, 2), locator(A, 3)];
    let peers = [locator(B, 1), locator(B, 2)];
    machine.set_candidates(locals, peers, at(300_000));
    let (next, timer) = machine.poll_timeout().unwrap();
    assert_eq!(timer, Timer::Retransmission);
    assert!(next <= at(300_500), "not after a minute");
    let log = run(&mut machine, at(302_000));
    assert!(log.len() >= 4, "and the pace is fast again");
    assert!(log[..2].iter().all(|(_, t)| t.pair.local == locator(A, 3)), "{log:?}");
}

#[test]
fn a_machine_without_candidates_waits_for_some() {
    let mut machine = machine();
    machine.set_candidates([], [locator(B, 1)], at(100));
    assert_eq!(machine.state(), State::Exploring);
    assert!(run(&mut machine, at(500_000)).is_empty(), "there is nothing to probe");
    assert!(machine.poll_timeout().is_some());
    machine.set_candidates([locator(A, 7)], [locator(B, 1)], at(500_000));
    let log = run(&mut machine, at(500_500));
    assert_eq!(log[0].1.pair, ab(7, 1));
}

//= rfc5534#3.2-2 (test)
#[test]
fn local_failure_explores_at_once_and_tries_the_pair_last() {
    let mut machine = machine();
    machine.handle_local_failure(at(100));
    let (pair, _) = only_probe(&mut machine);
    assert_eq!(pair, ab(2, 2));
    let log = run(&mut machine, at(1_600));
    assert_eq!(log[2].1.pair, ab(1, 1));
}

#[test]
fn a_known_local_failure_needs_proof_to_end() {
    let mut machine = machine();
    machine.handle_local_failure(at(100));
    let (_, probe) = only_probe(&mut machine);
    deliver(&mut machine, ba(2, 2), State::InboundOk, 1, &[], at(200)).unwrap();
    assert_eq!(machine.state(), State::InboundOk, "the peer lives, and that is all we know");
    deliver(&mut machine, ba(2, 2), State::InboundOk, 2, &probe.sent, at(300)).unwrap();
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(2, 2)));
}

#[test]
fn hearing_the_peer_again_makes_the_pace_fast_but_not_twice_a_minute() {
    let mut machine = machine_in(State::Exploring);
    run(&mut machine, at(300_000));
    let mut sent = 0;
    for minute in 0..10u64 {
        let start = 300_000 + minute * 30_000;
        let nonce = u32::try_from(start).unwrap();
        deliver(&mut machine, ba(2, 2), State::Operational, nonce, &[], at(start)).unwrap();
        assert_eq!(machine.state(), State::InboundOk);
        sent += drain(&mut machine).0.len() + run(&mut machine, at(start + 29_999)).len();
        assert_eq!(machine.state(), State::Exploring, "nothing more was heard");
    }
    assert!((40..=70).contains(&sent), "{sent} probes in 5 minutes");
}

#[test]
fn thirty_two_locators_of_a_side_are_explored() {
    let set = |h| (1..=40).map(|isp| locator(h, isp)).collect::<Vec<_>>();
    let mut machine = machine();
    machine.set_candidates(set(A), set(B), at(0));
    machine.handle_send_expired(at(0), at(15_000));
    only_probe(&mut machine);
    for (_, transmit) in run(&mut machine, at(10_000_000)) {
        assert!(transmit.pair.local <= locator(A, 32) && transmit.pair.peer <= locator(B, 32));
    }
}

#[test]
fn the_next_exploration_begins_at_the_fast_pace() {
    let mut machine = machine_in(State::Exploring);
    let log = run(&mut machine, at(60_000));
    let Message::Probe(last) = &log.last().unwrap().1.message else { panic!("{log:?}") };
    let pair = log.last().unwrap().1.pair;
    deliver(&mut machine, turn(pair), State::InboundOk, 1, &last.sent[..1], at(60_100)).unwrap();
    machine.handle_send_expired(at(60_200), at(75_200));
    drain(&mut machine);
    let log = run(&mut machine, at(76_700));
    assert_eq!(gaps(&log, at(75_200)), [ms(500); 3]);
}

#[test]
fn answers_leave_the_walk_of_inbound_ok_alone() {
    let mut machine = machine_in(State::InboundOk);
    let before = machine.poll_timeout();
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(15_400)).unwrap();
    only_probe(&mut machine);
    assert_eq!(machine.poll_timeout(), before);
}

#[test]
fn a_proof_ends_what_we_knew_of_the_failure() {
    let mut machine = machine();
    machine.handle_local_failure(at(100));
    let (pair, probe) = only_probe(&mut machine);
    deliver(&mut machine, turn(pair), State::InboundOk, 1, &probe.sent, at(200)).unwrap();
    machine.handle_send_expired(at(300), at(15_300));
    deliver(&mut machine, turn(pair), State::InboundOk, 2, &[], at(15_310)).unwrap();
    assert_eq!(machine.state(), State::Operational, "the peer hears our payload on the new pair");
}

#[test]
fn where_the_current_pair_has_gone_a_control_message_ends_no_search() {
    let mut machine = machine();
    let peer = [1, 2].map(|isp| locator(B, isp));
    machine.set_candidates([], peer, at(1_000));
    assert_eq!(machine.state(), State::Exploring);
    assert!(run(&mut machine, at(9_000)).is_empty(), "there is nothing to probe from");
    machine.set_candidates([locator(A, 2)], peer, at(9_000));
    machine.handle_control(at(9_000));
    assert_eq!(machine.state(), State::Exploring, "an acknowledgement is no answer to a probe");
    let log = run(&mut machine, at(9_000));
    assert_eq!(log.len(), 1, "at once: none has left yet");
    assert_eq!((log[0].0, log[0].1.pair.local), (at(9_000), locator(A, 2)));
}
