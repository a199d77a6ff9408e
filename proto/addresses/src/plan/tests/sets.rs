//! Kinds of addresses, sets over the prefixes of all uplinks, and duplicates.

use super::*;

#[test]
fn both_isps_prefixes_come_into_one_set() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible)]);
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible)]);
    assert_eq!(world.left((1, world.only(1))), (1800, 3600));
    // Peers are told all addresses, and nothing is signed.
    let local = world.planner.announced(&world.view());
    assert_eq!(local.present, [world.only(1), world.only(2)].map(Locator));
    let proof = LocalProof::new(1, local, &[], [0; 32]);
    let told = proof.announcement_for(Locator(world.only(1)).as_ulid()).unwrap();
    assert!(told.signature().is_none());
    assert_eq!(told.list().entries.len(), 2);
    assert!(world.settle().is_empty());
}

#[test]
fn each_mode_makes_its_own_kind() {
    for (mode, kind) in [(AddressMode::Cga, Kind::Cga), (AddressMode::Hba, Kind::Hba)] {
        let world = World::with_two(mode);
        assert_eq!(world.kinds(1), [(1, kind)]);
        assert_eq!(world.kinds(2), [(2, kind)]);
    }
    let mut world = World::with_two(AddressMode::Off);
    assert!(world.ours(1).is_empty());
    world.set_by_hand(1, "2001:db8:1::5");
    assert!(world.settle().is_empty(), "not even the kernel's own addresses are touched");
}

#[test]
fn the_first_start_waits_a_moment_for_the_second_prefix_and_no_longer() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1, 2]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert!(world.ours(1).is_empty());
    let until = world.planner.poll_timeout().unwrap();
    assert_eq!(until, world.now + GATHER);
    world.advance(1);
    world.advertise(2, 2, 1800, 3600);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible)]);
    assert_eq!(world.planner.poll_timeout(), None);

    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert!(world.ours(1).is_empty());
    world.advance(2);
    world.settle();
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible)]);
}

#[test]
fn a_prefix_that_goes_before_the_first_set_leaves_nothing_due_and_the_next_waits_for_others() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1, 1);
    world.settle();
    assert!(world.planner.poll_timeout().is_some());
    world.advance(3);
    world.settle();
    assert_eq!(world.planner.poll_timeout(), None);
    world.advertise(1, 2, 1800, 3600);
    world.settle();
    assert_eq!(world.planner.poll_timeout(), Some(world.now + GATHER));
    assert!(world.ours(1).is_empty());
    world.advance(2);
    world.settle();
    assert_eq!(world.kinds(1), [(2, Kind::HbaCompatible)]);
}

#[test]
fn a_set_that_cannot_be_made_is_tried_again_later_and_is_told_of_meanwhile() {
    let mut world = World::new(AddressMode::HbaCompatible);
    // A planner without the key.
    world.planner = Planner::new(world.policy.clone(), BTreeMap::new(), Vec::new(), [7; 32]);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    for _ in 0..3 {
        world.advance(2);
        world.settle();
        assert_eq!(world.planner.poll_timeout(), Some(world.now + RETRY));
        let [warning] = world.planner.warnings() else { panic!() };
        assert!(warning.starts_with("no addresses are made"), "{warning}");
    }
}

#[test]
fn a_later_prefix_gets_a_cga_of_the_same_key() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let before = [world.only(1), world.only(2)];
    world.advertise(2, 3, 600, 1200);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible), (3, Kind::Cga)]);
    assert!(before.iter().all(|old| world.planner.member(*old).is_some()));
    let [set] = &world.planner.groups()[0].sets[..] else { panic!() };
    let cga = world.planner.announced(&world.view()).cgas.remove(0);
    assert_eq!(set.set.public_key().as_ref(), Some(cga.public_key()));
    assert!(world.planner.warnings().is_empty());
}

/// The members of the set are there again after the later prefixes, as after a loss of the carrier.
#[test]
fn peers_are_told_addresses_by_turns_of_the_uplinks_members_of_sets_first_and_then_the_oldest() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1, 2]);
    world.advertise(1, 8, 1800, 3600);
    world.advertise(2, 9, 1800, 3600);
    world.settle();
    for (ifindex, number) in [(1, 7), (1, 3), (1, 5), (2, 2)] {
        world.advertise(ifindex, number, 1800, 3600);
    }
    world.settle();
    let mut view = world.view();
    for own in view.uplinks.iter_mut().flat_map(|uplink| &mut uplink.addresses) {
        let times = [(7, 100), (5, 200), (3, 300), (2, 400), (8, 500), (9, 600)];
        let created = times.into_iter().find(|(number, _)| *number == own.address.segments()[2]);
        own.created = created.expect("a prefix").1;
    }
    let present = world.planner.announced(&view).present;
    let numbers: Vec<_> = present.iter().map(|one| one.0.segments()[2]).collect();
    assert_eq!(numbers, [8, 9, 7, 2, 5, 3]);
}

#[test]
fn a_fixed_set_takes_no_later_prefix_and_says_so() {
    let mut world = World::with_two(AddressMode::Hba);
    world.advertise(2, 3, 600, 1200);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::Hba)]);
    let [warning] = world.planner.warnings() else { panic!() };
    assert!(warning.starts_with("up2: 2001:db8:3::/64 is not in the HBA set"), "{warning}");
    assert!(warning.ends_with("Set addresses = \"hba-compatible\"."), "{warning}");
}

#[test]
fn the_next_start_has_the_same_addresses() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    world.advertise(1, 3, 600, 1200);
    world.settle();
    let before: Vec<_> = [1, 2].map(|at| world.ours(at)).concat();
    // The daemon has stopped in order: no address is left on the interfaces.
    world.restart();
    world.addresses.clear();
    world.advertise(2, 2, 1800, 3600);
    world.settle();
    for (ifindex, number) in [(1, 1), (1, 3)] {
        world.advertise(ifindex, number, 1800, 3600);
    }
    world.settle();
    assert_eq!([1, 2].map(|at| world.ours(at)).concat(), before);
}

#[test]
fn a_duplicate_of_a_cga_is_replaced_twice_and_then_given_up() {
    let mut world = World::new(AddressMode::Cga);
    world.is_detecting = true;
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        let tentative = world.only(1);
        assert_eq!(world.planner.member(tentative).unwrap().collision_count, round);
        assert!(seen.insert(tentative));
        world.detect(|address| address == tentative);
        let plans = world.settle();
        let [Note::Duplicate { text, address }] = &plans[0].notes[..] else { panic!() };
        assert_eq!(*address, tentative);
        let ending = if round < 2 { "going on to the next" } else { "the third time: giving up" };
        assert!(text.ends_with(ending), "{text}");
        assert!(plans[0].is_changed, "the count is kept");
    }
    assert!(world.ours(1).is_empty());
    let [warning] = world.planner.warnings() else { panic!() };
    assert!(warning.starts_with("up1: another host has had three addresses of ours"), "{warning}");
    assert!(world.settle().is_empty());
}

#[test]
fn a_duplicate_in_a_set_changes_the_whole_set_and_keeps_the_old_one_for_its_contexts() {
    for mode in [AddressMode::Hba, AddressMode::HbaCompatible] {
        let mut world = World::new(mode);
        world.is_detecting = true;
        world.interfaces = BTreeSet::from([1, 2]);
        world.advertise(1, 1, 1800, 3600);
        world.advertise(2, 2, 1800, 3600);
        world.settle();
        let [first, second] = [world.only(1), world.only(2)];
        world.detect(|address| address == first);
        world.settle();
        // RFC 5535 s6 step 6.4.
        let replaced = world.only(1);
        assert_ne!(replaced, first);
        assert_eq!(world.planner.member(replaced).unwrap().collision_count, 1);
        assert_eq!(world.ours(2).len(), 2);
        world.detect(|_| false);
        world.settle();
        assert_eq!(world.left((1, replaced)), (1800, 3600));
        assert_eq!(world.left((2, second)).0, 0, "not for new traffic");
        let former = world.planner.member(second).unwrap();
        assert!(former.is_former && former.collision_count == 0);
        let local = world.planner.announced(&world.view());
        assert_eq!(local.sets.len(), 2);
        assert_eq!(local.present.last(), Some(&Locator(second)));
        world.restart();
        assert_eq!(world.planner.member(replaced).unwrap().collision_count, 1);
    }
}
