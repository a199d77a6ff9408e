//! A host that loses its only address and gets another one later.

use super::monitor::{config, net};
use super::net::Net;
use super::*;

use alloc::boxed::Box;

/// Host A has lost its only address and has another one after 3 s. Host B has learned the new address, but its
/// candidates and its current pair still have the lost one.
fn roamed() -> Net {
    let mut net = net(&config());
    let (peer, old, new) = ([locator(B, 1)], [locator(A, 1)], [locator(A, 2)]);
    net.hosts[0].machine.set_candidates(old, peer, net.now);
    net.hosts[1].machine.set_candidates(peer, old, net.now);
    net.run_for(ms(20_000));
    net.route = Box::new(|_| false);
    net.hosts[0].machine.set_candidates([], peer, net.now);
    net.run_for(ms(1_000));
    net.hosts[0].machine.set_candidates(new, peer, net.now);
    net.run_for(ms(2_000));
    net.route = Box::new(|pair| [ab(2, 1), ba(1, 2)].contains(&pair));
    net.hosts[1].machine.set_candidates(peer, [new[0], old[0]], net.now);
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
    // A second check does not answer A's probe.
    net.hosts[1].machine.send_check(ba(1, 2), net.now);
    net.flush(1);
    assert!(net.run_until(ms(60), Net::is_connected).is_some(), "{:?}", net.states());
    assert_eq!(net.pairs(), [ab(2, 1), ba(1, 2)]);
}
