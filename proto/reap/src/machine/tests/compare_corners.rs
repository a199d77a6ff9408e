//! Comparisons together with the other activities of a machine.

use alloc::collections::BTreeSet;

use super::compare::{HOUR, degrade, talking};
use super::monitor::{causes, config, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;
use crate::profile::Profile;

/// Loss of 25 %, out of 256.
const A_QUARTER: usize = 64;
/// Loss of 50 %.
const HALF: usize = 128;

/// Host 0 suspects its pair `times` times, 2.5 s apart.
fn doubt(net: &mut Net, times: usize) {
    for _ in 0..times {
        suspect(net, 0, FailureHint::Retransmission);
        net.run_for(ms(2_500));
    }
}

/// Both hosts have left ISP 1.
fn left(config: &Config, seed: u8) -> Net {
    let mut net = talking(config, seed);
    degrade(&mut net, A_QUARTER, ms(10));
    doubt(&mut net, 40);
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    net
}

/// A machine whose standby path and current pair have answered the checks of a round.
fn checked() -> Machine {
    let mut machine = asking();
    let (sent, _) = drain(&mut machine);
    answer(&mut machine, &sent, at(20));
    drain(&mut machine);
    assert!(machine.fresh_standby(at(20)).is_some());
    machine
}

/// A machine whose first round of checks has begun.
fn asking() -> Machine {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.on_traffic();
    machine.handle_known(Known::Nothing, at(0));
    machine
}

/// The peer answers these checks.
fn answer(machine: &mut Machine, sent: &[Transmit], now: Instant) {
    for (nonce, one) in (0x5000..).zip(sent) {
        let Message::Probe(probe) = &one.message else { continue };
        let check = probe.sent[0];
        let nonce = nonce + u32::try_from(now.since(at(0)).as_millis()).unwrap() * 64;
        deliver(machine, turn(one.pair), State::Operational, nonce, &[check], now).unwrap();
    }
}

#[test]
fn a_peer_that_compares_nothing_returns_as_ever() {
    let config = config();
    let mut net = talking(&config, 3);
    let stays = Profile { leaves_worse: false, ..Profile::default() };
    let config = Config { profile: stays, ..Config::default() };
    let (now, peer) = (net.now, &mut net.hosts[1].machine);
    peer.handle_config(config);
    for own in [&[locator(B, 1)][..], &[locator(B, 1), locator(B, 2)]] {
        peer.set_candidates(own, [locator(A, 1), locator(A, 2)], now);
    }
    net.run_for(ms(10_000));
    degrade(&mut net, A_QUARTER, ms(10));
    doubt(&mut net, 40);
    assert_eq!(net.pairs()[0], ab(2, 2));
    net.bad.clear();
    let is_back = |net: &Net| net.pairs() == [ab(1, 1), ba(1, 1)];
    let back = net.run_until(HOUR * 3, is_back);
    assert!(back.is_some(), "{:?} {:?}", causes(&net, 0), causes(&net, 1));
}

#[test]
fn a_pair_that_was_left_before_another_one_is_compared_too() {
    let config = config();
    for seed in 0..10 {
        let mut net = Net::new(&config, 3, seed);
        net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(50)));
        net.run_for(ms(10_000));
        degrade(&mut net, HALF, ms(10));
        doubt(&mut net, 80);
        let second = net.pairs()[0];
        assert_ne!(second, ab(1, 1), "seed {seed}");
        net.bad.extend([second, turn(second)].map(|pair| (pair, A_QUARTER, ms(10))));
        doubt(&mut net, 400);
        assert!(!causes(&net, 0).contains(&Cause::FailBack), "seed {seed}: {:?}", causes(&net, 0));
    }
}

#[test]
fn a_pair_that_goes_while_answers_are_waited_for_is_not_returned_to() {
    let mut net = left(&config(), 3);
    net.bad.clear();
    let is_waiting = |net: &Net| {
        let comparison = net.hosts[0].machine.monitor.as_ref().and_then(|one| one.comparison());
        comparison.is_some_and(|one| one.other == ab(1, 1) && one.next > net.now + ms(500))
    };
    net.run_until(HOUR, is_waiting).expect("the first part");
    net.run_for(ms(2_000));
    net.run_until(HOUR, is_waiting).expect("the second part");
    let now = net.now;
    let peer = [locator(B, 1), locator(B, 2)];
    net.hosts[0].machine.set_candidates([locator(A, 2)], peer, now);
    net.flush(0);
    net.run_for(ms(5_000));
    assert_eq!(net.pairs()[0], ab(2, 2));
}

#[test]
fn checks_that_had_no_room_are_not_lost() {
    let mut machine = checked();
    let due = machine.poll_timeout().unwrap().0;
    machine.handle_timeout(due);
    machine.on_traffic();
    machine.handle_known(Known::Nothing, due);
    machine.handle_checks_refused(due);
    let (retry, _) = machine.poll_timeout().unwrap();
    machine.handle_timeout(retry);
    assert!(machine.awaits_traffic(), "{:?}", machine.monitor);
    assert!(machine.monitor.as_ref().unwrap().comparison().is_none());
}

#[test]
fn a_round_that_another_context_carries_out_is_asked_for_again_in_a_second() {
    let mut machine = asking();
    let (sent, _) = drain(&mut machine);
    let by_standby: Vec<_> = sent.into_iter().filter(|one| one.pair == ab(2, 2)).collect();
    answer(&mut machine, &by_standby, at(20));
    machine.handle_standby_suspected(at(100));
    machine.on_traffic();
    machine.handle_known(Known::Asked, at(100));
    let (next, _) = machine.poll_timeout().unwrap();
    machine.handle_timeout(next);
    assert!(machine.awaits_traffic(), "{:?}", machine.monitor);
}

#[test]
fn a_peer_that_refuses_checks_ends_a_comparison() {
    let mut machine = checked();
    let mut now = at(1_000);
    machine.handle_suspicion(FailureHint::Retransmission, now, Duration::ZERO, now);
    let mut checks = 0;
    while now < at(60_000) {
        for one in drain(&mut machine).0 {
            let Message::Probe(probe) = &one.message else { continue };
            checks += 1;
            // A comparison without an answer ends after ten checks by each pair.
            let _ = machine.handle_check_refused(probe.sent[0].nonce, now + ms(20));
        }
        let Some((next, _)) = machine.poll_timeout() else { break };
        now = next;
        machine.handle_timeout(now);
    }
    assert!(checks <= 24, "{checks}");
}

#[test]
fn an_answer_to_a_check_from_before_a_trial_does_not_end_it() {
    let mut machine = checked();
    machine.consider_comparison(at(1_000));
    let (sent, _) = drain(&mut machine);
    assert_eq!(sent.len(), 2);
    machine.handle_suspicion(FailureHint::Retransmission, at(1_100), Duration::ZERO, at(1_100));
    answer(&mut machine, &sent[..1], at(1_110));
    assert!(machine.trial_started().is_some());
}

#[test]
fn both_hosts_together_leave_pairs_seven_times_in_an_hour_at_most() {
    let config = config();
    for seed in 0..10 {
        let mut net = talking(&config, seed);
        for _ in 0..720 {
            net.bad = net.pairs().map(|pair| (pair, 100, ms(10))).into();
            suspect(&mut net, 0, FailureHint::Retransmission);
            suspect(&mut net, 1, FailureHint::Retransmission);
            net.run_for(HOUR / 720);
        }
        // Hosts that measure the same at the same moment leave together.
        let all = net.hosts.iter().flat_map(|host| &host.log);
        let left = all.filter(|(_, event)| {
            matches!(event, Event::Moved { cause: Cause::Lossy | Cause::Slow, .. })
        });
        let left: BTreeSet<_> = left.map(|(at, _)| at.since(super::at(0)).as_secs()).collect();
        assert!(left.len() <= 7, "seed {seed}: {left:?}");
    }
}

#[test]
fn a_pair_that_somebody_wants_is_not_replaced_by_the_better_one() {
    let config = config();
    let mut net = Net::new(&config, 3, 3);
    net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(50)));
    net.run_for(ms(10_000));
    degrade(&mut net, A_QUARTER, ms(10));
    let is_waiting = |net: &Net| {
        let comparison = net.hosts[0].machine.monitor.as_ref().and_then(|one| one.comparison());
        comparison.is_some_and(|one| one.next > net.now + ms(500))
    };
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_until(ms(60_000), is_waiting).expect("the first part");
    net.run_for(ms(2_000));
    net.run_until(ms(60_000), is_waiting).expect("the second part");
    // The first probe by the pair gets lost.
    let now = net.now;
    net.bad.push((ab(3, 3), 256, ms(10)));
    net.hosts[0].machine.handle_switch(ab(3, 3), Cause::Switch, now).unwrap();
    net.flush(0);
    net.run_for(ms(1_100));
    net.bad.pop();
    net.run_for(ms(3_000));
    assert_eq!(net.pairs()[0], ab(3, 3), "{:?}", causes(&net, 0));
}

#[test]
fn a_comparison_without_room_waits_ever_longer_and_is_given_up() {
    let mut machine = checked();
    let mut now = at(1_000);
    machine.consider_comparison(now);
    let mut tries = 0;
    while machine.monitor.as_ref().unwrap().comparison().is_some() {
        if machine.has_check() {
            tries += 1;
            machine.handle_checks_refused(now);
        }
        let Some((next, _)) = machine.poll_timeout() else { break };
        now = next;
        machine.handle_timeout(now);
        assert!(now < at(120_000), "no end");
    }
    assert_eq!(tries, 6);
}
