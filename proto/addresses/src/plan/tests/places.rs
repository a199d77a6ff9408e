//! The interface that has the address of a prefix.

use super::*;

#[test]
fn addresses_on_a_link_without_a_default_route_follow_its_routers_all_the_same() {
    let mut world = World::with_two(AddressMode::Cga);
    let address = world.only(1);
    world.advance(900);
    world.advertise(1, 1, 1800, 3600);
    let mut view = world.view();
    let uplink = view.uplinks.remove(0);
    assert_eq!(uplink.ifindex, 1);
    view.bare.push(Uplink { default_routes: Vec::new(), gateway: None, ..uplink });
    let advertised: Vec<_> = world.table.prefixes().collect();
    let seen = Seen { view: &view, at: world.now, advertised: &advertised };
    let plan = world.planner.plan(&seen, world.now);
    let lifetimes = Lifetimes { preferred: 1800, valid: 3600 };
    assert_eq!(plan.actions, [Action::SetLifetimes { ifindex: 1, address, lifetimes }]);
}

#[test]
fn interfaces_may_have_sets_and_modes_of_their_own() {
    let mut policy = policy(AddressMode::HbaCompatible);
    for (name, mode, set) in
        [("up3", AddressMode::Hba, "servers"), ("up4", AddressMode::Off, "default")]
    {
        let part =
            PartOfRule { mode: Some(mode), set: Some(set.to_owned()), ..PartOfRule::default() };
        policy.interfaces.insert(name.to_owned(), part);
    }
    let mut world = World::with(policy);
    world.interfaces = BTreeSet::from([1, 2, 3, 4]);
    world.set_by_hand(4, "2001:db8:4::5");
    for ifindex in 1..=3 {
        world.advertise(ifindex, u16::try_from(ifindex).unwrap(), 1800, 3600);
    }
    world.settle();
    world.advance(2);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible)]);
    assert_eq!(world.kinds(3), [(3, Kind::Hba)]);
    assert!(world.kinds(4).is_empty());
    assert_eq!(world.planner.groups().len(), 2);
    let by_hand = Locator(address("2001:db8:4::5"));
    let present = world.planner.announced(&world.view()).present;
    assert!(present.contains(&by_hand), "a key can sign for it: {present:?}");
}

#[test]
fn a_prefix_on_two_interfaces_gives_one_address() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1, 2]);
    world.advertise(1, 1, 1800, 3600);
    world.advertise(2, 1, 1800, 3600);
    world.settle();
    assert_eq!((world.ours(1).len(), world.ours(2).len()), (1, 0));
    assert!(world.planner.groups()[0].address(prefix(1)).is_some());
}

/// Any node on the first link can advertise the prefix there.
#[test]
fn an_address_stays_on_its_link_while_routers_there_go_on_whoever_else_advertises_the_prefix() {
    let mut world = World::with_two(AddressMode::Cga);
    let address = world.only(2);
    world.advertise(1, 2, 86_400, 86_400);
    world.settle();
    assert_eq!(world.only(2), address);
    assert!(!world.addresses.contains_key(&(1, address)));
    let kinds = world.kinds(1);
    assert_eq!(kinds.len(), 1, "{kinds:?}");
    // The router of the second link withdraws the prefix.
    world.advertise(2, 2, 0, 7200);
    world.settle();
    assert!(world.addresses.contains_key(&(1, address)));
}
