//! Addresses and prefixes of persons, network managers, tunnels and DHCPv6.

use super::*;

#[test]
fn prefixes_of_addresses_set_by_hand_count_and_have_no_end() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1, 2]);
    world.set_by_hand(1, "2001:db8:1::5");
    world.set_by_hand(2, "2001:db8:2::5");
    world.settle();
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible)]);
    assert_eq!(world.left((1, world.only(1))), (u32::MAX, u32::MAX));
    // Routers advertise the same prefix and withdraw it: the address that a person has set stays.
    world.advertise(1, 1, 600, 1200);
    world.settle();
    assert_eq!(world.left((1, world.only(1))), (u32::MAX, u32::MAX));
}

/// The server of a VPN drops packets from addresses that it has not assigned.
#[test]
fn an_address_set_by_hand_on_a_tunnel_gives_a_prefix_only_where_a_person_asks_for_it() {
    let asked = PartOfRule { mode: Some(AddressMode::Cga), ..PartOfRule::default() };
    let named = PartOfRule { set: Some("other".to_owned()), ..PartOfRule::default() };
    let of_interface =
        |part: PartOfRule| (BTreeMap::from([("up2".to_owned(), part)]), BTreeMap::new());
    let of_prefix = (BTreeMap::new(), BTreeMap::from([(prefix(2), asked.clone())]));
    let nothing = (BTreeMap::new(), BTreeMap::new());
    let cases = [(nothing, 0), (of_interface(named), 0), (of_interface(asked), 1), (of_prefix, 1)];
    for ((interfaces, prefixes), made) in cases {
        let mut world =
            World::with(AddressPolicy { interfaces, prefixes, ..policy(AddressMode::Cga) });
        world.interfaces = BTreeSet::from([1, 2]);
        world.tunnels = BTreeSet::from([2]);
        world.set_by_hand(1, "2001:db8:1::5");
        world.set_by_hand(2, "2001:db8:2::5");
        world.settle();
        assert_eq!(world.ours(1).len(), 1);
        assert_eq!(world.ours(2).len(), made);
    }
}

/// A PPP link of an ISP has no neighbors either, and gets its prefix from a router.
#[test]
fn a_prefix_that_the_router_of_a_tunnel_advertises_is_like_others() {
    let mut world = World::new(AddressMode::Cga);
    (world.interfaces, world.tunnels) = (BTreeSet::from([1]), BTreeSet::from([1]));
    world.advertise(1, 1, 600, 1200);
    world.settle();
    assert_eq!(world.ours(1).len(), 1);
}

#[test]
fn a_network_manager_that_listens_itself_is_followed_by_its_addresses() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1]);
    let lifetimes = Lifetimes { preferred: 600, valid: 1200 };
    let router =
        Origin::Router { address: address("fe80::1"), lifetime: Duration::from_secs(1800) };
    world.say(1, 1, lifetimes, router, false);
    world.settle();
    assert!(world.ours(1).is_empty(), "nobody on the host believes that router");
    let own = Own { flags: AddressFlags(0), until: Until::of(lifetimes, world.now) };
    world.addresses.insert((1, address("2001:db8:1::77")), own);
    world.settle();
    let at = (1, world.only(1));
    assert_eq!(world.left(at), (600, 1200));
    world.advance(500);
    let own = Own { flags: AddressFlags(0), until: Until::of(lifetimes, world.now) };
    world.addresses.insert((1, address("2001:db8:1::77")), own);
    world.settle();
    assert_eq!(world.left(at), (600, 1200));
}

#[test]
fn single_addresses_of_dhcp_make_no_prefix() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1]);
    world.set_by_hand(1, "2001:db8:1::5");
    let mut view = world.view();
    view.uplinks[0].addresses[0].prefix_len = 128;
    let plan = world.planner.plan(&Seen { view: &view, at: world.now, advertised: &[] }, world.now);
    assert_eq!(plan.actions, [Action::Solicit { ifindex: 1 }]);
    let [warning] = world.planner.warnings() else { panic!() };
    assert!(warning.starts_with("up1: there is no prefix of 64 bits"), "{warning}");
}

#[test]
fn connections_of_another_uplink_can_move_to_a_single_address() {
    for (mode, is_told) in [(AddressMode::HbaCompatible, true), (AddressMode::Hba, false)] {
        let mut world = World::new(mode);
        world.interfaces = BTreeSet::from([1, 2]);
        world.advertise(1, 1, 1800, 3600);
        let single = address("2001:db8:2::5");
        world.singles.insert(single);
        world.set_by_hand(2, "2001:db8:2::5");
        world.settle();
        world.advance(GATHER.as_secs());
        world.settle();
        let key = RsaKey::generate(1024, &mut [7; 32]).unwrap();
        let local = world.planner.announced(&world.view());
        assert!(local.present.contains(&Locator(single)), "{mode:?}");
        let proof = LocalProof::new(1, local, &[&key], [1; 32]);
        let ours = world.only(1);
        assert_eq!(proof.locators_for(Locator(ours).as_ulid()).contains(&Locator(single)), is_told);
        assert_eq!(proof.lists(Locator(single)), is_told);
        let [warning] = world.planner.warnings() else { panic!() };
        assert_eq!(warning.contains("those of other uplinks can move to it"), is_told, "{warning}");
        assert!(warning.starts_with("up2: "), "{warning}");
    }
}

#[test]
fn an_address_that_a_person_takes_away_stays_away_until_the_interface_comes_back() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let at = (1, world.only(1));
    world.addresses.remove(&at);
    for _ in 0..4 {
        world.settle();
        assert!(world.ours(1).is_empty(), "not when its lifetimes are over, either");
        world.advance(1200);
        world.advertise(1, 1, 1800, 3600);
    }
    world.interfaces.remove(&1);
    world.settle();
    world.interfaces.insert(1);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.only(1), at.1);
}

#[test]
fn an_interface_that_flaps_brings_back_no_address_that_a_person_took_from_another() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let (by_hand, by_kernel) = ((1, world.only(1)), (2, world.only(2)));
    world.addresses.remove(&by_hand);
    world.settle();
    assert_eq!(world.planner.taken_away(), [("up1".to_owned(), by_hand.1)]);
    world.addresses.remove(&by_kernel);
    world.planner.on_interfaces_down(&BTreeSet::from([2]));
    world.settle();
    assert_eq!((world.ours(1), world.only(2)), (vec![], by_kernel.1));
    assert_eq!(world.planner.taken_away().len(), 1);
    world.set_by_hand(1, &by_hand.1.to_string());
    world.settle();
    assert_eq!(world.planner.taken_away(), []);
    assert_eq!(world.left(by_hand), (1800, 3600), "it is ours again");
}
