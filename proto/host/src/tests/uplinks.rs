//! Uplinks that carry nothing, found by peers.

use core::net::Ipv6Addr;

use moorline_addresses::HostView;

use super::star::{Star, links};
use super::*;
use crate::Evidence;

#[test]
fn a_dead_isp_is_not_for_new_connections_once_a_context_has_left_it_and_another_peer_says_the_same()
{
    let mut star = Star::new(&[1, 2]);
    assert!(star.routes.iter().all(Option::is_none) && star.failing().is_empty());
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.suspect(&[1]);
    star.run(Duration::from_millis(700));
    assert_eq!((star.failing(), star.routes.last()), (vec![1], Some(&Some(2))));
    star.run(Duration::from_secs(60));
    assert_eq!(star.failing(), [1]);
    let host = &star.hosts[0];
    assert_eq!((host.evidence(1), host.evidence(2)), (Some(Evidence::Peers), None));
    assert_eq!(host.uplink_for_new().map(|uplink| uplink.ifindex), Some(2));
    star.dead.clear();
    star.run(Duration::from_secs(4));
    assert_eq!(star.failing(), [1]);
    star.run(Duration::from_secs(3));
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)));
}

/// The second ISP dies while the first one has to answer for a while, after a failure of its own.
#[test]
fn an_isp_that_answers_again_is_better_than_one_that_has_just_failed() {
    let mut star = Star::new(&[1, 2]);
    let isps = [star.locals[0][0], star.locals[0][1]];
    star.dead.insert(isps[0]);
    star.suspect(&[1]);
    star.run(Duration::from_secs(20));
    star.dead.clear();
    star.run(Duration::from_secs(2));
    assert_eq!(star.failing(), [1]);
    star.dead.insert(isps[1]);
    star.suspect(&[1]);
    star.run(Duration::from_millis(700));
    assert_eq!((star.failing(), star.routes.last()), (vec![2], Some(&None)), "the kernel's choice");
    star.run(Duration::from_secs(60));
    assert_eq!(star.failing(), [2]);
}

/// Both ISPs have failed and answer again, and the first one has answered for long enough before the second one.
#[test]
fn an_isp_that_answers_for_too_short_a_time_is_not_said_to_carry_nothing() {
    let mut star = Star::new(&[1, 2]);
    let isps = [star.locals[0][0], star.locals[0][1]];
    for (dead, seconds) in [(Some(isps[0]), 4), (None, 2), (Some(isps[1]), 1)] {
        star.dead = dead.into_iter().collect();
        star.suspect(if dead.is_some() { &[1] } else { &[] });
        star.run(Duration::from_secs(seconds));
    }
    let evidence = |star: &Star| [1, 2].map(|ifindex| star.hosts[0].evidence(ifindex));
    let [short, peers] = [Evidence::Short, Evidence::Peers].map(Some);
    assert_eq!((star.failing(), evidence(&star)), (vec![2], [short, peers]));
    star.dead.clear();
    star.run(Duration::from_secs(1));
    assert_eq!((star.failing(), evidence(&star)), (vec![], [short; 2]), "neither is better");
    star.run(Duration::from_secs(3));
    assert_eq!((star.failing(), evidence(&star)), (vec![2], [None, short]));
    assert_eq!(star.hosts[0].avoided_uplinks(), [2].into());
    star.run(Duration::from_secs(5));
    assert_eq!((star.failing(), evidence(&star)), (vec![], [None; 2]));
}

/// The uplink of new connections, if the kernel prefers this one.
fn taken(star: &Star, used: u32) -> u32 {
    if star.failing().contains(&used) { 3 - used } else { used }
}

/// Both ISPs of the first host die, at once or one after the other, and one of them heals. One may have failed before.
#[test]
fn of_two_dead_isps_the_one_that_heals_is_taken_within_two_seconds() {
    for (pause, dead_for) in [(0, 1_000), (0, 7_000), (500, 4_000), (5_000, 2_000), (3_000, 30_000)]
    {
        for damped in [None, Some(0), Some(1)] {
            for (order, healed) in [([0, 1], 0), ([0, 1], 1), ([1, 0], 0), ([1, 0], 1)] {
                let mut star = Star::new(&[1, 2, 3]);
                let isps = [star.locals[0][0], star.locals[0][1]];
                if let Some(damped) = damped {
                    star.dead.insert(isps[damped]);
                    star.suspect(&[1]);
                    star.run(Duration::from_secs(4));
                    star.dead.clear();
                    star.run(Duration::from_secs(2));
                }
                for place in order {
                    star.dead.insert(isps[place]);
                    star.suspect(&[1]);
                    star.run(Duration::from_millis(pause));
                }
                star.run(Duration::from_millis(dead_for));
                star.dead.remove(&isps[healed]);
                let case = (pause, dead_for, damped, order, healed);
                let works = u32::try_from(healed + 1).expect("small");
                star.run(Duration::from_secs(2));
                for _ in 0..100 {
                    let all = [1, 2].map(|used| taken(&star, used));
                    assert_eq!(all, [works; 2], "{case:?} {:?}", star.routes);
                    star.run(Duration::from_millis(100));
                }
            }
        }
    }
}

/// The host forgets the failure in its sleep. When it wakes, standby paths that have not answered are doubts.
#[test]
fn a_host_that_wakes_asks_at_once_about_an_uplink_that_failed_before() {
    let mut star = Star::new(&[1, 2]);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.suspect(&[1]);
    for _ in 0..50 {
        star.run(Duration::from_millis(1_300));
        assert_eq!(star.failing(), [1]);
        let (mut host, now) = (star.hosts[0].clone(), star.now + Duration::from_secs(200));
        host.handle_timeout(now);
        let next = host.poll_timeout();
        assert!(next.is_some_and(|at| at > now), "{next:?} at {now:?}");
    }
}

#[test]
fn a_peer_whose_own_isp_has_failed_changes_nothing() {
    let mut star = Star::new(&[1, 2, 3]);
    for peer in 1..=2 {
        let cut = star.locals[peer][0];
        star.dead.insert(cut);
    }
    star.suspect(&[1, 2]);
    star.run(Duration::from_secs(60));
    assert!(star.moves >= 2 && star.failing().is_empty());
    assert!(star.routes.iter().all(Option::is_none));
}

/// The first peer is silent by one uplink of the host. The second peer has addresses of the same network.
#[test]
fn one_hostile_peer_changes_nothing_even_with_two_hosts_in_its_network() {
    for networks in [&[1, 2][..], &[1, 1], &[1]] {
        let mut star = Star::new(networks);
        let own = star.locals[0][0];
        let liars = (1..).zip(networks).filter(|(_, network)| **network == 1);
        let liars: Vec<usize> = liars.map(|(host, _)| host).collect();
        for liar in &liars {
            for peer in star.locals[*liar].clone() {
                star.dead_pairs.insert(LocatorPair::new(own, peer));
            }
        }
        for _ in 0..5 {
            star.suspect(&liars);
            star.run(Duration::from_secs(30));
        }
        assert!(star.moves >= liars.len() && star.failing().is_empty(), "{networks:?}");
        assert!(star.routes.iter().all(Option::is_none), "{networks:?}");
    }
}

/// Peers are switched off, and their contexts do not know. The other peers leave the host's dead ISP one by one.
#[test]
fn peers_that_are_switched_off_do_not_keep_others_from_being_asked() {
    let mut star = Star::new(&[1, 2, 3, 4, 5, 6]);
    let off = star.locals[1..=3].concat();
    star.dead.extend(off);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    for peer in 4..=6 {
        star.suspect(&[peer]);
        star.run(Duration::from_secs(15));
    }
    assert_eq!(star.failing(), [1]);
}

/// The first peer moves away from the dead ISP, the second one is idle.
#[test]
fn a_dead_isp_is_not_for_new_connections_after_a_restart() {
    let mut star = Star::new(&[1, 2]);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.suspect(&[1]);
    star.run(Duration::from_secs(20));
    assert_eq!(star.failing(), [1]);
    star.restart();
    star.run(Duration::from_millis(700));
    assert_eq!(
        (star.failing(), &star.routes[..]),
        (vec![1], &[Some(2)][..]),
        "one route all the time"
    );
    star.dead.clear();
    star.run(Duration::from_secs(7));
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)));
}

#[test]
fn an_uplink_that_works_again_when_the_host_restarts_is_for_new_connections_soon() {
    let mut star = Star::new(&[1, 2]);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.suspect(&[1]);
    star.run(Duration::from_secs(20));
    star.dead.clear();
    star.restart();
    star.run(Duration::from_secs(4));
    assert_eq!(
        (star.failing(), &star.routes[..]),
        (vec![], &[][..]),
        "the route of the run before"
    );
    star.run(Duration::from_secs(2));
    assert_eq!((star.failing(), &star.routes[..]), (vec![], &[None][..]));
}

/// The kernel chooses among default routes of one metric by itself, as Router Advertisements leave them.
#[test]
fn with_default_routes_of_one_metric_nobody_knows_the_uplink_of_new_connections_unless_one_fails() {
    let mut star = Star::new(&[1, 2]);
    let mut view = links(&star.locals[0]);
    for uplink in &mut view.uplinks {
        uplink.default_routes[0].metric = 1024;
    }
    star.hosts[0].handle_view(view, star.now);
    star.settle();
    let taken = |star: &Star| star.hosts[0].uplink_for_new().map(|one| one.ifindex);
    assert_eq!(taken(&star), None);
    star.hosts[0].handle_router_lost(1, star.now);
    star.settle();
    assert_eq!(taken(&star), Some(2));
}

/// A route of metric 1 has no other before it. The kernel passes over it only if its router does not answer.
#[test]
fn the_uplink_of_new_connections_is_the_one_that_the_kernel_chooses() {
    for (metric, silent) in [(2, 2), (1, 1)] {
        for (is_router_lost, expected) in [(true, 2), (false, silent)] {
            let mut star = Star::new(&[1, 2]);
            let mut view = links(&star.locals[0]);
            view.uplinks[0].default_routes[0].metric = metric;
            star.hosts[0].handle_view(view, star.now);
            star.settle();
            if is_router_lost {
                star.hosts[0].handle_router_lost(1, star.now);
                star.settle();
            } else {
                let cut = star.locals[0][0];
                star.dead.insert(cut);
                star.suspect(&[1, 2]);
                star.run(Duration::from_secs(2));
            }
            assert_eq!(star.failing(), [1]);
            let taken = star.hosts[0].uplink_for_new().map(|uplink| uplink.ifindex);
            assert_eq!(taken, Some(expected), "metric {metric}, {is_router_lost}");
        }
    }
}

/// No payload takes the second uplink. Checks of standby paths alone show that it has failed.
#[test]
fn a_dead_isp_that_no_context_uses_is_found_out_by_standby_paths() {
    for (dead, expected) in [(1..=2, &[2][..]), (1..=1, &[])] {
        let mut star = Star::new(&[1, 2]);
        let own = star.locals[0][1];
        for peer in star.locals[dead].concat() {
            star.dead_pairs.insert(LocatorPair::new(own, peer));
        }
        for _ in 0..90 {
            star.traffic();
            star.run(Duration::from_secs(1));
        }
        assert_eq!((star.moves, &star.failing()[..]), (0, expected));
    }
}

#[test]
fn where_hosts_are_asked_peers_and_routers_say_nothing() {
    let mut star = Star::new(&[1, 2]);
    let host = star.hosts.remove(0).with_targets(vec![Ipv6Addr::LOCALHOST], [1; 32]);
    star.hosts.insert(0, host);
    let cut = star.locals[0][0];
    star.dead.insert(cut);
    star.hosts[0].handle_router_lost(1, star.now);
    star.suspect(&[1, 2]);
    star.run(Duration::from_secs(5));
    assert!(star.moves >= 2 && star.failing().is_empty());
}

#[test]
fn an_uplink_whose_router_is_lost_is_not_for_new_connections() {
    let mut star = Star::new(&[]);
    star.hosts[0].handle_router_lost(1, star.now);
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![1], Some(&Some(2))));
    assert_eq!(star.hosts[0].evidence(1), Some(Evidence::Router));
    assert_eq!(star.hosts[0].uplink_for_new().map(|uplink| uplink.ifindex), Some(2));
    star.hosts[0].handle_router_lost(2, star.now);
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)), "neither is better");
    star.run(Duration::from_secs(10));
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)));
    star.hosts[0].handle_router_lost(1, star.now);
    assert_eq!(star.failing(), [1]);
    assert!(star.hosts[0].handle_router_found(1, star.now));
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)), "it answers again");
    assert!(!star.hosts[0].handle_router_found(1, star.now));
    // A link with two routers goes on by the other router.
    let mut view = links(&star.locals[0]);
    let mut second = view.uplinks[0].default_routes[0];
    second.gateway = Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9));
    view.uplinks[0].default_routes.push(second);
    star.hosts[0].handle_view(view, star.now);
    star.hosts[0].handle_router_lost(1, star.now);
    star.settle();
    assert_eq!(star.failing(), []);
}

fn without_carrier(view: &HostView, uplink: usize) -> HostView {
    let mut view = view.clone();
    view.uplinks[uplink].carrier = false;
    view
}

/// The carrier goes for a second every few seconds. The kernel would take the uplink again each time.
#[test]
fn new_connections_go_back_to_a_carrier_that_comes_and_goes_only_when_it_has_stayed() {
    let mut star = Star::new(&[1]);
    let up = links(&star.locals[0]);
    let down = without_carrier(&up, 0);
    let of_new = |star: &Star| star.hosts[0].uplink_for_new().map(|one| one.ifindex);
    let flap = |star: &mut Star| {
        for (view, taken) in [(&down, Some(2)), (&up, None)] {
            star.hosts[0].handle_view(view.clone(), star.now);
            star.settle();
            assert!(taken.is_none_or(|taken| of_new(star) == Some(taken)));
            star.run(Duration::from_secs(1));
        }
    };
    assert_eq!(of_new(&star), Some(1));
    flap(&mut star);
    assert_eq!(of_new(&star), Some(1), "after the first loss at once");
    for wait in [5, 10, 20, 40] {
        flap(&mut star);
        star.run(Duration::from_secs(wait - 2));
        assert_eq!((of_new(&star), star.routes.last()), (Some(2), Some(&Some(2))), "{wait}");
        assert_eq!(star.hosts[0].unsteady_uplinks(), [1].into());
        let avoided = star.hosts[0].avoided_until(1).map(|until| until.since(star.now));
        assert_eq!(avoided, Some(Duration::from_secs(1)));
        star.run(Duration::from_secs(1));
        assert_eq!(star.hosts[0].avoided_until(1), None);
        assert_eq!((of_new(&star), star.routes.last()), (Some(1), Some(&None)), "{wait}");
        assert!(star.hosts[0].unsteady_uplinks().is_empty() && star.failing().is_empty());
    }
}

/// Packets of old connections make the kernel look for the router while the link has no carrier. The event of the return
/// named the other uplink.
#[test]
fn a_router_that_was_looked_for_without_a_carrier_does_not_count_after_its_return() {
    let mut star = Star::new(&[1]);
    let up = links(&star.locals[0]);
    let down = without_carrier(&up, 0);
    star.hosts[0].handle_view(down, star.now);
    star.hosts[0].handle_router_lost(1, star.now);
    star.settle();
    star.hosts[0].handle_view(up, star.now);
    assert_eq!(star.hosts[0].uplink_for_new().map(|one| one.ifindex), Some(1));
    star.settle();
    assert_eq!((star.failing(), star.routes.last()), (vec![], Some(&None)));
}

/// A host has no reason to prefer an uplink without a carrier, or one that carries nothing.
#[test]
fn a_carrier_that_comes_and_goes_is_better_than_none() {
    let mut star = Star::new(&[1]);
    let both = links(&star.locals[0]);
    for _ in 0..3 {
        let mut none = both.clone();
        none.uplinks.iter_mut().for_each(|uplink| uplink.carrier = false);
        let mut first = none.clone();
        first.uplinks[0].carrier = true;
        for view in [none, first] {
            star.hosts[0].handle_view(view, star.now);
            star.settle();
        }
        let new = star.hosts[0].uplink_for_new().map(|one| one.ifindex);
        assert_eq!(new, Some(1));
        star.run(Duration::from_secs(1));
    }
    assert_eq!(star.hosts[0].unsteady_uplinks(), [1].into());
    assert_eq!(star.hosts[0].avoided_until(1), None, "new connections take it all the same");
}

/// With default routes of one metric the kernel takes either, so a route has to lead to the better one.
#[test]
fn of_two_carriers_that_come_and_go_the_one_that_has_stayed_for_longer_is_taken() {
    let mut star = Star::new(&[1]);
    let mut up = links(&star.locals[0]);
    let metric = up.uplinks[0].default_routes[0].metric;
    up.uplinks[1].default_routes[0].metric = metric;
    let flap = |star: &mut Star, uplink: usize| {
        let down = without_carrier(&up, uplink);
        for view in [&down, &up] {
            star.hosts[0].handle_view(view.clone(), star.now);
            star.settle();
            star.run(Duration::from_millis(100));
        }
    };
    for uplink in [1, 1, 0, 0] {
        flap(&mut star, uplink);
    }
    assert_eq!(star.hosts[0].unsteady_uplinks(), [1, 2].into());
    let of_new = |star: &Star| star.hosts[0].uplink_for_new().map(|one| one.ifindex);
    assert_eq!((of_new(&star), star.routes.last()), (Some(2), Some(&Some(2))));
    assert!(star.hosts[0].avoided_until(1).is_some());
    assert_eq!(star.hosts[0].avoided_until(2), None);
    // New connections have never left the second uplink, so they do not come back to it when its wait is over.
    let avoided = |star: &Star| star.hosts[0].avoided_uplinks();
    assert_eq!(avoided(&star), [1].into());
    star.run(Duration::from_millis(4_850));
    assert_eq!((star.hosts[0].unsteady_uplinks(), avoided(&star)), ([1].into(), [1].into()));
    star.run(Duration::from_secs(6));
    assert!(avoided(&star).is_empty());
    assert_eq!((of_new(&star), star.routes.last()), (None, Some(&None)), "as without losses");
}
