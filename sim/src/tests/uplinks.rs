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
