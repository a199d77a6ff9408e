//! Traffic that goes back to its first pair, and traffic that leaves deprecated addresses.

use alloc::boxed::Box;

use super::compare::{HOUR, degrade, talking};
use super::monitor::{causes, config, has, net, only, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;
use crate::profile::Profile;

#[test]
fn a_deprecated_address_is_left_gently() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    net.hosts[0].machine.handle_deprecated(&[locator(A, 1)], now);
    net.flush(0);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(2, 2));
    assert_eq!(causes(&net, 0), [Cause::Deprecated]);
    net.run_for(ms(300_000));
    assert_eq!(net.states(), [State::Operational; 2]);
    assert_eq!(net.pairs()[0], ab(2, 2), "not gone back to, though it works");
    assert!(!has(&net, 0, |e| matches!(e, Event::StateChanged { .. })));
    let standby = net.hosts[0].machine.fresh_standby(net.now).expect("another");
    assert_eq!(standby, ab(2, 1), "the deprecated one comes last");
    let now = net.now;
    net.hosts[0].machine.handle_deprecated(&[], now);
    net.run_for(ms(100_000));
    assert_eq!(net.pairs()[0], ab(1, 1));
}

/// Both hosts have left their first pair, which has failed.
fn away() -> Net {
    away_by(3)
}

fn away_by(seed: u8) -> Net {
    let mut net = talking(&config(), seed);
    net.run_for(ms(5_000));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(30));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(60_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    net
}

#[test]
fn traffic_goes_back_when_its_first_pair_has_worked_for_a_while() {
    let mut net = away();
    net.route = Box::new(|_| true);
    let mended = net.now;
    net.run_for(ms(29_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)], "not yet");
    net.run_until(ms(100_000), |net| net.pairs() == [ab(1, 1), ba(1, 1)]).expect("both are back");
    assert!(net.now.since(mended) < ms(110_000));
    for host in 0..2 {
        assert_eq!(causes(&net, host).last(), Some(&Cause::FailBack));
    }
    assert_eq!(net.states(), [State::Operational; 2]);
}

/// The preferred pair has answered for a while when it fails a second time, in the way that `fail` says, and `mend` ends
/// that. Returns the time from then until payload is back.
fn time_after_a_second_failure(
    fail: impl FnOnce(&mut Net),
    mend: impl FnOnce(&mut Net),
) -> Duration {
    let mut net = away();
    net.route = Box::new(|_| true);
    let waits = |net: &Net| {
        let past = net.hosts[0].machine.monitor.as_ref().and_then(|monitor| monitor.past());
        past.is_some_and(|past| past.wait.has_begun())
    };
    net.run_until(ms(70_000), waits).expect("the preferred pair is asked");
    fail(&mut net);
    assert_eq!(net.pairs()[0], ab(2, 2), "on its way back already");
    mend(&mut net);
    net.run_until(ms(400_000), |net| net.pairs()[0] == ab(1, 1)).expect("back in the end")
}

/// The pair has to answer for 30 s, and for the 4.8 s of a comparison.
const WHOLE_WAIT: Duration = ms(34_500);
/// A part of the hold time, in which the pair answers two rounds.
const PART: Duration = ms(15_000);

#[test]
fn the_wait_begins_anew_after_a_second_failure_of_the_first_pair() {
    let fail = |net: &mut Net| {
        net.run_for(PART);
        net.route = only(&[(2, 2)]);
        net.run_for(ms(12_000));
    };
    let took = time_after_a_second_failure(fail, |net| net.route = Box::new(|_| true));
    assert!(took >= WHOLE_WAIT, "{took:?}");
}

/// Hints about the pair in use draw checks of the pair that had failed. An answer to one of them is no answer to the lost
/// check of a round.
#[test]
fn the_wait_begins_anew_after_a_second_failure_that_a_hint_follows() {
    let fail = |net: &mut Net| {
        net.run_for(PART);
        net.route = only(&[(2, 2)]);
        net.run_for(ms(10_000));
    };
    let mend = |net: &mut Net| {
        net.route = Box::new(|_| true);
        let now = net.now;
        net.hosts[0].machine.send_one_check(ab(1, 1), now);
        net.flush(0);
        net.run_for(ms(100));
    };
    let took = time_after_a_second_failure(fail, mend);
    assert!(took + ms(100) >= WHOLE_WAIT, "{took:?}");
}

/// The host loses the locator, or the carrier of its link, and nobody asks the pair meanwhile.
#[test]
fn the_wait_begins_anew_if_the_first_pair_has_lost_its_locator_meanwhile() {
    let set = |net: &mut Net, isps: &[u16]| {
        let local: Vec<_> = isps.iter().map(|isp| locator(A, *isp)).collect();
        let now = net.now;
        net.hosts[0].machine.set_candidates(&local, [locator(B, 1), locator(B, 2)], now);
        net.flush(0);
    };
    let fail = |net: &mut Net| {
        net.run_for(PART);
        set(net, &[2]);
        net.run_for(ms(60_000));
    };
    let took = time_after_a_second_failure(fail, |net| set(net, &[1, 2]));
    assert!(took >= WHOLE_WAIT, "{took:?}");
}

/// Checks by the pair in use find no answer.
#[test]
fn a_pair_that_is_asked_in_vain_keeps_no_traffic_from_its_first_pair() {
    let mut net = away();
    net.route = Box::new(|_| true);
    let is_back = |net: &Net| net.pairs() == [ab(1, 1), ba(1, 1)];
    for _ in 0..60_000 {
        for host in &mut net.hosts {
            host.machine.monitor_mut().is_asked_in_vain = true;
        }
        net.run_for(ms(10));
        if is_back(&net) {
            return;
        }
    }
    panic!("still away: {:?}", net.hosts[0].log);
}

#[test]
fn traffic_stays_away_from_a_first_pair_that_answers_and_loses_packets_or_is_slow() {
    for (seed, loss, delay) in [(1, 38, ms(10)), (2, 38, ms(10)), (3, 76, ms(10)), (4, 0, ms(200))]
    {
        let mut net = away_by(seed);
        net.route = Box::new(|_| true);
        degrade(&mut net, loss, delay);
        net.run_for(HOUR);
        let back = [0, 1].map(|host| causes(&net, host).contains(&Cause::FailBack));
        assert_eq!(back, [false; 2], "seed {seed}");
        net.bad.clear();
        let is_back = |net: &Net| net.pairs() == [ab(1, 1), ba(1, 1)];
        net.run_until(ms(900_000), is_back).expect("as good again");
    }
}

#[test]
fn traffic_goes_back_to_a_pinned_pair_however_bad_it_is() {
    let mut net = away();
    net.hosts[0].machine.handle_pinned(Some(ab(1, 1)));
    net.route = Box::new(|_| true);
    degrade(&mut net, 38, ms(10));
    let is_back = |net: &Net| net.pairs()[0] == ab(1, 1);
    net.run_until(HOUR, is_back).expect("pinned");
}

#[test]
fn a_comparison_goes_on_if_checks_of_another_kind_find_no_room() {
    let mut net = away();
    net.route = Box::new(|_| true);
    let compares = |net: &Net| net.hosts[0].machine.can_wait();
    net.run_until(ms(100_000), compares).expect("compares before it goes back");
    let now = net.now;
    let machine = &mut net.hosts[0].machine;
    for _ in 0..10 {
        machine.handle_checks_refused(now);
    }
    assert!(machine.can_wait(), "its own checks have left");
}

#[test]
fn a_host_without_room_goes_back_after_answers_alone() {
    let mut net = away();
    net.route = Box::new(|_| true);
    let compares = |net: &Net| net.hosts[0].machine.can_wait();
    net.run_until(ms(100_000), compares).expect("compares before it goes back");
    let mut now = net.now;
    let machine = &mut net.hosts[0].machine;
    while machine.current_pair() != ab(1, 1) {
        machine.handle_checks_refused(now);
        let Some((next, _)) = machine.poll_timeout() else { break };
        (_, now) = (drain(machine), next);
        machine.handle_timeout(now);
    }
    assert_eq!(machine.current_pair(), ab(1, 1));
    assert!(now.since(net.now) < ms(120_000));
}

/// A host under load has room for the checks of rounds, and none for comparisons. Each answer of the first pair to a round
/// asks for the comparison again, which must not begin anew: it would never be given up.
#[test]
fn a_host_without_room_for_comparisons_goes_back_although_each_round_asks_for_one() {
    let mut net = away();
    net.route = Box::new(|_| true);
    net.hosts[0].refuses_comparisons = true;
    let is_back = |net: &Net| net.pairs()[0] == ab(1, 1);
    net.run_until(ms(180_000), is_back).expect("back after half a minute without room");
}

/// Payload goes one way after a pause. During the pause the first pair has worked for long enough, and the current pair
/// has failed in both directions.
fn resumed_on_a_pair_that_has_failed(deprecated: &[Locator]) -> Net {
    let mut net = away();
    net.route = Box::new(|_| true);
    let has_home_answered = |net: &Net| {
        let past = net.hosts[0].machine.monitor.as_ref().and_then(|monitor| monitor.past());
        past.is_some_and(|past| past.wait.has_begun())
    };
    net.run_until(ms(70_000), has_home_answered).expect("the preferred pair is asked");
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    net.hosts.iter_mut().for_each(|host| host.payload = None);
    net.run_for(ms(130_000));
    net.route = only(&[(1, 1)]);
    let now = net.now;
    net.hosts[0].machine.handle_deprecated(deprecated, now);
    net.hosts[1].machine.handle_preferred(None, now);
    net.hosts[0].payload = Some(ms(50));
    suspect(&mut net, 0, FailureHint::Silence);
    net
}

/// A gentle move tells the peer nothing. The peer would stay on the failed pair until it has payload to send.
#[test]
fn traffic_does_not_go_back_gently_in_a_trial() {
    for deprecated in [&[][..], &[locator(A, 2)]] {
        let mut net = resumed_on_a_pair_that_has_failed(deprecated);
        net.run_for(ms(3_000));
        assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "{deprecated:?}");
        assert!(net.is_connected());
    }
}

#[test]
fn a_pair_that_flaps_is_gone_back_to_ever_more_slowly() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    for _ in 0..60 {
        net.route = only(&[(2, 2)]);
        net.run_for(ms(30));
        let failed = |net: &Net, host: usize| net.hosts[host].machine.current_pair().local;
        for host in 0..2 {
            if [locator(A, 1), locator(B, 1)].contains(&failed(&net, host)) {
                suspect(&mut net, host, FailureHint::Retransmission);
            }
        }
        net.run_for(ms(5_000));
        net.route = Box::new(|_| true);
        net.run_for(ms(55_000));
    }
    let returns = causes(&net, 0).iter().filter(|cause| **cause == Cause::FailBack).count();
    assert!((1..=8).contains(&returns), "{returns} in an hour");
}

#[test]
fn without_fail_back_traffic_stays_where_it_is() {
    let profile = Profile { fail_back: Duration::ZERO, ..Profile::default() };
    let mut net = net(&Config { profile, ..Config::default() });
    net.run_for(ms(5_000));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(30));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(1_000));
    net.route = Box::new(|_| true);
    net.run_for(ms(600_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
}
