use crate::harness::{Host, add_moved, address, index, ip, next, on_host};
use moorline_addresses::{AddressFlags, MovedRoute};
use moorline_netlink::{AddressSpec, Change, ChangeKind, is_deaf};
use moorline_types::{Ulid, UlidPair};
use std::collections::BTreeSet;
use std::fs;

//= rfc5534#3.2-2 (test)
#[test]
fn carrier_lost_and_back() {
    on_host(async |host: Host| {
        let mut monitor = host.netlink().monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        ip("link set far1 down");
        let notice = next(&mut monitor).await;
        assert_eq!(notice.changes, [Change { ifindex, kind: ChangeKind::CarrierLost }]);
        assert!(!notice.view.uplink(ifindex).unwrap().carrier);
        assert!(!notice.resynced);
        ip("link set far1 up");
        assert_eq!(
            next(&mut monitor).await.changes,
            [Change { ifindex, kind: ChangeKind::CarrierBack }]
        );
    });
}

//= rfc5534#3.1-1 (test)
#[test]
fn address_removed_and_another_added() {
    on_host(async |host: Host| {
        ip("-6 addr add 2001:db8:1::2/64 dev up1 nodad");
        let mut monitor = host.netlink().monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        let removed =
            Change { ifindex, kind: ChangeKind::AddressRemoved(address("2001:db8:1::1")) };
        assert_eq!(next(&mut monitor).await.changes, [removed]);
        ip("-6 addr add 2001:db8:1::3/64 dev up1 nodad");
        let notice = next(&mut monitor).await;
        let [Change { ifindex: at, kind: ChangeKind::AddressAdded(added) }] = notice.changes[..]
        else {
            panic!("{:?}", notice.changes);
        };
        assert_eq!((at, added.address, added.preferred), (ifindex, address("2001:db8:1::3"), true));
    });
}

/// Before duplicate address detection is over, the kernel gives no notice of an optimistic address.
#[test]
fn an_optimistic_address_of_ours_is_told_of_while_duplicates_are_looked_for() {
    on_host(async |host: Host| {
        for (control, value) in [("accept_dad", "1"), ("dad_transmits", "5")] {
            fs::write(format!("/proc/sys/net/ipv6/conf/up1/{control}"), value).unwrap();
        }
        let netlink = host.netlink();
        let mut monitor = netlink.monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        let new = address("2001:db8:1::7");
        let spec = AddressSpec { optimistic: true, ..AddressSpec::new(new, 64) };
        netlink.add_address_with(ifindex, spec).await.unwrap();
        let view = next(&mut monitor).await.view;
        let addresses = &view.uplink(ifindex).unwrap().addresses;
        let own = addresses.iter().find(|own| own.address == new).expect("the address");
        let in_doubt = AddressFlags(AddressFlags::TENTATIVE.0 | AddressFlags::OPTIMISTIC.0);
        assert!(own.flags.contains(in_doubt) && own.flags.is_preferred(), "{:?}", own.flags);
    });
}

//= rfc5534#3.1-1 (test)
#[test]
fn deprecated_address() {
    on_host(async |host: Host| {
        let mut monitor = host.netlink().monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up2");
        ip("-6 addr add 2001:db8:2::2/64 dev up2 nodad");
        next(&mut monitor).await;
        ip("-6 addr change 2001:db8:2::1/64 dev up2 preferred_lft 0");
        let address = address("2001:db8:2::1");
        let view = next(&mut monitor).await.view;
        let addresses = &view.uplink(ifindex).unwrap().addresses;
        let own = addresses.iter().find(|own| own.address == address).expect("the address");
        assert!(!own.preferred && own.flags.contains(AddressFlags::DEPRECATED), "{:?}", own.flags);
    });
}

#[test]
fn default_route_lost_and_back() {
    on_host(async |host: Host| {
        let mut monitor = host.netlink().monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        ip("-6 route del default dev up1");
        let notice = next(&mut monitor).await;
        let lost = [
            Change { ifindex, kind: ChangeKind::DefaultRouteLost },
            Change { ifindex, kind: ChangeKind::UplinkLost },
        ];
        assert_eq!(notice.changes, lost);
        assert_eq!(notice.view.uplinks.len(), 1);
        ip("-6 route add default via fe80::1 dev up1 metric 1021");
        assert_eq!(
            next(&mut monitor).await.changes,
            [Change { ifindex, kind: ChangeKind::UplinkAdded }]
        );
    });
}

#[test]
fn an_interface_that_goes_tells_all_that_goes_with_it() {
    on_host(async |host: Host| {
        let mut monitor = host.netlink().monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        ip("link del up1");
        let mut changes = Vec::new();
        // The burst may be split into two notices.
        while !changes.contains(&Change { ifindex, kind: ChangeKind::UplinkLost }) {
            changes.extend(next(&mut monitor).await.changes);
        }
        let address = address("2001:db8:1::1");
        assert!(
            changes.contains(&Change { ifindex, kind: ChangeKind::CarrierLost }),
            "{changes:?}"
        );
        assert!(
            changes.contains(&Change { ifindex, kind: ChangeKind::AddressRemoved(address) }),
            "{changes:?}"
        );
        assert!(
            changes.contains(&Change { ifindex, kind: ChangeKind::DefaultRouteLost }),
            "{changes:?}"
        );
    });
}

#[test]
fn a_burst_larger_than_the_socket_ends_in_the_right_view() {
    on_host(async |host: Host| {
        let mut monitor = host.netlink().monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        // On this runtime the monitor cannot run in the meantime, so the queue of the kernel overflows.
        let batch = host.folder.path().join("batch");
        let line = |i: u32, verb: &str| format!("route {verb} 2001:db8:ffff:{i:x}::/64 dev up2\n");
        let lines: String = (0..4000).map(|i| line(i, "add") + &line(i, "del")).collect();
        fs::write(&batch, lines).unwrap();
        ip(&format!("-6 -batch {}", batch.display()));
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        let notice = next(&mut monitor).await;
        assert!(notice.resynced);
        let removed =
            Change { ifindex, kind: ChangeKind::AddressRemoved(address("2001:db8:1::1")) };
        assert!(notice.changes.contains(&removed), "{:?}", notice.changes);
    });
}

#[test]
fn no_notice_is_lost_to_thousands_of_routes_of_our_own() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let mut monitor = netlink.monitor().await.unwrap();
        let ifindex = index(monitor.view(), "up1");
        let ours = Ulid(address("2001:db8:1::1"));
        let moved = |number: u16| MovedRoute {
            ulids: UlidPair::new(ours, Ulid(address(&format!("2001:db8:ffff::{number:x}")))),
            mtu: 1400,
            bare_tcp_mtu: None,
            direct: None,
            own: None,
        };
        // On this runtime the monitor cannot run in the meantime.
        let routes: Vec<_> = (1..4000).map(moved).collect();
        netlink.add_all_moved(&routes).await.unwrap();
        netlink.remove_moved(&routes).await.unwrap();
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        let notice = next(&mut monitor).await;
        assert!(!notice.resynced);
        let removed =
            Change { ifindex, kind: ChangeKind::AddressRemoved(address("2001:db8:1::1")) };
        assert!(notice.changes.contains(&removed), "{:?}", notice.changes);
    });
}

#[test]
fn our_own_routes_and_links_are_not_told_but_our_addresses_are() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let mut monitor = netlink.monitor().await.unwrap();
        let view = monitor.view().clone();
        let pair = UlidPair::new(Ulid(address("2001:db8:1::1")), Ulid(address("2001:db8:9::9")));
        netlink.ensure_moor().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        add_moved(&netlink, pair, 1492).await;
        let direct = view.uplinks[0].next_hop(address("2001:db8:1::1"));
        let moved = MovedRoute { ulids: pair, mtu: 1492, bare_tcp_mtu: None, direct, own: None };
        netlink.lead_directly(&[moved]).await.unwrap();
        assert!(netlink.lead_by_moor(&[moved]).await.unwrap());
        netlink.keep_ulid(Ulid(address("2001:db8:5::1"))).await.unwrap();
        let ifindex = index(&view, "up2");
        let own = address("2001:db8:2::77");
        let spec = AddressSpec { detect_duplicates: false, ..AddressSpec::new(own, 64) };
        netlink.add_address_with(ifindex, spec).await.unwrap();
        let notice = next(&mut monitor).await;
        let [Change { ifindex: at, kind: ChangeKind::AddressAdded(added) }] = notice.changes[..]
        else {
            panic!("{:?}", notice.changes);
        };
        assert_eq!((at, added.address), (ifindex, own));
        assert!(notice.routes_taken.is_empty());
    });
}

#[test]
fn an_interface_that_has_lost_its_default_route_is_bare_until_it_has_another() {
    on_host(async |host: Host| {
        let mut monitor = host.netlink().monitor().await.unwrap();
        let view = monitor.view();
        let (ifindex, before) = (index(view, "up2"), view.bare.clone());
        assert!(before.iter().all(|one| one.ifindex != ifindex));
        ip("-6 route del default dev up2");
        let view = next(&mut monitor).await.view;
        let bare = view.bare.iter().find(|one| one.ifindex == ifindex).unwrap();
        assert!(
            !is_deaf(ifindex) && bare.link_locals.iter().all(|own| own.is_unicast_link_local())
        );
        for control in ["forwarding", "accept_ra"] {
            fs::write(format!("/proc/sys/net/ipv6/conf/up2/{control}"), "1").unwrap();
        }
        assert!(is_deaf(ifindex));
        ip("-6 route add default via fe80::2 dev up2 metric 1022");
        assert_eq!(next(&mut monitor).await.view.bare, before);
    });
}

#[test]
fn an_interface_that_was_down_for_a_moment_has_lost_our_routes() {
    on_host(async |host: Host| {
        fs::write("/proc/sys/net/ipv6/conf/up2/keep_addr_on_down", "1").unwrap();
        let netlink = host.netlink();
        let mut monitor = netlink.monitor().await.unwrap();
        let view = monitor.view().clone();
        netlink.ensure_rules(&view).await.unwrap();
        // On this runtime the monitor cannot run in the meantime.
        let batch = host.folder.path().join("batch");
        let again = "route add default via fe80::2 dev up2 metric 1022";
        fs::write(&batch, format!("link set up2 down\nlink set up2 up\n{again}\n")).unwrap();
        ip(&format!("-6 -batch {}", batch.display()));
        let notice = next(&mut monitor).await;
        assert_eq!(notice.routes_taken, BTreeSet::from([index(&view, "up2")]));
        assert_eq!((notice.view, notice.changes), (view.clone(), vec![]));
        assert!(netlink.ensure_rules(&view).await.unwrap().is_changed, "the way out of a prefix");
    });
}

/// A person flushes an interface and makes it a port: the default route of its router stays for half an hour.
#[test]
fn a_port_of_a_bridge_is_no_candidate() {
    on_host(async |host: Host| {
        ip("link add br0 type bridge");
        let netlink = host.netlink();
        ip("-6 addr flush dev up1 scope global");
        let view = netlink.view().await.unwrap();
        assert!(view.candidates.iter().any(|one| one.name == "up1"));
        ip("link set up1 master br0");
        assert!(ip("-6 route show default").contains("dev up1"));
        assert!(netlink.view().await.unwrap().candidates.is_empty());
        ip("link set up1 nomaster");
        assert_eq!(netlink.view().await.unwrap().candidates, view.candidates);
    });
}
