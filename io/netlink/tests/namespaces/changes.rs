use crate::harness::{Host, add_address, address, index, ip, on_host};
use moorline_addresses::Lifetimes;
use moorline_netlink::{AddressSpec, Error, Netlink};
use moorline_types::Ulid;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::Duration;

#[test]
fn the_pair_has_no_addresses_no_neighbours_and_sends_no_super_packets() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let links = netlink.ensure_moor().await.unwrap();
        assert!(links.gathers);
        let shown = ip("-d link show");
        for (name, ifindex) in [("moor0", links.moor0_ifindex), ("moor1", links.moor1_ifindex)] {
            let line = shown.lines().find(|line| line.contains(&format!(": {name}@"))).unwrap();
            assert!(line.starts_with(&format!("{ifindex}: ")), "{line}");
            assert!(line.contains("NOARP") && line.contains("UP,LOWER_UP"), "{line}");
            assert!(line.contains("mtu 9216"), "{line}");
            assert_eq!(ip(&format!("-6 addr show dev {name}")), "");
            let control = |name: &str, control: &str| {
                std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/{control}"))
            };
            assert_eq!(control(name, "accept_ra").unwrap(), "0\n");
            assert_eq!(control(name, "autoconf").unwrap(), "0\n");
            let Ok(features) = Command::new("ethtool").args(["-k", name]).output() else {
                eprintln!("SKIPPED offloads of moor0 and moor1: needs ethtool");
                continue;
            };
            let features = String::from_utf8(features.stdout).unwrap();
            let on = features.lines().filter(|line| {
                let aggregating = ["segmentation", "gso", "rx-gro", "large-receive-offload"];
                aggregating.iter().any(|word| line.contains(word)) && line.contains(": on")
            });
            assert_eq!(on.collect::<Vec<_>>(), [""; 0], "{name}");
            assert!(features.contains("generic-segmentation-offload: off"), "{features}");
            assert!(features.contains("tx-udp-segmentation: off"), "{features}");
            let on_or_off = |is_on: bool| if is_on { "on" } else { "off" };
            let gathers = on_or_off(name == "moor0");
            let gathers = format!("generic-receive-offload: {gathers}");
            assert!(features.contains(&gathers), "{name}: {features}");
            let sums = on_or_off(name == "moor1");
            assert!(features.contains(&format!("tx-checksumming: {sums}")), "{name}: {features}");
        }
    });
}

#[test]
fn checksums_are_left_to_uplinks_that_sum_anything() {
    on_host(async |host: Host| {
        if Command::new("ethtool").arg("--version").output().is_err() {
            eprintln!("SKIPPED checksums_are_left_to_uplinks_that_sum_anything: needs ethtool");
            return;
        }
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let is_left = || {
            let shown = Command::new("ethtool").args(["-k", "moor0"]).output().unwrap();
            String::from_utf8(shown.stdout).unwrap().contains("tx-checksum-ip-generic: on")
        };
        let sum_anything = || ["up1", "up2"].into_iter().all(Netlink::sums_anything);
        netlink.leave_checksums(sum_anything()).unwrap();
        let before = is_left();
        let off = Command::new("ethtool").args(["-K", "up2", "tx", "off"]).output().unwrap();
        assert!(off.status.success(), "{off:?}");
        netlink.leave_checksums(sum_anything()).unwrap();
        assert!(before && !is_left());
    });
}

#[test]
fn a_link_of_someone_else_is_not_touched() {
    on_host(async |host: Host| {
        ip("link add moor1 type bridge");
        let netlink = host.netlink();
        let before = ip("-d link show");
        let error = netlink.ensure_moor().await.unwrap_err();
        assert!(matches!(error, Error::Conflict(_)), "{error}");
        assert!(
            error.to_string().contains("link moor1") && error.to_string().contains("rename"),
            "{error}"
        );
        assert_eq!(ip("-d link show"), before);
    });
}

#[test]
fn half_a_pair_is_made_whole() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let first = netlink.ensure_moor().await.unwrap();
        ip("link set moor1 down");
        ip("link set moor1 name lost");
        let again = netlink.ensure_moor().await.unwrap();
        assert_ne!(first, again);
        let shown = ip("link show");
        assert!(shown.contains("moor1@moor0") && !shown.contains("lost"), "{shown}");
    });
}

/// The kernel walks all routes for each change of a link, which takes a second with a million of them.
#[test]
fn a_start_that_finds_the_pair_as_it_should_be_changes_no_link() {
    on_host(async |host: Host| {
        let first = host.netlink().ensure_moor().await.unwrap();
        for name in ["moor0", "moor1"] {
            // The kernel says so in a notice of its own.
            while !ip(&format!("link show dev {name}")).contains("state UP") {}
        }
        let mut notices = Socket::new(NETLINK_ROUTE).unwrap();
        notices.bind(&SocketAddr::new(0, RTMGRP_LINK)).unwrap();
        notices.set_non_blocking(true).unwrap();
        assert_eq!(host.netlink().ensure_moor().await.unwrap(), first);
        notices.recv_from_full().unwrap_err();

        ip("link set moor0 mtu 1500");
        ip("link set moor1 down");
        host.netlink().ensure_moor().await.unwrap();
        let shown = ip("link show");
        assert!(notices.recv_from_full().is_ok());
        assert_eq!(shown.matches("mtu 9216").count(), 2, "{shown}");
        assert_eq!(shown.matches("NOARP,UP").count(), 2, "{shown}");
    });
}

#[test]
fn a_kept_ulid_lets_its_sockets_go_on_and_is_not_chosen_for_others() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let ulid = Ulid(address("2001:db8:1::1"));
        netlink.keep_ulid(ulid).await.unwrap();
        netlink.keep_ulid(ulid).await.unwrap();
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        let shown = ip("-6 addr show dev moor0");
        assert!(shown.contains("inet6 2001:db8:1::1/128 scope global"), "{shown}");
        for flag in ["deprecated", "nodad", "noprefixroute"] {
            assert!(shown.contains(flag), "{flag}: {shown}");
        }
        assert_eq!(netlink.kept_ulids().await.unwrap(), [ulid]);
        UdpSocket::bind("[2001:db8:1::1]:0").unwrap();
        let socket = UdpSocket::bind("[::]:0").unwrap();
        socket.connect("[2001:db8:9::9]:9").unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), address("2001:db8:2::1"));

        assert!(netlink.release_ulid(ulid).await.unwrap());
        assert!(!netlink.release_ulid(ulid).await.unwrap());
        assert!(UdpSocket::bind("[2001:db8:1::1]:0").is_err());
    });
}

#[test]
fn an_address_of_ours_comes_and_goes_and_leaves_the_routes_alone() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let ifindex = index(&netlink.view().await.unwrap(), "up1");
        let before = (ip("-6 addr"), ip("-6 route show table all"));
        let own = address("2001:db8:1:0:1234::1");
        let lifetimes = Lifetimes { preferred: 100, valid: 2000 };
        let mut spec = AddressSpec::new(own, 64);
        spec.detect_duplicates = false;
        spec.lifetimes = lifetimes;
        assert!(netlink.add_address_with(ifindex, spec).await.unwrap());
        assert_eq!(ip("-6 route show"), {
            let mut main: Vec<_> = before.1.lines().filter(|l| !l.contains("table")).collect();
            main.push("");
            main.join("\n")
        });
        let view = netlink.view().await.unwrap();
        let found = view.uplinks[0].addresses.iter().find(|one| one.address == own).unwrap();
        assert!(found.preferred && found.lifetimes.valid <= 2000 && found.lifetimes.valid > 100);

        spec.lifetimes = Lifetimes { preferred: u32::MAX, valid: u32::MAX };
        assert!(netlink.add_address_with(ifindex, spec).await.unwrap());
        let view = netlink.view().await.unwrap();
        let found = view.uplinks[0].addresses.iter().find(|one| one.address == own).unwrap();
        assert_eq!(found.lifetimes, spec.lifetimes);

        assert!(netlink.remove_address(ifindex, own, 64).await.unwrap());
        assert!(!netlink.remove_address(ifindex, own, 64).await.unwrap());
        assert_eq!((ip("-6 addr"), ip("-6 route show table all")), before);
    });
}

/// The kernel keeps permanent addresses on a link that goes down, and forgets to detect duplicates of those that have got a
/// lifetime there.
#[test]
fn an_address_that_waits_for_its_link_gets_no_lifetimes_there() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let ifindex = index(&netlink.view().await.unwrap(), "up1");
        let own = address("2001:db8:1:0:1234::1");
        std::fs::write("/proc/sys/net/ipv6/conf/up1/keep_addr_on_down", "1").unwrap();
        let wait_for_detection = || {
            let is_tentative = || ip("-6 addr show dev up1 tentative").contains("1234");
            (0..1000).find(|_| {
                thread::sleep(Duration::from_millis(10));
                !is_tentative()
            })
        };
        let spec = AddressSpec::new(own, 64);
        assert!(netlink.add_address_with(ifindex, spec).await.unwrap());
        wait_for_detection().expect("no longer tentative");
        ip("link set up1 down");
        let finite = AddressSpec { lifetimes: Lifetimes { preferred: 100, valid: 200 }, ..spec };
        assert!(!netlink.set_lifetimes(ifindex, finite).await.unwrap(), "tentative");
        ip("link set up1 up");
        wait_for_detection().expect("no longer tentative");
        assert!(netlink.set_lifetimes(ifindex, finite).await.unwrap());
        assert!(netlink.remove_address(ifindex, own, 64).await.unwrap());
        assert!(!netlink.set_lifetimes(ifindex, finite).await.unwrap(), "gone");
        assert!(!ip("-6 addr show dev up1").contains("1234"));
    });
}

/// The kernel does not change the length of a prefix when it changes lifetimes.
#[test]
fn an_address_for_sessions_alone_makes_room_for_the_one_in_its_prefix_and_not_the_other_way_round()
{
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let ifindex = index(&netlink.view().await.unwrap(), "up1");
        let own = address("2001:db8:1:0:1234::1");
        let alone = AddressSpec {
            detect_duplicates: false,
            lifetimes: Lifetimes { preferred: 0, valid: u32::MAX },
            ..AddressSpec::new(own, 128)
        };
        let within = AddressSpec {
            detect_duplicates: false,
            lifetimes: Lifetimes { preferred: 100, valid: 200 },
            ..AddressSpec::new(own, 64)
        };
        let found = async || {
            let view = netlink.view().await.unwrap();
            let found = view.uplinks[0].addresses.iter().find(|one| one.address == own).copied();
            found.map(|own| (own.prefix_len, own.preferred))
        };
        assert!(netlink.add_address_with(ifindex, alone).await.unwrap());
        assert_eq!(found().await, Some((128, false)));
        assert!(netlink.add_address_with(ifindex, within).await.unwrap());
        assert_eq!(found().await, Some((64, true)));
        assert!(!netlink.add_address_with(ifindex, alone).await.unwrap());
        assert_eq!(found().await, Some((64, true)));
        assert!(netlink.remove_address(ifindex, own, 64).await.unwrap());
        assert_eq!(found().await, None);
    });
}

#[test]
fn an_address_of_the_host_is_neither_changed_nor_removed() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let ifindex = index(&netlink.view().await.unwrap(), "up1");
        let before = ip("-6 addr");
        let theirs = address("2001:db8:1::1");
        assert!(!add_address(&netlink, ifindex, theirs, 64).await.unwrap());
        assert!(!netlink.remove_address(ifindex, theirs, 64).await.unwrap());
        assert_eq!(ip("-6 addr"), before);
    });
}

/// A DHCPv6 client may set an address again that we have made in the meantime.
#[test]
fn an_address_that_somebody_else_has_set_anew_is_no_longer_ours() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let ifindex = index(&netlink.view().await.unwrap(), "up1");
        let theirs = address("2001:db8:1::77");
        assert!(add_address(&netlink, ifindex, theirs, 128).await.unwrap());
        ip("-6 addr replace 2001:db8:1::77/128 dev up1 valid_lft 600 preferred_lft 300");
        assert!(!netlink.remove_address(ifindex, theirs, 128).await.unwrap());
        assert!(ip("-6 addr show dev up1").contains("2001:db8:1::77/128"));
    });
}

#[test]
fn an_address_of_ours_that_a_person_removes_and_sets_again_is_ours_again() {
    on_host(async |host: Host| {
        let ifindex = index(&host.netlink().view().await.unwrap(), "up1");
        let ours = address("2001:db8:1::77");
        assert!(add_address(&host.netlink(), ifindex, ours, 64).await.unwrap());
        let netlink = host.netlink();
        netlink.view().await.unwrap();
        ip("-6 addr del 2001:db8:1::77/64 dev up1");
        ip("-6 addr add 2001:db8:1::77/64 dev up1 noprefixroute");
        let undone = netlink.undo_all().await;
        assert!(undone.iter().all(|one| !one.is_failure()), "{undone:?}");
        assert!(!ip("-6 addr show dev up1").contains("2001:db8:1::77"));

        ip("-6 addr add 2001:db8:1::77/64 dev up1 noprefixroute");
        assert!(add_address(&netlink, ifindex, ours, 64).await.unwrap());
        assert!(netlink.remove_address(ifindex, ours, 64).await.unwrap());

        ip("-6 addr add 2001:db8:1::77/64 dev up1 noprefixroute");
        assert!(!add_address(&netlink, ifindex, ours, 64).await.unwrap(), "it was removed");
    });
}

#[test]
fn an_address_that_could_not_be_set_is_none_of_ours() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        add_address(&netlink, 4_000, address("2001:db8::1"), 128).await.unwrap_err();
        assert_eq!(netlink.made_hosts().unwrap(), []);
    });
}

#[test]
fn a_refused_change_says_what_and_why() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let error = add_address(&netlink, 4_000, address("2001:db8::1"), 64).await.unwrap_err();
        assert!(error.to_string().contains("2001:db8::1 on interface 4000"), "{error}");
        let error = netlink.keep_ulid(Ulid(address("2001:db8::1"))).await.unwrap_err();
        assert!(matches!(error, Error::NoMoorLink(_)), "{error}");
    });
}

/// Group of notices about links, from linux/rtnetlink.h.
const RTMGRP_LINK: u32 = 1;
