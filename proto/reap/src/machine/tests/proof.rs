//! Payload that may be anybody's: only an answer to a check is proof (decision 190).

use alloc::boxed::Box;

use super::monitor::{causes, config, has, net, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;

/// Payload flows both ways, and the peer has answered checks.
fn busy(config: &Config) -> Net {
    let mut net = net(config);
    net.run_for(ms(5_000));
    assert!(net.hosts[0].machine.knows_checks());
    net
}

fn checks(net: &Net) -> usize {
    net.hosts[0].probes_sent
}

#[test]
fn a_pair_that_answers_is_asked_once_and_nobody_is_told() {
    let mut net = busy(&config());
    let (sent, told) = (checks(&net), net.hosts[0].log.len());
    suspect(&mut net, 0, FailureHint::Unproven);
    net.run_for(ms(900));
    let new = &net.hosts[0].log[told..];
    let is_time_alone = matches!(new, [(_, Event::Answered { rtt: Some(_), .. })]);
    assert!(checks(&net) - sent == 1 && is_time_alone, "{new:?}");
    assert!(!net.hosts[0].machine.wants_proof());
}

#[test]
fn payload_does_not_keep_a_pair_that_answers_no_check() {
    let mut net = busy(&config());
    net.route = Box::new(|pair| pair != ab(1, 1) && pair != ba(1, 1));
    let since = net.now;
    suspect(&mut net, 0, FailureHint::Unproven);
    let is_suspected = |net: &Net| has(net, 0, |event| matches!(event, Event::Suspected { .. }));
    while causes(&net, 0).is_empty() {
        net.run_for(ms(5));
        let now = net.now;
        // The attacker.
        net.hosts[0].machine.handle_payload(now, now);
        net.flush(0);
        assert!(net.now.since(since) < ms(700), "still on the dead pair");
    }
    assert!(is_suspected(&net));
    assert!(!has(&net, 0, |event| matches!(event, Event::Cleared { .. })));
    assert_eq!(causes(&net, 0), [Cause::Suspicion]);
}

/// The queue of the pair has grown by far more than a round trip since the last check.
#[test]
fn a_late_answer_to_the_question_ends_the_trial() {
    let mut net = busy(&config());
    let delay = net.delay;
    net.delay = ms(200);
    suspect(&mut net, 0, FailureHint::Unproven);
    net.run_for(ms(350));
    assert!(has(&net, 0, |event| matches!(event, Event::Suspected { .. })));
    net.run_for(ms(100));
    assert!(has(&net, 0, |event| matches!(event, Event::Cleared { .. })));
    net.delay = delay;
    net.run_for(ms(5_000));
    assert!(causes(&net, 0).is_empty());
}

#[test]
fn a_longer_proof_interval_has_the_peer_asked_less_often_and_none_never() {
    for (interval, fewest, most) in [(1_000, 28, 32), (5_000, 5, 7), (0, 0, 1)] {
        let mut config = config();
        config.profile.proof_interval = ms(interval);
        let mut net = busy(&config);
        let sent = checks(&net);
        for _ in 0..30 {
            net.run_for(ms(1_100));
            suspect(&mut net, 0, FailureHint::Unproven);
        }
        let sent = checks(&net) - sent;
        assert!((fewest..=most).contains(&sent), "{interval}: {sent}");
    }
}

#[test]
fn a_question_without_room_is_asked_again_with_the_next_report() {
    let mut net = busy(&config());
    let (now, machine) = (net.now, &mut net.hosts[0].machine);
    machine.handle_suspicion(FailureHint::Unproven, now, Duration::ZERO, now);
    assert!(machine.has_check() && machine.can_wait());
    machine.handle_checks_refused(now);
    assert!(!machine.wants_proof() && machine.poll_transmit().is_none());
    let sent = checks(&net);
    suspect(&mut net, 0, FailureHint::Unproven);
    assert_eq!(checks(&net) - sent, 1);
}

#[test]
fn a_peer_that_answers_no_checks_is_not_asked() {
    let mut net = net(&config());
    net.hosts[1].machine.handle_config(Config::default());
    net.run_for(ms(5_000));
    let sent = checks(&net);
    suspect(&mut net, 0, FailureHint::Unproven);
    net.run_for(ms(900));
    assert_eq!(checks(&net), sent);
}

/// The peer has answered checks, and has been restarted with a profile that knows none; or firewalls have begun to drop
/// Shim6 in one direction. An exploration would have the peer move payload behind the header, and the firewalls drop the header as well.
#[test]
fn payload_goes_on_if_no_pair_answers_checks_any_more() {
    let mut net = busy(&config());
    net.hosts[1].machine.handle_config(Config::default());
    net.has_errors = false;
    let since = net.now;
    suspect(&mut net, 0, FailureHint::Unproven);
    net.run_for(ms(2_000));
    for _ in 0..20 {
        net.run_for(ms(1_100));
        suspect(&mut net, 0, FailureHint::Unproven);
    }
    let explored = net.hosts[0].log.iter().filter(|(at, event)| {
        let is_exploring = matches!(event, Event::StateChanged { to: State::Exploring, .. });
        *at >= since && is_exploring
    });
    assert_eq!(explored.count(), 0);
    assert!(net.is_connected() && causes(&net, 0).is_empty());
}
