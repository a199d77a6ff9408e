use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;

use moorline_addresses::{AddressFlags, Lifetimes};

use super::*;

fn address(text: &str, flags: AddressFlags, valid: u32) -> UplinkAddress {
    let lifetimes = Lifetimes { preferred: valid, valid };
    UplinkAddress::new(text.parse().expect("an address"), 64, flags, lifetimes)
}

fn uplink(ifindex: u32, addresses: &[UplinkAddress]) -> Uplink {
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let reached = Uplink::new(ifindex, format!("isp{ifindex}")).reached(router, []);
    Uplink { addresses: addresses.to_vec(), ..reached }
}

fn view(uplinks: &[Uplink]) -> HostView {
    HostView { uplinks: uplinks.to_vec(), ..HostView::default() }
}

fn told(state: &LocalState) -> Vec<(String, u16, u16)> {
    let locators = state.locators.iter();
    locators.map(|own| (own.l64.to_string(), own.preference, own.lifetime)).collect()
}

fn rule(place: Place, preference: Preference) -> LocatorRule {
    LocatorRule { place, preference }
}

const FINE: AddressFlags = AddressFlags::PERMANENT;

//= rfc6740#3.1-1 rfc6740#3.1-2 rfc6740#3.1.1-2 rfc6740#3.2-1 rfc6740#3.4-1 (test)
#[test]
fn prefixes_are_locators_and_interface_identifiers_are_identifiers() {
    let lasting = address("2001:db8:1::a", FINE, u32::MAX);
    let soon = address("2001:db8:2::b", AddressFlags(0), 600);
    let view = view(&[uplink(1, &[lasting]), uplink(2, &[soon])]);
    let known = BTreeSet::from([Nid(0xcc)]);
    let (node, state) = node(&Seen {
        view: &view,
        attached: None,
        known: &known,
        rules: &[],
        routes: &LocalRoutes::default(),
        failing: &BTreeSet::new(),
        before: &BTreeMap::new(),
    });
    assert_eq!(state.nids, [Nid(0xa), Nid(0xb), Nid(0xcc)]);
    assert_eq!(node.nids, state.nids.iter().copied().collect());
    let expected = [
        ("2001:0db8:0001:0000".to_owned(), 100, 3600),
        ("2001:0db8:0002:0000".to_owned(), 100, 600),
    ];
    assert_eq!(told(&state), expected);
    assert_eq!(node.uplinks.into_values().collect::<Vec<_>>(), [1, 2]);
}

/// DHCPv6 gives the host one address of the second ISP.
#[test]
fn an_address_without_its_prefix_is_neither_locator_nor_identifier() {
    let single = UplinkAddress { prefix_len: 128, ..address("2001:db8:2::b", FINE, u32::MAX) };
    let shared = UplinkAddress { prefix_len: 65, ..address("2001:db8:3::c", FINE, u32::MAX) };
    let addresses = [address("2001:db8:1::a", FINE, u32::MAX), single, shared];
    let (node, state) = node(&Seen {
        view: &view(&[uplink(1, &addresses[..1]), uplink(2, &addresses[1..])]),
        attached: None,
        known: &BTreeSet::new(),
        rules: &[],
        routes: &LocalRoutes::default(),
        failing: &BTreeSet::new(),
        before: &BTreeMap::new(),
    });
    assert_eq!(state.nids, [Nid(0xa)]);
    assert_eq!(told(&state), [("2001:0db8:0001:0000".to_owned(), 100, 3600)]);
    assert_eq!(node.uplinks.into_values().collect::<Vec<_>>(), [1]);
}

//= rfc6740#3.1.2-2 (test)
#[test]
fn what_cannot_be_used_is_no_locator_and_what_is_going_comes_last() {
    let gone = Uplink { carrier: false, ..uplink(1, &[address("2001:db8:1::a", FINE, 60)]) };
    let last = uplink(4, &[address("2001:db8:5::a", AddressFlags::DEPRECATED, 60)]);
    let going = address("2001:db8:2::a", AddressFlags::DEPRECATED, 60);
    let new = address("2001:db8:3::a", AddressFlags::TENTATIVE, 60);
    let without_programs = uplink(3, &[address("2001:db8:4::a", FINE, 60)]);
    let link = |ifindex, own| Uplink {
        default_routes: Vec::new(),
        ..uplink(ifindex, &[address(own, FINE, 60)])
    };
    let view = HostView {
        candidates: vec![last],
        bare: vec![link(5, "2001:db8:6::a"), link(6, "2001:db8:7::a")],
        in_use: ["2001:db8:6::5".parse().expect("an address")].into(),
        ..view(&[gone, uplink(2, &[going, new]), without_programs])
    };
    let (attached, known) = (BTreeSet::from([1, 2, 4, 5, 6]), BTreeSet::new());
    let seen = Seen {
        view: &view,
        attached: Some(&attached),
        known: &known,
        rules: &[],
        routes: &LocalRoutes::default(),
        failing: &BTreeSet::new(),
        before: &BTreeMap::new(),
    };
    let (_, state) = node(&seen);
    let expected = ["2001:0db8:0002:0000", "2001:0db8:0005:0000", "2001:0db8:0006:0000"];
    assert_eq!(told(&state), expected.map(|l64| (l64.to_owned(), 1100, 60)));
    assert_eq!(state.nids, [Nid(0xa)]);
}

#[test]
fn rules_about_paths_say_which_locators_are_better() {
    let one = uplink(1, &[address("2001:db8:1::a", FINE, 60)]);
    let two = uplink(2, &[address("2001:db8:2::a", FINE, 60)]);
    let view = view(&[one, two]);
    let preferences = |rules: &[LocatorRule]| {
        let known = BTreeSet::new();
        let (_, state) = node(&Seen {
            view: &view,
            attached: None,
            known: &known,
            rules,
            routes: &LocalRoutes::default(),
            failing: &BTreeSet::new(),
            before: &BTreeMap::new(),
        });
        told(&state).into_iter().map(|told| told.1).collect::<Vec<_>>()
    };
    let named = |name: &str| Place::Uplink(name.to_owned());
    let within =
        |text: &str, length| Place::Prefix(Prefix::new(text.parse().expect("an address"), length));
    let rules = [
        rule(named("isp1"), Preference::Avoid),
        rule(within("2001:db8:2::", 64), Preference::Prefer),
    ];
    assert_eq!(preferences(&rules), [200, 50]);
    // The narrowest rule counts, wherever it is in the list. Of equally narrow rules the first counts.
    let rules = [
        rule(within("2001:db8::", 32), Preference::Avoid),
        rule(named("isp1"), Preference::Prefer),
        rule(within("2001:db8:1::", 64), Preference::Avoid),
        rule(named("isp2"), Preference::Prefer),
        rule(within("2001:db8:2::a", 128), Preference::Neutral),
    ];
    assert_eq!(preferences(&rules), [50, 100]);
}

#[test]
fn each_identifier_with_sessions_has_an_address_at_each_locator() {
    let (nids, own) = (BTreeSet::from([Nid(0xa)]), "2001:db8:1::a");
    let two =
        [uplink(1, &[address(own, FINE, 60)]), uplink(2, &[address("2001:db8:2::b", FINE, 60)])];
    let mut addresses = SessionAddresses::default();
    let mut seen = view(&two);
    addresses.leave_out(&mut seen);
    let of = |view: &HostView| {
        node(&Seen {
            view,
            attached: None,
            known: &nids,
            rules: &[],
            routes: &LocalRoutes::default(),
            failing: &BTreeSet::new(),
            before: &BTreeMap::new(),
        })
        .0
    };
    let made = SessionAddress { ifindex: 2, address: "2001:db8:2::a".parse().expect("an address") };
    // The host has the address at its first locator anyway.
    assert_eq!(addresses.follow(&of(&seen), &nids), (vec![made], vec![]));
    assert!(addresses.has(made.address));
    // The kernel reports the address for sessions, and the view does not show it.
    let mut told = view(&two);
    let flags = AddressFlags::DEPRECATED;
    let forever = Lifetimes { preferred: 0, valid: u32::MAX };
    told.uplinks[1].addresses.push(UplinkAddress::new(made.address, 128, flags, forever));
    addresses.leave_out(&mut told);
    assert_eq!(told, seen);
    assert_eq!(addresses.follow(&of(&told), &nids), (vec![], vec![]));
    // The prefix of the address is back, and the host has the address itself.
    let mut back = addresses.clone();
    let mut own_again = view(&two);
    own_again.uplinks[1].addresses.push(address("2001:db8:2::a", FINE, 60));
    let before = own_again.clone();
    back.leave_out(&mut own_again);
    assert_eq!((&own_again, back.has(made.address)), (&before, false));
    assert_eq!(back.follow(&of(&own_again), &nids), (vec![], vec![]));
    // Another program removes the address.
    addresses.leave_out(&mut seen);
    assert_eq!(addresses.follow(&of(&seen), &nids), (vec![made], vec![]));
    addresses.on_not_added(made);
    assert_eq!(addresses.follow(&of(&seen), &nids), (vec![made], vec![]));
    // The session ends.
    assert_eq!(addresses.follow(&of(&seen), &BTreeSet::new()), (vec![], vec![made]));
    assert!(!addresses.has(made.address));
}

#[test]
fn a_locator_that_another_link_has_as_well_stays_where_it_was_unless_that_carries_nothing() {
    let twice = ["2001:db8:1::a", "2001:db8:2::c"].map(|text| address(text, FINE, 60));
    let view = view(&[uplink(1, &twice), uplink(2, &[address("2001:db8:2::b", FINE, 60)])]);
    let l64 = Ilv::of("2001:db8:2::".parse().expect("an address")).l64;
    let place = |before: u32, failing: &[u32]| {
        let (node, _) = node(&Seen {
            view: &view,
            attached: None,
            known: &BTreeSet::new(),
            rules: &[],
            routes: &LocalRoutes::default(),
            failing: &failing.iter().copied().collect(),
            before: &BTreeMap::from([(l64, before)]),
        });
        node.uplinks[&l64]
    };
    assert_eq!([place(1, &[]), place(2, &[])], [1, 2]);
    assert_eq!([place(2, &[2]), place(1, &[1])], [1, 2]);
}

/// A stranger on the first link advertises 40 prefixes, some of them before those of the ISPs in the order of numbers. The
/// daemon begins after that, and one ISP has given its addresses before the other.
#[test]
fn the_oldest_locator_of_each_uplink_comes_before_those_that_a_stranger_advertises() {
    let made = |text: &str, created| UplinkAddress { created, ..address(text, FINE, u32::MAX) };
    let own = [made("2001:db8:8::a", 2_000), made("2001:db8:9::a", 9_000)];
    // A temporary address is younger than its prefix.
    let temporary = made("2001:db8:8::b", 8_000);
    let others = (0..40).map(|n| made(&format!("2001:db8:{n:x}00::a"), 3_000 + n));
    let mut first: Vec<_> = others.chain([own[0], temporary]).collect();
    first.sort_by_key(|own| own.address);
    first.rotate_left(3);
    let (node, state) = node(&Seen {
        view: &view(&[uplink(1, &first), uplink(2, &own[1..])]),
        attached: None,
        known: &BTreeSet::new(),
        rules: &[],
        routes: &LocalRoutes::default(),
        failing: &BTreeSet::new(),
        before: &BTreeMap::new(),
    });
    let first: Vec<_> = state.locators.iter().map(|one| one.l64.to_string()).take(3).collect();
    assert_eq!(first, ["2001:0db8:0008:0000", "2001:0db8:0009:0000", "2001:0db8:0000:0000"]);
    assert_eq!((state.locators.len(), node.uplinks.len()), (42, 42));
}
