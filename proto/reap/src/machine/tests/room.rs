//! Probes that wait because the host has no room for them.

use super::*;
use crate::{Profile, SWITCH_PROBES};

/// Runs all timers up to `until` while the host has no room.
fn wait(machine: &mut Machine, until: Instant) {
    while let Some((next, _)) = machine.poll_timeout().filter(|&(next, _)| next <= until) {
        machine.handle_timeout(next);
    }
}

#[test]
fn a_probe_that_waits_for_room_has_none_behind_it_and_the_next_keeps_its_interval() {
    let mut machine = machine();
    machine.handle_send_expired(at(0), at(15_000));
    wait(&mut machine, at(18_300));
    machine.handle_room(at(18_300));
    only_probe(&mut machine);
    let next: Vec<_> = run(&mut machine, at(20_000)).into_iter().map(|(at, _)| at).collect();
    assert_eq!(next, [18_800, 19_300, 19_800].map(at), "the pace of a new exploration");
}

#[test]
fn a_repetition_that_waits_for_room_has_none_behind_it() {
    let config = Config { profile: Profile::default(), ..Config::default() };
    let mut machine = Machine::new(config, ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_local_failure(at(0));
    let (pair, probe) = only_probe(&mut machine);
    deliver(&mut machine, turn(pair), State::InboundOk, 1, &[probe.sent[0]], at(20)).unwrap();
    drain(&mut machine);
    wait(&mut machine, at(3_000));
    machine.handle_room(at(3_000));
    only_probe(&mut machine);
    let is_answer = |one: &Transmit| matches!(&one.message, Message::Probe(p) if p.state == State::Operational && !p.received.is_empty());
    let sent = run(&mut machine, at(9_000)).into_iter().filter(|(_, one)| is_answer(one));
    let next: Vec<_> = sent.map(|(at, _)| at).collect();
    assert_eq!(next, [3_500, 4_000].map(at));
}

#[test]
fn a_switch_whose_probe_waits_for_room_is_not_given_up() {
    let mut machine = machine();
    machine.handle_switch(ab(2, 2), Cause::Switch, at(0)).unwrap();
    wait(&mut machine, at(60_000));
    assert_eq!(machine.pending_switch(), Some(ab(2, 2)));
    only_probe(&mut machine);
    let later = run(&mut machine, at(70_000)).len();
    assert_eq!(later, usize::from(SWITCH_PROBES) - 1);
    assert_eq!(machine.pending_switch(), None);
}

#[test]
fn what_a_message_draws_leaves_before_the_probe_that_waits() {
    let mut machine = machine();
    machine.handle_send_expired(at(0), at(15_000));
    let waiting = machine.last_waiting();
    assert!(waiting.is_some());
    machine.handle_keepalive(at(15_100)).unwrap();
    assert!(machine.poll_drawn(waiting).is_some(), "the first sign of life");
    assert_eq!(machine.poll_drawn(waiting), None);
    machine.handle_keepalive(at(15_200)).unwrap();
    assert_eq!(machine.poll_drawn(waiting), None, "it draws nothing");
    assert_eq!(only_probe(&mut machine).1.sent[0].nonce, waiting.unwrap());
    // In another state the probe is not sent, and the answer is the first one.
    machine.handle_timeout(at(15_700));
    let waiting = machine.last_waiting();
    deliver(&mut machine, ba(2, 2), State::Exploring, 7, &[], at(15_800)).unwrap();
    assert_eq!(machine.state(), State::InboundOk);
    let drawn = machine.poll_drawn(waiting).and_then(|transmit| transmit.nonce());
    assert!(drawn.is_some() && drawn != waiting);
    assert_eq!(drain(&mut machine).0, []);
}
