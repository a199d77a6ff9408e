//! Uplinks that carry nothing, found by peers (decision 159): three hosts, each with two ISPs.

use moorline_contexts::Profile;

use super::adaptive::sound;
use super::seconds;
use crate::plan::{
    Chance, Change, Direction, Kind, Link, Pace, Plan, Port, Uplink, What, Workload,
};

const PACE: Pace = Pace { octets: 300, interval: std::time::Duration::from_millis(20) };

/// The first host has connections with the two others.
fn three(changes: &[(u64, What)]) -> Plan {
    let mut plan = Plan::pair(seconds(10));
    plan.hosts.push(plan.hosts[0].clone());
    plan.hosts.iter_mut().for_each(|host| host.profile = Profile::default());
    let workload = |host| Workload {
        from: port(0),
        to: port(host),
        start: seconds(0),
        until: None,
        kind: Kind::Requests { pace: PACE },
    };
    plan.workloads = [1, 2].map(workload).into();
    let change = |&(at, what): &(u64, What)| Change { at: seconds(at), what };
    plan.changes = changes.iter().map(change).collect();
    plan
}

const fn port(host: usize) -> Port {
    Port { host, uplink: 0 }
}

const fn cut(host: usize) -> What {
    What::Cut { uplink: port(host), direction: Direction::Both }
}

#[test]
fn a_host_whose_isp_falls_silent_gives_the_uplink_up_and_a_peer_with_one_peer_does_not() {
    for seed in 0..8 {
        let outcome = sound(seed, &three(&[(20, cut(0))]));
        assert_eq!(outcome.given_up, 1, "seed {seed}");
        let outcome = sound(seed, &three(&[(20, cut(1))]));
        assert_eq!(outcome.given_up, 0, "the peer's ISP, seed {seed}");
    }
}

/// The ISP of the first host is dead for 10 s and works for 18 s, by turns. The contexts leave it once.
#[test]
fn a_host_whose_isp_flaps_gives_the_uplink_up_each_time_until_it_stays_given_up() {
    let flaps = (0..8).flat_map(|flap| {
        let heal = What::Heal { uplink: port(0) };
        [(20 + 28 * flap, cut(0)), (30 + 28 * flap, heal)]
    });
    let mut plan = three(&flaps.collect::<Vec<_>>());
    plan.duration = seconds(300);
    for seed in 0..4 {
        // The uplink has to answer for 5 s, then 10 s, then 20 s.
        assert_eq!(sound(seed, &plan).given_up, 3, "seed {seed}");
    }
}

/// The core is killed while the ISP is dead. The last two seconds of the run are those after the new core's start.
#[test]
fn a_host_that_starts_anew_gives_a_dead_uplink_up_at_once() {
    for seed in 0..4 {
        let restart = [(40, What::Kill { host: 0 }), (44, What::Restart { host: 0 })];
        let mut plan = three(&[&[(20, cut(0))], &restart[..]].concat());
        (plan.duration, plan.is_full_length) = (seconds(46), true);
        assert_eq!(sound(seed, &plan).given_up, 2, "seed {seed}");
    }
}

/// The peers of the first host's contexts are idle when its ISP falls silent. It has a session with a third peer.
#[test]
fn a_session_that_leaves_a_silent_isp_makes_the_host_ask_the_peers_of_its_contexts() {
    for seed in 0..4 {
        let mut plan = three(&[(80, cut(0))]);
        plan.workloads.iter_mut().for_each(|one| one.until = Some(seconds(60)));
        let outcome = sound(seed, &plan);
        assert_eq!(outcome.given_up, 0, "nothing uses the uplink, seed {seed}");
        plan.hosts.push(plan.hosts[0].clone());
        let kind = Kind::Requests { pace: PACE };
        let workload =
            Workload { from: port(0), to: port(3), start: seconds(0), until: None, kind };
        plan.workloads.push(workload);
        let outcome = sound(seed, &plan.with_ilnp(0b1001));
        assert_eq!(outcome.given_up, 1, "seed {seed}");
    }
}

#[test]
fn both_uplinks_that_lose_5_percent_each_way_are_kept_for_an_hour() {
    for seed in 0..4 {
        let mut plan = three(&[]);
        let pace = Pace { interval: std::time::Duration::from_millis(200), ..PACE };
        plan.workloads.iter_mut().for_each(|one| one.kind = Kind::Requests { pace });
        (plan.duration, plan.is_full_length) = (seconds(3600), true);
        let lossy = Link { loss: Chance::percent(5), ..Link::clean(PACE.interval) };
        plan.hosts[0].uplinks = (0..2).map(|isp| Uplink::symmetric(isp, lossy)).collect();
        assert_eq!(sound(seed, &plan).given_up, 0, "seed {seed}");
    }
}
