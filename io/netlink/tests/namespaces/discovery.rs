use crate::harness::{Host, address, index, ip, on_host};
use moorline_addresses::{AddressFlags, HostView};

fn names(view: &HostView) -> Vec<&str> {
    view.uplinks.iter().map(|uplink| uplink.name.as_str()).collect()
}

#[test]
fn interfaces_with_a_global_address_and_a_default_route_are_uplinks() {
    on_host(async |host: Host| {
        let view = host.netlink().view().await.unwrap();
        assert_eq!(names(&view), ["up1", "up2"]);
        let up2 = view.uplink(index(&view, "up2")).unwrap();
        assert!(up2.carrier);
        assert_eq!(up2.mtu, 1500);
        assert_eq!(up2.gateway, Some(address("fe80::2")));
        assert_eq!(up2.default_routes.len(), 1);
        assert_eq!(up2.default_routes[0].metric, 1022);
        let [only] = up2.addresses[..] else { panic!("{:?}", up2.addresses) };
        assert_eq!((only.address, only.prefix_len), (address("2001:db8:2::1"), 64));
        assert!(only.preferred && only.flags.contains(AddressFlags::PERMANENT));
        assert_eq!((only.lifetimes.preferred, only.lifetimes.valid), (u32::MAX, u32::MAX));
        assert_eq!(view.uplink_of(address("2001:db8:1::1")).unwrap().name, "up1");
        assert_eq!(view.uplink_of(address("2001:db8:1::2")), None);
    });
}

#[test]
fn without_a_default_route_or_a_usable_address_it_is_none() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        ip("-6 route del default dev up1");
        assert_eq!(names(&netlink.view().await.unwrap()), ["up2"]);
        // A default route outside the main table does not count, nor does one that leads nowhere.
        ip("-6 route add default via fe80::1 dev up1 table 77");
        ip("-6 route add unreachable default metric 4000");
        assert_eq!(names(&netlink.view().await.unwrap()), ["up2"]);
        // A socket can still send from a deprecated address (RFC 4862 s5.5.4).
        ip("-6 addr change 2001:db8:2::1/64 dev up2 preferred_lft 0");
        assert_eq!(names(&netlink.view().await.unwrap()), ["up2"]);
        ip("-6 addr del 2001:db8:2::1/64 dev up2");
        assert_eq!(names(&netlink.view().await.unwrap()), [""; 0]);
    });
}

#[test]
fn an_address_under_duplicate_detection_does_not_make_an_uplink() {
    on_host(async |host: Host| {
        std::fs::write("/proc/sys/net/ipv6/conf/up1/accept_dad", "1").unwrap();
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        ip("-6 addr add 2001:db8:1::9/64 dev up1");
        assert_eq!(names(&host.netlink().view().await.unwrap()), ["up2"]);
    });
}

#[test]
fn both_interfaces_of_a_multipath_default_route_are_uplinks() {
    on_host(async |host: Host| {
        ip("-6 route del default dev up1");
        ip("-6 route del default dev up2");
        ip("-6 route add default nexthop via fe80::1 dev up1 nexthop via fe80::2 dev up2");
        let view = host.netlink().view().await.unwrap();
        assert_eq!(names(&view), ["up1", "up2"]);
        assert_eq!(view.uplinks[0].gateway, Some(address("fe80::1")));
        assert_eq!(view.uplinks[1].gateway, Some(address("fe80::2")));
    });
}

#[test]
fn local_addresses_count_where_there_is_a_default_route() {
    on_host(async |host: Host| {
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        ip("-6 addr add fd00:1::1/64 dev up1 nodad");
        ip("-6 addr add fd00:2::1/64 dev far1 nodad");
        let view = host.netlink().view().await.unwrap();
        assert_eq!(names(&view), ["up1", "up2"]);
        assert_eq!(view.uplinks[0].addresses[0].address, address("fd00:1::1"));
    });
}

#[test]
fn no_carrier_leaves_an_uplink_in_view_and_down_does_not() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        ip("link set far1 down");
        let view = netlink.view().await.unwrap();
        assert_eq!(names(&view), ["up1", "up2"]);
        assert!(!view.uplinks[0].carrier && view.uplinks[1].carrier);
        ip("link set up1 down");
        assert_eq!(names(&netlink.view().await.unwrap()), ["up2"]);
    });
}

#[test]
fn a_default_route_without_a_gateway_is_one() {
    on_host(async |host: Host| {
        ip("-6 route del default dev up1");
        ip("-6 route add default dev up1");
        let view = host.netlink().view().await.unwrap();
        assert_eq!(names(&view), ["up1", "up2"]);
        assert_eq!(view.uplinks[0].gateway, None);
    });
}
