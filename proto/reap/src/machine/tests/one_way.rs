//! Traffic one way: the peer only receives, and answers with keepalives (decision 117).

use super::monitor::{causes, config, has, moved_after, net, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;

use alloc::boxed::Box;

/// Host 0 sends. Host 1 has only keepalives to answer with.
fn one_way(config: &Config) -> Net {
    let mut net = net(config);
    net.hosts[1].payload = None;
    net.run_for(ms(40_000));
    assert!(causes(&net, 0).is_empty());
    net
}

#[test]
fn a_pair_whose_payload_is_lost_is_left_though_keepalives_still_come() {
    for later in 0..12 {
        let mut net = one_way(&config());
        net.run_for(ms(900 * later));
        net.route = Box::new(|pair| pair != ab(1, 1));
        let since = net.now;
        // Time for two keepalives and the checks.
        let took = moved_after(&mut net, 0, since);
        assert!(took <= SEND_TIMEOUT * 2 / 3 + ms(1_000), "{took:?}");
        assert_eq!(causes(&net, 0), [Cause::Suspicion]);
        assert!(net.run_until(ms(1_000), Net::is_connected).is_some());
    }
}

/// The pair has answered no check before it fails, and the standby path answers the first one.
#[test]
fn a_new_pair_whose_payload_is_lost_is_left_though_keepalives_still_come() {
    for later in 0..8 {
        let mut net = net(&config());
        net.hosts[1].payload = None;
        net.run_for(ms(1_000 + 450 * later));
        assert!(!net.hosts[0].machine.has_current_answered());
        net.route = Box::new(|pair| pair != ab(1, 1));
        let since = net.now;
        let took = moved_after(&mut net, 0, since);
        assert!(took <= SEND_TIMEOUT, "{took:?}");
        assert_eq!(causes(&net, 0), [Cause::Suspicion]);
        assert!(net.run_until(ms(1_000), Net::is_connected).is_some());
    }
}

#[test]
fn damping_does_not_keep_payload_on_a_pair_that_loses_it() {
    let mut net = one_way(&config());
    for quiet in [0, 250, 500, 1_000, 2_000, 4_000, 8_000] {
        net.run_for(ms(quiet));
        suspect(&mut net, 0, FailureHint::Silence);
        net.run_for(ms(50));
    }
    // The answer of the last trial is old, and the quiet time of 16 s is not over.
    net.run_for(ms(7_500));
    net.route = Box::new(|pair| pair != ab(1, 1));
    let since = net.now;
    let took = moved_after(&mut net, 0, since);
    assert!(took <= SEND_TIMEOUT * 2 / 3 + ms(1_000), "{took:?}");
}

#[test]
fn keepalives_have_the_current_pair_checked_once_in_half_a_send_timeout_at_most() {
    let mut net = one_way(&config());
    let sent = net.hosts[0].probes_sent;
    net.run_for(ms(600_000));
    let checks = net.hosts[0].probes_sent - sent;
    assert!((60..=100).contains(&checks), "a check in 10 s, and the rounds: {checks}");
    net.hosts[0].payload = None;
    net.run_for(ms(60_000));
    let sent = net.hosts[0].probes_sent;
    net.run_for(ms(3_600_000));
    assert_eq!(net.hosts[0].probes_sent, sent, "no traffic, no checks");
    assert!(causes(&net, 0).is_empty());
}

#[test]
fn a_keepalive_ends_no_trial_of_a_peer_that_answers_checks() {
    let mut net = one_way(&config());
    net.route = Box::new(|pair| pair != ab(1, 1));
    suspect(&mut net, 0, FailureHint::Silence);
    let now = net.now;
    net.hosts[0].machine.handle_keepalive(now).unwrap();
    net.flush(0);
    assert!(!has(&net, 0, |event| matches!(event, Event::Cleared { .. })));
    assert!(moved_after(&mut net, 0, now) <= ms(300));
}

#[test]
fn lost_checks_move_nothing_while_keepalives_come() {
    let mut net = one_way(&config());
    net.loss = 13;
    net.run_for(ms(3_600_000));
    assert!(causes(&net, 0).is_empty(), "{:?}", causes(&net, 0));
}

#[test]
fn a_peer_that_stops_to_answer_checks_is_taken_for_failed_once_unless_it_says_so() {
    for has_errors in [true, false] {
        let mut net = one_way(&config());
        net.has_errors = has_errors;
        net.hosts[1].machine.handle_config(Config::default());
        net.run_for(ms(3_600_000));
        let is_begin =
            |event: &Event| matches!(event, Event::StateChanged { to: State::Exploring, .. });
        let begun = net.hosts[0].log.iter().filter(|(_, event)| is_begin(event)).count();
        assert_eq!(begun, usize::from(!has_errors));
        assert!(net.is_connected());
    }
}

#[test]
fn without_room_for_checks_a_keepalive_is_believed() {
    let mut net = one_way(&config());
    let now = net.now + ms(8_000);
    let machine = &mut net.hosts[0].machine;
    machine.handle_keepalive(now).unwrap();
    assert!(machine.has_check());
    machine.handle_checks_refused(now);
    assert!(machine.poll_timeout().is_none_or(|(_, timer)| timer != Timer::Answer));
}

/// Keepalives say that payload arrives, payload ends the trials, and checks have no answers.
#[test]
fn checks_that_keepalives_give_rise_to_end_with_a_trial_in_vain() {
    let mut net = one_way(&config());
    net.has_errors = false;
    net.hosts[0].payload = None;
    net.run_for(SEND_TIMEOUT);
    net.hosts[1].machine.handle_config(Config::default());
    let sent = net.hosts[0].probes_sent;
    for _ in 0..100 {
        net.run_for(SEND_TIMEOUT / 2 + ms(1_000));
        let now = net.now;
        net.hosts[0].machine.handle_keepalive(now).unwrap();
        net.flush(0);
        net.run_for(ms(150));
        let now = net.now;
        net.hosts[0].machine.handle_payload(now, now);
        net.flush(0);
    }
    let checks = net.hosts[0].probes_sent - sent;
    assert!(causes(&net, 0).is_empty());
    // Three checks, a trial of 14 checks, and the rounds of a quarter of an hour.
    assert!((17..=80).contains(&checks), "{checks}");
    net.hosts[1].machine.handle_config(config());
    net.hosts[0].payload = Some(ms(50));
    net.run_for(ms(400_000));
    assert!(
        !net.hosts[0].machine.monitor.as_ref().unwrap().is_asked_in_vain,
        "answers count again"
    );
}
