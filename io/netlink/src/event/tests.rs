use super::*;
use crate::view::tests::uplink;
use moorline_addresses::AddressFlags;

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
    assert_eq!(changes(&[], &[&one]), [Change { ifindex: 3, kind: ChangeKind::UplinkAdded }]);
}

#[test]
fn an_uplink_is_one_while_its_addresses_are_deprecated() {
    let one = uplink(3, &["2001:db8:1::1/64"]);
    let mut old = one.clone();
    old.addresses[0].flags = AddressFlags::DEPRECATED;
    old.addresses[0].preferred = false;
    assert_eq!(changes(&[&one], &[&old]), []);
    old.addresses[0].flags = AddressFlags::TENTATIVE;
    assert!(
        changes(&[&one], &[&old]).contains(&Change { ifindex: 3, kind: ChangeKind::UplinkLost })
    );
}

#[test]
fn an_uplink_that_vanishes_loses_everything() {
    let one = uplink(3, &["2001:db8:1::1/64"]);
    let address = one.addresses[0].address;
    assert_eq!(
        changes(&[&one], &[]),
        [
            Change { ifindex: 3, kind: ChangeKind::CarrierLost },
            Change { ifindex: 3, kind: ChangeKind::DefaultRouteLost },
            Change { ifindex: 3, kind: ChangeKind::AddressRemoved(address) },
            Change { ifindex: 3, kind: ChangeKind::UplinkLost },
        ]
    );
}

#[test]
fn bad_news_come_first() {
    let (one, two) = (uplink(3, &["2001:db8:1::1/64"]), uplink(4, &["2001:db8:2::1/64"]));
    let better = uplink(3, &["2001:db8:1::1/64", "2001:db8:1::2/64"]);
    let mut worse = two.clone();
    worse.carrier = false;
    assert_eq!(
        changes(&[&one, &two], &[&better, &worse]),
        [
            Change { ifindex: 4, kind: ChangeKind::CarrierLost },
            Change { ifindex: 3, kind: ChangeKind::AddressAdded(better.addresses[1]) }
        ]
    );
}

#[test]
fn an_address_that_others_replace_is_removed_and_added() {
    let old = uplink(3, &["2001:db8:1::1/64"]);
    let new = uplink(3, &["2001:db8:2::1/64"]);
    assert_eq!(
        changes(&[&old], &[&new]),
        [
            Change { ifindex: 3, kind: ChangeKind::AddressRemoved(old.addresses[0].address) },
            Change { ifindex: 3, kind: ChangeKind::AddressAdded(new.addresses[0]) },
        ]
    );
}

#[test]
fn what_only_the_view_shows_is_not_told() {
    let old = uplink(3, &["2001:db8:1::1/64", "2001:db8:1::2/64"]);
    let mut new = old.clone();
    new.mtu = 9000;
    new.default_routes[0].gateway = None;
    new.addresses[0].lifetimes.valid = 5;
    new.addresses[0].preferred = false;
    new.addresses[1].flags = AddressFlags::DAD_FAILED;
    assert_eq!(changes(&[&old], &[&new]), []);
}
