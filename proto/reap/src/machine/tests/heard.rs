//! Probes and answers on paths that lose packets (decision 214).

use super::*;
use crate::Profile;

/// The machine of host A with this profile, whose current pair is gone: it explores at `at(0)`. Gives its first probe.
fn exploring(profile: Profile) -> (Machine, LocatorPair, Report) {
    let config = Config { profile, ..Config::default() };
    let mut machine = Machine::new(config, ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_local_failure(at(0));
    let (pair, probe) = only_probe(&mut machine);
    (machine, pair, probe.sent[0])
}

/// The peer has heard the first probe. Gives the pair of that probe, which is the current pair now.
fn answered(profile: Profile) -> (Machine, LocatorPair) {
    let (mut machine, pair, sent) = exploring(profile);
    deliver(&mut machine, turn(pair), State::InboundOk, 1, &[sent], at(20)).unwrap();
    assert_eq!(machine.state(), State::Operational);
    assert_eq!(only_probe(&mut machine).1.state, State::Operational);
    assert_eq!(machine.current_pair(), pair);
    (machine, pair)
}

fn repetitions(machine: &mut Machine, until: Instant) -> Vec<(Instant, LocatorPair)> {
    let is_answer = |message: &Message| matches!(message, Message::Probe(p) if p.state == State::Operational && !p.received.is_empty());
    let sent = run(machine, until).into_iter();
    sent.filter(|(_, one)| is_answer(&one.message)).map(|(at, one)| (at, one.pair)).collect()
}

#[test]
fn a_probe_operational_is_repeated_three_times_until_the_peer_confirms_it() {
    let (mut machine, pair) = answered(Profile::default());
    let expected = [520, 1_020, 1_520].map(|millis| (at(millis), pair));
    assert_eq!(repetitions(&mut machine, at(9_000)), expected);
}

/// Payload of the peer does not say that the peer has heard the answer.
#[test]
fn a_keepalive_ends_the_repetitions_and_payload_does_not() {
    let (mut machine, pair) = answered(Profile::default());
    machine.handle_payload(at(100), at(100));
    assert_eq!(repetitions(&mut machine, at(600)), [(at(520), pair)]);
    machine.handle_payload(at(700), at(700));
    assert_eq!(repetitions(&mut machine, at(1_100)), [(at(1_020), pair)]);
    machine.handle_keepalive(at(1_200)).unwrap();
    assert_eq!(repetitions(&mut machine, at(9_000)), []);
}

#[test]
fn a_machine_that_follows_the_rfc_alone_repeats_no_probe_operational() {
    let (mut machine, _) = answered(Profile::RFC);
    assert_eq!(repetitions(&mut machine, at(9_000)), []);
}

/// Payload of the peer comes in every 100 ms, after its Probe Exploring by the second ISPs. Gives the pairs and times of
/// the probes of this host from the fourth second on, and for so many milliseconds.
fn probes_while_heard(profile: Profile, millis: u64) -> Vec<(Instant, LocatorPair)> {
    let (mut machine, ..) = exploring(profile);
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(20)).unwrap();
    drain(&mut machine);
    let mut log = Vec::new();
    for now in (100..4_000 + millis).step_by(100).map(at) {
        log.extend(run(&mut machine, now).into_iter().map(|(at, one)| (at, one.pair)));
        if machine.watch() != 0 {
            machine.handle_payload(now, now);
        }
    }
    assert_eq!(machine.state(), State::InboundOk);
    log.into_iter().filter(|one| one.0 >= at(4_000)).collect()
}

#[test]
fn a_host_that_hears_its_peer_keeps_the_initial_pace_and_takes_the_pair_of_the_peer_each_second_time()
 {
    let log = probes_while_heard(Profile::default(), 2_500);
    assert!((4..=6).contains(&log.len()), "{log:?}");
    assert!(log.windows(2).all(|two| two.iter().any(|one| one.1 == ab(2, 2))), "{log:?}");
    assert!(log.iter().any(|one| one.1 != ab(2, 2)), "{log:?}");
}

/// A server that gets no request sends nothing.
#[test]
fn a_probe_of_the_peer_pays_for_ten_probes_though_nothing_more_comes_in() {
    let (mut machine, ..) = exploring(Profile::default());
    deliver(&mut machine, ba(2, 2), State::Exploring, 1, &[], at(20)).unwrap();
    drain(&mut machine);
    let log: Vec<_> =
        run(&mut machine, at(6_500)).into_iter().map(|(at, one)| (at, one.pair)).collect();
    let paid: Vec<_> = log.iter().filter(|one| one.0 >= at(1_500)).collect();
    assert!(paid.len() >= 10, "{log:?}");
    assert!(paid.windows(2).all(|two| two[1].0.since(two[0].0) == ms(500)), "{log:?}");
    assert!(paid.windows(2).all(|two| two.iter().any(|one| one.1 == ab(2, 2))), "{log:?}");
}

/// All contexts share a budget of probes, and payload can be anybody's.
#[test]
fn ten_probes_at_the_initial_pace_follow_each_probe_of_the_peer() {
    let minute = probes_while_heard(Profile::default(), 60_000);
    let slow = probes_while_heard(Profile::RFC, 60_000);
    assert!(minute.len() <= slow.len() + 10, "{minute:?}, {slow:?}");
}

#[test]
fn the_rfc_alone_has_the_probes_of_such_a_host_back_off() {
    assert!(probes_while_heard(Profile::RFC, 5_000).len() <= 2);
}
