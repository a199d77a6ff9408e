//! Send and Keepalive Timers, the watch, and the cost of a machine without failures.

use super::*;

#[test]
fn a_quiet_machine_is_small_and_asks_for_nothing() {
    assert!(size_of::<Machine>() <= 96, "{} octets", size_of::<Machine>());
    let machine = machine();
    assert_eq!((machine.poll_timeout(), machine.watch()), (None, 0));
    let timers = machine.timers().unwrap();
    assert_eq!(timers.send, ms(15_000));
    assert_eq!(timers.keepalive_interval, ms(5_000));
    assert_eq!(timers.keepalive_timeout, ms(15_000));
}

//= rfc5534#4.1-2 rfc5534#5.3-4 (test)
#[test]
fn the_peers_send_timeout_is_our_keepalive_timeout() {
    let mut machine = machine();
    machine.handle_keepalive_timeout(ms(900));
    let timers = machine.timers().unwrap();
    assert_eq!((timers.keepalive_interval, timers.keepalive_timeout), (ms(300), ms(900)));
    assert_eq!(timers.send, ms(15_000), "ours is another matter");
}

#[test]
fn the_data_plane_runs_no_timers_while_we_explore() {
    assert_eq!(machine_in(State::Exploring).timers(), None);
    let timers = machine_in(State::InboundOk).timers().unwrap();
    assert_eq!((timers.send, timers.keepalive_timeout), (ms(15_000), ms(0)));
}

/// Example 3 of appendix A: payload one way, keepalives the other.
#[test]
fn keepalives_go_by_the_current_pair() {
    let mut machine = machine();
    machine.handle_keepalive_due(at(5_000));
    let (transmits, events) = drain(&mut machine);
    assert_eq!(transmits, [Transmit { pair: ab(1, 1), message: Message::Keepalive }]);
    assert!(events.is_empty());
    assert!(machine.exploration.is_none(), "a keepalive costs no memory");
}

#[test]
fn a_send_timer_that_was_overtaken_by_a_message_is_ignored() {
    let mut machine = machine();
    machine.handle_keepalive(at(14_990)).unwrap();
    machine.handle_send_expired(at(0), at(15_000));
    assert_eq!(machine.state(), State::Operational);
    machine.handle_send_expired(at(14_995), at(30_000));
    assert_eq!(machine.state(), State::Exploring);
}

/// The R2 is under way. A host that has no context yet does not answer the payload behind the R2.
#[test]
fn silence_that_begins_before_the_peer_can_have_the_context_is_ignored() {
    for (send_timeout, state) in [(ms(1_000), State::Operational), (ms(10_000), State::Exploring)] {
        let mut machine = machine();
        machine.handle_config(Config { send_timeout, ..Config::default() });
        machine.handle_unconfirmed(at(0));
        machine.handle_send_expired(at(499), at(499) + send_timeout);
        assert_eq!(machine.state(), state, "{send_timeout:?}");
        machine.handle_send_expired(at(500), at(500) + send_timeout);
        assert_eq!(machine.state(), State::Exploring);
    }
}

//= rfc5534#4.1-3 (test)
#[test]
fn probe_operational_is_followed_by_keepalives_until_the_timeout() {
    let mut machine = machine_in(State::Operational);
    deliver(&mut machine, ba(1, 1), State::Operational, 1, &[], at(0)).unwrap();
    let log = run(&mut machine, at(100_000));
    let keepalive = Transmit { pair: ab(1, 1), message: Message::Keepalive };
    let expected = [5_000, 10_000, 15_000].map(|t| (at(t), keepalive.clone()));
    assert_eq!(log, expected);
    assert!(machine.exploration.is_none());
}

/// A shorter Keepalive Timeout has shorter intervals. They do not go on until the end of the longer one.
#[test]
fn keepalives_end_with_a_keepalive_timeout_that_has_become_shorter() {
    let mut machine = machine_in(State::Operational);
    deliver(&mut machine, ba(1, 1), State::Operational, 1, &[], at(0)).unwrap();
    machine.handle_keepalive_timeout(ms(3_000));
    let log = run(&mut machine, at(100_000));
    let times: Vec<_> = log.into_iter().map(|(sent, _)| sent).collect();
    assert_eq!(times, [5_000, 6_000, 7_000, 8_000].map(at));
}

#[test]
fn payload_takes_over_from_our_own_timers() {
    for state in [State::Operational, State::InboundOk] {
        let mut machine = machine();
        deliver(&mut machine, ba(1, 1), state, 1, &[], at(0)).unwrap();
        drain(&mut machine);
        assert_ne!(machine.watch(), 0);
        machine.handle_payload(at(100), at(101));
        assert_eq!(machine.watch(), 0, "one packet is enough");
        assert_eq!(machine.poll_timeout().map(|t| t.1), Some(Timer::Forget));
        assert!(run(&mut machine, at(100_000)).is_empty());
        assert_eq!(machine.state(), State::Operational);
    }
}

#[test]
fn silence_after_probe_operational_is_a_failure() {
    let mut machine = machine();
    deliver(&mut machine, ba(1, 1), State::InboundOk, 1, &[], at(0)).unwrap();
    drain(&mut machine);
    assert_eq!(machine.poll_timeout(), Some((at(15_000), Timer::Send)));
    machine.handle_timeout(at(15_000));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn inbound_ok_falls_back_to_exploring() {
    let mut machine = machine_in(State::InboundOk);
    run(&mut machine, at(29_999));
    assert_eq!(machine.state(), State::InboundOk);
    run(&mut machine, at(30_000));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn inbound_ok_stays_as_long_as_payload_comes() {
    let mut machine = machine_in(State::InboundOk);
    let mut told = 0;
    for second in 16..300 {
        run(&mut machine, at(second * 1_000));
        if machine.watch() != 0 && machine.watch() != told {
            told = machine.watch();
            machine.handle_payload(at(second * 1_000), at(second * 1_000));
        }
        assert_eq!(machine.state(), State::InboundOk);
    }
}

#[test]
fn payload_from_before_the_timer_started_does_not_stop_it() {
    let mut machine = machine_in(State::Exploring);
    let watch = machine.watch();
    machine.handle_payload(at(14_999), at(15_001));
    assert_eq!(machine.state(), State::Exploring);
    assert_ne!(machine.watch(), watch, "the data plane reports each watch once");
    assert_ne!(machine.watch(), 0);
    machine.handle_payload(at(15_002), at(15_003));
    assert_eq!(machine.watch(), 0);
}

/// InboundOk must report a probe (RFC 5534 s5.2), and there is none. A Probe Exploring makes the peer send one.
//= rfc5534#5.2-5 (test)
#[test]
fn who_is_heard_without_a_probe_is_asked_for_one_once() {
    let mut exploring = machine();
    exploring.handle_send_expired(at(0), at(15_000));
    run(&mut exploring, at(100_000));
    let signs: [fn(&mut Machine, Instant); 3] = [
        |machine, now| machine.handle_payload(now, now),
        |machine, now| machine.handle_control(now),
        |machine, now| machine.handle_keepalive(now).unwrap(),
    ];
    for sign in signs {
        let mut machine = exploring.clone();
        for millis in 0..5 {
            sign(&mut machine, at(100_000 + millis));
        }
        let (_, probe) = only_probe(&mut machine);
        assert_eq!((machine.state(), probe.state), (State::Exploring, State::Exploring));
        assert!(!machine.explores_in_vain());
        // The pace is the pace of a new exploration.
        let next = run(&mut machine, at(100_600));
        assert_eq!(next.len(), 1);
        let answer = ba(2, 2);
        deliver(&mut machine, answer, State::InboundOk, 1, &probe.sent, at(100_600)).unwrap();
        assert_eq!(machine.state(), State::Operational);
    }
}

#[test]
fn a_send_timer_found_long_past_is_started_again() {
    let mut machine = machine();
    deliver(&mut machine, ba(1, 1), State::InboundOk, 1, &[], at(0)).unwrap();
    drain(&mut machine);
    let awake = at(3_600_000);
    machine.handle_timeout(awake);
    assert_eq!(machine.state(), State::Operational);
    assert_eq!(machine.poll_timeout(), Some((awake + ms(15_000), Timer::Send)));
}

#[test]
fn a_send_timer_of_the_data_plane_found_long_past_is_a_suspicion_and_no_failure() {
    let suspects = Config { profile: crate::Profile::default(), ..Config::default() };
    for (config, suspicions) in [(Config::default(), 0), (suspects, 1)] {
        let late = at(1) + config.send_timeout * 2 + ms(1);
        let mut machine = machine();
        machine.handle_config(config);
        machine.handle_send_expired(at(1), late);
        assert_eq!(machine.state(), State::Operational);
        let events = core::iter::from_fn(|| machine.poll_event());
        let told = events.filter(|event| matches!(event, Event::Suspected { .. })).count();
        assert_eq!(told, suspicions);
    }
    let mut machine = machine();
    machine.handle_send_expired(at(1), at(1) + Config::default().send_timeout);
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn a_long_sleep_costs_one_probe() {
    for state in [State::Exploring, State::InboundOk] {
        let mut machine = machine_in(state);
        machine.handle_timeout(at(3_600_000));
        only_probe(&mut machine);
        let (next, _) = machine.poll_timeout().unwrap();
        assert!(next > at(3_600_000));
    }
}

#[test]
fn short_send_timeouts_leave_inbound_ok_a_round_of_the_pairs() {
    let config = Config { send_timeout: ms(200), ..Config::default() };
    assert_eq!(config.inbound_ok_timeout(4), ms(500 + 500 + 500 + 1_000 + 2_000));
    assert_eq!(config.inbound_ok_timeout(1_000), ms(8_500));
    assert_eq!(Config::default().inbound_ok_timeout(1_000), SEND_TIMEOUT, "the RFC's values rule");
}

//= rfc5534#6.1 rfc5534#6.2 (test)
#[test]
fn control_messages_count_as_payload() {
    let mut machine = machine();
    machine.handle_control_sent(at(0));
    assert_eq!(machine.poll_timeout(), Some((at(15_000), Timer::Send)));
    machine.handle_control(at(100));
    assert_eq!(machine.poll_timeout(), Some((at(5_100), Timer::Keepalive)));
    machine.handle_control_sent(at(200));
    assert_eq!(machine.poll_timeout(), Some((at(15_200), Timer::Send)));
    machine.handle_keepalive(at(300)).unwrap();
    assert_eq!(machine.poll_timeout().map(|t| t.1), Some(Timer::Forget));
}

#[test]
fn a_keepalive_that_was_not_polled_is_not_sent_by_a_failed_pair() {
    let mut machine = machine();
    machine.handle_keepalive_due(at(5_000));
    machine.handle_local_failure(at(5_000));
    only_probe(&mut machine);
}

#[test]
fn payload_from_before_a_restart_of_the_send_timer_does_not_stop_it() {
    let mut machine = machine();
    deliver(&mut machine, ba(1, 1), State::InboundOk, 1, &[], at(100)).unwrap();
    drain(&mut machine);
    machine.handle_payload(at(50), at(110));
    assert_eq!(machine.poll_timeout(), Some((at(15_100), Timer::Send)));
    machine.handle_payload(at(120), at(130));
    assert_ne!(machine.poll_timeout(), Some((at(15_100), Timer::Send)));
}

#[test]
fn who_was_heard_once_is_watched_again_after_a_send_timeout_of_silence() {
    let mut machine = machine();
    machine.handle_send_expired(at(0), at(15_000));
    run(&mut machine, at(100_000));
    assert!(machine.explores_in_vain());
    machine.handle_payload(at(100_000), at(100_000));
    assert_eq!(machine.watch(), 0);
    run(&mut machine, at(300_000));
    assert_eq!(machine.state(), State::Exploring);
    assert!(machine.explores_in_vain() && machine.watch() != 0);
}
