use super::*;
use crate::view::tests::uplink;

fn interfaces(uplinks: &[&Uplink]) -> Interfaces {
    let all = uplinks.iter().map(|uplink| (uplink.ifindex, (*uplink).clone())).collect();
    Interfaces { all, ..Interfaces::default() }
}

fn changes(old: &[&Uplink], new: &[&Uplink]) -> Vec<Change> {
    interfaces(new).changes_since(&interfaces(old))
}

#[test]
fn nothing_changed_is_no_change() {
    let one = uplink(3, &["2001:db8:1::1/64"]);
    assert_eq!(changes(&[&one], &[&one]), []);
}

#[test]
fn an_interface_that_is_no_uplink_before_and_after_is_not_told() {
    let mut inner = uplink(3, &["2001:db8:1::1/64"]);
    inner.default_routes.clear();
    let mut dead = inner.clone();
    dead.carrier = false;
    assert_eq!(changes(&[&inner], &[&dead]), []);
    assert_eq!(changes(&[&inner], &[]), []);
}

#[test]
fn an_uplink_that_comes_is_told_as_one() {
    let one = uplink(3, &["2001:db8:1::1/64"]);
    assert_eq!(changes(&[], &[&one]), [Change::UplinkAdded { ifindex: 3 }]);
}

#[test]
fn an_uplink_is_one_while_its_addresses_are_deprecated() {
    let one = uplink(3, &["2001:db8:1::1/64"]);
    let mut old = one.clone();
    old.addresses[0].flags = AddressFlags::DEPRECATED;
    old.addresses[0].preferred = false;
    let address = one.addresses[0].address;
    let deprecated = Change::AddressPreference { ifindex: 3, address, preferred: false };
    assert_eq!(changes(&[&one], &[&old]), [deprecated]);
    old.addresses[0].flags = AddressFlags::TENTATIVE;
    assert!(changes(&[&one], &[&old]).contains(&Change::UplinkLost { ifindex: 3 }));
}

#[test]
fn an_uplink_that_vanishes_loses_everything() {
    let one = uplink(3, &["2001:db8:1::1/64"]);
    let address = one.addresses[0].address;
    assert_eq!(
        changes(&[&one], &[]),
        [
            Change::CarrierLost { ifindex: 3 },
            Change::DefaultRouteLost { ifindex: 3 },
            Change::AddressRemoved { ifindex: 3, address },
            Change::UplinkLost { ifindex: 3 },
        ]
    );
}

#[test]
fn bad_news_come_first() {
    let (one, two) = (uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"]));
    let mut better = one.clone();
    better.mtu = 9000;
    let mut worse = two.clone();
    worse.carrier = false;
    assert_eq!(
        changes(&[&one, &two], &[&better, &worse]),
        [Change::CarrierLost { ifindex: 4 }, Change::MtuChanged { ifindex: 3, mtu: 9000 }]
    );
}

#[test]
fn an_address_that_others_replace_is_removed_and_added() {
    let old = uplink(3, &["2001:db8:1::1/64"]);
    let new = uplink(3, &["2001:db8:2::1/64"]);
    assert_eq!(
        changes(&[&old], &[&new]),
        [
            Change::AddressRemoved { ifindex: 3, address: old.addresses[0].address },
            Change::AddressAdded { ifindex: 3, address: new.addresses[0] },
        ]
    );
}

#[test]
fn an_address_is_usable_or_no_longer() {
    let mut old = uplink(3, &["2001:db8:1::1/64", "2001:db8:1::2/64"]);
    let mut new = old.clone();
    old.addresses[0].preferred = false;
    new.addresses[1].preferred = false;
    let told = |at: usize, preferred| Change::AddressPreference {
        ifindex: 3,
        address: new.addresses[at].address,
        preferred,
    };
    assert_eq!(changes(&[&old], &[&new]), [told(1, false), told(0, true)]);
}

#[test]
fn another_router_and_a_second_one() {
    let old = uplink(3, &["2001:db8:1::1/64"]);
    let mut new = old.clone();
    new.default_routes[0].gateway = None;
    assert_eq!(changes(&[&old], &[&new]), [Change::GatewayChanged { ifindex: 3, gateway: None }]);
    let mut second = old.clone();
    second.default_routes.push(DefaultRoute { metric: 9000, ..old.default_routes[0] });
    let gateway = old.gateway;
    assert_eq!(changes(&[&old], &[&second]), [Change::GatewayChanged { ifindex: 3, gateway }]);
}

#[test]
fn an_uplink_whose_lifetimes_run_is_not_told() {
    let old = uplink(3, &["2001:db8:1::1/64"]);
    let mut new = old.clone();
    new.addresses[0].lifetimes.valid = 5;
    assert_eq!(changes(&[&old], &[&new]), []);
}

#[test]
fn a_duplicate_is_told_once_whether_the_address_is_new_or_was_there() {
    let without = uplink(3, &["2001:db8:1::1/64"]);
    let mut tentative = uplink(3, &["2001:db8:1::1/64", "2001:db8:1::2/64"]);
    tentative.addresses[1].preferred = false;
    let mut duplicate = tentative.clone();
    duplicate.addresses[1].flags = AddressFlags::DAD_FAILED;
    let address = duplicate.addresses[1];
    let told = Change::AddressDuplicate { ifindex: 3, address: address.address };
    assert_eq!(changes(&[&tentative], &[&duplicate]), std::slice::from_ref(&told));
    let added = Change::AddressAdded { ifindex: 3, address };
    assert_eq!(changes(&[&without], &[&duplicate]), [told, added]);
    assert_eq!(changes(&[&duplicate], &[&duplicate]), []);
}
