//! Pairs that work badly: contexts leave them for better ones, once, and do not flap (decision 141).

use std::time::Duration;

use moorline_contexts::{Cause, Event, EventKind};

use super::adaptive::{causes, crowded, plan, sound};
use super::{seconds, setting, uplink_of};
use crate::plan::{Chance, Change, Kind, Link, Pace, Plan, Port, Uplink, What};
use crate::{Outcome, Rule, Violation, run};

const PACE: Pace = Pace { octets: 1000, interval: Duration::from_millis(50) };
const STREAM: Kind = Kind::Stream { bytes: u64::MAX, pace: Some(PACE) };

/// Plays this time with these links of the first host, to and from each ISP.
fn by(kind: Kind, links: [Link; 2], minutes: u64) -> Plan {
    let mut plan = plan(kind, Duration::from_millis(40));
    (plan.duration, plan.is_full_length) = (Duration::from_secs(60 * minutes), true);
    plan.hosts[0].uplinks = (0..2).map(|isp| Uplink::symmetric(isp, links[isp])).collect();
    plan
}

fn link(percent: u8, delay: u64) -> Link {
    Link { loss: Chance::percent(percent.into()), ..Link::clean(Duration::from_millis(delay)) }
}

fn moves(outcome: &Outcome, host: usize, causes: &[Cause]) -> usize {
    let is_meant = |event: &Event| matches!(event.kind, EventKind::Moved { cause, .. } if causes.contains(&cause));
    let of_host = outcome.events.iter().filter(|told| told.host == host);
    of_host.filter(|told| is_meant(&told.event)).count()
}

#[test]
fn a_pair_that_loses_15_percent_each_way_is_left_and_not_returned_to() {
    let both_ways = Kind::Datagrams { pace: PACE, both_ways: true };
    for kind in [STREAM, Kind::Requests { pace: PACE }, both_ways] {
        for seed in 0..4 {
            let outcome = sound(seed, &by(kind, [link(15, 10), link(0, 10)], 20));
            let lossy = moves(&outcome, 0, &[Cause::Lossy]) + moves(&outcome, 1, &[Cause::Lossy]);
            let back = causes(&outcome).contains(&Cause::FailBack);
            assert!((1..=2).contains(&lossy) && !back, "{kind:?} {seed}: {:?}", causes(&outcome));
        }
    }
}

/// A connection across two ISPs, of which the first loses 15 % each way at either host: of the four pairs one is clean.
#[test]
fn a_pair_across_two_isps_is_left_for_the_pair_without_the_lossy_isp() {
    for kind in [STREAM, Kind::Requests { pace: PACE }] {
        for seed in 0..setting("MOORLINE_SEEDS").unwrap_or(8) {
            let mut plan = by(kind, [link(15, 10), link(0, 10)], 20);
            plan.hosts[1].uplinks = plan.hosts[0].uplinks.clone();
            plan.workloads[0].to.uplink = 1;
            let outcome = sound(seed, &plan);
            for host in 0..2 {
                let of_host = outcome.events.iter().filter(|told| told.host == host);
                let moves = of_host.filter_map(|told| {
                    let EventKind::Moved { to, .. } = told.event.kind else { return None };
                    Some((told.at, [to.local, to.peer].map(uplink_of)))
                });
                let moves: Vec<_> = moves.collect();
                let is_left = moves.last().is_some_and(|last| last.1 == [2, 2]) && moves.len() <= 3;
                let is_left = is_left && moves[moves.len() - 1].0 <= seconds(600);
                assert!(is_left, "{kind:?} {seed}, host {host}: {moves:?} {:?}", causes(&outcome));
            }
        }
    }
}

/// An ISP fails, and works again with this loss.
fn healed(kind: Kind, percent: u32) -> Plan {
    let mut plan = by(kind, [link(0, 10); 2], 3);
    let uplink = Port { host: 0, uplink: 0 };
    let loss = What::Loss { uplink, loss: Chance::percent(percent) };
    let changes = [(20, What::IspDown { isp: 0 }), (49, loss), (50, What::IspUp { isp: 0 })];
    plan.changes = changes.map(|(at, what)| Change { at: seconds(at), what }).into();
    plan
}

/// The ISP answers again, so the hold time ends. The comparison after that decides (decision 166).
#[test]
fn payload_goes_back_to_an_isp_that_has_healed_and_to_none_that_loses_15_percent_each_way() {
    let both_ways = Kind::Datagrams { pace: PACE, both_ways: true };
    for kind in [STREAM, Kind::Requests { pace: PACE }, both_ways] {
        for seed in 0..4 {
            for (percent, goes_back) in [(0, true), (15, false)] {
                let causes = causes(&sound(seed, &healed(kind, percent)));
                let is_back = causes.contains(&Cause::FailBack);
                assert_eq!(is_back, goes_back, "{kind:?} {seed}, {percent} %: {causes:?}");
            }
        }
    }
}

#[test]
fn two_paths_that_lose_alike_are_both_stayed_on() {
    for percent in [1, 5] {
        for seed in 0..4 {
            let outcome = sound(seed, &by(STREAM, [link(percent, 10); 2], 60));
            assert_eq!(causes(&outcome), [], "{percent} %, seed {seed}");
        }
    }
}

#[test]
fn a_path_by_satellite_is_left_and_one_that_is_a_little_longer_is_not() {
    for seed in 0..4 {
        let outcome = sound(seed, &by(STREAM, [link(0, 290), link(0, 10)], 20));
        let slow = moves(&outcome, 0, &[Cause::Slow]) + moves(&outcome, 1, &[Cause::Slow]);
        assert!((1..=2).contains(&slow), "seed {seed}: {:?}", causes(&outcome));
        assert!(!causes(&outcome).contains(&Cause::FailBack), "seed {seed}");
        let outcome = sound(seed, &by(STREAM, [link(0, 80), link(0, 10)], 20));
        assert_eq!(causes(&outcome), [], "seed {seed}");
    }
}

/// The contexts of a host fill the queues of their uplink, so the other uplink is always better.
#[test]
fn contexts_do_not_chase_each_other_from_queue_to_queue() {
    for seed in 0..2 {
        let mut plan = crowded(Duration::from_millis(90));
        let narrow = plan.hosts[0].uplinks[0].out;
        plan.hosts[0].uplinks[1] = Uplink::symmetric(1, narrow);
        let outcome = run(seed, &plan);
        // TCP backs off for minutes where a full queue drops one retransmission after the other.
        let other: Vec<_> =
            outcome.violations.iter().filter(|it| it.rule != Rule::Recovery).collect();
        assert_eq!(other, Vec::<&Violation>::new(), "seed {seed}");
        for host in 0..plan.hosts.len() {
            let left = moves(&outcome, host, &[Cause::Lossy, Cause::Slow]);
            let contexts = if host == 0 { plan.workloads.len() } else { 1 };
            assert!(left <= 7 * contexts, "seed {seed}, host {host}: {left} in an hour");
        }
    }
}
