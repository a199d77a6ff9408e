//! Suspicions, and the trials that settle them.

use alloc::boxed::Box;

use super::monitor::{causes, config, has, moved_after, net, only, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;

#[test]
fn one_trial_in_vain_is_enough_for_a_peer_that_has_shown_no_checks() {
    let mut net = net(&config());
    net.hosts[1].machine.handle_config(Config::default());
    net.hosts[1].payload = None;
    net.run_for(ms(500));
    net.route = Box::new(|pair| pair != ab(1, 1));
    for _ in 0..4 {
        suspect(&mut net, 0, FailureHint::Retransmission);
        net.run_for(ms(1_500));
    }
    let trials = net.hosts[0].log.iter().filter(|(_, e)| matches!(e, Event::Suspected { .. }));
    assert_eq!(trials.count(), 1);
}

#[test]
fn there_is_no_last_trial_for_answers_that_would_come_too_late() {
    let config = Config { send_timeout: ms(40), ..config() };
    let mut net = net(&config);
    net.run_for(ms(5_000));
    let machine = &mut net.hosts[0].machine;
    assert!(machine.has_current_answered());
    assert_eq!(machine.timers().expect("Operational").send, ms(40), "a round trip takes 20 ms");
    // The data plane was told of a shorter Send Timer before.
    machine.handle_send_expired(net.now, net.now + ms(30));
    assert_eq!(machine.state(), State::Operational);
    machine.handle_timeout(net.now + ms(40));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn after_a_silent_cut_a_suspicion_moves_both_within_the_bound() {
    for delay in [ms(1), ms(10), ms(100)] {
        let mut net = net(&config());
        net.delay = delay;
        net.run_for(ms(5_000));
        net.route = only(&[(2, 2)]);
        net.run_for(delay);
        let since = net.now;
        suspect(&mut net, 0, FailureHint::Retransmission);
        let took = moved_after(&mut net, 0, since);
        let rtt = delay * 2;
        assert!(took >= rtt, "not before an answer could have come: {took:?}");
        let queue = (rtt * 10).min(ms(400));
        assert!(took <= (rtt * 3 / 2 + ms(11)).max(ms(20)) + queue, "{took:?} at {rtt:?}");
        assert_eq!(causes(&net, 0), [Cause::Suspicion]);
        assert_eq!(moved_after(&mut net, 1, since), took + delay);
        net.run_for(delay * 4);
        assert!(net.is_connected());
    }
}

#[test]
fn a_check_is_waited_for_by_how_long_answers_usually_take() {
    for (hint, quiet, usual, due) in [
        (FailureHint::Silence, 0, 0, 240),
        (FailureHint::Silence, 0, 44, 240),
        (FailureHint::Silence, 0, 150, 300),
        (FailureHint::Silence, 0, 420, 1_000),
        (FailureHint::Retransmission, 0, 400, 240),
        (FailureHint::Retransmission, 30_000, 150, 300),
        (FailureHint::Retransmission, 30_000, 1_100, 1_000),
        (FailureHint::Unreachable, 30_000, 1_100, 40),
    ] {
        let mut net = net(&config());
        net.run_for(ms(1_000));
        net.hosts.iter_mut().for_each(|host| host.payload = None);
        net.run_for(ms(quiet));
        let since = net.now;
        // The data plane may report its doubts late.
        net.run_for(ms(900));
        let now = net.now;
        let machine = &mut net.hosts[0].machine;
        machine.handle_suspicion(hint, since, ms(usual), now);
        let trial = machine.monitor.as_ref().and_then(|monitor| monitor.trial()).expect("a trial");
        assert_eq!(trial.due.since(now), ms(due), "{hint:?} {quiet} {usual}");
        assert!(
            trial.gap * 20 >= trial.due.since(now) || hint == FailureHint::Unreachable,
            "no burst"
        );
        let last = now + trial.gap * 7;
        assert!(last < trial.due, "the last check has time to be answered");
    }
}

/// The two current pairs differ, and the peer's pair fails. Packets that have come in by our pair say nothing about the
/// peer's pair.
#[test]
fn a_peer_whose_own_pair_has_failed_is_told_by_ours_which_stays() {
    for is_suspected in [true, false] {
        let mut net = net(&config());
        net.run_for(ms(5_000));
        let now = net.now;
        net.hosts[0].machine.move_to(ab(2, 2), Cause::Switch, now);
        net.run_for(ms(2_000));
        assert_eq!(net.pairs(), [ab(2, 2), ba(1, 1)]);
        net.route = only(&[(2, 2)]);
        net.run_for(ms(20));
        if is_suspected {
            suspect(&mut net, 0, FailureHint::Silence);
        }
        let within = if is_suspected { ms(300) } else { ms(15_100) };
        let is_told = |net: &Net| net.pairs()[1] == ba(2, 2);
        assert!(net.run_until(within, is_told).is_some(), "{:?}", net.pairs());
        net.run_for(ms(100));
        assert!(net.is_connected());
        assert!(
            causes(&net, 0).iter().all(|cause| *cause == Cause::Switch),
            "{:?}",
            causes(&net, 0)
        );
    }
}

#[test]
fn the_last_trial_keeps_payload_where_it_is_if_the_pair_answers() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let send = net.hosts[0].machine.timers().expect("Operational").send;
    assert_eq!(send, ms(14_000));
    let now = net.now;
    let sent = net.hosts[0].probes_sent;
    net.hosts[0].machine.handle_send_expired(now, now + send);
    net.flush(0);
    net.run_for(ms(16_000));
    assert!((2..=16).contains(&(net.hosts[0].probes_sent - sent)), "checks, and no exploration");
    assert!(causes(&net, 0).is_empty());
    assert!(!has(&net, 0, |event| matches!(event, Event::StateChanged { .. })));
}

//= rfc5534#6.4 (test)
#[test]
fn after_a_last_trial_without_answers_exploration_begins_when_the_send_timeout_is_over() {
    for standby_works in [true, false] {
        let mut net = net(&config());
        // No end waits for an answer, so the data plane suspects nothing.
        net.hosts[1].payload = None;
        net.run_for(ms(8_000));
        net.route = if standby_works { only(&[(2, 2)]) } else { only(&[(2, 1)]) };
        let starts = |net: &Net| has(net, 0, |event| matches!(event, Event::StateChanged { .. }));
        net.run_until(ms(16_000), starts).expect("explores");
        let took = net.now.since(net.hosts[0].machine.heard());
        assert!((ms(15_000)..=ms(15_050)).contains(&took), "{took:?}");
        // A standby path that the trial has asked in vain takes no payload from the ULIDs (decision 208).
        let moves = [Cause::SendTimeout].into_iter().filter(|_| standby_works);
        assert_eq!(causes(&net, 0), moves.collect::<Vec<_>>(), "{standby_works}");
        assert!(net.run_until(ms(5_000), Net::is_connected).is_some());
    }
}

#[test]
fn a_peer_that_answers_no_checks_is_given_the_whole_send_timeout_without_any() {
    let mut net = net(&config());
    net.route = Box::new(|pair| pair == ab(1, 1) || pair == ba(1, 1));
    net.hosts[1].machine.handle_config(Config::default());
    net.run_for(ms(5_000));
    let machine = &mut net.hosts[0].machine;
    assert_eq!(machine.timers().expect("Operational").send, ms(15_000));
    machine.handle_send_expired(net.now, net.now + ms(15_000));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn a_host_without_room_for_checks_explores_when_the_send_timeout_is_over() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    let machine = &mut net.hosts[0].machine;
    machine.handle_send_expired(now, now + ms(14_000));
    machine.handle_checks_refused(now + ms(14_000));
    assert_eq!(machine.poll_timeout().map(|(at, _)| at), Some(now + ms(15_000)));
    machine.handle_timeout(now + ms(15_000));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn a_pair_that_answers_stays_and_the_next_suspicion_has_to_wait() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let mut trials = 0;
    let sent = net.probes_sent();
    for _ in 0..6_000 {
        suspect(&mut net, 0, FailureHint::Silence);
        net.run_for(ms(10));
        trials =
            net.hosts[0].log.iter().filter(|(_, e)| matches!(e, Event::Suspected { .. })).count();
    }
    assert!((5..=12).contains(&trials), "{trials} in a minute");
    assert!(net.probes_sent() - sent <= trials * 22 + 22, "{}", net.probes_sent() - sent);
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    assert!(has(&net, 0, |e| matches!(e, Event::Cleared { hint: FailureHint::Silence, .. })));
    assert!(!has(&net, 0, |e| matches!(e, Event::StateChanged { .. })));
}

#[test]
fn a_suspicion_in_the_quiet_time_is_taken_up_after_it_unless_something_came() {
    let mut net = doubted_in_the_quiet_time();
    let now = net.now;
    assert!(moved_after(&mut net, 0, now) <= ms(520));
    assert_eq!(causes(&net, 0), [Cause::Suspicion]);
}

/// The pair dies in the quiet time after a trial, and payload shows that.
fn doubted_in_the_quiet_time() -> Net {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(30));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(20));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net
}

//= rfc5534#8-1 (test)
#[test]
fn an_icmpv6_error_has_the_current_pair_checked_and_no_other() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let sent = net.hosts[0].probes_sent;
    suspect(&mut net, 0, FailureHint::Unreachable);
    net.run_for(ms(100));
    assert!((1..=8).contains(&(net.hosts[0].probes_sent - sent)));
    assert!(has(&net, 0, |e| matches!(e, Event::Cleared { .. })), "made up");
    assert_eq!(net.states(), [State::Operational; 2]);
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    net.route = only(&[(2, 2)]);
    net.run_for(ms(300));
    suspect(&mut net, 0, FailureHint::Unreachable);
    net.run_for(ms(100));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    assert!(net.is_connected());
}

/// Somebody off the path sends forged errors all the time.
#[test]
fn forged_icmpv6_errors_keep_no_other_suspicion_from_its_trial() {
    for errors in [0, 20, 200] {
        let mut net = net(&config());
        net.run_for(ms(5_000));
        for _ in 0..errors {
            suspect(&mut net, 0, FailureHint::Unreachable);
            net.run_for(ms(100));
        }
        assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
        net.route = only(&[(2, 2)]);
        if errors > 0 {
            suspect(&mut net, 0, FailureHint::Unreachable);
        }
        net.run_for(ms(20));
        suspect(&mut net, 0, FailureHint::Retransmission);
        let now = net.now;
        assert!(moved_after(&mut net, 0, now) <= ms(520), "after {errors} errors");
        assert_eq!(causes(&net, 0), [Cause::Suspicion], "after {errors} errors");
    }
}

#[test]
fn a_forged_icmpv6_error_ends_no_wait_of_another_suspicion() {
    let mut net = doubted_in_the_quiet_time();
    suspect(&mut net, 0, FailureHint::Unreachable);
    let now = net.now;
    assert!(moved_after(&mut net, 0, now) <= ms(520));
    assert_eq!(causes(&net, 0), [Cause::Suspicion]);
}

#[test]
fn when_nothing_answers_exploration_begins_long_before_the_send_timeout() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = only(&[(2, 1)]);
    net.run_for(ms(20));
    suspect(&mut net, 0, FailureHint::Silence);
    let took = net.run_until(ms(10_000), Net::is_connected).expect("found");
    assert!(took < ms(2_000), "{took:?}");
    assert_eq!(net.pairs(), [ab(2, 1), ba(1, 2)]);
}
