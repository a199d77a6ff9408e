use super::*;
use alloc::vec;

pub(crate) fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix::new(address.parse().unwrap(), length.parse().unwrap())
}

/// An uplink behind fe80::<ifindex>, with these addresses in use.
fn uplink(ifindex: u32, addresses: &[&str]) -> Uplink {
    let gateway = Some(format!("fe80::{ifindex}").parse().unwrap());
    let address = |text: &&str| {
        let (address, length) = text.split_once('/').unwrap();
        let (address, length) = (address.parse().unwrap(), length.parse().unwrap());
        UplinkAddress::new(address, length, AddressFlags::PERMANENT, Lifetimes::FOREVER)
    };
    Uplink {
        gateway,
        default_routes: vec![DefaultRoute::new(1024, gateway)],
        addresses: addresses.iter().map(address).collect(),
        ..Uplink::new(ifindex, format!("up{ifindex}"))
    }
}

#[test]
fn an_address_in_doubt_is_not_preferred_unless_it_is_optimistic() {
    assert!(AddressFlags::PERMANENT.is_preferred());
    assert!(!AddressFlags::TENTATIVE.is_preferred());
    assert!(!AddressFlags::DEPRECATED.is_preferred());
    assert!(!AddressFlags::DAD_FAILED.is_preferred());
    let optimistic = AddressFlags(AddressFlags::TENTATIVE.0 | AddressFlags::OPTIMISTIC.0);
    assert!(optimistic.is_preferred());
    let failed = AddressFlags(optimistic.0 | AddressFlags::DAD_FAILED.0);
    assert!(!failed.is_preferred());
}

#[test]
fn a_default_route_for_the_source_comes_before_the_general_one() {
    let mut both = uplink(1, &["2001:db8:1::1/64", "2001:db8:2::1/64"]);
    let gateway = Some("fe80::99".parse().unwrap());
    let source = Some(prefix("2001:db8:2::/48"));
    let special = DefaultRoute { source, ..DefaultRoute::new(2000, gateway) };
    both.default_routes.push(special);
    assert_eq!(both.gateway_for(prefix("2001:db8:2::/64")), Some(&special));
    assert_eq!(both.gateway_for(prefix("2001:db8:1::/64")).unwrap().gateway, both.gateway);
    both.default_routes.remove(0);
    assert_eq!(both.gateway_for(prefix("2001:db8:1::/64")), None);
}

#[test]
fn of_two_routers_the_one_that_advertises_the_prefix_is_taken() {
    let mut both = uplink(1, &["2001:db8:1::1/64", "2001:db8:2::1/64"]);
    let other: Ipv6Addr = "fe80::99".parse().unwrap();
    both.default_routes.push(DefaultRoute::new(2000, Some(other)));
    both.advertisers.push((prefix("2001:db8:2::/64"), other));
    // The router advertises the prefix and is no default router any more.
    both.advertisers.push((prefix("2001:db8:1::/64"), "fe80::77".parse().unwrap()));
    let router = |text| both.gateway_for(prefix(text)).unwrap().gateway;
    assert_eq!(router("2001:db8:2::/64"), Some(other));
    assert_eq!(router("2001:db8:1::/64"), both.gateway);
}

#[test]
fn two_routers_that_advertise_a_prefix_are_both_for_it() {
    let mut pair = uplink(1, &["2001:db8:1::1/64"]);
    let first: Ipv6Addr = "fe80::99".parse().unwrap();
    let high = DefaultRoute { preference: 0, ..DefaultRoute::new(1024, Some(first)) };
    let stranger: Ipv6Addr = "fe80::77".parse().unwrap();
    let second = pair.gateway.unwrap();
    pair.default_routes.extend([high, DefaultRoute::new(1, Some(stranger))]);
    pair.default_routes.sort();
    let one = prefix("2001:db8:1::/64");
    pair.advertisers.extend([(one, second), (one, first)]);
    let routers: Vec<_> = pair.gateways_for(one).iter().map(|route| route.gateway).collect();
    assert_eq!(routers, [Some(first), Some(second)], "by preference, and nobody else's");
}
