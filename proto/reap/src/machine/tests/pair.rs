use super::net::Net;
use super::*;
use crate::profile::{Profile, STANDBY_INTERVAL};

use alloc::boxed::Box;
use proptest::prelude::*;

fn both_ways(net: &mut Net) {
    net.hosts.iter_mut().for_each(|h| h.payload = Some(ms(100)));
}

/// Index of a pair in `dead`: bit i kills the i-th of A1-B1, A1-B2, A2-B1, A2-B2.
fn index(pair: LocatorPair) -> usize {
    let second = |l: Locator| usize::from(l == locator(A, 2) || l == locator(B, 2));
    let (a, b) = if pair.local.octets()[15] == 0xa {
        (pair.local, pair.peer)
    } else {
        (pair.peer, pair.local)
    };
    2 * second(a) + second(b)
}

fn is_from_a(pair: LocatorPair) -> bool {
    pair.local.octets()[15] == 0xa
}

#[test]
fn quiet_and_busy_paths_need_no_messages() {
    let mut net = Net::new(&Config::default(), 2, 1);
    net.run_for(ms(100_000));
    both_ways(&mut net);
    net.run_for(ms(100_000));
    for host in &net.hosts {
        assert_eq!((host.probes_sent, host.keepalives_sent), (0, 0));
        assert!(host.log.is_empty());
    }
}

//= rfc5534#4.1-3 rfc5534#6.1-2 (test)
#[test]
fn one_way_traffic_is_kept_alive_by_keepalives() {
    let mut net = Net::new(&Config::default(), 2, 1);
    net.hosts[0].payload = Some(ms(100));
    net.run_for(ms(300_000));
    assert_eq!(net.probes_sent(), 0);
    assert!((55..=61).contains(&net.hosts[1].keepalives_sent), "{}", net.hosts[1].keepalives_sent);
    assert_eq!(net.hosts[0].keepalives_sent, 0);
}

#[test]
fn a_dead_pair_is_left_for_a_disjoint_one_within_a_round_trip() {
    let mut net = Net::new(&Config::default(), 2, 1);
    both_ways(&mut net);
    net.run_for(ms(5_000));
    net.route = Box::new(|pair| index(pair) == 3);
    net.run_until(ms(20_000), |net| net.states().contains(&State::Exploring)).unwrap();
    let took = net.run_until(ms(20_000), Net::is_connected).unwrap();
    assert!(took <= ms(30), "{took:?}");
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
}

//= rfc5534#3.3-1 rfc5534#4.3-1 (test)
#[test]
fn every_combination_of_dead_pairs_is_survived() {
    for config in [Config::default(), quick(), with_standby()] {
        for forward in 0..16u8 {
            for backward in 0..16u8 {
                if forward == 15 || backward == 15 {
                    continue;
                }
                let mut net = Net::new(&config, 2, forward ^ (backward << 4));
                both_ways(&mut net);
                net.run_for(ms(500));
                net.route = Box::new(move |pair| {
                    let dead = if is_from_a(pair) { forward } else { backward };
                    dead & (1 << index(pair)) == 0
                });
                let limit = config.send_timeout * 3 + ms(10_000);
                let took = net.run_until(limit, Net::is_connected);
                assert!(took.is_some(), "{forward:04b} {backward:04b}: {:?}", net.states());
                net.run_for(config.send_timeout * 3);
                assert!(net.is_connected(), "{forward:04b} {backward:04b} does not last");
            }
        }
    }
}

/// A profile with standby paths: payload moves to a pair that worked a moment before, even if one of its directions is
/// dead by now.
fn with_standby() -> Config {
    let profile =
        Profile { standby_interval: STANDBY_INTERVAL, answers_checks: true, ..Profile::RFC };
    Config { profile, ..quick() }
}

fn quick() -> Config {
    Config {
        send_timeout: ms(400),
        keepalive_timeout: ms(400),
        initial_probe_timeout: ms(100),
        ..Config::default()
    }
}

#[test]
fn one_way_traffic_survives_each_one_way_cut() {
    for config in [Config::default(), with_standby()] {
        for forward in 0..15u8 {
            for backward in 0..15u8 {
                let mut net = Net::new(&config, 2, forward ^ (backward << 4));
                net.hosts[0].payload = Some(ms(100));
                net.run_for(ms(500));
                net.route = Box::new(move |pair| {
                    let dead = if is_from_a(pair) { forward } else { backward };
                    dead & (1 << index(pair)) == 0
                });
                net.run_for(ms(60_000));
                assert!(net.is_connected(), "{forward:04b} {backward:04b}: {:?}", net.states());
            }
        }
    }
}

#[test]
fn nothing_gets_through_and_then_it_does() {
    let mut net = Net::new(&Config::default(), 2, 4);
    both_ways(&mut net);
    net.run_for(ms(500));
    net.route = Box::new(|_| false);
    net.run_for(ms(600_000));
    assert_eq!(net.states(), [State::Exploring; 2]);
    for host in &net.hosts {
        assert!(host.probes_sent < 25, "{}", host.probes_sent);
        assert!(host.log.iter().any(|(_, e)| matches!(e, Event::Unreachable { .. })));
    }
    net.route = Box::new(|_| true);
    let took = net.run_until(ms(61_000), Net::is_connected);
    assert!(took.is_some());
}

#[test]
fn loss_reordering_and_duplicates_do_not_keep_it_from_converging() {
    for seed in 0..40u8 {
        let mut net = Net::new(&quick(), 3, seed);
        (net.loss, net.duplication, net.delay, net.jitter) = (25, 64, ms(20), ms(80));
        both_ways(&mut net);
        net.run_for(ms(1_000));
        let alive = u16::from(seed % 3) + 1;
        net.route = Box::new(move |pair| {
            is_from_a(pair) && pair.local == locator(A, alive)
                || !is_from_a(pair) && pair.peer == locator(A, alive)
        });
        assert!(net.run_until(ms(60_000), Net::is_connected).is_some(), "seed {seed}");
        net.loss = 0;
        net.run_for(ms(20_000));
        assert!(net.is_connected(), "seed {seed} does not last: {:?}", net.states());
    }
}

#[test]
fn a_settled_exploration_leaves_nothing_behind() {
    let mut net = Net::new(&Config::default(), 2, 1);
    both_ways(&mut net);
    net.run_for(ms(500));
    net.route = Box::new(|pair| index(pair) == 3);
    net.run_for(ms(80_000));
    for host in &net.hosts {
        assert_eq!(host.machine.state(), State::Operational);
        assert!(host.machine.exploration.is_none());
        assert_eq!(host.machine.poll_timeout(), None);
        assert_eq!(host.machine.watch(), 0);
    }
}

#[test]
fn traffic_that_stops_with_the_failure_lets_both_sides_settle() {
    let mut net = Net::new(&Config::default(), 2, 1);
    both_ways(&mut net);
    net.run_for(ms(500));
    net.route = Box::new(|pair| index(pair) == 3);
    net.run_until(ms(20_000), Net::is_connected).unwrap();
    net.hosts.iter_mut().for_each(|h| h.payload = None);
    net.run_for(ms(60));
    let sent = net.probes_sent();
    net.run_for(ms(600_000));
    assert_eq!(net.probes_sent(), sent, "an idle context is not explored again");
    assert!(net.hosts.iter().all(|h| h.machine.exploration.is_none()));
}

#[test]
fn a_suspended_pair_wakes_up_operational_without_a_storm() {
    for asleep in [1_000, 20_000, 3_600_000] {
        for before in [0, 15_010, 15_030, 15_200] {
            let mut net = Net::new(&Config::default(), 2, 9);
            both_ways(&mut net);
            net.run_for(ms(500));
            net.route = Box::new(|pair| index(pair) == 3);
            net.run_for(ms(before));
            net.suspend(ms(asleep));
            let sent = net.probes_sent();
            assert!(net.run_until(ms(40_000), Net::is_connected).is_some(), "{asleep} {before}");
            net.run_for(ms(40_000));
            assert!(net.is_connected());
            let sent = net.probes_sent() - sent;
            assert!(sent <= 24, "{sent} probes {asleep} {before}");
        }
    }
}

#[test]
fn a_failed_path_that_comes_back_does_not_move_the_context() {
    let mut net = Net::new(&Config::default(), 2, 1);
    both_ways(&mut net);
    net.run_for(ms(500));
    net.route = Box::new(|pair| index(pair) == 3);
    net.run_for(ms(20_000));
    net.route = Box::new(|_| true);
    net.run_for(ms(200_000));
    let moves = |h: usize| {
        net.hosts[h].log.iter().filter(|(_, e)| matches!(e, Event::Moved { .. })).count()
    };
    assert_eq!((moves(0), moves(1)), (1, 1));
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = || {
        let mut net = Net::new(&quick(), 2, 77);
        (net.loss, net.duplication, net.jitter) = (140, 60, ms(50));
        both_ways(&mut net);
        net.run_for(ms(20_000));
        (net.hosts[0].log.clone(), net.hosts[1].log.clone(), net.hosts[0].probes_sent)
    };
    let first = run();
    assert!(!first.0.is_empty(), "the network is bad enough to explore");
    assert_eq!(first, run());
}

#[derive(Clone, Debug)]
struct Schedule {
    seed: u8,
    /// Hosts that send payload: 1 is A, 2 is B, 3 is both.
    senders: u8,
    loss: usize,
    jitter: u64,
    /// Dead pairs from A, dead pairs from B, and the time in milliseconds.
    phases: Vec<(u8, u8, u64)>,
    last: (u8, u8),
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let phase = (0u8..16, 0u8..16, 1u64..60_000);
    let phases = prop::collection::vec(phase, 0..6);
    (any::<u8>(), 1u8..4, 0usize..40, 0u64..100, phases, (0u8..15, 0u8..15)).prop_map(
        |(seed, senders, loss, jitter, phases, last)| Schedule {
            seed,
            senders,
            loss,
            jitter,
            phases,
            last,
        },
    )
}

fn cut(net: &mut Net, forward: u8, backward: u8) {
    net.route = Box::new(move |pair| {
        let dead = if is_from_a(pair) { forward } else { backward };
        dead & (1 << index(pair)) == 0
    });
}

fn survive(config: &Config, schedule: &Schedule) -> Result<(), TestCaseError> {
    let mut net = Net::new(config, 2, schedule.seed);
    for (host, bit) in net.hosts.iter_mut().zip([1, 2]) {
        host.payload = Some(ms(200)).filter(|_| schedule.senders & bit != 0);
    }
    (net.loss, net.duplication, net.jitter) = (schedule.loss, schedule.loss, ms(schedule.jitter));
    for &(forward, backward, time) in &schedule.phases {
        cut(&mut net, forward, backward);
        net.run_for(ms(time));
    }
    cut(&mut net, schedule.last.0, schedule.last.1);
    net.loss = 0;
    // Most runs take a Send Timeout. The slowest of thousands takes 200 s, with a probe a minute for each pair.
    let is_settled = (0..10).any(|_| {
        let before = net.probes_sent();
        net.run_for(ms(100_000));
        net.is_connected() && net.probes_sent() == before
    });
    prop_assert!(is_settled, "{:?} {:?}", net.states(), net.pairs());
    for (sender, receiver) in [(0, 1), (1, 0)] {
        let last = net.hosts[receiver].payload_received.last().copied().unwrap_or_default();
        prop_assert!(net.hosts[sender].payload.is_none() || net.now.since(last) < ms(1_000));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_they_meet_again_on_what_is_left(schedule in schedule()) {
        survive(&Config::default(), &schedule)?;
    }

    #[test]
    fn so_they_do_with_short_timeouts(schedule in schedule()) {
        survive(&quick(), &schedule)?;
    }
}
