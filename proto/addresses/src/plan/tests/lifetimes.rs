//! Lifetimes of addresses: effects of routers, crashes and uses.

use super::*;
use crate::plan::lifetimes::DETECTED;

#[test]
fn what_a_crash_left_stays_until_routers_have_spoken() {
    let mut world = World::with_two(AddressMode::Cga);
    let before = world.addresses.keys().copied().collect::<Vec<_>>();
    world.restart();
    let actions: Vec<_> = world.settle().into_iter().flat_map(|plan| plan.actions).collect();
    let asked = [1, 2].map(|ifindex| Action::Solicit { ifindex });
    assert_eq!(actions, asked, "nothing else");
    world.advertise(1, 1, 1800, 3600);
    world.advertise(2, 2, 1800, 3600);
    world.settle();
    assert_eq!(world.addresses.keys().copied().collect::<Vec<_>>(), before);
}

#[test]
fn what_a_crash_left_without_an_end_gets_one_where_routers_say_nothing() {
    let mut world = World::with_two(AddressMode::Cga);
    let at = (1, world.only(1));
    world.addresses.get_mut(&at).unwrap().until = Until::FOREVER;
    world.restart();
    let view = world.view();
    let seen = Seen { view: &view, at: world.now, advertised: &[] };
    for action in world.planner.plan(&seen, world.now).actions {
        world.planner.on_done(&action, world.now);
    }
    assert_eq!(world.planner.poll_timeout(), Some(world.now + ANSWERS), "nothing else happens");
    world.advance(ANSWERS.as_secs());
    world.settle();
    assert_eq!(world.left(at), (0, 7200));
}

#[test]
fn an_address_that_the_kernel_leaves_tentative_is_made_anew() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let at = (1, world.only(1));
    let own = world.addresses.get_mut(&at).unwrap();
    own.flags = AddressFlags(own.flags.0 | AddressFlags::TENTATIVE.0);
    world.settle();
    let due = world.now + DETECTED;
    assert!(world.planner.poll_timeout().is_some_and(|at| at <= due));
    world.advance(DETECTED.as_secs() - 1);
    assert!(world.settle().is_empty(), "detection may take a while");
    world.advance(1);
    let actions: Vec<_> = world.settle().into_iter().flat_map(|plan| plan.actions).collect();
    let [Action::Remove { ifindex, address }, Action::Add { .. }, ..] = actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!((ifindex, address), at);
    assert_eq!(world.only(1), at.1);
    assert!(!world.addresses[&at].flags.contains(AddressFlags::TENTATIVE));
}

#[test]
fn lifetimes_follow_the_routers() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let at = (1, world.only(1));
    world.advance(1000);
    assert_eq!(world.left(at), (800, 2600));
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.left(at), (1800, 3600));
    assert!(world.settle().is_empty());
    // No router renews the prefix.
    world.advance(1801);
    world.settle();
    assert_eq!(world.left(at).0, 0);
    assert!(world.view().candidates.iter().any(|one| one.ifindex == 1), "deprecated");
    world.advance(1800);
    world.settle();
    assert!(world.ours(1).is_empty());
    // The prefix comes back, and its address is the same.
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.only(1), at.1);
}

#[test]
fn renumbering_deprecates_the_old_address_and_a_withdrawal_takes_it() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let old = (1, world.only(1));
    world.advertise(1, 1, 0, 3600);
    world.advertise(1, 3, 1800, 3600);
    world.settle();
    assert_eq!(world.left(old), (0, 3600));
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible), (3, Kind::Cga)]);
    let new = world.ours(1)[1].0;
    let present = world.planner.announced(&world.view()).present;
    assert_eq!(present[..1], [Locator(new)], "what is for new traffic comes first");
    assert_eq!(present.last(), Some(&Locator(old.1)));

    // RFC 4862 s5.5.3 e: not less than the remaining time, two hours at most.
    world.advertise(1, 1, 0, 0);
    world.settle();
    assert_eq!(world.left(old), (0, 3600));
    world.say(1, 1, Lifetimes { preferred: 0, valid: 0 }, Origin::Kernel, true);
    world.settle();
    assert_eq!(world.only(1), new, "where the host honours it, it is gone at once");
    // Peers can still know this host by the old address.
    assert!(world.planner.member(old.1).is_some());
}

#[test]
fn a_long_lifetime_is_cut_to_two_hours_by_a_withdrawal() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 86_400, 172_800);
    world.settle();
    world.advertise(1, 1, 0, 0);
    world.settle();
    assert_eq!(world.left((1, world.only(1))), (0, 7200));
}

#[test]
fn the_cga_of_an_address_in_use_outlives_many_networks() {
    let mut world = World::with_two(AddressMode::Cga);
    let (used, unused) = (world.only(1), world.only(2));
    world.in_use.insert(used);
    let roam = |world: &mut World, numbers: core::ops::Range<u16>| {
        for number in numbers {
            world.advance(3601);
            world.advertise(1, number, 1800, 3600);
            world.settle();
        }
    };
    roam(&mut world, 10..50);
    assert!(world.planner.member(unused).is_some(), "it is not known yet what is in use");
    world.planner.on_restored();
    roam(&mut world, 50..60);
    assert!(world.planner.member(used).is_some());
    assert!(world.planner.member(unused).is_none());
}

#[test]
fn an_address_that_the_kernel_took_a_moment_too_early_comes_back() {
    let mut world = World::with_two(AddressMode::Cga);
    let at = (1, world.only(1));
    world.advance(3598);
    world.addresses.remove(&at);
    world.settle();
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.only(1), at.1);
}

/// The address would exist for a moment only, and without an end.
#[test]
fn no_address_is_put_on_for_the_last_seconds_of_its_prefix() {
    let mut world = World::with_two(AddressMode::Cga);
    let at = (1, world.only(1));
    world.advance(3598);
    world.addresses.remove(&at);
    world.settle();
    assert_eq!(world.ours(1), []);
}
