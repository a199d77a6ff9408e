//! A host whose only address goes, and gets another one later.

use super::monitor::{config, net};
use super::net::Net;
use super::*;

use alloc::boxed::Box;

/// Host A has lost its only address and has another one after 3 s. Host B has taken it, but has the lost one for a
/// candidate still, and for its current pair.
fn roamed() -> Net {
    let mut net = net(&config());
    let (peer, old, new) = ([locator(B, 1)], [locator(A, 1)], [locator(A, 2)]);
    net.hosts[0].machine.handle_candidates(&old, &peer, net.now);
    net.hosts[1].machine.handle_candidates(&peer, &old, net.now);
    net.run_for(ms(20_000));
    net.route = Box::new(|_| false);
    net.hosts[0].machine.handle_candidates(&[], &peer, net.now);
    net.run_for(ms(1_000));
    net.hosts[0].machine.handle_candidates(&new, &peer, net.now);
    net.run_for(ms(2_000));
    net.route = Box::new(|pair| [ab(2, 1), ba(1, 2)].contains(&pair));
    net.hosts[1].machine.handle_candidates(&peer, &[new[0], old[0]], net.now);
    net
}

#[test]
fn a_check_of_the_new_pair_ends_no_exploration_and_the_peer_takes_that_pair() {
    let mut net = roamed();
    assert_eq!(net.states(), [State::Exploring, State::Operational]);
    net.hosts[1].machine.send_check(ba(1, 2), net.now);
    net.flush(1);
    net.run_for(ms(10));
    assert_eq!(net.states()[0], State::Exploring);
    // A second check is no answer to what A has said.
    net.hosts[1].machine.send_check(ba(1, 2), net.now);
    net.flush(1);
    assert!(net.run_until(ms(60), Net::is_connected).is_some(), "{:?}", net.states());
    assert_eq!(net.pairs(), [ab(2, 1), ba(1, 2)]);
}

/// The machine is in Operational and has checked `pair`; the peer explores and has heard the check, and nothing else.
fn hear_of_check(machine: &mut Machine, pair: LocatorPair, now: Instant) {
    machine.send_check(pair, now);
    let (_, check) = only_probe(machine);
    deliver(machine, turn(pair), State::InboundOk, 0xc0de, &check.sent, now).unwrap();
}

#[test]
fn payload_takes_the_pair_of_a_check_that_an_exploring_peer_has_heard() {
    let mut machine = machine();
    machine.handle_config(config());
    hear_of_check(&mut machine, ab(2, 2), at(10));
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(2, 2)));
    let (pair, answer) = only_probe(&mut machine);
    assert_eq!((pair, answer.state), (ab(2, 2), State::Operational));
}

#[test]
fn a_pair_that_has_answered_in_an_exploration_is_not_left_for_a_check() {
    let mut machine = machine();
    machine.handle_config(config());
    machine.handle_send_expired(at(0), at(15_000));
    let (pair, probe) = only_probe(&mut machine);
    deliver(&mut machine, turn(pair), State::InboundOk, 0xb0b, &probe.sent, at(15_010)).unwrap();
    drain(&mut machine);
    let other = if pair == ab(2, 2) { ab(1, 2) } else { ab(2, 2) };
    hear_of_check(&mut machine, other, at(15_020));
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, pair));
}
