//! Firewalls drop protocol 140, and pass payload between the ULIDs (decision 208).

use super::monitor::{causes, config, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;
use crate::profile::Profile;

use alloc::boxed::Box;
use alloc::format;

/// Host 0 sends, and host 1 too, if `both_ways`. The standby path of each has answered.
fn settled(seed: u8, both_ways: bool) -> Net {
    settled_by(ms(10), seed, both_ways)
}

/// The same, with this time one way.
fn settled_by(delay: Duration, seed: u8, both_ways: bool) -> Net {
    let profile = Profile { standby_interval: ms(5_000), ..Profile::default() };
    let mut net = Net::new(&Config { profile, ..config() }, 2, seed);
    net.delay = delay;
    net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(20)));
    net.run_for(ms(12_000) + ms(370) * seed.into());
    net.hosts[1].payload = Some(ms(20)).filter(|_| both_ways);
    net.run_for(ms(12_000));
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    net
}

fn is_by(pair: LocatorPair, host: usize) -> bool {
    (pair.local.octets()[15] == 0xa) == (host == 0)
}

/// Firewalls drop protocol 140 from these hosts.
fn filter(net: &mut Net, from: [bool; 2]) {
    net.passes_140 = Box::new(move |pair| !(0..2).any(|host| from[host] && is_by(pair, host)));
}

/// The longest time without payload at each host that gets any, since `since`.
fn darkest(net: &Net, since: Instant) -> Duration {
    let of_host = |host: usize| {
        let arrivals = net.hosts[host].payload_received.iter().copied();
        let arrivals = arrivals.filter(|at| *at > since).chain([net.now]);
        let mut last = since;
        let gaps = arrivals.map(|at| at.since(core::mem::replace(&mut last, at)));
        let sends = net.hosts[1 - host].payload.is_some();
        gaps.max().filter(|_| sends).unwrap_or_default()
    };
    of_host(0).max(of_host(1))
}

const WAYS: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];

#[test]
fn payload_between_the_ulids_goes_on_while_firewalls_drop_protocol_140() {
    for both_ways in [false, true] {
        for from in WAYS {
            for seed in 0..16 {
                let mut net = settled(seed, both_ways);
                let since = net.now;
                for _ in 0..3 {
                    filter(&mut net, from);
                    net.run_for(ms(60_000));
                    filter(&mut net, [false; 2]);
                    net.run_for(ms(3_000) + ms(700) * seed.into());
                }
                let dark = darkest(&net, since);
                assert!(dark <= ms(1_300), "{both_ways} {from:?} {seed}: {dark:?}");
            }
        }
    }
}

/// A firewall that drops protocol 140 for the second time finds payload where it was.
#[test]
fn an_exploration_in_vain_ends_on_the_ulids_if_they_answer_as_well() {
    for (both_ways, delay) in [(false, ms(10)), (true, ms(10)), (true, ms(150))] {
        for seed in 0..16 {
            let mut net = settled_by(delay, seed, both_ways);
            filter(&mut net, [true; 2]);
            net.run_for(ms(40_000));
            filter(&mut net, [false; 2]);
            net.run_for(ms(70_000));
            let told = format!("{both_ways} {delay:?} {seed}: {:?}", causes(&net, 0));
            assert_eq!(net.states(), [State::Operational; 2], "{told}");
            assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "{told}");
        }
    }
}

/// Firewalls that drop protocol 140 pass it by another pair than the ULIDs. Returns the host that has heard an answer there,
/// and waits for one by the ULIDs.
fn waiting(seed: u8) -> (Net, usize) {
    let mut net = settled(seed, false);
    filter(&mut net, [true; 2]);
    net.run_for(ms(40_000));
    net.passes_140 = Box::new(|pair| [ab(2, 2), ba(2, 2)].contains(&pair));
    let waiting = |net: &Net| {
        let waits = |host: &usize| {
            let exploration = net.hosts[*host].machine.exploration.as_deref();
            exploration.is_some_and(|one| one.rival.is_some())
        };
        [0, 1].into_iter().find(waits)
    };
    net.run_until(ms(60_000), |net| waiting(net).is_some()).expect("another pair answers");
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    let host = waiting(&net).unwrap();
    (net, host)
}

/// The host learns that its end of the ULIDs has failed while it waits for their answer.
#[test]
fn payload_that_waits_for_the_ulids_leaves_them_with_their_link() {
    for seed in 0..16 {
        let (mut net, host) = waiting(seed);
        let now = net.now;
        net.hosts[host].machine.handle_local_failure(now);
        assert_eq!(net.pairs()[host], [ab(2, 2), ba(2, 2)][host], "{seed}");
    }
}

/// An exploration that ends by another message than an answer of the ULIDs leaves no payload there.
#[test]
fn an_exploration_that_ends_before_the_ulids_have_answered_takes_the_pair_that_has() {
    for seed in 0..16 {
        let (mut net, host) = waiting(seed);
        let now = net.now;
        let machine = &mut net.hosts[host].machine;
        machine.step(Input::ProbeOperational, Cause::ProbeOperational, None, now);
        assert_eq!(machine.state(), State::Operational, "{seed}");
        assert_eq!(net.pairs()[host], [ab(2, 2), ba(2, 2)][host], "{seed}");
    }
}

/// The peer's next probe reports one of this host's probes by another pair, because the answer is still on its way. The host
/// asks the ULIDs before payload leaves them.
#[test]
fn ulids_that_have_just_answered_are_asked_before_payload_leaves_them() {
    let mut settled_anew = 0;
    for seed in 0..16 {
        let mut net = settled(seed, true);
        net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
        net.run_for(ms(20_000));
        net.route = Box::new(|_| false);
        net.run_for(ms(20_000) + ms(500) * seed.into());
        net.route = Box::new(|_| true);
        let is_settled = |net: &Net| net.hosts[0].machine.state() == State::Operational;
        net.run_until(ms(20_000), is_settled).expect("an answer");
        let now = net.now;
        let machine = &mut net.hosts[0].machine;
        // No check has gone by the ULIDs since payload is back there.
        if machine.is_unmoved() && !machine.has_current_answered() {
            settled_anew += 1;
            assert!(!machine.follow(ab(2, 2), Cause::ProbeInboundOk, now), "{seed}");
            assert_eq!(net.pairs()[0], ab(1, 1), "{seed}");
        }
    }
    assert!(settled_anew > 0);
}

/// The ISP of host 0 fails while a firewall drops what host 1 says by protocol 140.
#[test]
fn payload_of_a_host_whose_answers_are_dropped_is_back_with_the_isp() {
    for from in WAYS {
        for seed in 0..16 {
            let mut net = settled(seed, true);
            filter(&mut net, from);
            net.run_for(ms(5_000));
            let is_first = |pair: LocatorPair| [pair.local, pair.peer].contains(&locator(A, 1));
            net.route = Box::new(move |pair| !is_first(pair));
            net.run_for(ms(5_000));
            net.route = Box::new(|_| true);
            let since = net.now;
            net.run_for(ms(60_000));
            let dark = darkest(&net, since);
            assert!(dark <= ms(2_000), "{from:?} {seed}: {dark:?}");
        }
    }
}

/// The first host to hear an answer settles on the ULIDs, and reports a probe by another pair to the peer.
#[test]
fn a_peer_that_has_probed_in_vain_asks_the_ulids_as_well() {
    for from in WAYS {
        for seed in 0..16 {
            let mut net = settled(seed, true);
            filter(&mut net, from);
            net.run_for(ms(5_000));
            net.route = Box::new(|pair| ![pair.local, pair.peer].contains(&locator(A, 1)));
            net.run_for(ms(20_000) + ms(300) * seed.into());
            net.route = Box::new(|_| true);
            net.run_for(ms(20_000));
            filter(&mut net, [false; 2]);
            net.run_for(ms(70_000));
            assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "{from:?} {seed}: {:?}", causes(&net, 1));
        }
    }
}

/// The peer's payload takes the ULIDs again, so payload that may be anybody's comes in. No pair answers checks.
#[test]
fn payload_that_has_moved_goes_back_though_payload_of_the_ulids_comes_in() {
    for seed in 0..16 {
        let mut net = settled(seed, true);
        net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
        net.run_for(ms(20_000));
        net.route = Box::new(|_| true);
        net.run_for(ms(2_000));
        assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
        filter(&mut net, [true; 2]);
        net.hosts[1].payload = None;
        let since = net.now;
        suspect(&mut net, 0, FailureHint::Unproven);
        while net.pairs()[0] != ab(1, 1) {
            net.run_for(ms(20));
            let now = net.now;
            net.hosts[0].machine.handle_payload(now, now);
            net.flush(0);
            assert!(now.since(since) < ms(5_000), "{seed}: still behind the header");
        }
    }
}

/// Host 0 has followed a Probe Exploring off the ULIDs, and hears nothing more.
fn followed(seed: u8) -> Net {
    let mut net = settled(seed, true);
    net.route = Box::new(|_| false);
    let (machine, now) = (&mut net.hosts[0].machine, net.now);
    machine.step(Input::ProbeExploring, Cause::ProbeExploring, None, now);
    machine.move_for_peer(ab(2, 2), Cause::ProbeExploring, now);
    assert!(machine.is_answer_awaited());
    net
}

/// The pair that payload has moved to is of no use any more.
#[test]
fn a_wait_for_an_answer_ends_with_the_link_of_the_pair() {
    for seed in 0..16 {
        let mut net = followed(seed);
        net.run_for(ms(100));
        let (now, sent) = (net.now, net.hosts[0].probes_sent);
        net.hosts[0].machine.handle_local_failure(now);
        net.flush(0);
        let waited = net.run_until(ms(500), |net| net.pairs()[0] == ab(1, 1));
        waited.unwrap_or_else(|| panic!("{seed}: payload stays on a link that is down"));
        assert!(net.hosts[0].probes_sent <= sent + 1, "{seed}: questions by a link that is down");
    }
}

/// [`followed`], to the end of the wait. Returns the time until payload takes the ULIDs
/// again, and the number of probes that the host has sent. `again`: milliseconds until another Probe Exploring comes in.
fn without_an_answer(seed: u8, again: Option<u64>) -> (Duration, usize) {
    let mut net = followed(seed);
    let (since, sent) = (net.now, net.hosts[0].probes_sent);
    net.flush(0);
    if let Some(again) = again {
        net.run_for(ms(again));
        let now = net.now;
        deliver(&mut net.hosts[0].machine, ba(2, 2), State::Exploring, 99, &[], now).unwrap();
        net.flush(0);
    }
    net.run_until(ms(9_000), |net| net.pairs()[0] == ab(1, 1)).expect("the ULIDs");
    (net.now.since(since), net.hosts[0].probes_sent - sent)
}

/// The pair may lose packets. A peer that does not hear this host goes on with Probes Exploring.
#[test]
fn payload_stays_three_times_as_long_if_the_peer_does_not_say_that_it_hears_nothing() {
    for seed in 0..16 {
        let (took, sent) = without_an_answer(seed, None);
        assert_eq!(took, ms(3_000), "{seed}");
        assert!((14..=20).contains(&sent), "{seed}: {sent}");
        assert_eq!(without_an_answer(seed, Some(400)).0, ms(1_000), "{seed}");
        assert_eq!(without_an_answer(seed, Some(1_600)).0, ms(1_600), "{seed}");
    }
}

/// Payload that a failure has moved is dropped, and the ULIDs work again.
#[test]
fn moved_payload_takes_the_ulids_when_no_pair_answers_any_more() {
    for from in WAYS {
        for seed in 0..16 {
            let mut net = settled(seed, true);
            net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
            net.run_for(ms(20_000));
            assert!(net.is_connected() && net.pairs()[0] != ab(1, 1));
            net.route = Box::new(|_| true);
            filter(&mut net, from);
            let since = net.now;
            net.run_for(ms(60_000));
            let dark = darkest(&net, since);
            assert!(dark <= SEND_TIMEOUT + ms(2_500), "{from:?} {seed}: {dark:?}");
            let since = net.now;
            net.run_for(ms(60_000));
            let dark = darkest(&net, since);
            assert!(dark <= ms(1_300), "{from:?} {seed}: {dark:?} later");
        }
    }
}

/// The pair that payload had left for the ULIDs works again, and the ULIDs do not.
#[test]
fn a_moved_pair_that_is_back_is_found_within_seconds() {
    for seed in 0..16 {
        let mut net = settled(seed, true);
        net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
        net.run_for(ms(20_000));
        net.route = Box::new(|_| false);
        net.run_for(ms(20_000) + ms(500) * seed.into());
        assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
        net.route = Box::new(|pair| ![ab(1, 1), ba(1, 1)].contains(&pair));
        let took = net.run_until(ms(10_000), Net::is_connected);
        assert!(took.is_some_and(|took| took <= ms(4_000)), "{seed}: {took:?}");
    }
}

#[test]
fn a_locator_that_is_gone_takes_no_payload_back() {
    let mut net = settled(0, true);
    let now = net.now;
    let peers = [locator(B, 1), locator(B, 2)];
    net.hosts[0].machine.set_candidates([locator(A, 2)], peers, now);
    net.flush(0);
    net.run_for(ms(1_000));
    net.route = Box::new(|_| false);
    net.run_for(ms(40_000));
    assert_eq!(net.pairs()[0].local, locator(A, 2));
}
