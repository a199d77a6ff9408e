//! Pairs that lose packets or are slow, and that payload leaves for better ones.

use alloc::boxed::Box;

use super::follow::checked;
use super::monitor::{causes, config, only, suspect};
use super::net::Net;
use super::*;
use crate::event::FailureHint;
use crate::monitor::Round;
use crate::profile::Profile;

/// Losses out of 256: 15 %, and 5 %.
const MANY: usize = 38;
const SOME: usize = 13;
pub(super) const HOUR: Duration = ms(3_600_000);

/// Two hosts with traffic both ways, after 10 s.
pub(super) fn talking(config: &Config, seed: u8) -> Net {
    let mut net = Net::new(config, 2, seed);
    net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(50)));
    net.run_for(ms(10_000));
    net
}

/// ISP 1 loses `loss` of 256 packets each way, and takes `delay` for each packet.
pub(super) fn degrade(net: &mut Net, loss: usize, delay: Duration) {
    net.bad = [ab(1, 1), ba(1, 1)].map(|pair| (pair, loss, delay)).into();
}

#[test]
fn a_pair_that_loses_many_packets_is_left_by_both_hosts_and_not_returned_to() {
    let config = config();
    for seed in 0..20 {
        let mut net = talking(&config, seed);
        degrade(&mut net, MANY, ms(10));
        let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        net.run_until(HOUR / 4, is_left).unwrap_or_else(|| panic!("seed {seed}: stays"));
        net.run_for(HOUR);
        let all = [0, 1].map(|host| causes(&net, host));
        assert!(is_left(&net), "seed {seed}: {:?} {all:?}", net.pairs());
        let moves = causes(&net, 0).len() + causes(&net, 1).len();
        assert!(moves <= 4, "seed {seed}: {:?} {:?}", causes(&net, 0), causes(&net, 1));
    }
}

/// Datagrams both ways do not tell their losses, so the checks of the rounds do.
#[test]
fn datagrams_leave_a_lossy_pair_within_a_minute_if_checks_are_five_seconds_apart() {
    let mut config = config();
    config.profile.standby_interval = ms(5_000);
    for seed in 0..40 {
        let mut net = talking(&config, seed);
        degrade(&mut net, MANY, ms(10));
        let after = net.run_until(ms(60_000), |net| net.pairs() == [ab(2, 2), ba(2, 2)]);
        assert!(after.is_some(), "seed {seed}: {:?}", net.hosts[0].log);
    }
}

#[test]
fn suspicions_in_a_row_lead_to_a_comparison_within_seconds() {
    let config = config();
    for seed in 0..20 {
        let mut net = talking(&config, seed);
        degrade(&mut net, 64, ms(10));
        net.hosts[1].payload = None;
        for _ in 0..4 {
            suspect(&mut net, 0, FailureHint::Retransmission);
            net.run_for(ms(2_500));
        }
        let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        let after = net.run_until(ms(15_000), is_left);
        assert!(after.is_some(), "seed {seed}: {:?}", net.hosts[0].log);
        assert!(causes(&net, 0).contains(&Cause::Lossy), "seed {seed}: {:?}", causes(&net, 0));
    }
}

/// Datagrams both ways, which may be anybody's: the data plane says so once a second.
#[test]
fn lost_questions_about_datagrams_lead_to_a_comparison_within_seconds() {
    for seed in 0..20 {
        let mut net = talking(&config(), seed);
        degrade(&mut net, MANY, ms(10));
        let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        let mut seconds = 0;
        while !is_left(&net) {
            suspect(&mut net, 0, FailureHint::Unproven);
            net.run_for(ms(1_000));
            seconds += 1;
            assert!(seconds <= 60, "seed {seed}: {:?}", causes(&net, 0));
        }
    }
}

#[test]
fn questions_about_datagrams_move_nothing_where_all_paths_lose_five_percent() {
    for seed in 0..5 {
        let mut net = talking(&config(), seed);
        net.loss = SOME;
        while net.now < at(10_000) + HOUR {
            suspect(&mut net, 0, FailureHint::Unproven);
            net.run_for(ms(1_000));
        }
        let moves = [0, 1].map(|host| causes(&net, host));
        assert!(moves.iter().all(Vec::is_empty), "seed {seed}: {moves:?}");
    }
}

#[test]
fn five_percent_of_loss_on_both_paths_move_nothing_in_an_hour() {
    let config = config();
    for seed in 0..20 {
        let mut net = talking(&config, seed);
        net.loss = SOME;
        for _ in 0..240 {
            suspect(&mut net, 0, FailureHint::Retransmission);
            net.run_for(HOUR / 240);
        }
        let moves = [0, 1].map(|host| causes(&net, host));
        assert!(moves.iter().all(Vec::is_empty), "seed {seed}: {moves:?}");
    }
}

#[test]
fn two_lossy_paths_are_left_for_each_other_seven_times_in_an_hour_at_most() {
    let config = config();
    for seed in 0..20 {
        let mut net = talking(&config, seed);
        for _ in 0..240 {
            // The current path is always worse than the other one.
            net.bad = net.pairs().map(|pair| (pair, MANY * 2, ms(10))).into();
            suspect(&mut net, 0, FailureHint::Retransmission);
            net.run_for(HOUR / 240);
        }
        for host in 0..2 {
            let is_comparison = |cause: &&Cause| matches!(cause, Cause::Lossy | Cause::Slow);
            let moves = causes(&net, host).iter().filter(is_comparison).count();
            assert!(moves <= 7, "seed {seed}: {:?}", causes(&net, host));
        }
    }
}

/// ISP 1 of A and ISP 2 of B lose packets. The standby path has both ends at other ISPs than the current pair.
#[test]
fn a_lossy_pair_whose_standby_path_is_as_lossy_is_left_for_a_third_pair() {
    let lossy = [ab(1, 1), ba(1, 1), ab(2, 2), ba(2, 2), ab(1, 2), ba(2, 1)];
    let mut times = Vec::new();
    for seed in 0..20 {
        let mut net = talking(&config(), seed);
        net.bad = lossy.map(|pair| (pair, MANY, ms(10))).into();
        let is_left = |net: &Net| net.pairs() == [ab(2, 1), ba(1, 2)];
        let began = net.now;
        while !is_left(&net) {
            suspect(&mut net, 0, FailureHint::Retransmission);
            net.run_for(ms(1_000));
            assert!(net.now.since(began) < HOUR, "seed {seed}: {:?}", net.pairs());
        }
        times.push((net.now.since(began), seed));
        net.run_for(HOUR);
        let moves = [0, 1].map(|host| causes(&net, host));
        assert!(is_left(&net), "seed {seed}: {:?} {moves:?}", net.pairs());
        assert!(moves.iter().map(Vec::len).sum::<usize>() <= 4, "seed {seed}: {moves:?}");
    }
    times.sort();
    assert!(times.iter().all(|(time, _)| *time <= ms(180_000)), "{times:?}");
}

/// A hint leads to one comparison with each other pair, 30 s apart.
#[test]
fn where_all_pairs_are_as_lossy_a_hint_leads_to_one_comparison_with_each() {
    for seed in 0..20 {
        let mut net = talking(&config(), seed);
        net.loss = MANY;
        suspect(&mut net, 0, FailureHint::Retransmission);
        let mut begun = Vec::new();
        while net.now < at(110_000) {
            net.run_for(ms(100));
            let monitor = net.hosts[0].machine.monitor.as_ref().expect("a monitor");
            let other = monitor.comparison().filter(|one| one.has_begun()).map(|one| one.other);
            if let Some(other) = other
                && begun.last().is_none_or(|(last, _)| *last != other)
            {
                begun.push((other, net.now));
            }
        }
        let others: Vec<_> = begun.iter().map(|(other, _)| *other).collect();
        let each = [ab(2, 2), ab(1, 2), ab(2, 1)];
        assert!(each.iter().all(|pair| others.contains(pair)), "seed {seed}: {begun:?}");
        let is_far = |two: &[(LocatorPair, Instant)]| two[1].1.since(two[0].1) > ms(29_000);
        assert!(begun.windows(2).all(is_far), "seed {seed}: {begun:?}");
        assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "seed {seed}");
    }
}

#[test]
fn a_slow_pair_is_left_and_a_queue_is_not() {
    let config = config();
    let mut net = Net::new(&config, 2, 3);
    net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(50)));
    degrade(&mut net, 0, ms(300));
    net.run_for(ms(180_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    assert!(causes(&net, 0).contains(&Cause::Slow) || causes(&net, 1).contains(&Cause::Slow));
    net.run_for(HOUR);
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)], "the pair is slow still");
    // A pair that was fast now has a queue.
    let mut net = talking(&config, 3);
    degrade(&mut net, 0, ms(300));
    net.run_for(HOUR);
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
}

#[test]
fn a_short_silence_leads_to_no_pair_that_is_known_as_worse() {
    for seed in 0..10 {
        let mut net = talking(&config(), seed);
        degrade(&mut net, MANY, ms(10));
        let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        net.run_until(HOUR / 4, is_left).expect("left");
        net.run_for(ms(30_000));
        net.route = only(&[(1, 1)]);
        // The packets under way arrive.
        net.run_for(ms(50));
        suspect(&mut net, 0, FailureHint::Silence);
        net.run_for(ms(250));
        net.route = Box::new(|_| true);
        net.run_for(ms(10_000));
        assert!(is_left(&net), "seed {seed}: {:?}", causes(&net, 0));
        net.route = only(&[(1, 1)]);
        net.run_for(ms(50));
        suspect(&mut net, 0, FailureHint::Silence);
        let after = net.run_until(ms(6_000), |net| net.pairs() == [ab(1, 1), ba(1, 1)]);
        assert!(after.is_some(), "seed {seed}: {:?}", net.hosts[0].log);
    }
}

/// The good pair is silent for 1.5 s again and again. Each time payload takes the lossy pair, which is all that works.
#[test]
fn a_trial_that_leads_to_the_lossy_pair_is_made_good_within_seconds_however_often() {
    let mut trials = 0;
    for seed in 0..10 {
        let mut net = talking(&config(), seed);
        degrade(&mut net, MANY, ms(10));
        let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        net.run_until(HOUR / 4, is_left).expect("left");
        net.run_for(ms(30_000));
        for blip in 0..8 {
            net.route = only(&[(1, 1)]);
            net.run_for(ms(50));
            suspect(&mut net, 0, FailureHint::Silence);
            net.run_for(ms(1_450));
            net.route = Box::new(|_| true);
            // An exploration of either host is another matter.
            let is_by_trial = causes(&net, 0).last() == Some(&Cause::Suspicion);
            if is_by_trial && net.hosts[0].machine.current_pair() == ab(1, 1) {
                trials += 1;
                let is_off = |net: &Net| net.hosts[0].machine.current_pair() != ab(1, 1);
                let after = net.run_until(ms(20_000), is_off);
                assert!(after.is_some(), "seed {seed}, blip {blip}: {:?}", causes(&net, 0));
            }
            net.run_for(ms(30_000));
        }
    }
    assert!(trials > 20, "{trials}");
}

/// ISP 1 loses packets one way only, one in ten. One comparison in six does not decide.
#[test]
fn a_trial_that_leads_to_a_pair_that_is_lossy_one_way_is_made_good_within_a_minute() {
    let mut trials = 0;
    for seed in 0..20 {
        let mut net = talking(&config(), seed);
        net.bad = [(ab(1, 1), MANY * 2, ms(10))].into();
        let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
        while !is_left(&net) {
            suspect(&mut net, 0, FailureHint::Retransmission);
            net.run_for(ms(1_000));
            assert!(net.now < at(3_600_000), "seed {seed}: stays");
        }
        net.bad = [(ab(1, 1), SOME * 2, ms(10))].into();
        for blip in 0..4 {
            net.route = only(&[(1, 1)]);
            net.run_for(ms(50));
            suspect(&mut net, 0, FailureHint::Silence);
            net.run_for(ms(1_450));
            net.route = Box::new(|_| true);
            if net.hosts[0].machine.current_pair() == ab(1, 1) {
                trials += 1;
                let is_off = |net: &Net| net.hosts[0].machine.current_pair() != ab(1, 1);
                let after = net.run_until(ms(60_000), is_off);
                assert!(after.is_some(), "seed {seed}, blip {blip}: {:?}", causes(&net, 0));
            }
            net.run_for(ms(30_000));
        }
    }
    assert!(trials > 20, "{trials}");
}

/// The checks of the round that the failure has met are used up, and the host knows answers from before the failure
/// alone. The pair that payload took before works again.
#[test]
fn an_exploration_that_ends_begins_a_round_at_once_if_a_failure_has_moved_payload() {
    for round in [Round::Resting, Round::Checking] {
        let mut machine = checked();
        let monitor = machine.monitor_mut();
        (monitor.round, monitor.tries, monitor.due) = (round, TRIES, at(60_000));
        monitor.past_mut(ab(1, 1)).failed = Some(ab(2, 2));
        machine.step(Input::SendTimeout, Cause::SendTimeout, None, at(1_000));
        machine.step(Input::ProbeOperational, Cause::ProbeOperational, None, at(1_000));
        machine.step(Input::ProbeInboundOk, Cause::ProbeInboundOk, None, at(1_000));
        assert_eq!(machine.state(), State::Operational);
        assert!(machine.awaits_traffic(), "{round:?}");
        machine.on_traffic();
        machine.handle_known(Known::Verified { at: at(900), rtt: ms(20) }, at(1_010));
        drain(&mut machine);
        // The first check gets lost, as the failure is not over yet.
        let sent = run(&mut machine, at(3_000));
        let is_other = |(_, sent): &&(Instant, Transmit)| sent.pair == ab(2, 2);
        assert!(sent.iter().any(|one| is_other(&one)), "{round:?}: {sent:?}");
    }
}

#[test]
fn a_pair_that_is_good_again_is_returned_to() {
    let config = config();
    let mut net = talking(&config, 3);
    degrade(&mut net, MANY, ms(10));
    let is_left = |net: &Net| net.pairs() == [ab(2, 2), ba(2, 2)];
    net.run_until(HOUR / 4, is_left).expect("left");
    net.bad.clear();
    let is_back = |net: &Net| net.pairs() == [ab(1, 1), ba(1, 1)];
    net.run_until(HOUR / 4, is_back).expect("back");
}

#[test]
fn a_pair_that_gets_worse_again_is_left_within_a_minute_each_time() {
    let config = config();
    for seed in 0..10 {
        let mut net = talking(&config, seed);
        for round in 0..3 {
            net.run_for(ms(20_000));
            degrade(&mut net, MANY, ms(10));
            let began = net.now;
            while net.pairs() != [ab(2, 2), ba(2, 2)] {
                suspect(&mut net, 0, FailureHint::Retransmission);
                net.run_for(ms(1_000));
                let time = net.now.since(began);
                assert!(time < ms(60_000), "seed {seed}, round {round}: {time:?}");
            }
            net.bad.clear();
            let is_back = |net: &Net| net.pairs() == [ab(1, 1), ba(1, 1)];
            net.run_until(HOUR, is_back).expect("back");
        }
    }
}

#[test]
fn the_rfc_profile_and_one_without_comparisons_stay() {
    let stays = Profile { leaves_worse: false, ..Profile::default() };
    for profile in [Profile::RFC, stays] {
        let mut net = talking(&Config { profile, ..Config::default() }, 3);
        degrade(&mut net, MANY, ms(10));
        net.run_for(HOUR);
        let lossy = |host| causes(&net, host).contains(&Cause::Lossy);
        assert!(!lossy(0) && !lossy(1));
    }
}
