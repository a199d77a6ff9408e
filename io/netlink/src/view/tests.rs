use super::*;
use moorline_addresses::AddressFlags;
use moorline_types::Prefix;

pub(crate) fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix::new(address.parse().unwrap(), length.parse().unwrap())
}

/// An uplink behind fe80::<ifindex>, with these addresses in use.
pub(crate) fn uplink(ifindex: u32, addresses: &[&str]) -> Uplink {
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
fn flags_of_an_address_are_those_of_the_kernel() {
    for (ours, kernels) in [
        (AddressFlags::DAD_FAILED, libc::IFA_F_DADFAILED),
        (AddressFlags::DEPRECATED, libc::IFA_F_DEPRECATED),
        (AddressFlags::TENTATIVE, libc::IFA_F_TENTATIVE),
        (AddressFlags::OPTIMISTIC, libc::IFA_F_OPTIMISTIC),
        (AddressFlags::TEMPORARY, libc::IFA_F_TEMPORARY),
        (AddressFlags::PERMANENT, libc::IFA_F_PERMANENT),
    ] {
        assert_eq!(ours.0, kernels);
    }
}

#[test]
fn of_too_many_default_routes_those_that_are_set_and_those_that_were_known_stay() {
    let route = |metric, number: u16| {
        DefaultRoute::new(metric, Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number)))
    };
    let few: BTreeMap<_, _> = (1..=32).map(|number| (route(1024, number), true)).collect();
    assert_eq!(at_most(few.clone(), &[]), few.into_keys().collect::<Vec<_>>());
    let flood = (1..=10_000).map(|number| (route(1024, number), true));
    let (set, known) = (route(2048, 1), route(1024, 9_999));
    let kept = at_most(flood.chain([(set, false)]).collect(), &[known]);
    assert_eq!(kept.len(), MAX_DEFAULT_ROUTES);
    assert_eq!(kept[30..], [known, set], "in the order of metrics");
    assert_eq!(kept[0], route(1024, 1));
}

/// A table that changes while the kernel lists it.
#[test]
fn a_default_route_that_the_kernel_names_again_and_again_is_one() {
    let via = |number: u16| {
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
        let row = Row::ipv6(libc::RTM_NEWROUTE)
            .at(4, [libc::RT_TABLE_MAIN, RTPROT_RA, 0, libc::RTN_UNICAST])
            .with(libc::RTA_OIF, 1_u32.to_ne_bytes())
            .with(libc::RTA_PRIORITY, 1024_u32.to_ne_bytes());
        row.with(libc::RTA_GATEWAY, gateway.octets())
    };
    let rows: Vec<_> = (0..40).map(|_| via(1)).chain([via(9)]).collect();
    let found = default_routes(&rows).remove(&1).unwrap();
    let gateways: Vec<_> = at_most(found, &[]).into_iter().map(|one| one.gateway).collect();
    assert_eq!(gateways, [1, 9].map(|last| Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last))));
}
